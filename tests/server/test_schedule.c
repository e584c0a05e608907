// test_schedule.c: which jobs start when and why the others wait, by cases written out.
// test_schedule.random.c has random workloads on a simulated clock, beside the same rules.
// timeout: 120
// again: full slow 1800 100000
#include "support.h"

#include <runtime/base/memory.h>
#include <server/schedule.h>
#include <stdlib.h>
#include <string.h>

#include "schedule_random.h"

enum { GIB = 1 << 30 };

static trp_resources machine;
static trp_schedule *schedule;
static char why[TRP_SCHEDULE_WHY];

static void open_schedule(int cpus, int gpus, const char *named, int64_t grace_ms)
{
    trp_resources_init(&machine, (int64_t)cpus * TRP_CPU, gpus, 16 * (int64_t)GIB);
    assert_int_equal(trp_resources_add(&machine, named), TROUPE_OK);
    assert_int_equal(trp_schedule_open(&schedule, &machine, grace_ms), TROUPE_OK);
}

static int close_schedule(void **state)
{
    (void)state;
    trp_schedule_close(schedule);
    schedule = NULL;
    return 0;
}

// A job of so many ranks with a CPU each.
static trp_request asks(uint64_t id, int ranks, int64_t limit_ms)
{
    trp_request request = {.id = id, .need = {.ranks = ranks}, .limit_ms = limit_ms};
    request.need.each.of[TRP_CPUS] = TRP_CPU;
    return request;
}

static trp_ticket *submit(trp_request request, int64_t now)
{
    trp_ticket *ticket = NULL;
    if (trp_schedule_submit(schedule, &request, now, &ticket) != TROUPE_OK)
        fail_msg("job %d: %s", (int)request.id, troupe_last_error()->text);
    return ticket;
}

static void refused(trp_request request, int64_t now, troupe_status status, const char *text)
{
    trp_ticket *ticket = NULL;
    assert_int_equal(trp_schedule_submit(schedule, &request, now, &ticket), status);
    assert_null(ticket);
    if (strcmp(troupe_last_error()->text, text) != 0)
        fail_msg("it says '%s', expected '%s'", troupe_last_error()->text, text);
}

// Starts all that may, whose ids must be these, up to 0.
static void starts(int64_t now, int first, ...)
{
    va_list list;
    va_start(list, first);
    for (int id = first;; id = va_arg(list, int)) {
        int before;
        trp_ticket *ticket = trp_schedule_next(schedule, now, &before);
        assert_int_equal(ticket == NULL ? 0 : (int)ticket->request.id, id);
        if (ticket == NULL)
            break;
        assert_int_equal(ticket->state, TRP_TICKET_RUNNING);
    }
    va_end(list);
}

static void says(trp_ticket *ticket, int64_t now, int64_t expected, const char *text)
{
    int64_t at = trp_schedule_why(schedule, ticket, now, why);
    if (strcmp(why, text) != 0)
        fail_msg("job %d says '%s', expected '%s'", (int)ticket->request.id, why, text);
    if (at != expected)
        fail_msg("job %d is expected at %lld instead of %lld", (int)ticket->request.id,
                 (long long)at, (long long)expected);
}

// F09: two that want everything do not hold half each.
static void test_a_job_has_all_its_ranks_or_none(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_ticket *running = submit(asks(1, 2, 0), 0), *first, *second;
    starts(0, 1, 0);
    first = submit(asks(2, 4, 0), 1);
    second = submit(asks(3, 4, 0), 2);
    starts(3, 0);
    assert_int_equal(trp_schedule_free(schedule, TRP_CPUS), 2 * TRP_CPU);
    says(first, 3, TRP_NEVER, "waits for 2 more CPUs: job 1, which has no time limit, holds some");
    says(second, 3, TRP_NEVER, "waits for 2 more CPUs behind job 2");
    trp_schedule_remove(schedule, running);
    starts(4, 2, 0);
    assert_int_equal(first->ranks, 4);
    says(second, 5, TRP_NEVER, "waits for 4 more CPUs: job 2, which has no time limit, holds some");
    trp_schedule_remove(schedule, first);
    starts(6, 3, 0);
}

