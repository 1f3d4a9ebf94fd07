#!/usr/bin/env bash
# Builds a Postgres image for the tests from the Postgres installed on this machine, for machines that reach no image
# registry:
#
#   scripts/postgres-image.sh [IMAGE]        default shapeserver-postgres:test
#
# The image holds the newest installed server, the libraries it loads, its time zones and the locale C.UTF-8, a static
# busybox, and an entrypoint that honours the official image's POSTGRES_PASSWORD, POSTGRES_USER, POSTGRES_DB,
# POSTGRES_INITDB_ARGS and POSTGRES_HOST_AUTH_METHOD, and passes its arguments to postgres. Use it by
# SHAPESERVER_TEST_POSTGRES_IMAGE. Needs docker, busybox-static and the Debian layout of Postgres.
set -euo pipefail

image=${1:-shapeserver-postgres:test}
bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
if [ -z "$bin" ]; then
  echo "postgres-image: no /usr/lib/postgresql/*/bin; install postgresql-15 or newer" >&2
  exit 1
fi
busybox=$(command -v busybox || true)
if [ -z "$busybox" ] || ldd "$busybox" >/dev/null 2>&1; then
  echo "postgres-image: no static busybox; install busybox-static" >&2
  exit 1
fi
lib=${bin%/bin}
major=$(basename "$lib")
share=/usr/share/postgresql/$major

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,etc,tmp,dev,proc,sys,run/postgresql,var/run/postgresql,var/lib/postgresql/data,usr/lib/locale,usr/share} \
  "$root$(dirname "$lib")" "$root$(dirname "$share")"
cp -a "$lib" "$root$(dirname "$lib")/"
cp -a "$share" "$root$(dirname "$share")/"
cp -a /usr/share/zoneinfo "$root/usr/share/"
for l in C.utf8 C.UTF-8; do
  [ -d "/usr/lib/locale/$l" ] && cp -a "/usr/lib/locale/$l" "$root/usr/lib/locale/"
done
rm -rf "$root$lib"/lib/bitcode "$root$lib"/lib/pgxs

# Every library that the server, its tools and its modules load, at the path where they look for it. A module that
# cannot be resolved here (a language nobody installed) cannot be loaded there either.
{ find "$lib/bin" -type f; find "$lib/lib" -name '*.so'; } | while read -r f; do ldd "$f" 2>/dev/null || true; done |
  grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r f; do
  [ -e "$root$f" ] && continue
  mkdir -p "$root$(dirname "$f")"
  cp -L "$f" "$root$f"
done

cp -L "$busybox" "$root/bin/busybox"
for applet in sh cat chmod mkdir rm echo id ls env sleep ps kill grep sed tail; do ln -s busybox "$root/bin/$applet"; done
echo 'root:x:0:0:root:/:/bin/sh
postgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:
postgres:x:999:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chown -R 999:999 "$root/var/lib/postgresql" "$root/run/postgresql" "$root/var/run/postgresql"
chmod 1777 "$root/tmp" "$root/run/postgresql" "$root/var/run/postgresql"
chmod 700 "$root/var/lib/postgresql/data"

cat >"$root/bin/entrypoint" <<'ENTRYPOINT'
#!/bin/sh
# Makes the cluster at the first start, then becomes postgres with the arguments given.
set -eu
user=${POSTGRES_USER:-postgres}
db=${POSTGRES_DB:-$user}
auth=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
[ "${1:-postgres}" = postgres ] || exec "$@"
[ $# = 0 ] || shift
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "$auth" != trust ]; then
    echo "set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust" >&2
    exit 1
  fi
  pw=
  if [ -n "${POSTGRES_PASSWORD:-}" ]; then
    (umask 077; printf '%s\n' "$POSTGRES_PASSWORD" >/tmp/pwfile)
    pw=--pwfile=/tmp/pwfile
  fi
  # shellcheck disable=SC2086 # the arguments are words, as in the official image
  initdb -D "$PGDATA" -U "$user" $pw ${POSTGRES_INITDB_ARGS:-}
  rm -f /tmp/pwfile
  echo "host all all all $auth" >>"$PGDATA/pg_hba.conf"
  if [ "$db" != postgres ]; then
    echo "CREATE DATABASE \"$db\"" | postgres --single -j -D "$PGDATA" postgres
  fi
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/run/postgresql "$@"
ENTRYPOINT
chmod 755 "$root/bin/entrypoint"

tar -C "$root" -c . | docker import \
  --change "ENV PATH=$bin:/bin" --change "ENV PGDATA=/var/lib/postgresql/data" --change "ENV LC_ALL=C" \
  --change "USER postgres" --change "EXPOSE 5432" \
  --change 'ENTRYPOINT ["/bin/entrypoint"]' --change 'CMD ["postgres"]' \
  - "$image" >/dev/null
echo "postgres-image: built $image from $bin ($(docker image inspect --format '{{.Size}}' "$image" | awk '{printf "%.0f MB", $1/1e6}'))"
