// control.c: `troupe server`: starts, stops and shows the train server.
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/codec/json.h>
#include <runtime/text/table.h>
#include <server/ask.h>
#include <server/gateway.h>
#include <server/program.h>
#include <server/say.h>
#include <server/server.h>
#include <server/track.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { START_MS = 5000, LINK_MS = 2000, IDLE_S = 600, WARM_S = 5, LOG_BYTES_MAX = 8 << 20 };

typedef struct settings {
    trp_server_how how;
    trp_path folder; // Of its state.
    trp_wire_gc gc;
    const char *webhook, *mlflow, *experiment;
    bool foreground, json, jobs, no_gateway;
} settings;

static void usage(FILE *out)
{
    fprintf(out,
            "usage: troupe server start|stop|status|gc|link [OPTION...]\n\n"
            "The train server of this user takes jobs of many programs, and runs them.\n\n"
            "start: starts it, unless it runs\n"
            "  --foreground       stays, and says on standard error what goes to server.log else\n"
            "  --auto             it ends itself after ten minutes without clients and jobs\n"
            "  --cpus N           CPUs that it gives away (default: those of this machine)\n"
            "  --gpus N           GPUs that it gives away (default: those of this machine)\n"
            "  --memory BYTES     memory that it gives away (default: 70 %% of this machine's)\n"
            "  --resources TEXT   other resources, as license=2\n"
            "  --clients N        connections that it has at a time (default 1024)\n"
            "  --no-gateway       without the gateway, by which it is reached over HTTP\n"
            "  --webhook URL      told of each job that ends, from now on; none: nobody is\n"
            "  --mlflow URL       MLflow tracking server that gets each run; none: it does not\n"
            "  --experiment NAME  its experiment (default: the trainer's name)\n"
            "  --warm SECONDS     so long a program that has run a job is kept for others like it\n"
            "                     (default 5; 0: not at all)\n"
            "stop: ends it; jobs go on\n"
            "  --jobs             kills all jobs first\n"
            "status: says whether it runs, and what it has\n"
            "gc: removes jobs that have ended, but not the folders of their runs\n"
            "  --keep N           all but the N newest\n"
            "  --older DAYS       those that ended longer ago\n"
            "  --bytes N          the oldest, until their folders have at most N bytes together\n"
            "  --keys             frees the keys of jobs that were removed, now or earlier\n"
            "link: prints a link to the dashboard, which is good once and for a minute\n"
            "  --json             of each: prints what came of it as a JSON object\n");
}

static bool read_double(const char *name, double least, double *number)
{
    char *end;
    *number = strtod(optarg, &end);
    if (end != optarg && *end == '\0' && *number >= least && *number < 1e18)
        return true;
    fprintf(stderr, "troupe server: --%s is \"%s\", expected a number of %g or more\n", name,
            optarg, least);
    return false;
}

static bool read_whole(const char *name, double least, double *number)
{
    if (!read_double(name, least, number))
        return false;
    if (*number == floor(*number))
        return true;
    fprintf(stderr, "troupe server: --%s is \"%s\", expected a whole number\n", name, optarg);
    return false;
}

static bool read_int(const char *name, int least, int most, int *number)
{
    double read;
    if (!read_whole(name, least, &read))
        return false;
    *number = (int)fmin(read, most);
    return true;
}

// 0 of what is kept: nothing is, which is said to the server by the least that there is.
static bool read_kept(const char *name, int option, trp_wire_gc *gc)
{
    double number;
    if (!(option == 'o' ? read_double(name, 0, &number) : read_whole(name, 0, &number)))
        return false;
    if (option == 'o')
        gc->older_s = fmax(number * 86400, 1e-9);
    else if (option == 'b' || number == 0)
        gc->bytes = (int64_t)fmax(number, 1);
    else
        gc->keep = (int)fmin(number, INT32_MAX);
    return true;
}

