#!/usr/bin/env bash
# Compares random where clauses with PostgreSQL until PAIRS of a clause and a row, or DURATION, are over, or they differ.
#
#   PAIRS=5000000 PG=17 LOCALE=en_US.UTF-8 SEED=1 scripts/soak-where.sh
#
# PG is a major version, by default the tests' own server. LOCALE is one of libc, or of ICU as in "icu en-US"; by default
# that of the tests. SEED repeats a run.
set -euo pipefail

args=(-where.rows=200)
if [ -n "${PAIRS:-}" ]; then
  args+=("-where.pairs=$PAIRS")
else
  args+=("-where.duration=${DURATION:-10m}")
fi
[ -z "${LOCALE:-}" ] || args+=("-where.locale=$LOCALE")
args+=("-where.seed=${SEED:-$(od -An -N7 -tu8 /dev/urandom | tr -d ' ')}")
if [ -n "${PG:-}" ]; then
  bin=$("$(dirname "$0")/postgres.sh" "$PG")
  export PATH="$bin:$PATH" SHAPESERVER_TEST_POSTGRES=local
fi
exec go run ./internal/pgtest/cmd/pgserver run -- \
  go test -count=1 -timeout 0 -v -run '^TestClausesAgreeWithPostgres$' ./where "${args[@]}"
