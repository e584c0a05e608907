// test_losses_soak.far.c: the load and the losses of two nodes: calls, tells and streams in both
// directions while one node is killed, stopped and left, and the link between the two goes down.
#include "losses.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <pthread.h>
#include <runtime/shm/segment.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 600, // After which a silent node is given up.
    JOIN_MS = 10000,
    WAIT_MS =
        (TIMEOUT_MS + 4400) * LOSSES_FACTOR, // Longer than a call waits for a node that is gone.
    CLERKS = 4,                              // Over there; as many are here.
    IN_FLIGHT = 12,
    ITEMS_MAX = 40,
};

typedef enum cut {
    KILL,
    KILL_NODE,
    KILL_WORKER,
    STOP,
    STOP_SHORTLY,
    LEAVE,
    LINK,
    LINK_SHORTLY,
    CUTS
} cut;
static const char *const cut_names[CUTS] = {"killed",  "lost its node process", "lost a worker",
                                            "stopped", "stopped for a moment",  "left",
                                            "cut off", "cut off for a moment"};

TROUPE_STRUCT(far_work, (uint64_t, row), (uint64_t, dice), (troupe_actor, then),
              (troupe_bytes, load)); // `then` is called in its turn; id 0: nobody.

typedef struct clerk {
    uint64_t served;
} clerk;

static troupe_status clerk_work(clerk *self, const far_work *what, uint64_t *answer);
static troupe_status clerk_again(clerk *self, const far_work *what, uint64_t *answer);
static troupe_status clerk_count(clerk *self, const far_work *what, uint64_t *none);

static troupe_status clerk_init(clerk *self, const troupe_none *none)
{
    (void)none;
    self->served = 0;
    losses_enter();
    return TROUPE_OK;
}

static void clerk_deinit(clerk *self)
{
    (void)self;
}

TROUPE_ACTOR_INIT(clerk, (clerk_init, troupe_none), clerk_deinit, (clerk_work, far_work, uint64_t),
                  (clerk_again, far_work, uint64_t, .options = TROUPE_METHOD_REPEATABLE),
                  (clerk_count, far_work, uint64_t, .options = TROUPE_METHOD_STREAM));

// ---- what is run, on either node

static void linger(uint64_t *dice)
{
    struct timespec pause = {0, (long)(losses_roll(dice) % 300) * 1000};
    if (losses_chance(dice, 8))
        (void)nanosleep(&pause, NULL);
}

static void call_on(const far_work *what, uint64_t *dice)
{
    uint32_t number = losses_row(CALL);
    if (number == 0)
        return;
    book->row[number].silent = true; // The actor that waits here may be killed.
    clerk_actor to = {what->then};
    far_work next = {.row = number, .dice = losses_roll(dice)};
    uint64_t answer = 0;
    to = troupe_with(to, .deadline_ms = 1 + (uint32_t)(losses_roll(dice) % 50));
    losses_end(number, troupe_get(uint64_t, troupe_call_from(to, clerk_work, &next), &answer));
}

static troupe_status clerk_work(clerk *self, const far_work *what, uint64_t *answer)
{
    uint64_t dice = what->dice;
    entry *it = &book->row[what->row];
    self->served++;
    atomic_fetch_add(&it->begun, 1);
    if (what->load.size > 0 && !support_is_filled(what->load.data, what->load.size, what->row))
        losses_wrong("the load is another", what->row);
    linger(&dice);
    if (what->then.id != 0)
        call_on(what, &dice);
    *answer = what->row;
    atomic_fetch_add(&it->finished, 1);
    return losses_chance(&dice, 20)
               ? troupe_fail(TROUPE_CORRUPT, "row %llu fails", (unsigned long long)what->row)
               : TROUPE_OK;
}

static troupe_status clerk_again(clerk *self, const far_work *what, uint64_t *answer)
{
    return clerk_work(self, what, answer);
}

static troupe_status clerk_count(clerk *self, const far_work *what, uint64_t *none)
{
    (void)none;
    uint64_t answer;
    for (uint64_t i = 0, count = what->dice % ITEMS_MAX; i < count; i++)
        TROUPE_TRY(troupe_yield(uint64_t, &i));
    return clerk_work(self, what, &answer);
}

// ---- the other node

typedef struct other {
    pid_t driver, keeper, node;
    char address[64];
} other;

