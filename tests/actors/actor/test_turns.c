// test_turns.c: the order of turns: work that waits behind a long turn is taken over, a pair that
// wakes each other starves no other, costly work is shared, what is left of a former actor's
// messages never reaches the next one, and a method that outlives the runtime ends its actor when
// it returns.
// label: alone
// label: local
#include <support.h>

#include <actors/actor/actor.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/actor.h>
#include <unistd.h>

static _Atomic int noted, wrong, ended;
static _Atomic bool enough;
static sem_t gate;

typedef struct worker {
    troupe_actor peer;
    int64_t count;
} worker;

static troupe_status worker_note(worker *self, const int *amount, int *out)
{
    self->count += *amount;
    noted += *amount;
    *out = (int)self->count;
    return TROUPE_OK;
}

static bool spin_until(int wanted)
{
    int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
    while (noted < wanted && support_now_ms() < give_up)
        ;
    return noted >= wanted;
}

static troupe_status worker_hog(worker *self, const troupe_array_troupe_actor *others, bool *out);
static troupe_status worker_hit(worker *self, const troupe_none *none, troupe_none *out);
static troupe_status worker_meet(worker *self, const troupe_actor *peer, troupe_none *out);
static troupe_status worker_stop(worker *self, const troupe_none *none, troupe_none *out);
static troupe_status worker_burn(worker *self, const troupe_none *none, troupe_none *out);
static troupe_status worker_check(worker *self, const uint64_t *id, troupe_none *out);
static troupe_status worker_wait(worker *self, const troupe_none *none, troupe_none *out);

static troupe_status worker_begin(worker *self, const troupe_none *none)
{
    (void)self, (void)none;
    return TROUPE_OK;
}

static void worker_end(worker *self)
{
    (void)self;
    ended++;
}

TROUPE_ACTOR_INIT(worker, (worker_begin, troupe_none), worker_end, (worker_note, int, int),
                  (worker_hog, troupe_array_troupe_actor, bool),
                  (worker_hit, troupe_none, troupe_none), (worker_meet, troupe_actor, troupe_none),
                  (worker_stop, troupe_none, troupe_none), (worker_burn, troupe_none, troupe_none),
                  (worker_check, uint64_t, troupe_none), (worker_wait, troupe_none, troupe_none));

// Tells others, and does not return before all of them have run.
static troupe_status worker_hog(worker *self, const troupe_array_troupe_actor *others, bool *out)
{
    (void)self;
    for (size_t i = 0; i < others->count; i++)
        TROUPE_TRY(troupe_tell((worker_actor){others->items[i]}, worker_note, 1));
    *out = spin_until((int)others->count);
    return TROUPE_OK;
}

static troupe_status worker_meet(worker *self, const troupe_actor *peer, troupe_none *out)
{
    (void)out;
    self->peer = *peer;
    return TROUPE_OK;
}

static troupe_status worker_hit(worker *self, const troupe_none *none, troupe_none *out)
{
    (void)none, (void)out;
    return enough ? TROUPE_OK : troupe_tell((worker_actor){self->peer}, worker_hit, 0);
}

static troupe_status worker_stop(worker *self, const troupe_none *none, troupe_none *out)
{
    (void)self, (void)none, (void)out;
    enough = true;
    return TROUPE_OK;
}

static pthread_t first_thread;
static _Atomic int threads_seen;

static troupe_status worker_burn(worker *self, const troupe_none *none, troupe_none *out)
{
    (void)self, (void)none, (void)out;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (threads_seen == 0) {
        first_thread = pthread_self();
        threads_seen = 1;
    } else if (!pthread_equal(first_thread, pthread_self())) {
        threads_seen = 2;
    }
    pthread_mutex_unlock(&lock);
    int64_t until = support_now_ms() + 1;
    while (support_now_ms() < until)
        ;
    noted++;
    return TROUPE_OK;
}

