// reports.c: a ring of open reports, by number.
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/type.h>
#include <string.h>
#include <train/reports.h>

troupe_status trp_reports_start(trp_reports *reports, int world, int whole, bool keeps_all)
{
    trp_reports_free(reports);
    reports->last = (int *)trp_alloc((size_t)world * sizeof(*reports->last));
    if (!reports->last)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the reports of %d ranks", world);
    reports->world = world;
    reports->whole = whole;
    reports->keeps_all = keeps_all;
    for (int rank = 0; rank < world; rank++)
        reports->last[rank] = whole;
    return TROUPE_OK;
}

static void clear(trp_open_report *open)
{
    trp_arena_clear(&open->arena);
    *open = (trp_open_report){0};
}

void trp_reports_free(trp_reports *reports)
{
    for (int i = 0; i < TRP_REPORTS_OPEN; i++)
        clear(&reports->open[i]);
    trp_free(reports->last);
    *reports = (trp_reports){0};
}

static troupe_status check(const trp_reports *reports, const trp_report *report)
{
    if (report->rank < 0 || report->rank >= reports->world)
        return troupe_fail(TROUPE_INVALID, "a report of rank %d came to a group of %d",
                           report->rank, reports->world);
    if (report->number != reports->last[report->rank] + 1 ||
        report->number >= reports->whole + TRP_REPORTS_OPEN)
        return troupe_fail(TROUPE_INVALID, "rank %d made report %d after report %d, with %d whole",
                           report->rank, report->number, reports->last[report->rank],
                           reports->whole);
    if (report->metrics.count > TRP_METRICS_MAX)
        return troupe_fail(TROUPE_INVALID, "a report has %zu metrics: expected at most %d",
                           report->metrics.count, TRP_METRICS_MAX);
    return TROUPE_OK;
}

// What all ranks have to give alike.
static troupe_status take_source(const trp_reports *reports, trp_open_report *open,
                                 const trp_report *report)
{
    static const char none[] = "";
    const char *given = report->source ? report->source : none;
    if (open->ranks > 0) {
        const char *before = open->source ? open->source : none;
        if (strcmp(given, before) == 0)
            return TROUPE_OK;
        int other = 0;
        while (other == report->rank || reports->last[other] < report->number)
            other++;
        return troupe_fail(TROUPE_INVALID,
                           "rank %d made report %d from '%s' and rank %d from '%s': all ranks must "
                           "report from the same source",
                           report->rank, report->number, given, other, before);
    }
    if (!report->source)
        return TROUPE_OK;
    char *copy = (char *)trp_arena_alloc(&open->arena, strlen(given) + 1);
    if (!copy)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for report %d", report->number);
    open->source = strcpy(copy, given);
    return TROUPE_OK;
}

static troupe_status copy_metrics(const trp_reports *reports, trp_open_report *open,
                                  const trp_report *report)
{
    troupe_array_trp_metric copy;
    if (report->rank != 0 && !reports->keeps_all)
        return TROUPE_OK;
    TROUPE_TRY(trp_value_copy(&troupe_type_troupe_array_trp_metric, &report->metrics, &open->arena,
                              &copy));
    if (report->rank == 0) {
        open->metrics = copy.items;
        open->metric_count = copy.count;
    }
    if (reports->keeps_all && !open->by_rank)
        open->by_rank = (troupe_array_trp_metric *)trp_arena_alloc(
            &open->arena, (size_t)reports->world * sizeof(*open->by_rank));
    if (reports->keeps_all && !open->by_rank)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for report %d", report->number);
    if (reports->keeps_all)
        open->by_rank[report->rank] = copy;
    return TROUPE_OK;
}

troupe_status trp_reports_take(trp_reports *reports, const trp_report *report,
                               const trp_open_report **whole)
{
    TROUPE_TRY(check(reports, report));
    trp_open_report *open = &reports->open[report->number % TRP_REPORTS_OPEN];
    if (open->number != report->number) {
        clear(open);
        open->number = report->number;
    }
    TROUPE_TRY(take_source(reports, open, report));
    TROUPE_TRY(copy_metrics(reports, open, report));
    open->pending += report->pending;
    reports->last[report->rank] = report->number;
    *whole = NULL;
    if (++open->ranks == reports->world) {
        reports->whole = report->number;
        *whole = open;
    }
    return TROUPE_OK;
}

bool trp_reports_uneven(const trp_reports *reports, int *rank, int *other)
{
    for (int i = 1; i < reports->world; i++) {
        if (reports->last[i] != reports->last[0]) {
            *rank = i;
            *other = 0;
            return true;
        }
    }
    return false;
}
