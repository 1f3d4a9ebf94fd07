#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each: scripts/fuzz.sh 30s
set -euo pipefail

time=${1:?usage: scripts/fuzz.sh DURATION}
ran=0
for pkg in $(go list ./...); do
  # -list compiles the tests, so only packages that mention a target are asked.
  dir=$(go list -f '{{.Dir}}' "$pkg")
  grep -qs '^func Fuzz' "$dir"/*_test.go || continue
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz'); do
    echo "fuzz: $pkg $target for $time"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
    ran=$((ran + 1))
  done
done
if [ "$ran" = 0 ]; then
  echo "fuzz: the module has no fuzz target" >&2
  exit 1
fi
echo "fuzz: $ran targets passed"
