// test_state.c: what a restart keeps of an actor's state: saved on request, after messages and
// before a restart by request, and given back to the next start, in place and in another process.
// label: local
#include <places.h>
#include <support.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(opening, (int, value), (bool, saves), (int, fails_at), (bool, holds_picture),
              (bool, ends), (troupe_ref, picture));
TROUPE_STRUCT(page, (int, value), (troupe_text, owner), (troupe_bytes, ballast),
              (troupe_ref, picture));
TROUPE_STRUCT(reading, (int, value), (int, restarts), (int, process), (int, restored));

typedef struct ledger {
    int value, restored;
    troupe_ref picture; // Kept; id 0: none.
    size_t ballast;
} ledger;

static struct {
    _Atomic int saves, restores, deinits, inits;
    _Atomic bool save_fails, restore_fails, save_nests;
    _Atomic int nested; // What a save inside save has returned.
} * shared;             // With the workers.

static troupe_status ledger_init(ledger *self, const opening *how)
{
    shared->inits++;
    self->value = how->value;
    if (how->holds_picture)
        self->picture = troupe_ref_keep(how->picture);
    if (how->saves)
        TROUPE_TRY(troupe_actor_save());
    if (how->ends)
        return troupe_actor_exit();
    int restarts = (int)troupe_actor_restarts();
    return how->fails_at == 0 || restarts != how->fails_at
               ? TROUPE_OK
               : troupe_fail(TROUPE_IO, "start %d fails", restarts);
}

static void ledger_deinit(ledger *self)
{
    shared->deinits++;
    troupe_ref_drop(self->picture);
}

static troupe_status ledger_store(ledger *self, page *image)
{
    shared->saves++;
    if (shared->save_nests)
        shared->nested = troupe_actor_save();
    if (shared->save_fails)
        return troupe_fail(TROUPE_IO, "the ink is dry");
    char *ballast = troupe_arena_alloc(self->ballast + 1);
    memset(ballast, 'x', self->ballast);
    *image = (page){.value = self->value,
                    .owner = "me",
                    .ballast = {ballast, self->ballast},
                    .picture = self->picture};
    return TROUPE_OK;
}

static troupe_status ledger_recall(ledger *self, const page *image)
{
    shared->restores++;
    if (shared->restore_fails)
        return troupe_fail(TROUPE_CORRUPT, "the page is torn");
    if (strcmp(image->owner, "me") != 0)
        return troupe_fail(TROUPE_CORRUPT, "the page is another's");
    for (size_t i = 0; i < image->ballast.size; i++)
        if (((const char *)image->ballast.data)[i] != 'x')
            return troupe_fail(TROUPE_CORRUPT, "the page is smudged");
    self->value = image->value;
    self->ballast = image->ballast.size;
    troupe_ref_drop(self->picture); // What init has kept.
    self->picture = image->picture.id != 0 ? troupe_ref_keep(image->picture) : (troupe_ref){0};
    self->restored = (int)troupe_actor_restarts();
    return TROUPE_OK;
}

static troupe_status ledger_add(ledger *self, const int *amount, int *value)
{
    *value = self->value += *amount;
    return TROUPE_OK;
}

static troupe_status ledger_save(ledger *self, const int *ballast, troupe_none *out)
{
    (void)out;
    self->ballast = (size_t)*ballast;
    return troupe_actor_save();
}

static troupe_status ledger_look(ledger *self, const troupe_none *nothing, reading *out)
{
    (void)nothing;
    *out = (reading){self->value, (int)troupe_actor_restarts(), getpid(), self->restored};
    return TROUPE_OK;
}

// Adds, and then fails or crashes.
static troupe_status ledger_fall(ledger *self, const bool *crash, int *out)
{
    *out = self->value += 1000;
    if (!*crash)
        return troupe_actor_fail(TROUPE_IO, "the books do not balance");
    (void)kill(getpid(), SIGKILL);
    (void)pause();
    return TROUPE_OK;
}

