// ray.c: rows of Ray's microbenchmark in Troupe: the same work as compare/peer_ray.py.
//
//     ray <seconds a row> [sync|other]
//
// Prints "<row> <value>" for each row; "sync": for those alone where each call waits for the last
// one, "other": for the others. As in Ray, actors have processes of their own, tasks run in
// a pool of two workers, and a method returns two bytes.
#include <harness.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>

enum { ACTORS = 4, BATCH = 1000, ARRAY = 100 * 1024 * 1024 };

TROUPE_STRUCT(argument, (troupe_ref, object));

static const troupe_bytes ok = {"ok", 2};

typedef struct server {
    int unused;
} server;

static troupe_status small_value(server *self, const troupe_none *none, troupe_bytes *value)
{
    (void)self, (void)none;
    *value = ok;
    return TROUPE_OK;
}

// The argument is there when the method runs, as in Ray.
static troupe_status small_value_arg(server *self, const argument *x, troupe_bytes *value)
{
    (void)self;
    int number;
    TROUPE_TRY(troupe_get(int, troupe_keep(x->object), &number));
    *value = ok;
    return TROUPE_OK;
}

TROUPE_ACTOR(server, (small_value, troupe_none, troupe_bytes),
             (small_value_arg, argument, troupe_bytes));

TROUPE_STRUCT(batch, (server_actor, servers, 4), (int, server_count), (int, calls));

typedef struct client {
    int unused;
} client;

static troupe_status client_batch(client *self, const batch *what, troupe_none *none)
{
    (void)self, (void)none;
    static troupe_ref refs[BATCH * ACTORS];
    static troupe_bytes values[BATCH * ACTORS];
    for (int i = 0; i < what->calls; i++)
        refs[i] = troupe_call(what->servers[i % what->server_count], small_value, 0);
    return troupe_get_all(troupe_bytes, refs, (size_t)what->calls, values);
}

static troupe_status client_batch_arg(client *self, const batch *what, troupe_none *none)
{
    (void)self, (void)none;
    static troupe_ref refs[BATCH];
    static troupe_bytes values[BATCH];
    int zero = 0;
    troupe_ref x = troupe_put(int, &zero);
    for (int i = 0; i < what->calls; i++)
        refs[i] = troupe_call(what->servers[i % what->server_count], small_value_arg, x);
    troupe_status status = troupe_get_all(troupe_bytes, refs, (size_t)what->calls, values);
    troupe_drop(x);
    return status;
}

TROUPE_ACTOR(client, (client_batch, batch, troupe_none), (client_batch_arg, batch, troupe_none));

static troupe_status small_task(const troupe_none *none, troupe_bytes *value)
{
    (void)none;
    *value = ok;
    return TROUPE_OK;
}

TROUPE_TASK(small_task, troupe_none, troupe_bytes);

// ---- The rows: each repetition is a call of a function

static double seconds;
static const char *which; // Of the rows; NULL: all.
static troupe_ref zero_object;
static void *array;
static server_actor server_one, servers[ACTORS];
static client_actor client_one, pairs[ACTORS];
static troupe_ref refs[BATCH];
static troupe_bytes values[BATCH];

static void measure(const char *name, double per_repetition, void (*repeat)(void))
{
    int64_t wanted = (int64_t)(seconds * 1e9), passed;
    int repetitions = 0;
    if (which && !strstr(name, "_sync") != !strcmp(which, "other"))
        return;
    repeat();
    int64_t start = bench_now_ns();
    do {
        repeat();
        troupe_reset();
        repetitions++;
    } while ((passed = bench_now_ns() - start) < wanted);
    printf("%s %.9g\n", name, per_repetition * repetitions / ((double)passed / 1e9));
    fflush(stdout);
}

static void get_object(void)
{
    int number;
    troupe_must(troupe_get(int, troupe_keep(zero_object), &number));
}

static void put_object(void)
{
    int zero = 0;
    troupe_drop(troupe_put(int, &zero));
}

static void put_array(void)
{
    troupe_drop(troupe_put_bytes(array, ARRAY));
}

static void take(troupe_ref ref)
{
    troupe_bytes value;
    troupe_must(troupe_get(troupe_bytes, ref, &value));
    if (value.size != 2)
        bench_die("ray: %zu bytes, where 2 were expected", value.size);
}

static void task_sync(void)
{
    take(troupe_run(small_task, 0));
}

