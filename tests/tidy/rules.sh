#!/bin/sh
# rules.sh SOURCE: reads every C file of the tree and says where it breaks a rule of the house, one
# line each; ends with 1 if there was any. What a compiler or linker can enforce is not here.
set -eu
cd "$1"

folders=
for folder in include runtime actors train models tune serve server launch tests examples benchmarks tools; do
    [ ! -d $folder ] || folders="$folders $folder"
done
# shellcheck disable=SC2086
files=$(find $folders -name '*.[ch]' -type f | sort)
[ -n "$files" ] || { echo "no C files found below $1"; exit 1; }

# shellcheck disable=SC2086
awk '
function complain(text) { print FILENAME ":" FNR ": " text; found = 1 }
function layer_number(name) {
    return name == "runtime" ? 1 : name == "actors" ? 2 : name == "train" ? 3 : name == "models" ? 4 : name == "tune" ? 5 : name == "serve" ? 6 : name == "server" ? 7 : 0
}
FNR == 1 {
    if (previous != "" && lines > 1000)
        { print previous ":" lines ": the file has " lines " lines; 1000 are allowed"; found = 1 }
    previous = FILENAME
    parts = split(FILENAME, part, "/")
    base = part[parts]
    folder = part[1]
    level = layer_number(folder)
    public = folder == "include"
    in_comment = 0; function_start = 0; unformatted = 0
    if (index($0, "// " base ": ") != 1)
        complain("the file does not begin with \"// " base ": what it answers for\"")
}
{ lines = FNR }
FNR <= 10 && folder == "tests" && base ~ /^test_/ && /((timeout|cost): [0-9]|label: [a-z]|again: [a-z]+ [a-z]+ [0-9])/ &&
!/^\/\/ (timeout|label|cost|again): / {
    complain("what tests/CMakeLists.txt is to read does not begin its line")
}
/clang-format off/ { unformatted = 1 }
/clang-format on/ { unformatted = 0 }
length($0) > 100 && !unformatted { complain("the line has " length($0) " columns; 100 are allowed") }
/^\{/ { function_start = FNR }
/^\}/ {
    if (function_start && FNR - function_start + 1 > 70)
        complain("the function that ends here has " (FNR - function_start + 1) " lines; 70 are allowed")
    function_start = 0
}
/^[ \t]*#[ \t]*include/ {
    if ($0 ~ /["<]\.\.\// || $0 ~ /\/\.\.\//)
        complain("an include goes up by \"..\"")
    target = $0
    sub(/^[^<"]*[<"]/, "", target)
    sub(/[>"].*/, "", target)
    above = target
    sub(/\/.*/, "", above)
    if (level && target ~ /\// && layer_number(above) > level)
        complain(folder " includes " target " of a layer above it")
    if (folder == "serve" && above == "tune")
        complain(folder " includes " target " of a layer that it stands beside")
    if (folder == "tune" && above ~ /^(actors|train|models)$/)
        complain("tune includes " target ": it uses the public headers of Train and of models alone")
    if (public && target ~ /\// && (layer_number(above) || $0 ~ /"/))
        complain("a public header includes " target ", which is not public")
    if (public && target ~ /^(zmq|msgpack|xxhash|microhttpd)/)
        complain("a public header includes " target " of a library that users need not have")
    if (level && target == "zmq.h" && FILENAME != "runtime/link/zmq_internal.h")
        complain("only runtime/link/zmq_internal.h may include zmq.h")
    if (level && target == "microhttpd.h" && FILENAME != "serve/http_library.h")
        complain("only serve/http_library.h may include microhttpd.h")
    if (level && target == "uthash.h" && FILENAME != "runtime/base/hash.h")
        complain("only runtime/base/hash.h may include uthash.h, which it gives our memory")
}
{
    code = $0
    gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
    if (in_comment) {
        if (!sub(/^.*\*\//, "", code)) code = ""
        else in_comment = 0
    }
    gsub(/\/\*[^*]*\*\//, "", code)
    sub(/\/\/.*/, "", code)
    if (code ~ /\/\*/) { in_comment = 1; sub(/\/\*.*/, "", code) }
    if (level && FILENAME != "runtime/base/memory.c" &&
        code ~ /(^|[^A-Za-z0-9_.>])(malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|vasprintf|posix_memalign|aligned_alloc)[ ]*\(/)
        complain("only runtime/base/memory.c may call malloc and its kin; use trp_alloc and trp_free")
    if (public && code ~ /trp_/)
        complain("a public header speaks of trp_, which users do not have")
    if (code ~ /^[ \t]*typedef .*[A-Za-z0-9]_t[ \t]*(;|\[)/ || code ~ /^\}[ \t]*[A-Za-z0-9_]+_t[ \t]*;/ ||
        code ~ /^[ \t]*typedef .*\(\*[A-Za-z0-9_]+_t\)/)
        complain("a type is named ..._t; those names belong to POSIX")
}
END {
    if (lines > 1000)
        { print previous ":" lines ": the file has " lines " lines; 1000 are allowed"; found = 1 }
    exit found
}' $files