static troupe_status ledger_picture(ledger *self, const troupe_none *nothing, int *out)
{
    (void)nothing;
    if (self->picture.id == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no picture");
    return troupe_get(int, troupe_ref_keep(self->picture), out);
}

TROUPE_ACTOR_INIT(ledger, (ledger_init, opening), ledger_deinit, (ledger_add, int, int),
                  (ledger_save, int, troupe_none), (ledger_look, troupe_none, reading),
                  (ledger_fall, bool, int), (ledger_picture, troupe_none, int));
TROUPE_STATE(ledger, page, ledger_store, ledger_recall);

static bool is_local(void)
{
    return getenv("TROUPE_LOCAL") != NULL;
}

static int set_up(void **state)
{
    (void)state;
    shared = support_zeros(shared, sizeof *shared);
    return troupe_start(0, NULL, .workers = 1, .threads = 2) == TROUPE_OK ? 0 : -1;
}

static reading look_at(ledger_actor actor)
{
    reading out = {0};
    troupe_must(troupe_get(reading, troupe_call(actor, ledger_look), &out));
    return out;
}

static int add(ledger_actor actor, int amount)
{
    int value = 0;
    troupe_must(troupe_get(int, troupe_call(actor, ledger_add, amount), &value));
    return value;
}

static void save(ledger_actor actor, int ballast)
{
    troupe_none none;
    troupe_must(troupe_get(troupe_none, troupe_call(actor, ledger_save, ballast), &none));
}

// By a crash where its process may go, else as an actor fails.
static void fall(ledger_actor actor, troupe_place place)
{
    int out;
    bool crash = place != TROUPE_PLACE_HERE && !is_local();
    assert_int_equal(troupe_get(int, troupe_call(actor, ledger_fall, crash), &out),
                     crash ? TROUPE_MAYBE_EXECUTED : TROUPE_IO);
}

// As an actor fails, wherever it lives.
static void fall_in_place(ledger_actor actor)
{
    int out;
    assert_int_equal(troupe_get(int, troupe_call(actor, ledger_fall, false), &out), TROUPE_IO);
}

// ---- when it is saved

static void test_saved_by_request(void **state)
{
    (void)state;
    opening from = {.value = 5};
    for (int p = 0; p < PLACES; p++)
        for (int large = 0; large < 2; large++) {
            ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p],
                                                   .backoff_ms = 1, .restarts = TROUPE_FOREVER);
            troupe_must(troupe_actor_status(actor.address));
            // Nothing was saved yet: init alone.
            assert_int_equal(add(actor, 1), 6);
            fall(actor, places[p]);
            assert_int_equal(look_at(actor).value, 5);
            assert_int_equal(look_at(actor).restored, 0);
            assert_int_equal(add(actor, 2), 7);
            save(actor, large != 0 ? 300000 : 0);
            assert_int_equal(add(actor, 100), 107); // Not in the image.
            for (int i = 0; i < 3; i++) {
                if (i == 1)
                    fall_in_place(actor); // In place, after it was made elsewhere.
                else
                    fall(actor, places[p]);
                reading now = look_at(actor);
                assert_int_equal(now.value, 7);
                assert_int_equal(now.restarts, 2 + i);
                assert_int_equal(now.restored, 2 + i);
            }
            assert_int_equal(add(actor, 1), 8);
            save(actor, 0); // By a later incarnation.
            fall(actor, places[p]);
            assert_int_equal(look_at(actor).value, 8);
            troupe_actor_kill(actor);
        }
}

static void test_saved_after_messages(void **state)
{
    (void)state;
    opening from = {.value = 0};
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1,
                                               .restarts = TROUPE_FOREVER, .save_every = 1);
        troupe_must(troupe_actor_status(actor.address));
        int sum = 0;
        for (int i = 1; i <= 5; i++) {
            assert_int_equal(add(actor, i), sum += i);
            fall(actor, places[p]); // What was answered was saved; what fell was not.
            assert_int_equal(look_at(actor).value, sum);
        }
        troupe_actor_kill(actor);
        actor = troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1,
                                  .restarts = TROUPE_FOREVER, .save_every = 3);
        int saves = shared->saves;
        for (int i = 1; i <= 5; i++)
            assert_int_equal(add(actor, 1), i);
        assert_int_equal(shared->saves - saves, 1);
        fall(actor, places[p]);
        assert_int_equal(look_at(actor).value, 3);
        troupe_actor_kill(actor);
    }
}

