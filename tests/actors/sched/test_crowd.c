// test_crowd.c: what is begun while as many methods of a process wait as may: it fails as a whole,
// or is done as a whole. No actor is left without a holder of its address.
#include <places.h>
#include <support.h>

#include <actors/sched/scheduler.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

static struct {
    _Atomic int open; // The gate's calls end.
} * shared;           // With all processes.

// Keeps its callers waiting.
typedef struct gate {
    char unused;
} gate;

static troupe_status gate_pass(gate *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    while (!shared->open)
        (void)usleep(1000);
    return TROUPE_OK;
}

TROUPE_ACTOR(gate, (gate_pass, troupe_none, troupe_none));

// One of the crowd, and who does something in the middle of it.
typedef struct guest {
    char unused;
} guest;

TROUPE_STRUCT(made, (int, status), (troupe_actor, address));

static troupe_status guest_wait(guest *self, const troupe_actor *where, troupe_none *out)
{
    (void)self;
    gate_actor at = {*where};
    return troupe_get(troupe_none, troupe_call(at, gate_pass), out);
}

static troupe_status guest_ping(guest *self, const troupe_none *nothing, troupe_none *out)
{
    (void)self, (void)nothing, (void)out;
    return TROUPE_OK;
}

static troupe_status guest_spawn(guest *self, const int *place, made *out);
static troupe_status guest_spawn_restarted(guest *self, const troupe_none *nothing, made *out);

// What it is told where a wait is refused.
static troupe_status guest_complain(guest *self, const troupe_actor *where, troupe_text *text)
{
    (void)self;
    *text = "";
    if (troupe_actor_await_end(*where, 1, NULL) == TROUPE_BUSY)
        *text = troupe_arena_text(troupe_last_error()->text);
    return TROUPE_OK;
}

static troupe_status guest_retain(guest *self, const troupe_actor *other, int *status)
{
    (void)self;
    *status = troupe_actor_retain(*other);
    return TROUPE_OK;
}

static troupe_status guest_release(guest *self, const troupe_actor *other, troupe_none *out)
{
    (void)self, (void)out;
    return troupe_actor_release(*other);
}

TROUPE_ACTOR(guest, (guest_wait, troupe_actor, troupe_none), (guest_ping, troupe_none, troupe_none),
             (guest_spawn, int, made), (guest_spawn_restarted, troupe_none, made),
             (guest_retain, troupe_actor, int), (guest_release, troupe_actor, troupe_none),
             (guest_complain, troupe_actor, troupe_text));

static troupe_status guest_spawn(guest *self, const int *place, made *out)
{
    (void)self;
    guest_actor child = troupe_spawn(guest, .name = "child", .place = (troupe_place)*place);
    *out = (made){troupe_actor_status(child.address), child.address};
    return TROUPE_OK;
}

static troupe_status guest_spawn_restarted(guest *self, const troupe_none *nothing, made *out)
{
    (void)self, (void)nothing;
    guest_actor child =
        troupe_spawn(guest, .name = "child", .place = TROUPE_PLACE_HERE, .restarts = 1);
    *out = (made){troupe_actor_status(child.address), child.address};
    return TROUPE_OK;
}

// Lives in a process of its own, and fills that with guests.
typedef struct host {
    char unused;
} host;

static troupe_status host_fill(host *self, const troupe_actor *where, troupe_actor *spare)
{
    (void)self;
    for (int i = 0; i < TRP_BLOCKED_MAX; i++) {
        guest_actor one = troupe_spawn(guest, .place = TROUPE_PLACE_HERE);
        TROUPE_TRY(troupe_actor_status(one.address));
        TROUPE_TRY(troupe_tell_from(one, guest_wait, where));
    }
    guest_actor last = troupe_spawn(guest, .place = TROUPE_PLACE_HERE);
    *spare = last.address;
    return troupe_actor_status(last.address);
}

TROUPE_ACTOR(host, (host_fill, troupe_actor, troupe_actor));

static gate_actor door;
static host_actor inn;
static guest_actor spare; // The one in the crowd who does not wait yet.

// Seen from outside: one who tries to wait takes a place that a guest may need just then.
static bool is_full(void *user)
{
    (void)user;
    troupe_actor_list list;
    int waiting = 0;
    troupe_must(troupe_actors_list(0, &list));
    for (size_t i = 0; i < list.actors.count; i++)
        waiting += list.actors.items[i].state == TROUPE_ACTOR_WAITING;
    troupe_arena_reset();
    return waiting == TRP_BLOCKED_MAX;
}

