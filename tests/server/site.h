// site.h: a train server in a process of its own, clients of it, and jobs that nap (nap.h).
#ifndef TROUPE_TEST_SITE_H
#define TROUPE_TEST_SITE_H

#include "nap.h"
#include <runtime/base/fault.h>
#include <runtime/codec/pack.h>
#include <server/server.h>
#include <signal.h>
#include <support.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/spec.h>
#include <train/state_folder.h>

typedef struct site {
    char *folder, *storage;
    pid_t server;
    trp_server_how how;
} site;

// ---- the server

static inline void site_ready(void *user)
{
    (void)!write(*(int *)user, "", 1);
    close(*(int *)user);
}

// Runs one in a child, which dies at the `count`th of these points. false: it died, or ended,
// before it could be connected to.
static inline bool site_start_to_die(site *it, const char *fault, long count)
{
    int ready[2], lock;
    char byte;
    assert_int_equal(pipe(ready), 0);
    (void)fflush(NULL);
    it->server = fork();
    assert_true(it->server >= 0);
    if (it->server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        it->how.folder = it->folder;
        it->how.ready = site_ready;
        it->how.user = &ready[1];
        while (trp_server_lock(it->folder, &lock) == TROUPE_BUSY)
            nap_ms(1); // A killed one's last child may be about to execute.
#ifdef TROUPE_FAULTS
        if (fault != NULL)
            trp_fault_kill_at(fault, count);
#else
        (void)fault, (void)count;
#endif
        troupe_status status = trp_server_run(&it->how);
        if (status != TROUPE_OK)
            fprintf(stderr, "the server ends: %s\n", troupe_last_error()->text);
        _exit(status == TROUPE_OK ? 0 : 1);
    }
    close(ready[1]);
    bool runs = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    return runs;
}

static inline void site_start(site *it)
{
    assert_true(site_start_to_die(it, NULL, 0));
}

static inline void site_kill(site *it)
{
    kill(it->server, SIGKILL);
    assert_int_equal(waitpid(it->server, NULL, 0), it->server);
}

