#!/bin/sh
# browser.sh FILL SERVER [PICTURES]: has a browser open the dashboard of a folder that FILL (test_web) fills and the
# gateway of SERVER (troupe-server) serves, without a train server; browser.py says what is looked at. With PICTURES,
# each view is kept there. Debian's packages chromium-driver and python3-selenium.
set -eu
if ! command -v chromedriver >/dev/null || ! /usr/bin/python3 -c 'import selenium' 2>/dev/null; then
    echo "SKIPPED: no browser opens the dashboard, since there is none here (chromium-driver, python3-selenium)"
    exit 77
fi
here=$(dirname "$0")
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-browser-XXXXXX")
filler='' gateway=''
end() {
    for process in $filler $gateway; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap end EXIT
export HOME="$work" TROUPE_STATE="$work/state" TROUPE_MODELS="$work/models"
chmod 700 "$work"
"$1" fill "$work" >"$work/fill.log" 2>&1 &
filler=$!
tries=0
until [ -e "$work/state/jobs/00000005/alive" ]; do
    tries=$((tries + 1))
    [ $tries -lt 400 ] || { cat "$work/fill.log"; exit 1; }
    sleep 0.05
done
"$2" gateway >"$work/gateway.log" 2>&1 &
gateway=$!
tries=0
until link=$("$2" server link 2>"$work/link.log"); do
    tries=$((tries + 1))
    [ $tries -lt 400 ] || { cat "$work/gateway.log" "$work/link.log"; exit 1; }
    sleep 0.05
done
timeout 240 /usr/bin/python3 "$here/browser.py" "$link" "$work" ${3:+"$3"}
