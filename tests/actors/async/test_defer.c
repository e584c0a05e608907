// test_defer.c: answers that are given after the method has returned, and continuations.
// label: local
#include <places.h>
#include <support.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/async.h>
#include <unistd.h>

TROUPE_STRUCT(report, (troupe_text, text), (troupe_array_double, numbers));
TROUPE_STRUCT(reply, (int, status), (int, value), (uint64_t, tag), (troupe_text, text));

// ---- a desk answers when it is told to

enum { OWED = 64 };

typedef struct bureau {
    troupe_deferred owed[OWED];
    int count;
    int64_t asked;
} bureau;

static troupe_status desk_ask(bureau *self, const int64_t *number, int64_t *answer)
{
    self->asked += *number;
    *answer = -1; // Ignored.
    troupe_deferred later = troupe_defer();
    if (later.id_ == 0)
        return troupe_last_error()->status;
    self->owed[self->count++] = later;
    return TROUPE_OK;
}

// Answers the oldest question.
static troupe_status desk_answer(bureau *self, const int64_t *answer, int *left)
{
    if (self->count == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "nobody has asked");
    troupe_deferred later = self->owed[0];
    memmove(self->owed, self->owed + 1, (size_t)--self->count * sizeof *self->owed);
    *left = self->count;
    TROUPE_TRY(troupe_deferred_fulfil(int64_t, &later, answer));
    if (later.id_ != 0)
        return troupe_fail(TROUPE_FAILED, "the deferred answer was not cleared");
    return TROUPE_OK;
}

static troupe_status desk_refuse(bureau *self, const troupe_text *why, troupe_none *nothing)
{
    (void)nothing;
    if (self->count == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "nobody has asked");
    troupe_deferred later = self->owed[--self->count];
    return troupe_deferred_refuse(&later, TROUPE_NO_SPACE, "refused: %s", *why);
}

// What can go wrong with a deferred answer; the text says what did not go wrong.
static troupe_status desk_misuse(bureau *self, const troupe_none *nothing, int64_t *answer)
{
    (void)self, (void)nothing, (void)answer;
    troupe_deferred later = troupe_defer(), copy = later, second = troupe_defer();
    double wrong = 1;
    int64_t right = 12;
    if (second.id_ != 0 || troupe_last_error()->status != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "it could be deferred twice");
    if (troupe_deferred_fulfil(double, &later, &wrong) != TROUPE_WRONG_TYPE)
        return troupe_fail(TROUPE_FAILED, "it took a wrong type");
    if (troupe_deferred_fulfil(int64_t, &later, &right) != TROUPE_OK)
        return troupe_fail(TROUPE_FAILED, "it did not take the right one");
    if (troupe_deferred_fulfil(int64_t, &later, &right) != TROUPE_INVALID ||
        troupe_deferred_fulfil(int64_t, &copy, &right) != TROUPE_INVALID ||
        troupe_deferred_refuse(&copy, TROUPE_FAILED, "no") != TROUPE_INVALID)
        return troupe_fail(TROUPE_FAILED, "it could be answered twice");
    return TROUPE_OK;
}

static troupe_status desk_regret(bureau *self, const troupe_none *nothing, int64_t *answer)
{
    (void)nothing, (void)answer;
    self->owed[self->count++] = troupe_defer();
    return troupe_fail(TROUPE_EXISTS, "on second thoughts, no");
}

typedef struct errand {
    troupe_deferred later;
    char text[32];
} errand;

static void *run_errand(void *user)
{
    errand *it = user;
    const double numbers[] = {1, 2, 3};
    report value = {.text = it->text, .numbers = {numbers, 3}};
    (void)troupe_deferred_fulfil(report, &it->later, &value);
    free(it);
    return NULL;
}

// Another thread answers, with texts and arrays.
static troupe_status desk_send(bureau *self, const troupe_text *text, report *out)
{
    (void)self, (void)out;
    pthread_t thread;
    errand *it = malloc(sizeof *it);
    *it = (errand){.later = troupe_defer()};
    snprintf(it->text, sizeof it->text, "%s", *text);
    if (pthread_create(&thread, NULL, run_errand, it) != 0)
        return troupe_fail(TROUPE_NO_MEMORY, "no thread");
    pthread_detach(thread);
    return TROUPE_OK;
}