static void test_the_coordinator_counts_once(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_request request = asks(1, 3, 0);
    request.need.coordinator_cpus = TRP_CPU / 2;
    trp_ticket *ticket = submit(request, 0);
    starts(0, 1, 0);
    assert_int_equal(ticket->amounts.of[TRP_CPUS], 3 * TRP_CPU + TRP_CPU / 2);
    assert_int_equal(trp_schedule_free(schedule, TRP_CPUS), TRP_CPU / 2);
}

// F08: more than there is.
static void test_more_than_the_machine_has_is_said_at_once(void **state)
{
    (void)state;
    open_schedule(8, 2, "license=2", 0);
    trp_request request = asks(1, 16, 0);
    refused(request, 0, TROUPE_TOO_LARGE, "asks for 16 CPUs, this machine has 8");
    request.beyond = true;
    trp_ticket *ticket = submit(request, 0);
    assert_int_equal(ticket->state, TRP_TICKET_BEYOND);
    starts(0, 0);
    says(ticket, 0, TRP_NEVER, "asks for 16 CPUs, this machine has 8");
    assert_int_equal(trp_schedule_resize(schedule, ticket, 8), TROUPE_OK);
    starts(0, 1, 0);
    request = asks(2, 2, 0);
    request.need.each.of[TRP_MEMORY] = 12 * (int64_t)GIB;
    refused(request, 0, TROUPE_TOO_LARGE, "asks for 24 GiB of memory, this machine has 16 GiB");
    request = asks(2, 3, 0);
    assert_int_equal(trp_resources_read(&machine, "license=1", &request.need.each), TROUPE_OK);
    refused(request, 0, TROUPE_TOO_LARGE, "asks for 3 of 'license', this machine has 2");
    // 1.8 GPUs in all, and yet no room.
    request = asks(2, 3, 0);
    request.need.each.of[TRP_GPUS] = TRP_CPU / 10 * 6;
    refused(request, 0, TROUPE_TOO_LARGE,
            "asks for 3 ranks with 0.6 of a GPU each, the 2 GPUs of this machine have room for 2");
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    open_schedule(8, 4, NULL, 0);
    refused(asks(1, 0, 0), 0, TROUPE_INVALID,
            "0 ranks, at least 0, were asked for: expected 1 to 1024, and no more at least than at "
            "most");
    trp_request request = asks(1, 2, 0);
    request.need.min_ranks = 3;
    refused(request, 0, TROUPE_INVALID,
            "2 ranks, at least 3, were asked for: expected 1 to 1024, and no more at least than at "
            "most");
    request = asks(1, 1, 0);
    request.need.each.of[TRP_GPUS] = TRP_CPU * 3 / 2;
    refused(request, 0, TROUPE_INVALID,
            "1.5 GPUs for a rank were asked for: expected a part of one, or a whole number");
    request.need.each = (trp_amounts){{0}};
    refused(request, 0, TROUPE_INVALID, "a job that needs nothing, or less, was submitted");
    request.need.each.of[TRP_CPUS] = -1;
    refused(request, 0, TROUPE_INVALID, "the amount of CPUs of a rank is out of range");
    request.need.each.of[TRP_CPUS] = INT64_MAX;
    refused(request, 0, TROUPE_INVALID, "the amount of CPUs of a rank is out of range");
    request = asks(1, 1, -1);
    refused(request, 0, TROUPE_INVALID, "a time limit of -1 ms or a start at 0 ms is out of range");
    request = asks(1, 1, 0);
    request.priority = 1001;
    refused(request, 0, TROUPE_INVALID, "priority 1001: expected -1000 to 1000");
}