static int set_up(void **state)
{
    (void)state;
    shared = support_share(sizeof *shared);
    if (troupe_start(0, NULL, .workers = 1, .threads = 2) != TROUPE_OK)
        return -1;
    door = troupe_spawn(gate, .place = TROUPE_PLACE_ISOLATED);
    inn = troupe_spawn(host, .place = TROUPE_PLACE_ISOLATED);
    troupe_must(
        troupe_get(troupe_actor, troupe_call_from(inn, host_fill, &door.address), &spare.address));
    return support_wait_until(is_full, NULL, SUPPORT_SOON_MS) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    shared->open = 1;
    return troupe_stop();
}

// Who is refused learns who waits for what; so does who looks from outside.
static void test_waits_are_listed_with_their_cause(void **state)
{
    (void)state;
    troupe_text text;
    static const char in[] = " in guest_wait for ";
    char what[128], more[32];
    troupe_must(
        troupe_get(troupe_text, troupe_call_from(spare, guest_complain, &door.address), &text));
    snprintf(what, sizeof what, "%sgate_pass of gate#%llu in process %u (pid ", in,
             (unsigned long long)door.address.id, door.address.process);
    const char *at = strstr(text, "guest#");
    assert_non_null(at);
    int listed = 0;
    for (at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        listed++;
    assert_in_range(listed, 3, 8);
    snprintf(more, sizeof more, "; and %d more", TRP_BLOCKED_MAX - listed);
    assert_non_null(strstr(text, more));
    troupe_actor_list list;
    int waiting = 0;
    troupe_must(troupe_actors_list(0, &list));
    for (size_t i = 0; i < list.actors.count; i++) {
        const troupe_actor_info *one = &list.actors.items[i];
        bool waits = one->waits_for != NULL && strstr(one->waits_for, what + strlen(in)) != NULL;
        waiting += waits;
        assert_true(!waits || one->state == TROUPE_ACTOR_WAITING);
    }
    assert_int_equal(waiting, TRP_BLOCKED_MAX);
    troupe_arena_reset();
}

static bool name_is_free(void *user)
{
    (void)user;
    guest_actor found;
    return troupe_lookup(guest, "child", &found) == TROUPE_NOT_FOUND;
}

// An actor elsewhere is on its way when the wait for it would be refused.
static void test_spawn(void **state)
{
    (void)state;
    for (int p = 0; p < 3; p++) {
        made out;
        troupe_none none;
        troupe_must(troupe_get(made, troupe_call(spare, guest_spawn, places[p]), &out));
        assert_int_equal(out.status, TROUPE_OK);
        guest_actor child = {out.address};
        troupe_must(troupe_get(troupe_none, troupe_call(child, guest_ping), &none));
        assert_int_equal(troupe_actor_stop(child), TROUPE_OK);
        assert_true(support_wait_until(name_is_free, NULL, SUPPORT_SOON_MS));
    }
}

// True: the driver's word that it has adopted the actor could not be waited for. Else it came
// first.
static bool adoption_is_refused(void *user)
{
    (void)user;
    made out;
    troupe_must(troupe_get(made, troupe_call(spare, guest_spawn_restarted), &out));
    if (out.status == TROUPE_OK)
        assert_int_equal(troupe_actor_stop((guest_actor){out.address}), TROUPE_OK);
    else
        assert_int_equal(out.status, TROUPE_BUSY);
    assert_true(support_wait_until(name_is_free, NULL, SUPPORT_SOON_MS));
    return out.status == TROUPE_BUSY;
}

static void test_spawn_restarted(void **state)
{
    (void)state;
    assert_true(support_wait_until(adoption_is_refused, NULL, SUPPORT_SOON_MS));
}

// True: the hold was granted, and nobody has heard of it. Else the answer came first.
static bool retain_is_refused(void *user)
{
    guest_actor *actor = user;
    int status;
    troupe_none none;
    const troupe_actor *address = &actor->address;
    troupe_must(troupe_get(int, troupe_call_from(spare, guest_retain, address), &status));
    if (status == TROUPE_OK)
        troupe_must(
            troupe_get(troupe_none, troupe_call_from(spare, guest_release, address), &none));
    else
        assert_int_equal(status, TROUPE_BUSY);
    return status == TROUPE_BUSY;
}

static void test_retain(void **state)
{
    (void)state;
    guest_actor actor = troupe_spawn(guest, .place = TROUPE_PLACE_WORKER, .counted = true);
    assert_true(support_wait_until(retain_is_refused, &actor, SUPPORT_SOON_MS));
    assert_int_equal(troupe_actor_release(actor.address), TROUPE_OK);
    assert_int_equal(troupe_actor_await_end(actor.address, SUPPORT_SOON_MS, NULL), TROUPE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_are_listed_with_their_cause),
        cmocka_unit_test(test_spawn),
        cmocka_unit_test(test_spawn_restarted),
        cmocka_unit_test(test_retain),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
