#!/bin/sh
# mistakes.sh SOURCE GENERATED: compiles mistakes.c with each of its mistakes, by gcc and by clang
# where they are: each must be told in at most five messages that name it. The lines in which
# compilers repeat the source, or trace macros, are not counted.
set -eu
source=$1 generated=$2
status=0
checked=

compile() {
    LC_ALL=C "$1" -std=gnu17 -I"$source/include" -I"$generated" -DMISTAKE="$2" -fsyntax-only \
        "$source/tests/api/mistakes.c" 2>&1
}

# told NUMBER WORDS [MOST]: (a pattern of grep -E; compilers differ in their words.)
told() {
    if output=$(compile "$compiler" "$1"); then
        echo "$compiler accepts mistake $1"
        status=1
        return
    fi
    messages=$(echo "$output" | grep -E '(error|warning|note):' |
        grep -Ev 'in expansion of macro|expanded from|in definition of macro' || :)
    count=$(echo "$messages" | wc -l)
    if ! echo "$messages" | grep -Eq "$2"; then
        echo "$output"
        echo "$compiler tells mistake $1, but not with: $2"
        status=1
    elif [ "$count" -gt "${3:-5}" ]; then
        echo "$output"
        echo "$compiler tells mistake $1 in $count messages, more than ${3:-5}"
        status=1
    fi
}

for compiler in gcc clang; do
    if ! command -v $compiler >/dev/null 2>&1; then
        echo "SKIPPED: $compiler is not here"
        continue
    fi
    checked="$checked $compiler"
    if ! output=$(compile $compiler 0); then
        echo "$output"
        echo "$compiler refuses the correct program"
        exit 1
    fi
    told 1 'troupe_type_settings'                                       # a forgotten TROUPE_STRUCT
    told 2 '(conflicting types for|redefinition of) .troupe_method_counter_add' # a method twice
    told 3 'is given as .counter_add, arguments, result'                # a missing argument
    told 4 'must be: troupe_status counter_set.counter .self, const settings' # a struct by value
    told 5 'a method of counter must be: troupe_status clock_tick'      # a row of another class
    told 6 'clock_actor.*counter_actor'                                 # a call of another class
    told 7 'pointer type mismatch|type mismatch in conditional|incompatible operand' # by value
    told 8 'must be: troupe_status counter_add.*int32_t .result'        # another result type
    # The init without its type of arguments, and without its parentheses.
    told 9 'the init of lamp is given as .function, arguments., not as .lamp_light.'
    told 10 'the init of lamp is given as .function, arguments., not as lamp_light'
    # A method that is not there; clang says so wherever the macro uses it, twice each.
    told 11 'troupe_method_counter_sub' 8
    told 12 'no member named .before_step.|field designator' # a hook that there is not
    told 13 'unknown type name .rates' 7 # a config of no type: at the table, and at each hook
    told 14 'incompatible .*pointer type' # a model's hook of another kind
    told 15 'net_config .*net_state'      # hooks of another state
    told 16 'settings .*net_config'       # a setup of another config
    told 17 'no member named .trainstep.|field designator'
    told 18 'no member named .hidden.|field designator'
done
[ -n "$checked" ] || exit 1
[ $status -eq 0 ] && echo "each mistake is told briefly by$checked"
exit $status
