// test_mailbox.c: the queue alone: order, bounds, and many pushers against one taker.
#include <support.h>

#include <actors/sched/mailbox.h>
#include <pthread.h>
#include <runtime/base/fence.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum { PUSHERS = 4, PUSHED = 20000 };

typedef struct item {
    trp_link link;
    int pusher, number;
} item;

static int64_t soon(void)
{
    return (support_now_ms() + SUPPORT_SOON_MS) * 1000000;
}

static void test_order_and_bounds(void **state)
{
    (void)state;
    trp_mailbox mailbox = {.max = 0}; // clang 14 takes no {0} where an atomic pointer is first.
    item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    trp_mailbox_open(&mailbox, 3);
    assert_null(trp_mailbox_take(&mailbox));
    assert_int_equal(trp_mailbox_rest(&mailbox), TRP_RESTS);
    for (int i = 0; i < 3; i++) {
        assert_true(trp_mailbox_reserve(&mailbox, 10));
        assert_int_equal(trp_mailbox_push(&mailbox, &items[i].link, false),
                         i == 0 ? TRP_PUSHED_FIRST : TRP_PUSHED);
    }
    assert_false(trp_mailbox_reserve(&mailbox, 10));
    assert_int_equal(trp_mailbox_count(&mailbox), 3);
    assert_false(trp_mailbox_wait(&mailbox, 10, (support_now_ms() + 1) * 1000000));
    trp_mailbox_reserve_always(&mailbox, 10);
    (void)trp_mailbox_push(&mailbox, &items[3].link, false);
    for (int i = 0; i < 4; i++) {
        item *taken = (item *)trp_mailbox_take(&mailbox);
        assert_int_equal(taken->number, i);
        trp_mailbox_left(&mailbox, 10);
    }
    assert_null(trp_mailbox_take(&mailbox));
    assert_int_equal(trp_mailbox_rest(&mailbox), TRP_RESTS);
    assert_true(trp_mailbox_idle(&mailbox));
    // Bytes: a lone large message is let in, a second one is not.
    assert_true(trp_mailbox_reserve(&mailbox, TRP_MAILBOX_BYTES_MAX + 1));
    assert_false(trp_mailbox_reserve(&mailbox, 1));
    trp_mailbox_left(&mailbox, TRP_MAILBOX_BYTES_MAX + 1);
    assert_true(trp_mailbox_reserve(&mailbox, 1));
    trp_mailbox_left(&mailbox, 1);
    assert_int_equal(trp_mailbox_count(&mailbox), 0);
}

typedef struct stress {
    trp_mailbox mailbox;
    _Atomic int wakes; // Pushes that said "schedule it".
    item *items;
    int pusher;
    struct stress *shared;
} stress;

static void *push_all(void *user)
{
    stress *mine = user, *all = mine->shared;
    for (int i = 0; i < PUSHED; i++) {
        item *it = &all->items[mine->pusher * PUSHED + i];
        it->pusher = mine->pusher;
        it->number = i;
        while (!trp_mailbox_reserve(&all->mailbox, 16))
            assert_true(trp_mailbox_wait(&all->mailbox, 16, soon()));
        if (trp_mailbox_push(&all->mailbox, &it->link, false) == TRP_PUSHED_FIRST)
            all->wakes++;
    }
    return NULL;
}

