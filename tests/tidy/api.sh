#!/bin/sh
# api.sh ROOT: each public declaration says how stable it is, and each public name of 0.1 that has
# gone stands in the table of CHANGELOG.md beside what took its place.
# A21.
set -eu
root=$1 failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-api-XXXXXX")
trap 'rm -rf "$work"' EXIT

# Declarations without a macro of stability: what has neither TROUPE_API nor TROUPE_EXPERIMENTAL.
for header in "$root"/include/troupe/*.h; do
    sed 's://.*$::' "$header" | awk -v header="${header##*/}" '
        { while ($0 ~ /\\$/) { if ((getline more) <= 0) more = ""; sub(/\\$/, ""); $0 = $0 more } }
        /^#/ { next }
        { text = text " " $0 }
        END {
            while (match(text, /\{[^{}]*\}/))
                text = substr(text, 1, RSTART - 1) ";" substr(text, RSTART + RLENGTH)
            n = split(text, parts, ";")
            for (i = 1; i <= n; i++)
                if (parts[i] ~ /[a-z_] [*]?troupe_[a-z_0-9]*\(/ && parts[i] !~ /typedef|static/ &&
                    parts[i] !~ /TROUPE_API|TROUPE_EXPERIMENTAL/)
                    print header ": no TROUPE_API or TROUPE_EXPERIMENTAL:" parts[i]
        }'
done >"$work/bare"
if [ -s "$work/bare" ]; then
    cat "$work/bare"
    failed=1
fi

# The first column of the table: the names between backquotes in rows "| `old` | ... |".
awk '/^## / { on = $2 == "0.2.0," } on && /^\| `/' "$root/CHANGELOG.md" >"$work/table"
sed 's/^| \([^|]*\)|.*/\1/' "$work/table" | grep -o '`[^`]*`' | tr -d '`' | LC_ALL=C sort -u >"$work/old"
sed 's/^| [^|]*|\([^|]*\)|.*/\1/' "$work/table" | grep -o '`[^`]*`' | tr -d '`' | LC_ALL=C sort -u >"$work/new"
sh "$root/tools/api_names.sh" "$root" >"$work/now"
grep -v '^#' "$root/tools/symbols-0.1.txt" | LC_ALL=C comm -23 - "$work/now" >"$work/gone"
while read -r name; do
    # The fields of a struct that has gone go with it.
    grep -qxF "$name" "$work/old" || grep -qxF "${name%%.*}" "$work/old" || {
        echo "$name of 0.1 has gone, and CHANGELOG.md does not say what took its place"
        failed=1
    }
done <"$work/gone"
while read -r name; do
    case $name in
    troupe_*\ * | *\(* | .*) continue ;; # An expression, or an option by its field.
    esac
    grep -qxF "$name" "$work/now" || {
        echo "CHANGELOG.md: \`$name\` is said to take a name's place, and is no public name"
        failed=1
    }
done <"$work/new"
[ "$failed" = 0 ] && echo "$(wc -l <"$work/gone") names of 0.1 have gone, each with what took its place"
exit "$failed"
