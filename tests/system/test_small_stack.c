// test_small_stack.c: a whole program under `ulimit -s 64`: the driver, its keeper, the node
// process and the workers have stacks of 64 KiB, and so have all their threads. The program is
// this one, run with the folder that it may write to.
// label: nosan
#include "sleeper.h"

#include <places.h>
#include <support.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <troupe.h>
#include <troupe/observe.h>
#include <troupe/train.h>
#include <unistd.h>

enum { STACK = 64 << 10, EPOCHS = 3, CALLS = 40 };

TROUPE_STRUCT(walk, (int, epochs));
TROUPE_STRUCT(step, (int, epoch));

static troupe_status train_step(troupe_rank *me, const walk *config)
{
    step at = {0};
    TROUPE_TRY(troupe_restore(step, me, &at));
    while (at.epoch < config->epochs) {
        double sum = me->rank;
        TROUPE_TRY(troupe_allreduce(me, &sum, 1, TROUPE_SUM));
        at.epoch++;
        TROUPE_TRY(troupe_save(step, me, &at));
        TROUPE_TRY(troupe_report(me, {"sum", sum}));
    }
    return TROUPE_OK;
}
TROUPE_TRAINER(train_step, walk);

static void call_actors(void)
{
    for (int i = 0; i < PLACES; i++) {
        sleeper_actor actor = troupe_spawn(sleeper, .place = places[i]);
        troupe_ref refs[CALLS];
        int pids[CALLS];
        for (int j = 0; j < CALLS; j++)
            refs[j] = troupe_call(actor, nap, 0);
        troupe_must(troupe_get_all(int, refs, CALLS, pids));
        if ((pids[0] == getpid()) != (places[i] == TROUPE_PLACE_HERE))
            _exit(3);
        troupe_must(troupe_actor_stop(actor, SUPPORT_SOON_MS));
    }
    int pid;
    troupe_must(troupe_get(int, troupe_run(doze, 0), &pid));
}

static void put_objects(void)
{
    static char data[100000];
    troupe_memory memory;
    troupe_view view;
    troupe_ref ref = troupe_put_bytes(data, sizeof data);
    troupe_must(troupe_view_bytes(ref, &view, -1));
    troupe_must(troupe_memory_get(&memory));
    troupe_view_end(&view);
    // Left over: the report at the end asks for the lines of all.
    for (int i = 0; i < 8; i++)
        troupe_must(troupe_wait((troupe_ref[]){troupe_put(int, &i)}, 1, 1, -1, NULL, NULL));
    troupe_ref_drop(ref);
}

static int program(int argc, char **argv)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur > STACK)
        return 2;
    char trace[500];
    snprintf(trace, sizeof trace, "%s/trace.json", argv[1]);
    troupe_must(troupe_start(argc, argv, .workers = 2, .trace = trace));
    call_actors();
    put_objects();
    troupe_result *run;
    troupe_must(troupe_train(train_step, &(walk){EPOCHS}, &run, .ranks = 2, .cpus_per_rank = 0.5,
                             .storage = argv[1], .name = "small"));
    troupe_result_free(&run);
    return troupe_stop() == TROUPE_OK ? 0 : 4;
}

static void run_over(const char *transport)
{
    char *folder = support_directory_make(), *trace = support_path(folder, "trace.json");
    char command[1000], output[8000];
    snprintf(command, sizeof command,
             "ulimit -s %d && TROUPE_TRANSPORT=%s TROUPE_LEAKS=1 /proc/%d/exe %s", STACK >> 10,
             transport, (int)getpid(), folder);
    int status = support_run(command, output, sizeof output);
    if (status != 0)
        support_fail_output(output, "a program with stacks of 64 KiB ended with %d", status);
    // What is over was told with the line that made it, and the trace is there.
    if (strstr(output, "test_small_stack.c:") == NULL)
        support_fail_output(output, "no line of a reference that was left over");
    char *events = support_read_file(trace);
    assert_non_null(events);
    assert_non_null(strstr(events, "sleeper.nap"));
    free(events);
    free(trace);
    support_directory_remove(folder);
}

static void test_rings(void **state)
{
    (void)state;
    run_over("ring");
}

static void test_sockets(void **state)
{
    (void)state;
    run_over("ipc");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return program(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rings),
                                       cmocka_unit_test(test_sockets)};
    return cmocka_run_group_tests_name("small stack", tests, NULL, NULL);
}
