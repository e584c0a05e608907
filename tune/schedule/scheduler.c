// scheduler.c: what all schedulers share, and the one that stops no trial.
#include <runtime/base/memory.h>
#include <stdio.h>
#include <tune/schedule/scheduler.h>

static troupe_status fifo_decide(troupe_scheduler *scheduler, int trial, int number, double score,
                                 trp_decision *decision)
{
    (void)scheduler;
    (void)trial;
    (void)number;
    (void)score;
    *decision = TRP_GO_ON;
    return TROUPE_OK;
}

static void fifo_destroy(troupe_scheduler *scheduler)
{
    (void)scheduler;
}

troupe_scheduler *trp_fifo(void)
{
    // Never written, so that all threads can share it.
    static troupe_scheduler fifo = {
        .description = "FIFO", .decide = fifo_decide, .destroy = fifo_destroy};
    return &fifo;
}

static void refused_destroy(troupe_scheduler *scheduler)
{
    trp_free(scheduler);
}

troupe_scheduler *trp_scheduler_refused(void)
{
    // Never written, so that all threads can share it.
    static troupe_scheduler short_of_memory = {.description = "no memory for a scheduler",
                                               .refusal = TROUPE_NO_MEMORY,
                                               .decide = fifo_decide,
                                               .destroy = fifo_destroy};
    const troupe_error *why = troupe_last_error();
    troupe_scheduler *refused = why->status == TROUPE_NO_MEMORY ? NULL : trp_alloc(sizeof *refused);
    if (refused == NULL)
        return &short_of_memory;
    snprintf(refused->description, sizeof refused->description, "%.95s", why->text);
    refused->refusal = why->status;
    refused->decide = fifo_decide;
    refused->destroy = refused_destroy;
    return refused;
}

void troupe_scheduler_free(troupe_scheduler **scheduler)
{
    if (scheduler == NULL || *scheduler == NULL)
        return;
    (*scheduler)->destroy(*scheduler);
    *scheduler = NULL;
}