static int launcher_fd = -1;
static bool has_link; // Of its own, which can go down.
static char *folder, *keys;

static troupe_status start_node(void)
{
    return troupe_start(0, NULL, .listen = "127.0.0.1:0", .keys = keys, .workers = 2, .threads = 3,
                        .launch = TROUPE_LAUNCH_FORK, .node_timeout_ms = TIMEOUT_MS,
                        .store_bytes_max = 64 << 20, .worker_output = TROUPE_OUTPUT_DIRECT);
}

static void spawn_clerks(const char *prefix, clerk_actor *all)
{
    static const troupe_place where[CLERKS] = {TROUPE_PLACE_HERE, TROUPE_PLACE_WORKER,
                                               TROUPE_PLACE_ISOLATED, TROUPE_PLACE_WORKER};
    for (int i = 0; i < CLERKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d", prefix, i);
        all[i] = troupe_spawn(clerk, .name = name, .place = where[i], .backoff_ms = 1,
                              .restarts = i > 0 ? TROUPE_FOREVER : 0);
        troupe_must(troupe_actor_status(all[i].address));
    }
}

static _Noreturn void run_other(int fd)
{
    clerk_actor all[CLERKS];
    other made = {.driver = getpid()};
    losses_driver = getpid();
    (void)signal(SIGCHLD, SIG_DFL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    troupe_must(start_node());
    spawn_clerks("far", all);
    made.node = trp_segment_process(TRP_PROCESS_NODE)->pid;
    made.keeper = losses_parent(made.node);
    snprintf(made.address, sizeof made.address, "%s", troupe_node_address());
    if (send(fd, &made, sizeof made, 0) != (ssize_t)sizeof made)
        _exit(1);
    for (;;)
        pause();
}

static _Noreturn void run_launcher(int fd)
{
    char go;
    (void)signal(SIGCHLD, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(fd, &go, 1, 0) == 1)
        if (fork() == 0)
            run_other(fd);
    _exit(0);
}

static bool set_link(bool up)
{
    struct ifreq link = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP | IFF_RUNNING : 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool set = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &link) == 0;
    if (fd >= 0)
        close(fd);
    return set;
}

void losses_far_open(void)
{
    int pair[2];
    has_link = unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
               set_link(true);
    if (!has_link)
        printf("SKIPPED in part: no network namespaces are permitted here, so that no link goes "
               "down between the two nodes\n");
    folder = support_directory_make();
    keys = support_path(folder, "cluster.keys");
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t launcher = fork();
    if (launcher == 0) {
        close(pair[0]);
        run_launcher(pair[1]);
    }
    close(pair[1]);
    launcher_fd = pair[0];
}

void losses_far_close(void)
{
    close(launcher_fd);
    support_directory_remove(folder);
    free(keys);
}

// ---- the load

static sender senders[SENDERS];
static clerk_actor here[CLERKS];
static _Atomic uint32_t joins; // Of another node, or again: addresses are anew.

static clerk_actor far_clerk(uint64_t *dice)
{
    uint32_t at = book->at[losses_roll(dice) % CLERKS];
    return (clerk_actor){at == 0 ? (troupe_actor){0} : book->address[at]};
}

static void doing(sender *me, const char *what, uint32_t row)
{
    me->row = row;
    me->since_ms = support_now_ms();
    me->doing = what;
}

typedef struct flight {
    troupe_ref ref;
    uint32_t row;
} flight;

static void land(sender *me, flight *it)
{
    if (it->row == 0)
        return;
    uint64_t answer = 0;
    doing(me, "get", it->row);
    troupe_status status = troupe_get(uint64_t, it->ref, &answer);
    losses_end(it->row, status);
    if (status == TROUPE_OK && answer != it->row)
        losses_wrong("the value is another", it->row);
    it->row = 0;
}