static bool read_option(settings *it, const char *name, int option)
{
    double number;
    switch (option) {
    case 'f':
        it->foreground = true;
        return true;
    case 'a':
        it->how.idle_s = IDLE_S;
        return true;
    case 'c':
        return read_double(name, 0.0001, &it->how.cpus);
    case 'g':
        if (!read_whole(name, 0, &number))
            return false;
        it->how.gpus = number >= 1 ? (int)fmin(number, TRP_GPUS_MAX) : TROUPE_NONE;
        return true;
    case 'm':
        if (!read_double(name, 1, &number))
            return false;
        it->how.memory_bytes = (uint64_t)number;
        return true;
    case 'r':
        it->how.resources = optarg;
        return true;
    case 'n':
        return read_int(name, 1, 1 << 20, &it->how.clients_max);
    case 'G':
        it->no_gateway = true;
        return true;
    case 'w':
        it->webhook = optarg;
        return true;
    case 'M':
        it->mlflow = optarg;
        return true;
    case 'e':
        it->experiment = optarg;
        return true;
    case 'W':
        return read_int(name, 0, 86400, &it->how.warm_s);
    case 'J':
        it->jobs = true;
        return true;
    case 'j':
        it->json = true;
        return true;
    case 'k':
    case 'o':
    case 'b':
        return read_kept(name, option, &it->gc);
    case 'K':
        it->gc.keys = true;
        return true;
    default:
        return false;
    }
}

// ---- start

static void set_ready(void *user)
{
    int *pipe = (int *)user;
    if (*pipe >= 0) {
        (void)!write(*pipe, "r", 1);
        close(*pipe);
    }
    *pipe = -1;
}

// Whether a server answers a greeting until then. A server that was killed takes connections and
// has its lock until its last thread has gone, but it answers nothing.
static bool answers(const char *folder, int64_t until_ms)
{
    trp_buffer hello = {0};
    troupe_error kept;
    char byte;
    int fd;
    trp_error_hold(&kept); // It says which process has the lock.
    troupe_status connected = trp_server_connect(folder, &fd);
    trp_error_restore(&kept);
    if (connected != TROUPE_OK)
        return false;
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    int64_t left_ms = until_ms - trp_clock_ms();
    bool answered = trp_server_put_hello(&hello, 1) == TROUPE_OK &&
                    send(fd, hello.data, hello.size, MSG_NOSIGNAL) == (ssize_t)hello.size &&
                    poll(&answer, 1, left_ms > 0 ? (int)left_ms : 0) == 1 &&
                    recv(fd, &byte, 1, 0) == 1;
    trp_buffer_free(&hello);
    close(fd);
    return answered;
}