// F08: with what is free.
static void test_an_elastic_job_starts_with_what_is_free(void **state)
{
    (void)state;
    open_schedule(8, 0, NULL, 0);
    trp_ticket *running = submit(asks(1, 7, 0), 0);
    starts(0, 1, 0);
    trp_request request = asks(2, 6, 0);
    request.need.min_ranks = 2;
    trp_ticket *elastic = submit(request, 1);
    starts(1, 0);
    says(elastic, 1, TRP_NEVER, "waits for 1 more CPU: job 1, which has no time limit, holds some");
    assert_int_equal(trp_schedule_resize(schedule, running, 4), TROUPE_OK);
    starts(2, 2, 0);
    assert_int_equal(elastic->ranks, 4);
    assert_int_equal(trp_schedule_free(schedule, TRP_CPUS), 0);
}

static void test_priority_comes_before_order_and_an_hour_is_a_step(void **state)
{
    (void)state;
    open_schedule(1, 0, NULL, 0);
    trp_ticket *running = submit(asks(1, 1, 0), 0);
    starts(0, 1, 0);
    trp_request urgent = asks(4, 1, 0), late = asks(5, 1, 0);
    urgent.priority = late.priority = 2;
    submit(asks(2, 1, 0), 10);
    submit(asks(3, 1, 0), 20);
    submit(urgent, 2 * TRP_SCHEDULE_HOUR_MS + 5); // Two steps above, and not two hours younger.
    submit(late, 2 * TRP_SCHEDULE_HOUR_MS + 15);  // More than two hours younger than the first.
    const uint64_t order[] = {4, 2, 5, 3};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(trp_schedule_queued(schedule, i)->request.id, order[i]);
    assert_null(trp_schedule_queued(schedule, 4));
    trp_schedule_remove(schedule, running);
    starts(3 * TRP_SCHEDULE_HOUR_MS, 4, 0);
}

// A stream of jobs of a higher priority fills the machine for ever: who waits has its turn when it
// has waited as many hours as there are steps between them.
static void test_nothing_starves_by_priorities(void **state)
{
    (void)state;
    open_schedule(1, 0, NULL, 0);
    trp_ticket *low = submit(asks(1, 1, 0), 0), *running = NULL, *ticket;
    int64_t now = 0;
    int before;
    trp_request urgent = asks(2, 1, 60000);
    urgent.priority = 3;
    for (; low->state != TRP_TICKET_RUNNING; now += 60000) { // One a minute, of a minute each.
        assert_true(now <= 3 * TRP_SCHEDULE_HOUR_MS + 2 * 60000);
        urgent.id++;
        submit(urgent, now);
        if (running != NULL)
            trp_schedule_remove(schedule, running);
        running = trp_schedule_next(schedule, now, &before);
        assert_non_null(running);
    }
    assert_true(now > 3 * TRP_SCHEDULE_HOUR_MS - 2 * 60000);
    ticket = trp_schedule_queued(schedule, 0);
    assert_int_equal(ticket->request.priority, 3);
}

// Small ones that have no limit and never stop coming do not keep a large one out.
static void test_nothing_starves_by_small_jobs(void **state)
{
    (void)state;
    open_schedule(8, 0, NULL, 0);
    trp_ticket *running[8] = {NULL}, *large = NULL;
    int before, at = 0;
    for (uint64_t id = 1; id <= 40; id++) {
        if (id == 20)
            large = submit(asks(1000, 8, 0), (int64_t)id);
        submit(asks(id, 1, 0), (int64_t)id);
        if (running[at] != NULL) // The oldest ends, when all are taken.
            trp_schedule_remove(schedule, running[at]), running[at] = NULL;
        trp_ticket *ticket = trp_schedule_next(schedule, (int64_t)id, &before);
        if (ticket == large && large != NULL)
            return;
        running[at] = ticket;
        at = (at + 1) % 8;
    }
    fail_msg("the large one never started");
}

