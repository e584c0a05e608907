// class.c: see class.h. The registries only grow: rows are pushed on lists under a lock and read
// without one.
#include <actors/class/class.h>

#include <pthread.h>
#include <runtime/base/buffer.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/tensor.h>
#include <runtime/codec/type.h>
#include <runtime/store/inspect.h>
#include <runtime/store/store.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS = 256, METHODS_MAX = 64, LISTED_MAX = 8, PLAIN_MAX = 1024 };

typedef struct type_name {
    uint64_t hash;
    const troupe_type *type;
    struct type_name *next;
} type_name;

static struct {
    pthread_mutex_t lock; // Of additions.
    // Heads of lists. A store releases a row that is complete; it pairs with the readers' acquire.
    trp_class *_Atomic rows[BUCKETS]; // By address of the user's row.
    trp_class *_Atomic all;           // The newest first; one for each name.
    type_name *_Atomic types[BUCKETS];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- types

troupe_status trp_type_check(const troupe_type *type)
{
    if (type == NULL)
        return troupe_fail(TROUPE_INVALID, "no type was given: 'type' is NULL");
    if (type->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a type was compiled for generation %u of Troupe, this library is %u",
                           type->abi, TROUPE_ABI);
    return TROUPE_OK;
}

static bool holds(const troupe_type *type, troupe_kind kind)
{
    if (type->kind == kind)
        return true;
    if (type->kind == TROUPE_KIND_ARRAY)
        return holds(type->item, kind);
    for (size_t i = 0; type->kind == TROUPE_KIND_RECORD && i < type->field_count; i++)
        if (holds(type->fields[i].type, kind))
            return true;
    return false;
}

static trp_shape look_at(const troupe_type *type)
{
    bool refs = holds(type, TROUPE_KIND_REF);
    bool plain = trp_type_is_flat(type) && !holds(type, TROUPE_KIND_ACTOR);
    return (trp_shape){.type = type,
                       .flat = trp_type_is_flat(type),
                       .refs = refs,
                       .image = plain && !refs,
                       .held = plain && refs};
}

// The last shape that this thread has asked for, which but for the type depends on the schema
// alone: who reads many results asks for the same each time.
enum { TOO_DEEP = 1 }; // The hash of all types that are too deep for one.
static _Thread_local struct {
    uint64_t hash; // 0: none yet.
    trp_shape shape;
} last;

trp_shape trp_shape_of(const troupe_type *type)
{
    uint64_t hash = troupe_type_hash(type);
    if (hash == TOO_DEEP)
        return look_at(type);
    if (last.hash != hash) {
        last.shape = look_at(type);
        last.hash = hash;
    }
    trp_shape shape = last.shape;
    shape.type = type;
    return shape;
}

uint64_t trp_type_note(const troupe_type *type)
{
    uint64_t hash = troupe_type_hash(type);
    type_name *_Atomic *bucket = &known.types[hash % BUCKETS];
    type_name *first = atomic_load_explicit(bucket, memory_order_acquire);
    for (type_name *it = first; it != NULL; it = it->next)
        if (it->hash == hash)
            return hash;
    type_name *fresh = trp_alloc(sizeof *fresh);
    if (fresh == NULL)
        return hash; // Messages will have its number instead.
    *fresh = (type_name){.hash = hash, .type = type, .next = first};
    if (!atomic_compare_exchange_strong(bucket, &first, fresh))
        trp_free(fresh); // Another thread added a type meanwhile; ours is noted at its next use.
    return hash;
}

uint64_t trp_type_show(const troupe_type *type)
{
    uint64_t hash = trp_type_note(type);
    trp_store_name_type(hash, type->name);
    return hash;
}

const troupe_type *trp_type_noted(uint64_t hash)
{
    for (type_name *it = atomic_load(&known.types[hash % BUCKETS]); it != NULL; it = it->next)
        if (it->hash == hash)
            return it->type;
    return NULL;
}

const char *trp_type_label(uint64_t hash, char out[64])
{
    const troupe_type *type = trp_type_noted(hash);
    if (type != NULL)
        snprintf(out, 64, "'%s'", type->name);
    else
        snprintf(out, 64, "a type with the hash %016llx", (unsigned long long)hash);
    return out;
}

static size_t weigh_fields(const troupe_type *type, const unsigned char *record)
{
    size_t weight = 0;
    for (size_t i = 0; i < type->field_count; i++) {
        const troupe_field *field = &type->fields[i];
        size_t count = field->count == 0 ? 1 : field->count;
        if (trp_type_is_flat(field->type)) {
            weight += field->type->size * count;
            continue;
        }
        for (size_t k = 0; k < count; k++)
            weight += trp_value_weight(field->type, record + field->offset + k * field->type->size);
    }
    return weight;
}

size_t trp_value_weight(const troupe_type *type, const void *value)
{
    // Every counted array begins with a pointer to its items and their count.
    typedef struct any_array {
        const unsigned char *items;
        size_t count;
    } any_array;
    switch (type->kind) {
    case TROUPE_KIND_TEXT: {
        troupe_text text = *(const troupe_text *)value;
        return type->size + (text != NULL ? strlen(text) : 0);
    }
    case TROUPE_KIND_BYTES:
        return type->size + ((const troupe_bytes *)value)->size;
    case TROUPE_KIND_TENSOR: {
        size_t size = 0; // Of none, where it is to be refused later.
        return trp_tensor_size(value, &size) == TROUPE_OK ? type->size + size : type->size;
    }
    case TROUPE_KIND_RECORD:
        return weigh_fields(type, value);
    case TROUPE_KIND_ARRAY: {
        const any_array *array = value;
        if (array->items == NULL || trp_type_is_flat(type->item))
            return type->size + array->count * type->item->size;
        size_t weight = type->size;
        for (size_t i = 0; i < array->count; i++)
            weight += trp_value_weight(type->item, array->items + i * type->item->size);
        return weight;
    }
    default:
        return type->size;
    }
}

// ---- classes

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u; // FNV-1a
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix(hash, text, strlen(text) + 1);
}

