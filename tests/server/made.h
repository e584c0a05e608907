// made.h: a state folder as the train server and its runs leave it, made without either: jobs in
// each state, runs with journals, sweeps, routes. Also with a job that goes on, for who looks at
// the page.
#ifndef MADE_H
#define MADE_H

#include <fcntl.h>
#include <math.h>
#include <runtime/codec/pack.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/stat.h>
#include <time.h>
#include <train/wire.h>
#include <unistd.h>

typedef struct made_folders {
    char *state, *results, *models; // Folders.
    double now;
} made_folders;

// A path below a folder, with the folders above it made.
static inline trp_path made_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline trp_path made_path(const char *format, ...)
{
    trp_path path, above;
    va_list list;
    va_start(list, format);
    vsnprintf(path.text, sizeof path.text, format, list);
    va_end(list);
    above = path;
    *strrchr(above.text, '/') = '\0';
    troupe_must(trp_folder_make(above.text));
    return path;
}

static inline void made_line(const char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void made_line(const char *path, const char *format, ...)
{
    FILE *file = fopen(path, "a");
    va_list list;
    assert_non_null(file);
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    fputc('\n', file);
    assert_int_equal(fclose(file), 0);
}

typedef struct made_time {
    char text[40];
} made_time;
static inline made_time made_at(double at)
{
    made_time out;
    time_t seconds = (time_t)at;
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(out.text, sizeof out.text, "%Y-%m-%dT%H:%M:%S.000Z", &parts);
    return out;
}

static inline made_folders made_begin(const char *folder)
{
    made_folders it = {support_path(folder, "state"), support_path(folder, "troupe_results"),
                       support_path(folder, "models"), (double)time(NULL)};
    troupe_must(trp_folder_make(it.state));
    troupe_must(trp_folder_make(it.results));
    troupe_must(trp_folder_make(it.models));
    return it;
}

static inline void made_over(made_folders *it)
{
    free(it->state);
    free(it->results);
    free(it->models);
}

typedef struct made_job {
    int id;
    const char *name, *trainer, *run; // `run`: the name of a folder in the results.
    const char *config;
    int ranks;
    double submitted; // Seconds ago.
    int gpus;         // Of each rank.
} made_job;

static inline void made_submit(const made_folders *it, const made_job *job)
{
    trp_path path = made_path("%s/jobs/%08d/job.json", it->state, job->id);
    made_line(
        path.text,
        "{\"version\": 1, \"id\": %d, \"name\": \"%s\", \"trainer\": \"%s\", \"program\": "
        "\"/usr/local/bin/%s\", \"arguments\": [\"%s\"], \"folder\": \"%s/%s\", \"ranks\": %d, "
        "\"cpus_per_rank\": 1, \"gpus_per_rank\": %d, \"memory_per_rank_bytes\": 268435456, "
        "\"priority\": 0, "
        "\"submitted_at\": %.0f, \"config\": %s, \"metadata\": {\"by\": \"<b>me</b>\"}}",
        job->id, job->name, job->trainer, job->trainer, job->trainer, it->results, job->run,
        job->ranks, job->gpus, it->now - job->submitted, job->config);
    path = made_path("%s/jobs/%08d/log", it->state, job->id);
    made_line(path.text, "%s: reading data\n%s: 1437 rows of 64 columns", job->trainer,
              job->trainer);
}

static inline void made_end(const made_folders *it, int id, const trp_job_end *end)
{
    trp_buffer packed = {0};
    trp_path path = made_path("%s/jobs/%08d/end", it->state, id);
    troupe_must(trp_pack(&troupe_type_trp_job_end, end, &packed));
    support_write_file(path.text, packed.data, packed.size);
    trp_buffer_free(&packed);
}

static inline trp_path made_run(const made_folders *it, const char *run, const char *trainer,
                                int ranks, int expected, const char *config, double began)
{
    trp_path path = made_path("%s/%s/run.json", it->results, run);
    made_line(path.text,
              "{\"version\": 1, \"program\": \"%s\", \"trainer\": \"%s\", \"created\": \"%s\", "
              "\"options\": {\"ranks\": %d, \"expected_reports\": %d}, \"config\": %s}",
              trainer, trainer, made_at(began).text, ranks, expected, config);
    path = made_path("%s/%s/journal.jsonl", it->results, run);
    made_line(path.text, "{\"event\": \"open\", \"epoch\": 1, \"at\": \"%s\", \"process\": 4711}",
              made_at(began).text);
    made_line(path.text,
              "{\"event\": \"attempt\", \"attempt\": 0, \"report\": 0, \"at\": \"%s\", "
              "\"elapsed_s\": 0, \"pids\": [4720, 4721], \"checkpoint\": null}",
              made_at(began).text);
    made_line(path.text, "{\"event\": \"state\", \"state\": \"RUNNING\"}");
    return path;
}

// How the run ended: the file `end` of its folder.
static inline void made_run_end(const made_folders *it, const char *run, const char *status,
                                bool stopped, double at)
{
    trp_path path = made_path("%s/%s/end", it->results, run);
    made_line(path.text, "{\"version\": 1, \"status\": \"%s\", \"stopped\": %s, \"at\": \"%s\"}",
              status, stopped ? "true" : "false", made_at(at).text);
}

// A curve that falls, with noise that is the same each time.
static inline double made_loss(int report, double rate)
{
    double noise = sin(report * 12.9898 + rate * 78.233) * 43758.5453;
    return 2.3 * exp(-report * rate) + 0.08 +
           0.05 * (noise - floor(noise)) * exp(-report * rate / 3);
}

static inline void made_report(const char *journal, int report, double elapsed_s, double rate)
{
    double loss = made_loss(report, rate);
    made_line(journal,
              "{\"event\": \"report\", \"report\": %d, \"attempt\": 0, \"elapsed_s\": %.3f, "
              "\"metrics\": {\"loss\": %.6f, \"accuracy\": %.4f, \"rate\": %.4f}, \"checkpoint\": "
              "null}",
              report, elapsed_s, loss, 1 - loss / 2.6, report < 60 ? 0.05 : 0.025);
    if (report % 20 == 0)
        made_line(journal,
                  "{\"event\": \"commit\", \"report\": %d, \"elapsed_s\": %.3f, \"metrics\": "
                  "{\"loss\": %.6f}, \"checkpoint\": \"checkpoint_%06d\"}",
                  report, elapsed_s, loss, report / 20);
}

// What `ranks` processes used in each of so many seconds from then on.
static inline void made_usage(const made_folders *it, const char *run, int ranks, double from,
                              int seconds)
{
    trp_path path = made_path("%s/%s/usage.jsonl", it->results, run);
    for (int s = 0; s < seconds; s++)
        for (int rank = 0; rank < ranks; rank++)
            made_line(
                path.text,
                "{\"t\": %.2f, \"rank\": %d, \"pid\": %d, \"cpu_s\": %.2f, \"rss_bytes\": %.0f}",
                from + s, rank, 4720 + rank, s * (0.9 - 0.05 * rank) + 0.5 * (1 - cos(s / 9.0)),
                9e7 + 6e7 * (1 - exp(-s / 20.0)) + rank * 4e6);
}

// What GPUs of a kind did in each of so many seconds: each works for most of a batch's time.
static inline void made_gpus(const made_folders *it, const char *run, int gpus, double from,
                             int seconds)
{
    trp_path path = made_path("%s/%s/usage.jsonl", it->results, run);
    for (int s = 0; s < seconds; s++)
        for (int gpu = 0; gpu < gpus; gpu++)
            made_line(path.text,
                      "{\"t\": %.2f, \"gpu\": \"%d\", \"name\": \"Standin A100\", \"busy\": %.2f, "
                      "\"used_bytes\": %.0f, \"total_bytes\": 85899345920}",
                      from + s + 0.5, gpu,
                      s % 60 > 54 ? 0.07 : 0.82 - 0.04 * gpu + 0.08 * sin(s / 5.0 + gpu),
                      1.9e10 + 1.1e10 * (1 - exp(-s / 15.0)) + gpu * 2e9);
}

static inline void made_output(const made_folders *it, const char *run, int rank, int lines)
{
    trp_path path = made_path("%s/%s/log/rank_%05d.log", it->results, run, rank);
    made_line(path.text, "== attempt 0, process %d", 4720 + rank);
    for (int i = 1; i <= lines; i++)
        made_line(path.text, "epoch %d: loss %.4f, %d rows/s", i, made_loss(i, 0.03),
                  48000 + i * 13 % 900);
}

static inline void made_sweep(const made_folders *it, const char *name, int trials)
{
    trp_path path = made_path("%s/%s/trials.jsonl", it->results, name);
    made_line(path.text,
              "{\"event\": \"sweep\", \"trainer\": \"digits\", \"metric\": \"loss\", "
              "\"goal\": \"minimize\", \"trials\": %d, \"seed\": 7, \"scheduler\": "
              "\"ASHA, grace 4, reduction 3\"}",
              trials);
    made_line(path.text,
              "{\"event\": \"study\", \"searcher\": \"auto\", \"chosen\": \"auto: TPE\"}");
    for (int i = 0; i < trials; i++) {
        double rate = 0.003 * pow(1.28, i % 17), seed = i * 0.37;
        int hidden = 16 << (i * 7 % 5), reports = i % 3 == 0 ? 60 : i % 3 == 1 ? 12 : 4;
        char trial[64];
        snprintf(trial, sizeof trial, "digits_3f0a9_%05d", i);
        made_line(
            path.text,
            "{\"event\": \"submitted\", \"trial\": \"%s\", \"config\": {\"rate\": %.5f, "
            "\"hidden\": %d, \"activation\": \"%s\", \"fitting\": {\"batch\": %d, \"epochs\": "
            "60}}}",
            trial, rate, hidden, i % 4 == 3 ? "relu" : "tanh", 16 << (i % 3));
        bool failed = i == 11;
        for (int k = 1; k <= (failed ? 2 : reports); k++)
            made_line(path.text,
                      "{\"event\": \"report\", \"trial\": %d, \"number\": %d, \"elapsed_s\": "
                      "%.3f, \"name\": \"%s\", \"metrics\": {\"loss\": %.6f, \"accuracy\": 0.9}}",
                      i, k, k * 0.4, trial,
                      made_loss(k, rate * 1.4 + hidden * 2e-4) * (1 + 0.1 * sin(seed)));
        if (i + 2 < trials)
            made_line(
                path.text,
                "{\"event\": \"end\", \"trial\": %d, \"ending\": \"complete\", \"error\": %s, "
                "\"name\": \"%s\", \"state\": \"%s\", \"reports\": %d, \"elapsed_s\": %.2f, "
                "\"best\": 0.3}",
                i, failed ? "\"rank 0 was killed by signal 9\"" : "null", trial,
                failed          ? "ERROR"
                : reports == 60 ? "TERMINATED"
                                : "STOPPED",
                reports, reports * 0.4);
    }
}

static inline void made_route(const made_folders *it)
{
    trp_path path = made_path("%s/routes/digits.json", it->state);
    made_line(
        path.text,
        "{\"route\": \"/digits\", \"version\": \"digits@2\", \"model\": \"line\", "
        "\"token\": \"not to be seen\", "
        "\"answered\": 18211, \"failed\": 0, \"refused\": 12, \"queued\": 0, \"under_way\": 2, "
        "\"replicas\": 2, \"replicas_alive\": 2, \"latency\": [[0.0001, 0], [0.00025, 210], "
        "[0.0005, 5900], [0.001, 13100], [0.0025, 17600], [0.005, 18150], [0.01, 18204], "
        "[0.025, 18211]]}");
}

// A job of each kind: done (1), failed after a restart (2), stopped (3), queued (4), and with
// metrics of another run in the results (alone).
static inline void made_jobs(const made_folders *it)
{
    static const char config[] = "{\"rate\": 0.05, \"hidden\": 128, \"fitting\": {\"epochs\": 200, "
                                 "\"batch\": 32, \"seed\": 1}}";
    const made_job jobs[] = {
        {1, "digits", "digits", "digits", config, 2, 3300, 0},
        {2, "transformer", "transformer", "transformer", config, 2, 2900, 1},
        {3, "digits-wide", "digits", "digits_wide", config, 1, 2000, 0},
        {4, "transformer-long", "transformer", "transformer_long", config, 2, 30, 0}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        made_submit(it, &jobs[i]);
    trp_path path = made_run(it, "digits", "digits", 2, 200, config, it->now - 3290);
    for (int i = 1; i <= 200; i++)
        made_report(path.text, i, i * 1.5, 0.03);
    made_usage(it, "digits", 2, it->now - 3290, 300);
    made_output(it, "digits", 0, 200);
    made_output(it, "digits", 1, 200);
    made_line(path.text, "{\"event\": \"end\", \"status\": \"OK\", \"stopped\": false}");
    made_run_end(it, "digits", "OK", false, it->now - 2988);
    made_end(it, 1, &(trp_job_end){.version = 1, .reports = 200, .ended_at = it->now - 2988});

    path = made_run(it, "transformer", "transformer", 2, 300, config, it->now - 2890);
    for (int i = 1; i <= 140; i++) {
        if (i == 70)
            made_line(path.text,
                      "{\"event\": \"attempt\", \"attempt\": 1, \"report\": 60, \"at\": \"%s\", "
                      "\"elapsed_s\": 210, \"pids\": [4720, 4790], \"cause\": {\"rank\": 1, "
                      "\"status\": \"PEER_LOST\", \"text\": \"killed by signal 9\"}, \"memory\": "
                      "false, \"replaced\": [1], \"checkpoint\": \"checkpoint_000003\"}",
                      made_at(it->now - 2680).text);
        made_report(path.text, i, i * 3.0, 0.012);
    }
    made_line(path.text,
              "{\"event\": \"modify\", \"revision\": 1, \"member\": \"rate\", \"value\": "
              "0.025}");
    made_line(path.text, "{\"event\": \"live\", \"revision\": 1, \"report\": 100}");
    made_usage(it, "transformer", 2, it->now - 2890, 420);
    made_gpus(it, "transformer", 2, it->now - 2890, 419);
    made_output(it, "transformer", 0, 140);
    made_run_end(it, "transformer", "FAILED", false, it->now - 2470);
    made_end(it, 2,
             &(trp_job_end){.version = 1,
                            .status = TROUPE_FAILED,
                            .error = "rank 0: the loss at step 14000 is NaN: <script>alert(1)"
                                     "</script>",
                            .reports = 140,
                            .restarts = 1,
                            .ended_at = it->now - 2470});

    path = made_run(it, "digits_wide", "digits", 1, 200, config, it->now - 1990);
    for (int i = 1; i <= 90; i++)
        made_report(path.text, i, i * 2.0, 0.05);
    made_usage(it, "digits_wide", 1, it->now - 1990, 180);
    made_run_end(it, "digits_wide", "OK", true, it->now - 1808);
    made_end(
        it, 3,
        &(trp_job_end){.version = 1, .stopped = true, .reports = 90, .ended_at = it->now - 1808});

    path = made_run(it, "alone", "spiral", 1, 0, "{\"rate\": 0.1}", it->now - 86400);
    for (int i = 1; i <= 30; i++)
        made_report(path.text, i, i * 0.1, 0.08);
}

// A job that has its lock and makes a report every 200 ms until it is killed.
static inline void made_going(const made_folders *it, int id, int begun)
{
    static const char config[] = "{\"rate\": 0.05, \"hidden\": 256, \"fitting\": {\"epochs\": 400, "
                                 "\"batch\": 64, \"seed\": 3}}";
    made_submit(it, &(made_job){id, "digits-deep", "digits", "digits_deep", config, 2, 120, 1});
    trp_path path = made_run(it, "digits_deep", "digits", 2, 400, config, it->now - 110);
    for (int i = 1; i <= begun; i++)
        made_report(path.text, i, i * 0.9, 0.02);
    made_usage(it, "digits_deep", 2, it->now - 110, 110);
    made_gpus(it, "digits_deep", 2, it->now - 110, 109);
    made_output(it, "digits_deep", 0, begun);
    made_output(it, "digits_deep", 1, begun);
    trp_path alive = made_path("%s/jobs/%08d/alive", it->state, id);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    int fd = open(alive.text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
    for (int i = begun + 1;; i++) {
        usleep(200000);
        made_report(path.text, i, i * 0.9, 0.02);
    }
}

#endif
