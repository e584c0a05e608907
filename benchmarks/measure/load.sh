#!/bin/sh
# load ROW URL SECONDS [TOKEN]: asks for one row of bench_server with wrk, over connections that are
# kept, and prints "ROW VALUE P50 P99 P999", times in microseconds. Fails if an answer was no 200.
here=$(cd "$(dirname "$0")" && pwd)
row=$1 url=$2 seconds=$3
case $row in
serve.p50) count=1 form=raw value=p50 ;;
serve.rate.*) count=${row##*.} form=raw value=rate ;;
serve.json) count=16 form=json value=rate ;;
*)
    echo "load: there is no row $row" >&2
    exit 1
    ;;
esac
if ! command -v wrk >/dev/null; then
    echo "load: wrk is missing (Debian's package wrk)" >&2
    exit 1
fi
out=$(LOAD_ROW=$row LOAD_FORM=$form LOAD_VALUE=$value LOAD_TOKEN=${4:-} \
    wrk -t1 -c"$count" -d"${seconds}s" --timeout 10s -s "$here/load.lua" "$url" 2>&1)
printf '%s\n' "$out" | grep "^$row " && exit 0
printf '%s\n' "$out" >&2
exit 1
