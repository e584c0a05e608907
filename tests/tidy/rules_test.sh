#!/bin/sh
# rules_test.sh SOURCE: shows that rules.sh finds each kind of breach, and nothing in a clean tree.
set -eu
rules=$1/tests/tidy/rules.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-rules-XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0

# One clean tree: what looks like a breach in a comment or a text is none.
clean() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/runtime" "$work/tree/actors" "$work/tree/tune" "$work/tree/include/troupe" "$work/tree/tests/actors"
    cat >"$work/tree/actors/good.c" <<'END'
// good.c: keeps every rule; free() and "../" are only spoken of.
#include <actors/good.h>
#include <runtime/low.h>
#include <troupe/low.h>

/* malloc(1) in a comment
   free(2) of two lines */
static const char *text = "malloc(3)"; // strdup(4)
typedef int (*good_function)(size_t size);

int trp_good(struct thing *it)
{
    it->free(it);
    trp_free(it);
    return 0;
}
END
    cat >"$work/tree/tests/actors/test_good.c" <<'END'
// test_good.c: is run again and again: what it needs is a longer
// timeout: 120
// label: faults
// cost: 60
// again: full slow 900 1000
END
}

# expect SENTENCE: rules.sh ends with 1 and says so.
expect() {
    if sh "$rules" "$work/tree" >"$work/out" 2>&1; then
        echo "not found: $1"
        failures=1
    elif ! grep -qF "$1" "$work/out"; then
        echo "expected: $1"
        cat "$work/out"
        failures=1
    fi
}

breach() {
    clean
    { [ "$1" = headless ] || echo "// ${2##*/}: a sample."; cat; } >"$work/tree/$2"
    expect "$3"
}

clean
sh "$rules" "$work/tree" || { echo "a clean tree was refused"; failures=1; }

echo '#include "../actors/good.h"' | breach x runtime/a.c 'goes up by ".."'
echo '#include <actors/good.h>' | breach x runtime/a.c 'runtime includes actors/good.h of a layer above it'
echo '#include <train/run_file.h>' | breach x tune/a.c 'tune includes train/run_file.h: it uses the public headers'
echo '#include <actors/sched/scheduler.h>' | breach x tune/a.c 'tune includes actors/sched/scheduler.h: it uses'
echo '#include <runtime/low.h>' | breach x include/troupe/a.h 'runtime/low.h, which is not public'
echo '#include <zmq.h>' | breach x include/troupe/a.h 'of a library that users need not have'
echo '#include <zmq.h>' | breach x runtime/a.c 'only runtime/link/zmq_internal.h may include zmq.h'
echo '#include <uthash.h>' | breach x actors/a.c 'only runtime/base/hash.h may include uthash.h'
echo 'void *x = malloc(3);' | breach x runtime/a.c 'only runtime/base/memory.c may call malloc'
echo 'int f(void) { free(x); }' | breach x actors/a.c 'only runtime/base/memory.c may call malloc'
echo 'char *s = strdup("x");' | breach x actors/a.c 'only runtime/base/memory.c may call malloc'
echo 'void trp_x(void);' | breach x include/troupe/a.h 'speaks of trp_'
echo 'typedef int thing_t;' | breach x runtime/a.c 'named ..._t'
printf 'typedef struct thing {\n    int x;\n} thing_t;\n' | breach x runtime/a.c 'named ..._t'
echo 'typedef int (*thing_t)(void);' | breach x runtime/a.c 'named ..._t'
echo 'int x;' | breach headless runtime/a.c 'does not begin with "// a.c: '
awk 'BEGIN { printf "int x; //"; for (i = 0; i < 92; i++) printf "x"; print "" }' |
    breach x runtime/a.c 'has 101 columns'
awk 'BEGIN { print "void f(void)\n{"; for (i = 0; i < 69; i++) print "    g();"; print "}" }' |
    breach x runtime/a.c 'has 71 lines; 70'
awk 'BEGIN { for (i = 0; i < 1000; i++) print "int x;" }' | breach x runtime/a.c 'has 1001 lines; 1000'
for line in 'timeout: 120' 'label: faults' 'cost: 60' 'again: full slow 900 1000'; do
    echo "// More. $line" | breach x tests/actors/test_a.c 'does not begin its line'
done

[ $failures -eq 0 ] && echo "every rule was seen to fire"
exit $failures
