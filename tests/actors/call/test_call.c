// test_call.c: calls and tells to actors here, in a pool worker, and in a process of their own.
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/life.h>
#include <unistd.h>

TROUPE_STRUCT(point, (double, x), (double, y));
TROUPE_STRUCT(parcel, (troupe_text, label), (troupe_array_point, points),
              (troupe_array_double, weights), (double, fixed, 3), (troupe_bytes, blob),
              (bool, urgent));
TROUPE_STRUCT(fault, (int, status), (troupe_text, text));
TROUPE_STRUCT(hold_up, (int, number), (int, ms));

// Shared with the worker processes: which of those that hold have begun, by number, and whether
// they may go on.
static struct {
    _Atomic bool begun[PLACES], open;
} * shared;

typedef struct ledger {
    int64_t total, count, last, disorder;
} ledger;

static troupe_status ledger_add(ledger *self, const int64_t *amount, int64_t *total)
{
    self->total += *amount;
    self->count++;
    *total = self->total;
    return TROUPE_OK;
}

// Takes numbers that must rise by one.
static troupe_status ledger_next(ledger *self, const int64_t *number, troupe_none *nothing)
{
    (void)nothing;
    if (*number != self->last + 1)
        self->disorder++;
    self->last = *number;
    return TROUPE_OK;
}

static troupe_status ledger_disorder(ledger *self, const troupe_none *nothing, int64_t *disorder)
{
    (void)nothing;
    *disorder = self->disorder;
    return TROUPE_OK;
}

static troupe_status ledger_last(ledger *self, const troupe_none *nothing, int64_t *last)
{
    (void)nothing;
    *last = self->last;
    return TROUPE_OK;
}

static troupe_status ledger_process(ledger *self, const troupe_none *nothing, int *process)
{
    (void)self, (void)nothing;
    *process = getpid();
    return TROUPE_OK;
}

// Returns the parcel with what was in it doubled.
static troupe_status ledger_double(ledger *self, const parcel *in, parcel *out)
{
    (void)self;
    *out = *in;
    point *points = troupe_arena_alloc(in->points.count * sizeof *points);
    double *weights = troupe_arena_alloc(in->weights.count * sizeof *weights);
    for (size_t i = 0; i < in->points.count; i++)
        points[i] = (point){2 * in->points.items[i].x, 2 * in->points.items[i].y};
    for (size_t i = 0; i < in->weights.count; i++)
        weights[i] = 2 * in->weights.items[i];
    out->points.items = points;
    out->weights.items = weights;
    for (int i = 0; i < 3; i++)
        out->fixed[i] *= 2;
    out->urgent = !in->urgent;
    return TROUPE_OK;
}

static troupe_status ledger_fail(ledger *self, const fault *what, int64_t *never)
{
    (void)self, (void)never;
    if (what->text != NULL)
        return troupe_fail((troupe_status)what->status, "%s", what->text);
    return (troupe_status)what->status;
}

static troupe_status ledger_rest(ledger *self, const int *milliseconds, int *slept)
{
    (void)self;
    usleep((unsigned)*milliseconds * 1000);
    *slept = *milliseconds;
    return TROUPE_OK;
}

// Until all may go on, and so long beyond that.
static troupe_status ledger_hold(ledger *self, const hold_up *how, int *out)
{
    (void)self;
    shared->begun[how->number] = true;
    while (!shared->open)
        usleep(500);
    usleep((unsigned)how->ms * 1000);
    *out = how->number;
    return TROUPE_OK;
}

static troupe_status ledger_echo(ledger *self, const troupe_bytes *in, troupe_bytes *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}

TROUPE_ACTOR(ledger, (ledger_add, int64_t, int64_t), (ledger_next, int64_t, troupe_none),
             (ledger_disorder, troupe_none, int64_t), (ledger_last, troupe_none, int64_t),
             (ledger_process, troupe_none, int), (ledger_double, parcel, parcel),
             (ledger_fail, fault, int64_t), (ledger_rest, int, int),
             (ledger_echo, troupe_bytes, troupe_bytes), (ledger_hold, hold_up, int));

