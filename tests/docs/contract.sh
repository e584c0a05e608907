#!/bin/sh
# contract.sh SOURCE: the rows of docs/contract.md and the tests that name them. A row has tests, or says
# that it was declined, comes later or is open. A test names its rows in a line of its comment
# ("// B12, B13" or "// B12: ..."), a script in such a line of its own ("# B21"); each such pair stands on both sides, and
# each test is run by its program.
set -eu
cd "$1"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-contract-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

# Row and test of each line of the table; "row <id>" for each row.
awk -F'|' '
/^\| [A-G][0-9][0-9] \|/ {
    id = $2; gsub(/ /, "", id)
    print "row " id
    where = $4
    if (where !~ /`[a-z]+\/[^`]*`/ && where !~ /(^|; )? ?(declined|later|open): [^ ]/)
        print "bad " id " has no test and does not say declined:, later: or open: with a reason"
    while (match(where, /`[a-z]+\/[^`]*`/)) {
        print "pair " id " " substr(where, RSTART + 1, RLENGTH - 2)
        where = substr(where, RSTART + RLENGTH)
    }
}' docs/contract.md >"$work/table"
sed -n 's/^bad //p' "$work/table" >"$work/bad"
[ ! -s "$work/bad" ] || { cat "$work/bad"; status=1; }
grep '^row ' "$work/table" | sort >"$work/rows" || true
[ -s "$work/rows" ] || { echo "docs/contract.md has no table of rows"; status=1; }
uniq -d "$work/rows" | sed 's/^row \(.*\)/\1 is there twice/' >"$work/twice"
[ ! -s "$work/twice" ] || { cat "$work/twice"; status=1; }
sed -n 's/^pair //p' "$work/table" | sort -u >"$work/named"

# The same pairs as the tests have them.
find tests -name '*.c' -o -name '*.sh' | sort | while read -r file; do
    program=${file#tests/}
    case $program in
    *.c) program=${program%.c} ;;
    esac
    case $program in
    *.sh) ;;
    */*.*) program=${program%.*} ;; # A further part of a program.
    esac
    awk -v program="$program" -v script="${file##*.}" '
    /^(\/\/|#) [A-G][0-9][0-9](, [A-G][0-9][0-9])*(\.?$|: )/ {
        ids = substr($0, index($0, " ") + 1)
        sub(/:.*/, "", ids)
        gsub(/[,.]/, "", ids)
        if (script != "sh")
            next
        count = split(ids, id, " ")
        for (i = 1; i <= count; i++)
            print id[i] " " program
        next
    }
    /^\/\// { next }
    /^static void test_/ && ids != "" {
        name = $3
        sub(/\(.*/, "", name)
        count = split(ids, id, " ")
        for (i = 1; i <= count; i++)
            print id[i] " " program ":" name
    }
    { ids = "" }' "$file"
done | sort -u >"$work/claimed"

comm -23 "$work/named" "$work/claimed" | sed 's/^\([^ ]*\) \(.*\)/docs\/contract.md: \2 does not say that it shows \1/' >"$work/wrong"
comm -13 "$work/named" "$work/claimed" | sed 's/^\([^ ]*\) \(.*\)/docs\/contract.md: row \1 does not name \2/' >>"$work/wrong"
[ ! -s "$work/wrong" ] || { cat "$work/wrong"; status=1; }
cut -d' ' -f2 "$work/named" | sort -u | while IFS=: read -r program test; do
    case $program in
    *.sh) [ -f "tests/$program" ] || echo "there is no tests/$program" ;;
    *) cat "tests/$program".c "tests/$program".*.c 2>/dev/null | grep -qE "(unit_test[a-z_]*|ROW|TEST|CASE)\(${test}[,)]" ||
        echo "tests/$program.c does not run $test" ;;
    esac
done >"$work/missing"
[ ! -s "$work/missing" ] || { cat "$work/missing"; status=1; }
if [ $status -eq 0 ]; then
    echo "$(wc -l <"$work/rows") rows, $(cut -d' ' -f1 "$work/named" | sort -u | wc -l) with tests that name them"
fi
exit $status
