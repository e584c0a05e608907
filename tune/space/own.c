// own.c: see tune/space/own.h.
#include <tune/space/own.h>

#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <stdatomic.h>
#include <string.h>
#include <troupe/repository.h>
#include <tune/space/fields.h>
#include <tune/space/options.h>
#include <tune/space/space.h>

// Newest first. Programs register before main, plug-ins when they are loaded, by any thread.
static _Atomic(troupe_own_space *) newest;

void troupe_space_register(troupe_own_space *own)
{
    if (own == NULL || own->size < sizeof *own || own->trainer == NULL)
        return;
    own->next_ = atomic_load(&newest);
    while (!atomic_compare_exchange_weak(&newest, &own->next_, own))
        continue;
}

static const troupe_own_space *find(const troupe_trainer *trainer)
{
    const troupe_own_space *own = atomic_load(&newest);
    while (own != NULL && strcmp(own->trainer->name, trainer->name) != 0) // As Train finds them.
        own = own->next_;
    return own;
}

// Whether the config or the options have what the row is of. What is wrong with a row of theirs is
// said when the space is opened.
static bool is_used(const troupe_trainer *trainer, const troupe_param *row)
{
    trp_field_found field;
    return row->of == NULL || row->name == NULL || trainer->config == NULL ||
           trp_space_is_option(row) || strcmp(row->of, trainer->config->name) == 0 ||
           trp_field_find(trainer->config, row, &field) == TROUPE_OK;
}

troupe_status trp_space_own_rows(const troupe_trainer *trainer, troupe_param **rows, size_t *count)
{
    const troupe_own_space *own = find(trainer);
    troupe_status status = TROUPE_OK;
    size_t used = 0;
    *rows = NULL;
    *count = 0;
    if (own == NULL || own->count == 0)
        return TROUPE_OK;
    troupe_param *taken = (troupe_param *)trp_alloc(own->count * sizeof *taken);
    if (taken == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a space of %zu rows", own->count);
    for (size_t i = 0; i < own->count && status == TROUPE_OK; i++) {
        const troupe_param *given = (const troupe_param *)trp_row_at(own->rows, i);
        status = TRP_OPTIONS_TAKE("a row of a space", taken[used], given);
        taken[used].size = sizeof *taken;
        used += is_used(trainer, &taken[used]);
    }
    if (status != TROUPE_OK) {
        trp_free(taken);
        return status;
    }
    *rows = taken;
    *count = used;
    return trp_error_settled(TROUPE_OK);
}

// ---- with versions of a model

static troupe_status describe(const troupe_trainer *trainer, const troupe_param *rows, size_t count,
                              const char **text)
{
    troupe_space *space;
    trp_buffer out = {0};
    if (troupe_space_open_as(trainer->config, rows, count, trainer->defaults, &space) != TROUPE_OK)
        return trp_error_prefix("the model's own space");
    trp_space_describe(space, &out);
    troupe_space_free(&space);
    *text = trp_buffer_keep(&out, trp_arena_current());
    return *text != NULL ? TROUPE_OK
                         : troupe_fail(TROUPE_NO_MEMORY, "no memory for the model's own space");
}

static troupe_status say_space(const troupe_model *model, const char **text)
{
    troupe_param *rows;
    size_t count, used = 0;
    if (model->trainer == NULL)
        return TROUPE_OK;
    TROUPE_TRY(trp_space_own_rows(model->trainer, &rows, &count));
    for (size_t i = 0; i < count; i++) // Who tunes the version says how its runs run.
        if (!trp_space_is_option(&rows[i]))
            rows[used++] = rows[i];
    troupe_status status = TROUPE_OK;
    if (used > 0)
        status = describe(model->trainer, rows, used, text);
    trp_free(rows);
    return status;
}

__attribute__((constructor)) static void be_asked(void)
{
    (void)troupe_push_note_register(TRP_OWN_SPACE, say_space);
}
