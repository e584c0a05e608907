#!/bin/sh
# inversion.sh SOURCE ACTORS TRAIN MODELS TUNE: the library of Train calls nothing that the one of Tune
# defines, and Tune takes of Train and of the layers beside it public functions alone. It makes no
# workers: its one actor is the controller of a sweep, in the process that runs the sweep.
# B21.
set -eu
source=$1 actors=$2 train=$3 models=$4 tune=$5
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-inversion-XXXXXX")
trap 'rm -rf "$work"' EXIT
grep -v '^#' "$source/tools/symbols.txt" | LC_ALL=C sort -u >"$work/public"

# names OPTION LIBRARY: of the library's own functions and tables.
names() {
    nm -D "$1" "$2" | awk '{ sub(/@.*/, "", $NF); print $NF }' | grep -E '^(trp|troupe)_' | LC_ALL=C sort -u
}
# uses ONE OTHER: what the first one takes from the second.
uses() {
    names --undefined-only "$1" >"$work/wanted"
    names --defined-only "$2" >"$work/given"
    LC_ALL=C comm -12 "$work/wanted" "$work/given"
}
# takes_private ONE OTHER: what of that is not public.
takes_private() {
    uses "$1" "$2" | LC_ALL=C comm -23 - "$work/public"
}

[ -n "$(uses "$tune" "$train")" ] || { echo "Tune takes nothing from Train: what this test asks is out of date"; exit 1; }
[ -n "$(takes_private "$train" "$actors")" ] || { echo "Train takes nothing private from actors: this test sees nothing"; exit 1; }
upward=$(uses "$train" "$tune")
[ -z "$upward" ] || { echo "Train takes from Tune:"; echo "$upward"; exit 1; }
for layer in "$actors" "$train" "$models"; do
    private=$(takes_private "$tune" "$layer")
    [ -z "$private" ] || { echo "Tune takes from ${layer##*/} what is not public:"; echo "$private"; exit 1; }
done
# A wait of its own gives way to others; the rest is what the controller is as an actor.
cat >"$work/allowed" <<'END'
troupe_actor_exit_with
troupe_actor_status
troupe_actor_with
troupe_blocking_call
troupe_class_register
troupe_self
troupe_spawn_as
troupe_tell_as
troupe_timer_start_as
troupe_timer_stop
END
of_actors=$(uses "$tune" "$actors" | grep -vxFf "$work/allowed" || true)
[ -z "$of_actors" ] || { echo "Tune is to submit jobs, and takes of actors:"; echo "$of_actors"; exit 1; }
spawns=$(grep -rnE 'troupe_spawn' "$source/tune" --include='*.[ch]')
case $spawns in
*"
"* | '') echo "Tune is to make one actor, in one place:"; echo "$spawns"; exit 1 ;;
*/tune/sweep/controller.c:*"TROUPE_PLACE_HERE)"*) ;;
*) echo "Tune is to make its actor in the process that it is in:"; echo "$spawns"; exit 1 ;;
esac
echo "Train takes nothing from Tune, and Tune of Train what is public alone"
