// command.c: see command.h.
#include <tune/why/command.h>

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

// The value of {name} of that length; false: the config has none.
static bool value_of(trp_json config, const char *name, size_t length, trp_json *value)
{
    char text[NAME_BYTES];
    if (length == 0 || length >= sizeof text)
        return false;
    memcpy(text, name, length);
    text[length] = '\0';
    return trp_json_member(config, text, value);
}

// Appends a text without its quotes, all else as JSON.
static void add_value(trp_buffer *out, trp_json value)
{
    const char *text = NULL;
    if (trp_json_is_text(value) &&
        trp_json_read(&troupe_type_troupe_text, value, trp_arena_current(), &text) == TROUPE_OK)
        trp_buffer_append(out, text, strlen(text));
    else
        trp_buffer_append(out, value.at, value.size);
}

static void fill_word(trp_buffer *out, const char *word, trp_json config)
{
    while (*word != '\0') {
        const char *end = *word == '{' ? strchr(word, '}') : NULL;
        trp_json value;
        if (end != NULL && value_of(config, word + 1, (size_t)(end - word) - 1, &value)) {
            add_value(out, value);
            word = end + 1;
        } else {
            trp_buffer_append(out, word++, 1);
        }
    }
    trp_buffer_append(out, "", 1);
}

const char *const *trp_command_of(trp_json words, trp_json config)
{
    trp_json item = {0};
    size_t count = 0, used = 0;
    while (trp_json_next_item(words, &item))
        count++;
    char **made = trp_arena_alloc(trp_arena_current(), (count + 1) * sizeof *made);
    item = (trp_json){0};
    while (made != NULL && used < count && trp_json_next_item(words, &item)) {
        trp_buffer filled = {0};
        const char *word = NULL;
        if (trp_json_read(&troupe_type_troupe_text, item, trp_arena_current(), &word) ==
                TROUPE_OK &&
            word != NULL)
            fill_word(&filled, word, config);
        char *own = filled.size > 0 && !filled.failed
                        ? trp_arena_alloc(trp_arena_current(), filled.size)
                        : NULL;
        if (own != NULL)
            memcpy(own, filled.data, filled.size);
        trp_buffer_free(&filled);
        if (own == NULL)
            return NULL;
        made[used++] = own;
    }
    return (const char *const *)made;
}
