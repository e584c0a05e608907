#!/bin/sh
# demo.sh BUILD [OPTION...]: what ./dev demo does with what was built there: digits, which serves its best network. On
# a terminal a train server of the demonstration's own runs beside it, in the folder of the runs, so that a browser
# shows what comes of them; it stays, and how to stop it is said. Without a terminal nothing is left behind.
set -eu
digits=$1/examples/digits tool=$1/tools/troupe
shift
storage=runs before=
for argument in "$@"; do
    case $argument in
    --help) exec "$digits" --help ;;
    --storage=*) storage=${argument#--storage=} ;;
    esac
    [ "$before" != --storage ] || storage=$argument
    before=$argument
done
if ! [ -t 0 ] || ! [ -t 1 ]; then
    exec "$digits" --serve 0 "$@"
fi

mkdir -p "$storage"
storage=$(cd "$storage" && pwd)
export TROUPE_STATE="$storage/server" TROUPE_RESULTS="$storage" TROUPE_MODELS="$storage/models"
stop_it="TROUPE_STATE='$TROUPE_STATE' $tool server stop"

started=
finish() {
    [ -z "$started" ] || "$tool" server stop >/dev/null 2>&1 || :
}
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM HUP
there=yes
if ! "$tool" server status >/dev/null 2>&1; then
    started=yes
    "$tool" server start >/dev/null || started='' there=''
fi

# A link to the dashboard; the gateway comes a moment after the server.
link() {
    tries=0
    until "$tool" server link 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || return 1
        sleep 0.1
    done
}
# show WHEN
show() {
    if [ -n "$there" ] && address=$(link); then
        printf '%s, in a browser, by a link that is good once, and for a minute:\n  %s\n' "$1" "$address"
    fi
}

show 'See it train'
socket=$TROUPE_STATE/routes/digits.sock
if [ -n "$there" ] && [ ${#socket} -lt 108 ]; then
    set -- --socket "$socket" "$@"
fi
if ! "$digits" --serve 60 "$@"; then
    finish
    exit 1
fi
[ -n "$there" ] || exit 0
show 'See what it trained, under Sweeps and Models'
printf 'The train server and its gateway stay for that; this stops them (and with "link" makes a new link):\n  %s\n' "$stop_it"
