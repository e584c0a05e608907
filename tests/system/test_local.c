// test_local.c: TROUPE_LOCAL=1: actors, names, objects, resources, jobs and sweeps with one process
// for all, as a debugger wants it.
// timeout: 120
#include <places.h>
#include <support.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <troupe/actor.h>
#include <troupe/resources.h>
#include <troupe/tune.h>
#include <unistd.h>

typedef struct guest {
    int calls;
} guest;

static troupe_status where(guest *self, const troupe_none *none, int *pid)
{
    (void)none;
    self->calls++;
    *pid = getpid();
    return TROUPE_OK;
}

// Waits without the runtime's knowing, until another one has been run.
static _Atomic int released;
static _Atomic uint64_t at_work; // Who is in there.
static troupe_status block(guest *self, const troupe_none *none, int *calls)
{
    (void)none;
    at_work = troupe_self().id;
    while (released == 0)
        usleep(1000);
    *calls = ++self->calls;
    return TROUPE_OK;
}

static troupe_status release(guest *self, const troupe_none *none, int *calls)
{
    (void)none;
    released = 1;
    *calls = ++self->calls;
    return TROUPE_OK;
}

static troupe_status ask_other(guest *self, const troupe_text *name, int *pid);

TROUPE_ACTOR(guest, (where, troupe_none, int), (block, troupe_none, int),
             (release, troupe_none, int), (ask_other, troupe_text, int));

static troupe_status ask_other(guest *self, const troupe_text *name, int *pid)
{
    (void)self;
    guest_actor other;
    TROUPE_TRY(troupe_lookup(guest, *name, &other));
    return troupe_get(int, troupe_call(other, where), pid);
}

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = 2, .threads = 1, .cpus = 2) == TROUPE_OK ? 0 : -1;
}

static void test_one_process(void **state)
{
    (void)state;
    static const troupe_place wanted_places[] = {TROUPE_PLACE_ANY, TROUPE_PLACE_HERE,
                                                 TROUPE_PLACE_WORKER, TROUPE_PLACE_ISOLATED};
    for (size_t i = 0; i < sizeof wanted_places / sizeof *wanted_places; i++) {
        int pid = 0;
        guest_actor actor = troupe_spawn(guest, .place = wanted_places[i]);
        assert_int_equal(troupe_get(int, troupe_call(actor, where), &pid), TROUPE_OK);
        assert_int_equal(pid, getpid());
        if (i % 2 == 0)
            assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
        else
            assert_int_equal(troupe_actor_kill(actor), TROUPE_OK);
    }
    assert_int_equal(support_count_descendants(getpid()), 0);
}

static bool is_free(void *name) // The last turn of an actor drops its name.
{
    guest_actor found;
    return troupe_lookup(guest, name, &found) == TROUPE_NOT_FOUND;
}

static void test_names(void **state)
{
    (void)state;
    int pid = 0;
    guest_actor named = troupe_spawn(guest, .name = "host", .place = TROUPE_PLACE_ISOLATED);
    guest_actor asker = troupe_spawn(guest, .place = TROUPE_PLACE_ISOLATED);
    guest_actor again = troupe_spawn(guest, .name = "host");
    assert_int_equal(troupe_actor_status(again.address), TROUPE_EXISTS);
    assert_int_equal(troupe_get(int, troupe_call(asker, ask_other, "host"), &pid), TROUPE_OK);
    assert_int_equal(pid, getpid());
    assert_int_equal(troupe_actor_kill(named), TROUPE_OK);
    assert_true(support_wait_until(is_free, (void *)(uintptr_t) "host", SUPPORT_SOON_MS));
    assert_int_equal(troupe_get(int, troupe_call(asker, ask_other, "host"), &pid),
                     TROUPE_NOT_FOUND);
}

static bool is_at_work(void *actor)
{
    return at_work == ((const guest_actor *)actor)->address.id;
}

// An isolated actor that blocks its thread holds nobody else up, though there is one scheduler
// thread.
static void test_threads_of_their_own(void **state)
{
    (void)state;
    int calls;
    released = 0;
    guest_actor blocked = troupe_spawn(guest, .place = TROUPE_PLACE_ISOLATED);
    guest_actor other = troupe_spawn(guest, .place = TROUPE_PLACE_ISOLATED);
    troupe_ref answer = troupe_call(blocked, block);
    assert_int_equal(troupe_get(int, troupe_call(other, release), &calls), TROUPE_OK);
    assert_int_equal(troupe_get(int, answer, &calls), TROUPE_OK);
    assert_int_equal(calls, 1);
}

