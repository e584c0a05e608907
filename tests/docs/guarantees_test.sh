#!/bin/sh
# guarantees_test.sh SOURCE: shows that guarantees.sh finds each kind of mistake, and nothing in a
# table that is right.
set -eu
guarantees=$1/tests/docs/guarantees.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-guarantees-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

mkdir -p "$work/docs" "$work/tests/actors"
echo 'int main(void) { return cmocka_unit_test(test_order); }' >"$work/tests/actors/test_call.c"

# table ROW...: the tree's page has these guarantees.
table() {
    {
        echo '# What is guaranteed'
        [ $# -eq 0 ] || printf '| Guaranteed | Not guaranteed | Shown by |\n|---|---|---|\n'
        [ $# -eq 0 ] || printf '%s\n' "$@"
        echo '## Not there'
    } >"$work/docs/guarantees.md"
}

# expect SENTENCE: guarantees.sh fails and says so.
expect() {
    if sh "$guarantees" "$work" >"$work/out" 2>&1; then
        echo "not found: $1"
        status=1
    elif ! grep -qF "$1" "$work/out"; then
        echo "expected: $1"
        cat "$work/out"
        status=1
    fi
}

# shellcheck disable=SC2016
right='| In order | Any other | `actors/test_call:test_order` |'
table "$right"
sh "$guarantees" "$work" || status=1
table "$right" '| No test | named here |  |'
expect 'No test is named by: | No test'
# shellcheck disable=SC2016
table '| No test | but `code` in another column | none |'
expect 'No test is named by: | No test'
# shellcheck disable=SC2016
table '| In order | | `actors/test_call:test_disorder` |' "$right"
expect 'tests/actors/test_call.c does not run test_disorder'
# shellcheck disable=SC2016
table '| In order | | `actors/test_none:test_order` |'
expect 'tests/actors/test_none.c does not run test_order'
table
expect 'docs/guarantees.md has no table'
[ $status -eq 0 ] && echo "guarantees.sh finds what is wrong"
exit $status
