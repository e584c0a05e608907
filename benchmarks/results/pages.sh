#!/bin/sh
# pages.sh check|write SOURCE: compares the figures in docs/performance.md and README.md with the saved
# runs that performance.sh names, or writes them there. They stand from a line "<!-- figures ... -->" to
# the next "<!-- end of figures -->".
set -eu
what=$1
cd "$2"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-figures-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

for page in docs/performance.md:page README.md:short; do
    file=${page%:*}
    sh benchmarks/results/performance.sh "${page#*:}" benchmarks/results >"$work/figures"
    awk -v figures="$work/figures" '
        /^<!-- end of figures -->$/ { inside = 0 }
        !inside { print }
        /^<!-- figures/ { inside = 1; while ((getline line < figures) > 0) print line }
    ' "$file" >"$work/page"
    cmp -s "$file" "$work/page" && continue
    if [ "$what" = write ]; then
        cat "$work/page" >"$file"
        echo "$file has new figures"
    else
        diff "$file" "$work/page" || true
        echo "$file is not what the saved runs say: run ./dev figures"
        status=1
    fi
done
[ $status -eq 0 ] && echo "the pages have the figures of the saved runs"
exit $status
