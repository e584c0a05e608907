#!/bin/sh
# man.sh SOURCE: the manual pages: one for each command and each public header, which groff renders
# without a warning; and each function that the library exports leads to its header's page.
set -eu
source=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-man-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0
sh "$source/docs/man/headers.sh" "$source/include" 0.0.0 "$work/man3"

complain() {
    echo "$1"
    status=1
}
for header in "$source"/include/troupe/*.h; do
    name=$(basename "$header" .h)
    [ "$name" = export ] || [ -s "$work/man3/troupe_$name.h.3" ] || complain "there is no page of $name.h"
done
# Tables of types, and of what macros wrap, are no functions to look up, nor is what is internal.
for symbol in $(grep -v -e '^#' -e '^troupe_type_' -e '_$' "$source/tools/symbols.txt"); do
    [ -s "$work/man3/$symbol.3" ] || complain "$symbol has no page"
done
for macro in TROUPE_ACTOR TROUPE_ACTOR_STATIC TROUPE_TASK TROUPE_STRUCT TROUPE_TRY troupe_spawn troupe_call; do
    [ -s "$work/man3/$macro.3" ] || complain "$macro has no page"
done
for word in 'typedef struct troupe_options' 'Starts the runtime.' troupe_start; do
    grep -Fq "$word" "$work/man3/troupe_runtime.h.3" || complain "the page of runtime.h does not have: $word"
done
! grep -l 'TROUPE_API\|__attribute__' "$work"/man3/*.3 || complain "pages have what only compilers want"
for command in $(sed -n 's/^    {"\([a-z]*\)", .*/\1/p' "$source/tools/troupe.c"); do
    page=$source/docs/man/troupe-$command.1
    [ -s "$page" ] || complain "troupe $command has no page"
    grep -q "troupe.-$command" "$source/docs/man/troupe.1" || complain "troupe(1) does not name $command"
done

if command -v groff >/dev/null 2>&1; then
    for page in "$source"/docs/man/*.1 "$work"/man3/*.h.3 "$work/man3/troupe.3"; do
        LC_ALL=C.UTF-8 groff -man -ww -Tutf8 -z "$page" >"$work/said" 2>&1 || complain "$page: groff failed"
        [ ! -s "$work/said" ] || { cat "$work/said"; complain "$page: groff warns"; }
    done
else
    echo "SKIPPED: pages are not rendered, since groff is missing here (Debian's package groff-base)"
fi
[ $status -eq 0 ] && echo "the manual pages are whole"
exit $status
