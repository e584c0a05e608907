// model_state.c: whether weights that were kept have the shapes that a model expects.
//
// What an instance that was just set up would save tells them. Tensors and arrays that are empty
// there grow while the model learns, and bytes may be of any length.
#include <models/model.h>

#include <runtime/codec/msgpack.h>
#include <runtime/codec/tensor.h>
#include <string.h>
#include <train/state_walk.h>

typedef struct named {
    struct named *next;
    const char *name;
    troupe_tensor shape; // Its data are of no interest.
} named;

typedef struct listing {
    trp_state_walk walk; // First.
    trp_arena *arena;
    named *first;
    named **end;
} listing;

// False: it has no shape of its own.
static bool shape_of(const trp_leaf *leaf, troupe_tensor *shape)
{
    *shape = (troupe_tensor){.dtype = leaf->dtype, .ndim = 1};
    switch (leaf->kind) {
    case TRP_LEAF_TENSOR:
        memcpy(shape, leaf->at, sizeof *shape);
        return shape->dtype != TROUPE_DTYPE_NONE && troupe_tensor_count(shape) > 0;
    case TRP_LEAF_ARRAY:
        shape->shape[0] = trp_counted_of(leaf->at).count;
        return leaf->dtype != TROUPE_UINT8 && shape->shape[0] > 0;
    case TRP_LEAF_NUMBERS:
        shape->shape[0] = leaf->count;
        return leaf->over_records && leaf->count > 0;
    }
    return false;
}

static troupe_status list(trp_state_walk *walk, const trp_leaf *leaf)
{
    listing *it = (listing *)walk;
    troupe_tensor shape;
    if (!shape_of(leaf, &shape))
        return TROUPE_OK;
    size_t length = strlen(leaf->name) + 1;
    named *row = (named *)trp_arena_alloc(it->arena, sizeof *row + length);
    if (!row)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to compare weights");
    *row = (named){.name = (const char *)memcpy(row + 1, leaf->name, length), .shape = shape};
    *it->end = row;
    it->end = &row->next;
    return TROUPE_OK;
}

static troupe_status list_shapes(const troupe_type *type, const void *value, trp_arena *arena,
                                 named **first)
{
    listing it = {.walk = {.visit = list}, .arena = arena};
    it.end = &it.first;
    troupe_status status =
        trp_state_visit(&it.walk, type, (void *)(uintptr_t)value); // It changes nothing.
    trp_buffer_free(&it.walk.name);
    *first = it.first;
    return status;
}

static bool same_shape(const troupe_tensor *a, const troupe_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape) == 0;
}

static troupe_status compare(const char *model, const named *expected, const named *kept,
                             const char *whose)
{
    char one[TRP_TENSOR_TEXT], other[TRP_TENSOR_TEXT];
    for (; expected; expected = expected->next) {
        const named *found = kept;
        while (found && strcmp(found->name, expected->name) != 0)
            found = found->next;
        if (found && same_shape(&found->shape, &expected->shape))
            continue;
        return troupe_fail(TROUPE_WRONG_TYPE, "%s: '%s' is %s there, and model '%s' expects %s",
                           whose, expected->name,
                           found ? trp_tensor_text(&found->shape, one) : "empty", model,
                           trp_tensor_text(&expected->shape, other));
    }
    return TROUPE_OK;
}

troupe_status trp_model_state_fits(const trp_model *model, const void *kept, void *fresh,
                                   const char *whose)
{
    const troupe_model *table = model->table;
    trp_arena arena = {0};
    named *expected = NULL, *found = NULL;
    if (table->state->kind != TROUPE_KIND_RECORD)
        return TROUPE_OK;
    troupe_status status = list_shapes(table->state, fresh, &arena, &expected);
    if (status == TROUPE_OK)
        status = list_shapes(table->state, kept, &arena, &found);
    if (status == TROUPE_OK)
        status = compare(table->name, expected, found, whose);
    trp_arena_clear(&arena);
    return status;
}
