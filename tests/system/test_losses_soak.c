// test_losses_soak.c: under a mixed load workers, the node process and the keeper are killed and
// stopped: nothing is lost, nothing is run more often than it may be, nothing hangs. Where the node
// process or the keeper is killed the runtime is lost: all that waits ends within two seconds, and
// the runtime is started again. The plan follows from TROUPE_SEED, which is printed.
// timeout: 120
// cost: 15
// again: full slow 900 600
#include "losses.h"

#include <pthread.h>
#include <runtime/shm/segment.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    ERA_MS = 1500,
    LOST_MS = 2000 * LOSSES_FACTOR, // All that waits for a lost runtime ends in this time.
    STOPPED = 8,                    // Processes at a time.
    STOP_MS = 400,                  // The longest, each.
};

typedef enum ending { IN_ORDER, NODE_KILLED, KEEPER_KILLED, BOTH_STOPPED, ENDINGS } ending;

static int seconds = 7, far_seconds = 4;
static uint64_t dice;
static sender senders[SENDERS];
static int children; // Of this process, without Troupe.
static uint32_t kills, stops, eras[ENDINGS];
static int64_t longest_ms; // From the loss of a runtime to the end of the last wait.

// ---- who is killed and stopped

typedef struct stopped {
    pid_t pid; // 0: none.
    int64_t until_ms;
} stopped;
static stopped still[STOPPED];
static pid_t node, keeper;

static void go_on(bool all)
{
    for (int i = 0; i < STOPPED; i++)
        if (still[i].pid != 0 && (all || support_now_ms() >= still[i].until_ms)) {
            (void)kill(still[i].pid, SIGCONT);
            still[i].pid = 0;
        }
}

static void stop_for_a_while(pid_t pid)
{
    for (int i = 0; i < STOPPED; i++)
        if (still[i].pid == 0) {
            if (kill(pid, SIGSTOP) != 0)
                return;
            still[i] = (stopped){pid, support_now_ms() + (int64_t)(losses_roll(&dice) % STOP_MS)};
            stops++;
            return;
        }
}

// 0: none. The number of one that has ended may be somebody else's by now, in another group.
static pid_t some_worker(void)
{
    uint32_t count = book->processes < PROCESSES ? book->processes : PROCESSES;
    uint32_t i = count > 0 ? (uint32_t)(losses_roll(&dice) % count) : 0;
    pid_t pid = book->pid[i];
    return pid > 0 && getpgid(pid) == book->group[i] ? pid : 0;
}

static void strike(void)
{
    pid_t worker = some_worker();
    switch (losses_roll(&dice) % 10) {
    case 0:
        stop_for_a_while(node);
        break;
    case 1:
        stop_for_a_while(keeper);
        break;
    case 2: // Nobody kills it, and what it is told waits for it.
        stop_for_a_while(book->spared);
        break;
    case 3:
    case 4:
    case 5:
        if (worker != 0)
            stop_for_a_while(worker);
        break;
    default:
        if (worker != 0 && kill(worker, SIGKILL) == 0)
            kills++;
    }
}

// ---- an era

static bool all_ended(void *unused)
{
    (void)unused;
    go_on(false);
    bool all = true;
    for (int i = 0; i < SENDERS; i++)
        all = all && senders[i].ended;
    return all;
}

static void look_for_hangs(void)
{
    for (int i = 0; i < SENDERS; i++)
        if (support_now_ms() - senders[i].since_ms > LOSSES_WAIT_MS)
            losses_hung("while the runtime was well", senders);
}

static void rest(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    (void)nanosleep(&time, NULL);
}

static void disturb(int ms)
{
    int64_t until = support_now_ms() + ms;
    while (support_now_ms() < until) {
        strike();
        rest(1 + (int)(losses_roll(&dice) % 40));
        go_on(false);
        look_for_hangs();
    }
}

// Ends the runtime under those who use it.
static void lose(ending how)
{
    pid_t victim =
        how == KEEPER_KILLED || (how == BOTH_STOPPED && losses_chance(&dice, 2)) ? keeper : node;
    book->lost = true;
    if (how == BOTH_STOPPED) { // What is killed is not what answers.
        stop_for_a_while(victim == node ? keeper : node);
        rest(20);
    }
    int64_t from_ms = support_now_ms();
    assert_int_equal(kill(victim, SIGKILL), 0);
    rest(100); // They find out at work.
    book->over = true;
    if (!support_wait_until(all_ended, NULL, LOST_MS))
        losses_hung("2 s after the runtime was lost", senders);
    int64_t took_ms = support_now_ms() - from_ms;
    longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
}

// A dead one may wait for the system's first process to take note of it.
static bool is_left(uint32_t i)
{
    pid_t pid = book->pid[i];
    return pid > 0 && getpgid(pid) == book->group[i] && support_process_lives(pid);
}

