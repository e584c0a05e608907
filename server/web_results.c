// web_results.c: the folder of results: runs and sweeps in it, of programs with and without a
// server. What is not a run's or a sweep's folder is left out.
#include <server/web_job.h>

#include <dirent.h>
#include <math.h>
#include <runtime/base/error.h>
#include <server/web_importance.h>
#include <server/web_json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/alive.h>

enum { ENTRIES_MAX = 20000, NAME_BYTES = 256 };

static troupe_status results_of(const trp_web *web, trp_path *folder)
{
    const char *home = getenv("HOME"), *usual = getenv("TROUPE_RESULTS");
    if (web->results != NULL)
        return trp_path_make(folder, "%s", web->results);
    if (usual != NULL && usual[0] == '/')
        return trp_path_make(folder, "%s", usual);
    if (home == NULL || home[0] != '/')
        return troupe_fail(TROUPE_NOT_FOUND, "HOME names no folder that results could be in");
    return trp_path_make(folder, "%s/troupe_results", home);
}

// ---- what lies there

typedef struct entry {
    char name[NAME_BYTES];
    double at; // When the file was written last.
} entry;

typedef struct entries {
    entry *items;
    size_t count;
} entries;

static int compare_newest(const void *left, const void *right)
{
    const entry *one = left, *other = right;
    if (one->at != other->at)
        return one->at < other->at ? 1 : -1;
    return strcmp(one->name, other->name);
}

// The folders in `folder` that have that file, the newest first.
static troupe_status list_folders(web_call *call, const char *folder, const char *file,
                                  entries *found)
{
    size_t room = 64, looked = 0;
    *found = (entries){.items = trp_arena_alloc(&call->arena, room * sizeof(entry))};
    DIR *open = opendir(folder);
    for (struct dirent *it; found->items != NULL && open != NULL && (it = readdir(open)) != NULL;) {
        trp_path path;
        struct stat about;
        if (it->d_name[0] == '.' || looked++ >= ENTRIES_MAX ||
            trp_path_make(&path, "%s/%s/%s", folder, it->d_name, file) != TROUPE_OK ||
            lstat(path.text, &about) != 0 || !S_ISREG(about.st_mode))
            continue;
        if (found->count == room) {
            entry *larger = trp_arena_alloc(&call->arena, 2 * room * sizeof *larger);
            if (larger != NULL)
                memcpy(larger, found->items, room * sizeof *larger);
            found->items = larger;
            room *= 2;
        }
        if (found->items == NULL)
            continue;
        entry *made = &found->items[found->count++];
        snprintf(made->name, sizeof made->name, "%s", it->d_name);
        made->at = (double)about.st_mtim.tv_sec + (double)about.st_mtim.tv_nsec * 1e-9;
    }
    if (open != NULL)
        closedir(open);
    if (found->items == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a list of folders");
    qsort(found->items, found->count, sizeof *found->items, compare_newest);
    return TROUPE_OK;
}

// ---- runs

static void write_run(web_call *call, const char *name, const web_run *run)
{
    trp_buffer *out = call->out;
    const trp_facts *facts = &run->facts;
    trp_end_file end;
    bool ended = trp_end_file_read(facts->folder, &call->arena, &end) == TROUPE_OK;
    int driver = trp_alive_driver(facts->folder);
    int expected = facts->run.head.options.expected_reports;
    bool good = ended && end.status != NULL && strcmp(end.status, "OK") == 0;
    web_text(out, "id", name);
    web_text(out, "name", name);
    web_text(out, "folder", facts->folder);
    web_text(out, "trainer", facts->run.head.trainer);
    web_text(out, "program", facts->run.head.program);
    web_text(out, "state",
             ended                     ? "ENDED"
             : driver == 0             ? "LOST"
             : facts->state[0] != '\0' ? facts->state
                                       : "QUEUED");
    if (ended) {
        char status[64];
        (void)snprintf(status, sizeof status, "TROUPE_%s", end.status != NULL ? end.status : "");
        web_text(out, "outcome",
                 good ? end.stopped ? "STOPPED" : "DONE"
                 : end.status != NULL && strcmp(end.status, "CANCELLED") == 0 ? "CANCELLED"
                                                                              : "FAILED");
        web_text(out, "status", end.status != NULL ? status : NULL);
        web_text(out, "error", end.error);
        web_time(out, "ended_at", web_time_of(end.at));
    } else if (driver > 0) {
        web_integer(out, "runner", driver);
    }
    web_integer(out, "ranks",
                facts->run.head.options.ranks > 0 ? facts->run.head.options.ranks : 1);
    web_time(out, "started_at", web_time_of(facts->run.head.created));
    web_integer(out, "reports", facts->reports);
    if (expected > 0)
        web_integer(out, "expected_reports", expected);
    web_number(out, "elapsed_s", facts->elapsed_s);
    web_integer(out, "restarts", (int64_t)facts->restarts);
    web_integer(out, "checkpoints", (int64_t)facts->commits);
    web_run_metrics(out, facts);
}

static troupe_status find_run(web_call *call, web_run **run)
{
    trp_path folder, path;
    TROUPE_TRY(results_of(call->web, &folder));
    TROUPE_TRY(trp_path_make(&path, "%s/%s", folder.text, call->parts[0]));
    troupe_status status = web_runs_find(&call->web->runs, path.text, &call->budget, run);
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no run '%s' in %s", call->parts[0],
                           folder.text);
    return status;
}

