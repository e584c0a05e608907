// options.c: what a submission asks for: defaults and checks.
#include <runtime/base/error.h>
#include <runtime/host/worker_env.h>
#include <runtime/node/admission.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <train/checkpoint.h>
#include <train/job.h>

enum {
    RUN_NAME_MAX = 128,
    METRIC_NAME_MAX = 63,
    PRIORITY_MAX = 1000,
    RANKS_TOGETHER_MAX = 128, // Each may wait on a thread of its own: half of those that may.
};

static const double START_AT_MAX = 1e11; // Some thousand years.

static troupe_status check_name(const char *name)
{
    const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(name);
    if (length < 1 || length > RUN_NAME_MAX || strspn(name, allowed) != length || name[0] == '.')
        return troupe_fail(TROUPE_INVALID,
                           "option .name is '%.140s': expected 1 to %d of [A-Za-z0-9._-], not "
                           "beginning with a dot",
                           name, RUN_NAME_MAX);
    return TROUPE_OK;
}

static troupe_status check_ranks(int ranks)
{
    if (ranks < 1 || ranks > TRP_WORLD_MAX)
        return troupe_fail(TROUPE_INVALID, "option .ranks is %d: expected 1 to %d", ranks,
                           TRP_WORLD_MAX);
    return TROUPE_OK;
}

static troupe_status check_choices(const troupe_train_options *o)
{
    if ((unsigned)o->open > TROUPE_OPEN_RESUME_OR_NEW)
        return troupe_fail(TROUPE_INVALID,
                           "option .open is %d: expected TROUPE_OPEN_NEW, TROUPE_OPEN_RESUME or "
                           "TROUPE_OPEN_RESUME_OR_NEW",
                           (int)o->open);
    if ((unsigned)o->console > TROUPE_CONSOLE_OFF)
        return troupe_fail(TROUPE_INVALID,
                           "option .console is %d: expected TROUPE_CONSOLE_ON or "
                           "TROUPE_CONSOLE_OFF",
                           (int)o->console);
    if ((unsigned)o->sync > TROUPE_SYNC_CHECKPOINTS)
        return troupe_fail(TROUPE_INVALID,
                           "option .sync is %d: expected TROUPE_SYNC_ALL or "
                           "TROUPE_SYNC_CHECKPOINTS",
                           (int)o->sync);
    if ((unsigned)o->server > TROUPE_SERVER_NONE)
        return troupe_fail(TROUPE_INVALID,
                           "option .server is %d: expected TROUPE_SERVER_DEFAULT, "
                           "TROUPE_SERVER_AUTO or TROUPE_SERVER_NONE",
                           (int)o->server);
    return TROUPE_OK;
}

static troupe_status check_ranges(const troupe_train_options *o)
{
    TROUPE_TRY(check_ranks(o->ranks));
    if (o->min_ranks < 0 || o->min_ranks > o->ranks)
        return troupe_fail(TROUPE_INVALID,
                           "option .min_ranks is %d: expected 0, or 1 to .ranks = %d", o->min_ranks,
                           o->ranks);
    if (o->keep < 0 && o->keep != TROUPE_NONE)
        return troupe_fail(TROUPE_INVALID,
                           "option .keep is %d: expected the number of best checkpoints to keep, 0 "
                           "for all, or TROUPE_NONE",
                           o->keep);
    if (o->restarts < 0 && o->restarts != TROUPE_FOREVER)
        return troupe_fail(TROUPE_INVALID,
                           "option .restarts is %d: expected a number of restarts, TROUPE_FOREVER "
                           "or TROUPE_NONE",
                           o->restarts);
    if ((unsigned)o->keep_goal > TROUPE_MAXIMIZE ||
        (o->keep_metric && o->keep_goal == TROUPE_GOAL_NONE))
        return troupe_fail(TROUPE_INVALID,
                           "option .keep_goal is %d: expected TROUPE_MINIMIZE or TROUPE_MAXIMIZE "
                           "with .keep_metric",
                           (int)o->keep_goal);
    if (o->keep_metric && (!*o->keep_metric || strlen(o->keep_metric) > METRIC_NAME_MAX))
        return troupe_fail(TROUPE_INVALID,
                           "option .keep_metric is '%.80s': expected a metric's name of 1 to %d "
                           "bytes",
                           o->keep_metric, METRIC_NAME_MAX);
    if (o->ranks_per_process < 1 || o->ranks_per_process > RANKS_TOGETHER_MAX)
        return troupe_fail(TROUPE_INVALID, "option .ranks_per_process is %d: expected 1 to %d",
                           o->ranks_per_process, RANKS_TOGETHER_MAX);
    if (o->checkpoint_every < 1)
        return troupe_fail(TROUPE_INVALID,
                           "option .checkpoint_every is %d: expected a positive number of reports",
                           o->checkpoint_every);
    if (o->expected_reports < 0)
        return troupe_fail(TROUPE_INVALID,
                           "option .expected_reports is %d: expected a number of reports, or 0: "
                           "not known",
                           o->expected_reports);
    if (o->collective_timeout_ms < 1)
        return troupe_fail(TROUPE_INVALID,
                           "option .collective_timeout_ms is %d: expected a positive number of "
                           "milliseconds",
                           o->collective_timeout_ms);
    TROUPE_TRY(check_choices(o));
    if (o->priority < -PRIORITY_MAX || o->priority > PRIORITY_MAX)
        return troupe_fail(TROUPE_INVALID, "option .priority is %d: expected -%d to %d",
                           o->priority, PRIORITY_MAX, PRIORITY_MAX);
    if (!(o->start_at >= 0 && o->start_at <= START_AT_MAX))
        return troupe_fail(TROUPE_INVALID,
                           "option .start_at is %g: expected seconds since 1970 (Unix time)",
                           o->start_at);
    if (o->storage && !*o->storage)
        return troupe_fail(TROUPE_INVALID, "option .storage is empty: expected a folder's path");
    return check_name(o->name);
}

