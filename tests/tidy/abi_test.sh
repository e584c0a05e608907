#!/bin/sh
# abi_test.sh SOURCE: what ./dev check takes for a change of the ABI, on a library of a few lines.
# Run by ./dev check, which has abidiff.
# A21.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-abi-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

# library NAME OPTIONS EVENT MORE: with fields of two structs, and more functions.
library() {
    cat >"$work/$1.c" <<END
#include <stddef.h>
typedef struct troupe_step_options { size_t size; int first; $2 } troupe_step_options;
typedef struct troupe_step_event { int number; void *what; $3 } troupe_step_event;
typedef struct troupe_child_state { int starts; const troupe_step_options *how; } troupe_child_state;
int troupe_step(const troupe_step_options *how, troupe_step_event *event);
int troupe_step(const troupe_step_options *how, troupe_step_event *event) { return how->first + event->number; }
$4
END
    ${CC:-cc} -g -shared -fPIC -o "$work/$1.so" "$work/$1.c"
}

# differ WANTED WHAT: whether the library `new` is taken for another than `old`.
differ() {
    found=no
    abidiff --suppressions "$1/tools/abi.suppr" --no-added-syms "$work/old.so" "$work/new.so" \
        >"$work/out" 2>&1 || found=yes
    [ $found = "$2" ] && return
    echo "$3: differs: $found, expected: $2"
    cat "$work/out"
    status=1
}

library old '' '' 'int troupe_more(void) { return 1; }'
library new '' '' 'int troupe_more(void) { return 1; }'
differ "$1" no "the same library"
library new '' '' 'int troupe_more(void) { return 1; } int troupe_new(void) { return 2; }'
differ "$1" no "a function more"
library new 'double later; int last;' '' 'int troupe_more(void) { return 1; }'
differ "$1" no "options that grew at their end"
library new '' '' ''
differ "$1" yes "a function less"
library new '' 'int more;' 'int troupe_more(void) { return 1; }'
differ "$1" yes "a struct without a size that grew"
library new '' '' 'int troupe_more(int what) { return what; }'
differ "$1" yes "another parameter"
library new '' '' 'int troupe_more(void) { return 1; }'
sed 's/size_t size; int first;/size_t size; double before; int first;/' "$work/new.c" >"$work/middle.c"
${CC:-cc} -g -shared -fPIC -o "$work/new.so" "$work/middle.c"
differ "$1" yes "options that grew in the middle"
exit $status