// What fails an actor is not what the next start shall have.
static void test_failed_state(void **state)
{
    (void)state;
    opening from = {.value = 5};
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p],
                                               .restarts = TROUPE_FOREVER, .save_every = 1);
        assert_int_equal(add(actor, 1), 6);
        fall_in_place(actor);
        assert_int_equal(look_at(actor).value, 6);
        troupe_actor_kill(actor);
    }
}

static bool is_restarted(void *user)
{
    ledger_actor *actor = user;
    reading out;
    troupe_status status = troupe_get(reading, troupe_call(*actor, ledger_look), &out);
    assert_true(status == TROUPE_OK || status == TROUPE_MAYBE_EXECUTED);
    return status == TROUPE_OK && out.restarts > 0;
}

static void test_restart_by_request(void **state)
{
    (void)state;
    opening from = {.value = 5};
    for (int p = 0; p < PLACES; p++)
        for (int at_once = 0; at_once < 2; at_once++) {
            ledger_actor actor =
                troupe_spawn_from(ledger, &from, .place = places[p], .restarts = 1);
            assert_int_equal(add(actor, 1), 6);
            reading before = look_at(actor);
            assert_int_equal(troupe_actor_restart(actor, .at_once = at_once != 0), TROUPE_OK);
            assert_true(support_wait_until(is_restarted, &actor, SUPPORT_SOON_MS));
            reading now = look_at(actor);
            assert_int_equal(now.value, at_once != 0 ? 5 : 6);
            assert_int_equal(now.restarts, 1);
            bool moves = places[p] == TROUPE_PLACE_ISOLATED && !is_local();
            assert_int_equal(now.process == before.process, !moves);
            troupe_actor_kill(actor);
        }
}

// Init's own save is there from the first message on, and after a start that has used it.
static void test_saved_by_init(void **state)
{
    (void)state;
    opening from = {.value = 5, .saves = true};
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1,
                                               .restarts = TROUPE_FOREVER);
        troupe_must(troupe_actor_status(actor.address));
        for (int i = 1; i <= 2; i++) {
            assert_int_equal(add(actor, 1), 6);
            fall(actor, places[p]);
            reading now = look_at(actor);
            assert_int_equal(now.value, 5);
            assert_int_equal(now.restored, i);
        }
        // It does not take the place of what a life before has saved.
        assert_int_equal(add(actor, 2), 7);
        save(actor, 0);
        for (int i = 3; i <= 4; i++) {
            fall(actor, places[p]);
            assert_int_equal(look_at(actor).value, 7);
        }
        troupe_actor_kill(actor);
    }
}

// What an init saved that failed after it is nobody's: the next start begins without.
static void test_saved_by_an_init_that_fails(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        opening from = {.value = 5, .fails_at = 1};
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1,
                                               .restarts = TROUPE_FOREVER);
        fall(actor, places[p]);
        assert_int_equal(look_at(actor).restarts, 2);
        assert_int_equal(look_at(actor).restored, 0);
        troupe_actor_kill(actor);
        from.saves = true;
        from.value = 6;
        actor = troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1,
                                  .restarts = TROUPE_FOREVER);
        assert_int_equal(add(actor, 1), 7);
        fall(actor, places[p]);
        assert_int_equal(look_at(actor).restarts, 2);
        assert_int_equal(look_at(actor).value, 6);
        assert_int_equal(look_at(actor).restored, 2); // Of the first start.
        troupe_actor_kill(actor);
    }
}

// ---- what goes wrong

static void test_failures(void **state)
{
    (void)state;
    opening from = {.value = 5};
    troupe_none none;
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1,
                                               .restarts = 3, .save_every = 1);
        assert_int_equal(add(actor, 1), 6);
        shared->save_fails = true; // Then the image before is the last one.
        assert_int_equal(troupe_get(troupe_none, troupe_call(actor, ledger_save, 0), &none),
                         TROUPE_IO);
        assert_string_equal(troupe_last_error()->text, "the ink is dry");
        assert_int_equal(add(actor, 1), 7);
        fall(actor, places[p]);
        assert_int_equal(look_at(actor).value, 6);
        shared->save_fails = false;
        int inits = shared->inits, deinits = shared->deinits;
        shared->restore_fails = true; // A start that fails, until the budget is spent.
        fall(actor, places[p]);
        troupe_down down;
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, &down), TROUPE_OK);
        assert_int_equal(down.reason, TROUPE_DOWN_ERROR);
        assert_non_null(strstr(down.text, "could not be restarted: the page is torn"));
        shared->restore_fails = false;
        assert_int_equal(shared->inits - inits, 2);
        // What init had made was undone, and in place the life before, too.
        bool in_place = places[p] == TROUPE_PLACE_HERE || is_local();
        assert_int_equal(shared->deinits - deinits, in_place ? 3 : 2);
    }
}

