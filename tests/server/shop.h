// shop.h: jobs of the train server without its sockets: a state folder, submissions, and runners
// that hold the lock and do nothing until the test has them end.
#ifndef TROUPE_TEST_SHOP_H
#define TROUPE_TEST_SHOP_H

#include <fcntl.h>
#include <runtime/base/fault.h>
#include <runtime/codec/pack.h>
#include <server/fence.h>
#include <server/jobs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <train/job_end.h>
#include <train/spec.h>
#include <unistd.h>

typedef struct shop {
    char *folder;  // Of the state.
    char *storage; // Of the runs.
    trp_jobs *jobs;
    int64_t now_ms;
    double unix_s;
    int cpus, gpus, launches;
    const char *resources; // That the machine has beside; NULL: none.
    troupe_status refuses; // What a launch fails with; TROUPE_OK: it does not.
    trp_wire_order order;  // The last one; its texts are gone,
    char gpu_ids[64];      // but for these two.
    char rank_gpus[64];
    int kills, told;
} shop;

// ---- runners

// Becomes the runner of an attempt, if the fence lets it: as troupe-launch does.
static inline void shop_run(const char *folder, int attempt, int ready)
{
    char path[512], text[16] = "";
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    snprintf(path, sizeof path, "%s/alive", folder);
    int fd = open(path, O_RDWR);
    if (fd < 0 || fcntl(fd, F_SETLK, &lock) != 0 || pread(fd, text, sizeof text - 1, 0) < 1 ||
        atoi(text) != attempt)
        _exit(0);
    if (ready >= 0)
        (void)!write(ready, "", 1);
    for (;;)
        pause();
}

static inline troupe_status shop_launch(void *user, trp_entry *job, const trp_wire_launch *launch,
                                        const trp_wire_order *order, pid_t *process)
{
    shop *it = (shop *)user;
    int ready[2];
    char byte;
    assert_non_null(launch->program);
    it->launches++;
    it->order = *order;
    snprintf(it->rank_gpus, sizeof it->rank_gpus, "%s",
             order->rank_gpus != NULL ? order->rank_gpus : "");
    snprintf(it->gpu_ids, sizeof it->gpu_ids, "%s", order->gpu_ids != NULL ? order->gpu_ids : "");
    if (it->refuses != TROUPE_OK)
        return troupe_fail(it->refuses, "refused by the test");
    assert_int_equal(pipe(ready), 0);
    *process = fork();
    if (*process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        shop_run(job->folder, order->attempt, ready[1]);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1); // It has the lock.
    close(ready[0]);
    return TROUPE_OK;
}

static inline bool shop_watch(void *user, trp_entry *job, pid_t process)
{
    (void)user, (void)job;
    return process > 0;
}

static inline void shop_kill(void *user, trp_entry *job, bool keeper)
{
    shop *it = (shop *)user;
    trp_fence found;
    assert_false(keeper);
    it->kills++;
    assert_int_equal(trp_fence_look(job->folder, &found), TROUPE_OK);
    assert_true(found.runner > 0);
    kill(found.runner, SIGKILL);
}

static inline void shop_changed(void *user, trp_entry *job)
{
    (void)job;
    ((shop *)user)->told++;
}

// ---- opening

static inline troupe_status shop_try_open(shop *it)
{
    trp_resources machine;
    trp_jobs_acts acts = {.launch = shop_launch,
                          .watch = shop_watch,
                          .kill = shop_kill,
                          .changed = shop_changed,
                          .user = it};
    trp_resources_init(&machine, (int64_t)it->cpus * TRP_CPU, it->gpus, (int64_t)1 << 30);
    if (it->resources != NULL)
        assert_int_equal(trp_resources_add(&machine, it->resources), TROUPE_OK);
    return trp_jobs_open(it->folder, &machine, &acts, it->now_ms, it->unix_s, &it->jobs);
}

static inline void shop_turn(shop *it)
{
    it->now_ms++;
    it->unix_s += 0.001;
    trp_jobs_set_time(it->jobs, it->now_ms, it->unix_s);
    assert_int_equal(trp_jobs_turn(it->jobs), TROUPE_OK);
}

static inline void shop_pass(shop *it, int64_t ms)
{
    it->now_ms += ms;
    it->unix_s += (double)ms / 1000;
    shop_turn(it);
}

static inline void shop_open(shop *it, int cpus)
{
    *it = (shop){.folder = support_directory_make(),
                 .storage = support_directory_make(),
                 .now_ms = 1000,
                 .unix_s = 1.8e9,
                 .cpus = cpus};
    assert_int_equal(shop_try_open(it), TROUPE_OK);
    shop_turn(it);
}

// As a server that is killed, and another one.
static inline void shop_reopen(shop *it)
{
    trp_jobs_close(it->jobs);
    it->jobs = NULL;
    assert_int_equal(shop_try_open(it), TROUPE_OK);
    shop_turn(it);
}

// As a server that finds no books, but folders.
static inline void shop_lose_books(shop *it)
{
    static const char wrong[] = "this is no database, whatever it was";
    char *books = support_path(it->folder, "books.db");
    trp_jobs_close(it->jobs);
    it->jobs = NULL;
    support_write_file(books, wrong, sizeof wrong - 1);
    free(books);
    assert_int_equal(shop_try_open(it), TROUPE_OK);
    shop_turn(it);
}

static inline int shop_free_cpus(const shop *it)
{
    trp_wire_status status;
    trp_jobs_count(it->jobs, &status);
    return (int)status.cpus_free;
}

