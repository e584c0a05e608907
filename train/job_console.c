// job_console.c: what a job tells its console.
#include <runtime/base/clock.h>
#include <runtime/shm/process_table.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <train/job.h>

void trp_job_show(troupe_job *job)
{
    static const double unit = 10000; // As the ledger counts.
    const troupe_options *there = trp_process_options();
    trp_console_about about = {
        .path = job->path,
        .cpus = (double)job->gang.cpus / unit,
        .gpus = (double)job->gang.gpus / unit,
        .cpus_total = there->cpus,
        .gpus_total = there->gpus > 0 ? there->gpus : 0,
    };
    job->console = trp_console_open(job->options.console, &about);
}

void trp_job_show_state(troupe_job *job)
{
    static const trp_table_state states[] = {
        [TROUPE_JOB_QUEUED] = TRP_TABLE_PENDING,
        [TROUPE_JOB_RUNNING] = TRP_TABLE_RUNNING,
        [TROUPE_JOB_RESTARTING] = TRP_TABLE_RESTARTING,
        [TROUPE_JOB_DONE] = TRP_TABLE_TERMINATED,
    };
    trp_console_state(job->console, states[job->state]);
}

void trp_job_show_end(troupe_job *job)
{
    const troupe_result *result = job->result;
    double now_s = trp_clock_s();
    trp_console_end end = {
        .state = TRP_TABLE_ERROR,
        .error = result != NULL ? result->error : "there was no memory for its result",
        .elapsed_s = result != NULL ? result->elapsed_s : 0,
        .loop_s = job->started_s > 0 ? now_s - job->started_s : 0,
        .written_s = job->ending_s > 0 ? now_s - job->ending_s : 0,
    };
    if (result != NULL && result->status == TROUPE_OK)
        end.state = result->stopped ? TRP_TABLE_STOPPED : TRP_TABLE_TERMINATED;
    trp_console_ended(job->console, &end);
}

void trp_job_say(troupe_job *job, trp_level level, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!trp_console_say(job->console, text))
        trp_log(level, "%s", text);
}

void trp_job_say_group(troupe_job *job, const trp_console_rank *ranks, int count)
{
    trp_buffer text = {0};
    trp_console_group(job->console, ranks, count);
    if (job->console == NULL)
        trp_console_group_text(ranks, count, &text);
    trp_buffer_append(&text, "", 1);
    char *rest = NULL;
    char *line = text.failed ? NULL : strtok_r((char *)text.data, "\n", &rest);
    for (; line != NULL; line = strtok_r(NULL, "\n", &rest))
        trp_log(TRP_INFO, "%s", line);
    trp_buffer_free(&text);
}