static troupe_status worker_check(worker *self, const uint64_t *id, troupe_none *out)
{
    (void)self, (void)out;
    if (troupe_self().id != *id)
        wrong++;
    return TROUPE_OK;
}

static troupe_status worker_wait(worker *self, const troupe_none *none, troupe_none *out)
{
    (void)self, (void)none, (void)out;
    noted++;
    sem_wait(&gate);
    return TROUPE_OK;
}

static void start(int threads)
{
    noted = wrong = ended = threads_seen = 0;
    enough = false;
    troupe_must(
        troupe_start(0, NULL, .threads = threads, .workers = TROUPE_NONE, .stop_timeout_ms = 50));
}

static worker_actor make(void)
{
    return troupe_spawn(worker, .place = TROUPE_PLACE_HERE);
}

static void test_long_turn(void **state)
{
    (void)state;
    enum { OTHERS = 10 };
    for (int count = 1; count <= OTHERS; count += OTHERS - 1) {
        start(2);
        troupe_actor others[OTHERS];
        for (int i = 0; i < count; i++)
            others[i] = make().address;
        troupe_array_troupe_actor all = {others, (size_t)count};
        bool ran = false;
        troupe_must(troupe_get(bool, troupe_call_from(make(), worker_hog, &all), &ran));
        assert_true(ran);
        assert_int_equal(troupe_stop(), 0);
    }
}

static bool is_enough(void *unused)
{
    (void)unused;
    return enough;
}

static void test_a_pair_starves_no_other(void **state)
{
    (void)state;
    start(1);
    worker_actor left = make(), right = make(), third = make();
    troupe_must(troupe_tell_from(left, worker_meet, &right.address));
    troupe_must(troupe_tell_from(right, worker_meet, &left.address));
    troupe_must(troupe_tell(left, worker_hit, 0));
    troupe_must(troupe_tell(third, worker_stop, 0));
    assert_true(support_wait_until(is_enough, NULL, SUPPORT_SOON_MS));
    assert_int_equal(troupe_stop(), 0);
}

static void test_costly_work_is_shared(void **state)
{
    (void)state;
    enum { MANY = 50 };
    start(2);
    worker_actor actors[MANY];
    for (int i = 0; i < MANY; i++)
        actors[i] = make();
    int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
    for (int round = 1; threads_seen < 2 && support_now_ms() < give_up; round++) {
        for (int i = 0; i < MANY; i++)
            troupe_must(troupe_tell(actors[i], worker_burn, 0));
        assert_true(spin_until(round * MANY));
    }
    assert_int_equal(threads_seen, 2);
    assert_int_equal(troupe_stop(), 0);
}

static _Atomic uint64_t current[4];

static void *tell_stale(void *unused)
{
    (void)unused;
    while (!enough) {
        for (int i = 0; i < 4; i++) {
            troupe_actor to = troupe_self(); // Of no actor: zeros.
            to.id = current[i];
            to.incarnation = trp_home_here.incarnation;
            to.process = trp_home_here.process;
            uint64_t id = to.id;
            (void)troupe_tell_from((worker_actor){to}, worker_check, &id);
        }
    }
    return NULL;
}

static void test_successors_get_no_old_mail(void **state)
{
    (void)state;
    enum { ROUNDS = 2000 };
    start(2);
    pthread_t teller;
    bool again = false; // Has a slot been used for a second time? Else nothing is tried.
    int64_t give_up = support_now_ms() + SUPPORT_SOON_MS;
    for (int i = 0; i < 4; i++)
        current[i] = make().address.id;
    assert_int_equal(pthread_create(&teller, NULL, tell_stale, NULL), 0);
    for (int i = 0; i < ROUNDS || (!again && support_now_ms() < give_up); i++) {
        troupe_actor old = {.id = current[i % 4],
                            .incarnation = trp_home_here.incarnation,
                            .process = trp_home_here.process};
        troupe_must(troupe_actor_kill(old));
        worker_actor fresh = make();
        assert_int_not_equal(fresh.address.id, old.id);
        again = again || fresh.address.id >> TRP_SLOT_INDEX_BITS != 0;
        int out;
        troupe_status status =
            troupe_get(int, troupe_call((worker_actor){old}, worker_note, 1), &out);
        assert_int_equal(status, TROUPE_NOT_EXECUTED);
        // How it ended may be forgotten: thousands have ended if this thread has slept meanwhile.
        assert_true(strstr(troupe_last_error()->text, "was killed") != NULL ||
                    strstr(troupe_last_error()->text, "has ended") != NULL);
        current[i % 4] = fresh.address.id;
    }
    enough = true;
    pthread_join(teller, NULL);
    assert_true(again);
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(wrong, 0);
}

