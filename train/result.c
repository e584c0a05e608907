// result.c: results: what is known of a run that has ended.
#include <math.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <string.h>
#include <train/result.h>

troupe_result *trp_result_make(const char *path)
{
    troupe_result *result = (troupe_result *)trp_alloc(sizeof(*result));
    if (!result)
        return NULL;
    atomic_init(&result->holds, 1);
    result->error = "";
    result->path = trp_job_result_text(result, path);
    if (!result->path)
        troupe_result_free(&result);
    return result;
}

const char *trp_job_result_text(troupe_result *result, const char *text)
{
    char *copy = (char *)trp_arena_alloc(&result->arena, strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

troupe_status trp_job_result_metrics(troupe_result *result, const troupe_metric *metrics,
                                     size_t count)
{
    troupe_metric *copies =
        (troupe_metric *)trp_arena_alloc(&result->arena, (count + 1) * sizeof(*copies));
    for (size_t i = 0; copies && i < count; i++) {
        copies[i] = (troupe_metric){trp_job_result_text(result, metrics[i].name), metrics[i].value};
        if (!copies[i].name)
            copies = NULL;
    }
    if (!copies)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the metrics of a result");
    result->metrics = copies;
    result->metric_count = count;
    return TROUPE_OK;
}

troupe_status trp_job_result_value(troupe_result *result, const void *data, size_t size,
                                   uint64_t schema)
{
    if (size == 0)
        return TROUPE_OK;
    void *copy = trp_arena_alloc(&result->arena, size);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what a loop returned");
    result->value = (troupe_bytes){memcpy(copy, data, size), size};
    result->value_schema = schema;
    return TROUPE_OK;
}

trp_outcome trp_result_outcome(const troupe_result *result, trp_metric *metrics)
{
    size_t count = result->metric_count < TRP_METRICS_MAX ? result->metric_count : TRP_METRICS_MAX;
    for (size_t i = 0; i < count; i++)
        metrics[i] = (trp_metric){result->metrics[i].name, result->metrics[i].value};
    return (trp_outcome){
        .status = (int)result->status,
        .error = result->error,
        .cause = result->cause,
        .stopped = result->stopped,
        .reports = result->reports,
        .restarts = result->restarts,
        .metrics = {metrics, count},
        .checkpoint = result->checkpoint,
        .best = result->best,
        .path = result->path,
        .elapsed_s = result->elapsed_s,
        .value = result->value,
        .value_schema = result->value_schema,
    };
}

static bool copy_texts(troupe_result *result, const trp_outcome *outcome)
{
    const char *texts[] = {outcome->error, outcome->cause, outcome->checkpoint, outcome->best};
    const char **copies[] = {&result->error, &result->cause, &result->checkpoint, &result->best};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i] && !(*copies[i] = trp_job_result_text(result, texts[i])))
            return false;
    }
    return true;
}

static bool copy_metrics(troupe_result *result, const trp_outcome *outcome)
{
    size_t count = outcome->metrics.count;
    troupe_metric *copies =
        (troupe_metric *)trp_arena_alloc(&result->arena, (count + 1) * sizeof(*copies));
    for (size_t i = 0; copies && i < count; i++) {
        const trp_metric *metric = &outcome->metrics.items[i];
        copies[i] = (troupe_metric){trp_job_result_text(result, metric->name), metric->value};
        if (!copies[i].name)
            return false;
    }
    result->metrics = copies;
    result->metric_count = copies ? count : 0;
    return copies != NULL;
}

troupe_result *trp_result_of(const trp_outcome *outcome)
{
    troupe_result *result = trp_result_make(outcome->path);
    if (!result)
        return NULL;
    result->status = (troupe_status)outcome->status;
    result->stopped = outcome->stopped;
    result->reports = outcome->reports;
    result->restarts = outcome->restarts;
    result->elapsed_s = outcome->elapsed_s;
    if (!copy_texts(result, outcome) || !copy_metrics(result, outcome) ||
        trp_job_result_value(result, outcome->value.data, outcome->value.size,
                             outcome->value_schema) != TROUPE_OK)
        troupe_result_free(&result);
    return result;
}

troupe_status troupe_result_value_as(const troupe_type *type, const troupe_result *result,
                                     void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(result);
    TRP_REQUIRE(value);
    if (result->value.size == 0 || result->status != TROUPE_OK)
        return troupe_fail(TROUPE_NOT_FOUND, "rank 0 of the run at %s returned no value",
                           result->path);
    if (result->value_schema != troupe_type_hash(type))
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "what rank 0 of the run at %s returned is no %s: its schema is %016llx, "
                           "not %016llx",
                           result->path, type->name, (unsigned long long)result->value_schema,
                           (unsigned long long)troupe_type_hash(type));
    return troupe_unpack_as(type, result->value.data, result->value.size, value);
}

troupe_status troupe_result_committed_as(const troupe_type *type, const troupe_result *result,
                                         int rank, void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(result);
    TRP_REQUIRE(value);
    return trp_memory_commit_read(result->commit, result->path, rank, type, value);
}

void troupe_result_free(troupe_result **result)
{
    if (!result || !*result)
        return;
    // Releases this holder's reads, and acquires those of all others before the memory goes.
    if (atomic_fetch_sub(&(*result)->holds, 1) == 1) {
        trp_memory_commit_release((*result)->commit);
        trp_arena_clear(&(*result)->arena);
        trp_free(*result);
    }
    *result = NULL;
}

troupe_status troupe_result_status(const troupe_result *result)
{
    TRP_REQUIRE(result);
    return result->status;
}

const char *troupe_result_error(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return "";
    return result->error;
}

const char *troupe_result_cause(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return "";
    return result->cause != NULL ? result->cause : result->error;
}

bool troupe_result_stopped(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return false;
    return result->stopped;
}

double troupe_result_metric(const troupe_result *result, const char *name)
{
    if (TRP_IS_NULL(result) || TRP_IS_NULL(name))
        return NAN;
    for (size_t i = 0; i < result->metric_count; i++)
        if (strcmp(result->metrics[i].name, name) == 0)
            return result->metrics[i].value;
    return NAN;
}

const troupe_metric *troupe_result_metrics(const troupe_result *result, size_t *count)
{
    if (count != NULL)
        *count = result != NULL ? result->metric_count : 0;
    return result != NULL ? result->metrics : NULL;
}

int troupe_result_reports(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return 0;
    return result->reports;
}

int troupe_result_restarts(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return 0;
    return result->restarts;
}

const char *troupe_result_checkpoint(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return NULL;
    return result->checkpoint;
}

const char *troupe_result_best_checkpoint(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return NULL;
    return result->best;
}

const char *troupe_result_path(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return "";
    return result->path;
}

double troupe_result_elapsed_s(const troupe_result *result)
{
    if (TRP_IS_NULL(result))
        return 0;
    return result->elapsed_s;
}