static uint64_t mix_type(uint64_t hash, const troupe_type *type)
{
    uint64_t schema = trp_type_note(type);
    return mix(hash, &schema, sizeof schema);
}

static const uint64_t mix_start = 0xcbf29ce484222325u;

static troupe_status check_class(const troupe_class *row)
{
    if (row == NULL)
        return troupe_fail(TROUPE_INVALID,
                           "no class was given: 'class_' (of a task 'task') is NULL");
    if (row->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a class was compiled for generation %u of Troupe, this library is %u",
                           row->abi, TROUPE_ABI);
    if (row->name == NULL || row->name[0] == '\0')
        return troupe_fail(TROUPE_INVALID, "a class has no name");
    if (row->method_count > METHODS_MAX)
        return troupe_fail(TROUPE_INVALID, "class '%s' has %zu methods, the limit is %d", row->name,
                           row->method_count, METHODS_MAX);
    TROUPE_TRY(trp_type_check(row->init_args));
    for (size_t i = 0; i < row->method_count; i++) {
        const troupe_method *method = &row->methods[i];
        if (method->name == NULL || method->run == NULL)
            return troupe_fail(TROUPE_INVALID, "method %zu of class '%s' has no name or function",
                               i, row->name);
        TROUPE_TRY(trp_type_check(method->args));
        TROUPE_TRY(trp_type_check(method->result));
    }
    return TROUPE_OK;
}

static bool is_plain(const trp_method *method)
{
    const trp_shape *args = &method->args, *result = &method->result;
    return method->row->options == 0 && args->flat && !args->refs && args->type->size > 0 &&
           args->type->size <= PLAIN_MAX && result->flat && !result->refs &&
           result->type->size <= TRP_PLAIN_RESULT;
}

static trp_class *describe(const troupe_class *row)
{
    trp_class *class_ = trp_alloc(sizeof *class_ + row->method_count * sizeof class_->methods[0]);
    if (class_ == NULL) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for class '%s'", row->name);
        return NULL;
    }
    class_->row = row;
    class_->init = trp_shape_of(row->init_args);
    class_->hash = mix_type(mix_text(mix_start, row->name), row->init_args);
    for (size_t i = 0; i < row->method_count; i++) {
        const troupe_method *method = &row->methods[i];
        uint64_t hash = mix_text(mix_start, method->name);
        hash = mix_type(mix_type(hash, method->args), method->result);
        class_->methods[i] = (trp_method){.row = method,
                                          .hash = hash,
                                          .args = trp_shape_of(method->args),
                                          .result = trp_shape_of(method->result)};
        class_->methods[i].plain = is_plain(&class_->methods[i]);
        class_->hash = mix(class_->hash, &hash, sizeof hash);
    }
    return class_;
}

