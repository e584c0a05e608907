// train.c: `troupe train` and `troupe submit`: a run whose ranks are a program, from the shell: of
// this process, or as a job of the train server, which runs the same command line once more for it;
// or the training of a version of a repository of models, by its own program.
#include "troupe.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <troupe.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 128, ENV_MAX = 16 * 1024, LOOK_MS = 50 };

typedef struct settings {
    troupe_train_options run;
    troupe_process_config program;
    char name[NAME_MAX_BYTES + 1];
    char env[ENV_MAX]; // Lines.
    char metric[64];
    bool submits, follows, json; // Of `troupe submit`.
    const char *model;           // A ref; NULL: a program is run.
    troupe_stored_options stored;
} settings;

static const char *command = "troupe train";

static void usage(FILE *out, bool submits)
{
    if (submits)
        fprintf(
            out,
            "usage: troupe submit [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
            "       troupe submit [OPTION...] --model REF\n\n"
            "Gives a training run, as of troupe-train(1), to the train server of this user,\n"
            "which is started if none runs, and prints the job's number and the run's folder.\n\n"
            "      --key TEXT          submitting the same again is the same job\n"
            "      --priority N        jobs of a higher one go first (default 0)\n"
            "      --start-at TIME     not before: seconds since 1970, or +30m, +12h\n"
            "      --follow            wait for its end; Ctrl-C leaves it alone\n"
            "      --json              print an object {\"job\", \"key\", \"run\"}\n");
    else
        fprintf(out,
                "usage: troupe train [OPTION...] [--] PROGRAM [ARGUMENT...]\n\n"
                "Runs a program on each rank of a training run, as PyTorch's torchrun does, with\n"
                "reports, checkpoints and restarts: troupe-train(1) says what it finds in its\n"
                "environment. Ctrl-C stops the run in order, a second one ends it at once.\n\n");
    fprintf(out,
            "  -n, --ranks N           processes (default 1)\n"
            "      --min-ranks N       begin with so many where there is no room for more\n"
            "      --name NAME         of the run's folder (default: of the program or script)\n"
            "      --storage DIR       folder of all runs (default ~/troupe_results)\n"
            "      --resume            go on with the run of that name, if there is one\n"
            "      --from DIR          begin with this checkpoint\n"
            "      --restarts N        after failures (default 0; -1: always)\n"
            "      --cpus N            reserved for each rank (default 1)\n"
            "      --gpus N            of each rank, also a part of one (default 0)\n"
            "      --resources TEXT    of each rank, as \"license=1\"\n"
            "      --time-limit TIME   stop after that: 90, 30m, 12h, 2d (default: none)\n"
            "      --grace TIME        to end after a stop (default 10)\n"
            "      --keep N            best checkpoints (default: all)\n"
            "      --best METRIC:GOAL  that ranks them; GOAL is min or max\n"
            "      --save-every N      ask for a checkpoint with each Nth report (default 1)\n"
            "      --rank-0-reports    the programs of other ranks do not\n"
            "      --config JSON       for the program, in TROUPE_CONFIG; of a model: settings\n"
            "      --env KEY=VALUE     for the program; may be repeated\n"
            "      --folder DIR        where the program runs (default: here)\n"
            "      --model REF         in place of PROGRAM: trains this version of a repository\n"
            "                          of models by the program that was kept with it\n"
            "      --from-version      begin with the version's weights\n"
            "      --data JSON         over the source of the data that it was pushed with\n"
            "      --repository FOLDER of the models (default: as of troupe-models(1))\n"
            "  -q, --quiet             show nothing of the run\n\n");
    if (submits)
        fprintf(
            out,
            "Ends with 0: the job was taken, or with --follow has ended; 1: it was not, or has\n"
            "failed; 2: the command line is wrong; 3, with --follow: it was stopped, or a signal\n"
            "has ended the waiting.\n");
    else
        fprintf(
            out,
            "Ends with 0: the run has ended; 1: it has failed; 2: the command line is wrong; 3:\n"
            "it was stopped at its time limit. A run that a signal has stopped ends by that\n"
            "signal.\n");
}

// ---- what is given

static bool complain(const char *option, const char *given, const char *expected)
{
    fprintf(stderr, "%s: --%s is \"%s\", expected %s\n", command, option, given, expected);
    return false;
}

