// live.c: see live.h.
#include <runtime/base/memory.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <string.h>
#include <train/control.h>
#include <train/live.h>

static const char separators[] = ", ";

// A record of one member alone, so that fixed arrays are written and read as in the config.
typedef struct alone {
    troupe_type type;
    troupe_field field;
    uint64_t hash;
} alone;

static const troupe_type *alone_of(const troupe_field *field, alone *one)
{
    one->field = (troupe_field){field->name, 0, field->type, field->count};
    one->hash = 0;
    one->type = (troupe_type){
        .abi = TROUPE_ABI,
        .kind = TROUPE_KIND_RECORD,
        .name = field->name,
        .size = field->type->size * (field->count > 0 ? field->count : 1),
        .fields = &one->field,
        .field_count = 1,
        .hash = &one->hash,
    };
    return &one->type;
}

// ---- which they are

// What cannot be written down as JSON and read back.
static bool is_bound(const troupe_type *type, int depth)
{
    if (type->kind == TROUPE_KIND_REF || type->kind == TROUPE_KIND_ACTOR ||
        type->kind == TROUPE_KIND_TENSOR || depth > TRP_DEPTH_MAX)
        return true;
    if (type->kind == TROUPE_KIND_ARRAY)
        return is_bound(type->item, depth + 1);
    for (size_t i = 0; i < type->field_count; i++)
        if (is_bound(type->fields[i].type, depth + 1))
            return true;
    return false;
}

static const troupe_field *field_of(const troupe_type *config, const char *name, size_t length)
{
    for (size_t i = 0; i < config->field_count; i++)
        if (strncmp(config->fields[i].name, name, length) == 0 &&
            config->fields[i].name[length] == '\0')
            return &config->fields[i];
    return NULL;
}

static troupe_status add_member(const troupe_trainer *trainer, trp_live_members *members,
                                const char *name, size_t length)
{
    const troupe_field *field = field_of(trainer->config, name, length);
    if (!field)
        return troupe_fail(TROUPE_INVALID,
                           "trainer '%s' has '%.*s' in .live: expected names of members of %s",
                           trainer->name, (int)length, name, trainer->config->name);
    if (is_bound(field->type, 0))
        return troupe_fail(TROUPE_INVALID,
                           "trainer '%s' has '%s' in .live, which holds a reference, an actor or a "
                           "tensor: those cannot change",
                           trainer->name, field->name);
    for (size_t i = 0; i < members->count; i++)
        if (members->fields[i] == field)
            return troupe_fail(TROUPE_INVALID, "trainer '%s' has '%s' in .live twice",
                               trainer->name, field->name);
    members->fields[members->count++] = field;
    return TROUPE_OK;
}

troupe_status trp_live_members_of(const troupe_trainer *trainer, trp_live_members *members)
{
    const char *list = trainer->stages ? trainer->stages->live : NULL;
    members->count = 0;
    for (const char *at = list; at && *at;) {
        at += strspn(at, separators);
        size_t length = strcspn(at, separators);
        if (length > 0)
            TROUPE_TRY(add_member(trainer, members, at, length));
        at += length;
    }
    return TROUPE_OK;
}

// ---- wishes

troupe_status trp_live_open(trp_live *live, const troupe_trainer *trainer)
{
    *live = (trp_live){.trainer = trainer};
    TROUPE_TRY(trp_live_members_of(trainer, &live->members));
    live->wishes = (trp_wish *)trp_alloc((live->members.count + 1) * sizeof(*live->wishes));
    if (!live->wishes)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the live values of '%s'",
                           trainer->name);
    return TROUPE_OK;
}

void trp_wish_drop(trp_wish *wish)
{
    trp_arena_clear(&wish->arena);
    wish->value = NULL;
}

void trp_live_close(trp_live *live)
{
    for (size_t i = 0; live->wishes && i < live->members.count; i++)
        trp_wish_drop(&live->wishes[i]);
    trp_free(live->wishes);
    trp_buffer_free(&live->ordered);
    trp_buffer_free(&live->holds);
    *live = (trp_live){0};
}

