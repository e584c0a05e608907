// run_data.c: see run_data.h.
#include <inttypes.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <string.h>
#include <train/run_data.h>

enum { LIST_MAX = 300 }; // Bytes of keys in a text.

static void list(troupe_array_troupe_text keys, char *out, size_t size)
{
    trp_data_list(keys.items, keys.count, out, size);
}

static troupe_status keep_keys(trp_job *job, const troupe_array_troupe_text *keys)
{
    troupe_text *copies =
        (troupe_text *)trp_arena_alloc(&job->arena, (keys->count + 1) * sizeof *copies);
    for (size_t i = 0; copies && i < keys->count; i++) {
        char *copy = (char *)trp_arena_alloc(&job->arena, strlen(keys->items[i]) + 1);
        if (!copy)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for the keys of a run's data");
        copies[i] = strcpy(copy, keys->items[i]);
    }
    if (!copies)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the keys of a run's data");
    job->opening.data_keys = (troupe_array_troupe_text){copies, keys->count};
    return TROUPE_OK;
}

troupe_status trp_run_check_data(trp_job *job, const trp_run_data *found)
{
    char keys[LIST_MAX];
    if (job->options.force)
        return TROUPE_OK;
    if (!job->data_table && found->name) {
        list(found->keys, keys, sizeof keys);
        return troupe_fail(
            TROUPE_INVALID,
            "the run %s has data '%.63s', which have to be given again: %s; expected "
            ".data = troupe_data_with(%.63s, ...)",
            job->path, found->name, found->keys.count > 0 ? keys : "its sets are not known yet",
            found->name);
    }
    if (job->data_table && !found->name)
        return troupe_fail(TROUPE_INVALID,
                           "the run %s has no data, and is given '%s': leave out .data, or open it "
                           "with .force = true",
                           job->path, job->data_table->name);
    return keep_keys(job, &found->keys);
}

trp_run_data trp_run_data_of(const trp_job *job, trp_run_data_text *text)
{
    if (!job->data_table)
        return (trp_run_data){0};
    snprintf(text->schema, sizeof text->schema, "%016" PRIx64,
             troupe_type_hash(job->data_table->source));
    return (trp_run_data){
        .name = job->data_table->name, .schema = text->schema, .keys = job->opening.data_keys};
}

static bool same(troupe_array_troupe_text one, troupe_array_troupe_text other)
{
    bool equal = one.count == other.count;
    for (size_t i = 0; equal && i < one.count; i++)
        equal = strcmp(one.items[i], other.items[i]) == 0;
    return equal;
}

// Puts the keys into run.json, and leaves the rest as it is.
static troupe_status write_keys(const trp_job *job)
{
    trp_arena arena = {0};
    trp_run_file file;
    trp_run_data_text text;
    troupe_status status = trp_run_file_read(job->path, &arena, &file);
    file.data = trp_run_data_of(job, &text);
    if (status == TROUPE_OK)
        status = trp_run_file_write(job->path, &file, job->opening.lasts);
    trp_arena_clear(&arena);
    return status;
}

troupe_status trp_run_put_data(trp_job *job, const trp_data_sets *sets)
{
    char expected[LIST_MAX], named[LIST_MAX];
    troupe_array_troupe_text had = job->opening.data_keys;
    troupe_array_troupe_text keys = {trp_data_keys(sets, &job->arena), sets->count};
    if (!keys.items)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the keys of a run's data");
    if (had.count == 0) {
        job->opening.data_keys = keys;
        return write_keys(job);
    }
    if (same(had, keys))
        return TROUPE_OK;
    list(had, expected, sizeof expected);
    list(keys, named, sizeof named);
    return troupe_fail(TROUPE_INVALID,
                       "the data of the run %s are others: expected the sets %s, and '%s' has %s; "
                       ".force = true goes on with those",
                       job->path, expected, job->data_table->name, named);
}