static troupe_status desk_count(bureau *self, const troupe_none *nothing, int *count)
{
    (void)nothing;
    *count = self->count;
    return TROUPE_OK;
}

TROUPE_ACTOR(bureau, (desk_ask, int64_t, int64_t), (desk_answer, int64_t, int),
             (desk_refuse, troupe_text, troupe_none), (desk_misuse, troupe_none, int64_t),
             (desk_regret, troupe_none, int64_t), (desk_send, troupe_text, report),
             (desk_count, troupe_none, int));

// ---- a clerk asks a desk and goes on

typedef struct scribe {
    bureau_actor desk;
    reply last;
    char text[128];
    int answers;
    troupe_deferred later;
} scribe;

static troupe_status clerk_know(scribe *self, const bureau_actor *desk, troupe_none *nothing)
{
    (void)nothing;
    self->desk = *desk;
    return TROUPE_OK;
}

static troupe_status clerk_hear(scribe *self, const int64_t *answer, troupe_none *nothing);
static troupe_status clerk_read(scribe *self, const report *in, troupe_none *nothing);
static troupe_status clerk_begin(scribe *self, const int64_t *number, troupe_none *nothing);
static troupe_status clerk_relay(scribe *self, const int64_t *number, int64_t *answer);
static troupe_status clerk_relayed(scribe *self, const int64_t *answer, troupe_none *nothing);
static troupe_status clerk_fetch(scribe *self, const troupe_text *text, troupe_none *nothing);
static troupe_status clerk_take(scribe *self, const troupe_ref *ref, troupe_none *nothing);
static troupe_status clerk_last(scribe *self, const troupe_none *nothing, reply *last);

TROUPE_ACTOR(scribe, (clerk_know, bureau_actor, troupe_none), (clerk_hear, int64_t, troupe_none),
             (clerk_read, report, troupe_none), (clerk_begin, int64_t, troupe_none),
             (clerk_relay, int64_t, int64_t), (clerk_relayed, int64_t, troupe_none),
             (clerk_fetch, troupe_text, troupe_none), (clerk_take, troupe_ref, troupe_none),
             (clerk_last, troupe_none, reply));

static troupe_status clerk_begin(scribe *self, const int64_t *number, troupe_none *nothing)
{
    (void)nothing;
    troupe_ref answer = troupe_call(self->desk, desk_ask, *number);
    TROUPE_TRY(troupe_then(answer, clerk_hear, .tag = (uint64_t)*number));
    // It was consumed.
    return troupe_then(answer, clerk_hear) == TROUPE_INVALID
               ? TROUPE_OK
               : troupe_fail(TROUPE_FAILED, "a reference was taken twice");
}

static void note(scribe *self, int value)
{
    self->answers++;
    self->last.status = troupe_continuation_status();
    self->last.tag = troupe_continuation_tag();
    self->last.value = value;
    snprintf(self->text, sizeof self->text, "%.100s",
             self->last.status != TROUPE_OK ? troupe_last_error()->text : "");
}

static troupe_status clerk_hear(scribe *self, const int64_t *answer, troupe_none *nothing)
{
    (void)nothing;
    note(self, (int)*answer);
    return TROUPE_OK;
}

static troupe_status clerk_read(scribe *self, const report *in, troupe_none *nothing)
{
    (void)nothing;
    note(self, (int)in->numbers.count);
    if (in->text != NULL)
        snprintf(self->text, sizeof self->text, "%s", in->text);
    return TROUPE_OK;
}

static troupe_status clerk_fetch(scribe *self, const troupe_text *text, troupe_none *nothing)
{
    (void)nothing;
    return troupe_then(troupe_call(self->desk, desk_send, *text), clerk_read);
}

// Of a reference that it has been sent: it is borrowed, and yet not lost.
static troupe_status clerk_take(scribe *self, const troupe_ref *ref, troupe_none *nothing)
{
    (void)self, (void)nothing;
    return troupe_then(*ref, clerk_hear, .tag = 99);
}

// Answers with the desk's answer, without waiting for it.
static troupe_status clerk_relay(scribe *self, const int64_t *number, int64_t *answer)
{
    (void)answer;
    self->later = troupe_defer();
    return troupe_then(troupe_call(self->desk, desk_ask, *number), clerk_relayed);
}