troupe_status web_list_runs(web_call *call)
{
    trp_buffer *out = call->out;
    trp_path folder, path;
    entries found;
    size_t shown = 0;
    TROUPE_TRY(results_of(call->web, &folder));
    TROUPE_TRY(list_folders(call, folder.text, "run.json", &found));
    web_begin(out, NULL, '{');
    web_text(out, "folder", folder.text);
    web_integer(out, "count", (int64_t)found.count);
    web_begin(out, "runs", '[');
    for (size_t i = 0; i < found.count && (int64_t)shown < call->query[0].number; i++) {
        web_run *run;
        if (trp_path_make(&path, "%s/%s", folder.text, found.items[i].name) != TROUPE_OK ||
            web_runs_find(&call->web->runs, path.text, &call->budget, &run) != TROUPE_OK)
            continue;
        web_begin(out, NULL, '{');
        write_run(call, found.items[i].name, run);
        web_run_spark(out, &run->facts);
        web_end(out, '}');
        shown++;
    }
    web_end(out, ']');
    web_end(out, '}');
    return TROUPE_OK;
}

troupe_status web_show_run(web_call *call)
{
    web_run *run;
    TROUPE_TRY(find_run(call, &run));
    web_begin(call->out, NULL, '{');
    write_run(call, call->parts[0], run);
    web_run_details(call, run);
    web_end(call->out, '}');
    return TROUPE_OK;
}

troupe_status web_run_reports(web_call *call)
{
    web_run *run;
    TROUPE_TRY(find_run(call, &run));
    return web_events(call, run->facts.folder);
}

troupe_status web_run_curves(web_call *call)
{
    web_run *run;
    TROUPE_TRY(find_run(call, &run));
    return web_run_write_curves(call, run);
}

troupe_status web_run_logs(web_call *call)
{
    web_run *run;
    TROUPE_TRY(find_run(call, &run));
    return web_rank_log(call, run->facts.folder,
                        call->query[0].number < 0 ? 0 : call->query[0].number);
}

// ---- sweeps

static const web_trial *best_of(const web_sweep *sweep)
{
    bool maximize = sweep->goal != NULL && strcmp(sweep->goal, "maximize") == 0;
    const web_trial *best = NULL;
    for (size_t i = 0; i < sweep->count; i++) {
        const web_trial *it = sweep->trials[i];
        if (it->has_best && strcmp(it->state, "ERROR") != 0 &&
            (best == NULL || (maximize ? it->best > best->best : it->best < best->best)))
            best = it;
    }
    return best;
}

