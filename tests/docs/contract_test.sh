#!/bin/sh
# contract_test.sh SOURCE: shows that contract.sh finds each kind of mistake, and nothing where all is
# right.
set -eu
contract=$1/tests/docs/contract.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-contract-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
mkdir -p "$work/docs" "$work/tests/train" "$work/tests/tidy"

# table ROW...: the tree's page has these rows.
table() {
    {
        printf '# Contract\n\n| Row | Capability | Shown by |\n|---|---|---|\n'
        [ $# -eq 0 ] || printf '%s\n' "$@"
    } >"$work/docs/contract.md"
}
# tests COMMENT: the tree has a test with this line above it, and one without.
tests() {
    printf '// test_run.c: x.\nstatic void test_other(void **state)\n{\n}\n\n%s\n// More words.\n' "$1"
    printf 'static void test_run(void **state)\n{\n}\n'
    printf 'cmocka_unit_test(test_other),\ncmocka_unit_test(test_run),\n'
} >"$work/tests/train/test_run.c"
# expect SENTENCE: contract.sh fails and says so.
expect() {
    if sh "$contract" "$work" >"$work/out" 2>&1; then
        echo "not found: $1"
        status=1
    elif ! grep -qF "$1" "$work/out"; then
        echo "expected: $1"
        cat "$work/out"
        status=1
    fi
}

# shellcheck disable=SC2016
run='| A01 | runs | `train/test_run:test_run` |' other='| A02 | runs, too | `train/test_run:test_run` |'
# shellcheck disable=SC2016
script='| A03 | checks | `tidy/check.sh` |'
printf '#!/bin/sh\n# A03.\n' >"$work/tests/tidy/check.sh"
tests '// A01, A02.'
table "$run" "$other" "$script" '| A04 | more | declined: nobody needs it |' '| A05 | x | open: all of it |'
sh "$contract" "$work" >"$work/out" || { cat "$work/out"; status=1; }
table "$run" "$script"
expect 'row A02 does not name train/test_run:test_run'
table "$run" "$other"
expect 'row A03 does not name tidy/check.sh'
table "$run" "$other" "$script" "$run"
expect 'A01 is there twice'
table "$run" "$other" "$script" '| A04 | more | |'
expect 'A04 has no test and does not say'
table "$run" "$other" "$script" '| A04 | more | open: |'
expect 'A04 has no test and does not say'
table "$run" "$other" "$script"
tests '// A01, A02: it runs.'
sh "$contract" "$work" >"$work/out" || { cat "$work/out"; status=1; }
tests '// A01.'
expect 'train/test_run:test_run does not say that it shows A02'
tests '// A01, A02'
sed -i 's/cmocka_unit_test(test_run)//' "$work/tests/train/test_run.c"
expect 'tests/train/test_run.c does not run test_run'
table
expect 'docs/contract.md has no table of rows'
[ $status -eq 0 ] && echo "contract.sh finds what is wrong"
exit $status