static troupe_status clerk_relayed(scribe *self, const int64_t *answer, troupe_none *nothing)
{
    (void)nothing;
    return troupe_deferred_fulfil(int64_t, &self->later, answer);
}

static troupe_status clerk_last(scribe *self, const troupe_none *nothing, reply *last)
{
    (void)nothing;
    *last = self->last;
    last->text = self->text;
    last->status = self->answers == 0 ? -1 : last->status;
    return TROUPE_OK;
}

// ---- the tests

static bureau_actor make_desk(troupe_place place)
{
    bureau_actor actor = troupe_spawn(bureau, .place = place);
    assert_int_equal(troupe_actor_status(actor.address), TROUPE_OK);
    return actor;
}

static void assert_number(troupe_ref ref, int64_t expected)
{
    int64_t value = 0;
    assert_int_equal(troupe_get(int64_t, ref, &value, SUPPORT_SOON_MS), TROUPE_OK);
    assert_int_equal(value, expected);
}

// Answers the next question, which may be on its way still.
static void answer(bureau_actor desk, int64_t value)
{
    int left;
    troupe_status status;
    while ((status = troupe_get(int, troupe_call(desk, desk_answer, value), &left)) ==
           TROUPE_NOT_FOUND)
        usleep(200);
    troupe_must(status);
}

static void refuse(bureau_actor desk, const char *why)
{
    troupe_none nothing;
    troupe_status status;
    while ((status = troupe_get(troupe_none, troupe_call(desk, desk_refuse, why), &nothing)) ==
           TROUPE_NOT_FOUND)
        usleep(200);
    troupe_must(status);
}

static void test_an_answer_comes_later(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        bureau_actor desk = make_desk(places[i]);
        troupe_ref first = troupe_call(desk, desk_ask, 1), second = troupe_call(desk, desk_ask, 2);
        int left;
        int64_t value;
        troupe_must(troupe_get(int, troupe_call(desk, desk_count), &left));
        assert_int_equal(left, 2); // Both methods have returned,
        assert_int_equal(troupe_get(int64_t, first, &value, TROUPE_POLL), TROUPE_TIMED_OUT);
        answer(desk, 40);
        assert_number(first, 40);
        assert_int_equal(troupe_get(int64_t, second, &value, TROUPE_POLL), TROUPE_TIMED_OUT);
        answer(desk, 50);
        assert_number(second, 50);
        troupe_actor_kill(desk);
    }
}

static void test_an_answer_can_be_a_failure(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        bureau_actor desk = make_desk(places[i]);
        troupe_ref call = troupe_call(desk, desk_ask, 1);
        int64_t value;
        refuse(desk, "no room");
        assert_int_equal(troupe_get(int64_t, call, &value), TROUPE_NO_SPACE);
        assert_string_equal(troupe_last_error()->text, "refused: no room");
        assert_int_equal(troupe_last_error()->outcome, TROUPE_OUTCOME_FAILED);
        assert_non_null(strstr(troupe_last_error()->actor, "bureau"));
        troupe_actor_kill(desk);
    }
}

static void test_exactly_one_answer(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        bureau_actor desk = make_desk(places[i]);
        assert_number(troupe_call(desk, desk_misuse), 12);
        int64_t value;
        int left;
        assert_int_equal(troupe_get(int64_t, troupe_call(desk, desk_regret), &value),
                         TROUPE_EXISTS);
        assert_int_equal(troupe_get(int, troupe_call(desk, desk_answer, 1), &left),
                         TROUPE_INVALID); // The method had answered itself.
        troupe_actor_kill(desk);
    }
    troupe_deferred none = troupe_defer();
    assert_int_equal(none.id_, 0);
    assert_int_equal(troupe_last_error()->status, TROUPE_INVALID);
    int64_t value = 1;
    assert_int_equal(troupe_deferred_fulfil(int64_t, &none, &value), TROUPE_INVALID);
}

static void test_another_thread_answers(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        bureau_actor desk = make_desk(places[i]);
        report value;
        assert_int_equal(troupe_get(report, troupe_call(desk, desk_send, "by thread"), &value),
                         TROUPE_OK);
        assert_string_equal(value.text, "by thread");
        assert_int_equal(value.numbers.count, 3);
        assert_true(value.numbers.items[2] == 3);
        troupe_arena_reset();
        troupe_actor_kill(desk);
    }
}

