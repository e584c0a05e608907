// scheduler.c: what all schedulers share, and the one that stops nobody.
#include <tune/scheduler.h>

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

void troupe_scheduler_free(troupe_scheduler **scheduler)
{
    if (scheduler == NULL || *scheduler == NULL)
        return;
    (*scheduler)->destroy(*scheduler);
    *scheduler = NULL;
}
