// command.c: see command.h.
#include <tune/why/command.h>

#include <string.h>
#include <tune/command/template.h>

static const char *fill_word(trp_json item, trp_json config, int trial)
{
    trp_buffer filled = {0};
    const char *word = NULL;
    char *own = NULL;
    if (trp_json_read(&troupe_type_troupe_text, item, trp_arena_current(), &word) == TROUPE_OK &&
        word != NULL && trp_template_fill(word, config, trial, true, &filled) == TROUPE_OK) {
        trp_buffer_append(&filled, "", 1);
        own = filled.failed ? NULL : trp_arena_alloc(trp_arena_current(), filled.size);
        if (own != NULL)
            memcpy(own, filled.data, filled.size);
    }
    trp_buffer_free(&filled);
    return own;
}

const char *const *trp_command_of(trp_json words, trp_json config, int trial)
{
    trp_json item = {0};
    size_t count = 0, used = 0;
    while (trp_json_next_item(words, &item))
        count++;
    const char **made = trp_arena_alloc(trp_arena_current(), (count + 1) * sizeof *made);
    item = (trp_json){0};
    while (made != NULL && used < count && trp_json_next_item(words, &item))
        if ((made[used++] = fill_word(item, config, trial)) == NULL)
            return NULL;
    return made;
}