static void test_a_short_job_passes_the_head_that_it_does_not_delay(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_ticket *running = submit(asks(1, 3, 100), 0);
    starts(0, 1, 0);
    trp_ticket *head = submit(asks(2, 4, 0), 10), *late = submit(asks(3, 1, 61), 10),
               *early = submit(asks(4, 1, 60), 10);
    starts(40, 4, 0); // Back at 100, as the first is.
    says(head, 40, 100, "waits for 4 more CPUs, expected in at most 1 s");
    says(late, 40, TRP_NEVER, "waits for 1 more CPU behind job 2");
    trp_schedule_remove(schedule, early);
    starts(41, 0);
    says(late, 41, TRP_NEVER, "waits since it would delay job 2, expected in at most 1 s");
    trp_schedule_remove(schedule, running);
    starts(50, 2, 0);
}

// What the head leaves beside it may be taken for any time.
static void test_a_long_job_passes_where_it_fits_beside_the_head(void **state)
{
    (void)state;
    open_schedule(8, 0, NULL, 0);
    submit(asks(1, 6, 100), 0);
    starts(0, 1, 0);
    submit(asks(2, 7, 50), 0);
    submit(asks(3, 1, 0), 0);
    trp_ticket *second = submit(asks(4, 1, 0), 0);
    starts(1, 3, 0);
    says(second, 1, TRP_NEVER,
         "waits since it would delay job 2, expected in at most 1 s: it has no time limit itself");
}

// Where nobody knows when it is given back, what the head waits for is left to it, and the rest of
// what it needs is kept; those that wait behind it for the same keep nothing.
static void test_nothing_delays_one_that_waits_for_what_has_no_limit(void **state)
{
    (void)state;
    open_schedule(8, 0, "license=1", 0);
    trp_request licensed = asks(1, 1, 0);
    assert_int_equal(trp_resources_read(&machine, "license=1", &licensed.need.each), TROUPE_OK);
    trp_ticket *holder = submit(licensed, 0);
    starts(0, 1, 0);
    trp_ticket *waiting[4];
    for (int i = 0; i < 4; i++) {
        licensed.id = 2 + (uint64_t)i;
        waiting[i] = submit(licensed, 1);
    }
    trp_ticket *big = submit(asks(6, 7, 0), 2);
    submit(asks(7, 4, 0), 3);
    starts(3, 0);
    says(waiting[0], 3, TRP_NEVER,
         "waits for 1 more of 'license': job 1, which has no time limit, holds some");
    says(waiting[1], 3, TRP_NEVER, "waits for 1 more of 'license' behind job 2");
    says(big, 3, TRP_NEVER, "waits behind job 2, for which what it needs is kept");
    // The big one comes before those that are small enough: it would never start else.
    trp_schedule_remove(schedule, big);
    starts(4, 7, 0);
    submit(asks(8, 2, 0), 5);
    starts(5, 8, 0);
    submit(asks(9, 1, 0), 6);
    starts(6, 0);
    trp_schedule_remove(schedule, holder);
    starts(7, 2, 0); // The next one waits for it now, and the last CPU is kept for that.
}

// F09: a reservation is honoured.
static void test_a_reserved_job_starts_exactly_at_its_time(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_request reserved = asks(1, 3, 50);
    reserved.start_ms = 100;
    trp_ticket *ticket = submit(reserved, 0), *late, *endless;
    assert_int_equal(ticket->state, TRP_TICKET_RESERVED);
    assert_int_equal(trp_schedule_due(schedule, 0), 100);
    says(ticket, 0, 100, "is reserved, starts in 1 s");
    submit(asks(2, 4, 100), 0); // Is over in time,
    starts(0, 2, 0);
    late = submit(asks(3, 2, 90), 0);
    endless = submit(asks(4, 1, 0), 0);
    starts(0, 0);
    trp_schedule_remove(schedule,
                        trp_schedule_queued(schedule, 0)); // Leaves the endless one alone.
    (void)late;
    says(endless, 0, 100, "waits for 1 more CPU, expected in at most 1 s");
    refused((trp_request){.id = 9, .need = reserved.need, .start_ms = 120, .limit_ms = 10}, 10,
            TROUPE_BUSY,
            "cannot be reserved: asks for 3 CPUs, and only 1 will be free while it runs: job 1 "
            "is reserved for then");
}

