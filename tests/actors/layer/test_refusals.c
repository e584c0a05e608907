// test_refusals.c: what each refusal of a call of the library says: the status, and a part of the
// error text that tells it from all others; from outside methods, and from inside.
#include <places.h>
#include <support.h>

#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(pair, (int, one), (int, two));
TROUPE_STRUCT(letter, (int, number), (troupe_ref, enclosed));

// Makes the mistake of that number, in a method; its status.
typedef struct clerk {
    troupe_deferred later;
} clerk;

static troupe_status clerk_err(clerk *self, const int *mistake, int *out);
static troupe_status clerk_post(clerk *self, const letter *in, int *out);
static troupe_status clerk_count(clerk *self, const int *count, int *number);
static troupe_status clerk_write(clerk *self, const pair *in, int *out);
static troupe_status clerk_rest(clerk *self, const int *ms, int *out);

TROUPE_ACTOR(clerk, (clerk_err, int, int), (clerk_post, letter, int),
             (clerk_count, int, int, .options = TROUPE_METHOD_STREAM),
             (clerk_write, pair, int, .group = "io"), (clerk_rest, int, int));

// Another one, whose methods are none of a clerk's.
typedef struct guard {
    char unused;
} guard;

static troupe_status guard_watch(guard *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

TROUPE_ACTOR(guard, (guard_watch, int, int));

static troupe_status clerk_post(clerk *self, const letter *in, int *out)
{
    (void)self;
    *out = in->number;
    return TROUPE_OK;
}

static troupe_status clerk_count(clerk *self, const int *count, int *number)
{
    double half = 0.5;
    (void)self, (void)number;
    if (*count < 0)
        return troupe_yield(double, &half);
    for (int i = 0; i < *count; i++)
        TROUPE_TRY(troupe_yield(int, &i));
    return troupe_defer().id_ == 0 ? troupe_last_error()->status : TROUPE_OK;
}

static troupe_status clerk_write(clerk *self, const pair *in, int *out)
{
    (void)self;
    *out = in->one;
    return TROUPE_OK;
}

static _Atomic int *rests; // Shared with the worker: how many have begun.

static troupe_status clerk_rest(clerk *self, const int *ms, int *out)
{
    (void)self, (void)out;
    ++*rests;
    for (int i = 0; i < *ms && !troupe_cancelled(); i++)
        usleep(1000);
    return TROUPE_OK;
}

static troupe_status defer_in_a_task(const int *in, int *out)
{
    (void)in, (void)out;
    return troupe_defer().id_ == 0 ? troupe_last_error()->status : TROUPE_OK;
}
TROUPE_TASK(defer_in_a_task, int, int);

static void expect(troupe_status status, troupe_status wanted, const char *words)
{
    if (status != wanted || strstr(troupe_last_error()->text, words) == NULL)
        fail_msg("%s, expected %s with '%s': %s", troupe_status_name(status),
                 troupe_status_name(wanted), words, troupe_last_error()->text);
}

// The status of what tells its failure by a zero.
static troupe_status unless(bool good)
{
    return good ? TROUPE_OK : troupe_last_error()->status;
}

// ---- inside a method

typedef enum mistake {
    PERIOD_OF_NONE,
    TIMER_ENDED,
    DEFERRED_TWICE,
    ANSWER_OF_ANOTHER_TYPE,
    YIELD_IN_A_CALL,
    LINK_WITH_ONESELF,
    SAVE_WITHOUT_STATE,
    THEN_OF_NOTHING,
    THEN_OF_ANOTHER_TYPE,
    METHOD_THAT_IS_NONE,
    MISTAKES
} mistake;

static troupe_status err(clerk *self, mistake which)
{
    troupe_ref object = {0};
    troupe_status status;
    troupe_timer timer;
    double half = 0.5;
    switch (which) {
    case PERIOD_OF_NONE:
        return unless(troupe_timer_every(clerk_rest, 0, 1).id_ != 0);
    case TIMER_ENDED:
        timer = troupe_timer_after(clerk_rest, 60000, 1);
        TROUPE_TRY(troupe_timer_stop(timer));
        return troupe_timer_stop(timer);
    case DEFERRED_TWICE:
        self->later = troupe_defer();
        return unless(troupe_defer().id_ != 0);
    case ANSWER_OF_ANOTHER_TYPE:
        self->later = troupe_defer();
        return troupe_deferred_fulfil(double, &self->later, &half);
    case YIELD_IN_A_CALL:
        return troupe_yield(double, &half);
    case LINK_WITH_ONESELF:
        return troupe_actor_link(troupe_self());
    case SAVE_WITHOUT_STATE:
        return troupe_actor_save();
    case THEN_OF_NOTHING:
        return troupe_then(object, clerk_rest);
    case THEN_OF_ANOTHER_TYPE:
        object = troupe_put(double, &half);
        status = troupe_then(object, clerk_rest);
        troupe_ref_drop(object);
        return status;
    default:
        return unless(troupe_timer_start_as(&troupe_class_clerk, 99, &(int){0}, 1000, false).id_ !=
                      0);
    }
}

static troupe_status clerk_err(clerk *self, const int *which, int *out)
{
    (void)out;
    return err(self, (mistake)*which);
}

static const struct {
    troupe_status status;
    const char *words;
} inside[MISTAKES] = {
    [PERIOD_OF_NONE] = {TROUPE_INVALID, "has a period of 0 ms"},
    [TIMER_ENDED] = {TROUPE_NOT_FOUND, "the timer has ended before"},
    [DEFERRED_TWICE] = {TROUPE_INVALID, "has deferred its answer already"},
    [ANSWER_OF_ANOTHER_TYPE] = {TROUPE_WRONG_TYPE, "answers with a value of type 'int', not"},
    [YIELD_IN_A_CALL] = {TROUPE_INVALID, "was called outside a streaming method"},
    [LINK_WITH_ONESELF] = {TROUPE_INVALID, "cannot be linked with itself"},
    [SAVE_WITHOUT_STATE] = {TROUPE_UNSUPPORTED, "cannot save its state: it was spawned without"},
    [THEN_OF_NOTHING] = {TROUPE_INVALID, "the reference is empty or stale"},
    [THEN_OF_ANOTHER_TYPE] = {TROUPE_WRONG_TYPE, "takes a value of type 'int', the reference is"},
    [METHOD_THAT_IS_NONE] = {TROUPE_INVALID, "methods, and number 99 was named"},
};

static void test_inside_methods(void **state)
{
    (void)state;
    int out;
    for (int p = 0; p < PLACES; p++)
        for (int i = 0; i < MISTAKES; i++) {
            clerk_actor actor = troupe_spawn(clerk, .place = places[p]);
            expect(troupe_get(int, troupe_call(actor, clerk_err, i), &out, SUPPORT_SOON_MS),
                   inside[i].status, inside[i].words);
            assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        }
    expect(troupe_get(int, troupe_run(defer_in_a_task, 1), &out), TROUPE_INVALID,
           "is a task, which cannot defer its answer");
}

// ---- outside

static void test_outside_methods(void **state)
{
    (void)state;
    int one = 1;
    troupe_actor nobody = {0};
    expect(unless(troupe_defer().id_ != 0), TROUPE_INVALID, "troupe_defer was called outside");
    expect(troupe_yield(int, &one), TROUPE_INVALID, "troupe_yield was called outside");
    expect(troupe_actor_exit(), TROUPE_INVALID, "troupe_actor_exit was called outside methods");
    expect(troupe_actor_save(), TROUPE_INVALID, "troupe_actor_save was called outside methods");
    expect(troupe_actor_link(nobody), TROUPE_INVALID,
           "troupe_actor_link was called outside methods");
    expect(troupe_actor_unlink(nobody), TROUPE_INVALID, "troupe_actor_unlink was called outside");
    expect(unless(troupe_monitor_start_as(nobody, &troupe_class_clerk, 0) != 0), TROUPE_INVALID,
           "only an actor can get such messages");
    expect(troupe_timer_stop((troupe_timer){77}), TROUPE_NOT_FOUND, "the timer has ended before");
}

static troupe_status spawned(troupe_actor actor)
{
    return troupe_actor_status(actor);
}

static void test_spawning(void **state)
{
    (void)state;
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    troupe_bytes none = {0};
    static const struct {
        troupe_spawn_options how;
        troupe_status status;
        const char *words;
    } rows[] = {
        {{.place = (troupe_place)77}, TROUPE_INVALID, ".place of an actor is 77"},
        {{.get_if_exists = true}, TROUPE_INVALID, ".get_if_exists was asked for without a .name"},
        {{.restarts = -9}, TROUPE_INVALID, ".restarts is -9, expected a count"},
        {{.restarts = 65, .restart_window_ms = 9}, TROUPE_INVALID, "within a window expected at"},
        {{.save_every = 2}, TROUPE_INVALID, ".save_every of an actor of class 'clerk' needs"},
        {{.groups = "io=0"}, TROUPE_INVALID, ".groups: expected a name, '=' and 1 to"},
        {{.groups = "io"}, TROUPE_INVALID, ".groups: expected a name, '=' and 1 to"},
        {{.groups = "io=1,"}, TROUPE_INVALID, "nothing follows the last comma"},
        {{.groups = "io=1,io=2"}, TROUPE_INVALID, "'io' is given twice"},
        {{.groups = "disk=1"}, TROUPE_INVALID, "has no method of the group 'disk'"},
        {{.cpus = -1}, TROUPE_INVALID, "expected 0, or a number from 0.0001"},
        {{.resources = "chisel"}, TROUPE_INVALID, "expected names and numbers like"},
        {{.env = "no pair"}, TROUPE_INVALID, "expected lines of the form KEY=VALUE"},
        {{.env = "A=1", .place = TROUPE_PLACE_HERE}, TROUPE_INVALID, ".env or .folder"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        troupe_spawn_options how = rows[i].how;
        how.size = sizeof how;
        expect(spawned(troupe_spawn_as(&troupe_class_clerk, NULL, &how)), rows[i].status,
               rows[i].words);
    }
    expect(spawned(troupe_spawn_named(NULL, none, NULL)), TROUPE_INVALID, "'class_name' is NULL");
    expect(spawned(troupe_spawn_named(name, none, NULL)), TROUPE_INVALID, "the name of a class is");
    expect(spawned(troupe_spawn_as(NULL, NULL, NULL)), TROUPE_INVALID, "no class was given");
    expect(troupe_node_join("nowhere"), TROUPE_INVALID, "is not an address of a node: expected");
    expect(troupe_node_join("nowhere:1"), TROUPE_INVALID, "was started without .listen");
    expect(spawned((troupe_actor){0}), TROUPE_INVALID, "the address is empty: it names no actor");
}

static void test_addresses(void **state)
{
    (void)state;
    troupe_actor found;
    clerk_actor actor = troupe_spawn(clerk, .name = "quill");
    troupe_must(troupe_actor_status(actor.address));
    expect(troupe_lookup_as(&troupe_class_guard, "quill", &found), TROUPE_WRONG_TYPE,
           "actor 'quill' is of class 'clerk', not 'guard'");
    expect(troupe_lookup_as(NULL, "nobody", &found), TROUPE_NOT_FOUND,
           "no actor has the name 'nobody'");
    expect(spawned(troupe_spawn(clerk, .name = "quill").address), TROUPE_EXISTS,
           "the name 'quill' is taken by an actor of process");
    expect(troupe_actor_retain(actor.address), TROUPE_NOT_EXECUTED,
           "cannot be retained: it has ended, or was not spawned");
    expect(troupe_actor_release(actor.address), TROUPE_INVALID, "is not retained here");
    expect(troupe_actor_restart(actor), TROUPE_UNSUPPORTED, "it was spawned without .restarts");
    troupe_ref_drop(troupe_call(actor, clerk_rest, 60000));
    expect(troupe_actor_stop(actor, 1), TROUPE_DEADLINE_EXCEEDED, "was ended by force");
}

// ---- calls and what they leave

static troupe_status fetch(troupe_ref ref)
{
    int out;
    return troupe_get(int, ref, &out, SUPPORT_SOON_MS);
}

static void test_calls(void **state)
{
    (void)state;
    int one = 1, out;
    clerk_actor actor = troupe_spawn(clerk);
    troupe_actor to = actor.address;
    troupe_bytes nowhere = {NULL, 5}, none = {0};
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    expect(fetch(troupe_call_as(to, &troupe_class_clerk, 99, &one)), TROUPE_INVALID,
           "methods, and number 99 was called");
    expect(fetch(troupe_call_named(to, NULL, none)), TROUPE_INVALID, "'method' is NULL");
    expect(fetch(troupe_call_named(to, name, none)), TROUPE_INVALID, "a method is too");
    expect(troupe_tell_named(to, "clerk_rest", nowhere), TROUPE_INVALID,
           "'args' are 5 bytes at NULL");
    expect(fetch(troupe_call(troupe_with(actor, .force_at_deadline = true), clerk_rest, 1)),
           TROUPE_INVALID, "force_at_deadline was asked for without a deadline");
    expect(fetch(troupe_call(actor, clerk_count, 1)), TROUPE_INVALID,
           "is a streaming method: open it with troupe_stream_open");
    troupe_ref gone = troupe_put(int, &one);
    troupe_ref_drop(gone);
    expect(fetch(gone), TROUPE_INVALID, "stale or foreign: there is no such object");
    expect(fetch(troupe_call(actor, clerk_post, 1, gone)), TROUPE_INVALID, "is stale");
    gone = troupe_call(actor, clerk_rest, 0);
    troupe_must(fetch(gone));
    expect(fetch(gone), TROUPE_INVALID, "it was consumed or dropped before");
    expect(troupe_cancel(gone), TROUPE_INVALID, "the reference is empty or stale");
    expect(fetch(troupe_call(actor, clerk_post, 1, gone)), TROUPE_INVALID, "is stale");
    troupe_ref object = troupe_put(int, &one);
    expect(troupe_cancel(object), TROUPE_INVALID, "the reference is to an object: only calls can");
    double half;
    expect(troupe_get(double, object, &half), TROUPE_WRONG_TYPE, "the reference is to");
    troupe_ref_drop(object);
    int wanted = *rests + 1;
    troupe_ref slow = troupe_call(actor, clerk_rest, 60000);
    support_await_counter(rests, wanted);
    expect(troupe_get(int, slow, &out, 1), TROUPE_TIMED_OUT,
           "was not ready in time; the reference stays valid");
    troupe_ref behind = troupe_call(actor, clerk_rest, 1);
    troupe_must(troupe_cancel(behind));
    expect(fetch(behind), TROUPE_CANCELLED, "the call was cancelled before it was run");
    troupe_must(troupe_cancel(slow));
    expect(fetch(slow), TROUPE_CANCELLED, "the call was cancelled while its method ran");
    assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
}

static void test_streams(void **state)
{
    (void)state;
    int out, one = 1;
    clerk_actor actor = troupe_spawn(clerk);
    troupe_stream stream = {0};
    expect(troupe_next(int, stream, &out), TROUPE_INVALID, "the stream is empty or stale");
    stream = troupe_stream_open_as(troupe_with(actor, .retries = 2).address, &troupe_class_clerk,
                                   troupe_method_clerk_count.index, &one);
    expect(troupe_next(int, stream, &out), TROUPE_INVALID, "cannot have .retries: what was read");
    stream = troupe_stream_open(actor, clerk_count, -1);
    expect(troupe_next(int, stream, &out), TROUPE_WRONG_TYPE, "yields values of type 'int', not");
    stream = troupe_stream_open(actor, clerk_count, 0);
    expect(troupe_next(int, stream, &out), TROUPE_INVALID, "which cannot defer its end");
    assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
}

static void test_many_at_once(void **state)
{
    (void)state;
    int value = 1, numbers[] = {1, 2};
    size_t count;
    bool ready[2];
    troupe_ref gone[2] = {{0}}, taken;
    clerk_actor actor = troupe_spawn(clerk);
    expect(troupe_wait(gone, 2, 3, 1, ready, &count), TROUPE_INVALID, "3 of 2 references cannot");
    troupe_ref_set *set;
    void *tag;
    troupe_must(troupe_ref_set_open(&set));
    expect(troupe_ref_set_next(set, 1, &taken, &tag), TROUPE_NOT_FOUND,
           "has no references any more");
    troupe_ref slow = troupe_call(actor, clerk_rest, 60000);
    troupe_must(troupe_ref_set_add(set, slow, NULL));
    expect(troupe_ref_set_next(set, 1, &taken, &tag), TROUPE_TIMED_OUT, "was ready in time");
    troupe_ref_set_close(set);
    troupe_pool *pool;
    expect(troupe_pool_open(clerk, &pool, .actors = &actor.address, .actor_count = 1, .count = 2),
           TROUPE_INVALID, "was given .actors together with .count or .spawn");
    expect(troupe_pool_open(clerk, &pool, .actor_count = 2), TROUPE_INVALID, "2 actors at NULL");
    troupe_spawn_options named = {.size = sizeof named, .name = "all"};
    expect(troupe_pool_open(clerk, &pool, .spawn = &named), TROUPE_INVALID,
           "the actors of a pool cannot all be named 'all'");
    troupe_map *map = troupe_run_map(defer_in_a_task, numbers, 0);
    expect(troupe_map_next(int, map, &value, NULL), TROUPE_END, "results of the map were fetched");
    troupe_map_close(map);
    assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
}

static void test_queues(void **state)
{
    (void)state;
    int value = 1;
    size_t count;
    troupe_queue queue = troupe_queue_open_as(&troupe_type_letter, NULL);
    letter one = {0};
    expect(troupe_queue_put_as(&troupe_type_letter, queue, &one, 1, NULL, TROUPE_POLL),
           TROUPE_UNSUPPORTED, "hold references, which a queue cannot keep");
    queue = troupe_queue_open(int);
    expect(troupe_queue_get_as(&troupe_type_int, queue, &value, 0, &count, TROUPE_POLL),
           TROUPE_INVALID, "0 values were asked of a queue");
    troupe_must(troupe_queue_close(queue));
    expect(troupe_queue_put_as(&troupe_type_int, queue, &value, 1, NULL, TROUPE_POLL),
           TROUPE_STOPPED, "the queue was closed");
}

static void test_objects(void **state)
{
    (void)state;
    int one = 1;
    troupe_ref ref;
    troupe_buffer buffer;
    troupe_view view;
    troupe_must(troupe_buffer_create(8, &buffer));
    troupe_buffer_discard(&buffer);
    expect(troupe_buffer_seal(&buffer, &ref), TROUPE_INVALID, "was sealed or discarded before");
    expect(troupe_buffer_create(SIZE_MAX / 2, &buffer), TROUPE_TOO_LARGE, "can never fit");
    ref = troupe_put(int, &one);
    expect(troupe_view_bytes(ref, &view, 0), TROUPE_WRONG_TYPE,
           "value of type 'int', not 'troupe_bytes'");
    troupe_ref_drop(ref);
}

// ---- classes, supervisors

static void test_classes(void **state)
{
    (void)state;
    troupe_class odd = troupe_class_clerk;
    odd.name = NULL;
    expect(troupe_class_register(&odd), TROUPE_INVALID, "a class has no name");
    expect(troupe_class_register(NULL), TROUPE_INVALID, "no class was given");
    odd = troupe_class_clerk;
    odd.method_count = 1 << 20;
    expect(troupe_class_register(&odd), TROUPE_INVALID, "has 1048576 methods, the limit is");
    odd = troupe_class_clerk;
    odd.method_count = 1;
    expect(troupe_class_register(&odd), TROUPE_EXISTS, "another class 'clerk' with other methods");
    expect(troupe_state_register(&troupe_class_clerk, NULL), TROUPE_INVALID, "is NULL");
}

static void test_supervisors(void **state)
{
    (void)state;
    const troupe_child bad = TROUPE_CHILD(clerk, .restart = (troupe_child_restart)7);
    const troupe_child good = TROUPE_CHILD(clerk);
    expect(spawned(troupe_supervisor_start(&bad, 1).address), TROUPE_INVALID,
           ".restart of a child is 7");
    expect(spawned(troupe_supervisor_start(NULL, 3).address), TROUPE_INVALID,
           "3 'children' were given as");
    expect(spawned(troupe_supervisor_start(&good, 1, .strategy = (troupe_strategy)9).address),
           TROUPE_INVALID, ".strategy of a supervisor is 9");
    expect(spawned(troupe_supervisor_start(&good, 1, .restarts = 999).address), TROUPE_INVALID,
           ".restarts of a supervisor is 999");
    int out, five = 5;
    expect(troupe_get(int, troupe_run_from(defer_in_a_task, &five, .retries = -7), &out),
           TROUPE_INVALID, "a task cannot have -7 retries");
    expect(troupe_get(int, troupe_run_from(defer_in_a_task, &five, .place = (troupe_place)9), &out),
           TROUPE_INVALID, ".place of a task is 9");
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

// What troupe_start itself refuses; it can be called again.
static void test_starting(void **state)
{
    (void)state;
    char path[300];
    memset(path, 'p', sizeof path - 1);
    path[0] = '/', path[sizeof path - 1] = '\0';
    expect(troupe_start(0, NULL, .resources = "chisel=x"), TROUPE_INVALID, "expected names and");
    expect(troupe_start(0, NULL, .directory = path, .transport = TROUPE_TRANSPORT_IPC),
           TROUPE_INVALID, "is too long for unix sockets");
    expect(troupe_start(0, NULL, .store_bytes_max = 1), TROUPE_INVALID,
           ".store_bytes_max of troupe_start is 1");
    expect(troupe_node_join("nowhere:1"), TROUPE_NOT_STARTED, "troupe_start");
    const char *before = getenv("TROUPE_TRANSPORT");
    char *kept = before != NULL ? strdup(before) : NULL;
    assert_int_equal(setenv("TROUPE_TRANSPORT", "pigeon", 1), 0);
    expect(troupe_start(0, NULL), TROUPE_INVALID, "the variable TROUPE_TRANSPORT is 'pigeon'");
    assert_int_equal(
        kept != NULL ? setenv("TROUPE_TRANSPORT", kept, 1) : unsetenv("TROUPE_TRANSPORT"), 0);
    free(kept);
    expect(troupe_keys_make("/dev/null"), TROUPE_EXISTS, "exists; keys are made in a new file");
    expect(troupe_start(0, NULL, .trace = "/nowhere/at/all"), TROUPE_IO, "could not be made");
}

int main(void)
{
    rests = support_share(sizeof *rests);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starting),
        cmocka_unit_test_setup(test_inside_methods, set_up),
        cmocka_unit_test(test_outside_methods),
        cmocka_unit_test(test_spawning),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_queues),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_classes),
        cmocka_unit_test_teardown(test_supervisors, stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
