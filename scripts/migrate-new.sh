#!/usr/bin/env bash
# Makes the two files of the next migration: scripts/migrate-new.sh add_owner
set -euo pipefail

name=${1:-}
if [[ ! $name =~ ^[a-z][a-z0-9_]*$ ]]; then
  echo "migrate-new: want a name of lower-case letters, digits and underscores, as in: make migrate/new NAME=add_owner" >&2
  exit 1
fi
cd "$(dirname "$0")/../migrations"
last=$(find . -name '[0-9]*_*.up.sql' -printf '%f\n' | sort | tail -n 1 | cut -d_ -f1)
next=$(printf '%04d' $((10#${last:-0} + 1)))
printf -- '-- What this changes, and why.\n' >"${next}_$name.up.sql"
printf -- '-- Undoes %s_%s.up.sql.\n' "$next" "$name" >"${next}_$name.down.sql"
echo "migrations/${next}_$name.up.sql"
echo "migrations/${next}_$name.down.sql"