static void launch(sender *me, flight *it)
{
    static _Thread_local unsigned char load[LOAD_MAX];
    bool again = losses_chance(&me->dice, 5), out = !losses_chance(&me->dice, 3);
    clerk_actor there = far_clerk(&me->dice), mine = here[losses_roll(&me->dice) % CLERKS];
    if (there.address.id == 0 || (it->row = losses_row(again ? CALL_AGAIN : CALL)) == 0)
        return;
    size_t size = 8 * (losses_chance(&me->dice, 30) ? losses_roll(&me->dice) % (LOAD_MAX / 8)
                                                    : losses_roll(&me->dice) % 8);
    support_fill(load, size, it->row);
    far_work what = {.row = it->row, .dice = losses_roll(&me->dice), .load = {load, size}};
    if (losses_chance(&me->dice, 4)) // There, and from there back; or by one of ours.
        what.then = out ? mine.address : there.address;
    clerk_actor to = out ? there : mine;
    doing(me, "call", it->row);
    if (again)
        to = troupe_with(to, .retries = KEPT_MAX);
    else if (losses_chance(&me->dice, 8))
        to = troupe_with(to, .deadline_ms = 1 + (uint32_t)(losses_roll(&me->dice) % 50));
    it->ref =
        again ? troupe_call_from(to, clerk_again, &what) : troupe_call_from(to, clerk_work, &what);
}

static void tell(sender *me)
{
    clerk_actor there = far_clerk(&me->dice);
    uint32_t number = there.address.id != 0 ? losses_row(TELL) : 0;
    if (number == 0)
        return;
    far_work what = {.row = number, .dice = losses_roll(&me->dice)};
    book->row[number].silent = true;
    doing(me, "tell", number);
    (void)troupe_tell_from(there, clerk_work, &what);
}

static void follow(sender *me)
{
    clerk_actor there = far_clerk(&me->dice);
    uint32_t number = there.address.id != 0 ? losses_row(STREAM) : 0;
    if (number == 0)
        return;
    far_work what = {.row = number, .dice = losses_roll(&me->dice)};
    uint64_t next = 0, value = 0;
    troupe_status status;
    doing(me, "next", number);
    troupe_stream stream = troupe_stream_open_as(there.address, troupe_method_clerk_count.class_,
                                                 troupe_method_clerk_count.index, &what);
    while ((status = troupe_next(uint64_t, stream, &value)) == TROUPE_OK)
        if (value != next++)
            losses_wrong("an item is another", number);
    losses_end(number, status == TROUPE_END ? TROUPE_OK : status);
    if (status == TROUPE_END && next != what.dice % ITEMS_MAX)
        losses_wrong("items are missing", number);
}

