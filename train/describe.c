// describe.c: a run in one line, by what was asked of it that is not the default.
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <train/job.h>

typedef enum shape {
    WHOLE, // A number, or one of the special ones.
    REAL,
    SIZE,
    TEXT,
    HIDDEN, // A text that may hold secrets.
    GOAL,
    OPEN,
    FLAG,
    CONSOLE,
    SERVER,
    SYNC,
    PLAIN,   // A number, whatever it is.
    POINTER, // What it points to cannot be written.
} shape;

typedef enum kept { SAVED, PLACED, SECRET, BESIDE } kept;

typedef struct option_row {
    const char *name;
    shape shape;
    kept kept;
    size_t offset;
    double normal; // What 0 stands for.
} option_row;

static const option_row rows[] = {
#define ROW(type, member, shape, kept, normal)                                                     \
    {#member, shape, kept, offsetof(troupe_train_options, member), normal},
    TRP_OPTION_TABLE(ROW)
#undef ROW
};

static void put_word(trp_buffer *out, int value, const char *const *words, int count)
{
    if (value >= 0 && value < count)
        trp_buffer_printf(out, "%s", words[value]);
    else
        trp_buffer_printf(out, "%d", value);
}

static void put_whole(trp_buffer *out, int value)
{
    if (value == TROUPE_FOREVER || value == TROUPE_NONE)
        trp_buffer_printf(out, value == TROUPE_NONE ? "TROUPE_NONE" : "TROUPE_FOREVER");
    else
        trp_buffer_printf(out, "%d", value);
}

static void put_option(trp_buffer *out, const option_row *row, const troupe_train_options *options)
{
    static const char *const goals[] = {"none", "TROUPE_MINIMIZE", "TROUPE_MAXIMIZE"};
    static const char *const opens[] = {"TROUPE_OPEN_NEW", "TROUPE_OPEN_RESUME",
                                        "TROUPE_OPEN_RESUME_OR_NEW"};
    static const char *const consoles[] = {"TROUPE_CONSOLE_AUTO", "TROUPE_CONSOLE_ON",
                                           "TROUPE_CONSOLE_OFF"};
    static const char *const servers[] = {"TROUPE_SERVER_DEFAULT", "TROUPE_SERVER_AUTO",
                                          "TROUPE_SERVER_NONE"};
    static const char *const syncs[] = {"TROUPE_SYNC_AUTO", "TROUPE_SYNC_ALL",
                                        "TROUPE_SYNC_CHECKPOINTS"};
    const void *field = (const char *)options + row->offset;
    bool hidden = row->shape == HIDDEN || row->shape == POINTER;
    bool points = row->shape == TEXT || hidden;
    double real = row->shape == REAL ? *(const double *)field : 0;
    size_t size = row->shape == SIZE ? *(const size_t *)field : 0;
    const char *text = points ? *(const char *const *)field : NULL;
    int whole = 0;
    if (row->shape == FLAG)
        whole = *(const bool *)field;
    else if (!points && row->shape != REAL && row->shape != SIZE)
        memcpy(&whole, field, sizeof(whole));
    if ((real == 0 && size == 0 && text == NULL && whole == 0) ||
        (row->normal != 0 && (real == row->normal || whole == row->normal)))
        return;
    trp_buffer_printf(out, " %s=", row->name);
    if (row->shape == REAL)
        trp_json_number(out, real);
    else if (row->shape == SIZE)
        trp_buffer_printf(out, "%zu", size);
    else if (row->shape == TEXT)
        trp_json_text(out, text);
    else if (row->shape == GOAL)
        put_word(out, whole, goals, 3);
    else if (row->shape == OPEN)
        put_word(out, whole, opens, 3);
    else if (row->shape == CONSOLE)
        put_word(out, whole, consoles, 3);
    else if (row->shape == SERVER)
        put_word(out, whole, servers, 3);
    else if (row->shape == SYNC)
        put_word(out, whole, syncs, 3);
    else if (row->shape == PLAIN)
        trp_buffer_printf(out, "%d", whole);
    else if (row->shape == FLAG || hidden)
        trp_buffer_printf(out, row->shape == FLAG ? "true" : "...");
    else
        put_whole(out, whole);
}

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

const char *trp_option_given(const troupe_train_options *options, size_t *row)
{
    while (*row < ROWS) {
        const option_row *at = &rows[(*row)++];
        trp_buffer text = {0};
        put_option(&text, at, options);
        bool given = text.size > 0 || text.failed, free = at->kept == PLACED || at->kept == BESIDE;
        trp_buffer_free(&text);
        if (given && !free)
            return at->name;
    }
    return NULL;
}

bool trp_option_is_known(const char *name, size_t length)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0)
            return true;
    return false;
}

troupe_status troupe_train_describe_as(const troupe_trainer *trainer, char *out, size_t capacity,
                                       const troupe_train_options *how)
{
    TRP_REQUIRE(trainer);
    TRP_REQUIRE(out);
    troupe_train_options options;
    trp_buffer text = {0};
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_train_describe", options, how));
    trp_buffer_printf(&text, "<%s", trainer->name);
    for (size_t i = 0; i < ROWS; i++)
        put_option(&text, &rows[i], &options);
    trp_buffer_append(&text, ">", 2);
    troupe_status status = TROUPE_OK;
    if (text.failed)
        status =
            troupe_fail(TROUPE_NO_MEMORY, "no memory to describe a run of '%s'", trainer->name);
    else if (text.size > capacity)
        status = troupe_fail(TROUPE_TOO_LARGE,
                             "the description of a run takes %zu bytes, and there is room for %zu",
                             text.size, capacity);
    else
        memcpy(out, text.data, text.size);
    trp_buffer_free(&text);
    return status;
}