static void test_what_is_owed_ends_with_the_actor(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        for (int ended = 0; ended < 2; ended++) {
            bureau_actor desk = make_desk(places[i]);
            troupe_ref call = troupe_call(desk, desk_ask, 1);
            int64_t value;
            int left;
            troupe_must(troupe_get(int, troupe_call(desk, desk_count), &left));
            if (ended)
                troupe_actor_end(desk);
            else
                troupe_actor_kill(desk);
            assert_int_equal(troupe_get(int64_t, call, &value, SUPPORT_SOON_MS),
                             TROUPE_MAYBE_EXECUTED);
            assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
        }
    }
}

static void test_a_deferred_call_can_be_given_up(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++) {
        bureau_actor desk = make_desk(places[i]);
        troupe_ref call = troupe_call(desk, desk_ask, 1);
        int64_t value;
        int left;
        troupe_must(troupe_get(int, troupe_call(desk, desk_count), &left));
        assert_int_equal(troupe_cancel(call), TROUPE_OK);
        assert_int_equal(troupe_get(int64_t, call, &value, SUPPORT_SOON_MS), TROUPE_CANCELLED);
        assert_int_equal(troupe_last_error()->executed, TROUPE_EXECUTED_MAYBE);
        assert_int_equal(troupe_get(int, troupe_call(desk, desk_answer, 3), &left),
                         TROUPE_CANCELLED); // The method is told that nobody waits.
        call = troupe_call(troupe_with(desk, .deadline_ms = 20), desk_ask, 1);
        assert_int_equal(troupe_get(int64_t, call, &value), TROUPE_DEADLINE_EXCEEDED);
        troupe_actor_kill(desk);
    }
}

static bool has_heard(void *user)
{
    scribe_actor *actor = user;
    reply last;
    troupe_must(troupe_get(reply, troupe_call(*actor, clerk_last), &last));
    return last.status != -1;
}

static reply heard(scribe_actor actor)
{
    reply last;
    assert_true(support_wait_until(has_heard, &actor, SUPPORT_SOON_MS));
    troupe_must(troupe_get(reply, troupe_call(actor, clerk_last), &last));
    return last;
}

static scribe_actor make_clerk(troupe_place place, bureau_actor desk)
{
    scribe_actor actor = troupe_spawn(scribe, .place = place);
    troupe_none nothing;
    troupe_must(troupe_get(troupe_none, troupe_call_from(actor, clerk_know, &desk), &nothing));
    return actor;
}

static void test_a_value_goes_on_to_a_method(void **state)
{
    (void)state;
    troupe_none nothing;
    for (int i = 0; i < PLACES * PLACES; i++) {
        bureau_actor desk = make_desk(places[i / PLACES]);
        scribe_actor clerk = make_clerk(places[i % PLACES], desk);
        troupe_must(troupe_get(troupe_none, troupe_call(clerk, clerk_begin, 5), &nothing));
        answer(desk, 50);
        reply last = heard(clerk);
        assert_int_equal(last.status, TROUPE_OK);
        assert_int_equal(last.value, 50);
        assert_int_equal(last.tag, 5);
        troupe_actor_kill(clerk);
        clerk = make_clerk(places[i % PLACES], desk);
        troupe_must(troupe_get(troupe_none, troupe_call(clerk, clerk_fetch, "long"), &nothing));
        last = heard(clerk);
        assert_string_equal(last.text, "long");
        assert_int_equal(last.value, 3);
        troupe_actor_kill(clerk);
        troupe_actor_kill(desk);
        troupe_arena_reset();
    }
}

