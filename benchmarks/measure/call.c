// call.c: what a call costs, and how many can be under way.
//
//     call rtt <here|isolated> <cpu> <actor's cpu> <calls> <pause us>
//     call rtt within <threads> -1 <calls>
//     call <shape> isolated <cpu> <actor's cpu> <calls>
//
// rtt: a payload of 64 bytes goes to an actor and comes back, one at a time, after a pause that
// lets both ends fall asleep. Prints microseconds with their percentiles. The driver's threads are
// pinned to the first CPU and the actor's process to the second; -1, and light actors ("here"): not
// pinned. "within": from inside a method of a light actor to another one.
//
// Shapes, each caller with 1,000 calls under way: 1_1, 1_n (one caller, four actors), n_1 and n_n
// (four calling actors), 1_1_1k (1 KiB each way) and 1_1_ref (a reference to an object as the
// argument). Prints calls a second. Those with several processes are not pinned.
#include <harness.h>

#include <stdlib.h>
#include <string.h>
#include <troupe.h>

enum { IN_FLIGHT = 1000, ACTORS = 4, SMALL = 64, LARGE = 1024 };

typedef struct echo {
    int64_t calls;
} echo;

TROUPE_STRUCT(small, (uint8_t, bytes, 64));
TROUPE_STRUCT(large, (uint8_t, bytes, 1024));
TROUPE_STRUCT(pointer, (troupe_ref, object));

static const small small_payload = {{1, 2, 3}};
static const large large_payload = {{1, 2, 3}};

static troupe_status echo_small(echo *self, const small *question, small *answer)
{
    *answer = *question;
    self->calls++;
    return TROUPE_OK;
}

static troupe_status echo_large(echo *self, const large *question, large *answer)
{
    *answer = *question;
    self->calls++;
    return TROUPE_OK;
}

// Lets the object's bytes be seen, without a copy.
static troupe_status echo_look(echo *self, const pointer *at, int64_t *size)
{
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(at->object, &view, -1));
    *size = (int64_t)view.size;
    troupe_view_end(&view);
    self->calls++;
    return TROUPE_OK;
}

static troupe_status echo_pin(echo *self, const int *cpu, int *threads)
{
    (void)self;
    *threads = bench_pin(0, *cpu);
    return *threads > 0 ? TROUPE_OK : troupe_fail(TROUPE_FAILED, "cannot move to CPU %d", *cpu);
}

TROUPE_ACTOR(echo, (echo_small, small, small), (echo_large, large, large),
             (echo_look, pointer, int64_t), (echo_pin, int, int));

// ---- One at a time

static void call_once(echo_actor actor)
{
    small answer = {{0}};
    troupe_must(troupe_get(small, troupe_call_from(actor, echo_small, &small_payload), &answer));
    if (memcmp(&answer, &small_payload, sizeof answer) != 0)
        bench_die("call: the answer is not what was sent");
}

static bench_round round_trips(echo_actor actor, size_t count, int pause_us)
{
    bench_samples samples;
    bench_samples_open(&samples, count);
    size_t warm_up = count / 5 + 100;
    for (size_t i = 0; i < warm_up + count; i++) {
        bench_pause(pause_us);
        int64_t start = bench_now_ns();
        call_once(actor);
        if (i >= warm_up)
            bench_samples_add(&samples, (double)(bench_now_ns() - start) / 1e3);
    }
    bench_round round = bench_round_of(&samples);
    bench_samples_close(&samples);
    return round;
}

// ---- Many under way

TROUPE_STRUCT(task, (echo_actor, actors, 4), (int, count), (int, actor_count), (int, size));

static troupe_ref make_one(const task *what, echo_actor to, troupe_ref object)
{
    switch (what->size) {
    case SMALL:
        return troupe_call_from(to, echo_small, &small_payload);
    case LARGE:
        return troupe_call_from(to, echo_large, &large_payload);
    default:
        return troupe_call(to, echo_look, object);
    }
}

static troupe_status take_one(const task *what, troupe_ref ref)
{
    small small_answer;
    large large_answer;
    int64_t size;
    switch (what->size) {
    case SMALL:
        return troupe_get(small, ref, &small_answer);
    case LARGE:
        return troupe_get(large, ref, &large_answer);
    default:
        return troupe_get(int64_t, ref, &size);
    }
}

// Keeps IN_FLIGHT calls under way: one is made for each that is answered, the oldest first.
static troupe_status keep_in_flight(const task *what, troupe_ref object)
{
    troupe_ref refs[IN_FLIGHT];
    for (int i = 0; i < what->count + IN_FLIGHT; i++) {
        troupe_ref *slot = &refs[i % IN_FLIGHT];
        if (i >= IN_FLIGHT)
            TROUPE_TRY(take_one(what, *slot));
        if (i < what->count)
            *slot = make_one(what, what->actors[i % what->actor_count], object);
    }
    return TROUPE_OK;
}