typedef struct stranger {
    int nothing;
} stranger;
static troupe_status stranger_meet(stranger *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}
TROUPE_ACTOR(stranger, (stranger_meet, int, int));

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    return troupe_start(0, NULL, .workers = 2, .threads = 2, .message_bytes_max = 8 << 20) ==
                   TROUPE_OK
               ? 0
               : -1;
}

static void test_calls_and_tells(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn(ledger, .place = places[p]);
        int64_t total = 0;
        int process = 0;
        for (int64_t i = 1; i < 10; i++)
            assert_int_equal(troupe_tell(actor, ledger_add, i), TROUPE_OK);
        troupe_must(troupe_get(int64_t, troupe_call(actor, ledger_add, 10), &total));
        assert_int_equal(total, 55);
        troupe_must(troupe_get(int, troupe_call(actor, ledger_process), &process));
        assert_int_equal(process == getpid(), places[p] == TROUPE_PLACE_HERE);
        assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
        troupe_actor_kill(actor);
    }
}

static void test_order(void **state)
{
    (void)state;
    enum { MESSAGES = 20000 };
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn(ledger, .place = places[p]);
        int64_t last = 0, disorder = -1;
        for (int64_t i = 1; i <= MESSAGES; i++)
            assert_int_equal(troupe_tell(actor, ledger_next, i), TROUPE_OK);
        troupe_must(troupe_get(int64_t, troupe_call(actor, ledger_last), &last));
        troupe_must(troupe_get(int64_t, troupe_call(actor, ledger_disorder), &disorder));
        assert_int_equal(last, MESSAGES);
        assert_int_equal(disorder, 0);
        troupe_actor_kill(actor);
    }
}

static void test_arguments_are_copied(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn(ledger, .place = places[p]);
        char label[] = "first";
        point points[] = {{1, 2}, {3, 4}};
        double weights[] = {0.5, 1.5, 2.5};
        unsigned char blob[] = {0, 1, 255};
        parcel in = {.label = label,
                     .points = {points, 2},
                     .weights = {weights, 3},
                     .fixed = {1, 2, 3},
                     .blob = {blob, sizeof blob},
                     .urgent = true};
        troupe_ref refs[2];
        int rest = 20;
        assert_int_equal(troupe_tell_from(actor, ledger_rest, &rest), TROUPE_OK);
        refs[0] = troupe_call_from(actor, ledger_double, &in);
        memset(label, 'x', 5);
        memset(points, 0, sizeof points);
        memset(weights, 0, sizeof weights);
        memset(blob, 7, sizeof blob);
        in.fixed[0] = 99;
        refs[1] = troupe_call_from(actor, ledger_double, &in);

        parcel out;
        troupe_must(troupe_get(parcel, refs[0], &out));
        assert_string_equal(out.label, "first");
        assert_int_equal(out.points.count, 2);
        assert_true(out.points.items[1].y == 8 && out.points.items[0].x == 2);
        assert_true(out.weights.items[2] == 5 && out.weights.count == 3);
        assert_true(out.fixed[0] == 2 && out.fixed[2] == 6);
        assert_memory_equal(out.blob.data, ((unsigned char[]){0, 1, 255}), 3);
        assert_false(out.urgent);
        troupe_must(troupe_get(parcel, refs[1], &out));
        assert_string_equal(out.label, "xxxxx");
        assert_true(out.fixed[0] == 198);
        troupe_actor_kill(actor);
        troupe_arena_reset();
    }
}

static void test_large_values(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    static unsigned char data[SIZE];
    for (int i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    troupe_store_usage before, after;
    troupe_must(troupe_store_usage_get(&before));
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn(ledger, .place = places[p]);
        for (int i = 0; i < 3; i++) {
            troupe_bytes in = {data, (size_t)(SIZE - i)}, out;
            troupe_must(troupe_get(troupe_bytes, troupe_call_from(actor, ledger_echo, &in), &out));
            assert_int_equal(out.size, in.size);
            assert_memory_equal(out.data, data, out.size);
            troupe_arena_reset();
        }
        troupe_ref dropped = troupe_call(actor, ledger_echo, data, SIZE);
        troupe_ref_drop(dropped);
        int64_t total;
        troupe_must(troupe_get(int64_t, troupe_call(actor, ledger_add, 0), &total));
        troupe_actor_kill(actor);
    }
    troupe_must(troupe_store_usage_get(&after));
    assert_int_equal(after.objects, before.objects);
}

