#!/bin/sh
# rooms.sh [-g] SOURCE OBJECT...: which file of a layer uses which, by includes and by the symbols
# of the objects, compared with the order of the rooms (cmake/rooms.txt). An edge that goes up is
# wrong unless that file lists it with its cure; a listed one that is not there any more is wrong
# too, so that the list only shrinks. -g: prints how many edges go from each room to each.
set -eu
graph=
[ "$1" != -g ] || { graph=1; shift; }
cd "$1"
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-rooms-XXXXXX")
trap 'rm -rf "$work"' EXIT

# Edges by includes: "runtime/store/row runtime/shm/segment".
find runtime actors -name '*.[ch]' -exec grep -oE '^#include <(runtime|actors)/[a-z_]+/[a-z_0-9]+\.h>' {} + |
    sed -E 's/\.[ch]:#include </ /; s/\.h>$//' >"$work/edges"

# By symbols: who defines one, and who has it undefined.
nm -A "$@" | sed -nE 's,^.*/((runtime|actors)/[a-z_]+/[a-z_0-9]+)\.c\.o:[0-9a-f ]* ([A-Za-z]) ((trp|troupe)_.*)$,\1 \3 \4,p' |
    awk '$2 ~ /[TDBRVWC]/ { home[$3] = $1 }
         $2 == "U" { uses[$1 " " $3] = 1 }
         END { for (use in uses) { split(use, part, " "); if (part[2] in home) print part[1], home[part[2]] } }' \
    >>"$work/edges"
[ -s "$work/edges" ] || { echo "no edges were found"; exit 1; }

sort -u "$work/edges" | awk -v graph="$graph" '
    function room(file) { sub(/\/[^\/]*$/, "", file); return file }
    function layer(file) { sub(/\/.*/, "", file); return file }
    FNR == NR && /^(runtime|actors):/ {
        name = substr($1, 1, length($1) - 1)
        for (i = 2; i <= NF; i++) { rank[name "/" $i] = ++count; order[count] = name "/" $i }
        next
    }
    FNR == NR && NF == 2 && !/^#/ { listed[$0] = 1; next }
    FNR == NR { next }
    {
        from = room($1); to = room($2)
        if (!(from in rank) || !(to in rank)) { print "cmake/rooms.txt does not name the room of " $1 " or " $2; wrong = 1; next }
        edges[from " " to]++
        if (layer($1) != layer($2) || rank[to] <= rank[from]) next
        up++
        if ($0 in listed) seen[$0] = 1
        else { print $1 " uses " $2 ", which is in a higher room: " to " stands above " from " in cmake/rooms.txt"; wrong = 1 }
    }
    END {
        for (edge in listed) if (!(edge in seen)) { print "cmake/rooms.txt lists an edge that is not there any more: " edge; wrong = 1 }
        if (graph) for (i = 1; i <= count; i++) for (j = 1; j <= count; j++)
            if (order[i] " " order[j] in edges) print order[i], "->", order[j], edges[order[i] " " order[j]] (i < j && layer(order[i]) == layer(order[j]) ? "  up" : "")
        if (!wrong) print "no edge goes up but " up + 0 " that are listed"
        exit wrong
    }' cmake/rooms.txt -
