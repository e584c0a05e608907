#!/bin/sh
# layers.sh SOURCE: builds a project of two small layers with the real cmake/Layers.cmake, and shows
# that an upward include does not compile and that an upward call does not link.
set -eu
source=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-layers-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/runtime" "$work/actors"
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
echo 'int trp_low(void);' >"$work/runtime/low.h"
echo 'int trp_high(void);' >"$work/actors/high.h"
cat >"$work/actors/high.c" <<'END'
#include <actors/high.h>
#include <runtime/low.h>
int trp_high(void) { return trp_low(); }
END

# build NAME: with what stands on standard input as runtime/low.c.
build() {
    cat >"$work/runtime/low.c"
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

build good <<'END' || { cat "$work/log"; echo "the downward call was refused"; exit 1; }
#include <runtime/low.h>
int trp_low(void) { return 1; }
END

if build include <<'END'
#include <actors/high.h>
#include <runtime/low.h>
int trp_low(void) { return 1; }
END
then
    echo "an upward include compiled"
    exit 1
fi
refused 'actors/high.h: No such file'

if build call <<'END'
#include <runtime/low.h>
int trp_high(void);
int trp_low(void) { return trp_high(); }
END
then
    echo "an upward call linked"
    exit 1
fi
refused 'undefined reference to .trp_high'
echo "upward includes do not compile, upward calls do not link"