// A kill decides the call that runs at once, and what its method answers afterwards is nobody's.
static void test_killing_at_work(void **state)
{
    (void)state;
    int calls;
    released = 0;
    guest_actor blocked = troupe_spawn(guest, .place = TROUPE_PLACE_ISOLATED, .name = "at-work");
    troupe_ref running = troupe_call(blocked, block), waiting = troupe_call(blocked, where);
    assert_true(support_wait_until(is_at_work, &blocked, SUPPORT_SOON_MS));
    assert_int_equal(troupe_actor_kill(blocked), TROUPE_OK);
    assert_int_equal(troupe_get(int, running, &calls, TROUPE_POLL), TROUPE_MAYBE_EXECUTED);
    assert_non_null(strstr(troupe_last_error()->text, "killed"));
    assert_int_equal(troupe_get(int, waiting, &calls, TROUPE_POLL), TROUPE_NOT_EXECUTED);
    assert_int_equal(troupe_get(int, troupe_call(blocked, where), &calls), TROUPE_NOT_EXECUTED);
    // A light one's method is let finish, as where it has a process of its own.
    guest_actor light = troupe_spawn(guest);
    running = troupe_call(light, block);
    assert_true(support_wait_until(is_at_work, &light, SUPPORT_SOON_MS));
    assert_int_equal(troupe_actor_kill(light), TROUPE_OK);
    released = 1;
    assert_int_equal(troupe_get(int, running, &calls), TROUPE_OK);
    // The name of the first is free when its method has returned, and its place serves another.
    assert_true(support_wait_until(is_free, (void *)(uintptr_t) "at-work", SUPPORT_SOON_MS));
    guest_actor other = troupe_spawn(guest, .place = TROUPE_PLACE_ISOLATED, .name = "at-work");
    assert_int_equal(troupe_get(int, troupe_call(other, block), &calls), TROUPE_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(troupe_actor_end(other), TROUPE_OK);
}

static void test_many_lives(void **state)
{
    (void)state;
    int pid;
    for (int i = 0; i < 500; i++) {
        guest_actor actor = troupe_spawn(guest, .place = TROUPE_PLACE_ISOLATED);
        assert_int_equal(troupe_get(int, troupe_call(actor, where), &pid), TROUPE_OK);
        assert_int_equal(troupe_actor_end(actor), TROUPE_OK);
    }
}

static void test_objects(void **state)
{
    (void)state;
    double put[1000] = {1, 2, 3};
    troupe_view view;
    troupe_ref object = troupe_put_bytes(put, sizeof put);
    assert_int_equal(troupe_view_bytes(object, &view, 0), TROUPE_OK);
    assert_int_equal(view.size, sizeof put);
    assert_memory_equal(view.data, put, sizeof put);
    troupe_view_end(&view);
    troupe_ref_drop(object);
}

static void test_resources(void **state)
{
    (void)state;
    troupe_resources all;
    guest_actor holder = troupe_spawn(guest, .cpus = 2, .place = TROUPE_PLACE_ISOLATED);
    guest_actor late = troupe_spawn(guest, .cpus = 1, .resources_wait_ms = 30);
    assert_int_equal(troupe_actor_status(late.address), TROUPE_DEADLINE_EXCEEDED);
    assert_int_equal(troupe_actor_kill(holder), TROUPE_OK);
    late = troupe_spawn(guest, .cpus = 1);
    assert_int_equal(troupe_actor_status(late.address), TROUPE_OK);
    assert_int_equal(troupe_resources_get(&all), TROUPE_OK);
    assert_true(all.cpus.total == 2);
}

// Fails in its first attempt.
static troupe_status lives_twice(troupe_rank *me)
{
    TROUPE_TRY(troupe_report(me, {"attempt", me->attempt}));
    return me->attempt == 0 ? troupe_fail(TROUPE_FAILED, "once more") : TROUPE_OK;
}
TROUPE_TRAINER(lives_twice);

// No process ends with a group or a job, and none is waited for.
static void test_jobs(void **state)
{
    (void)state;
    enum { JOBS = 3 };
    char *folder = support_directory_make();
    int64_t begun_ms = support_now_ms();
    for (int i = 0; i < JOBS; i++) { // Each needs all CPUs.
        troupe_result *result;
        troupe_must(
            troupe_train(lives_twice, NULL, &result, .ranks = 2, .storage = folder, .restarts = 1));
        assert_int_equal(troupe_result_restarts(result), 1);
        troupe_result_free(&result);
    }
    assert_true(support_now_ms() - begun_ms < SUPPORT_SOON_MS - 1000);
    support_directory_remove(folder);
}

static void test_starts_again(void **state)
{
    (void)state;
    int pid;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(troupe_start(0, NULL, .workers = 1), TROUPE_OK);
        guest_actor named = troupe_spawn(guest, .name = "again", .place = TROUPE_PLACE_ISOLATED);
        assert_int_equal(troupe_get(int, troupe_call(named, where), &pid), TROUPE_OK);
        assert_int_equal(troupe_stop(), 0);
    }
}

