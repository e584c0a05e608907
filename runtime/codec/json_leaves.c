// json_leaves.c: see json_leaves.h.
#include <runtime/codec/json_leaves.h>

#include <string.h>

// Appends the text of a JSON text, without an end.
static bool append_text(trp_json text, trp_buffer *out)
{
    trp_arena arena = {0};
    const char *plain = NULL;
    bool read = trp_json_read(&troupe_type_troupe_text, text, &arena, &plain) == TROUPE_OK;
    if (read && plain != NULL)
        trp_buffer_append(out, plain, strlen(plain));
    trp_arena_clear(&arena);
    return read && !out->failed;
}

static bool is_branch(trp_json value)
{
    trp_json at = {0}, name, member;
    return trp_json_is_object(value) && trp_json_next_member(value, &at, &name, &member);
}

// `name` has that of the object, and has it again afterwards.
static bool walk(trp_json object, trp_buffer *name, trp_json_leaf *take, void *user)
{
    trp_json at = {0}, key, value;
    const size_t size = name->size;
    bool goes_on = true;
    while (goes_on && trp_json_next_member(object, &at, &key, &value)) {
        trp_buffer_append(name, "/", size > 0);
        goes_on = append_text(key, name);
        if (goes_on && is_branch(value)) {
            goes_on = walk(value, name, take, user);
        } else if (goes_on) {
            trp_buffer_append(name, "", 1);
            goes_on = !name->failed && take(user, (const char *)name->data, value);
        }
        name->size = size;
    }
    return goes_on;
}

bool trp_json_leaves(trp_json object, trp_json_leaf *take, void *user)
{
    trp_buffer name = {0};
    bool whole = walk(object, &name, take, user);
    trp_buffer_free(&name);
    return whole;
}

void trp_json_plain(trp_json value, trp_buffer *out)
{
    if (trp_json_is_null(value))
        return;
    if (!trp_json_is_text(value))
        trp_buffer_append(out, value.at, value.size);
    else if (!append_text(value, out))
        out->failed = true;
}
