#!/bin/sh
# environment.sh SOURCE: the table of docs/environment.md has each environment variable that the
# library, the command and the examples read, and no other.
set -eu
cd "$1"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-environment-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

sources="runtime actors train models tune serve server tools examples"
# Read by name; through worker_output.c's is_set_to; and by the one name that is a macro.
{
    # shellcheck disable=SC2086
    grep -rhoE '(getenv|is_set_to)\("[A-Z_]+"' $sources --include=*.c --include=*.h
    sed -n 's/^#define TRP_WORKER_VARIABLE \("[A-Z_]*"\).*/(\1/p' runtime/node/*.h
} | sed 's/^[^"]*"//; s/"$//' | sort -u >"$work/read"
# shellcheck disable=SC2016
sed -n 's/^| `\([A-Z_]*\)` .*/\1/p' docs/environment.md | sort >"$work/listed"
diff "$work/listed" "$work/read" || {
    echo "docs/environment.md (<) does not list what the sources read (>)"
    status=1
}
# A variable that is read in another way would be missed above.
# shellcheck disable=SC2086
grep -rnE 'getenv\([^"]' $sources --include=*.c --include=*.h |
    grep -v 'getenv(TRP_WORKER_VARIABLE)' | grep -v 'worker_output\.c:.*getenv(variable)' && {
    echo "a variable is read that environment.sh cannot name: read it by a literal, or teach the test"
    status=1
}
[ $status -eq 0 ] && echo "docs/environment.md lists what is read"
exit $status
