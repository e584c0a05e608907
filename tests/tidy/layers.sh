#!/bin/sh
# layers.sh SOURCE: builds a project of two small layers with the real cmake/Layers.cmake, and shows
# that an include of a higher layer or room, or of a header that is another room's alone, does not
# compile, that one which cmake/rooms.txt lists does, and that an upward call does not link.
set -eu
source=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-layers-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/cmake" "$work/runtime/low" "$work/runtime/mid" "$work/actors/high"
ln -s "$source/include" "$work/include"

cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(troupe VERSION 0.1.0 LANGUAGES C)
set(TROUPE_LAYERED ON)
include($source/cmake/Layers.cmake)
troupe_layer(runtime)
troupe_layer(actors)
troupe_library()
END
printf 'runtime: low mid\nactors: high\n' >"$work/cmake/rooms.txt"
echo 'int trp_low(void);' >"$work/runtime/low/low.h"
echo 'int trp_hidden(void);' >"$work/runtime/low/low_internal.h"
echo 'int trp_mid(void);' >"$work/runtime/mid/mid.h"
echo 'int trp_high(void);' >"$work/actors/high/high.h"
cat >"$work/actors/high/high.c" <<'END'
#include <actors/high/high.h>
#include <runtime/low/low.h>
#include <runtime/mid/mid.h>
int trp_high(void) { return trp_low() + trp_mid(); }
END
mid() {
    printf '#include <runtime/low/low.h>\n#include <runtime/mid/mid.h>\n%s\nint trp_mid(void) { return trp_low(); }\n' \
        "${1:-}" >"$work/runtime/mid/mid.c"
}
mid

# build NAME: with what stands on standard input as runtime/low/low.c.
build() {
    cat >"$work/runtime/low/low.c"
    cmake -G Ninja -S "$work" -B "$work/build-$1" >"$work/log" 2>&1 &&
        cmake --build "$work/build-$1" >>"$work/log" 2>&1
}
refused() {
    if ! grep -q "$1" "$work/log"; then
        cat "$work/log"
        echo "failed, but not with: $1"
        exit 1
    fi
}
# low [HEADER]: low.c, which includes that too.
low() {
    printf '#include <runtime/low/low.h>\n#include <runtime/low/low_internal.h>\n'
    [ -z "${1:-}" ] || printf '#include <%s>\n' "$1"
    printf 'int trp_low(void) { return 1; }\n'
}

low | build good || { cat "$work/log"; echo "the downward call was refused"; exit 1; }

if low actors/high/high.h | build include; then
    echo "an include of a higher layer compiled"
    exit 1
fi
refused 'actors/high/high.h: No such file'

if low runtime/mid/mid.h | build room; then
    echo "an include of a higher room compiled"
    exit 1
fi
refused 'runtime/mid/mid.h: No such file'

echo 'runtime/low/low runtime/mid/mid' >>"$work/cmake/rooms.txt"
low runtime/mid/mid.h | build listed || { cat "$work/log"; echo "a listed edge was refused"; exit 1; }
# And not any more once it is not listed, in the same folder.
printf 'runtime: low mid\nactors: high\n' >"$work/cmake/rooms.txt"
if low runtime/mid/mid.h | build listed; then
    echo "an edge that is listed no more compiled"
    exit 1
fi

mid '#include <runtime/low/low_internal.h>'
if low | build internal; then
    echo "an include of another room's own header compiled"
    exit 1
fi
refused 'runtime/low/low_internal.h: No such file'
mid

if build call <<'END'
#include <runtime/low/low.h>
int trp_high(void);
int trp_low(void) { return trp_high(); }
END
then
    echo "an upward call linked"
    exit 1
fi
refused 'undefined reference to .trp_high'
echo "what goes up, or is another room's alone, is refused"
