// test_deaths.c: what a death costs the processes that it does not concern: they are not woken,
// whichever other process dies; those that have sent the dead one something, or were sent something
// by it, are told.
#include <places.h>
#include <support.h>

#include <runtime/link/dispatch.h>
#include <runtime/link/peer.h>
#include <runtime/node/node_client.h>
#include <runtime/shm/process_table.h>
#include <signal.h>
#include <string.h>

enum { VICTIMS = 40, TALK = 1, LOOK = 2, NOTICE = 3 };

static struct {
    _Atomic int deaths;                      // That the driver was told of,
    _Atomic int notices[TRP_PROCESSES_MAX];  // and each worker, as it says itself,
    _Atomic bool noticed[TRP_PROCESSES_MAX]; // and of which; those of the friend alone.
    _Atomic uint32_t friend;
    _Atomic uint64_t replies;
} seen;

// What a worker does: it sends a frame to the process that the driver names, and answers.
static void on_frame(const trp_frame *frame)
{
    trp_frame reply = {.kind = TRP_FRAME_REPLY, .call = frame->call};
    if (frame->kind == TRP_FRAME_REPLY && frame->method == NOTICE) {
        if (frame->from == seen.friend)
            seen.noticed[frame->target] = true;
        seen.notices[frame->from]++;
    } else if (frame->kind == TRP_FRAME_REPLY) {
        seen.replies += frame->call;
    }
    if (frame->kind != TRP_FRAME_CALL)
        return;
    if (frame->method == TALK) {
        trp_frame hello = {.kind = TRP_FRAME_REPLY};
        (void)trp_process_send((uint32_t)frame->target, frame->schema, &hello, 0);
    }
    (void)trp_process_send(frame->from, frame->from_incarnation, &reply, 0);
    trp_process_credit(frame->from, frame->from_incarnation, frame->body_size);
}

// A worker says at once what it was told.
static void on_death(uint32_t process, uint64_t incarnation, const char *cause)
{
    (void)incarnation, (void)cause;
    seen.deaths++;
    trp_frame notice = {.kind = TRP_FRAME_REPLY, .method = NOTICE, .target = process};
    if (!trp_process_is_driver())
        (void)trp_process_send(TRP_PROCESS_DRIVER,
                               trp_segment_process(TRP_PROCESS_DRIVER)->incarnation, &notice, 0);
}

static int set_up(void **state)
{
    (void)state;
    memset((void *)&seen, 0, sizeof seen);
    trp_process_handlers_set(&(trp_handlers){.frame = on_frame, .death = on_death});
    return troupe_start(0, NULL, .workers = 2) == TROUPE_OK ? 0 : -1;
}

static bool deaths_reached(void *context)
{
    return seen.deaths >= *(int *)context;
}

static bool replies_reached(void *context)
{
    return seen.replies >= *(uint64_t *)context;
}

typedef struct place {
    uint32_t process;
    uint64_t incarnation;
} place;

static place start_one(void)
{
    place made;
    assert_int_equal(trp_node_worker(true, &made.process, &made.incarnation), TROUPE_OK);
    return made;
}

static void ask(place who, uint32_t method, place about)
{
    uint64_t next = seen.replies + 1;
    trp_frame frame = {.kind = TRP_FRAME_CALL,
                       .method = method,
                       .call = 1,
                       .target = about.process,
                       .schema = about.incarnation};
    assert_int_equal(trp_process_send(who.process, who.incarnation, &frame, 0), TROUPE_OK);
    assert_true(support_wait_until(replies_reached, &next, SUPPORT_SOON_MS));
}

static bool friend_knows(void *context)
{
    const place *dead = context;
    return seen.noticed[dead[0].process] && seen.noticed[dead[1].process];
}

static bool has_noticed_all(void *context)
{
    return seen.notices[*(uint32_t *)context] == VICTIMS;
}

static void test_deaths_of_strangers_wake_no_waiter(void **state)
{
    (void)state;
    place bystander = start_one(), friend = start_one(), victims[VICTIMS];
    seen.friend = friend.process;
    for (int i = 0; i < VICTIMS; i++)
        victims[i] = start_one();
    ask(bystander, LOOK, bystander);
    ask(friend, TALK, victims[0]); // What the one has sent the other,
    ask(victims[1], TALK, friend); // and the other way round, is enough.
    for (int told = 1; told <= VICTIMS; told++) {
        int pid = trp_process_pid(victims[VICTIMS - told].process); // The friend's come last.
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_true(support_wait_until(deaths_reached, &told, SUPPORT_SOON_MS));
    }
    assert_true(support_wait_until(friend_knows, victims, SUPPORT_SOON_MS));
    assert_int_equal(seen.notices[bystander.process], 0);
    ask(bystander, LOOK, bystander); // Once it looks, it hears of the strangers as well.
    assert_true(support_wait_until(has_noticed_all, &bystander.process, SUPPORT_SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deaths_of_strangers_wake_no_waiter, set_up,
                                        stop_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
