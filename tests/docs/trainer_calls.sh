#!/bin/sh
# trainer_calls.sh SOURCE: each method that a trainer of Ray has stands in the table of
# docs/coming-from-ray-train.md, with public names of ours that are there, or says that it was declined or comes later.
# D13
# shellcheck disable=SC2016 # Backquotes are those of the page.
set -eu
cd "$1"
page=docs/coming-from-ray-train.md
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-calls-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

sh tools/api_names.sh . >"$work/public"
awk '/^## / { on = $0 == "## The methods of a trainer" } on && /^\| `/' "$page" >"$work/rows"
sed 's/^| `\([a-z_]*\)` |.*/\1/' "$work/rows" >"$work/listed"
printf '%s\n' as_trainable can_restore fit get_dataset_config preprocess_datasets restore setup >"$work/methods"
diff "$work/methods" "$work/listed" || {
    echo "$page (>) does not list the methods that a trainer has (<)"
    status=1
}
while IFS='|' read -r _ method ours _; do
    printf '%s\n' "$ours" | grep -o '`[^`]*`' | tr -d '`' >"$work/names" || true
    while read -r name; do
        grep -qxF "$name" "$work/public" || {
            echo "$page: for$method stands '$name', which is no public name"
            status=1
        }
    done <"$work/names"
    case $ours in
    " declined: "* | " later: "*) ;;
    *) [ -s "$work/names" ] || { echo "$page: for$method stands nothing"; status=1; } ;;
    esac
done <"$work/rows"
[ $status -eq 0 ] && echo "$(wc -l <"$work/rows") methods, each with ours or why there is none"
exit $status
