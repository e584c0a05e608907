#!/bin/sh
# inversion.sh TRAIN TUNE: the library of Train calls nothing that the one of Tune defines, while Tune
# is built on Train.
# B21.
set -eu
train=$1 tune=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-inversion-XXXXXX")
trap 'rm -rf "$work"' EXIT

# names OPTION LIBRARY: of the library's own functions and tables.
names() {
    nm -D "$1" "$2" | awk '{ sub(/@.*/, "", $NF); print $NF }' | grep -E '^(trp|troupe)_' | LC_ALL=C sort -u
}
# uses LOWER UPPER: what the first one takes from the second.
uses() {
    names --undefined-only "$1" >"$work/wanted"
    names --defined-only "$2" >"$work/given"
    LC_ALL=C comm -12 "$work/wanted" "$work/given"
}
[ -n "$(uses "$tune" "$train")" ] || { echo "Tune takes nothing from Train: what this test asks is out of date"; exit 1; }
upward=$(uses "$train" "$tune")
[ -z "$upward" ] || { echo "Train takes from Tune:"; echo "$upward"; exit 1; }
echo "Train takes nothing from Tune"
