// test_supervise.c: supervision trees: order of start and stop, strategies, budgets, escalation,
// and what becomes of children whose supervisor cannot stop them.
#include "children.h"
#include <places.h>
#include <support.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { DIARY = 4096 };

// What happened, in order: "+a" a child was started, "-a" it ended in order. Shared with workers.
static struct {
    _Atomic int size;
    _Atomic char text[DIARY];
    _Atomic int refuse;  // The letter of a child whose init fails,
    _Atomic int refused; // and how often it has.
} * diary;

static void note(char sign, char letter)
{
    int at = atomic_fetch_add(&diary->size, 2);
    if (at + 2 < DIARY) {
        diary->text[at] = sign;
        diary->text[at + 1] = letter;
    }
}

typedef struct player {
    int letter;
} player;

static troupe_status player_init(player *self, const int *letter)
{
    self->letter = *letter;
    if (diary->refuse == *letter && ++diary->refused)
        return troupe_fail(TROUPE_IO, "player %c will not start", *letter);
    note('+', (char)*letter);
    return TROUPE_OK;
}

static void player_deinit(player *self)
{
    note('-', (char)self->letter);
}

static troupe_status player_fail(player *self, const troupe_none *nothing, troupe_none *out)
{
    (void)nothing, (void)out;
    return troupe_actor_fail(TROUPE_IO, "player %c fell", self->letter);
}

static troupe_status player_leave(player *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return troupe_actor_exit();
}

static troupe_status player_crash(player *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    (void)kill(getpid(), SIGKILL);
    (void)pause();
    return TROUPE_OK;
}

