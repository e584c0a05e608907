// constraints.h: what must hold of a trial's parameters, as texts: "width * depth <= 1024".
//
// Two sums of numbers, names, products and quotients, with parentheses, and between them <, <=, >,
// >=, == or !=. One that names a parameter which does not count in the trial, holds.
#ifndef TRP_CONSTRAINTS_H
#define TRP_CONSTRAINTS_H

#include <runtime/base/arena.h>
#include <runtime/codec/json.h>

typedef struct trp_constraints {
    const char *const *texts;
    size_t count;
} trp_constraints;

// TROUPE_INVALID: it is none, and where. `names`: an object with the names that there are; NULL:
// they are not known.
troupe_status trp_constraint_check(const char *text, const trp_json *names);
// Whether all hold for a config as JSON: for .allowed; `user` is the constraints.
bool trp_constraints_allow(void *user, const void *config);

#endif