// The taker runs only when it was scheduled, as an actor does; nothing is lost, each pusher's are
// in order.
static void test_many_pushers(void **state)
{
    (void)state;
    static stress all;
    static stress pushers[PUSHERS];
    pthread_t threads[PUSHERS];
    int next[PUSHERS] = {0}, taken = 0, slept = 0;
    trp_mailbox_open(&all.mailbox, 64);
    assert_int_equal(trp_mailbox_rest(&all.mailbox), TRP_RESTS);
    all.items = calloc(PUSHERS * PUSHED, sizeof *all.items);
    for (int i = 0; i < PUSHERS; i++) {
        pushers[i] = (stress){.pusher = i, .shared = &all};
        assert_int_equal(pthread_create(&threads[i], NULL, push_all, &pushers[i]), 0);
    }
    int64_t give_up = support_now_ms() + 30000;
    while (taken < PUSHERS * PUSHED && support_now_ms() < give_up) {
        if (all.wakes == slept) { // Nobody scheduled it.
            sched_yield();
            continue;
        }
        slept++;
        do {
            item *it;
            while ((it = (item *)trp_mailbox_take(&all.mailbox)) != NULL) {
                assert_int_equal(it->number, next[it->pusher]++);
                taken++;
                trp_mailbox_left(&all.mailbox, 16);
            }
        } while (trp_mailbox_rest(&all.mailbox) == TRP_REST_MORE);
    }
    assert_int_equal(taken, PUSHERS * PUSHED);
    for (int i = 0; i < PUSHERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(trp_mailbox_count(&all.mailbox), 0);
    free(all.items);
}

// What is urgent goes first, each lane in its own order, also if it comes in between.
static void test_urgent_lane(void **state)
{
    (void)state;
    trp_mailbox mailbox = {.max = 0};
    item items[6];
    static const int taken[] = {1, 3, 4, 5, 0, 2};
    int next = 0;
    trp_mailbox_open(&mailbox, 100);
    for (int i = 0; i < 6; i++) {
        items[i].number = i;
        assert_true(trp_mailbox_reserve(&mailbox, 1));
        (void)trp_mailbox_push(&mailbox, &items[i].link, i != 0 && i != 2);
        if (i == 3) // 1 goes ahead of 0, and so do those that come later.
            assert_int_equal(((item *)trp_mailbox_take(&mailbox))->number, taken[next++]);
    }
    while (next < 6)
        assert_int_equal(((item *)trp_mailbox_take(&mailbox))->number, taken[next++]);
    assert_null(trp_mailbox_take(&mailbox));
    assert_int_equal(trp_mailbox_rest(&mailbox), TRP_RESTS);
}

enum { RACES = 300, RACERS = 40 };

typedef struct race {
    trp_mailbox mailbox;
    item items[RACERS];
    _Atomic int ends[RACERS]; // How often each was taken, left or refused.
    _Atomic int runnable;     // The actor's, handed over by who pushed first.
    _Atomic bool closed;
} race;

static void *push_racers(void *user)
{
    race *all = user;
    for (int i = 0; i < RACERS; i++) {
        all->items[i].number = i;
        trp_mailbox_reserve_always(&all->mailbox, 1);
        trp_pushed pushed = trp_mailbox_push(&all->mailbox, &all->items[i].link, i % 5 == 0);
        if (pushed == TRP_PUSH_REFUSED) {
            all->ends[i]++;
            trp_mailbox_return(&all->mailbox, 1);
        } else if (pushed == TRP_PUSHED_FIRST) {
            all->runnable++;
        }
    }
    return NULL;
}

static void *take_racers(void *user)
{
    race *all = user;
    while (!all->closed) {
        if (all->runnable == 0) {
            sched_yield();
            continue;
        }
        assert_int_equal(all->runnable--, 1); // Nobody else has it.
        trp_rest rest = TRP_REST_MORE;
        while (rest == TRP_REST_MORE && !all->closed) {
            item *it = (item *)trp_mailbox_take(&all->mailbox);
            if (it == NULL) {
                rest = trp_mailbox_rest(&all->mailbox);
                continue;
            }
            all->ends[it->number]++;
            trp_mailbox_left(&all->mailbox, 1);
        }
    }
    return NULL;
}

// A mailbox is closed while its actor takes and others push: each message has one end.
static void test_closing_races(void **state)
{
    (void)state;
    for (int round = 0; round < RACES; round++) {
        race *all = calloc(1, sizeof *all);
        pthread_t pusher, taker;
        bool idle;
        trp_mailbox_open(&all->mailbox, TRP_MAILBOX_DEFAULT_MAX);
        assert_int_equal(trp_mailbox_rest(&all->mailbox), TRP_RESTS);
        assert_int_equal(pthread_create(&taker, NULL, take_racers, all), 0);
        assert_int_equal(pthread_create(&pusher, NULL, push_racers, all), 0);
        for (int i = 0; i < round % 7; i++)
            sched_yield();
        trp_link *link = trp_mailbox_close(&all->mailbox, false, &idle);
        all->closed = true;
        for (; link != NULL; link = trp_link_next(link))
            all->ends[((item *)link)->number]++;
        pthread_join(pusher, NULL);
        pthread_join(taker, NULL);
        for (int i = 0; i < RACERS; i++)
            assert_int_equal(all->ends[i], 1);
        free(all);
    }
}

int main(void)
{
    trp_fence_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_bounds),
        cmocka_unit_test(test_many_pushers),
        cmocka_unit_test(test_urgent_lane),
        cmocka_unit_test(test_closing_races),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