static inline void shop_close(shop *it)
{
    for (trp_entry *at = trp_jobs_first(it->jobs); at != NULL; at = (trp_entry *)at->hh.next)
        if (at->process > 0) {
            kill(at->process, SIGKILL);
            (void)waitpid(at->process, NULL, 0);
        }
    trp_jobs_close(it->jobs);
    support_directory_remove(it->folder);
    support_directory_remove(it->storage);
}

// ---- submissions

typedef struct shop_asks {
    const char *submission, *key;
    int ranks, restarts, priority, min_ranks;
    double limit_s, start_at, rate, gpus; // `gpus`: of a rank.
    const char *run;                      // A name; NULL: the submission's.
    const char *resources;
    const char *secret;  // In the environment of the program.
    bool beyond, claims; // `claims`: the folder of the run was made for it.
} shop_asks;

static inline void shop_pack(trp_buffer *out, const troupe_type *type, const void *value)
{
    assert_int_equal(trp_pack(type, value, out), TROUPE_OK);
}

static inline void shop_describe(const shop *it, const shop_asks *asks, trp_buffer *spec,
                                 trp_buffer *launch, char run[512], char config[64],
                                 trp_wire_submit *submit)
{
    double rate = asks->rate > 0 ? asks->rate : 0.1;
    trp_job_spec made = {.version = 1,
                         .program = "/bin/true",
                         .trainer = "nap",
                         .schema = 7,
                         .config = {&rate, sizeof rate}};
    made.options.ranks = asks->ranks;
    shop_pack(spec, &troupe_type_trp_job_spec, &made);
    trp_wire_launch how = {.program = "/bin/true", .folder = "/"};
    troupe_text secret = asks->secret;
    if (secret != NULL)
        how.environment = (troupe_array_troupe_text){&secret, 1};
    shop_pack(launch, &troupe_type_trp_wire_launch, &how);
    snprintf(run, 512, "%s/%s", it->storage, asks->run != NULL ? asks->run : asks->submission);
    (void)mkdir(run, 0700);
    snprintf(config, 64, "{\"steps\": 9, \"walk\": {\"size\": 1, \"rate\": %g}}", rate);
    *submit = (trp_wire_submit){
        .submission = asks->submission,
        .key = asks->key,
        .name = "nap",
        .trainer = "nap",
        .spec = {spec->data, spec->size},
        .launch = {launch->data, launch->size},
        .need = {.ranks = asks->ranks > 0 ? asks->ranks : 1,
                 .min_ranks = asks->min_ranks,
                 .cpus_per_rank = 1,
                 .gpus_per_rank = asks->gpus,
                 .restarts = asks->restarts,
                 .priority = asks->priority,
                 .time_limit_s = asks->limit_s,
                 .resources_per_rank = asks->resources,
                 .start_at = asks->start_at},
        .run = run,
        .run_new = asks->claims,
        .config = config,
        .wait_if_impossible = asks->beyond,
    };
}

static inline troupe_status shop_submit_as(shop *it, const shop_asks *asks, trp_entry **job)
{
    trp_buffer spec = {0}, launch = {0};
    char run[512], config[64];
    trp_wire_submit submit;
    shop_describe(it, asks, &spec, &launch, run, config, &submit);
    troupe_status status = trp_jobs_submit(it->jobs, &submit, job);
    trp_buffer_free(&spec);
    trp_buffer_free(&launch);
    return status;
}
#define shop_submit(it, job, ...) shop_submit_as((it), &(shop_asks){__VA_ARGS__}, (job))

static inline trp_entry *shop_job(shop *it, const char *submission)
{
    trp_entry *job = trp_jobs_by_submission(it->jobs, submission);
    assert_non_null(job);
    return job;
}

static inline troupe_status shop_wish(shop *it, const trp_entry *of, trp_wire_wish_kind kind,
                                      int number)
{
    trp_entry *job;
    trp_wire_wish wish = {.of = {.job = of->row.id}, .wish = kind, .number = number};
    return trp_jobs_wish(it->jobs, &wish, &job);
}

// ---- what runners do

static inline troupe_status shop_greet(shop *it, trp_entry *job)
{
    trp_entry *found;
    trp_wire_runner hello = {
        .job = job->row.id, .attempt = job->row.attempt, .submission = job->row.submission};
    return trp_jobs_greet(it->jobs, &hello, job->process, &found);
}

// The process of the job dies.
static inline void shop_die(shop *it, trp_entry *job)
{
    int status = 0;
    pid_t process = job->process;
    assert_true(process > 0);
    kill(process, SIGKILL);
    assert_int_equal(waitpid(process, &status, 0), process);
    trp_jobs_exited(it->jobs, job, job->own ? status : -1);
}

// It leaves without an end, as one that was told to.
static inline void shop_leave(shop *it, trp_entry *job)
{
    shop_die(it, job);
    job->exit_status = TRP_JOB_NO_END << 8;
}

// It ends as it should.
static inline void shop_end(shop *it, trp_entry *job, troupe_status how, int reports)
{
    trp_job_end end = {.version = 1,
                       .attempt = job->row.attempt,
                       .status = how,
                       .error = how != TROUPE_OK ? "the loop failed" : NULL,
                       .reports = reports,
                       .ended_at = it->unix_s};
    assert_int_equal(trp_job_end_write(job->folder, &end), TROUPE_OK);
    shop_die(it, job);
}

#endif