static bool read_real(const char *option, const char *given, double *number)
{
    char *end;
    *number = strtod(given, &end);
    return (end != given && *end == '\0' && isfinite(*number) && *number >= 0) ||
           complain(option, given, "a number of 0 or more");
}

static bool read_whole(const char *option, const char *given, long least, int *number)
{
    char *end, expected[48];
    errno = 0;
    long value = strtol(given, &end, 10);
    *number = (int)value;
    snprintf(expected, sizeof expected, "a whole number of %ld or more", least);
    return (errno == 0 && end != given && *end == '\0' && value >= least && value <= INT32_MAX) ||
           complain(option, given, expected);
}

// 0 stands for a default in options.
static bool read_time(const char *option, const char *given, double *seconds)
{
    static const char units[] = "smhd";
    static const double lengths[] = {1, 60, 3600, 86400};
    char *end;
    *seconds = strtod(given, &end);
    const char *unit = *end ? strchr(units, *end) : units;
    if (end == given || !unit || (*end && end[1]) || !isfinite(*seconds) || !(*seconds > 0))
        return complain(option, given, "a time, as 90, 30m, 12h or 2d");
    *seconds *= lengths[unit - units];
    return true;
}

static bool read_best(settings *is, const char *given)
{
    const char *colon = strrchr(given, ':');
    size_t size = colon ? (size_t)(colon - given) : 0;
    bool least = colon && strcmp(colon, ":min") == 0;
    if (size == 0 || size >= sizeof is->metric || (!least && strcmp(colon, ":max") != 0))
        return complain("best", given, "a metric with its goal, as loss:min or accuracy:max");
    memcpy(is->metric, given, size);
    is->metric[size] = '\0';
    is->run.keep_metric = is->metric;
    is->run.keep_goal = least ? TROUPE_MINIMIZE : TROUPE_MAXIMIZE;
    return true;
}

static bool add_env(settings *is, const char *given)
{
    size_t used = strlen(is->env), size = strlen(given);
    if (!strchr(given, '=') || given[0] == '=' || strchr(given, '\n'))
        return complain("env", given, "KEY=VALUE");
    if (used + size + 2 > sizeof is->env)
        return complain("env", given, "less than 16 KiB in all");
    snprintf(is->env + used, sizeof is->env - used, "%s\n", given);
    is->run.env = is->env;
    return true;
}

enum {
    MIN_RANKS = 256,
    NAME,
    STORAGE,
    RESUME,
    FROM,
    RESTARTS,
    CPUS,
    GPUS,
    RESOURCES,
    TIME_LIMIT,
    GRACE,
    KEEP,
    BEST,
    SAVE_EVERY,
    RANK_0_REPORTS,
    CONFIG,
    ENVIRONMENT,
    FOLDER,
    MODEL,
    FROM_VERSION,
    DATA,
    REPOSITORY,
    KEY,
    PRIORITY,
    START_AT,
    FOLLOW,
    JSON,
};

