#!/bin/sh
# tutorial.sh SOURCE PROGRAMS: docs/tutorial.md shows each file of examples/tutorial as it is, and each
# program, run in a folder of its own, prints what the page says.
set -eu
cd "$1"
source=$PWD
programs=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-tutorial-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
status=0

# Blocks of C are files, named in their first line; a block of text is what the last program prints.
awk -v work="$work" '
    /^```c$/ { in_c = 1; name = ""; next }
    /^```text$/ { in_text = 1; next }
    /^```$/ { if (in_c && name ~ /\.c$/) program = name; in_c = in_text = 0; next }
    in_c && name == "" { name = $2; sub(/:$/, "", name) }
    in_c { print >(work "/shown." name) }
    in_text { print >(work "/prints." program) }' docs/tutorial.md
for file in examples/tutorial/*.[ch]; do
    diff "$file" "$work/shown.${file##*/}" || {
        echo "docs/tutorial.md does not show $file as it is"
        status=1
    }
done

mkdir "$work/run"
cd "$work/run"
for file in "$source"/examples/tutorial/*.c; do
    name=$(basename "$file" .c)
    case $name in
    8_*) # The server says where it listens; the other program asks it, and ends it.
        timeout -k 5 50 "$programs/$name" serve keys >address 2>server.log &
        server=$!
        tries=0
        until [ -s address ] || [ $tries -ge 400 ]; do
            sleep 0.05
            tries=$((tries + 1))
        done
        timeout -k 5 50 "$programs/$name" ask keys "$(cat address)" >out 2>log || status=1
        wait "$server" || { cat server.log; status=1; }
        server=
        ;;
    *) timeout -k 5 50 "$programs/$name" >out 2>log || status=1 ;;
    esac
    # Training and sweeps print their progress, too: the last line is the program's own.
    case $name in
    5_* | 6_* | 7_*) tail -n 1 out >last && mv last out ;;
    esac
    diff "$work/prints.$name.c" out || {
        cat log
        echo "examples/tutorial/$name.c does not print what docs/tutorial.md says"
        status=1
    }
done
[ $status -eq 0 ] && echo "the tutorial shows and says what is there"
exit $status
