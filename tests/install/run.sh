#!/bin/sh
# run.sh WAY BUILD SOURCE: installs the build into a fresh prefix, and builds and runs the programs of
# this folder against that prefix alone. WAY: pkgconfig, static, cmake,
# cxx, or examples: as docs/building.md says.
# shellcheck disable=SC2046,SC2086
set -eu
way=$1 build=$2 source=$3
here=$source/tests/install
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-install-XXXXXX")
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
unit=$work/first/lib/systemd/user/troupe.service
if [ -e "$work/first/bin/troupe-server" ]; then # Its unit starts it, and has options that it knows.
    line=$(sed -n 's/^ExecStart=//p' "$unit")
    [ "${line%% *}" = "$work/first/bin/troupe" ] || { echo "the unit starts: $line"; exit 1; }
    $line --help >/dev/null
fi
# The tree is moved after it was installed: nothing in it may know where it was.
mv "$work/first" "$work/prefix"
libraries=$(dirname "$(find "$work/prefix" -name libtroupe.a)")
export PKG_CONFIG_PATH="$libraries/pkgconfig"
cp "$here/consumer.c" "$here/consumer.cpp" "$here/CMakeLists.txt" "$work"
cd "$work"
flags="-Wall -Wextra -Wpedantic -Werror"

"$work/prefix/bin/troupe" memory --help >/dev/null # It finds its library beside it.
bash -c ". $work/prefix/share/bash-completion/completions/troupe && complete -p troupe" >/dev/null

# hosted FLAG...: a program that cannot be executed again, whose workers are the installed command with a
# library of these flags.
hosted() {
    cc $flags "$source/tests/plugin/plugin.c" -shared -fPIC "$@" -o libplugin.so
    cc $flags "$source/tests/plugin/host.c" -ldl -lpthread -o host
    TROUPE_COMMAND=$work/prefix/bin/troupe LD_LIBRARY_PATH=$libraries ./host "$work/libplugin.so"
}

# A job of the installed train server, whose program the installed launcher starts.
has_a_server() (
    export TROUPE_STATE="$work/state" TROUPE_SERVER=
    troupe=$work/prefix/bin/troupe
    [ -e "$work/prefix/bin/troupe-server" ] || exit 0
    trap '"$troupe" server stop >/dev/null' EXIT
    "$troupe" server start >/dev/null
    # shellcheck disable=SC2016
    "$troupe" submit --storage "$work/runs" -n 2 --follow -- sh -c 'echo "rank $RANK of $WORLD_SIZE"' >job ||
        { cat job; "$troupe" jobs -a; exit 1; }
    "$troupe" logs --rank 1 1 >lines
    grep -qx '(rank 1) rank 1 of 2' lines || { cat lines; exit 1; }
)

uses_shared() { ldd "$1" | grep -q 'libtroupe\.so\.0 =>'; }

case $way in
pkgconfig)
    cc -std=c11 $flags consumer.c $(pkg-config --cflags --libs troupe) -o consumer
    LD_LIBRARY_PATH=$libraries ./consumer
    LD_LIBRARY_PATH=$libraries uses_shared ./consumer
    hosted $(pkg-config --cflags --libs troupe)
    # The static form of the same names every library behind it as well.
    cc $flags consumer.c $(pkg-config --static --cflags --libs troupe) -o consumer
    LD_LIBRARY_PATH=$libraries ./consumer
    has_a_server
    ;;
static)
    cc $flags consumer.c $(pkg-config --cflags --libs troupe-static) -o consumer
    ! uses_shared ./consumer
    ./consumer
    hosted $(pkg-config --cflags --libs troupe-static)
    cc $flags "$here/objects.c" $(pkg-config --cflags --libs troupe-static) -o objects
    ./objects
    ;;
cmake)
    cmake -G Ninja -S . -B cmake-build -DCMAKE_PREFIX_PATH="$work/prefix" >cmake.log 2>&1 &&
        cmake --build cmake-build >>cmake.log 2>&1 || { cat cmake.log; exit 1; }
    uses_shared cmake-build/consumer
    ! uses_shared cmake-build/consumer_static
    cmake-build/consumer
    cmake-build/consumer_static
    ;;
cxx)
    for standard in c++11 c++17; do
        c++ -std=$standard $flags consumer.cpp $(pkg-config --cflags --libs troupe) -o consumer
        LD_LIBRARY_PATH=$libraries ./consumer
    done
    # The program of docs/building.md.
    sed -n '/^```cpp$/,/^```$/p' "$source/docs/building.md" | grep -v '^```' >counter.cpp
    for standard in c++11 c++17; do
        c++ -std=$standard $flags counter.cpp $(pkg-config --cflags --libs troupe) -o counter
        [ "$(LD_LIBRARY_PATH=$libraries ./counter)" = "total 5" ]
    done
    ;;
examples)
    # The block of docs/building.md that follows this mark, as a reader would run it.
    cp -r "$source/examples" .
    sed -n '/^<!-- A test runs these/,/^```$/p' "$source/docs/building.md" | grep -v '^<!--\|^```' >lines
    [ -s lines ]
    sh -eu lines
    [ "$(LD_LIBRARY_PATH=$libraries ./01_counter)" = "total 55" ]
    LD_LIBRARY_PATH=$libraries ./06_channel >/dev/null
    [ "$(LD_LIBRARY_PATH=$libraries ./1_first_actor)" = "2 readings, mean 20.0" ]
    ;;
*)
    echo "run.sh: no such way: $way" >&2
    exit 2
    ;;
esac