static void task_batch(void)
{
    for (int i = 0; i < BATCH; i++)
        refs[i] = troupe_run(small_task, 0);
    troupe_must(troupe_get_all(troupe_bytes, refs, BATCH, values));
}

// Waits for one of what is left, a thousand times.
static void wait_1k(void)
{
    bool ready[BATCH];
    for (int i = 0; i < BATCH; i++)
        refs[i] = troupe_run(small_task, 0);
    for (size_t left = BATCH; left > 0;) {
        troupe_must(troupe_wait(refs, left, 1, -1, ready, NULL));
        size_t first = 0;
        while (!ready[first])
            first++;
        troupe_drop(refs[first]);
        memmove(&refs[first], &refs[first + 1], (--left - first) * sizeof *refs);
    }
}

static void call_sync(void)
{
    take(troupe_call(server_one, small_value, 0));
}

static void call_batch(void)
{
    for (int i = 0; i < BATCH; i++)
        refs[i] = troupe_call(server_one, small_value, 0);
    troupe_must(troupe_get_all(troupe_bytes, refs, BATCH, values));
}

static batch batch_for(int count, int calls)
{
    batch what = {.server_count = count, .calls = calls};
    memcpy(what.servers, servers, sizeof servers);
    return what;
}

static void call_1_n(void)
{
    batch what = batch_for(ACTORS, BATCH * ACTORS);
    troupe_none none;
    troupe_must(troupe_get(troupe_none, troupe_call_from(client_one, client_batch, &what), &none));
}

static void call_n_n(void)
{
    batch what = batch_for(ACTORS, BATCH);
    troupe_none none;
    for (int i = 0; i < ACTORS; i++)
        refs[i] = troupe_call_from(pairs[i], client_batch, &what);
    for (int i = 0; i < ACTORS; i++)
        troupe_must(troupe_get(troupe_none, refs[i], &none));
}

static void call_n_n_with_arg(void)
{
    troupe_none none;
    for (int i = 0; i < ACTORS; i++) {
        batch what = batch_for(1, BATCH);
        what.servers[0] = servers[i];
        refs[i] = troupe_call_from(pairs[i], client_batch_arg, &what);
    }
    for (int i = 0; i < ACTORS; i++)
        troupe_must(troupe_get(troupe_none, refs[i], &none));
}

static void create(void)
{
    server_actor made[4];
    for (int i = 0; i < 4; i++)
        made[i] = troupe_spawn(server, .place = TROUPE_PLACE_ISOLATED);
    for (int i = 0; i < 4; i++)
        refs[i] = troupe_call(made[i], small_value, 0);
    for (int i = 0; i < 4; i++)
        take(refs[i]);
    for (int i = 0; i < 4; i++)
        troupe_kill(made[i]);
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));
    seconds = argc > 1 ? atof(argv[1]) : 1;
    which = argc > 2 ? argv[2] : NULL;
    int zero = 0;
    zero_object = troupe_put(int, &zero);
    array = calloc(1, ARRAY);
    if (!array)
        bench_die("ray: no memory for the array");
    server_one = troupe_spawn(server, .place = TROUPE_PLACE_ISOLATED);
    client_one = troupe_spawn(client, .place = TROUPE_PLACE_ISOLATED);
    for (int i = 0; i < ACTORS; i++) {
        servers[i] = troupe_spawn(server, .place = TROUPE_PLACE_ISOLATED);
        pairs[i] = troupe_spawn(client, .place = TROUPE_PLACE_ISOLATED);
    }
    measure("single_client_get_calls", 1, get_object);
    measure("single_client_put_calls", 1, put_object);
    measure("single_client_put_gigabytes", ARRAY / 1e9, put_array);
    measure("single_client_tasks_sync", 1, task_sync);
    measure("single_client_tasks_async", BATCH, task_batch);
    measure("single_client_tasks_and_get_batch", 1, task_batch);
    measure("single_client_wait_1k_refs", 1, wait_1k);
    measure("1_1_actor_calls_sync", 1, call_sync);
    measure("1_1_actor_calls_async", BATCH, call_batch);
    measure("1_n_actor_calls_async", BATCH * ACTORS, call_1_n);
    measure("n_n_actor_calls_async", BATCH * ACTORS, call_n_n);
    measure("n_n_actor_calls_with_arg_async", BATCH * ACTORS, call_n_n_with_arg);
    measure("actor_creation", 4, create);
    free(array);
    return troupe_stop();
}
