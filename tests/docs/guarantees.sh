#!/bin/sh
# guarantees.sh SOURCE: each row of the guarantees in docs/guarantees.md names tests, and each of those is
# in a program of tests/ and is run by it.
set -eu
cd "$1"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-guarantees-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

grep '^|' docs/guarantees.md | grep -v '^| Guaranteed |' | grep -v '^|---' >"$work/rows" || true
[ -s "$work/rows" ] || { echo "docs/guarantees.md has no table of guarantees"; status=1; }
while read -r row; do
    # shellcheck disable=SC2016
    printf '%s\n' "$row" | cut -d'|' -f4 | grep -o '`[^`]*`' | tr -d '`' >"$work/named"
    [ -s "$work/named" ] || {
        echo "No test is named by: $row"
        status=1
    }
    while IFS=: read -r program test; do
        grep -qsE "(unit_test[a-z_]*|ROW|TEST)\($test[,)]" "tests/$program.c" || {
            echo "tests/$program.c does not run $test"
            status=1
        }
    done <"$work/named"
done <"$work/rows"
[ $status -eq 0 ] && echo "every guarantee names its tests"
exit $status