typedef struct plain {
    int unused;
} plain;

static troupe_status plain_save(plain *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return troupe_actor_save();
}

TROUPE_ACTOR(plain, (plain_save, troupe_none, troupe_none));

static void test_refused(void **state)
{
    (void)state;
    opening from = {.value = 5};
    troupe_none none;
    ledger_actor actor = troupe_spawn_from(ledger, &from, .save_every = 1);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_INVALID);
    actor = troupe_spawn_from(ledger, &from, .save_every = 1, .restarts = 1, .concurrency = 2);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_INVALID);
    plain_actor other = troupe_spawn(plain, .save_every = 1, .restarts = 1);
    assert_int_equal(troupe_actor_status(other.address), TROUPE_INVALID);
    assert_non_null(strstr(troupe_last_error()->text, "TROUPE_STATE"));
    other = troupe_spawn(plain, .restarts = 1);
    assert_int_equal(troupe_get(troupe_none, troupe_call(other, plain_save), &none),
                     TROUPE_UNSUPPORTED);
    troupe_actor_kill(other);
    actor = troupe_spawn_from(ledger, &from);
    assert_int_equal(troupe_get(troupe_none, troupe_call(actor, ledger_save, 0), &none),
                     TROUPE_UNSUPPORTED);
    troupe_actor_kill(actor);
    assert_int_equal(troupe_actor_save(), TROUPE_INVALID);
    troupe_state broken = troupe_state_ledger;
    assert_int_equal(troupe_state_register(&troupe_class_ledger, &broken), TROUPE_OK);
    broken.image = &troupe_type_int;
    assert_int_equal(troupe_state_register(&troupe_class_ledger, &broken), TROUPE_EXISTS);
    broken.save = NULL;
    assert_int_equal(troupe_state_register(&troupe_class_ledger, &broken), TROUPE_INVALID);
    broken = troupe_state_ledger;
    broken.abi++;
    assert_int_equal(troupe_state_register(&troupe_class_plain, &broken), TROUPE_VERSION);
}

// ---- references

static uint64_t count_objects(void)
{
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    return usage.objects;
}

static bool has_no_objects(void *user)
{
    (void)user;
    return count_objects() == 0;
}

// Objects that init arguments and images refer to are held as long as the actor may need them.
static void test_references(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++)
        for (int saved = 0; saved < 2; saved++) {
            int number = 42, out = 0;
            opening from = {.value = 5, .holds_picture = true, .picture = troupe_put(int, &number)};
            ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p],
                                                   .backoff_ms = 1, .restarts = TROUPE_FOREVER);
            troupe_must(troupe_actor_status(actor.address));
            troupe_ref_drop(from.picture);
            for (int i = 0; i < 3 * saved; i++) // Each image has a hold of its own.
                save(actor, 0);
            for (int i = 0; i < 4; i++) {
                troupe_must(troupe_get(int, troupe_call(actor, ledger_picture), &out));
                assert_int_equal(out, 42);
                if (i == 1)
                    fall_in_place(actor);
                else
                    fall(actor, places[p]);
            }
            assert_int_equal(look_at(actor).restarts, 4);
            assert_int_equal(troupe_actor_stop(actor), TROUPE_OK); // With its deinit.
            assert_true(support_wait_until(has_no_objects, NULL, SUPPORT_SOON_MS));
        }
}

// What init has saved is given up if the actor ends before it is adopted.
static void test_references_of_one_that_ends(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        int number = 42;
        opening from = {.saves = true, .ends = true, .holds_picture = true};
        from.picture = troupe_put(int, &number);
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p], .restarts = 3);
        troupe_ref_drop(from.picture);
        assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, NULL), TROUPE_OK);
        assert_true(support_wait_until(has_no_objects, NULL, SUPPORT_SOON_MS));
    }
}