static void look(const trp_actor_look *seen, void *user)
{
    uint64_t *of = user;
    if (seen->id != of[0])
        return;
    of[1] += seen->calls;
    of[2]++;
    assert_int_equal(seen->state, TRP_ACTOR_OPEN);
    assert_non_null(strstr(seen->label.text, "worker 'seen'"));
    assert_int_equal(seen->waiting, 0);
}

static bool is_counted(void *user)
{
    uint64_t *of = user;
    of[1] = of[2] = 0;
    trp_actor_each(look, of);
    return of[1] == 5;
}

static void test_observing(void **state)
{
    (void)state;
    start(1);
    worker_actor actor = troupe_spawn(worker, .place = TROUPE_PLACE_HERE, .name = "seen");
    uint64_t of[3] = {actor.address.id};
    for (int i = 0; i < 5; i++) {
        int out;
        troupe_must(troupe_get(int, troupe_call(actor, worker_note, 1), &out));
    }
    assert_true(support_wait_until(is_counted, of, SUPPORT_SOON_MS)); // After its turn.
    assert_int_equal(of[2], 1);
    assert_int_equal(troupe_stop(), 0);
}

static bool is_noted(void *user)
{
    return noted >= *(int *)user;
}

static bool is_ended(void *user)
{
    return ended >= *(int *)user;
}

static bool are_left(void *threads)
{
    return support_count_threads() == *(int *)threads;
}

// The runtime is stopped while a method waits for something that the runtime knows nothing of, and
// is started anew before that returns.
static void test_method_outlives_the_stop(void **state)
{
    (void)state;
    int one = 1, four = 4, threads = support_count_threads();
    sem_init(&gate, 0, 0);
    start(2);
    worker_actor stuck = make();
    (void)make();
    troupe_must(troupe_tell(stuck, worker_wait, 0));
    troupe_must(troupe_tell(stuck, worker_note, 1)); // Never run.
    assert_true(support_wait_until(is_noted, &one, SUPPORT_SOON_MS));
    (void)troupe_stop();
    assert_int_equal(ended, 1); // The one that rested.
    assert_int_equal(noted, 1);

    troupe_must(troupe_start(0, NULL, .threads = 1, .workers = TROUPE_NONE));
    int out;
    worker_actor next = make();
    troupe_must(troupe_get(int, troupe_call(next, worker_note, 3), &out));
    assert_true(support_wait_until(is_noted, &four, SUPPORT_SOON_MS));
    sem_post(&gate);
    assert_true(support_wait_until(is_ended, &(int){2}, SUPPORT_SOON_MS));
    troupe_must(troupe_get(int, troupe_call(next, worker_note, 1), &out));
    assert_int_equal(out, 4);
    assert_int_equal(troupe_stop(), 0);
    assert_int_equal(ended, 3);
    assert_true(support_wait_until(are_left, &threads, SUPPORT_SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_turn),
        cmocka_unit_test(test_a_pair_starves_no_other),
        cmocka_unit_test(test_costly_work_is_shared),
        cmocka_unit_test(test_successors_get_no_old_mail),
        cmocka_unit_test(test_observing),
        cmocka_unit_test(test_method_outlives_the_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