static void test_a_failure_goes_on_to_the_method(void **state)
{
    (void)state;
    troupe_none nothing;
    for (int i = 0; i < PLACES * PLACES; i++) {
        bureau_actor desk = make_desk(places[i / PLACES]);
        scribe_actor clerk = make_clerk(places[i % PLACES], desk);
        troupe_must(troupe_get(troupe_none, troupe_call(clerk, clerk_begin, 6), &nothing));
        refuse(desk, "closed");
        reply last = heard(clerk);
        assert_int_equal(last.status, TROUPE_NO_SPACE);
        assert_string_equal(last.text, "refused: closed");
        assert_int_equal(last.value, 0);
        assert_int_equal(last.tag, 6);
        troupe_actor_kill(clerk);
        clerk = make_clerk(places[i % PLACES], desk);
        troupe_must(troupe_get(troupe_none, troupe_call(clerk, clerk_begin, 7), &nothing));
        troupe_actor_kill(desk); // Before the question reaches it, or after.
        last = heard(clerk);
        assert_true(last.status == TROUPE_MAYBE_EXECUTED || last.status == TROUPE_NOT_EXECUTED);
        troupe_actor_kill(clerk);
        troupe_arena_reset();
    }
}

static void test_references_of_all_kinds_go_on(void **state)
{
    (void)state;
    troupe_none nothing;
    int64_t number = 77;
    double wrong = 1;
    for (int i = 0; i < PLACES; i++) {
        bureau_actor desk = make_desk(TROUPE_PLACE_HERE);
        scribe_actor clerk = make_clerk(places[i], desk);
        troupe_ref object = troupe_put(int64_t, &number);
        troupe_must(
            troupe_get(troupe_none, troupe_call_from(clerk, clerk_take, &object), &nothing));
        assert_int_equal(heard(clerk).value, 77);
        assert_int_equal(heard(clerk).tag, 99);
        troupe_ref_drop(object);
        troupe_ref other = troupe_put(double, &wrong);
        assert_int_equal(
            troupe_get(troupe_none, troupe_call_from(clerk, clerk_take, &other), &nothing),
            TROUPE_WRONG_TYPE);
        troupe_ref_drop(other);
        troupe_actor_kill(clerk);
        // One that is pending still, and another process's.
        clerk = make_clerk(places[i], desk);
        troupe_ref pending = troupe_call(desk, desk_ask, 1);
        troupe_must(
            troupe_get(troupe_none, troupe_call_from(clerk, clerk_take, &pending), &nothing));
        answer(desk, 78);
        assert_int_equal(heard(clerk).value, 78);
        assert_number(pending, 78);
        troupe_actor_kill(clerk);
        troupe_actor_kill(desk);
    }
    assert_int_equal(troupe_then((troupe_ref){0}, clerk_hear), TROUPE_INVALID); // In no actor.
}

static void test_a_chain_of_deferred_answers(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES * PLACES; i++) {
        bureau_actor desk = make_desk(places[i / PLACES]);
        scribe_actor clerk = make_clerk(places[i % PLACES], desk);
        troupe_ref call = troupe_call(clerk, clerk_relay, 8);
        reply last; // The clerk serves others meanwhile.
        troupe_must(troupe_get(reply, troupe_call(clerk, clerk_last), &last));
        answer(desk, 80);
        assert_number(call, 80);
        troupe_actor_kill(clerk);
        troupe_actor_kill(desk);
        troupe_arena_reset();
    }
}

static void test_an_actor_may_end_before_its_continuation(void **state)
{
    (void)state;
    troupe_none nothing;
    for (int i = 0; i < PLACES; i++) {
        bureau_actor desk = make_desk(places[i]);
        scribe_actor clerk = make_clerk(TROUPE_PLACE_HERE, desk);
        troupe_must(troupe_get(troupe_none, troupe_call(clerk, clerk_begin, 9), &nothing));
        troupe_actor_kill(clerk);
        answer(desk, 1); // To nobody.
        troupe_actor_kill(desk);
    }
}

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .workers = 2, .threads = 2));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_comes_later),
        cmocka_unit_test(test_an_answer_can_be_a_failure),
        cmocka_unit_test(test_exactly_one_answer),
        cmocka_unit_test(test_another_thread_answers),
        cmocka_unit_test(test_what_is_owed_ends_with_the_actor),
        cmocka_unit_test(test_a_deferred_call_can_be_given_up),
        cmocka_unit_test(test_a_value_goes_on_to_a_method),
        cmocka_unit_test(test_a_failure_goes_on_to_the_method),
        cmocka_unit_test(test_references_of_all_kinds_go_on),
        cmocka_unit_test(test_a_chain_of_deferred_answers),
        cmocka_unit_test(test_an_actor_may_end_before_its_continuation),
    };
    return cmocka_run_group_tests(tests, NULL, stop_runtime);
}
