// test_scheduler.c: methods that wait: they are replaced by other threads, up to a limit, waits
// that cannot end are refused, and full mailboxes push back.
// label: local
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <unistd.h>

enum { THREADS = 2, LONG_MS = 20000 };

TROUPE_STRUCT(chain, (troupe_array_troupe_actor, actors), (int, timeout_ms));

typedef struct node {
    int64_t count;
} node;

// A gate that methods wait at, in whatever process.
static struct gate {
    sem_t open;
    _Atomic int waiting;
} * gate;

static troupe_status node_pass(node *self, const int *in, int *out)
{
    (void)self;
    gate->waiting++;
    sem_wait(&gate->open);
    *out = *in;
    return TROUPE_OK;
}

static troupe_status node_add(node *self, const int64_t *in, int64_t *out)
{
    *out = self->count += *in;
    return TROUPE_OK;
}

static troupe_status node_follow(node *self, const chain *in, int64_t *out);
static troupe_status node_flood(node *self, const troupe_actor *in, int64_t *out);
static troupe_status node_wait_all(node *self, const troupe_array_troupe_ref *in, int64_t *out);

static troupe_status node_ask(node *self, const troupe_actor *in, int64_t *out);
static troupe_status node_lean(node *self, const troupe_actor *in, int *out);
static troupe_status node_add_at(node *self, const troupe_actor *in, int64_t *out);

TROUPE_ACTOR(node, (node_ask, troupe_actor, int64_t), (node_pass, int, int),
             (node_add, int64_t, int64_t), (node_follow, chain, int64_t),
             (node_flood, troupe_actor, int64_t), (node_wait_all, troupe_array_troupe_ref, int64_t),
             (node_lean, troupe_actor, int), (node_add_at, troupe_actor, int64_t));

// Waits for an actor that passes the gate.
static troupe_status node_lean(node *self, const troupe_actor *in, int *out)
{
    (void)self;
    node_actor other = {*in};
    return troupe_get(int, troupe_call(other, node_pass, 5), out);
}

static troupe_status node_add_at(node *self, const troupe_actor *in, int64_t *out)
{
    (void)self;
    node_actor other = {*in};
    return troupe_get(int64_t, troupe_call(other, node_add, 1), out);
}

// Waits for a call to another actor that has more to do behind it, which only this method lets it
// do.
static troupe_status node_ask(node *self, const troupe_actor *in, int64_t *out)
{
    node_actor other = {*in};
    char *kept = troupe_arena_text("of this call");
    troupe_status mine = troupe_fail(TROUPE_NOT_FOUND, "an error of my own");
    troupe_ref sum = troupe_call(other, node_add, self->count);
    troupe_ref behind = troupe_call(other, node_pass, 7);
    TROUPE_TRY(troupe_get(int64_t, sum, out));
    sem_post(&gate->open);
    int passed;
    TROUPE_TRY(troupe_get(int, behind, &passed));
    bool same = troupe_last_error()->status == mine && troupe_self().id != in->id &&
                strcmp(troupe_last_error()->text, "an error of my own") == 0 &&
                strcmp(kept, "of this call") == 0 && passed == 7;
    return same ? TROUPE_OK : TROUPE_FAILED;
}

// Calls the first of a chain with the rest of it, and waits.
static troupe_status node_follow(node *self, const chain *in, int64_t *out)
{
    (void)self;
    *out = 1;
    if (in->actors.count == 0)
        return TROUPE_OK;
    node_actor next = {in->actors.items[0]};
    chain rest = {{in->actors.items + 1, in->actors.count - 1}, in->timeout_ms};
    int timeout_ms = in->timeout_ms != 0 ? in->timeout_ms : TROUPE_FOREVER;
    int64_t below;
    TROUPE_TRY(troupe_get(int64_t, troupe_call_from(next, node_follow, &rest), &below, timeout_ms));
    *out = below + 1;
    return TROUPE_OK;
}

// Tells until that fails.
static troupe_status node_flood(node *self, const troupe_actor *in, int64_t *out)
{
    (void)self;
    node_actor target = {*in};
    for (*out = 0; *out < 100000; ++*out)
        TROUPE_TRY(troupe_tell(target, node_add, 1));
    return TROUPE_OK;
}

