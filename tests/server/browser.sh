#!/bin/sh
# browser.sh FILL HOST SERVER [PICTURES]: has a browser open the dashboard, which the gateway of SERVER (troupe-server)
# serves: of a folder that FILL (test_web) fills, without a train server, and of one in which HOST (test_web_server) has
# a server with a job. browser.py says what is looked at. With PICTURES each view is kept there. Debian's packages
# chromium-driver and python3-selenium.
set -eu
if ! command -v chromedriver >/dev/null || ! /usr/bin/python3 -c 'import selenium' 2>/dev/null; then
    echo "SKIPPED: no browser opens the dashboard, since there is none here (chromium-driver, python3-selenium)"
    exit 77
fi
here=$(dirname "$0")
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-browser-XXXXXX")
filler='' gateway=''
finish() {
    for process in $filler $gateway; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    filler='' gateway=''
}
trap 'finish; rm -rf "$work"' EXIT

# await LOG COMMAND...: until it succeeds, for 20 s.
await() {
    log=$1 tries=0
    shift
    until "$@" >"$work/said" 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { cat "$log" "$work/said"; exit 1; }
        sleep 0.05
    done
}

# begin FOLDER FILE PROGRAM COMMAND: PROGRAM fills the folder until FILE is there; the gateway then serves it, and $link
# leads there.
begin() {
    export HOME="$work/$1" TROUPE_STATE="$work/$1/state" TROUPE_MODELS="$work/$1/models"
    mkdir -m 700 "$HOME"
    "$3" "$4" "$HOME" >"$HOME/fill.log" 2>&1 &
    filler=$!
    await "$HOME/fill.log" test -e "$HOME/$2"
    "$server" gateway >"$HOME/gateway.log" 2>&1 &
    gateway=$!
    await "$HOME/gateway.log" "$server" server link
    link=$(cat "$work/said")
}

server=$3
begin made state/jobs/00000005/alive "$1" fill
timeout 200 /usr/bin/python3 "$here/browser.py" "$link" "$HOME" views ${4:+"$4"}
finish
begin live troupe_results/live/journal.jsonl "$2" host
timeout 60 /usr/bin/python3 "$here/browser.py" "$link" "$HOME" stop
