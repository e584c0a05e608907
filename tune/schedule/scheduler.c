// scheduler.c: what all schedulers share, and the one that stops no trial.
#include <runtime/base/memory.h>
#include <stdio.h>
#include <tune/schedule/scheduler.h>

static troupe_status fifo_decide(troupe_scheduler *scheduler, const troupe_progress *progress,
                                 troupe_verdict *verdict)
{
    (void)scheduler;
    (void)progress;
    (void)verdict; // It is to go on.
    return TROUPE_OK;
}

static int fifo_decides_at(troupe_scheduler *scheduler, int trial, int after)
{
    (void)scheduler;
    (void)trial;
    (void)after;
    return 0;
}

static void fifo_destroy(troupe_scheduler *scheduler)
{
    (void)scheduler;
}

troupe_scheduler *trp_fifo(void)
{
    // Never written, so that all threads can share it.
    static troupe_scheduler fifo = {.abi = TROUPE_ABI,
                                    .describe = "FIFO",
                                    .decides_at = fifo_decides_at,
                                    .decide = fifo_decide,
                                    .destroy = fifo_destroy};
    return &fifo;
}

typedef struct refused {
    troupe_scheduler base;
    char why[512];
} refused;

static void refused_destroy(troupe_scheduler *scheduler)
{
    trp_free(scheduler);
}

troupe_scheduler *trp_scheduler_refused(void)
{
    // Never written, so that all threads can share it.
    static troupe_scheduler short_of_memory = {.abi = TROUPE_ABI,
                                               .describe = "no memory for a scheduler",
                                               .refusal = TROUPE_NO_MEMORY,
                                               .decide = fifo_decide,
                                               .destroy = fifo_destroy};
    const troupe_error *why = troupe_last_error();
    refused *made = why->status == TROUPE_NO_MEMORY ? NULL : trp_alloc(sizeof *made);
    if (made == NULL)
        return &short_of_memory;
    snprintf(made->why, sizeof made->why, "%s", why->text);
    made->base = (troupe_scheduler){.abi = TROUPE_ABI,
                                    .describe = made->why,
                                    .refusal = why->status,
                                    .decide = fifo_decide,
                                    .destroy = refused_destroy};
    return &made->base;
}

void troupe_scheduler_free(troupe_scheduler **scheduler)
{
    if (scheduler == NULL || *scheduler == NULL)
        return;
    (*scheduler)->destroy(*scheduler);
    *scheduler = NULL;
}
