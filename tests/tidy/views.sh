#!/bin/sh
# views.sh BINARY SOURCE CC: the build shows each file its own room and those below it, without the
# headers that are another room's alone; the compiler refuses an include of anything else.
set -eu
build=$1
source=$2
cc=$3

# compiles ROOM HEADER: whether a file of that room can include it.
compiles() {
    printf '#include <%s>\n' "$2" | "$cc" -std=gnu17 -D_GNU_SOURCE -fsyntax-only -I "$build/rooms/view/$1" \
        -I "$source/include" -I "$build/include" -x c - 2>/dev/null
}
sees() {
    compiles "$1" "$2" || { echo "$1 does not see <$2>"; exit 1; }
}
refuses() {
    [ -e "$source/$2" ] || { echo "$2 is no file: what this test asks is out of date"; exit 1; }
    ! compiles "$1" "$2" || { echo "$1 sees <$2>, which is not below it or another room's alone"; exit 1; }
}

sees runtime/link runtime/link/peer.h
sees runtime/link runtime/link/zmq_internal.h
sees runtime/link runtime/store/store.h
sees actors/class runtime/link/peer.h
sees train actors/call/call.h
refuses runtime/base runtime/shm/segment.h
refuses runtime/shm runtime/link/park.h
refuses runtime/link runtime/node/server.h
refuses runtime/store runtime/shm/pages_internal.h
refuses runtime/remote runtime/link/zmq_internal.h
refuses runtime/node actors/ref/ref.h
refuses actors/actor runtime/shm/pages_internal.h
refuses actors/spawn actors/lib/queue_items.h
refuses train runtime/remote/session_internal.h
refuses actors/ref train/job.h
# Every room has a view.
for folder in "$source"/runtime/*/ "$source"/actors/*/; do
    room=${folder#"$source"/}
    [ -d "$build/rooms/view/$room" ] || { echo "${room%/} has no view"; exit 1; }
done
echo "each room sees what it may"
