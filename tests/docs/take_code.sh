#!/bin/sh
# take_code.sh PAGE PROGRAM: writes the C blocks of a page, one after the other, as one file.
set -eu
awk '/^```c$/ { on = 1; next } /^```$/ { if (on) print ""; on = 0 } on' "$1" >"$2"
test -s "$2"