static void *send_far(void *user)
{
    sender *me = user;
    flight flights[IN_FLIGHT] = {0};
    while (!book->over) {
        flight *it = &flights[losses_roll(&me->dice) % IN_FLIGHT];
        land(me, it);
        launch(me, it);
        if (it->row == 0)
            usleep(1000); // Nobody is joined.
        it = &flights[losses_roll(&me->dice) % IN_FLIGHT];
        switch (losses_roll(&me->dice) % 32) {
        case 0:
        case 1:
            follow(me);
            break;
        case 2:
            doing(me, "cancel", it->row);
            if (it->row != 0)
                (void)troupe_cancel(it->ref);
            break;
        case 3:
        case 4:
        case 5:
            tell(me);
            break;
        default:
            break;
        }
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        land(me, &flights[i]);
    doing(me, "nothing more", 0);
    me->ended = true;
    return NULL;
}

// ---- the losses

static void rest(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    (void)nanosleep(&time, NULL);
}

static other ask_for_other(void)
{
    other made = {0};
    assert_int_equal(send(launcher_fd, "g", 1, 0), 1);
    assert_int_equal(recv(launcher_fd, &made, sizeof made, 0), sizeof made);
    return made;
}

static bool joins_now(void *address)
{
    return troupe_node_join(address) == TROUPE_OK;
}

// Its clerks can be called from now on.
static void join(const other *it)
{
    if (!support_wait_until(joins_now, (void *)(uintptr_t)it->address, JOIN_MS))
        fail_msg("%s cannot be joined: %s", it->address, troupe_last_error()->text);
    for (uint32_t i = 0; i < CLERKS; i++) {
        char name[128];
        clerk_actor found;
        snprintf(name, sizeof name, "far/%u@%s", i, it->address);
        if (troupe_lookup(clerk, name, &found) != TROUPE_OK)
            continue; // It is just being started again.
        uint32_t at = atomic_fetch_add(&book->addresses, 1) + 1;
        book->address[at] = found.address;
        book->at[i] = at;
    }
    joins++;
}

static void stop_all(const other *it, int ms)
{
    (void)kill(it->driver, SIGSTOP);
    (void)kill(-it->keeper, SIGSTOP);
    rest(ms);
    (void)kill(-it->keeper, SIGCONT);
    (void)kill(it->driver, SIGCONT);
}

static bool is_gone(void *it)
{
    other *whom = it;
    return !support_process_lives(whom->driver) && support_count_group(whom->keeper) == 0;
}

static void kill_a_worker(const other *it)
{
    for (uint32_t i = book->processes; i-- > 0;)
        if (book->group[i] == it->keeper && getpgid(book->pid[i]) == it->keeper) {
            (void)kill(book->pid[i], SIGKILL);
            return;
        }
}

static void replace(other *it)
{
    (void)kill(it->driver, SIGKILL);
    if (!support_wait_until(is_gone, it, JOIN_MS)) {
        char output[8192];
        (void)support_run("ps -o pid,ppid,pgid,stat,wchan:20,args -e", output, sizeof output);
        printf("of driver %d and the group of keeper %d:\n%s", it->driver, it->keeper, output);
        fail_msg("processes of a killed node are left");
    }
    *it = ask_for_other();
    join(it);
}

static void strike(other *it, cut how)
{
    switch (how) {
    case KILL:
        replace(it);
        break;
    case KILL_NODE:
        (void)kill(it->node, SIGKILL);
        rest(TIMEOUT_MS);
        replace(it);
        break;
    case KILL_WORKER:
        kill_a_worker(it);
        break;
    case STOP:
        stop_all(it, 2 * TIMEOUT_MS);
        join(it);
        break;
    case STOP_SHORTLY:
        stop_all(it, TIMEOUT_MS / 4);
        break;
    case LEAVE:
        (void)troupe_node_leave(it->address);
        join(it);
        break;
    case LINK:
    case LINK_SHORTLY:
    case CUTS:
        assert_true(set_link(false));
        rest(how == LINK ? 2 * TIMEOUT_MS : TIMEOUT_MS / 4);
        assert_true(set_link(true));
        if (how == LINK)
            join(it);
        break;
    }
}

static bool all_ended(void *unused)
{
    (void)unused;
    for (int i = 0; i < SENDERS; i++)
        if (!senders[i].ended)
            return false;
    return true;
}

static void look_for_hangs(void)
{
    for (int i = 0; i < SENDERS; i++)
        if (support_now_ms() - senders[i].since_ms > WAIT_MS)
            losses_hung("two nodes", senders);
}

static void begin_load(uint64_t *dice)
{
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (sender){.number = i, .dice = losses_roll(dice)};
        senders[i].doing = "nothing yet";
        senders[i].since_ms = support_now_ms();
        assert_int_equal(pthread_create(&senders[i].thread, NULL, send_far, &senders[i]), 0);
    }
}

void losses_far(int seconds, uint64_t *dice)
{
    uint32_t counts[CUTS] = {0};
    losses_books_open();
    if (!support_exists(keys))
        troupe_must(troupe_keys_make(keys));
    other second = ask_for_other();
    troupe_must(start_node());
    spawn_clerks("here", here);
    join(&second);
    begin_load(dice);
    int64_t until = support_now_ms() + seconds * 1000;
    for (uint32_t i = 0; support_now_ms() < until; i++) {
        cut how = (cut)(i < CUTS ? i : losses_roll(dice) % CUTS);
        if (how >= LINK && !has_link)
            continue;
        rest(50 + (int)(losses_roll(dice) % 150));
        strike(&second, how);
        counts[how]++;
        look_for_hangs();
    }
    book->over = true;
    if (!support_wait_until(all_ended, NULL, LOSSES_WAIT_MS))
        losses_hung("two nodes, in the end", senders);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    assert_int_equal(troupe_stop(), 0);
    (void)kill(second.driver, SIGKILL);
    bool gone = support_wait_until(is_gone, &second, JOIN_MS);
    losses_print();
    for (int i = 0; i < CUTS; i++)
        printf("%s%u %s", i > 0 ? ", " : "the other node ", counts[i], cut_names[i]);
    printf("; %u joins\n", joins);
    fflush(stdout);
    assert_true(gone);
    assert_int_equal(losses_check() + (int)book->wrong, 0);
}