typedef struct caller {
    int unused;
} caller;

static troupe_status caller_run(caller *self, const task *what, int *done)
{
    (void)self;
    *done = what->count;
    return keep_in_flight(what, (troupe_ref){0});
}

TROUPE_STRUCT(trips, (echo_actor, actor), (int, count));
TROUPE_STRUCT(times, (double, p50), (double, p99), (double, p999));

static troupe_status caller_time(caller *self, const trips *what, times *result)
{
    (void)self;
    bench_round round = round_trips(what->actor, (size_t)what->count, 0);
    *result = (times){round.p50, round.p99, round.p999};
    return TROUPE_OK;
}

TROUPE_ACTOR(caller, (caller_run, task, int), (caller_time, trips, times));

static bench_round within(int count)
{
    times result;
    trips what = {troupe_spawn(echo, .place = TROUPE_PLACE_HERE), count};
    caller_actor caller_one = troupe_spawn(caller, .place = TROUPE_PLACE_HERE);
    troupe_must(troupe_get(times, troupe_call_from(caller_one, caller_time, &what), &result));
    return (bench_round){result.p50, result.p50, result.p99, result.p999};
}

static void pin(echo_actor actor, int cpu, int actor_cpu)
{
    int threads;
    if (cpu < 0)
        return;
    bench_pin(0, cpu);
    troupe_must(troupe_get(int, troupe_call(actor, echo_pin, actor_cpu), &threads));
}

static void run(const task *what, const caller_actor *callers, troupe_ref object)
{
    if (!callers) {
        troupe_must(keep_in_flight(what, object));
        return;
    }
    troupe_ref refs[ACTORS];
    int done;
    for (int i = 0; i < ACTORS; i++) {
        task share = *what;
        share.count /= ACTORS;
        refs[i] = troupe_call_from(callers[i], caller_run, &share);
    }
    for (int i = 0; i < ACTORS; i++)
        troupe_must(troupe_get(int, refs[i], &done));
}

static bench_round rate(const char *shape, const int cpus[2], int count)
{
    bool from_many = shape[0] == 'n', to_many = shape[2] == 'n';
    bool by_reference = strcmp(shape, "1_1_ref") == 0;
    task what = {.count = count / 5 + IN_FLIGHT, .actor_count = to_many ? ACTORS : 1};
    what.size = by_reference ? 0 : strcmp(shape, "1_1_1k") == 0 ? LARGE : SMALL;
    caller_actor callers[ACTORS];
    for (int i = 0; i < what.actor_count; i++)
        what.actors[i] = troupe_spawn(echo, .place = TROUPE_PLACE_ISOLATED);
    for (int i = 0; from_many && i < ACTORS; i++)
        callers[i] = troupe_spawn(caller, .place = TROUPE_PLACE_ISOLATED);
    if (!from_many && !to_many)
        pin(what.actors[0], cpus[0], cpus[1]);
    troupe_ref object = troupe_put_bytes(&small_payload, SMALL);
    run(&what, from_many ? callers : NULL, object);
    what.count = count;
    int64_t start = bench_now_ns();
    run(&what, from_many ? callers : NULL, object);
    double passed = (double)(bench_now_ns() - start) / 1e9;
    troupe_ref_drop(object);
    return bench_round_plain(count / passed);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        bench_die(
            "usage: call rtt|<shape> here|within|isolated <cpu> <actor's cpu> <calls> [pause us]");
    bool inside = strcmp(argv[2], "within") == 0, here = strcmp(argv[2], "here") == 0 || inside;
    int cpus[2] = {atoi(argv[3]), atoi(argv[4])}, count = atoi(argv[5]);
    troupe_must(troupe_start(argc, argv, .threads = inside ? cpus[0] : 0,
                             .workers = here ? TROUPE_NONE : 1));
    if (inside) {
        bench_round_print(within(count));
    } else if (strcmp(argv[1], "rtt") == 0) {
        echo_actor actor =
            troupe_spawn(echo, .place = here ? TROUPE_PLACE_HERE : TROUPE_PLACE_ISOLATED);
        if (!here)
            pin(actor, cpus[0], cpus[1]);
        bench_round_print(round_trips(actor, (size_t)count, argc > 6 ? atoi(argv[6]) : 0));
    } else {
        bench_round_print(rate(argv[1], cpus, count));
    }
    return troupe_stop();
}
