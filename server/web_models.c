// web_models.c: the repository of models: keys, versions, and where a version comes from.
#include <server/web_job.h>

#include <inttypes.h>
#include <models/repository.h>
#include <runtime/base/error.h>
#include <server/web_json.h>
#include <stdio.h>
#include <string.h>

enum { KEYS_MAX = 1000, VERSIONS_MAX = 1000, NUMBERS_LOOKED = 200 };

static troupe_status root_of(const web_call *call, trp_path *root)
{
    return trp_repository_root(call->web->models, TRP_TO_READ, root);
}

troupe_status web_list_models(web_call *call)
{
    trp_buffer *out = call->out;
    trp_path root, folder;
    trp_names keys = {0};
    bool there;
    troupe_status status = root_of(call, &root);
    if (status == TROUPE_OK)
        status = trp_repository_list_keys(root.text, &call->arena, &keys);
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND) // No repository has no keys.
        return status;
    web_begin(out, NULL, '{');
    for (size_t i = 0; i < keys.count && i < KEYS_MAX; i++) {
        trp_numbers numbers;
        if (trp_key_folder(root.text, keys.items[i], &there, &folder) != TROUPE_OK || !there ||
            trp_key_numbers(folder.text, &call->arena, &numbers) != TROUPE_OK)
            continue;
        web_begin(out, keys.items[i], '[');
        size_t from = numbers.whole_count > VERSIONS_MAX ? numbers.whole_count - VERSIONS_MAX : 0;
        for (size_t k = from; k < numbers.whole_count; k++)
            web_integer(out, NULL, numbers.whole[k]);
        web_end(out, ']');
    }
    web_end(out, '}');
    return TROUPE_OK;
}

static void write_metrics(trp_buffer *out, const troupe_version_info *it)
{
    web_begin(out, "metrics", '{');
    for (size_t i = 0; i < it->metric_count; i++)
        web_number(out, it->metrics[i].name, it->metrics[i].value);
    web_end(out, '}');
}

static void write_version(trp_buffer *out, const troupe_version_info *it)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < it->file_count; i++)
        bytes += it->files[i].size;
    web_text(out, "key", it->key);
    web_integer(out, "version", it->version);
    web_text(out, "problem", it->problem);
    web_text(out, "model", it->model);
    web_time(out, "pushed_at", web_time_of(it->pushed));
    web_integer(out, "bytes", (int64_t)bytes);
    write_metrics(out, it);
    web_begin(out, "aliases", '[');
    for (size_t i = 0; i < it->alias_count; i++)
        web_text(out, NULL, it->aliases[i]);
    web_end(out, ']');
}

static troupe_status describe(web_call *call, const char *version, troupe_version_info *info)
{
    char ref[2 * TRP_NAME_SIZE + 2];
    if (strlen(call->parts[0]) >= TRP_NAME_SIZE || strlen(version) >= TRP_NAME_SIZE)
        return troupe_fail(TROUPE_NOT_FOUND, "a key and a version have at most %d bytes each",
                           TROUPE_REPOSITORY_NAME_MAX);
    snprintf(ref, sizeof ref, "%s@%s", call->parts[0], version);
    return troupe_repository_describe(ref, info, .repository = call->web->models);
}

troupe_status web_show_model(web_call *call)
{
    trp_buffer *out = call->out;
    int64_t most = call->query[0].number, below = call->query[1].number;
    trp_path root, folder;
    trp_numbers numbers;
    size_t shown = 0;
    TROUPE_TRY(root_of(call, &root));
    TROUPE_TRY(trp_key_find(root.text, call->parts[0], &folder));
    TROUPE_TRY(trp_key_numbers(folder.text, &call->arena, &numbers));
    web_begin(out, NULL, '{');
    web_text(out, "key", call->parts[0]);
    web_integer(out, "count", (int64_t)numbers.whole_count);
    web_begin(out, "versions", '[');
    size_t i = numbers.whole_count;
    for (; i > 0 && (int64_t)shown < most; i--) {
        troupe_version_info info;
        char text[24];
        if (numbers.whole[i - 1] >= below)
            continue;
        snprintf(text, sizeof text, "%" PRId64, numbers.whole[i - 1]);
        web_begin(out, NULL, '{');
        if (describe(call, text, &info) == TROUPE_OK) {
            write_version(out, &info);
        } else {
            web_integer(out, "version", numbers.whole[i - 1]);
            web_text(out, "problem", troupe_last_error()->text);
        }
        web_end(out, '}');
        shown++;
    }
    web_end(out, ']');
    if (i > 0)
        web_integer(out, "next", numbers.whole[i]);
    web_end(out, '}');
    return TROUPE_OK;
}

// The job whose run it was, of those submitted lately; 0: none of these.
static int64_t job_of_run(web_call *call, const char *run)
{
    int64_t *numbers;
    size_t count;
    if (run == NULL || web_job_numbers(call, &numbers, &count) != TROUPE_OK)
        return 0;
    for (size_t i = 0; i < count && i < NUMBERS_LOOKED; i++) {
        web_job job;
        if (web_job_read(call, numbers[i], NULL, &job) == TROUPE_OK && job.file.folder != NULL &&
            strcmp(job.file.folder, run) == 0)
            return numbers[i];
    }
    return 0;
}

static void write_lineage(web_call *call, const troupe_version_info *it)
{
    trp_buffer *out = call->out;
    int64_t job = job_of_run(call, it->run);
    web_begin(out, "lineage", '{');
    web_text(out, "pushed_as", it->pushed_as);
    web_text(out, "run", it->run);
    if (job > 0)
        web_integer(out, "job", job);
    web_integer(out, "checkpoint", it->checkpoint);
    web_text(out, "committed", it->committed);
    web_integer(out, "report", it->report);
    web_integer(out, "world", it->world);
    web_text(out, "data", it->data);
    web_begin(out, "data_keys", '[');
    for (size_t i = 0; i < it->data_key_count; i++)
        web_text(out, NULL, it->data_keys[i]);
    web_end(out, ']');
    web_text(out, "program", it->program);
    web_text(out, "build_id", it->build_id);
    web_integer(out, "kept_program_bytes", (int64_t)it->kept_program_bytes);
    web_end(out, '}');
}

troupe_status web_show_version(web_call *call)
{
    trp_buffer *out = call->out;
    troupe_version_info info;
    TROUPE_TRY(describe(call, call->parts[1], &info));
    web_begin(out, NULL, '{');
    write_version(out, &info);
    web_text(out, "path", info.path);
    web_text(out, "config_type", info.config_type);
    web_text(out, "state_type", info.state_type);
    web_json_text(out, "config", info.config);
    web_json_text(out, "metadata", info.metadata);
    web_begin(out, "files", '[');
    for (size_t i = 0; i < info.file_count; i++) {
        char hash[24];
        snprintf(hash, sizeof hash, "%016" PRIx64, info.files[i].xxh64);
        web_begin(out, NULL, '{');
        web_text(out, "name", info.files[i].name);
        web_integer(out, "bytes", (int64_t)info.files[i].size);
        web_text(out, "xxh64", hash);
        web_end(out, '}');
    }
    web_end(out, ']');
    write_lineage(call, &info);
    web_end(out, '}');
    return TROUPE_OK;
}