// Takes the lock. TROUPE_EXISTS: a server runs and answers. One that has the lock and does not
// answer is being started, or is at its end.
static troupe_status take_lock(const char *folder, int *lock)
{
    int64_t until_ms = trp_clock_ms() + START_MS;
    for (;;) {
        troupe_status status = trp_server_lock(folder, lock);
        if (status != TROUPE_BUSY)
            return status;
        if (answers(folder, until_ms))
            return TROUPE_EXISTS;
        if (trp_clock_ms() >= until_ms)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

// What is said ends up with who started it, or in the log.
static int fail_start(int pipe)
{
    trp_say("%s", troupe_last_error()->text);
    if (pipe >= 0)
        (void)!write(pipe, troupe_last_error()->text, strlen(troupe_last_error()->text));
    return PROGRAM_FAILED;
}

static int run_server(const settings *it, int pipe)
{
    int lock;
    trp_server_how how = it->how;
    how.ready = set_ready;
    how.user = &pipe;
    troupe_status status = take_lock(how.folder, &lock);
    if (status == TROUPE_EXISTS && pipe >= 0) {
        (void)!write(pipe, "b", 1);
        return PROGRAM_DONE;
    }
    if (status == TROUPE_EXISTS)
        (void)trp_server_lock(how.folder, &lock); // Says which one.
    if (status != TROUPE_OK)
        return fail_start(pipe);
    trp_say("process %d serves %s", (int)getpid(), how.folder);
    if (trp_server_run(&how) != TROUPE_OK)
        return fail_start(pipe);
    trp_say("process %d ends", (int)getpid());
    return PROGRAM_DONE;
}

// In a session of its own, with nothing of who started it: a pipe's reader sees its end.
static _Noreturn void be_server(settings *it, int pipe)
{
    trp_path log;
    struct stat about;
    int null = open("/dev/null", O_RDWR);
    if (trp_path_make(&log, "%s/server.log", it->how.folder) != TROUPE_OK)
        _exit(fail_start(pipe));
    trp_path old;
    if (stat(log.text, &about) == 0 && about.st_size > LOG_BYTES_MAX &&
        trp_path_make(&old, "%s.1", log.text) == TROUPE_OK)
        (void)rename(log.text, old.text);
    int out = open(log.text, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (out < 0)
        out = null; // A full disk is no reason not to start.
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 ||
        dup2(pipe, 3) < 0 || fcntl(3, F_SETFD, FD_CLOEXEC) != 0)
        _exit(PROGRAM_FAILED);
    (void)close_range(4, ~0U, 0);
    if (chdir("/") != 0)
        _exit(PROGRAM_FAILED);
    _exit(run_server(it, 3));
}

// The end of the log, for who waits for a server that does not come.
static void show_log(const char *folder)
{
    trp_path path;
    char text[2000];
    if (trp_path_make(&path, "%s/server.log", folder) != TROUPE_OK)
        return;
    int fd = open(path.text, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = size > (off_t)sizeof text ? size - (off_t)sizeof text : 0;
    ssize_t got = fd >= 0 ? pread(fd, text, sizeof text, from) : 0;
    if (got > 0)
        fprintf(stderr, "%s ends with:\n%.*s", path.text, (int)got, text);
    if (fd >= 0)
        close(fd);
}

// For who sits before it.
static void show_link(const settings *it)
{
    char link[TRP_GATEWAY_LINK_MAX];
    int64_t until_ms = trp_clock_ms() + LINK_MS;
    if (!it->how.gateway || !isatty(STDOUT_FILENO))
        return;
    while (trp_gateway_link(it->how.folder, link) != TROUPE_OK) {
        if (trp_clock_ms() > until_ms)
            return;
        (void)usleep(10000);
    }
    printf("its dashboard, once and within a minute: %s\n", link);
}

static void say_json(const char *folder, const char *what, bool is)
{
    trp_buffer json = {0};
    trp_json_text(&json, folder);
    printf("{\"folder\": %.*s, \"%s\": %s}\n", (int)json.size, (const char *)json.data, what,
           is ? "true" : "false");
    trp_buffer_free(&json);
}

// Of a server that runs already nothing but the trackers can be changed.
static void say_unused(const settings *it)
{
    const char *option = it->how.cpus > 0            ? "--cpus"
                         : it->how.gpus != 0         ? "--gpus"
                         : it->how.memory_bytes > 0  ? "--memory"
                         : it->how.resources != NULL ? "--resources"
                         : it->how.clients_max > 0   ? "--clients"
                         : it->how.warm_s != WARM_S  ? "--warm"
                         : it->no_gateway            ? "--no-gateway"
                                                     : NULL;
    if (option != NULL)
        fprintf(stderr,
                "troupe server: it runs as it was started, and %s was not used: `troupe server "
                "stop`, after which jobs go on, then start it anew\n",
                option);
}

static int await_server(const settings *it, int pipe)
{
    char text[1024];
    size_t size = 0;
    int64_t until_ms = trp_clock_ms() + START_MS;
    struct pollfd ready = {.fd = pipe, .events = POLLIN};
    for (;;) {
        int64_t left = until_ms - trp_clock_ms();
        int count = left > 0 ? poll(&ready, 1, (int)left) : 0;
        if (count < 0 && errno == EINTR)
            continue;
        ssize_t got = count > 0 ? read(pipe, text + size, sizeof text - 1 - size) : 0;
        size += got > 0 ? (size_t)got : 0;
        if (got <= 0 || (size == 1 && (text[0] == 'r' || text[0] == 'b')))
            break;
    }
    text[size] = '\0';
    if (strcmp(text, "r") == 0 || strcmp(text, "b") == 0) {
        bool started = text[0] == 'r';
        if (it->json)
            say_json(it->how.folder, "started", started);
        else
            printf("the train server %s in %s\n", started ? "was started" : "runs already",
                   it->how.folder);
        if (!started)
            say_unused(it);
        if (!it->json)
            show_link(it);
        return PROGRAM_DONE;
    }
    if (size > 0) {
        fprintf(stderr, "troupe server: %s\n", text);
        return PROGRAM_FAILED;
    }
    fprintf(stderr, "troupe server: it does not answer within %d s\n", START_MS / 1000);
    show_log(it->how.folder);
    return PROGRAM_FAILED;
}

static int start(settings *it)
{
    int ends[2];
    if (trp_state_folder_open(&it->folder) != TROUPE_OK) {
        fprintf(stderr, "troupe server: %s\n", troupe_last_error()->text);
        return PROGRAM_FAILED;
    }
    it->how.folder = it->folder.text;
    it->how.gateway = !it->no_gateway;
    // Kept: a server that is started by a program has them too. One that runs reads them anew.
    if (trp_track_change(it->folder.text, it->webhook, it->mlflow, it->experiment) != TROUPE_OK) {
        fprintf(stderr, "troupe server: %s\n", troupe_last_error()->text);
        return PROGRAM_FAILED;
    }
    if (it->foreground)
        return run_server(it, -1);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "troupe server: a pipe cannot be made: %s\n", strerror(errno));
        return PROGRAM_FAILED;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)setsid();
        pid_t server = fork();
        if (server == 0)
            be_server(it, ends[1]);
        _exit(server > 0 ? 0 : 1);
    }
    close(ends[1]);
    if (child > 0)
        (void)waitpid(child, NULL, 0);
    int how = await_server(it, ends[0]);
    close(ends[0]);
    return how;
}