static troupe_status player_rest(player *self, const int *ms, troupe_none *out)
{
    (void)self, (void)out;
    (void)usleep((unsigned)*ms * 1000);
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(player, (player_init, int), player_deinit,
                  (player_fail, troupe_none, troupe_none), (player_leave, troupe_none, troupe_none),
                  (player_crash, troupe_none, troupe_none), (player_rest, int, troupe_none));

static const int letters[] = {'a', 'b', 'c', 'd', 'e'};

static troupe_child child_of(int which, troupe_child_restart restart, troupe_place place)
{
    return (troupe_child)TROUPE_CHILD(player, .init_args = &letters[which], .restart = restart,
                                      .place = place);
}

static int set_up(void **state)
{
    (void)state;
    diary = support_share(sizeof *diary);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static int fresh(void **state)
{
    (void)state;
    diary->size = 0;
    diary->refuse = 0;
    diary->refused = 0;
    for (int i = 0; i < DIARY; i++)
        diary->text[i] = 0;
    return 0;
}

// As it is now: others may write.
static void read_diary(char text[DIARY + 1])
{
    for (int i = 0; i < DIARY; i++)
        text[i] = diary->text[i];
    text[DIARY] = '\0';
}

static bool has_written(void *user)
{
    char text[DIARY + 1];
    read_diary(text);
    return strcmp(text, user) == 0;
}

static void await_diary(const char *wanted)
{
    char text[DIARY + 1];
    if (support_wait_until(has_written, (void *)wanted, SUPPORT_SOON_MS))
        return;
    read_diary(text);
    fail_msg("the diary is '%s', expected '%s'", text, wanted);
}

static player_actor look(troupe_supervisor_actor top, size_t index)
{
    return (player_actor){look_at_child(top, index, NULL)};
}

static void test_order(void **state)
{
    for (int p = 0; p < PLACES; p++)
        for (int s = 0; s < PLACES; s++) {
            (void)fresh(state);
            troupe_child children[3];
            for (int i = 0; i < 3; i++)
                children[i] = child_of(i, TROUPE_PERMANENT, places[p]);
            troupe_supervisor_actor top = troupe_supervisor_start(children, 3, .place = places[s]);
            troupe_must(troupe_actor_status(top.address));
            await_diary("+a+b+c");
            assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
            await_diary("+a+b+c-c-b-a");
        }
}

static void test_strategies(void **state)
{
    static const char *const diaries[] = {
        [TROUPE_ONE_FOR_ONE] = "+a+b+c-b+b",
        [TROUPE_ONE_FOR_ALL] = "+a+b+c-b-c-a+a+b+c",
        [TROUPE_REST_FOR_ONE] = "+a+b+c-b-c+b+c",
    };
    for (int p = 0; p < PLACES; p++)
        for (int strategy = TROUPE_ONE_FOR_ONE; strategy <= (int)TROUPE_REST_FOR_ONE; strategy++) {
            (void)fresh(state);
            troupe_child children[3];
            for (int i = 0; i < 3; i++)
                children[i] = child_of(i, TROUPE_PERMANENT, places[p]);
            troupe_supervisor_actor top =
                troupe_supervisor_start(children, 3, .strategy = (troupe_strategy)strategy);
            troupe_must(troupe_actor_status(top.address));
            troupe_none none;
            assert_int_equal(troupe_get(troupe_none, troupe_call(look(top, 1), player_fail), &none),
                             TROUPE_IO);
            await_starts(top, 1, 2);
            await_starts(top, 2, strategy == TROUPE_ONE_FOR_ONE ? 1 : 2);
            await_starts(top, 0, strategy == TROUPE_ONE_FOR_ALL ? 2 : 1);
            await_diary(diaries[strategy]);
            assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
        }
}

static bool is_gone(void *user)
{
    fall *wanted = user;
    return look(wanted->top, wanted->index).address.id == 0;
}

static void test_kinds(void **state)
{
    (void)fresh(state);
    troupe_none none;
    troupe_child children[] = {child_of(0, TROUPE_PERMANENT, TROUPE_PLACE_HERE),
                               child_of(1, TROUPE_TRANSIENT, TROUPE_PLACE_HERE),
                               child_of(2, TROUPE_TEMPORARY, TROUPE_PLACE_HERE)};
    troupe_supervisor_actor top = troupe_supervisor_start(children, 3);
    troupe_must(troupe_get(troupe_none, troupe_call(look(top, 0), player_leave), &none));
    await_starts(top, 0, 2);
    assert_int_equal(troupe_get(troupe_none, troupe_call(look(top, 1), player_fail), &none),
                     TROUPE_IO);
    await_starts(top, 1, 2);
    troupe_must(troupe_get(troupe_none, troupe_call(look(top, 1), player_leave), &none));
    assert_true(support_wait_until(is_gone, &(fall){top, 1, 0}, SUPPORT_SOON_MS));
    assert_int_equal(troupe_get(troupe_none, troupe_call(look(top, 2), player_fail), &none),
                     TROUPE_IO);
    assert_true(support_wait_until(is_gone, &(fall){top, 2, 0}, SUPPORT_SOON_MS));
    troupe_child_state child;
    assert_int_equal(troupe_supervisor_child(top, 3, &child), TROUPE_NOT_FOUND);
    // One more.
    troupe_child more = child_of(3, TROUPE_PERMANENT, TROUPE_PLACE_WORKER);
    troupe_actor added;
    troupe_must(troupe_supervisor_add(top, &more, &added));
    assert_int_equal(troupe_get(troupe_none, troupe_call(look(top, 3), player_crash), &none),
                     TROUPE_MAYBE_EXECUTED);
    await_starts(top, 3, 2);
    diary->refuse = 'e';
    more = child_of(4, TROUPE_PERMANENT, TROUPE_PLACE_WORKER);
    assert_int_equal(troupe_supervisor_add(top, &more, &added), TROUPE_IO);
    assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
    await_diary("+a+b+c-a+a-b+b-b-c+d+d-d-a");
}

// One that is never started again is stopped with the others, and stays away.
static void test_temporary_among_others(void **state)
{
    static const char *const diaries[] = {
        [TROUPE_ONE_FOR_ALL] = "+a+b+c-a-c-b+a+c",
        [TROUPE_REST_FOR_ONE] = "+a+b+c-a-c-b+a+c",
    };
    for (int strategy = TROUPE_ONE_FOR_ALL; strategy <= (int)TROUPE_REST_FOR_ONE; strategy++) {
        (void)fresh(state);
        troupe_none none;
        troupe_child children[] = {child_of(0, TROUPE_PERMANENT, TROUPE_PLACE_HERE),
                                   child_of(1, TROUPE_TEMPORARY, TROUPE_PLACE_HERE),
                                   child_of(2, TROUPE_PERMANENT, TROUPE_PLACE_HERE)};
        troupe_supervisor_actor top =
            troupe_supervisor_start(children, 3, .strategy = (troupe_strategy)strategy);
        assert_int_equal(troupe_get(troupe_none, troupe_call(look(top, 0), player_fail), &none),
                         TROUPE_IO);
        await_starts(top, 0, 2);
        await_starts(top, 2, 2);
        await_diary(diaries[strategy]);
        assert_int_equal(look(top, 1).address.id, 0);
        assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
    }
}

static void test_start_fails(void **state)
{
    for (int p = 0; p < PLACES; p++) {
        (void)fresh(state);
        diary->refuse = 'c';
        troupe_child children[4];
        for (int i = 0; i < 4; i++)
            children[i] = child_of(i, TROUPE_PERMANENT, places[p]);
        troupe_supervisor_actor top = troupe_supervisor_start(children, 4);
        assert_int_equal(troupe_actor_status(top.address), TROUPE_IO);
        assert_non_null(strstr(troupe_last_error()->text, "player c will not start"));
        await_diary("+a+b-b-a");
    }
}

// More restarts than allowed: the inner one gives up, the outer one starts it again, until that
// gives up, too.
static void test_escalation(void **state)
{
    (void)fresh(state);
    troupe_none none;
    troupe_child inner[] = {child_of(1, TROUPE_PERMANENT, TROUPE_PLACE_HERE),
                            child_of(2, TROUPE_PERMANENT, TROUPE_PLACE_HERE)};
    troupe_supervisor_options how = {.size = sizeof how, .restarts = 1, .window_ms = 60000};
    troupe_child outer[] = {child_of(0, TROUPE_PERMANENT, TROUPE_PLACE_HERE),
                            TROUPE_CHILD_SUPERVISOR(inner, 2, .supervisor = &how)};
    troupe_supervisor_actor top =
        troupe_supervisor_start(outer, 2, .restarts = 1, .window_ms = 60000);
    troupe_must(troupe_actor_status(top.address));
    for (uint32_t round = 1; round <= 2; round++) {
        await_starts(top, 1, round);
        troupe_supervisor_actor middle = {look(top, 1).address};
        for (uint32_t i = 1; i <= 2; i++) {
            await_starts(middle, 0, i);
            assert_int_equal(
                troupe_get(troupe_none, troupe_call(look(middle, 0), player_fail), &none),
                TROUPE_IO);
        }
    }
    troupe_down down;
    assert_int_equal(troupe_actor_await_end(top.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
    assert_non_null(strstr(down.text, "gave up after 1 restarts"));
    assert_non_null(strstr(down.text, "player b fell"));
    await_diary("+a+b+c-b+b-b-c+b+c-b+b-b-c-a");
}

// A child that cannot be started again uses the budget up.
static void test_restart_fails(void **state)
{
    (void)fresh(state);
    troupe_none none;
    troupe_child child = child_of(0, TROUPE_PERMANENT, TROUPE_PLACE_WORKER);
    troupe_supervisor_actor top = troupe_supervisor_start(&child, 1);
    diary->refuse = 'a';
    assert_int_equal(troupe_get(troupe_none, troupe_call(look(top, 0), player_fail), &none),
                     TROUPE_IO);
    troupe_down down;
    assert_int_equal(troupe_actor_await_end(top.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
    assert_non_null(strstr(down.text, "gave up after 3 restarts"));
    assert_non_null(strstr(down.text, "player a will not start"));
}

static bool was_refused(void *user)
{
    return diary->refused >= *(int *)user;
}

// One that may restart for ever goes on while its child will not start, and yet it answers, sees
// when the child will, and can be ended.
static void test_restart_for_ever(void **state)
{
    for (int end = 0; end < 3; end++) {
        (void)fresh(state);
        int wanted = 3;
        troupe_none none;
        troupe_child children[] = {child_of(0, TROUPE_PERMANENT, TROUPE_PLACE_HERE),
                                   child_of(1, TROUPE_PERMANENT, TROUPE_PLACE_HERE)};
        troupe_supervisor_actor top =
            troupe_supervisor_start(children, 2, .restarts = TROUPE_FOREVER);
        diary->refuse = 'a';
        assert_int_equal(troupe_get(troupe_none, troupe_call(look(top, 0), player_fail), &none),
                         TROUPE_IO);
        assert_true(support_wait_until(was_refused, &wanted, SUPPORT_SOON_MS));
        if (end == 0) {
            diary->refuse = 0;
            await_starts(top, 0, 2);
        }
        if (end < 2)
            assert_int_equal(troupe_actor_stop(top, SUPPORT_SOON_MS), TROUPE_OK);
        else
            assert_int_equal(troupe_actor_kill(top), TROUPE_OK);
        assert_int_equal(troupe_actor_await_end(top.address, SUPPORT_SOON_MS, NULL), TROUPE_OK);
        await_diary(end == 0 ? "+a+b-a+a-b-a" : "+a+b-a-b");
    }
}

// Killed, or its process dies: the children end by themselves.
static void test_orphans(void **state)
{
    for (int p = 0; p < PLACES; p++)
        for (int s = 0; s < PLACES; s++) {
            (void)fresh(state);
            troupe_child children[2];
            for (int i = 0; i < 2; i++)
                children[i] = child_of(i, TROUPE_PERMANENT, places[p]);
            troupe_supervisor_actor top = troupe_supervisor_start(children, 2, .place = places[s]);
            player_actor first = look(top, 0), second = look(top, 1);
            assert_int_equal(troupe_actor_kill(top), TROUPE_OK);
            assert_int_equal(troupe_actor_await_end(first.address, SUPPORT_SOON_MS, NULL),
                             TROUPE_OK);
            assert_int_equal(troupe_actor_await_end(second.address, SUPPORT_SOON_MS, NULL),
                             TROUPE_OK);
        }
}

// One that does not end in its time is ended by force, and the others in order.
static void test_shutdown(void **state)
{
    (void)fresh(state);
    troupe_child children[3];
    for (int i = 0; i < 3; i++)
        children[i] = child_of(i, TROUPE_PERMANENT, TROUPE_PLACE_ISOLATED);
    children[1].shutdown_ms = 30;
    troupe_supervisor_actor top = troupe_supervisor_start(children, 3);
    troupe_ref_drop(troupe_call(look(top, 1), player_rest, 60000));
    assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
    await_diary("+a+b+c-c-a");
}

static void test_refused(void **state)
{
    (void)state;
    troupe_child child = child_of(0, (troupe_child_restart)7, TROUPE_PLACE_HERE);
    troupe_supervisor_actor top = troupe_supervisor_start(&child, 1);
    assert_int_equal(troupe_actor_status(top.address), TROUPE_INVALID);
    child = child_of(0, TROUPE_PERMANENT, TROUPE_PLACE_HERE);
    top = troupe_supervisor_start(&child, 1, .strategy = (troupe_strategy)9);
    assert_int_equal(troupe_actor_status(top.address), TROUPE_INVALID);
    top = troupe_supervisor_start(&child, 1, .restarts = 65);
    assert_int_equal(troupe_actor_status(top.address), TROUPE_INVALID);
    top = troupe_supervisor_start(NULL, 1);
    assert_int_equal(troupe_actor_status(top.address), TROUPE_INVALID);
    top = troupe_supervisor_start(NULL, 0);
    assert_int_equal(troupe_actor_status(top.address), TROUPE_OK);
    assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
}

// ---- what a spawn takes

typedef struct keeper {
    int count;
} keeper;

TROUPE_STRUCT(keeper_image, (int, count));

static troupe_status keeper_add(keeper *self, const int *by, int *count)
{
    *count = self->count += *by;
    return TROUPE_OK;
}

static troupe_status keeper_variable(keeper *self, const troupe_text *name, troupe_text *value)
{
    (void)self;
    *value = getenv(*name);
    return TROUPE_OK;
}

static troupe_status keeper_crash(keeper *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    (void)kill(getpid(), SIGKILL);
    (void)pause();
    return TROUPE_OK;
}

TROUPE_ACTOR(keeper, (keeper_add, int, int), (keeper_variable, troupe_text, troupe_text),
             (keeper_crash, troupe_none, troupe_none));

static troupe_status keeper_save(keeper *self, keeper_image *image)
{
    image->count = self->count;
    return TROUPE_OK;
}

static troupe_status keeper_restore(keeper *self, const keeper_image *image)
{
    self->count = image->count;
    return TROUPE_OK;
}

TROUPE_STATE(keeper, keeper_image, keeper_save, keeper_restore);

// With .restarts a child comes back by itself, under its address and with its state; then it is the
// supervisor's to start.
static void test_child_with_restarts(void **state)
{
    (void)state;
    char env[] = "KEEPER=yes";
    uint32_t starts;
    int count = 0;
    troupe_text value = NULL;
    troupe_none nothing;
    troupe_spawn_options spawn = {.size = sizeof spawn,
                                  .name = "kept",
                                  .place = TROUPE_PLACE_ISOLATED,
                                  .restarts = 1,
                                  .save_every = 1,
                                  .env = env};
    troupe_child child = TROUPE_CHILD(keeper, .spawn = &spawn);
    troupe_supervisor_actor top = troupe_supervisor_start(&child, 1);
    troupe_must(troupe_actor_status(top.address));
    memset(&spawn, 0xff, sizeof spawn); // All of it was copied.
    memset(env, 'x', sizeof env);
    keeper_actor kept = {look_at_child(top, 0, &starts)}, named;
    troupe_must(troupe_lookup(keeper, "kept", &named));
    assert_true(named.address.id == kept.address.id);
    troupe_must(troupe_get(int, troupe_call(kept, keeper_add, 5), &count));
    assert_int_not_equal(troupe_get(troupe_none, troupe_call(kept, keeper_crash), &nothing),
                         TROUPE_OK);
    troupe_must(troupe_get(int, troupe_call(kept, keeper_add, 2), &count));
    assert_int_equal(count, 7);
    assert_true(look_at_child(top, 0, &starts).id == kept.address.id);
    assert_int_equal(starts, 1);

    assert_int_not_equal(troupe_get(troupe_none, troupe_call(kept, keeper_crash), &nothing),
                         TROUPE_OK);
    await_starts(top, 0, 2);
    keeper_actor second = {look_at_child(top, 0, NULL)};
    troupe_must(troupe_get(int, troupe_call(second, keeper_add, 2), &count));
    assert_int_equal(count, 2); // It began anew.
    troupe_must(troupe_get(troupe_text, troupe_call(second, keeper_variable, "KEEPER"), &value));
    assert_string_equal(value, "yes");
    assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
}

static void test_child_with_resources(void **state)
{
    (void)state;
    troupe_spawn_options spawn = {.size = sizeof spawn, .resources = "stool=1"};
    troupe_child child = TROUPE_CHILD(keeper, .spawn = &spawn);
    troupe_supervisor_actor top = troupe_supervisor_start(&child, 1);
    assert_int_not_equal(troupe_actor_status(top.address), TROUPE_OK);
    assert_non_null(strstr(troupe_last_error()->text, "stool"));
    spawn = (troupe_spawn_options){.size = sizeof spawn, .groups = "nothing=1"};
    top = troupe_supervisor_start(&child, 1);
    assert_int_equal(troupe_actor_status(top.address), TROUPE_INVALID);
    child = (troupe_child)TROUPE_CHILD_SUPERVISOR(NULL, 0, .spawn = &spawn);
    top = troupe_supervisor_start(&child, 1);
    assert_int_equal(troupe_actor_status(top.address), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, ".spawn of a child"));
}

// Of a program that was compiled with older headers: each row lacks what came later.
static void test_shorter_rows(void **state)
{
    (void)state;
    enum { SIZE = offsetof(troupe_child, spawn) };
    const troupe_child rows[] = {TROUPE_CHILD(keeper, .name = "elder"),
                                 TROUPE_CHILD(keeper, .name = "younger")};
    _Alignas(troupe_child) char older[2 * SIZE];
    for (size_t i = 0; i < 2; i++) {
        troupe_child row = rows[i];
        row.size = SIZE;
        memcpy(older + i * SIZE, &row, SIZE);
    }
    troupe_supervisor_actor top = troupe_supervisor_start((const void *)older, 2);
    keeper_actor found;
    troupe_must(troupe_actor_status(top.address));
    troupe_must(troupe_lookup(keeper, "elder", &found));
    troupe_must(troupe_lookup(keeper, "younger", &found));
    assert_int_equal(troupe_actor_stop(top), TROUPE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_start_fails),
        cmocka_unit_test(test_escalation),
        cmocka_unit_test(test_restart_fails),
        cmocka_unit_test(test_orphans),
        cmocka_unit_test(test_shutdown),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_temporary_among_others),
        cmocka_unit_test(test_restart_for_ever),
        cmocka_unit_test(test_child_with_restarts),
        cmocka_unit_test(test_child_with_resources),
        cmocka_unit_test(test_shorter_rows),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
