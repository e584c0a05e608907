// best_mode.c: see tune/sweep/best_mode.h.
#include <tune/sweep/best_mode.h>

#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/codec/json.h>
#include <runtime/host/own_command.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tune/sweep/sweep.h>
#include <unistd.h>

enum { LOOK_MS = 50, ENDS_STOPPED = 3 };

static struct {
    pid_t pid; // Of the process that was started for this; 0: none was.
    atomic_bool taken;
    trp_arena arena;
    trp_best_request request;
} mode;

static volatile sig_atomic_t signals;

// ---- what is put down

static void write_schema(const troupe_trainer *trainer, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, troupe_type_hash(trainer->config));
}

void trp_best_program_note(trp_buffer *line, const troupe_sweep *sweep)
{
    trp_own_command own;
    trp_arena arena = {0};
    troupe_error kept;
    char schema[17];
    trp_error_hold(&kept);
    write_schema(sweep->trainer, schema);
    if (trp_own_command_find(&arena, &own) == TROUPE_OK) {
        const trp_best_program program = {.path = own.program,
                                          .arguments = own.arguments,
                                          .folder = own.folder,
                                          .sweep = sweep->how.name,
                                          .schema = schema};
        trp_buffer_printf(line, ", \"program\": ");
        trp_json_value(line, &troupe_type_trp_best_program, &program);
    }
    trp_error_restore(&kept);
    trp_arena_clear(&arena);
}

// ---- the process

static _Noreturn void leave(int ends)
{
    (void)troupe_stop();
    (void)fflush(NULL);
    _exit(ends); // What the program does at its exit is its own.
}

static _Noreturn void fail(void)
{
    (void)fflush(stdout);
    fprintf(stderr, "troupe tune train-best: %s\n", troupe_last_error()->text);
    leave(EXIT_FAILURE);
}

// The program has come to its end without the sweep.
static void say_missed(void)
{
    if (mode.pid != getpid() || atomic_load(&mode.taken))
        return;
    (void)fflush(NULL);
    fprintf(stderr,
            "troupe tune train-best: the program has ended before its sweep '%s' over trainer "
            "'%s': expected that its main begins it, as it did before\n",
            mode.request.sweep, mode.request.trainer);
    _exit(EXIT_FAILURE);
}

static troupe_status read_request(int fd)
{
    struct stat about;
    trp_json json;
    char *text = NULL;
    if (fstat(fd, &about) == 0 && about.st_size > 0)
        text = trp_arena_alloc(&mode.arena, (size_t)about.st_size);
    if (text == NULL || pread(fd, text, (size_t)about.st_size, 0) != about.st_size)
        return troupe_fail(TROUPE_IO, "what is to be trained cannot be read");
    TROUPE_TRY(trp_json_parse(text, (size_t)about.st_size, &json));
    TROUPE_TRY(trp_json_read(&troupe_type_trp_best_request, json, &mode.arena, &mode.request));
    const trp_best_request *is = &mode.request;
    if (is->trainer == NULL || is->sweep == NULL || is->schema == NULL || is->folder == NULL ||
        is->config == NULL)
        return troupe_fail(TROUPE_MALFORMED, "what is to be trained is not said in full");
    return TROUPE_OK;
}

__attribute__((constructor)) static void find_at_start(void)
{
    int pid, fd;
    const char *text = secure_getenv("TROUPE_TRAIN_BEST");
    if (text == NULL)
        return;
    if (sscanf(text, "%d:%d", &pid, &fd) == 2 && pid == getpid()) {
        if (read_request(fd) != TROUPE_OK) {
            fprintf(stderr, "troupe tune train-best: %s\n", troupe_last_error()->text);
            _exit(EXIT_FAILURE);
        }
        close(fd);
        mode.pid = pid;
        (void)setenv("TROUPE_LEAKS", "0", 1); // Main does not come to give up what it has made.
        (void)atexit(say_missed);
    }
    (void)unsetenv("TROUPE_TRAIN_BEST"); // What the program starts is not meant.
}

// ---- the training

static void note_signal(int number)
{
    (void)number;
    signals++;
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction act = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        (void)sigaction(numbers[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) // As under nohup.
            (void)sigaction(numbers[i], &act, NULL);
    }
}

