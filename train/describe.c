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
    GOAL,
    OPEN,
    FLAG,
} shape;

typedef struct option_row {
    const char *name;
    shape shape;
    size_t offset;
    double normal; // What 0 stands for.
} option_row;

#define ROW(field, shape, normal)                                                                  \
    {                                                                                              \
#field, shape, offsetof(troupe_train_options, field), normal                               \
    }

static const option_row rows[] = {
    ROW(ranks, WHOLE, 1),
    ROW(cpus_per_rank, REAL, 1),
    ROW(storage, TEXT, 0),
    ROW(name, TEXT, 0),
    ROW(keep, WHOLE, 0),
    ROW(keep_metric, TEXT, 0),
    ROW(keep_goal, GOAL, 0),
    ROW(restarts, WHOLE, 0),
    ROW(from, TEXT, 0),
    ROW(collective_timeout_ms, WHOLE, TRP_COLLECTIVE_TIMEOUT_MS),
    ROW(gpus_per_rank, REAL, 0),
    ROW(memory_per_rank_bytes, SIZE, 0),
    ROW(resources_per_rank, TEXT, 0),
    ROW(env, TEXT, 0),
    ROW(coordinator_cpus, REAL, 0),
    ROW(open, OPEN, 0),
    ROW(force, FLAG, 0),
    ROW(metadata, TEXT, 0),
    ROW(time_limit_s, REAL, 0),
    ROW(time_limit_grace_s, REAL, TRP_TIME_LIMIT_GRACE_S),
};

// A new option gets a row above, and its place in this sum.
_Static_assert(sizeof(troupe_train_options) ==
                   offsetof(troupe_train_options, time_limit_grace_s) + 2 * sizeof(double),
               "each option has a row");

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

// What is passed on to processes may hold secrets.
static void put_text(trp_buffer *out, const option_row *row, const char *text)
{
    if (strcmp(row->name, "env") == 0)
        trp_buffer_printf(out, "...");
    else
        trp_json_text(out, text);
}

static void put_option(trp_buffer *out, const option_row *row, const troupe_train_options *options)
{
    static const char *const goals[] = {"none", "TROUPE_MINIMIZE", "TROUPE_MAXIMIZE"};
    static const char *const opens[] = {"TROUPE_OPEN_NEW", "TROUPE_OPEN_RESUME",
                                        "TROUPE_OPEN_RESUME_OR_NEW"};
    const void *field = (const char *)options + row->offset;
    double real = row->shape == REAL ? *(const double *)field : 0;
    size_t size = row->shape == SIZE ? *(const size_t *)field : 0;
    const char *text = row->shape == TEXT ? *(const char *const *)field : NULL;
    int whole = 0;
    if (row->shape == WHOLE || row->shape == GOAL || row->shape == OPEN)
        memcpy(&whole, field, sizeof(whole));
    else if (row->shape == FLAG)
        whole = *(const bool *)field;
    if ((real == 0 && size == 0 && text == NULL && whole == 0) ||
        (row->normal != 0 && (real == row->normal || whole == row->normal)))
        return;
    trp_buffer_printf(out, " %s=", row->name);
    if (row->shape == REAL)
        trp_json_number(out, real);
    else if (row->shape == SIZE)
        trp_buffer_printf(out, "%zu", size);
    else if (row->shape == TEXT)
        put_text(out, row, text);
    else if (row->shape == GOAL)
        put_word(out, whole, goals, 3);
    else if (row->shape == OPEN)
        put_word(out, whole, opens, 3);
    else if (row->shape == FLAG)
        trp_buffer_printf(out, "true");
    else
        put_whole(out, whole);
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
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
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
