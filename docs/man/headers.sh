#!/bin/sh
# headers.sh INCLUDE VERSION OUT: makes manual pages of section 3 from the public headers: one for each
# header (troupe_actor.h.3), an overview (troupe.3), and for each function and macro a page that leads
# to its header's.
set -eu
include=$1 version=$2 out=$3
here=$(dirname "$0")
mkdir -p "$out"
rm -f "$out"/*.3
for header in "$include"/troupe/*.h; do
    name=$(basename "$header" .h)
    case $name in
    export | version) continue ;; # Nothing that a program calls.
    esac
    page=troupe_$name.h
    more=
    [ "$name" != actor ] || more=$include/troupe/detail/class.h # The macros that make classes.
    # shellcheck disable=SC2086
    awk -v page="$page" -v name="$name" -v version="$version" -v names="$out/names" \
        -f "$here/header.awk" "$header" $more >"$out/$page.3"
    # The first header that declares a name has it.
    while read -r alias; do
        [ -e "$out/$alias.3" ] || echo ".so man3/$page.3" >"$out/$alias.3"
    done <"$out/names"
    rm "$out/names"
done
{
    printf '.TH TROUPE 3 "" "Troupe %s" "Troupe"\n' "$version"
    printf '.SH NAME\ntroupe \\- actors, training and sweeps in C\n'
    printf '.SH SYNOPSIS\n.EX\n#include <troupe.h>\n\ncc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs troupe)\n.EE\n'
    printf '.SH DESCRIPTION\nEach public header has a page of its own, which is its text:\n'
    for page in "$out"/troupe_*.h.3; do
        printf '.TP\n.BR %s (3)\n' "$(basename "$page" .3)"
        sed -n '/^\.SH NAME/{n;s/^.* \\- //p;q;}' "$page"
    done
    printf '.PP\nEach function and macro leads to the page of its header:\n.BR man\\~troupe_spawn .\n'
    printf '.SH SEE ALSO\n.BR troupe (1)\n'
} >"$out/troupe.3"
