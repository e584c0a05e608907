#!/bin/sh
# browser.sh TOOL [PICTURES]: has a browser open the reports of sweeps that are made up (browser.py). With PICTURES
# they are kept there. Debian's packages chromium-driver and python3-selenium.
set -eu
if ! command -v chromedriver >/dev/null || ! /usr/bin/python3 -c 'import selenium' 2>/dev/null; then
    echo "SKIPPED: no browser opens a sweep's report, since there is none here (chromium-driver, python3-selenium)"
    exit 77
fi
here=$(dirname "$0")
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-browser-XXXXXX")
trap 'rm -rf "$work"' EXIT
timeout 200 /usr/bin/python3 "$here/browser.py" "$1" "$work" ${2:+"$2"}