static bool nobody_left(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; i < book->processes && i < PROCESSES; i++)
        if (is_left(i))
            return false;
    return support_count_descendants(getpid()) == children;
}

static void print_left(void)
{
    char command[64], output[8192];
    for (uint32_t i = 0; i < book->processes && i < PROCESSES; i++)
        if (is_left(i))
            printf("process %d of group %d is left\n", book->pid[i], book->group[i]);
    snprintf(command, sizeof command, "ps -o pid,ppid,pgid,stat,wchan:20,args -e");
    (void)support_run(command, output, sizeof output);
    printf("%d children, of which %d were there before; the node process was %d, the keeper %d\n%s",
           support_count_descendants(getpid()), children, (int)node, (int)keeper, output);
}

static void end_in_order(uint64_t objects)
{
    book->over = true;
    if (!support_wait_until(all_ended, NULL, LOSSES_WAIT_MS))
        losses_hung("in the end", senders);
    go_on(true);
    if (!losses_posts_have_all())
        losses_wrong("what was told has not arrived", 0);
    for (uint32_t i = 1; i <= book->addresses; i++)
        (void)troupe_actor_kill(book->address[i]);
    troupe_store_usage usage = {.objects = 1};
    int64_t until = support_now_ms() + SUPPORT_SOON_MS;
    do
        troupe_must(troupe_store_usage_get(&usage));
    while (usage.objects != objects && support_now_ms() < until);
    if (usage.objects != objects)
        losses_wrong("objects are left in the store", usage.objects);
}

static void live(ending how)
{
    losses_books_open();
    memset(senders, 0, sizeof senders);
    troupe_must(troupe_start(0, NULL, .workers = 3, .threads = 3, .launch = TROUPE_LAUNCH_FORK,
                             .store_bytes_max = 256 << 20, .worker_output = TROUPE_OUTPUT_DIRECT));
    troupe_store_usage usage;
    troupe_must(troupe_store_usage_get(&usage));
    node = trp_segment_process(TRP_PROCESS_NODE)->pid;
    keeper = losses_parent(node);
    losses_people(&dice);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (sender){.number = i, .dice = losses_roll(&dice)};
        senders[i].doing = "nothing yet";
        senders[i].since_ms = support_now_ms();
        assert_int_equal(pthread_create(&senders[i].thread, NULL, losses_send, &senders[i]), 0);
    }
    disturb(ERA_MS);
    if (how == IN_ORDER)
        end_in_order(usage.objects);
    else
        lose(how);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    assert_int_equal(troupe_stop(), 0);
    go_on(true);
    eras[how]++;
    bool ended = support_wait_until(nobody_left, NULL, LOST_MS);
    losses_print();
    if (!ended) {
        print_left();
        fail_msg("processes of a runtime are left behind");
    }
    assert_int_equal(losses_check() + (int)book->wrong, 0);
}

static void test_nothing_is_lost_or_twice_or_hung(void **state)
{
    (void)state;
    int64_t until = support_now_ms() + seconds * 1000;
    int descriptors = support_count_descriptors();
    children = support_count_descendants(getpid());
    for (uint32_t era = 0; support_now_ms() < until || era < ENDINGS; era++) // Each once at least.
        live((ending)(era % ENDINGS));
    printf("%u kills, %u stops; %u eras that ended in order, %u by the node process's death, %u by "
           "the keeper's, %u beside a stopped one; the last wait ended %lld ms after a loss\n",
           kills, stops, eras[IN_ORDER], eras[NODE_KILLED], eras[KEEPER_KILLED], eras[BOTH_STOPPED],
           (long long)longest_ms);
    assert_int_equal(support_count_descriptors(), descriptors);
    assert_true(kills > 0 && stops > 0 && eras[ENDINGS - 1] > 0);
}

// Calls both ways, which are cut off in every way.
static void test_nothing_is_lost_between_two_nodes(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); // libzmq, which all of this goes through, is not built for it.
#endif
    losses_far(far_seconds, &dice);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_lost_or_twice_or_hung),
                                       cmocka_unit_test(test_nothing_is_lost_between_two_nodes)};
    const char *given = getenv("TROUPE_SEED");
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    dice = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec ^ (uint64_t)getpid();
    if (argc > 1)
        seconds = far_seconds = atoi(argv[1]) / 2;
    if (argc > 2) // One of the two.
        cmocka_set_test_filter(argv[2]);
    printf("TROUPE_SEED=%llu\n", (unsigned long long)dice);
    fflush(stdout);
    losses_driver = getpid();
    book = support_share(sizeof *book);
    losses_far_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    losses_far_close();
    return failed;
}
