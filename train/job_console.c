// job_console.c: what a job tells its console.
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <train/handle.h>

void trp_handle_show(troupe_job *handle, const trp_accepted *what)
{
    const troupe_options *there = trp_process_options();
    trp_console_about about = {
        .path = what->path,
        .cpus = what->cpus,
        .gpus = what->gpus,
        .cpus_total = there->cpus,
        .gpus_total = there->gpus > 0 ? there->gpus : 0,
        .expected = what->expected_reports,
        .time_limit_s = what->time_limit_s,
    };
    handle->console = trp_console_open((troupe_console)handle->spec.options.console, &about);
}

void trp_handle_show_state(troupe_job *handle)
{
    static const trp_table_state states[] = {
        [TROUPE_JOB_QUEUED] = TRP_TABLE_PENDING,        [TROUPE_JOB_RUNNING] = TRP_TABLE_RUNNING,
        [TROUPE_JOB_RESTARTING] = TRP_TABLE_RESTARTING, [TROUPE_JOB_DONE] = TRP_TABLE_TERMINATED,
        [TROUPE_JOB_PAUSED] = TRP_TABLE_PAUSED,
    };
    trp_console_state(handle->console, states[handle->state]);
}

void trp_handle_show_end(troupe_job *handle, const trp_outcome *outcome)
{
    trp_console_end end = {
        .state = TRP_TABLE_ERROR,
        .error = outcome != NULL ? outcome->error : "there was no memory for its result",
    };
    if (outcome != NULL) {
        end.elapsed_s = outcome->elapsed_s;
        end.loop_s = outcome->loop_s;
        end.written_s = outcome->written_s;
    }
    if (outcome != NULL && outcome->status == TROUPE_OK)
        end.state = outcome->stopped ? TRP_TABLE_STOPPED : TRP_TABLE_TERMINATED;
    trp_console_ended(handle->console, &end);
}

void trp_handle_say(troupe_job *handle, trp_level level, const char *text)
{
    if (!trp_console_say(handle->console, text))
        trp_log(level, "%s", text);
}

void trp_handle_say_group(troupe_job *handle, const trp_console_rank *ranks, int count)
{
    trp_buffer text = {0};
    trp_console_group(handle->console, ranks, count);
    if (handle->console == NULL)
        trp_console_group_text(ranks, count, &text);
    trp_buffer_append(&text, "", 1);
    char *rest = NULL;
    char *line = text.failed ? NULL : strtok_r((char *)text.data, "\n", &rest);
    for (; line != NULL; line = strtok_r(NULL, "\n", &rest))
        trp_log(TRP_INFO, "%s", line);
    trp_buffer_free(&text);
}