// The config over what it stands on: what JSON does not hold, as references, is as main has it.
static troupe_status make_config(const troupe_trainer *trainer, const void *base, void **config)
{
    const char *text = mode.request.config;
    trp_json json;
    *config = trp_arena_alloc(&mode.arena, trainer->config->size);
    if (*config == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a config of '%s'", trainer->name);
    if (base != NULL)
        memcpy(*config, base, trainer->config->size);
    else
        memset(*config, 0, trainer->config->size);
    TROUPE_TRY(trp_json_parse(text, strlen(text), &json));
    return trp_json_read(trainer->config, json, &mode.arena, *config);
}

// Options that were drawn for the trial.
static troupe_status lay_options(const troupe_trainer *trainer, const troupe_param *params,
                                 size_t count, const void *base, troupe_train_options *options)
{
    const char *text = mode.request.params;
    troupe_space *space;
    trp_json json;
    size_t dims;
    if (text == NULL)
        return TROUPE_OK;
    TROUPE_TRY(trp_json_parse(text, strlen(text), &json));
    TROUPE_TRY(troupe_space_open_as(trainer->config, params, count, base, &space));
    (void)troupe_space_dims(space, &dims);
    double *x = trp_arena_alloc(&mode.arena, (dims + 1) * sizeof *x);
    troupe_status status =
        x == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a config of '%s'", trainer->name)
                  : trp_space_read_point(space, json, true, x);
    if (status == TROUPE_OK)
        trp_space_options(space, x, options);
    troupe_space_free(&space);
    return status;
}

static troupe_status prepare(const troupe_trainer *trainer, const troupe_param *params,
                             size_t count, troupe_sweep *sweep, void **config)
{
    troupe_train_options *options = &sweep->train;
    char schema[17];
    write_schema(trainer, schema);
    if (strcmp(schema, mode.request.schema) != 0)
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "the config of trainer '%s' is another struct than the sweep's: the "
                           "program was built anew since, expected a sweep of the new one",
                           trainer->name);
    const void *base = sweep->how.base != NULL ? sweep->how.base : trainer->defaults;
    TROUPE_TRY(make_config(trainer, base, config));
    TROUPE_TRY(lay_options(trainer, params, count, base, options));
    if (options->keep_metric == NULL) {
        options->keep_metric = trp_sweep_metric(sweep);
        options->keep_goal = sweep->objectives[0].goal;
    }
    options->storage = mode.request.folder;
    options->name = "best";
    options->key = NULL;
    options->open = TROUPE_OPEN_NEW;
    options->server = TROUPE_SERVER_NONE; // What main has made for the trainer is here.
    options->console = TROUPE_CONSOLE_ON;
    return TROUPE_OK;
}

static troupe_status await(troupe_job *job, troupe_result **result)
{
    troupe_status status;
    for (int seen = 0; (status = troupe_job_wait(job, LOOK_MS, result)) == TROUPE_TIMED_OUT;) {
        int now = signals;
        if (seen == 0 && now > 0)
            troupe_job_stop(job);
        if (now > 1)
            troupe_job_kill(job, TROUPE_CANCELLED, "was ended by a signal");
        seen = now;
    }
    return status;
}

// What the last report said.
static int tell(const troupe_result *result)
{
    size_t count;
    const troupe_metric *metrics = troupe_result_metrics(result, &count);
    const char *checkpoint = troupe_result_best_checkpoint(result);
    for (size_t i = 0; i < count; i++)
        printf("%s%s %g", i > 0 ? ", " : "trained again: ", metrics[i].name, metrics[i].value);
    printf("%s%s\n", count > 0 ? ", in " : "trained again, without a report, in ",
           troupe_result_path(result));
    if (checkpoint != NULL)
        printf("checkpoint of the best report: %s\n", checkpoint);
    if (troupe_result_status(result) == TROUPE_OK)
        return troupe_result_stopped(result) ? ENDS_STOPPED : EXIT_SUCCESS;
    (void)fflush(stdout);
    fprintf(stderr, "troupe tune train-best: %s\n", troupe_result_cause(result));
    return EXIT_FAILURE;
}

void trp_best_mode_take(const troupe_trainer *trainer, const troupe_param *space, size_t count,
                        const troupe_tune_options *how)
{
    troupe_sweep sweep = {0};
    troupe_job *job;
    troupe_result *result = NULL;
    void *config = NULL;
    if (mode.pid == 0 || mode.pid != getpid() || trainer->name == NULL ||
        strcmp(trainer->name, mode.request.trainer) != 0)
        return;
    troupe_status status = trp_sweep_options(trainer, how, &sweep);
    if (status == TROUPE_OK && strcmp(sweep.how.name, mode.request.sweep) != 0)
        return; // Another sweep over the same trainer.
    if (status == TROUPE_OK)
        status = prepare(trainer, space, count, &sweep, &config);
    while (atomic_exchange(&mode.taken, true)) // Another thread trains it.
        (void)pause();
    if (status != TROUPE_OK)
        fail();
    watch_signals();
    if (troupe_submit_as(trainer, config, NULL, &job, &sweep.train) != TROUPE_OK)
        fail();
    status = await(job, &result);
    troupe_job_close(&job); // Its last files are written then.
    if (status != TROUPE_OK)
        fail();
    leave(tell(result));
}