static troupe_status node_wait_all(node *self, const troupe_array_troupe_ref *in, int64_t *out)
{
    (void)self;
    size_t ready;
    TROUPE_TRY(troupe_wait(in->items, in->count, in->count, LONG_MS, NULL, &ready));
    *out = (int64_t)ready;
    return TROUPE_OK;
}

// An actor whose init calls the one that spawns it.
typedef struct child {
    int nothing;
} child;
static const troupe_class *class_of_child;
static troupe_status child_init(child *self, const troupe_actor *parent)
{
    (void)self;
    int total;
    return parent->id == 0 // The first has no parent.
               ? TROUPE_OK
               : troupe_get(int, troupe_call_as(*parent, class_of_child, 1, &(troupe_none){0}),
                            &total);
}
static void child_deinit(child *self)
{
    self->nothing = 0;
}
static troupe_status child_spawn(child *self, const troupe_none *nothing, int *out);
static troupe_status child_age(child *self, const troupe_none *nothing, int *out)
{
    (void)nothing;
    *out = self->nothing;
    return TROUPE_OK;
}
TROUPE_ACTOR_INIT(child, (child_init, troupe_actor), child_deinit, (child_spawn, troupe_none, int),
                  (child_age, troupe_none, int));

static troupe_status child_spawn(child *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing;
    troupe_actor me = troupe_self();
    child_actor young = troupe_spawn_from(child, &me, .place = TROUPE_PLACE_HERE);
    *out = 0;
    return troupe_actor_status(young.address);
}

static bool somebody_waits(void *user)
{
    return gate->waiting >= *(int *)user;
}

static int set_up(void **state)
{
    (void)state;
    gate = support_share(sizeof *gate);
    sem_init(&gate->open, 1, 0);
    return troupe_start(0, NULL, .workers = 1, .threads = THREADS) == TROUPE_OK ? 0 : -1;
}

static void test_deep_nesting(void **state)
{
    (void)state;
    enum { DEPTH = 60 };
    for (int p = 0; p < 2; p++) {
        troupe_actor actors[DEPTH];
        for (int i = 0; i < DEPTH; i++)
            actors[i] = troupe_spawn(node, .place = p == 0 || i % 2 == 0 ? TROUPE_PLACE_HERE
                                                                         : TROUPE_PLACE_WORKER)
                            .address;
        chain links = {.actors = {actors + 1, DEPTH - 1}};
        int64_t depth;
        troupe_must(troupe_get(
            int64_t, troupe_call_from((node_actor){actors[0]}, node_follow, &links), &depth));
        assert_int_equal(depth, DEPTH);
    }
}

static void test_too_many_wait(void **state)
{
    (void)state;
    enum { TOO_MANY = 400 };
    troupe_actor *actors = calloc(TOO_MANY, sizeof *actors);
    for (int i = 0; i < TOO_MANY; i++)
        actors[i] = troupe_spawn(node, .place = TROUPE_PLACE_HERE).address;
    // Waits that can end before the answer comes take a thread each.
    chain links = {.actors = {actors + 1, TOO_MANY - 1}, .timeout_ms = 60000};
    int64_t depth;
    assert_int_equal(
        troupe_get(int64_t, troupe_call_from((node_actor){actors[0]}, node_follow, &links), &depth),
        TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, "256"));
    // All of them work again.
    links.actors.count = 100;
    troupe_must(troupe_get(int64_t, troupe_call_from((node_actor){actors[0]}, node_follow, &links),
                           &depth));
    assert_int_equal(depth, 101);
    free(actors);
}

// Who waits for an actor that would run next runs it on his own stack, and no further than to his
// answer.
static void test_help(void **state)
{
    (void)state;
    node_actor asker = troupe_spawn(node, .place = TROUPE_PLACE_HERE);
    node_actor other = troupe_spawn(node, .place = TROUPE_PLACE_HERE);
    int64_t sum;
    for (int64_t i = 1; i <= 100; i++) {
        troupe_must(troupe_tell(asker, node_add, 1));
        troupe_must(troupe_get(int64_t, troupe_call_from(asker, node_ask, &other.address), &sum));
        assert_int_equal(sum, i * (i + 1) / 2);
    }
    troupe_actor_kill(asker);
    troupe_actor_kill(other);
}

