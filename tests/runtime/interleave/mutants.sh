#!/bin/sh
# mutants.sh PROGRAM FOLDER: each library of the folder, in which something is missing from the
# protocols, is loaded before the right one: the scene that is named beside it must fail. Says how.
set -eu
status=0 count=0
for library in "$2"/*.so; do
    name=$(basename "$library" .so)
    count=$((count + 1)) how=
    case $name in *_late_*) how=--delayed ;; esac
    # shellcheck disable=SC2086
    if LD_PRELOAD=$library "$1" $how --most 1000000 --finds "$(cat "${library%.so}.scene")" >"$library.out" 2>&1; then
        echo "without ${name#libmutant_}: $(grep -h '^  [a-z].*: ' "$library.out" | tail -1)"
    else
        echo "without ${name#libmutant_}: NOTHING WAS FOUND"
        status=1
    fi
done
[ $count -gt 20 ] || { echo "there are only $count"; status=1; }
exit $status