// A call's reference is kept as its value.
static void test_reference_of_a_call(void **state)
{
    (void)state;
    for (int p = 0; p < PLACES; p++) {
        int out = 0;
        opening nothing = {0};
        ledger_actor source = troupe_spawn_from(ledger, &nothing);
        opening from = {.holds_picture = true, .picture = troupe_call(source, ledger_add, 7)};
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p], .restarts = 1);
        troupe_must(troupe_actor_status(actor.address));
        troupe_ref_drop(from.picture);
        assert_int_equal(troupe_actor_stop(source), TROUPE_OK); // After the call.
        fall(actor, places[p]);
        troupe_must(troupe_get(int, troupe_call(actor, ledger_picture), &out));
        assert_int_equal(out, 7);
        assert_int_equal(troupe_actor_stop(actor), TROUPE_OK);
        assert_true(support_wait_until(has_no_objects, NULL, SUPPORT_SOON_MS));
    }
}

// A save asked for inside save is refused, and neither waits for itself nor spoils the one that
// runs.
static void test_save_in_save(void **state)
{
    (void)state;
    opening from = {.value = 5};
    shared->save_nests = true;
    for (int p = 0; p < PLACES; p++) {
        ledger_actor actor = troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1,
                                               .restarts = 4, .save_every = 2);
        troupe_must(troupe_actor_status(actor.address));
        assert_int_equal(add(actor, 1), 6);
        save(actor, 0);
        assert_int_equal(shared->nested, TROUPE_INVALID);
        fall(actor, places[p]);
        assert_int_equal(look_at(actor).value, 6);
        shared->nested = TROUPE_OK;
        assert_int_equal(add(actor, 1), 7);
        assert_int_equal(add(actor, 1), 8);
        fall(actor, places[p]); // One of both was the second message.
        assert_true(look_at(actor).value >= 7);
        assert_int_equal(shared->nested, TROUPE_INVALID);
        shared->nested = TROUPE_OK;
        troupe_actor_kill(actor);
    }
    shared->save_nests = false;
}

// An image is refused that could not travel to the next start with the init arguments: otherwise
// every restart would fail. By the last test: it starts the runtime anew.
static void test_too_large(void **state)
{
    (void)state;
    enum { LIMIT = 1 << 16, LARGE = LIMIT - 8192 };
    assert_int_equal(troupe_stop(), TROUPE_OK);
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .threads = 2, .message_bytes_max = LIMIT),
                     TROUPE_OK);
    opening from = {.value = 5};
    for (int p = 0; p < PLACES; p++) {
        troupe_none none;
        bool moves = places[p] != TROUPE_PLACE_HERE && !is_local();
        ledger_actor actor =
            troupe_spawn_from(ledger, &from, .place = places[p], .backoff_ms = 1, .restarts = 4);
        troupe_must(troupe_actor_status(actor.address));
        assert_int_equal(add(actor, 1), 6);
        save(actor, LARGE - 1000);
        fall(actor, places[p]);
        assert_int_equal(add(actor, 1), 7);
        assert_int_equal(troupe_get(troupe_none, troupe_call(actor, ledger_save, LARGE), &none),
                         moves ? TROUPE_TOO_LARGE : TROUPE_OK);
        if (moves)
            assert_non_null(strstr(troupe_last_error()->text, "message_bytes_max"));
        for (int i = 0; i < 2; i++) { // The image before it is the last one.
            fall(actor, places[p]);
            assert_int_equal(look_at(actor).value, moves ? 6 : 7);
        }
        troupe_actor_kill(actor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saved_by_request),
        cmocka_unit_test(test_saved_after_messages),
        cmocka_unit_test(test_failed_state),
        cmocka_unit_test(test_restart_by_request),
        cmocka_unit_test(test_saved_by_init),
        cmocka_unit_test(test_saved_by_an_init_that_fails),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_reference_of_a_call),
        cmocka_unit_test(test_references_of_one_that_ends),
        cmocka_unit_test(test_save_in_save),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