// What has come for that actor meanwhile and needs who waits is not run on top of him.
static void test_help_ends_with_the_answer(void **state)
{
    (void)state;
    node_actor leaner = troupe_spawn(node, .place = TROUPE_PLACE_HERE);
    node_actor other = troupe_spawn(node, .place = TROUPE_PLACE_HERE);
    for (int64_t i = 1; i <= 20; i++) {
        int wanted = gate->waiting + 1, passed;
        int64_t sum;
        troupe_ref leans = troupe_call_from(leaner, node_lean, &other.address);
        assert_true(support_wait_until(somebody_waits, &wanted, SUPPORT_SOON_MS));
        troupe_ref late = troupe_call_from(other, node_add_at, &leaner.address);
        sem_post(&gate->open);
        troupe_must(troupe_get(int64_t, late, &sum));
        assert_int_equal(sum, i);
        troupe_must(troupe_get(int, leans, &passed));
    }
    troupe_actor_kill(leaner);
    troupe_actor_kill(other);
}

static sem_t put_off, may_defer, deferred;
static troupe_deferred owed;

typedef struct porter {
    int count;
} porter;

// Defers its answer when it may.
static troupe_status porter_put_off(porter *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing, (void)out;
    sem_post(&put_off);
    sem_wait(&may_defer);
    troupe_deferred later = troupe_defer();
    troupe_status status = later.id_ != 0 ? TROUPE_OK : troupe_last_error()->status;
    owed = later;
    sem_post(&deferred); // From now on it is the test's.
    return status;
}

static troupe_status porter_count(porter *self, const troupe_none *nothing, int *out)
{
    (void)nothing;
    *out = ++self->count;
    return TROUPE_OK;
}

static troupe_status porter_lean(porter *self, const troupe_actor *on, int *out);
static troupe_status porter_count_at(porter *self, const troupe_actor *at, int *out);

TROUPE_ACTOR(porter, (porter_put_off, troupe_none, int), (porter_count, troupe_none, int),
             (porter_lean, troupe_actor, int), (porter_count_at, troupe_actor, int));

static troupe_status porter_lean(porter *self, const troupe_actor *on, int *out)
{
    (void)self;
    return troupe_get(int, troupe_call((porter_actor){*on}, porter_put_off), out);
}

static troupe_status porter_count_at(porter *self, const troupe_actor *at, int *out)
{
    (void)self;
    return troupe_get(int, troupe_call((porter_actor){*at}, porter_count), out);
}

// Who has put an answer off can wait for who waits for it: that wait needs no turn of his.
static void test_a_deferring_actor_may_wait_for_a_waiting_one(void **state)
{
    (void)state;
    sem_init(&put_off, 0, 0);
    sem_init(&may_defer, 0, 0);
    sem_init(&deferred, 0, 0);
    porter_actor leaner = troupe_spawn(porter, .place = TROUPE_PLACE_HERE);
    porter_actor other = troupe_spawn(porter, .place = TROUPE_PLACE_HERE);
    for (int i = 1; i <= 20; i++) {
        int value, given = 10 + i;
        troupe_ref leans = troupe_call_from(leaner, porter_lean, &other.address);
        sem_wait(&put_off);
        troupe_ref late = troupe_call_from(other, porter_count_at, &leaner.address);
        sem_post(&may_defer);
        sem_wait(&deferred);
        troupe_must(troupe_deferred_fulfil(int, &owed, &given));
        troupe_must(troupe_get(int, leans, &value));
        assert_int_equal(value, given);
        troupe_must(troupe_get(int, late, &value));
        assert_int_equal(value, i);
    }
    troupe_actor_kill(leaner);
    troupe_actor_kill(other);
}

