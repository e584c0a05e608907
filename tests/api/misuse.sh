#!/bin/sh
# misuse.sh COMPILER SOURCE GENERATED: compiles misuse.c as it should be, which must work, and with
# each of its mistakes, which must be refused with words that name the mistake.
# A06.
# shellcheck disable=SC2086
set -eu
compiler=$1 source=$2 generated=$3
flags="-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror"
status=0

compile() {
    LC_ALL=C $compiler -std=$2 $flags -I"$source/include" -I"$generated" -DMISUSE="$1" \
        -c -o /dev/null "$source/tests/api/misuse.c" 2>&1
}

for standard in c11 gnu17; do
    if ! output=$(compile 0 $standard); then
        echo "$output"
        echo "the correct program was refused as $standard"
        exit 1
    fi
done

# refused NUMBER WORDS: (a pattern of grep -E; the compilers differ in their words.)
refused() {
    if output=$(compile "$1" c11); then
        echo "mistake $1 was accepted"
        status=1
    elif ! echo "$output" | grep -Eq "$2"; then
        echo "$output"
        echo "mistake $1 was refused, but not with: $2"
        status=1
    fi
}

refused 1 'counter_subtract'
refused 2 'incompatible type.*clock_state_actor|clock_state_actor.*incompatible type|expected .clock_state_actor.'
refused 3 'makes integer from pointer|incompatible pointer to integer'
refused 4 'unused.result|ignoring return value'
refused 5 'has no member named .rat.|does not (refer to|name)|field designator'
refused 6 'pointer type mismatch'
refused 7 'pointer type mismatch'
refused 8 'has no member named .nam.|field designator'
refused 9 'unused.result|ignoring return value'
refused 10 'pointer type mismatch'
refused 11 'pointer type mismatch'
refused 12 'has no member named .worker.|field designator'
refused 13 'no member named .rat.'
refused 14 'a pointer for each field of settings'
refused 15 'takes a troupe_down, and counter_reset does not'
refused 16 'incompatible.pointer|incompatible function pointer'
refused 17 'no member named .set_up.|field designator'
refused 18 'incompatible.pointer|incompatible function pointer'
refused 19 'incompatible.pointer|incompatible function pointer'
refused 20 'no member named .steps.|field designator'
refused 21 'incompatible.pointer|incompatible pointer'
refused 22 'pointer type mismatch'
refused 23 'no member named .rat.'
refused 24 'incompatible type'
refused 25 'no member named .lable.'
refused 26 'no member named .epoch.'
refused 27 'pointer type mismatch'
refused 28 'has no member named .rat.|field designator'
refused 29 'incompatible type'
[ $status -eq 0 ] && echo "29 mistakes were refused"
exit $status