// ---- stop, status, gc

// Waits until the server has closed its lock, which it does last.
static bool await_end(const char *folder)
{
    enum { END_MS = 30000 };
    int64_t until_ms = trp_clock_ms() + END_MS;
    int lock;
    while (trp_server_lock(folder, &lock) != TROUPE_OK) {
        if (trp_clock_ms() >= until_ms)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    close(lock);
    return true;
}

static int stop(settings *it)
{
    trp_asker asker;
    bool runs;
    trp_wire_answer answer;
    trp_wire_stop how = {.jobs = it->jobs};
    int result = trp_asker_open(&asker, "troupe server", false, &runs);
    if (result == PROGRAM_DONE && !runs && !it->json)
        printf("no train server runs in %s\n", asker.folder.text);
    if (result == PROGRAM_DONE && runs &&
        !trp_asker_ask(&asker, TRP_WIRE_STOP, &troupe_type_trp_wire_stop, &how, TRP_WIRE_ANSWER,
                       &troupe_type_trp_wire_answer, &answer))
        result = PROGRAM_FAILED;
    trp_asker_close(&asker);
    if (result == PROGRAM_DONE && runs && !await_end(asker.folder.text)) {
        fprintf(stderr, "troupe server: it has not ended within 30 s\n");
        result = PROGRAM_FAILED;
    }
    if (result == PROGRAM_DONE && it->json)
        say_json(asker.folder.text, "stopped", runs);
    return result;
}

static void print_status(const trp_wire_status *it)
{
    char started[32], memory[32], free_memory[32];
    printf("the train server runs in %s: process %d, since %s\n", it->folder, it->pid,
           trp_show_date(it->started_at, started));
    printf("jobs     %d waiting, %d running, %d ended\n", it->waiting, it->running, it->ended);
    printf("CPUs     %g of %g free\n", it->cpus_free, it->cpus);
    printf("GPUs     %g of %g free\n", it->gpus_free, it->gpus);
    printf("memory   %s of %s free\n", trp_table_bytes(it->memory_free_bytes, free_memory),
           trp_table_bytes(it->memory_bytes, memory));
    printf("clients  %d\n", it->clients);
    if (it->gateway != NULL)
        printf("gateway  %s\n", it->gateway);
}

static int show_status(settings *it)
{
    trp_asker asker;
    bool runs;
    trp_wire_status status;
    troupe_none none = {0};
    int result = trp_asker_open(&asker, "troupe server", false, &runs);
    if (result == PROGRAM_DONE && !runs) {
        if (it->json)
            printf("null\n");
        else
            printf("no train server runs in %s\n", asker.folder.text);
        result = PROGRAM_FAILED;
    } else if (result == PROGRAM_DONE) {
        if (!trp_asker_ask(&asker, TRP_WIRE_SERVER, &troupe_type_troupe_none, &none,
                           TRP_WIRE_STATUS, &troupe_type_trp_wire_status, &status))
            result = PROGRAM_FAILED;
        else if (it->json)
            trp_print_json(&troupe_type_trp_wire_status, &status);
        else
            print_status(&status);
    }
    trp_asker_close(&asker);
    return result;
}

TROUPE_STRUCT(gc_answer, (troupe_text, text));

static int clean(settings *it)
{
    trp_asker asker;
    bool runs;
    trp_wire_answer answer;
    int result = trp_asker_open(&asker, "troupe server", true, &runs);
    if (result == PROGRAM_DONE) {
        if (!trp_asker_ask(&asker, TRP_WIRE_GC, &troupe_type_trp_wire_gc, &it->gc, TRP_WIRE_ANSWER,
                           &troupe_type_trp_wire_answer, &answer))
            result = PROGRAM_FAILED;
        else if (it->json)
            trp_print_json(&troupe_type_gc_answer, &(gc_answer){answer.text});
        else
            printf("%s\n", answer.text != NULL ? answer.text : "");
    }
    trp_asker_close(&asker);
    return result;
}

static int show_the_link(settings *it)
{
    return trp_gateway_show_link(it->json);
}

// What may be said to each.
typedef struct action {
    const char *name, *options;
    int (*run)(settings *it);
} action;
static const action actions[] = {{"start", "facgmrnGwMeWj", start},
                                 {"stop", "Jj", stop},
                                 {"status", "j", show_status},
                                 {"gc", "kobKj", clean},
                                 {"link", "j", show_the_link}};

static int run_action(settings *it, const char *named, const struct option *const *given)
{
    const action *found = NULL;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(named, actions[i].name) == 0)
            found = &actions[i];
    if (found == NULL)
        return program_misused("troupe server", usage, "there is no command \"%s\"", named);
    for (; *given != NULL; given++)
        if (strchr(found->options, (*given)->val) == NULL)
            return program_misused("troupe server", usage, "%s has no option --%s", named,
                                   (*given)->name);
    return found->run(it);
}