static void test_too_large(void **state)
{
    (void)state;
    enum { SIZE = 9 << 20 };
    void *data = test_calloc(1, SIZE);
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn(ledger, .place = places[p]);
        troupe_bytes in = {data, SIZE}, out;
        assert_int_equal(troupe_get(troupe_bytes, troupe_call_from(actor, ledger_echo, &in), &out),
                         TROUPE_TOO_LARGE);
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "message_bytes_max"));
        assert_int_equal(troupe_tell_from(actor, ledger_echo, &in), TROUPE_TOO_LARGE);
        troupe_actor_kill(actor);
    }
    test_free(data);
}

static void test_failures(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn(ledger, .place = places[p]);
        int64_t never;
        int process;
        troupe_must(troupe_get(int, troupe_call(actor, ledger_process), &process));
        troupe_ref ref = troupe_call(actor, ledger_fail, TROUPE_INVALID, "rate is -1");
        assert_int_equal(troupe_get(int64_t, ref, &never), TROUPE_INVALID);
        const troupe_error *error = troupe_last_error();
        assert_string_equal(error->text, "rate is -1");
        assert_int_equal(error->outcome, TROUPE_OUTCOME_FAILED);
        assert_int_equal(error->executed, TROUPE_EXECUTED_YES);
        assert_int_equal(error->process, process);
        assert_int_equal(strncmp(error->actor, "ledger#", 7), 0);
        assert_true(error->node[0] != '\0');

        // Without a text of its own: the general sentence, not one from another failure.
        (void)troupe_fail(TROUPE_NO_SPACE, "older");
        ref = troupe_call(actor, ledger_fail, TROUPE_NO_SPACE, NULL);
        assert_int_equal(troupe_get(int64_t, ref, &never), TROUPE_NO_SPACE);
        assert_string_equal(troupe_last_error()->text, troupe_strerror(TROUPE_NO_SPACE));

        // A status that would be taken for something else.
        ref = troupe_call(actor, ledger_fail, TROUPE_TIMED_OUT, NULL);
        assert_int_equal(troupe_get(int64_t, ref, &never), TROUPE_FAILED);
        ref = troupe_call(actor, ledger_fail, 4711, NULL);
        assert_int_equal(troupe_get(int64_t, ref, &never), TROUPE_FAILED);
        troupe_actor_kill(actor);
    }
}

// Of calls to all places at once. False: on a busy machine some had not begun by then.
static bool deadlines_pass(const ledger_actor actors[PLACES], int ms)
{
    troupe_ref first[PLACES], second[PLACES];
    int out;
    int64_t total;
    bool all_begun = true;
    memset((void *)shared, 0, sizeof *shared);
    // The one that runs cannot be answered in time, the one behind it cannot even be run.
    for (int p = 0; p < PLACES; p++) {
        ledger_actor hasty = troupe_with(actors[p], .deadline_ms = (uint32_t)ms);
        first[p] = troupe_call(hasty, ledger_hold, .number = p, .ms = 2 * ms);
        hasty = troupe_with(actors[p], .deadline_ms = (uint32_t)ms + 10);
        second[p] = troupe_call(hasty, ledger_add, 1);
    }
    for (int p = 0; p < PLACES; p++) {
        assert_int_equal(troupe_get(int, first[p], &out), TROUPE_DEADLINE_EXCEEDED);
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_DEADLINE_EXCEEDED);
        if (!shared->begun[p])
            all_begun = false;
        else
            assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
        assert_int_equal(troupe_get(int64_t, second[p], &total), TROUPE_DEADLINE_EXCEEDED);
        assert_int_equal(troupe_last_error()->executed, places[p] == TROUPE_PLACE_HERE
                                                            ? TROUPE_EXECUTED_NO
                                                            : TROUPE_EXECUTED_MAYBE);
    }
    shared->open = true;
    return all_begun;
}