// Those of `troupe submit` alone, and then those of both.
enum { SUBMITS_OPTIONS = 5 };
static const struct option options[] = {
    {"key", required_argument, NULL, KEY},
    {"priority", required_argument, NULL, PRIORITY},
    {"start-at", required_argument, NULL, START_AT},
    {"follow", no_argument, NULL, FOLLOW},
    {"json", no_argument, NULL, JSON},
    {"ranks", required_argument, NULL, 'n'},
    {"min-ranks", required_argument, NULL, MIN_RANKS},
    {"name", required_argument, NULL, NAME},
    {"storage", required_argument, NULL, STORAGE},
    {"resume", no_argument, NULL, RESUME},
    {"from", required_argument, NULL, FROM},
    {"restarts", required_argument, NULL, RESTARTS},
    {"cpus", required_argument, NULL, CPUS},
    {"gpus", required_argument, NULL, GPUS},
    {"resources", required_argument, NULL, RESOURCES},
    {"time-limit", required_argument, NULL, TIME_LIMIT},
    {"grace", required_argument, NULL, GRACE},
    {"keep", required_argument, NULL, KEEP},
    {"best", required_argument, NULL, BEST},
    {"save-every", required_argument, NULL, SAVE_EVERY},
    {"rank-0-reports", no_argument, NULL, RANK_0_REPORTS},
    {"config", required_argument, NULL, CONFIG},
    {"env", required_argument, NULL, ENVIRONMENT},
    {"folder", required_argument, NULL, FOLDER},
    {"model", required_argument, NULL, MODEL},
    {"from-version", no_argument, NULL, FROM_VERSION},
    {"data", required_argument, NULL, DATA},
    {"repository", required_argument, NULL, REPOSITORY},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

// Unix time, or a time from now on.
static bool read_start(const char *given, double *unix_s)
{
    struct timespec now;
    if (given[0] != '+')
        return read_real("start-at", given, unix_s);
    if (!read_time("start-at", given + 1, unix_s))
        return false;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *unix_s += (double)now.tv_sec;
    return true;
}

static bool take_of_submit(settings *is, int option, const char *given)
{
    switch (option) {
    case KEY:
        is->run.key = given;
        return true;
    case PRIORITY:
        return read_whole("priority", given, -1000, &is->run.priority);
    case START_AT:
        return read_start(given, &is->run.start_at);
    case FOLLOW:
        is->follows = true;
        return true;
    default:
        is->json = true;
        return true;
    }
}

// Options with a number.
static bool take_number(settings *is, int option, const char *given)
{
    switch (option) {
    case 'n':
        return read_whole("ranks", given, 1, &is->run.ranks);
    case MIN_RANKS:
        return read_whole("min-ranks", given, 1, &is->run.min_ranks);
    case RESTARTS:
        return read_whole("restarts", given, TROUPE_FOREVER, &is->run.restarts);
    case KEEP:
        return read_whole("keep", given, 1, &is->run.keep);
    case SAVE_EVERY:
        return read_whole("save-every", given, 1, &is->run.checkpoint_every);
    case CPUS:
        return read_real("cpus", given, &is->run.cpus_per_rank);
    case GPUS:
        return read_real("gpus", given, &is->run.gpus_per_rank);
    case TIME_LIMIT:
        return read_time("time-limit", given, &is->run.time_limit_s);
    case GRACE:
        if (!read_time("grace", given, &is->program.grace_s))
            return false;
        is->run.time_limit_grace_s = is->program.grace_s;
        return true;
    default:
        return false;
    }
}

static bool take_of_model(settings *is, int option, const char *given)
{
    switch (option) {
    case MODEL:
        is->model = given;
        return true;
    case FROM_VERSION:
        is->stored.from_version = true;
        return true;
    case DATA:
        is->stored.data = given;
        return true;
    default:
        is->stored.repository = given;
        return true;
    }
}

static bool take(settings *is, int option, const char *given)
{
    switch (option) {
    case NAME:
        is->run.name = given;
        return true;
    case STORAGE:
        is->run.storage = given;
        return true;
    case RESUME:
        is->run.open = TROUPE_OPEN_RESUME_OR_NEW;
        return true;
    case FROM:
        is->run.from = given;
        return true;
    case RESOURCES:
        is->run.resources_per_rank = given;
        return true;
    case BEST:
        return read_best(is, given);
    case RANK_0_REPORTS:
        is->program.rank_0_reports = true;
        return true;
    case CONFIG:
        is->program.json = given;
        return true;
    case ENVIRONMENT:
        return add_env(is, given);
    case FOLDER:
        is->program.folder = given;
        return true;
    case 'q':
        is->run.console = TROUPE_CONSOLE_OFF;
        return true;
    case MODEL:
    case FROM_VERSION:
    case DATA:
    case REPOSITORY:
        return take_of_model(is, option, given);
    default:
        return option >= KEY ? take_of_submit(is, option, given) : take_number(is, option, given);
    }
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The program's name, or that of the script that it is to run, of characters that a folder of a run
// may have.
static void name_run(settings *is)
{
    const troupe_array_troupe_text *given = &is->program.arguments;
    const char *name = last_part(given->items[0]);
    if (strncmp(name, "python", 6) == 0 && given->count > 1 && given->items[1][0] != '-')
        name = last_part(given->items[1]);
    snprintf(is->name, sizeof is->name, "%s", name);
    for (char *at = is->name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '-';
    if (!is->run.name)
        is->run.name = is->name;
}

// What belongs to a program, or to a model, and not to the other.
static bool check_model(const settings *is, int words)
{
    const troupe_stored_options *of_model = &is->stored;
    const char *odd = NULL;
    if (!is->model)
        odd = of_model->from_version ? "--from-version"
              : of_model->data       ? "--data"
              : of_model->repository ? "--repository"
                                     : NULL;
    else
        odd = is->program.folder           ? "--folder"
              : is->program.rank_0_reports ? "--rank-0-reports"
                                           : NULL;
    if (odd)
        fprintf(stderr, "%s: %s is of no use %s --model\n", command, odd,
                is->model ? "with" : "without");
    else if (is->model && words > 0)
        fprintf(stderr, "%s: there is a program, and --model, which has its own\n", command);
    return !odd && (!is->model || words == 0);
}

static void use_train(FILE *out)
{
    usage(out, false);
}

static void use_submit(FILE *out)
{
    usage(out, true);
}

static int misused(bool submits, const char *what)
{
    return submits ? tool_misused("submit", use_submit, what != NULL ? "%s" : NULL, what)
                   : tool_misused("train", use_train, what != NULL ? "%s" : NULL, what);
}

// False: *ends is what the command ends with.
static bool read_options(int argc, char **argv, bool submits, settings *is, int *ends)
{
    const struct option *own = submits ? options : options + SUBMITS_OPTIONS;
    *is = (settings){.run = {.size = sizeof is->run,
                             .console = submits ? TROUPE_CONSOLE_OFF : TROUPE_CONSOLE_ON,
                             .server = submits ? TROUPE_SERVER_AUTO : TROUPE_SERVER_NONE},
                     .submits = submits};
    *ends = TOOL_MISUSED;
    for (int option; (option = getopt_long(argc, argv, "+n:qh", own, NULL)) != -1;) {
        if (option == 'h')
            usage(stdout, submits);
        if (option == 'h' || option == '?') {
            *ends = option == 'h' ? TOOL_DONE : misused(submits, NULL);
            return false;
        }
        if (!take(is, option, optarg))
            return false;
    }
    if (!check_model(is, argc - optind))
        return false;
    if (is->model)
        return true;
    if (optind == argc) {
        *ends = misused(submits, "there is no program");
        return false;
    }
    is->program.arguments =
        (troupe_array_troupe_text){(const troupe_text *)argv + optind, (size_t)(argc - optind)};
    name_run(is);
    int ranks = is->run.ranks > 0 ? is->run.ranks : 1;
    if (is->run.min_ranks > ranks) {
        fprintf(stderr, "%s: --min-ranks is %d: expected at most %d, the --ranks\n", command,
                is->run.min_ranks, ranks);
        return false;
    }
    return true;
}

// ---- signals

static volatile sig_atomic_t signal_count, first_signal;

static void note_signal(int number)
{
    if (signal_count++ == 0)
        first_signal = number;
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before, ours = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
        (void)sigaction(numbers[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) // As under nohup.
            (void)sigaction(numbers[i], &ours, NULL);
    }
}

// As if nobody had handled it: so a shell knows.
static void end_by(int number)
{
    (void)fflush(NULL);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

// ---- the run

static troupe_status follow(troupe_job *job, troupe_result **result)
{
    int seen = 0;
    troupe_status status;
    while ((status = troupe_job_wait(job, LOOK_MS, result)) == TROUPE_TIMED_OUT) {
        int now = signal_count;
        if (seen == 0 && now > 0) {
            fprintf(stderr,
                    "troupe train: %s: the run stops, as soon as its programs have "
                    "reported; the next signal ends it at once\n",
                    strsignal(first_signal));
            troupe_job_stop(job);
        }
        if (now > 1)
            troupe_job_kill(job, TROUPE_CANCELLED, "was ended by a signal");
        seen = now;
    }
    return status;
}

static int complain_of(const char *why)
{
    fprintf(stderr, "%s: %s\n", command, why);
    return TOOL_FAILED;
}

// Ends the line with the options that go on with the run.
static void say_way_on(const settings *is, const troupe_result *result)
{
    const char *storage = is->run.storage;
    fprintf(stderr, "; it goes on with --resume --name %s%s%s\n",
            last_part(troupe_result_path(result)), storage ? " --storage " : "",
            storage ? storage : "");
}

// Without the advice for programs, which ends the text.
static int complain_of_run(const settings *is, const troupe_result *result)
{
    fprintf(stderr, "%s: %s\n", command, troupe_result_cause(result));
    fprintf(stderr, "%s: the run is at %s", command, troupe_result_path(result));
    say_way_on(is, result);
    return TOOL_FAILED;
}

static int end_of(const settings *is, const troupe_result *result)
{
    if (troupe_result_status(result) != TROUPE_OK)
        return complain_of_run(is, result);
    if (!troupe_result_stopped(result))
        return TOOL_DONE;
    fprintf(stderr, "%s: the run was stopped after report %d", command,
            troupe_result_reports(result));
    say_way_on(is, result);
    return TOOL_STOPPED;
}

static troupe_status submit(const settings *is, troupe_job **job)
{
    if (!is->model)
        return troupe_submit_as(&troupe_trainer_troupe_process, &is->program, NULL, job, &is->run);
    troupe_stored_options how = is->stored;
    how.size = sizeof how;
    how.train = &is->run;
    return troupe_submit_stored_with(is->model, is->program.json, NULL, job, &how);
}

int tool_train(int argc, char **argv)
{
    settings is;
    troupe_job *job;
    troupe_result *result = NULL;
    int ends;
    if (!read_options(argc, argv, false, &is, &ends))
        return ends;
    if (troupe_start(0, NULL) != TROUPE_OK)
        return complain_of(troupe_last_error()->text);
    watch_signals();
    troupe_status status = submit(&is, &job);
    if (status != TROUPE_OK) {
        ends = complain_of(troupe_last_error()->text);
        (void)troupe_stop();
        return ends;
    }
    status = follow(job, &result);
    ends = status == TROUPE_OK ? end_of(&is, result) : complain_of(troupe_last_error()->text);
    troupe_result_free(&result);
    troupe_job_close(&job);
    (void)troupe_stop();
    if (first_signal != 0 && ends != TOOL_DONE)
        end_by(first_signal);
    return ends;
}

// ---- a job of the train server

static void say_job(const settings *is, const troupe_job *job)
{
    long long number = (long long)troupe_job_number(job);
    if (!is->json) {
        printf("job %lld%s%s: %s\n", number, is->run.key ? ", key " : "",
               is->run.key ? is->run.key : "", troupe_job_path(job));
        return;
    }
    printf("{\"job\": %lld, ", number);
    tool_print_quoted("key", is->run.key);
    printf(", ");
    tool_print_quoted("run", troupe_job_path(job));
    printf("}\n");
}

// Waits for its end, or until a signal ends that.
static int await_end(const settings *is, troupe_job *job)
{
    troupe_result *result = NULL;
    troupe_status status = TROUPE_TIMED_OUT;
    while (status == TROUPE_TIMED_OUT && signal_count == 0)
        status = troupe_job_wait(job, LOOK_MS, &result);
    if (status == TROUPE_TIMED_OUT) {
        fprintf(stderr, "troupe submit: job %lld goes on (troupe stop %lld ends it)\n",
                (long long)troupe_job_number(job), (long long)troupe_job_number(job));
        return TOOL_STOPPED;
    }
    int ends = status == TROUPE_OK ? end_of(is, result) : complain_of(troupe_last_error()->text);
    troupe_result_free(&result);
    return ends;
}

int tool_submit(int argc, char **argv)
{
    settings is;
    troupe_job *job;
    int ends;
    command = "troupe submit";
    if (!read_options(argc, argv, true, &is, &ends))
        return ends;
    if (troupe_start(0, NULL) != TROUPE_OK) // Where the server has started it, it does the job.
        return complain_of(troupe_last_error()->text);
    if (submit(&is, &job) != TROUPE_OK) {
        ends = complain_of(troupe_last_error()->text);
        (void)troupe_stop();
        return ends;
    }
    watch_signals();
    say_job(&is, job);
    (void)fflush(stdout);
    ends = is.follows ? await_end(&is, job) : TOOL_DONE;
    if (troupe_job_leave(&job) != TROUPE_OK)
        ends = complain_of(troupe_last_error()->text);
    (void)troupe_stop();
    return ends;
}