static size_t bucket_of(const troupe_class *row)
{
    return ((uintptr_t)row >> 5) % BUCKETS;
}

static trp_class *find_row(const troupe_class *row)
{
    trp_class *it = atomic_load_explicit(&known.rows[bucket_of(row)], memory_order_acquire);
    while (it != NULL && it->row != row)
        it = it->next_row;
    return it;
}

static trp_class *find_name(const char *name)
{
    trp_class *it = atomic_load_explicit(&known.all, memory_order_acquire);
    while (it != NULL && strcmp(it->row->name, name) != 0)
        it = it->next;
    return it;
}

// With the lock held.
static troupe_status add_class(const troupe_class *row)
{
    if (find_row(row) != NULL)
        return TROUPE_OK;
    trp_class *fresh = describe(row);
    if (fresh == NULL)
        return TROUPE_NO_MEMORY;
    trp_class *same = find_name(row->name);
    if (same != NULL && same->hash != fresh->hash) {
        trp_free(fresh);
        return troupe_fail(TROUPE_EXISTS, "another class '%s' with other methods is registered",
                           row->name);
    }
    if (same == NULL) {
        fresh->next = known.all;
        atomic_store_explicit(&known.all, fresh, memory_order_release);
    }
    size_t bucket = bucket_of(row);
    fresh->next_row = known.rows[bucket];
    atomic_store_explicit(&known.rows[bucket], fresh, memory_order_release);
    return TROUPE_OK;
}

troupe_status troupe_class_register(const troupe_class *class_)
{
    TROUPE_TRY(check_class(class_));
    pthread_mutex_lock(&known.lock);
    troupe_status status = add_class(class_);
    pthread_mutex_unlock(&known.lock);
    return status;
}

void trp_class_discards(const troupe_class *row, void (*discard)(void *self))
{
    if (trp_class_of(row) != NULL)
        find_row(row)->discard = discard;
}

const trp_class *trp_class_of(const troupe_class *row)
{
    trp_class *found = row == NULL ? NULL : find_row(row);
    if (found != NULL)
        return found;
    return troupe_class_register(row) == TROUPE_OK ? find_row(row) : NULL;
}

// Appends a name to a list in a sentence; says how many more there are after the last.
static void list_name(trp_buffer *list, size_t index, const char *name)
{
    if (index < LISTED_MAX)
        trp_buffer_printf(list, "%s%s", index == 0 ? "" : ", ", name);
    else if (index == LISTED_MAX)
        trp_buffer_printf(list, ", ...");
}

static void fail_with_list(const char *what, const char *name, const char *of, trp_buffer *list)
{
    (void)troupe_fail(TROUPE_NOT_FOUND, "%s '%.64s'; %s: %.*s", what, name, of,
                      list->failed || list->size == 0 ? 4 : (int)list->size,
                      list->failed || list->size == 0 ? "none" : (const char *)list->data);
    trp_buffer_free(list);
}

const trp_class *trp_class_named(const char *name, uint64_t hash)
{
    trp_class *found = find_name(name);
    if (found != NULL && (hash == 0 || found->hash == hash))
        return found;
    if (found != NULL) {
        (void)troupe_fail(
            TROUPE_WRONG_TYPE,
            "class '%s' has other methods or init arguments in this process (pid %d): "
            "were the two compiled from the same source?",
            name, (int)getpid());
        return NULL;
    }
    trp_buffer list = {0};
    size_t index = 0;
    for (trp_class *it = atomic_load(&known.all); it != NULL; it = it->next)
        if (strncmp(it->row->name, "trp_", 4) != 0) // The library's own are nobody's business.
            list_name(&list, index++, it->row->name);
    fail_with_list("there is no class", name, "known classes", &list);
    return NULL;
}

const trp_method *trp_class_method(const trp_class *class_, const char *name)
{
    for (size_t i = 0; i < class_->row->method_count; i++)
        if (strcmp(class_->methods[i].row->name, name) == 0)
            return &class_->methods[i];
    trp_buffer list = {0};
    char of[96];
    snprintf(of, sizeof of, "class '%.64s' has", class_->row->name);
    for (size_t i = 0; i < class_->row->method_count; i++)
        list_name(&list, i, class_->methods[i].row->name);
    fail_with_list("there is no method", name, of, &list);
    return NULL;
}
