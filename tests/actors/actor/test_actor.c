// test_actor.c: the life of actors: spawning, failing to start, names, ends, and what their callers
// are told.
#include <places.h>
#include <support.h>

#include <actors/actor/actor.h>
#include <actors/actor/lifecycle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/actor.h>
#include <unistd.h>

TROUPE_STRUCT(setup, (int, fail), (troupe_text, file), (int64_t, start));

typedef struct shop {
    int64_t total;
    char file[128]; // Where deinit leaves a note.
} shop;

static troupe_status shop_open(shop *self, const setup *how)
{
    self->total = how->start;
    if (how->file != NULL)
        snprintf(self->file, sizeof self->file, "%s", how->file);
    if (how->fail != 0)
        return troupe_fail((troupe_status)how->fail, "no stock today");
    return TROUPE_OK;
}

static void shop_close(shop *self)
{
    if (self->file[0] == '\0')
        return;
    FILE *file = fopen(self->file, "a");
    fprintf(file, "closed with %lld\n", (long long)self->total);
    fclose(file);
}

static troupe_status shop_sell(shop *self, const int64_t *amount, int64_t *total)
{
    *total = self->total += *amount;
    return TROUPE_OK;
}

// Shared with the worker processes: how many rests have begun, and whether those that wait may end.
static _Atomic int *rests, *may_go;

static troupe_status shop_rest(shop *self, const int *milliseconds, int *out)
{
    (void)self;
    ++*rests;
    usleep((unsigned)*milliseconds * 1000);
    *out = *milliseconds;
    return TROUPE_OK;
}

static troupe_status shop_hold(shop *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing, (void)out;
    ++*rests;
    while (*may_go == 0)
        usleep(500);
    return TROUPE_OK;
}

static troupe_status shop_who(shop *self, const troupe_none *nothing, troupe_actor *me)
{
    (void)self, (void)nothing;
    *me = troupe_self();
    return TROUPE_OK;
}

static troupe_status shop_retire(shop *self, const troupe_none *nothing, int *out)
{
    (void)self, (void)nothing;
    *out = 5;
    return troupe_actor_kill(troupe_self());
}

TROUPE_ACTOR_INIT(shop, (shop_open, setup), shop_close, (shop_sell, int64_t, int64_t),
                  (shop_rest, int, int), (shop_who, troupe_none, troupe_actor),
                  (shop_retire, troupe_none, int), (shop_hold, troupe_none, int));

typedef struct other {
    int nothing;
} other;
static troupe_status other_do(other *self, const int *in, int *out)
{
    (void)self;
    *out = *in;
    return TROUPE_OK;
}
TROUPE_ACTOR(other, (other_do, int, int));