int program_server(int argc, char **argv)
{
    static const struct option options[] = {
        {"foreground", no_argument, NULL, 'f'},    {"auto", no_argument, NULL, 'a'},
        {"cpus", required_argument, NULL, 'c'},    {"gpus", required_argument, NULL, 'g'},
        {"memory", required_argument, NULL, 'm'},  {"resources", required_argument, NULL, 'r'},
        {"clients", required_argument, NULL, 'n'}, {"no-gateway", no_argument, NULL, 'G'},
        {"jobs", no_argument, NULL, 'J'},          {"json", no_argument, NULL, 'j'},
        {"warm", required_argument, NULL, 'W'},    {"keep", required_argument, NULL, 'k'},
        {"older", required_argument, NULL, 'o'},   {"bytes", required_argument, NULL, 'b'},
        {"keys", no_argument, NULL, 'K'},          {"webhook", required_argument, NULL, 'w'},
        {"mlflow", required_argument, NULL, 'M'},  {"experiment", required_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    enum { GIVEN_MAX = 64 };
    const struct option *given[GIVEN_MAX] = {0};
    settings it = {.how.warm_s = WARM_S};
    size_t count = 0;
    int at = -1;
    for (int option; (option = getopt_long(argc, argv, "h", options, &at)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return PROGRAM_DONE;
        }
        if (option == '?')
            return program_misused("troupe server", usage, NULL);
        if (!read_option(&it, options[at].name, option))
            return PROGRAM_MISUSED;
        if (count + 1 < GIVEN_MAX)
            given[count++] = &options[at];
    }
    if (optind == argc)
        return program_misused("troupe server", usage, "expected a command");
    if (argc - optind > 1)
        return program_misused("troupe server", usage, "expected one command, found also \"%s\"",
                               argv[optind + 1]);
    return run_action(&it, argv[optind], given);
}