static void test_nothing_starts_that_would_hold_what_is_reserved(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_request reserved = asks(1, 3, 50);
    reserved.start_ms = 100;
    submit(reserved, 0);
    trp_ticket *long_one = submit(asks(2, 2, 101), 0), *endless;
    submit(asks(3, 2, 100), 0);
    endless = submit(asks(4, 2, 0), 0);
    submit(asks(5, 1, 0), 0); // Fits beside the reservation.
    starts(0, 3, 5, 0);
    says(long_one, 0, 150, "waits for 1 more CPU, expected in at most 1 s");
    says(endless, 0, TRP_NEVER, "waits for 1 more CPU behind job 2");
    trp_schedule_remove(schedule, long_one);
    says(endless, 0, 150, "waits for 1 more CPU, expected in at most 1 s");
    // At its time, with what ended by its limit given back.
    starts(99, 0);
}

static void test_a_reservation_that_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    open_schedule(8, 2, NULL, 5);
    submit(asks(1, 6, 0), 0);
    submit(asks(2, 1, 200), 0);
    starts(0, 1, 2, 0);
    trp_request request = asks(3, 4, 10);
    request.start_ms = 100;
    refused(request, 0, TROUPE_BUSY,
            "cannot be reserved: asks for 4 CPUs, and only 1 will be free while it runs: job 1, "
            "which has no time limit, holds 6");
    request.need.ranks = 2;
    refused(request, 0, TROUPE_BUSY,
            "cannot be reserved: asks for 2 CPUs, and only 1 will be free while it runs: job 1, "
            "which has no time limit, holds 6");
    request.start_ms = 204; // The second may take 5 ms to come back.
    refused(request, 0, TROUPE_BUSY,
            "cannot be reserved: asks for 2 CPUs, and only 1 will be free while it runs: job 1, "
            "which has no time limit, holds 6");
    request.start_ms = 205;
    submit(request, 0);
    // One that goes on without a limit ends all room from then on.
    request.id = 4;
    request.start_ms = 1000;
    request.limit_ms = 0;
    submit(request, 0);
    request.id = 5;
    request.start_ms = 990;
    request.limit_ms = 100;
    refused(request, 0, TROUPE_BUSY,
            "cannot be reserved: asks for 2 CPUs, and only 0 will be free while it runs: job 1, "
            "which has no time limit, holds 6");
}

// Whole GPUs that are reserved are kept as devices, though parts of as many would be free.
static void test_reserved_gpus_are_kept_as_devices(void **state)
{
    (void)state;
    open_schedule(16, 2, NULL, 0);
    trp_request reserved = asks(1, 1, 10);
    reserved.need.each.of[TRP_GPUS] = TRP_CPU;
    reserved.start_ms = 100;
    submit(reserved, 0);
    trp_request part = asks(2, 1, 0);
    part.need.each.of[TRP_GPUS] = TRP_CPU / 10 * 4;
    trp_ticket *parts[3];
    for (int i = 0; i < 3; i++) {
        part.id = 2 + (uint64_t)i;
        parts[i] = submit(part, 0);
    }
    starts(0, 2, 3, 0);
    assert_int_equal(parts[0]->gpus[0], parts[1]->gpus[0]);
    says(parts[2], 0, 110,
         "waits since it would delay job 1, reserved, expected in at most 1 s: it has no time "
         "limit itself");
    starts(100, 1, 0);
}