static void list_names(const troupe_field *const *fields, size_t count, trp_buffer *out)
{
    for (size_t i = 0; i < count; i++)
        trp_buffer_printf(out, "%s%s", i > 0 ? ", " : "", fields[i]->name);
    trp_buffer_append(out, "", 1);
}

static const char *text_of(const trp_buffer *names)
{
    return names->failed ? "..." : names->size > 1 ? (const char *)names->data : "none";
}

troupe_status trp_live_find(const troupe_trainer *trainer, const trp_live_members *members,
                            const char *name, size_t *member)
{
    const troupe_type *config = trainer->config;
    for (size_t i = 0; i < members->count; i++) {
        if (strcmp(members->fields[i]->name, name) == 0) {
            *member = i;
            return TROUPE_OK;
        }
    }
    trp_buffer names = {0};
    if (field_of(config, name, strlen(name))) {
        list_names(members->fields, members->count, &names);
        (void)troupe_fail(TROUPE_UNSUPPORTED,
                          "member '%s' of the config of '%s' cannot change while it runs: those "
                          "in its .live can: %s",
                          name, trainer->name, text_of(&names));
    } else {
        const troupe_field *all[TRP_LIVE_MEMBERS];
        size_t count = 0;
        while (count < config->field_count && count < TRP_LIVE_MEMBERS) {
            all[count] = &config->fields[count];
            count++;
        }
        list_names(all, count, &names);
        (void)troupe_fail(TROUPE_NOT_FOUND,
                          "the config of '%s' has no member '%.63s': its members are %s",
                          trainer->name, name, text_of(&names));
    }
    trp_buffer_free(&names);
    return troupe_last_error()->status;
}

troupe_status trp_live_pack_value(const trp_live_members *members, size_t member, const void *value,
                                  trp_buffer *out)
{
    alone one;
    return trp_pack(alone_of(members->fields[member], &one), value, out);
}

void trp_live_pack(const trp_live *live, trp_buffer *out)
{
    uint64_t which = 0;
    for (size_t i = 0; i < live->members.count; i++)
        if (live->wishes[i].value)
            which |= (uint64_t)1 << i;
    trp_write_uint(out, which);
    for (size_t i = 0; i < live->members.count; i++) {
        alone one;
        // It was packed when it was wished.
        if (live->wishes[i].value && trp_pack(alone_of(live->members.fields[i], &one),
                                              live->wishes[i].value, out) != TROUPE_OK)
            out->failed = true;
    }
}

// That all wishes together fit.
static troupe_status check_size(const trp_live *live, size_t member)
{
    trp_buffer packed = {0};
    troupe_status status = TROUPE_OK;
    trp_live_pack(live, &packed);
    if (packed.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the live values of '%s'",
                             live->trainer->name);
    else if (packed.size > TRP_LIVE_MAX)
        status = troupe_fail(TROUPE_TOO_LARGE,
                             "with this %s the live values of '%s' take %zu bytes: expected at "
                             "most %d",
                             live->members.fields[member]->name, live->trainer->name, packed.size,
                             (int)TRP_LIVE_MAX);
    trp_buffer_free(&packed);
    return status;
}

static troupe_status no_memory(const trp_live *live, size_t member)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for member '%s' of the config of '%s'",
                       live->members.fields[member]->name, live->trainer->name);
}

// Drops what was not made well, or does not fit.
static troupe_status made_as(trp_live *live, size_t member, trp_wish *made, troupe_status status)
{
    if (status == TROUPE_OK) {
        trp_wish last = live->wishes[member];
        live->wishes[member] = *made;
        status = check_size(live, member);
        live->wishes[member] = last;
    }
    if (status != TROUPE_OK)
        trp_wish_drop(made);
    return status;
}