static troupe_status check_resources(const troupe_train_options *options, trp_gang *gang)
{
    trp_resources there;
    TROUPE_TRY(trp_admission_books(trp_process_options(), &there));
    return trp_gang_of(options, &there, gang);
}

troupe_status trp_train_options_gang(const troupe_train_options *options, trp_gang *gang)
{
    TROUPE_TRY(check_ranks(options->ranks));
    return check_resources(options, gang);
}

static troupe_status check_seconds(const char *option, double seconds)
{
    enum { SECONDS_MAX = 1000000000 };
    if (!(seconds >= 0.001 && seconds <= SECONDS_MAX)) // A NaN is refused, too.
        return troupe_fail(TROUPE_INVALID, "option %s is %g: expected 0.001 to %d seconds", option,
                           seconds, SECONDS_MAX);
    return TROUPE_OK;
}

static troupe_status check_key(const char *key)
{
    enum { KEY_MAX = 128 };
    if (key && (!*key || strnlen(key, KEY_MAX + 1) > KEY_MAX))
        return troupe_fail(TROUPE_INVALID, "option .key has %zu bytes: expected 1 to %d",
                           strlen(key), KEY_MAX);
    return TROUPE_OK;
}

static troupe_status check_limit(const troupe_train_options *o)
{
    if (o->time_limit_s != 0)
        TROUPE_TRY(check_seconds(".time_limit_s", o->time_limit_s));
    return check_seconds(".time_limit_grace_s", o->time_limit_grace_s);
}

static troupe_status check_env(const char *env)
{
    // What the library adds has room beside it.
    enum { ENV_MAX = TRP_WORKER_ENV_MAX - TRP_CLAIM_GPUS_MAX - 256 };
    if (env && strnlen(env, ENV_MAX) == ENV_MAX)
        return troupe_fail(TROUPE_INVALID, "option .env has %zu bytes: expected at most %d",
                           strlen(env), ENV_MAX - 1);
    return trp_worker_env_check("option .env", env, NULL);
}

static troupe_status check_from(const char *from)
{
    // Its files are verified when the run starts; here only what takes no time.
    trp_arena arena = {0};
    trp_manifest manifest;
    trp_path folder;
    troupe_status status = trp_checkpoint_find(from, &folder);
    if (status == TROUPE_OK)
        status = trp_checkpoint_read(folder.text, &arena, &manifest);
    trp_arena_clear(&arena);
    return status == TROUPE_OK ? status : trp_error_prefix("option .from");
}

troupe_status trp_train_options_complete(troupe_train_options *options,
                                         const troupe_trainer *trainer, trp_gang *gang)
{
    if (options->restarts == TROUPE_NONE)
        options->restarts = 0;
    if (options->ranks == 0)
        options->ranks = 1;
    if (options->cpus_per_rank == 0)
        options->cpus_per_rank = 1;
    if (!options->name)
        options->name = trainer->name;
    if (options->time_limit_grace_s == 0)
        options->time_limit_grace_s = TRP_TIME_LIMIT_GRACE_S;
    if (options->ranks_per_process == 0)
        options->ranks_per_process = 1;
    if (options->checkpoint_every == 0)
        options->checkpoint_every = 1;
    if (options->collective_timeout_ms == 0)
        options->collective_timeout_ms = TRP_COLLECTIVE_TIMEOUT_MS;
    TROUPE_TRY(check_ranges(options));
    TROUPE_TRY(check_limit(options));
    if (gang)
        TROUPE_TRY(check_resources(options, gang));
    TROUPE_TRY(check_env(options->env));
    TROUPE_TRY(check_key(options->key));
    return options->from ? check_from(options->from) : TROUPE_OK;
}