// A reserved job starts on the devices that were planned, though another has less room left by now:
// the first that waits has been promised that one.
static void test_a_reserved_job_starts_on_its_devices(void **state)
{
    (void)state;
    open_schedule(16, 2, NULL, 0);
    trp_request part = asks(1, 1, 1000), reserved = asks(2, 1, 300), whole = asks(4, 1, 0);
    part.need.each.of[TRP_GPUS] = TRP_CPU / 5;
    submit(part, 0);
    starts(0, 1, 0);
    reserved.need.each.of[TRP_GPUS] = TRP_CPU / 2;
    reserved.start_ms = 100;
    trp_ticket *ticket = submit(reserved, 0);
    assert_int_equal(ticket->gpus[0], 1);
    part = asks(3, 1, 150);
    part.need.each.of[TRP_GPUS] = TRP_CPU / 2;
    trp_ticket *beside = submit(part, 0);
    starts(0, 3, 0);
    assert_int_equal(beside->gpus[0], 2);
    whole.need.each.of[TRP_GPUS] = TRP_CPU;
    trp_ticket *first = submit(whole, 0);
    says(first, 0, 150, "waits for 1 GPU for each rank, in one piece, expected in at most 1 s");
    starts(100, 2, 0);
    assert_int_equal(ticket->gpus[0], 1);
    trp_schedule_remove(schedule, beside);
    starts(150, 4, 0);
}

static void test_ranks_have_whole_gpus_or_a_part_of_one(void **state)
{
    (void)state;
    open_schedule(16, 4, NULL, 0);
    trp_request parts = asks(1, 3, 0), whole = asks(2, 1, 0), again = asks(3, 1, 0);
    parts.need.each.of[TRP_GPUS] = TRP_CPU / 2;
    whole.need.each.of[TRP_GPUS] = 2 * TRP_CPU;
    again.need.each.of[TRP_GPUS] = TRP_CPU;
    trp_ticket *a = submit(parts, 0), *b = submit(whole, 0), *c = submit(again, 0);
    starts(0, 1, 2, 0);
    assert_int_equal(a->gpu_part, TRP_CPU / 2);
    assert_int_equal(a->gpus[0], 1);
    assert_int_equal(a->gpus[1], 1);
    assert_int_equal(a->gpus[2], 2);
    assert_int_equal(b->gpu_part, TRP_CPU);
    assert_int_equal(b->gpus[0], 4 | 8);
    says(c, 0, TRP_NEVER, "waits for 0.5 more GPUs: job 2, which has no time limit, holds some");
    // One GPU is free in sum, in two pieces.
    assert_int_equal(trp_schedule_resize(schedule, a, 1), TROUPE_OK);
    trp_request half = asks(4, 1, 0);
    half.need.each.of[TRP_GPUS] = TRP_CPU / 2;
    starts(1, 3, 0);
    assert_int_equal(c->gpus[0], 2);
    trp_ticket *d = submit(half, 2);
    starts(2, 4, 0);
    assert_int_equal(d->gpus[0], 1);
}

// A job over its limit keeps what it has, and a reservation that is late for it says so.
static void test_a_job_over_its_limit_makes_a_reservation_late(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_ticket *over = submit(asks(1, 3, 100), 0);
    starts(0, 1, 0);
    trp_request reserved = asks(2, 4, 50);
    reserved.start_ms = 100;
    trp_ticket *late = submit(reserved, 0), *small = submit(asks(3, 1, 10), 1);
    starts(1, 3, 0);
    trp_schedule_remove(schedule, small);
    small = submit(asks(4, 1, 1), 100);
    starts(100, 0); // It would delay what may start at any moment.
    starts(3100, 0);
    says(late, 3100, TRP_NEVER,
         "is reserved and 3 s late: waits for 3 more CPUs: job 1, which is over its time limit, "
         "holds some");
    says(small, 3100, 3150, "waits since it would delay job 2, reserved, expected at any moment");
    trp_schedule_remove(schedule, over);
    starts(4000, 2, 0);
    assert_int_equal(late->until_ms, 4050);
}

