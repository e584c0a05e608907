#!/bin/sh
# api_test.sh ROOT: api.sh finds a declaration without its macro, and a name without its row.
set -eu
root=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-api-XXXXXX")
trap 'rm -rf "$work"' EXIT
plant() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree"
    cp -r "$root/include" "$root/tools" "$root/CHANGELOG.md" "$work/tree"
}
expect() {
    if sh "$root/tests/tidy/api.sh" "$work/tree" >"$work/out" || ! grep -q "$1" "$work/out"; then
        echo "planted, but not found: $1"
        cat "$work/out"
        exit 1
    fi
}
plant
sed -i 's/^TROUPE_API int troupe_stop/int troupe_stop/' "$work/tree/include/troupe/runtime.h"
expect 'no TROUPE_API or TROUPE_EXPERIMENTAL: *int troupe_stop'
plant
sed -i '/^| `troupe_seal`/d' "$work/tree/CHANGELOG.md"
expect 'troupe_seal of 0.1 has gone'
plant
sed -i 's/`troupe_buffer_seal`/`troupe_buffer_sela`/' "$work/tree/CHANGELOG.md"
expect 'troupe_buffer_sela'
plant
sed -i 's/\bready_count\b/how_many/; s/size_t stealth;//; s/bool get_if_exists;//' "$work/tree/include/troupe/actor.h"
expect 'troupe_spawn_options.get_if_exists of 0.1 has gone'
echo "four plants, four findings"