static void test_deadlocks(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        enum { RING = 200 };
        troupe_actor actors[RING + 1];
        int64_t depth;
        node_actor self = troupe_spawn(node, .place = places[p]);
        chain links = {.actors = {&self.address, 1}};
        assert_int_equal(troupe_get(int64_t, troupe_call_from(self, node_follow, &links), &depth),
                         TROUPE_DEADLOCK);
        // With a timeout it is none: the wait ends by itself.
        links.timeout_ms = 10;
        assert_int_equal(troupe_get(int64_t, troupe_call_from(self, node_follow, &links), &depth),
                         TROUPE_FAILED);
        if (places[p] == TROUPE_PLACE_ISOLATED)
            continue;
        for (int i = 0; i < RING; i++)
            actors[i] = troupe_spawn(node, .place = places[p]).address;
        actors[RING] = actors[0];
        links = (chain){.actors = {actors + 1, RING}};
        assert_int_equal(troupe_get(int64_t,
                                    troupe_call_from((node_actor){actors[0]}, node_follow, &links),
                                    &depth),
                         TROUPE_DEADLOCK);
        // The ring works on.
        links.actors.count = RING - 1;
        troupe_must(troupe_get(
            int64_t, troupe_call_from((node_actor){actors[0]}, node_follow, &links), &depth));
        assert_int_equal(depth, RING);
    }
}

static void test_init_that_waits_for_its_spawner(void **state)
{
    (void)state;
    class_of_child = &troupe_class_child;
    child_actor parent = troupe_spawn(child, .place = TROUPE_PLACE_HERE);
    int out;
    assert_int_equal(troupe_get(int, troupe_call(parent, child_spawn), &out), TROUPE_DEADLOCK);
    troupe_must(troupe_get(int, troupe_call(parent, child_age), &out));
}

static void test_waiting_for_many_inside(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    node_actor waiter = troupe_spawn(node, .place = TROUPE_PLACE_WORKER);
    node_actor here = troupe_spawn(node, .place = TROUPE_PLACE_HERE);
    troupe_ref refs[COUNT];
    for (int i = 0; i < COUNT; i++)
        refs[i] = troupe_call(here, node_add, 1);
    troupe_array_troupe_ref all = {refs, COUNT};
    int64_t ready;
    troupe_must(troupe_get(int64_t, troupe_call_from(waiter, node_wait_all, &all), &ready));
    assert_int_equal(ready, COUNT);
    for (int i = 0; i < COUNT; i++)
        troupe_ref_drop(refs[i]);
}

// An actor that stands at the gate, with `mailbox_max` messages behind it.
static node_actor make_full(uint32_t mailbox_max, troupe_ref *held)
{
    node_actor actor = troupe_spawn(node, .place = TROUPE_PLACE_HERE, .mailbox_max = mailbox_max);
    int wanted = gate->waiting + 1;
    *held = troupe_call(actor, node_pass, 1);
    assert_true(support_wait_until(somebody_waits, &wanted, SUPPORT_SOON_MS));
    for (uint32_t i = 0; i < mailbox_max; i++)
        assert_int_equal(troupe_tell(troupe_with(actor, .flags = TROUPE_CALL_NO_WAIT), node_add, 1),
                         TROUPE_OK);
    return actor;
}

static void *tell_one(void *user)
{
    troupe_must(troupe_tell(*(node_actor *)user, node_add, 10));
    return NULL;
}

static void test_full_mailbox(void **state)
{
    (void)state;
    int passed;
    int64_t total;
    troupe_ref held;
    node_actor actor = make_full(8, &held);
    node_actor hasty = troupe_with(actor, .flags = TROUPE_CALL_NO_WAIT);
    assert_int_equal(troupe_tell(hasty, node_add, 1), TROUPE_BUSY);
    assert_non_null(strstr(troupe_last_error()->text, "8 messages"));
    assert_int_equal(troupe_get(int64_t, troupe_call(hasty, node_add, 1), &total), TROUPE_BUSY);
    assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
    // A call's deadline ends the wait for room as well.
    assert_int_equal(troupe_get(int64_t,
                                troupe_call(troupe_with(actor, .deadline_ms = 30), node_add, 1),
                                &total),
                     TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
    // Others wait until there is room.
    pthread_t senders[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&senders[i], NULL, tell_one, &actor), 0);
    sem_post(&gate->open);
    for (int i = 0; i < 4; i++)
        pthread_join(senders[i], NULL);
    troupe_must(troupe_get(int, held, &passed));
    troupe_must(troupe_get(int64_t, troupe_call(actor, node_add, 0), &total));
    assert_int_equal(total, 8 + 40);
}