// Two that are late do not wait for each other.
static void test_late_reservations_start_one_after_the_other(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_ticket *over = submit(asks(1, 4, 50), 0);
    starts(0, 1, 0);
    trp_request reserved = asks(2, 3, 50);
    reserved.start_ms = 100;
    submit(reserved, 0);
    reserved.id = 3;
    reserved.start_ms = 150;
    trp_ticket *newer = submit(reserved, 0);
    starts(200, 0);
    trp_schedule_remove(schedule, over);
    starts(201, 3, 0);
    trp_schedule_remove(schedule, newer);
    starts(202, 2, 0);
}

static void test_a_running_job_shrinks_grows_and_rests(void **state)
{
    (void)state;
    open_schedule(8, 0, NULL, 0);
    trp_ticket *job = submit(asks(1, 6, 0), 0);
    int before;
    starts(0, 1, 0);
    trp_ticket *waiting = submit(asks(2, 4, 0), 1);
    starts(1, 0);
    assert_int_equal(trp_schedule_resize(schedule, job, 4), TROUPE_OK);
    starts(2, 2, 0);
    assert_int_equal(trp_schedule_resize(schedule, job, 9), TROUPE_TOO_LARGE);
    assert_string_equal(troupe_last_error()->text, "asks for 9 CPUs, this machine has 8");
    assert_int_equal(job->ranks, 4);
    assert_int_equal(trp_schedule_resize(schedule, job, 8), TROUPE_OK);
    starts(3, 0);
    trp_ticket *third = submit(asks(3, 3, 0), 4);
    trp_schedule_remove(schedule, waiting);
    starts(5, 3, 0); // The one that waits; and of what is left not a part.
    assert_int_equal(job->ranks, 4);
    trp_schedule_remove(schedule, third);
    assert_ptr_equal(trp_schedule_next(schedule, 6, &before), job);
    assert_int_equal(before, 4);
    assert_int_equal(job->ranks, 8);
    trp_schedule_pause(schedule, job);
    assert_int_equal(trp_schedule_free(schedule, TRP_CPUS), 8 * TRP_CPU);
    says(job, 7, TRP_NEVER, "is paused");
    submit(asks(4, 8, 0), 8);
    trp_schedule_resume(schedule, job, 9);
    starts(9, 4, 0);
    says(job, 9, TRP_NEVER, "waits for 8 more CPUs: job 4, which has no time limit, holds some");
}

static void test_a_job_over_its_limit_does_not_grow(void **state)
{
    (void)state;
    open_schedule(4, 0, NULL, 0);
    trp_ticket *job = submit(asks(1, 2, 100), 0);
    starts(0, 1, 0);
    assert_int_equal(trp_schedule_resize(schedule, job, 3), TROUPE_OK);
    starts(99, 1, 0);
    assert_int_equal(trp_schedule_resize(schedule, job, 4), TROUPE_OK);
    starts(100, 0);
    assert_int_equal(job->ranks, 3);
}

// After a restart of the caller: what runs is taken on as it is, also if the machine has less now.
static void test_what_ran_before_is_taken_on(void **state)
{
    (void)state;
    open_schedule(4, 1, NULL, 0);
    trp_request ran = asks(1, 6, 100), reserved = asks(2, 4, 10);
    ran.need.each.of[TRP_GPUS] = TRP_CPU;
    reserved.start_ms = 50;
    reserved.again = true;
    const uint64_t gpus[] = {1, 2, 4, 8, 16, 32};
    trp_ticket *running, *late = submit(reserved, 60);
    assert_int_equal(trp_schedule_adopt(schedule, &ran, 6, gpus, 10, &running), TROUPE_OK);
    assert_int_equal(running->until_ms, 110);
    assert_int_equal(trp_schedule_free(schedule, TRP_CPUS), -2 * TRP_CPU);
    starts(60, 0);
    says(late, 60, TRP_NEVER, "is reserved and 1 s late: waits for 4 more CPUs: job 1 holds some");
    trp_schedule_remove(schedule, running);
    assert_int_equal(trp_schedule_free(schedule, TRP_GPUS), TRP_CPU);
    starts(61, 2, 0);
}

