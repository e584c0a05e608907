#!/bin/sh
# compare.sh PROGRAM FILE: runs a program, which must succeed and print exactly what the file holds, in a folder that is
# removed.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-compare-XXXXXX")
trap 'rm -rf "$work"' EXIT
got=$(cd "$work" && "$1")
if [ "$got" != "$(cat "$2")" ]; then
    printf 'expected:\n%s\nfound:\n%s\n' "$(cat "$2")" "$got"
    exit 1
fi