static int set_up(void **state)
{
    (void)state;
    if (rests == NULL)
        rests = support_share(sizeof *rests);
    if (may_go == NULL)
        may_go = support_share(sizeof *may_go);
    return troupe_start(0, NULL, .workers = 2, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static void test_init_arguments(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        int64_t total;
        setup how = {.start = 100};
        shop_actor actor = troupe_spawn_from(shop, &how, .place = places[p]);
        how.start = 0;
        troupe_must(troupe_get(int64_t, troupe_call(actor, shop_sell, 1), &total));
        assert_int_equal(total, 101);
        troupe_actor_kill(actor);
    }
}

static void test_failing_to_start(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        setup how = {.fail = TROUPE_NO_SPACE};
        shop_actor actor = troupe_spawn_from(shop, &how, .place = places[p], .name = "failing");
        int64_t total;
        assert_int_equal(actor.address.id, 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(troupe_get(int64_t, troupe_call(actor, shop_sell, 1), &total),
                             TROUPE_NO_SPACE);
            const troupe_error *error = troupe_last_error();
            assert_string_equal(error->text, "no stock today");
            assert_int_equal(error->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
            assert_string_equal(error->actor, "shop 'failing'");
            assert_true(error->process != 0);
        }
        assert_int_equal(troupe_tell(actor, shop_sell, 1), TROUPE_NO_SPACE);
        assert_int_equal(troupe_actor_status(actor.address), TROUPE_NO_SPACE);
        assert_string_equal(troupe_last_error()->text, "no stock today");
        // The name is free again.
        shop_actor found;
        assert_int_equal(troupe_lookup(shop, "failing", &found), TROUPE_NOT_FOUND);
        assert_int_equal(troupe_actor_kill(actor), TROUPE_NO_SPACE);
    }
    // Two failures do not mix.
    setup first = {.fail = TROUPE_IO}, second = {.fail = TROUPE_BUSY};
    shop_actor a = troupe_spawn_from(shop, &first, .place = TROUPE_PLACE_HERE);
    shop_actor b = troupe_spawn_from(shop, &second, .place = TROUPE_PLACE_HERE);
    assert_int_equal(troupe_actor_status(a.address), TROUPE_IO);
    assert_int_equal(troupe_actor_status(b.address), TROUPE_BUSY);
    shop_actor odd = troupe_spawn(shop, .place = (troupe_place)17);
    assert_int_equal(troupe_actor_status(odd.address), TROUPE_INVALID);
}

static bool name_is_gone(void *user)
{
    shop_actor found;
    return troupe_lookup(shop, user, &found) == TROUPE_NOT_FOUND;
}

static void test_names(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        shop_actor actor = troupe_spawn(shop, .place = places[p], .name = "corner"), found;
        int64_t total;
        troupe_must(troupe_lookup(shop, "corner", &found));
        assert_int_equal(found.address.id, actor.address.id);
        assert_int_equal(found.address.process, actor.address.process);
        troupe_must(troupe_get(int64_t, troupe_call(found, shop_sell, 3), &total));

        shop_actor twin = troupe_spawn(shop, .place = places[(p + 1) % PLACES], .name = "corner");
        assert_int_equal(troupe_actor_status(twin.address), TROUPE_EXISTS);
        assert_non_null(strstr(troupe_last_error()->text, "corner"));

        other_actor wrong;
        assert_int_equal(troupe_lookup(other, "corner", &wrong), TROUPE_WRONG_TYPE);
        assert_non_null(strstr(troupe_last_error()->text, "'shop'"));
        troupe_actor any;
        troupe_must(troupe_lookup_as(NULL, "corner", &any));
        assert_int_equal(any.id, actor.address.id);

        troupe_actor_kill(actor);
        assert_true(support_wait_until(name_is_gone, "corner", SUPPORT_SOON_MS));
    }
    shop_actor found;
    shop_actor bad = troupe_spawn(shop, .place = TROUPE_PLACE_HERE, .name = "no blanks");
    assert_int_equal(troupe_actor_status(bad.address), TROUPE_INVALID);
    assert_int_equal(troupe_lookup(shop, "never", &found), TROUPE_NOT_FOUND);
    assert_int_equal(troupe_lookup(shop, "", &found), TROUPE_INVALID);
}

static bool rests_begun(void *user)
{
    return *rests >= *(int *)user;
}

static void test_killing(void **state)
{
    (void)state;
    enum { QUEUED = 5 };
    for (int p = 0; p < PLACES; p++) {
        shop_actor actor = troupe_spawn(shop, .place = places[p]);
        troupe_ref queued[QUEUED];
        int64_t total;
        int rested;
        troupe_must(troupe_get(int64_t, troupe_call(actor, shop_sell, 1), &total));
        int begun = *rests + 1;
        bool isolated = places[p] == TROUPE_PLACE_ISOLATED;
        *may_go = 0;
        troupe_ref running = troupe_call(actor, shop_hold);
        assert_true(support_wait_until(rests_begun, &begun, SUPPORT_SOON_MS));
        for (int i = 0; i < QUEUED; i++)
            queued[i] = troupe_call(actor, shop_sell, 1);
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
        for (int i = 0; i < QUEUED; i++) {
            assert_int_equal(troupe_get(int64_t, queued[i], &total), TROUPE_NOT_EXECUTED);
            assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_NOT_EXECUTED);
            assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_NO);
            assert_non_null(strstr(troupe_last_error()->text, "was killed"));
        }
        *may_go = !isolated; // Else it ends with its process.
        troupe_status status = troupe_get(int, running, &rested);
        if (isolated) {
            assert_int_equal(status, TROUPE_MAYBE_EXECUTED);
            assert_non_null(strstr(troupe_last_error()->text, "its actor was killed"));
        } else {
            assert_int_equal(status, TROUPE_OK);
        }
        assert_int_equal(troupe_get(int64_t, troupe_call(actor, shop_sell, 1), &total),
                         TROUPE_NOT_EXECUTED);
        assert_non_null(strstr(troupe_last_error()->text, "killed"));
        assert_int_equal(troupe_actor_kill(actor), TROUPE_OK); // Harmless.
        assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
    }
}