static inline void site_stop(site *it)
{
    int status;
    kill(it->server, SIGTERM);
    assert_int_equal(waitpid(it->server, &status, 0), it->server);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static inline void site_open(site *it, double cpus)
{
    setenv("TROUPE_COMMAND", support_setting("TROUPE_TOOL"), 1); // troupe-launch is beside it.
    *it = (site){.folder = support_directory_make(),
                 .storage = support_directory_make(),
                 .how = {.cpus = cpus, .gpus = TROUPE_NONE}};
    assert_int_equal(chmod(it->folder, 0700), 0);
    site_start(it);
}

static inline void site_close(site *it)
{
    site_stop(it);
    support_directory_remove(it->folder);
    support_directory_remove(it->storage);
}

// ---- clients

static inline trp_server_link *site_connect(const site *it, const trp_server_told *told)
{
    trp_server_link *link = NULL;
    if (trp_server_link_open(it->folder, told, &link) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    return link;
}

static inline troupe_status site_ask(trp_server_link *link, trp_wire_kind kind,
                                     const troupe_type *type, const void *value,
                                     trp_wire_kind answer, const troupe_type *has, trp_arena *arena,
                                     void *out)
{
    trp_server_question question = {.kind = kind,
                                    .type = type,
                                    .value = value,
                                    .timeout_ms = 30000,
                                    .answer = answer,
                                    .has = has};
    return trp_server_link_ask(link, &question, arena, out);
}

typedef struct site_asks {
    const char *submission, *key;
    int ranks, reports, each_ms, restarts;
    double gpus; // Of each rank.
} site_asks;

// Submits a nap. The files are those that a client makes.
static inline troupe_status site_submit_as(const site *it, trp_server_link *link,
                                           const site_asks *asks, trp_arena *arena,
                                           trp_wire_job *job)
{
    trp_buffer spec = {0}, launch = {0};
    char run[512], program[512] = "", reports[16], each[16];
    struct stat about;
    (void)!readlink("/proc/self/exe", program, sizeof program - 1);
    assert_int_equal(stat(program, &about), 0);
    snprintf(run, sizeof run, "%s/%s", it->storage, asks->submission);
    (void)mkdir(run, 0700);
    snprintf(reports, sizeof reports, "%d", asks->reports);
    snprintf(each, sizeof each, "%d", asks->each_ms);
    const char *arguments[] = {program, "nap", reports, each};
    trp_wire_object object = {program, about.st_dev, about.st_ino,
                              (int64_t)about.st_ctim.tv_sec * 1000000000 + about.st_ctim.tv_nsec,
                              (uint64_t)about.st_size};
    trp_job_spec made = {.version = 1, .program = program, .trainer = "nap", .schema = 7};
    trp_wire_launch how = {.program = program,
                           .arguments = {arguments, 4},
                           .folder = "/",
                           .umask = 0077,
                           .objects = {&object, 1}};
    assert_int_equal(trp_pack(&troupe_type_trp_job_spec, &made, &spec), TROUPE_OK);
    assert_int_equal(trp_pack(&troupe_type_trp_wire_launch, &how, &launch), TROUPE_OK);
    trp_wire_submit submit = {.submission = asks->submission,
                              .key = asks->key,
                              .name = "nap",
                              .trainer = "nap",
                              .spec = {spec.data, spec.size},
                              .launch = {launch.data, launch.size},
                              .need = {.ranks = asks->ranks > 0 ? asks->ranks : 1,
                                       .cpus_per_rank = 1,
                                       .gpus_per_rank = asks->gpus,
                                       .restarts = asks->restarts},
                              .run = run};
    troupe_status status = site_ask(link, TRP_WIRE_SUBMIT, &troupe_type_trp_wire_submit, &submit,
                                    TRP_WIRE_JOB, &troupe_type_trp_wire_job, arena, job);
    trp_buffer_free(&spec);
    trp_buffer_free(&launch);
    return status;
}
#define site_submit(it, link, arena, job, ...)                                                     \
    site_submit_as((it), (link), &(site_asks){__VA_ARGS__}, (arena), (job))

static inline troupe_status site_find(trp_server_link *link, int64_t id, trp_arena *arena,
                                      trp_wire_job *job)
{
    trp_wire_job_name name = {.job = id};
    return site_ask(link, TRP_WIRE_FIND, &troupe_type_trp_wire_job_name, &name, TRP_WIRE_JOB,
                    &troupe_type_trp_wire_job, arena, job);
}

// Waits until the job is in that state, or has ended.
static inline void site_await(trp_server_link *link, int64_t id, int state, trp_arena *arena,
                              trp_wire_job *job)
{
    int64_t until_ms = support_now_ms() + 40000;
    do {
        if (site_find(link, id, arena, job) != TROUPE_OK)
            fail_msg("job %" PRId64 ": %s", id, troupe_last_error()->text);
        if (job->state == state || job->state == TRP_JOB_ENDED)
            return;
        nap_ms(2);
    } while (support_now_ms() < until_ms);
    fail_msg("job %" PRId64 " is in state %d and not %d: %s", id, job->state, state,
             job->why != NULL ? job->why : "");
}

static inline troupe_status site_wish(trp_server_link *link, int64_t id, int what, int number,
                                      trp_arena *arena)
{
    trp_wire_answer answer;
    trp_wire_wish wish = {.of = {.job = id}, .wish = what, .number = number};
    return site_ask(link, TRP_WIRE_WISH, &troupe_type_trp_wire_wish, &wish, TRP_WIRE_ANSWER,
                    &troupe_type_trp_wire_answer, arena, &answer);
}

// How often a run's program began; fails where two did at once.
static inline int site_count_runs(const site *it, const char *submission)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/ranks", it->storage, submission);
    char *text = support_read_file(path);
    int count = 0;
    for (const char *at = text; at != NULL && *at != '\0'; at++)
        count += *at == '\n';
    if (text != NULL && strstr(text, "TWICE") != NULL)
        fail_msg("two processes ran %s at once:\n%s", submission, text);
    free(text);
    return count;
}

#endif
