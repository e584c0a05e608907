// ray.c: rows of Ray's microbenchmark in Troupe: the same work as compare/peer_ray.py.
//
//     ray <seconds a row> [ROW...]
//
// Prints "<row> <value>" for each of these rows, or for all. As in Ray, actors have processes of
// their own, tasks run in a pool of two workers, and a method returns two bytes. Unlike in Ray's
// own program, arrays that are put have been written before. Rows that it has not:
//
//     put.<bytes>.<clients>c   arrays that actors, one or two at once, put and drop: GB/s
//     view.<bytes>             an array is got, not copied, and its first and last byte are read
#include <harness.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>

enum {
    ACTORS = 4,
    BATCH = 1000,
    MANY = 10000,
    MEGABYTE = 1024 * 1024,
    ARRAY = 100 * MEGABYTE,
    // Of the rows with several clients: tasks, and what each of them puts.
    CLIENTS = 10,
    CLIENT_PUTS = 100,
    CLIENT_ARRAYS = 10,
    CLIENT_ARRAY = 80 * MEGABYTE,
    // Of those with sizes: what each client puts for one message, if that is no more than PILE.
    PUTTERS = 2,
    PILE = 256 * MEGABYTE,
    PILE_ARRAYS = 200,
};

static const size_t put_sizes[] = {65536, MEGABYTE, 64 * MEGABYTE, 256 * MEGABYTE},
                    view_sizes[] = {65536, MEGABYTE, 256 * MEGABYTE};
enum { PUT_SIZES = sizeof put_sizes / sizeof *put_sizes };
enum { VIEW_SIZES = sizeof view_sizes / sizeof *view_sizes };

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
    TROUPE_TRY(troupe_get(int, troupe_ref_keep(x->object), &number));
    *value = ok;
    return TROUPE_OK;
}

TROUPE_ACTOR(server, (small_value, troupe_none, troupe_bytes),
             (small_value_arg, argument, troupe_bytes));

TROUPE_STRUCT(batch, (server_actor, servers, 4), (int, server_count), (int, calls));
TROUPE_STRUCT(pile, (int, size), (int, count)); // Of put_sizes; how many.

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
    troupe_ref_drop(x);
    return status;
}

// The arrays are made once.
static troupe_status client_put(client *self, const pile *what, troupe_none *none)
{
    (void)self, (void)none;
    static unsigned char *arrays[PUT_SIZES];
    if (arrays[what->size] == NULL)
        arrays[what->size] = bench_written(put_sizes[what->size]);
    for (int i = 0; i < what->count; i++)
        troupe_ref_drop(troupe_put_bytes(arrays[what->size], put_sizes[what->size]));
    return TROUPE_OK;
}

TROUPE_ACTOR(client, (client_batch, batch, troupe_none), (client_batch_arg, batch, troupe_none),
             (client_put, pile, troupe_none));

static troupe_status small_task(const troupe_none *none, troupe_bytes *value)
{
    (void)none;
    *value = ok;
    return TROUPE_OK;
}

TROUPE_TASK(small_task, troupe_none, troupe_bytes);

static troupe_status put_small(const troupe_none *none, troupe_none *nothing)
{
    (void)none, (void)nothing;
    int zero = 0;
    for (int i = 0; i < CLIENT_PUTS; i++)
        troupe_ref_drop(troupe_put(int, &zero));
    return TROUPE_OK;
}

// The array is made once in each worker.
static troupe_status put_large(const troupe_none *none, troupe_none *nothing)
{
    (void)none, (void)nothing;
    static void *mine;
    if (!mine)
        mine = bench_written(CLIENT_ARRAY);
    for (int i = 0; i < CLIENT_ARRAYS; i++)
        troupe_ref_drop(troupe_put_bytes(mine, CLIENT_ARRAY));
    return TROUPE_OK;
}

TROUPE_TASK(put_small, troupe_none, troupe_none);
TROUPE_TASK(put_large, troupe_none, troupe_none);

// ---- The rows: each repetition is a call of a function

static double seconds;
static char **wanted; // Rows, up to a NULL; none: all.
static troupe_ref zero_object, list, lent;
static unsigned char *array;
static server_actor server_one, servers[ACTORS];
static client_actor client_one, pairs[ACTORS];
static troupe_ref refs[MANY];
static troupe_bytes values[BATCH];
static int putters;  // That put at once,
static pile putting; // and what.

static bool is_wanted(const char *name)
{
    char **at = wanted;
    while (*at && strcmp(*at, name) != 0)
        at++;
    return *at || !*wanted;
}

static void measure(const char *name, double per_repetition, void (*repeat)(void))
{
    int64_t enough = (int64_t)(seconds * 1e9), passed;
    int repetitions = 0;
    if (!is_wanted(name))
        return;
    repeat();
    int64_t start = bench_now_ns();
    do {
        repeat();
        troupe_arena_reset();
        repetitions++;
    } while ((passed = bench_now_ns() - start) < enough);
    printf("%s %.9g\n", name, per_repetition * repetitions / ((double)passed / 1e9));
    fflush(stdout);
}

