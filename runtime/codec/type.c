// type.c: the tables of the primitive types, and what can be said of a value by its table alone:
// its schema hash, whether it is flat, a deep copy, the references inside.
#include <runtime/codec/type.h>

#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/tensor.h>
#include <string.h>

// One primitive type and the counted array of it, each with its place for the hash.
#define PRIMITIVE(T, C, kind)                                                                      \
    static uint64_t hash_##T[2];                                                                   \
    const troupe_type troupe_type_##T = {TROUPE_ABI, kind, #T,           sizeof(C), NULL,          \
                                         0,          NULL, &hash_##T[0], {NULL}};                  \
    const troupe_type troupe_type_troupe_array_##T = {TROUPE_ABI,                                  \
                                                      TROUPE_KIND_ARRAY,                           \
                                                      "troupe_array_" #T,                          \
                                                      sizeof(troupe_array_##T),                    \
                                                      NULL,                                        \
                                                      0,                                           \
                                                      &troupe_type_##T,                            \
                                                      &hash_##T[1],                                \
                                                      {NULL}}

// `bool` itself is a macro, which must not meet the # and ## above.
#undef bool
PRIMITIVE(bool, _Bool, TROUPE_KIND_BOOL);
#define bool _Bool
PRIMITIVE(int8_t, int8_t, TROUPE_KIND_INT);
PRIMITIVE(int16_t, int16_t, TROUPE_KIND_INT);
PRIMITIVE(int32_t, int32_t, TROUPE_KIND_INT);
PRIMITIVE(int64_t, int64_t, TROUPE_KIND_INT);
PRIMITIVE(uint8_t, uint8_t, TROUPE_KIND_UINT);
PRIMITIVE(uint16_t, uint16_t, TROUPE_KIND_UINT);
PRIMITIVE(uint32_t, uint32_t, TROUPE_KIND_UINT);
PRIMITIVE(uint64_t, uint64_t, TROUPE_KIND_UINT);
PRIMITIVE(int, int, TROUPE_KIND_INT);
PRIMITIVE(size_t, size_t, TROUPE_KIND_UINT);
PRIMITIVE(char, char, TROUPE_KIND_CHAR);
PRIMITIVE(float, float, TROUPE_KIND_FLOAT);
PRIMITIVE(double, double, TROUPE_KIND_FLOAT);
PRIMITIVE(troupe_text, troupe_text, TROUPE_KIND_TEXT);
PRIMITIVE(troupe_bytes, troupe_bytes, TROUPE_KIND_BYTES);
PRIMITIVE(troupe_ref, troupe_ref, TROUPE_KIND_REF);
PRIMITIVE(troupe_actor, troupe_actor, TROUPE_KIND_ACTOR);
PRIMITIVE(troupe_tensor, troupe_tensor, TROUPE_KIND_TENSOR);

static uint64_t hash_none;
const troupe_type troupe_type_troupe_none = {
    TROUPE_ABI, TROUPE_KIND_NONE, "troupe_none", sizeof(troupe_none), NULL, 0,
    NULL,       &hash_none,       {NULL}};

// The layout of every troupe_array_T.
_Static_assert(sizeof(troupe_array_double) == sizeof(trp_counted) &&
                   offsetof(troupe_array_double, count) == offsetof(trp_counted, count),
               "a counted array is a pointer and a count");

// ---- schema hash: FNV-1a, 64 bits

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

// The number's bytes, lowest first, so that the hash is the same on every machine.
static uint64_t mix_number(uint64_t hash, uint64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    return mix(hash, bytes, sizeof(bytes));
}

static uint64_t hash_of(const troupe_type *type, int depth);

// What a type is but not what it is called: kind, width, fields (name, count, their types' hashes).
// Hashes of inner types stand for their descriptions, so that each type is walked once.
static uint64_t describe(const troupe_type *type, int depth)
{
    uint64_t hash = mix_number(0xcbf29ce484222325u, (uint64_t)type->kind);
    switch (type->kind) {
    case TROUPE_KIND_BOOL:
    case TROUPE_KIND_INT:
    case TROUPE_KIND_UINT:
    case TROUPE_KIND_FLOAT:
        hash = mix_number(hash, type->size);
        break;
    case TROUPE_KIND_RECORD:
        hash = mix_number(hash, type->field_count);
        for (size_t i = 0; i < type->field_count; i++) {
            const troupe_field *field = &type->fields[i];
            hash = mix(hash, field->name, strlen(field->name) + 1);
            hash = mix_number(hash, field->count);
            hash = mix_number(hash, hash_of(field->type, depth + 1));
        }
        break;
    case TROUPE_KIND_ARRAY:
        hash = mix_number(hash, hash_of(type->item, depth + 1));
        break;
    default:
        break;
    }
    return hash ? hash : 1;
}

static uint64_t hash_of(const troupe_type *type, int depth)
{
    // Such a type cannot be packed; the hash only has to end.
    if (depth > TRP_DEPTH_MAX)
        return 1;
    if (!type->hash)
        return describe(type, depth);
    // Every thread computes the same number, so nothing but the number itself has to be atomic.
    uint64_t known = __atomic_load_n(type->hash, __ATOMIC_RELAXED);
    if (known == 0) {
        known = describe(type, depth);
        __atomic_store_n(type->hash, known, __ATOMIC_RELAXED);
    }
    return known;
}

uint64_t troupe_type_hash(const troupe_type *type)
{
    if (TRP_IS_NULL(type))
        return 0;
    return hash_of(type, 0);
}

// ---- walks