static bool file_is_there(void *user)
{
    char *text = support_read_file(user);
    bool whole = text != NULL && strchr(text, '\n') != NULL;
    free(text);
    return whole;
}

static void test_ending_in_order(void **state)
{
    (void)state;
    char *folder = support_directory_make();
    for (int p = 0; p < PLACES; p++) {
        char name[32];
        snprintf(name, sizeof name, "note%d", p);
        char *file = support_path(folder, name);
        setup how = {.file = file};
        shop_actor actor = troupe_spawn_from(shop, &how, .place = places[p], .name = "ending");
        int64_t total = 0, never;
        int rest = 20;
        troupe_must(troupe_tell_from(actor, shop_rest, &rest));
        for (int i = 0; i < 10; i++)
            troupe_must(troupe_tell(actor, shop_sell, 1));
        troupe_ref last = troupe_call(actor, shop_sell, 5);
        troupe_must(troupe_actor_end(actor));
        troupe_ref late = troupe_call(actor, shop_sell, 100);
        troupe_must(troupe_get(int64_t, last, &total));
        assert_int_equal(total, 15);
        // A process of its own may be gone before it could say so.
        assert_int_not_equal(troupe_get(int64_t, late, &never), TROUPE_OK);
        if (places[p] != TROUPE_PLACE_ISOLATED) {
            assert_int_equal(troupe_last_error()->status, TROUPE_NOT_EXECUTED);
            assert_non_null(strstr(troupe_last_error()->text, "has ended"));
        }
        assert_true(support_wait_until(file_is_there, file, SUPPORT_SOON_MS));
        char *text = support_read_file(file);
        assert_string_equal(text, "closed with 15\n");
        free(text);
        assert_true(support_wait_until(name_is_gone, "ending", SUPPORT_SOON_MS));
        free(file);
    }
    support_directory_remove(folder);
}

static void test_stop_runs_deinit(void **state)
{
    (void)state;
    char *folder = support_directory_make();
    char *files[PLACES];
    for (int p = 0; p < PLACES; p++) {
        char name[32];
        snprintf(name, sizeof name, "note%d", p);
        files[p] = support_path(folder, name);
        setup how = {.file = files[p]};
        shop_actor actor = troupe_spawn_from(shop, &how, .place = places[p]);
        int64_t total;
        troupe_must(troupe_get(int64_t, troupe_call(actor, shop_sell, p), &total));
    }
    troupe_stop();
    for (int p = 0; p < PLACES; p++) {
        char expected[32];
        snprintf(expected, sizeof expected, "closed with %d\n", p);
        assert_true(support_wait_until(file_is_there, files[p], SUPPORT_SOON_MS));
        char *text = support_read_file(files[p]);
        assert_string_equal(text, expected);
        free(text);
        free(files[p]);
    }
    support_directory_remove(folder);
    assert_int_equal(set_up(state), 0);
}

static void test_self(void **state)
{
    (void)state;
    assert_int_equal(troupe_self().id, 0);
    for (int p = 0; p < PLACES; p++) {
        shop_actor actor = troupe_spawn(shop, .place = places[p]);
        troupe_actor me;
        int out;
        troupe_must(troupe_get(troupe_actor, troupe_call(actor, shop_who), &me));
        assert_int_equal(me.id, actor.address.id);
        assert_int_equal(me.incarnation, actor.address.incarnation);
        assert_int_equal(me.process, actor.address.process);
        if (places[p] == TROUPE_PLACE_ISOLATED)
            continue;
        // An actor that kills itself finishes the method.
        troupe_must(troupe_get(int, troupe_call(actor, shop_retire), &out));
        assert_int_equal(out, 5);
        assert_int_equal(troupe_get(int, troupe_call(actor, shop_retire), &out),
                         TROUPE_NOT_EXECUTED);
    }
}

