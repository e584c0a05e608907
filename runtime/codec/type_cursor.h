// type_cursor.h: what packing and unpacking share: where in a value the walk over its type's table
// is, so that it is bounded in depth and a failure can name its place. For pack.c and unpack.c.
#ifndef TRP_CODEC_TYPE_CURSOR_H
#define TRP_CODEC_TYPE_CURSOR_H

#include <runtime/base/error.h>
#include <runtime/codec/msgpack.h>
#include <stdio.h>

// Items of an array of numbers are copied as they are.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "this machine must be little-endian");

// One for each container that the walk is inside of.
typedef struct trp_step {
    const char *name; // Of a record's field; NULL: an array's item, by its index.
    size_t index;
} trp_step;

typedef struct trp_walk {
    int depth, depth_max; // depth_max <= TRP_DEPTH_MAX
    trp_step steps[TRP_DEPTH_MAX];
} trp_walk;

// Leaves the steps as they are: each is set when it is entered, and most values need two.
static inline void trp_walk_begin(trp_walk *walk, int depth_max)
{
    walk->depth = 0;
    walk->depth_max = depth_max;
}

static inline troupe_status trp_walk_enter(trp_walk *walk, troupe_status status)
{
    if (walk->depth >= walk->depth_max)
        return troupe_fail(status, "nested deeper than %d levels", TRP_DEPTH_MAX);
    walk->steps[walk->depth++] = (trp_step){NULL, 0};
    return TROUPE_OK;
}

static inline void trp_walk_leave(trp_walk *walk)
{
    walk->depth--;
}

static inline void trp_walk_field(trp_walk *walk, const char *name)
{
    walk->steps[walk->depth - 1].name = name;
}

static inline void trp_walk_item(trp_walk *walk, size_t index)
{
    walk->steps[walk->depth - 1].index = index;
}

// Puts the place of a failure in front of its sentence: "settings.layers[2].rate: ...".
static inline troupe_status trp_walk_say(const trp_walk *walk, const troupe_type *type,
                                         troupe_status status)
{
    if (status == TROUPE_OK || status == TROUPE_NO_MEMORY)
        return status;
    char path[256];
    size_t used = (size_t)snprintf(path, sizeof(path), "%s", type->name);
    for (int i = 0; i < walk->depth && used < sizeof(path); i++) {
        const trp_step *at = &walk->steps[i];
        int more = at->name ? snprintf(path + used, sizeof(path) - used, ".%s", at->name)
                            : snprintf(path + used, sizeof(path) - used, "[%zu]", at->index);
        used += (size_t)more;
    }
    return trp_error_prefix("%s", path);
}

// Arrays of these, fixed or counted, are packed as one bin of little-endian items.
static inline bool trp_is_number(const troupe_type *type)
{
    return type->kind >= TROUPE_KIND_BOOL && type->kind <= TROUPE_KIND_FLOAT;
}

// Of what users hand in: a type that this library can read.
static inline troupe_status trp_walk_check(const troupe_type *type, const void *value)
{
    if (!type || !value)
        return troupe_fail(TROUPE_INVALID, "expected a %s, found a null pointer",
                           type ? "value" : "type");
    if (type->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a type's table is of generation %u, this library reads generation %u",
                           type->abi, TROUPE_ABI);
    return TROUPE_OK;
}

#endif