static bool is_flat(const troupe_type *type, int depth)
{
    switch (type->kind) {
    case TROUPE_KIND_TEXT:
    case TROUPE_KIND_BYTES:
    case TROUPE_KIND_ARRAY:
    case TROUPE_KIND_TENSOR:
        return false;
    case TROUPE_KIND_RECORD:
        if (depth > TRP_DEPTH_MAX)
            return false;
        for (size_t i = 0; i < type->field_count; i++) {
            if (!is_flat(type->fields[i].type, depth + 1))
                return false;
        }
        return true;
    default:
        return true;
    }
}

bool trp_type_is_flat(const troupe_type *type)
{
    return is_flat(type, 0);
}

static size_t at_least_one(size_t count)
{
    return count ? count : 1;
}

// Copies `size` bytes to the arena; NULL also where there are none.
static troupe_status copy_bytes(trp_arena *arena, const void *data, size_t size, void **copy)
{
    *copy = NULL;
    if (!data || size == 0)
        return TROUPE_OK;
    *copy = trp_arena_alloc(arena, size);
    if (!*copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to copy %zu bytes", size);
    memcpy(*copy, data, size);
    return TROUPE_OK;
}

static troupe_status own_pointers(const troupe_type *type, void *value, trp_arena *arena,
                                  int depth);

static troupe_status own_items(const troupe_type *item, void *items, size_t count, trp_arena *arena,
                               int depth)
{
    if (is_flat(item, depth))
        return TROUPE_OK;
    for (size_t i = 0; i < count; i++)
        TROUPE_TRY(own_pointers(item, (unsigned char *)items + i * item->size, arena, depth));
    return TROUPE_OK;
}

// Replaces the pointers of a value that was copied byte by byte by pointers to copies.
static troupe_status own_pointers(const troupe_type *type, void *value, trp_arena *arena, int depth)
{
    if (depth > TRP_DEPTH_MAX)
        return troupe_fail(TROUPE_INVALID, "%s nests deeper than %d levels", type->name,
                           TRP_DEPTH_MAX);
    switch (type->kind) {
    case TROUPE_KIND_TEXT: {
        troupe_text *text = (troupe_text *)value;
        void *copy = NULL;
        TROUPE_TRY(copy_bytes(arena, *text, *text ? strlen(*text) + 1 : 0, &copy));
        *text = (troupe_text)copy;
        return TROUPE_OK;
    }
    case TROUPE_KIND_BYTES: {
        troupe_bytes *bytes = (troupe_bytes *)value;
        void *copy = NULL;
        TROUPE_TRY(copy_bytes(arena, bytes->data, bytes->size, &copy));
        bytes->data = copy;
        return TROUPE_OK;
    }
    case TROUPE_KIND_TENSOR:
        return trp_tensor_own((troupe_tensor *)value, arena);
    case TROUPE_KIND_ARRAY: {
        trp_counted array = trp_counted_of(value);
        size_t size = 0;
        if (__builtin_mul_overflow(array.count, type->item->size, &size))
            return troupe_fail(TROUPE_INVALID, "%s has %zu items, more than memory can hold",
                               type->name, array.count);
        void *copy = NULL;
        TROUPE_TRY(copy_bytes(arena, array.items, size, &copy));
        array.items = copy;
        memcpy(value, &array, sizeof(array));
        return copy ? own_items(type->item, copy, array.count, arena, depth + 1) : TROUPE_OK;
    }
    case TROUPE_KIND_RECORD:
        for (size_t i = 0; i < type->field_count; i++) {
            const troupe_field *field = &type->fields[i];
            TROUPE_TRY(own_items(field->type, (unsigned char *)value + field->offset,
                                 at_least_one(field->count), arena, depth + 1));
        }
        return TROUPE_OK;
    default:
        return TROUPE_OK;
    }
}

troupe_status trp_value_copy(const troupe_type *type, const void *value, trp_arena *arena,
                             void *copy)
{
    memcpy(copy, value, type->size);
    if (is_flat(type, 0))
        return TROUPE_OK;
    troupe_status status = own_pointers(type, copy, arena, 0);
    if (status != TROUPE_OK)
        memset(copy, 0, type->size); // No pointer into the original stays behind.
    return status;
}

typedef struct visitor {
    void (*ref)(troupe_ref *ref, void *user);
    void (*actor)(troupe_actor *actor, void *user);
    void *user;
} visitor;

static void visit_all(const troupe_type *type, void *value, const visitor *all, int depth)
{
    if (depth > TRP_DEPTH_MAX)
        return;
    if (type->kind == TROUPE_KIND_REF && all->ref != NULL) {
        troupe_ref *ref = (troupe_ref *)value;
        if (ref->id != 0)
            all->ref(ref, all->user);
    } else if (type->kind == TROUPE_KIND_ACTOR && all->actor != NULL) {
        all->actor((troupe_actor *)value, all->user);
    } else if (type->kind == TROUPE_KIND_ARRAY) {
        trp_counted array = trp_counted_of(value);
        for (size_t i = 0; array.items && i < array.count; i++)
            visit_all(type->item, (unsigned char *)array.items + i * type->item->size, all,
                      depth + 1);
    } else if (type->kind == TROUPE_KIND_RECORD) {
        for (size_t i = 0; i < type->field_count; i++) {
            const troupe_field *field = &type->fields[i];
            unsigned char *at = (unsigned char *)value + field->offset;
            for (size_t k = 0; k < at_least_one(field->count); k++)
                visit_all(field->type, at + k * field->type->size, all, depth + 1);
        }
    }
}

void trp_value_refs(const troupe_type *type, void *value,
                    void (*visit)(troupe_ref *ref, void *user), void *user)
{
    visit_all(type, value, &(visitor){.ref = visit, .user = user}, 0);
}

void trp_value_actors(const troupe_type *type, void *value,
                      void (*visit)(troupe_actor *actor, void *user), void *user)
{
    visit_all(type, value, &(visitor){.actor = visit, .user = user}, 0);
}