static void test_many_actors(void **state)
{
    (void)state;
    enum { MANY = 10000, REMOTE = 500 };
    shop_actor *actors = calloc(MANY, sizeof *actors);
    troupe_ref *refs = calloc(MANY, sizeof *refs);
    for (int i = 0; i < MANY; i++)
        actors[i] =
            troupe_spawn(shop, .place = i < REMOTE ? TROUPE_PLACE_WORKER : TROUPE_PLACE_HERE);
    for (int i = 0; i < MANY; i++)
        refs[i] = troupe_call(actors[i], shop_sell, i);
    for (int i = 0; i < MANY; i++) {
        int64_t total;
        troupe_must(troupe_get(int64_t, refs[i], &total));
        assert_int_equal(total, i);
    }
    for (int i = 0; i < MANY; i += 2)
        troupe_actor_kill(actors[i]);
    for (int i = 0; i < MANY; i += 1000) {
        int64_t total;
        assert_int_equal(troupe_get(int64_t, troupe_call(actors[i], shop_sell, 1), &total),
                         TROUPE_NOT_EXECUTED);
        troupe_must(troupe_get(int64_t, troupe_call(actors[i + 1], shop_sell, 1), &total));
    }
    free(actors);
    free(refs);
}

// A call of somebody who found an actor and sends when another one is in its slot.
static troupe_ref send_late(trp_actor *actor, uint64_t former)
{
    trp_target target = {.process = trp_home_here.process,
                         .incarnation = trp_home_here.incarnation,
                         .actor = former};
    trp_message *message = trp_message_create(TRP_MESSAGE_CALL, 0);
    assert_non_null(message);
    message->call = trp_entry_call(0, &target, 0);
    troupe_ref ref = {.id = message->call};
    trp_actor_deliver(actor, former, message);
    return ref;
}

static void assert_tells_of_former(troupe_ref ref)
{
    int64_t value;
    assert_int_equal(troupe_get(int64_t, ref, &value, SUPPORT_SOON_MS), TROUPE_NOT_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "shop 'former' was killed"));
}

static void test_late_messages(void **state)
{
    (void)state;
    shop_actor former = troupe_spawn(shop, .place = TROUPE_PLACE_HERE, .name = "former");
    uint64_t id = former.address.id;
    troupe_must(troupe_actor_status(former.address));
    assert_int_equal(troupe_actor_kill(former), TROUPE_OK);
    // Its successor ends with the message in the mailbox.
    trp_actor *actor = trp_actor_create(trp_class_of(&troupe_class_shop), NULL, 0, false);
    assert_non_null(actor);
    trp_actor_enter(actor);
    troupe_ref ref = send_late(actor, id);
    assert_true(trp_actor_close(actor, trp_actor_id(actor), TRP_ACTOR_ENDED, NULL));
    trp_actor_wake(actor);
    assert_tells_of_former(ref);
    // It is given back before anybody knew of it.
    actor = trp_actor_create(trp_class_of(&troupe_class_shop), NULL, 0, false);
    assert_non_null(actor);
    ref = send_late(actor, id);
    trp_actor_discard(actor);
    assert_tells_of_former(ref);
}

// Who posts a message to one that has been killed and whose method still runs is told so.
static void test_posts_to_one_that_ends(void **state)
{
    (void)state;
    const trp_method *rest =
        &trp_class_of(&troupe_class_shop)->methods[troupe_method_shop_rest.index];
    int before = *rests, none = 0, once = 500;
    shop_actor closing = troupe_spawn(shop, .place = TROUPE_PLACE_HERE);
    troupe_must(troupe_actor_status(closing.address));
    assert_true(trp_life_post(closing.address.id, rest, &once));
    support_await_counter(rests, before + 1);
    assert_int_equal(troupe_actor_kill(closing), TROUPE_OK);
    assert_false(trp_life_post(closing.address.id, rest, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts_to_one_that_ends),
        cmocka_unit_test(test_init_arguments),
        cmocka_unit_test(test_failing_to_start),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_killing),
        cmocka_unit_test(test_ending_in_order),
        cmocka_unit_test(test_stop_runs_deinit),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_many_actors),
        cmocka_unit_test(test_late_messages),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