static void test_deadlines(void **state)
{
    (void)state;
    ledger_actor actors[PLACES];
    int64_t total;
    for (int ms = 400, passed = 0; passed == 0; ms *= 2) {
        assert_true(ms < SUPPORT_SOON_MS);
        for (int p = 0; p < PLACES; p++) {
            actors[p] = troupe_spawn(ledger, .place = places[p]);
            troupe_must(troupe_actor_status(actors[p].address));
        }
        passed = deadlines_pass(actors, ms);
        for (int p = 0; p < PLACES && passed == 0; p++)
            troupe_must(troupe_actor_stop(actors[p]));
    }
    for (int p = 0; p < PLACES; p++) {
        // It was dropped: the total is that of the next one alone.
        troupe_must(troupe_get(int64_t, troupe_call(actors[p], ledger_add, 5), &total));
        assert_int_equal(total, 5);
        // In time.
        troupe_must(troupe_get(
            int64_t, troupe_call(troupe_with(actors[p], .deadline_ms = 5000), ledger_add, 1),
            &total));
        assert_int_equal(total, 6);
        troupe_actor_kill(actors[p]);
    }
}

static void test_wrong_addresses(void **state)
{
    (void)state;
    int64_t total;
    ledger_actor none = {0};
    assert_int_equal(troupe_get(int64_t, troupe_call(none, ledger_add, 1), &total), TROUPE_INVALID);
    assert_int_equal(troupe_tell(none, ledger_add, 1), TROUPE_INVALID);
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn(ledger, .place = places[p]);
        ledger_actor wrong = actor;
        wrong.address.id += 1000;
        assert_int_equal(troupe_get(int64_t, troupe_call(wrong, ledger_add, 1), &total),
                         TROUPE_NOT_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "never existed"));
        wrong = actor;
        wrong.address.incarnation++; // A process that is no more.
        assert_int_equal(troupe_get(int64_t, troupe_call(wrong, ledger_add, 1), &total),
                         TROUPE_NOT_EXECUTED);
        wrong = actor;
        wrong.address.process = 4000000;
        assert_int_equal(troupe_get(int64_t, troupe_call(wrong, ledger_add, 1), &total),
                         TROUPE_INVALID);
        // A method of another class.
        int out;
        stranger_actor masked = {actor.address};
        assert_int_equal(troupe_get(int, troupe_call(masked, stranger_meet, 1), &out),
                         TROUPE_WRONG_TYPE);
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
        troupe_must(troupe_get(int64_t, troupe_call(actor, ledger_add, 1), &total));
        assert_int_equal(total, 1);
        troupe_actor_kill(actor);
    }
}

enum { SENDERS = 8, SENT = 500 };

static void *send_many(void *user)
{
    const ledger_actor *actors = user;
    int64_t total;
    for (int i = 0; i < SENT; i++) {
        ledger_actor actor = actors[i % PLACES];
        if (i % 2 == 0)
            troupe_must(troupe_tell(actor, ledger_add, 1));
        else
            troupe_must(troupe_get(int64_t, troupe_call(actor, ledger_add, 1), &total));
    }
    return NULL;
}

static void test_many_senders(void **state)
{
    (void)state;
    ledger_actor actors[PLACES];
    pthread_t threads[SENDERS];
    for (int p = 0; p < PLACES; p++)
        actors[p] = troupe_spawn(ledger, .place = places[p]);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, actors), 0);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    int64_t total, sum = 0;
    for (int p = 0; p < PLACES; p++) {
        troupe_must(troupe_get(int64_t, troupe_call(actors[p], ledger_add, 0), &total));
        sum += total;
        troupe_actor_kill(actors[p]);
    }
    assert_int_equal(sum, SENDERS * SENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_and_tells),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_arguments_are_copied),
        cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_wrong_addresses),
        cmocka_unit_test(test_many_senders),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