troupe_status trp_live_make(trp_live *live, size_t member, troupe_bytes value, trp_wish *made)
{
    alone one;
    const troupe_type *type = alone_of(live->members.fields[member], &one);
    *made = (trp_wish){0};
    made->value = trp_arena_alloc(&made->arena, type->size);
    troupe_status status =
        made->value ? trp_unpack_whole(type, value.data, value.size, &made->arena, made->value)
                    : no_memory(live, member);
    return made_as(live, member, made, status);
}

troupe_status trp_live_make_json(trp_live *live, size_t member, trp_json value, trp_wish *made)
{
    alone one;
    const troupe_type *type = alone_of(live->members.fields[member], &one);
    trp_buffer object = {0};
    *made = (trp_wish){0};
    trp_buffer_printf(&object, "{\"%s\": %.*s}", type->name, (int)value.size, value.at);
    made->value = object.failed ? NULL : trp_arena_alloc(&made->arena, type->size);
    troupe_status status = TROUPE_OK;
    if (made->value) {
        memset(made->value, 0, type->size);
        status = trp_json_read(type, (trp_json){(const char *)object.data, object.size},
                               &made->arena, made->value);
    } else {
        status = no_memory(live, member);
    }
    trp_buffer_free(&object);
    return made_as(live, member, made, status);
}

void trp_live_take(trp_live *live, size_t member, trp_wish *made, uint32_t revision)
{
    trp_wish_drop(&live->wishes[member]);
    live->wishes[member] = *made;
    *made = (trp_wish){0};
    if (revision > live->revision)
        live->revision = revision;
}

// ---- as JSON

void trp_live_write_value(const trp_live *live, size_t member, const void *value, trp_buffer *out)
{
    alone one;
    trp_buffer object = {0};
    trp_json all, alone_value;
    const troupe_field *field = live->members.fields[member];
    trp_json_value(&object, alone_of(field, &one), value);
    if (!object.failed &&
        trp_json_parse((const char *)object.data, object.size, &all) == TROUPE_OK &&
        trp_json_member(all, field->name, &alone_value))
        trp_buffer_append(out, alone_value.at, alone_value.size);
    else
        out->failed = true;
    trp_buffer_free(&object);
}

void trp_live_write(const trp_live *live, trp_buffer *out)
{
    bool begun = false;
    for (size_t i = 0; i < live->members.count; i++) {
        if (!live->wishes[i].value)
            continue;
        trp_buffer_printf(out, "%s\"%s\": ", begun ? ", " : "{", live->members.fields[i]->name);
        trp_live_write_value(live, i, live->wishes[i].value, out);
        begun = true;
    }
    if (begun)
        trp_buffer_append(out, "}", 1);
}

void trp_live_merge(trp_json config, trp_json changes, trp_buffer *out)
{
    trp_json at = {0}, name, value;
    const char *before = "{";
    while (trp_json_next_member(config, &at, &name, &value)) {
        trp_json other = {0}, changed, key;
        while (trp_json_next_member(changes, &other, &key, &changed))
            if (key.size == name.size && memcmp(key.at, name.at, key.size) == 0)
                value = changed; // Names of members need no escapes.
        trp_buffer_printf(out, "%s%.*s: %.*s", before, (int)name.size, name.at, (int)value.size,
                          value.at);
        before = ", ";
    }
    trp_buffer_append(out, "}", 1);
}

// ---- in a config

troupe_status trp_live_apply(const trp_live_members *members, const void *data, size_t size,
                             trp_arena *arena, void *config)
{
    uint64_t which = 0;
    trp_reader in = trp_reader_of(data, size);
    if (size == 0)
        return TROUPE_OK;
    TROUPE_TRY(trp_read_uint(&in, &which));
    for (size_t i = 0; i < members->count; i++) {
        alone one;
        unsigned char *place = (unsigned char *)config + members->fields[i]->offset;
        if (which >> i & 1)
            TROUPE_TRY(trp_unpack(alone_of(members->fields[i], &one), &in, arena, place));
    }
    return trp_read_end(&in);
}