static void write_sweep(trp_buffer *out, const char *name, double at, const web_sweep *sweep)
{
    const web_trial *best = best_of(sweep);
    size_t ended = 0, running = 0, failed = 0;
    for (size_t i = 0; i < sweep->count; i++) {
        const char *state = sweep->trials[i]->state;
        failed += strcmp(state, "ERROR") == 0;
        ended += strcmp(state, "TERMINATED") == 0 || strcmp(state, "STOPPED") == 0;
        running += strcmp(state, "RUNNING") == 0;
    }
    web_text(out, "id", name);
    web_text(out, "name", name);
    web_text(out, "folder", sweep->folder);
    web_text(out, "trainer", sweep->trainer);
    web_text(out, "metric", sweep->metric);
    web_text(out, "goal", sweep->goal);
    web_text(out, "searcher", sweep->searcher);
    web_text(out, "scheduler", sweep->scheduler);
    web_text(out, "seed", sweep->seed);
    web_integer(out, "wanted", sweep->wanted);
    web_integer(out, "begun", (int64_t)sweep->count);
    web_integer(out, "running", (int64_t)running);
    web_integer(out, "ended", (int64_t)ended);
    web_integer(out, "failed", (int64_t)failed);
    web_flag(out, "whole", sweep->whole);
    web_integer(out, "left_out", (int64_t)sweep->left_out);
    web_integer(out, "texts_left_out", (int64_t)sweep->texts_left_out);
    web_time(out, "written_at", at);
    if (best != NULL) {
        web_text(out, "best", best->name);
        web_number(out, "best_value", best->best);
    }
}

troupe_status web_list_sweeps(web_call *call)
{
    trp_buffer *out = call->out;
    trp_path folder, path;
    entries found;
    size_t shown = 0;
    TROUPE_TRY(results_of(call->web, &folder));
    TROUPE_TRY(list_folders(call, folder.text, "trials.jsonl", &found));
    web_begin(out, NULL, '{');
    web_text(out, "folder", folder.text);
    web_begin(out, "sweeps", '[');
    for (size_t i = 0; i < found.count && (int64_t)shown < call->query[0].number; i++) {
        web_sweep *sweep;
        if (trp_path_make(&path, "%s/%s", folder.text, found.items[i].name) != TROUPE_OK ||
            web_sweeps_find(&call->web->sweeps, path.text, &call->budget, &sweep) != TROUPE_OK)
            continue;
        web_begin(out, NULL, '{');
        write_sweep(out, found.items[i].name, found.items[i].at, sweep);
        web_end(out, '}');
        shown++;
    }
    web_end(out, ']');
    web_end(out, '}');
    return TROUPE_OK;
}

static void write_trial(trp_buffer *out, const web_trial *it)
{
    web_begin(out, NULL, '{');
    web_text(out, "name", it->name);
    web_text(out, "state", it->state);
    web_integer(out, "reports", it->reports);
    web_number(out, "elapsed_s", it->elapsed_s);
    if (it->has_best)
        web_number(out, "best", it->best);
    web_text(out, "error", it->error);
    web_json_text(out, "config", it->config);
    if (it->metrics[0] != '\0')
        web_json_text(out, "metrics", it->metrics);
    web_integer(out, "stride", it->stride);
    web_begin(out, "points", '[');
    for (size_t i = 0; i < it->used; i++) {
        web_name(out, NULL);
        if (isfinite(it->points[i]))
            trp_buffer_printf(out, "%.6g", (double)it->points[i]);
        else
            trp_buffer_printf(out, "null");
    }
    web_end(out, ']');
    web_end(out, '}');
}

troupe_status web_show_sweep(web_call *call)
{
    trp_buffer *out = call->out;
    trp_path folder, path;
    web_sweep *sweep;
    size_t most = (size_t)call->query[0].number, from = (size_t)call->query[1].number;
    TROUPE_TRY(results_of(call->web, &folder));
    TROUPE_TRY(trp_path_make(&path, "%s/%s", folder.text, call->parts[0]));
    troupe_status status = web_sweeps_find(&call->web->sweeps, path.text, &call->budget, &sweep);
    if (status == TROUPE_NOT_FOUND)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no sweep '%s' in %s", call->parts[0],
                           folder.text);
    TROUPE_TRY(status);
    web_begin(out, NULL, '{');
    write_sweep(out, call->parts[0], 0, sweep);
    if (from == 0)
        web_importance(out, sweep);
    web_begin(out, "trials", '[');
    size_t i = from;
    for (; i < sweep->count && i - from < most; i++)
        write_trial(out, sweep->trials[i]);
    web_end(out, ']');
    if (i < sweep->count)
        web_integer(out, "next", (int64_t)i);
    web_end(out, '}');
    return TROUPE_OK;
}