// Between processes a mailbox that is half full stops its senders, and lets them go on. The link's
// window may be full before, but not for long.
static troupe_status tell_until_full(node_actor actor, int64_t *sent)
{
    troupe_status status;
    int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
    do {
        status = troupe_tell(actor, node_add, 1);
        *sent += status == TROUPE_OK;
    } while (support_now_ms() < give_up &&
             (status == TROUPE_OK || strstr(troupe_last_error()->text, "mailbox") == NULL));
    return status;
}

static void test_full_window(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        node_actor actor = troupe_spawn(node, .place = TROUPE_PLACE_WORKER);
        node_actor hasty = troupe_with(actor, .flags = TROUPE_CALL_NO_WAIT);
        int wanted = gate->waiting + 1, passed;
        int64_t sent = 0, total;
        troupe_ref held = troupe_call(actor, node_pass, 1);
        assert_true(support_wait_until(somebody_waits, &wanted, SUPPORT_SOON_MS));
        assert_int_equal(tell_until_full(hasty, &sent), TROUPE_BUSY);
        assert_int_equal(troupe_get(int64_t, troupe_call(hasty, node_add, 1), &total), TROUPE_BUSY);
        assert_int_equal(troupe_get(int64_t,
                                    troupe_call(troupe_with(actor, .deadline_ms = 20), node_add, 1),
                                    &total),
                         TROUPE_DEADLINE_EXCEEDED);
        assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
        pthread_t sender;
        assert_int_equal(pthread_create(&sender, NULL, tell_one, &actor), 0);
        sem_post(&gate->open);
        pthread_join(sender, NULL);
        troupe_must(troupe_get(int, held, &passed));
        troupe_must(troupe_get(int64_t, troupe_call(actor, node_add, 0), &total));
        assert_int_equal(total, sent + 10);
        troupe_actor_kill(actor);
    }
}

static void test_killing_a_full_actor_frees_its_senders(void **state)
{
    (void)state;
    int passed;
    troupe_ref held;
    node_actor actor = make_full(4, &held);
    node_actor flooder = troupe_spawn(node, .place = TROUPE_PLACE_HERE);
    troupe_ref flood = troupe_call_from(flooder, node_flood, &actor.address);
    int64_t sent;
    assert_int_equal(troupe_get(int64_t, flood, &sent, 50), TROUPE_TIMED_OUT);
    troupe_actor_kill(actor);
    assert_int_equal(troupe_get(int64_t, flood, &sent), TROUPE_FAILED); // It ran itself.
    sem_post(&gate->open);
    troupe_must(troupe_get(int, held, &passed));
}

static void test_own_full_mailbox(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        node_actor actor = troupe_spawn(node, .place = places[p], .mailbox_max = 100);
        int64_t sent;
        int64_t begin = support_now_ms();
        assert_int_equal(
            troupe_get(int64_t, troupe_call_from(actor, node_flood, &actor.address), &sent),
            TROUPE_BUSY);
        assert_true(support_now_ms() - begin < 5000);
        assert_non_null(strstr(troupe_last_error()->text, "only the sender itself"));
        troupe_must(troupe_get(int64_t, troupe_call(actor, node_add, 0), &sent));
        assert_int_equal(sent, 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_too_many_wait),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_help_ends_with_the_answer),
        cmocka_unit_test(test_a_deferring_actor_may_wait_for_a_waiting_one),
        cmocka_unit_test(test_deadlocks),
        cmocka_unit_test(test_init_that_waits_for_its_spawner),
        cmocka_unit_test(test_waiting_for_many_inside),
        cmocka_unit_test(test_full_mailbox),
        cmocka_unit_test(test_full_window),
        cmocka_unit_test(test_killing_a_full_actor_frees_its_senders),
        cmocka_unit_test(test_own_full_mailbox),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