static void test_without_memory_nothing_is_lost(void **state)
{
    (void)state;
    open_schedule(2, 0, NULL, 0);
    int queued = 0;
    for (int i = 0; i < 40; i++) { // Beyond the first room, so that each list grows.
        trp_request request = asks((uint64_t)i + 1, 1, 5);
        request.start_ms = i % 4 == 1 ? 1000 + 10 * i : 0;
        trp_ticket *ticket = NULL;
        troupe_status status = TROUPE_NO_MEMORY;
        for (int allowed = 0; status != TROUPE_OK; allowed++) {
            assert_true(allowed < 10);
            trp_memory_fail_after(allowed);
            status = trp_schedule_submit(schedule, &request, 0, &ticket);
            trp_memory_fail_after(-1);
            assert_true(status == TROUPE_OK || status == TROUPE_NO_MEMORY);
        }
        queued += request.start_ms == 0;
    }
    trp_memory_fail_after(0); // Nothing later needs any.
    int started = 0, before;
    for (int64_t now = 0; now < 2000; now++)
        for (trp_ticket *it; (it = trp_schedule_next(schedule, now, &before)) != NULL; started++)
            trp_schedule_remove(schedule, it);
    trp_memory_fail_after(-1);
    assert_int_equal(started, 40);
    assert_true(queued == 30);
}

int main(int argc, char **argv)
{
    schedule_workloads(argc > 1 ? atoi(argv[1]) : 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_job_has_all_its_ranks_or_none, close_schedule),
        cmocka_unit_test_teardown(test_the_coordinator_counts_once, close_schedule),
        cmocka_unit_test_teardown(test_more_than_the_machine_has_is_said_at_once, close_schedule),
        cmocka_unit_test_teardown(test_what_makes_no_sense_is_refused, close_schedule),
        cmocka_unit_test_teardown(test_an_elastic_job_starts_with_what_is_free, close_schedule),
        cmocka_unit_test_teardown(test_priority_comes_before_order_and_an_hour_is_a_step,
                                  close_schedule),
        cmocka_unit_test_teardown(test_nothing_starves_by_priorities, close_schedule),
        cmocka_unit_test_teardown(test_nothing_starves_by_small_jobs, close_schedule),
        cmocka_unit_test_teardown(test_a_short_job_passes_the_head_that_it_does_not_delay,
                                  close_schedule),
        cmocka_unit_test_teardown(test_a_long_job_passes_where_it_fits_beside_the_head,
                                  close_schedule),
        cmocka_unit_test_teardown(test_nothing_delays_one_that_waits_for_what_has_no_limit,
                                  close_schedule),
        cmocka_unit_test_teardown(test_a_reserved_job_starts_exactly_at_its_time, close_schedule),
        cmocka_unit_test_teardown(test_nothing_starts_that_would_hold_what_is_reserved,
                                  close_schedule),
        cmocka_unit_test_teardown(test_a_reservation_that_cannot_be_kept_is_refused,
                                  close_schedule),
        cmocka_unit_test_teardown(test_reserved_gpus_are_kept_as_devices, close_schedule),
        cmocka_unit_test_teardown(test_a_reserved_job_starts_on_its_devices, close_schedule),
        cmocka_unit_test_teardown(test_ranks_have_whole_gpus_or_a_part_of_one, close_schedule),
        cmocka_unit_test_teardown(test_a_job_over_its_limit_makes_a_reservation_late,
                                  close_schedule),
        cmocka_unit_test_teardown(test_late_reservations_start_one_after_the_other, close_schedule),
        cmocka_unit_test_teardown(test_a_running_job_shrinks_grows_and_rests, close_schedule),
        cmocka_unit_test_teardown(test_a_job_over_its_limit_does_not_grow, close_schedule),
        cmocka_unit_test_teardown(test_what_ran_before_is_taken_on, close_schedule),
        cmocka_unit_test_teardown(test_without_memory_nothing_is_lost, close_schedule),
        cmocka_unit_test(test_random_workloads),
        cmocka_unit_test(test_a_long_queue_is_looked_through_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
