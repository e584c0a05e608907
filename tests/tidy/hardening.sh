#!/bin/sh
# hardening.sh FILE...: libraries and programs of the release build are position independent, have
# read-only relocations and a stack without execution, and are guarded by canaries.
set -eu
export LC_ALL=C
status=0
complain() { echo "$1"; status=1; }
fortified=no
for file in "$@"; do
    headers=$(readelf -Wl "$file")
    dynamic=$(readelf -Wd "$file")
    symbols=$(readelf -W --dyn-syms "$file")
    readelf -h "$file" | grep -q 'Type:.*DYN' || complain "$file is not position independent"
    echo "$headers" | grep -q GNU_RELRO || complain "$file has no read-only relocations"
    echo "$dynamic" | grep -Eq 'BIND_NOW|FLAGS_1.*NOW' || complain "$file is bound lazily"
    echo "$headers" | grep GNU_STACK | grep -q ' RW ' || complain "$file has an executable stack"
    ! echo "$dynamic" | grep -q TEXTREL || complain "$file has relocations in its code"
    ! echo "$dynamic" | grep -Eq 'R(UN)?PATH.*(^|[[:[])\.' || complain "$file has a relative library path"
    echo "$symbols" | grep -q __stack_chk_fail || complain "$file has no stack canaries"
    ! echo "$symbols" | grep -Eq ' __[a-z]+_chk[@ ]' || fortified=yes
done
[ $fortified = yes ] || complain "no call is fortified (-D_FORTIFY_SOURCE=2)"
[ $status -eq 0 ] && echo "$# files are hardened"
exit $status