static void get_object(void)
{
    int number;
    troupe_must(troupe_get(int, troupe_ref_keep(zero_object), &number));
}

static void put_object(void)
{
    int zero = 0;
    troupe_ref_drop(troupe_put(int, &zero));
}

static void put_array(void)
{
    troupe_ref_drop(troupe_put_bytes(array, ARRAY));
}

static void put_from_clients(troupe_ref (*start)(void))
{
    static troupe_none nothing[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        refs[i] = start();
    troupe_must(troupe_get_all(troupe_none, refs, CLIENTS, nothing));
}

static troupe_ref start_small(void)
{
    return troupe_run(put_small, 0);
}

static troupe_ref start_large(void)
{
    return troupe_run(put_large, 0);
}

static void put_objects(void)
{
    put_from_clients(start_small);
}

static void put_arrays(void)
{
    put_from_clients(start_large);
}

static void put_sized(void)
{
    troupe_none none;
    for (int i = 0; i < putters; i++)
        refs[i] = troupe_call_from(pairs[i], client_put, &putting);
    for (int i = 0; i < putters; i++)
        troupe_must(troupe_get(troupe_none, refs[i], &none));
}

static void view(void)
{
    troupe_view seen;
    troupe_must(troupe_view_bytes(lent, &seen, -1));
    const unsigned char *bytes = seen.data;
    if (bytes[0] != array[0] || bytes[seen.size - 1] != array[seen.size - 1])
        bench_die("ray: an array that nobody has put");
    troupe_view_end(&seen);
}

// One object that holds 10,000 references: who gets it owns each of them, and gives it up.
static void get_10k(void)
{
    troupe_array_troupe_ref found;
    troupe_must(troupe_get(troupe_array_troupe_ref, troupe_ref_keep(list), &found));
    if (found.count != MANY)
        bench_die("ray: %zu references, where %d were expected", found.count, MANY);
    for (size_t i = 0; i < found.count; i++)
        troupe_ref_drop(found.items[i]);
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
        troupe_ref_drop(refs[first]);
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
        troupe_actor_kill(made[i]);
}

static void measure_sizes(void)
{
    char name[64];
    for (int i = 0; i < PUT_SIZES; i++)
        for (putters = 1; putters <= PUTTERS; putters++) {
            size_t size = put_sizes[i], fit = PILE / size;
            putting = (pile){i, fit < PILE_ARRAYS ? (int)fit : PILE_ARRAYS};
            snprintf(name, sizeof name, "put.%zu.%dc", size, putters);
            measure(name, (double)size * putting.count * putters / 1e9, put_sized);
        }
    for (int i = 0; i < VIEW_SIZES; i++) {
        size_t size = view_sizes[i];
        snprintf(name, sizeof name, "view.%zu", size);
        if (!is_wanted(name))
            continue;
        array = bench_written(size);
        lent = troupe_put_bytes(array, size);
        measure(name, 1, view);
        troupe_ref_drop(lent);
        munmap(array, size);
    }
}

static void measure_list(void)
{
    static const char name[] = "single_client_get_object_containing_10k_refs";
    if (!is_wanted(name))
        return;
    for (int i = 0; i < MANY; i++)
        refs[i] = troupe_put(int, &i);
    troupe_array_troupe_ref all = {refs, MANY};
    list = troupe_put(troupe_array_troupe_ref, &all);
    for (int i = 0; i < MANY; i++)
        troupe_ref_drop(refs[i]); // The list holds them.
    measure(name, 1, get_10k);
    troupe_ref_drop(list);
}

static void measure_objects(void)
{
    measure("single_client_get_calls", 1, get_object);
    measure("single_client_put_calls", 1, put_object);
    measure("multi_client_put_calls", CLIENTS * CLIENT_PUTS, put_objects);
    if (is_wanted("single_client_put_gigabytes")) {
        array = bench_written(ARRAY);
        measure("single_client_put_gigabytes", ARRAY / 1e9, put_array);
        munmap(array, ARRAY);
    }
    measure("multi_client_put_gigabytes", 1.0 * CLIENTS * CLIENT_ARRAYS * CLIENT_ARRAY / 1e9,
            put_arrays);
    measure_list();
}

static void measure_calls(void)
{
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
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2));
    if (argc < 2)
        bench_die("usage: ray <seconds a row> [ROW...]");
    seconds = atof(argv[1]);
    wanted = argv + 2;
    int zero = 0;
    zero_object = troupe_put(int, &zero);
    measure_objects();
    server_one = troupe_spawn(server, .place = TROUPE_PLACE_ISOLATED);
    client_one = troupe_spawn(client, .place = TROUPE_PLACE_ISOLATED);
    for (int i = 0; i < ACTORS; i++) {
        servers[i] = troupe_spawn(server, .place = TROUPE_PLACE_ISOLATED);
        pairs[i] = troupe_spawn(client, .place = TROUPE_PLACE_ISOLATED);
    }
    measure_sizes();
    measure_calls();
    return troupe_stop();
}
