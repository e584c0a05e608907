#!/bin/sh
# rooms_test.sh SOURCE CC: rooms.sh finds an include that goes up, a symbol that does, a listed edge
# that is gone, and a room without a place in the order.
set -eu
rooms=$1/tests/tidy/rooms.sh
cc=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-rooms-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p cmake runtime/low runtime/high actors/only

plain() {
    rm -rf runtime/odd objects
    printf 'runtime: low high\nactors: only\n' >cmake/rooms.txt
    echo 'int trp_low(void);' >runtime/low/a.h
    printf '#include <runtime/low/a.h>\nint trp_low(void) { return 1; }\n' >runtime/low/a.c
    echo 'int trp_high(void);' >runtime/high/b.h
    printf '#include <runtime/high/b.h>\n#include <runtime/low/a.h>\nint trp_high(void) { return trp_low(); }\n' \
        >runtime/high/b.c
    printf '#include <runtime/high/b.h>\nint trp_only(void);\nint trp_only(void) { return trp_high(); }\n' >actors/only/c.c
}
# look: builds what is there, and asks.
look() {
    for file in runtime/*/*.c actors/*/*.c; do
        mkdir -p "objects/${file%/*}"
        "$cc" -I. -c "$file" -o "objects/$file.o"
    done
    # shellcheck disable=SC2046
    sh "$rooms" "$work" $(find objects -name '*.o') >said 2>&1
}
refused() {
    if look || ! grep -qF "$1" said; then
        cat said
        echo "expected to be refused: $1"
        exit 1
    fi
}

plain
look || { cat said; echo "what goes down was refused"; exit 1; }
printf '#include <runtime/high/b.h>\n#include <runtime/low/a.h>\nint trp_low(void) { return 1; }\n' >runtime/low/a.c
refused 'runtime/low/a uses runtime/high/b'
echo 'runtime/low/a runtime/high/b' >>cmake/rooms.txt
look || { cat said; echo "a listed edge was refused"; exit 1; }
plain
echo 'runtime/low/a runtime/high/b' >>cmake/rooms.txt
refused 'an edge that is not there any more: runtime/low/a runtime/high/b'
plain
printf '#include <runtime/low/a.h>\nint trp_high(void);\nint trp_low(void) { return trp_high(); }\n' >runtime/low/a.c
refused 'runtime/low/a uses runtime/high/b'
plain
mkdir runtime/odd
printf '#include <runtime/low/a.h>\nint trp_odd(void);\nint trp_odd(void) { return trp_low(); }\n' >runtime/odd/d.c
refused 'does not name the room of runtime/odd/d'
echo "rooms.sh finds what is wrong"