// The examples, each run as a program: it has no children, and prints what it promises. Leaks are
// not looked for, since that is done by a child.
static void check_example(const char *name, const char *wanted)
{
    static char output[65536];
    char command[4096];
    char *folder = support_directory_make();
    snprintf(command, sizeof command,
             "export ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\"; "
             "cd '%s' && '%s/%s' >out 2>&1 & p=$!; most=0; "
             "while kill -0 $p 2>/dev/null; do "
             "n=$(cat /proc/$p/task/*/children 2>/dev/null | wc -w); "
             "[ \"$n\" -gt $most ] && most=$n; sleep 0.01; done; wait $p; s=$?; "
             "cat '%s/out'; echo \"children $most\"; exit $s",
             folder, support_setting("TROUPE_EXAMPLES"), name, folder);
    int status = support_run(command, output, sizeof output);
    support_directory_remove(folder);
    if (status != 0 || strstr(output, wanted) == NULL || strstr(output, "children 0\n") == NULL)
        support_fail_output(output, "%s ended with %d, expected 0, '%s' and no children", name,
                            status, wanted);
}

static void test_examples(void **state)
{
    (void)state;
    check_example("01_counter", "total 55\n");
    check_example("02_line", "y = 3.000 x + 2.000");
    check_example("03_sweep", "best rate ");
}

// ---- where a system call is missing

// As valgrind and kernels before 5.3 have it.
static bool lose_pidfd_open(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           syscall(SYS_pidfd_open, getpid(), 0) < 0 && errno == ENOSYS;
}

enum { NO_FILTER = 70 };

static int start_without_pidfd(void)
{
    if (!lose_pidfd_open())
        return NO_FILTER;
    unsetenv("TROUPE_LOCAL");
    troupe_status status = troupe_start(0, NULL, .workers = 1);
    const char *text = troupe_last_error()->text;
    if (status != TROUPE_UNSUPPORTED || strstr(text, "pidfd_open") == NULL ||
        strstr(text, "TROUPE_LOCAL=1") == NULL) {
        print_message("%d: %s\n", status, text);
        return 1;
    }
    setenv("TROUPE_LOCAL", "1", 1);
    int pid;
    if (troupe_start(0, NULL, .workers = 1) != TROUPE_OK)
        return 2;
    guest_actor actor = troupe_spawn(guest, .place = TROUPE_PLACE_ISOLATED);
    if (troupe_get(int, troupe_call(actor, where), &pid) != TROUPE_OK || pid != getpid())
        return 3;
    return troupe_stop() == TROUPE_OK ? 0 : 4;
}

static void test_without_pidfd(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(start_without_pidfd());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER) {
        print_message("SKIPPED: this system gives a process no seccomp filter\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

// The sentence names the way, and the way works, with nothing for memcheck to complain of.
static void test_valgrind(void **state)
{
    (void)state;
    char command[4096], output[8192];
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
    print_message("SKIPPED: valgrind runs no sanitizer, and cannot read clang's debug format\n");
    skip();
#endif
    if (support_run("command -v valgrind", output, sizeof output) != 0) {
        print_message("SKIPPED: there is no valgrind here\n");
        skip();
    }
    const char *examples = support_setting("TROUPE_EXAMPLES");
    snprintf(command, sizeof command,
             "TROUPE_LOCAL=0 valgrind -q %s/01_counter && exit 1;"
             "TROUPE_LOCAL=1 valgrind -q --error-exitcode=9 %s/01_counter",
             examples, examples);
    int status = support_run(command, output, sizeof output);
    if (status != 0 || strstr(output, "TROUPE_LOCAL=1") == NULL ||
        strstr(output, "total 55\n") == NULL)
        support_fail_output(output, "valgrind ended with %d", status);
}

int main(void)
{
    setenv("TROUPE_LOCAL", "1", 1);
    const struct CMUnitTest missing[] = {
        cmocka_unit_test(test_without_pidfd),
        cmocka_unit_test(test_valgrind),
    };
    const struct CMUnitTest started[] = {
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_threads_of_their_own),
        cmocka_unit_test(test_killing_at_work),
        cmocka_unit_test(test_many_lives),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_resources),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_starts_again),
        cmocka_unit_test(test_examples),
    };
    int failed = cmocka_run_group_tests(missing, NULL, NULL);
    failed += cmocka_run_group_tests(started, set_up, stop_runtime);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
