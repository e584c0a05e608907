// harness.c: see harness.h. Knows nothing of the library, so that the peers can use it too.
#include "harness.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void bench_pause(int us)
{
    struct timespec pause = {us / 1000000, us % 1000000 * 1000L};
    if (us > 0)
        nanosleep(&pause, NULL);
}

unsigned char *bench_written(size_t size)
{
    unsigned char *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("no memory of %zu bytes", size);
    for (size_t i = 0; i < size; i++)
        memory[i] = (unsigned char)(i * 31 + 7);
    return memory;
}

static int64_t started_ns;

__attribute__((constructor)) static void note_start(void)
{
    started_ns = bench_now_ns();
}

bool bench_goes_on(int round, int wanted, int seconds_max)
{
    bool late = bench_now_ns() - started_ns > (int64_t)seconds_max * 1000000000;
    return round < wanted && (round < BENCH_ROUNDS_MIN || !late);
}

// ---- Placement

static int pin_threads_once(pid_t pid, const cpu_set_t *set)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)(pid ? pid : getpid()));
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    int pinned = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        // A thread that has ended meanwhile needs no pinning.
        if (thread > 0 && sched_setaffinity(thread, sizeof *set, set) == 0)
            pinned++;
    }
    closedir(folder);
    return pinned;
}

static int pin_to(pid_t pid, int first, int count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = first; i < first + count; i++)
        CPU_SET(i, &set);
    // Twice: a thread made while the first walk ran may have inherited the old place.
    pin_threads_once(pid, &set);
    return pin_threads_once(pid, &set);
}

int bench_pin(pid_t pid, int cpu)
{
    return cpu == BENCH_ANY_CPU ? pin_to(pid, 0, CPU_SETSIZE) : pin_to(pid, cpu, 1);
}

int bench_pin_first(pid_t pid, int count)
{
    return pin_to(pid, 0, count);
}

bool bench_has_cpus(int count)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return false;
    for (int i = 0; i < count; i++) {
        if (!CPU_ISSET(i, &set))
            return false;
    }
    return true;
}

// ---- Samples

void bench_samples_open(bench_samples *samples, size_t capacity)
{
    samples->values = malloc(capacity * sizeof *samples->values);
    if (!samples->values)
        bench_die("no memory for %zu samples", capacity);
    memset(samples->values, 0, capacity * sizeof *samples->values);
    samples->count = 0;
    samples->capacity = capacity;
}

void bench_samples_close(bench_samples *samples)
{
    free(samples->values);
    *samples = (bench_samples){0};
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// Nearest rank: the smallest sample that at least `share` of all are not above.
static double percentile(const double *sorted, size_t count, double share)
{
    size_t rank = (size_t)ceil(share * (double)count);
    return sorted[rank > 0 ? rank - 1 : 0];
}

bench_round bench_round_of(bench_samples *samples)
{
    if (samples->count == 0)
        return bench_round_plain(NAN);
    qsort(samples->values, samples->count, sizeof *samples->values, ascending);
    double median = percentile(samples->values, samples->count, 0.5);
    return (bench_round){
        .value = median,
        .p50 = median,
        .p99 = percentile(samples->values, samples->count, 0.99),
        .p999 = percentile(samples->values, samples->count, 0.999),
    };
}

bench_round bench_round_plain(double value)
{
    return (bench_round){value, NAN, NAN, NAN};
}

// ---- Rounds

void bench_rounds_add(bench_rounds *rounds, bench_round round)
{
    if (rounds->count < BENCH_ROUNDS_MAX)
        rounds->rounds[rounds->count++] = round;
}

void bench_rounds_fail(bench_rounds *rounds, const char *format, ...)
{
    if (rounds->missing[0])
        return; // The first reason is the cause of those that follow.
    va_list list;
    va_start(list, format);
    vsnprintf(rounds->missing, sizeof rounds->missing, format, list);
    va_end(list);
}

typedef enum part { VALUE, P50, P99, P999 } part;

static size_t sorted_part(const bench_rounds *rounds, part which, double out[BENCH_ROUNDS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < rounds->count; i++) {
        const bench_round *round = &rounds->rounds[i];
        double all[] = {round->value, round->p50, round->p99, round->p999};
        if (!isnan(all[which]))
            out[count++] = all[which];
    }
    qsort(out, count, sizeof *out, ascending);
    return count;
}

static double median_part(const bench_rounds *rounds, part which)
{
    double sorted[BENCH_ROUNDS_MAX];
    size_t count = sorted_part(rounds, which, sorted);
    if (count == 0)
        return NAN;
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

double bench_rounds_value(const bench_rounds *rounds)
{
    return rounds->missing[0] ? NAN : median_part(rounds, VALUE);
}

// ---- Programs

void bench_die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

void bench_remove(const char *folder)
{
    (void)nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

bool bench_path(const char *name, char *path, size_t capacity)
{
    ssize_t length = readlink("/proc/self/exe", path, capacity - 1);
    if (length <= 0)
        return false;
    path[length] = 0;
    char *slash = strrchr(path, '/');
    size_t used = slash ? (size_t)(slash + 1 - path) : 0;
    return (size_t)snprintf(path + used, capacity - used, "%s", name) < capacity - used;
}

// Reads until the other end closes. False: the deadline came first.
static bool read_all(int fd, int64_t deadline_ns, char *out, size_t capacity)
{
    size_t used = 0;
    for (;;) {
        int64_t left_ms = (deadline_ns - bench_now_ns()) / 1000000;
        struct pollfd event = {.fd = fd, .events = POLLIN};
        if (left_ms <= 0 || (poll(&event, 1, (int)left_ms) < 0 && errno != EINTR))
            return false;
        if (!event.revents)
            continue;
        char rest[512];
        bool full = used + 1 >= capacity;
        ssize_t got =
            full ? read(fd, rest, sizeof rest) : read(fd, out + used, capacity - 1 - used);
        if (got <= 0)
            return got == 0;
        if (!full)
            used += (size_t)got;
        out[used] = 0;
    }
}

static bool await_end(pid_t pid, int64_t deadline_ns, int *status)
{
    while (waitpid(pid, status, WNOHANG) == 0) {
        if (bench_now_ns() > deadline_ns)
            return false;
        poll(NULL, 0, 1);
    }
    return true;
}

bool bench_run(const char *const *arguments, int seconds_max, char *out, size_t capacity,
               char reason[BENCH_REASON])
{
    char path[512];
    out[0] = 0;
    int ends[2];
    if (!bench_path(arguments[0], path, sizeof path) || pipe2(ends, 0) != 0) {
        snprintf(reason, BENCH_REASON, "%s could not be started", arguments[0]);
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t pid;
    int failed = posix_spawn(&pid, path, &actions, NULL, (char *const *)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        snprintf(reason, BENCH_REASON, "%s could not be started: %s", arguments[0],
                 strerror(failed));
        return false;
    }
    int64_t deadline = bench_now_ns() + (int64_t)seconds_max * 1000000000;
    int status = 0;
    bool ended = read_all(ends[0], deadline, out, capacity) && await_end(pid, deadline, &status);
    close(ends[0]);
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        snprintf(reason, BENCH_REASON, "%s did not end in %d s", arguments[0], seconds_max);
        return false;
    }
    if (WIFSIGNALED(status))
        snprintf(reason, BENCH_REASON, "%s was killed by signal %d", arguments[0],
                 WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        snprintf(reason, BENCH_REASON, "%s exited with status %d", arguments[0],
                 WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void bench_peer_round(const char *const *arguments, bench_rounds *rounds)
{
    char out[256], reason[BENCH_REASON];
    bench_round round;
    if (rounds->missing[0])
        return;
    if (!bench_run(arguments, 60, out, sizeof out, reason))
        bench_rounds_fail(rounds, "%s", reason);
    else if (sscanf(out, "%lf %lf %lf %lf", &round.value, &round.p50, &round.p99, &round.p999) != 4)
        bench_rounds_fail(rounds, "%s printed no round", arguments[0]);
    else
        bench_rounds_add(rounds, round);
}

void bench_round_print(bench_round round)
{
    printf("%.9g %.9g %.9g %.9g\n", round.value, round.p50, round.p99, round.p999);
    fflush(stdout);
}

// ---- Lines

static void print_text(const char *key, const char *text)
{
    printf(", \"%s\": \"", key);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            printf("\\%c", byte);
        else if (byte < ' ')
            printf("\\u%04x", byte);
        else
            putchar(byte);
    }
    putchar('"');
}

static void print_number(const char *key, double value)
{
    if (isfinite(value))
        printf(", \"%s\": %.5g", key, value);
    else
        printf(", \"%s\": null", key);
}

// Percentiles only where there are some.
static void print_part(const char *prefix, const char *key, const bench_rounds *rounds, part which)
{
    char name[32];
    snprintf(name, sizeof name, "%s%s", prefix, key);
    double value = rounds->missing[0] ? NAN : median_part(rounds, which);
    if (which == VALUE || !isnan(value))
        print_number(name, value);
}

static void print_side(const char *prefix, const bench_rounds *rounds)
{
    print_part(prefix, "value", rounds, VALUE);
    print_part(prefix, "p50", rounds, P50);
    print_part(prefix, "p99", rounds, P99);
    print_part(prefix, "p999", rounds, P999);
    double sorted[BENCH_ROUNDS_MAX];
    size_t count = rounds->missing[0] ? 0 : sorted_part(rounds, VALUE, sorted);
    char name[32];
    snprintf(name, sizeof name, "%smin", prefix);
    print_number(name, count ? sorted[0] : NAN);
    snprintf(name, sizeof name, "%smax", prefix);
    print_number(name, count ? sorted[count - 1] : NAN);
    snprintf(name, sizeof name, "%smissing", prefix);
    if (count == 0)
        print_text(name, rounds->missing[0] ? rounds->missing : "no round was measured");
}

// Of each round of ours and the peer's that followed it: a machine's state lasts for seconds, so
// the two had the same. Rounds that only one side has are left out.
static bench_rounds ratios_of(const bench_line *line, const bench_rounds *peers)
{
    bench_rounds ratios = {0};
    if (line->ours->missing[0] || peers->missing[0])
        return ratios;
    for (size_t i = 0; i < line->ours->count && i < peers->count; i++) {
        double ours = line->ours->rounds[i].value, theirs = peers->rounds[i].value;
        double ratio = line->better == BENCH_LOWER ? theirs / ours : ours / theirs;
        bench_rounds_add(&ratios, bench_round_plain(ratio));
    }
    return ratios;
}

double bench_ratio(const bench_line *line)
{
    bench_rounds ratios = ratios_of(line, line->peers);
    return median_part(&ratios, VALUE);
}

// Prints a peer below "<prefix>"; returns the ratio, NaN if a side is missing.
static double print_peer(const bench_line *line, const char *prefix, const char *peer,
                         const bench_rounds *peers)
{
    char name[48], sides[48];
    double sorted[BENCH_ROUNDS_MAX];
    bench_rounds ratios = ratios_of(line, peers);
    size_t count = sorted_part(&ratios, VALUE, sorted);
    double ratio = median_part(&ratios, VALUE);
    bool first = strcmp(prefix, "peer") == 0;
    print_text(prefix, peer);
    snprintf(sides, sizeof sides, "%s_", prefix);
    print_side(sides, peers);
    const char *const parts[] = {"ratio", "ratio_min", "ratio_max"};
    double values[] = {ratio, count ? sorted[0] : NAN, count ? sorted[count - 1] : NAN};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", first ? "" : sides, parts[i]);
        print_number(name, values[i]);
    }
    return ratio;
}

static bool is_better(const bench_line *line, const bench_rounds *one, const bench_rounds *two)
{
    double first = bench_rounds_value(one), second = bench_rounds_value(two);
    if (isnan(first) || isnan(second))
        return isnan(second) && !isnan(first);
    return line->better == BENCH_LOWER ? first < second : first > second;
}

bool bench_print(const bench_line *line)
{
    printf("{\"name\": \"%s\"", line->name);
    print_text("unit", line->unit);
    print_text("placement", line->placement);
    printf(", \"rounds\": %zu", line->ours->count);
    print_side("", line->ours);
    double ratio = NAN;
    if (line->peer && line->other && is_better(line, line->others, line->peers)) {
        ratio = print_peer(line, "peer", line->other, line->others);
        print_peer(line, "other", line->peer, line->peers);
    } else if (line->peer) {
        ratio = print_peer(line, "peer", line->peer, line->peers);
        if (line->other)
            print_peer(line, "other", line->other, line->others);
    }
    if (line->note)
        print_text("note", line->note);
    printf("}\n");
    fflush(stdout);
    return isfinite(line->peer ? ratio : bench_rounds_value(line->ours));
}

// The first line that a command prints, without its end; empty if it prints none.
static void first_line(const char *command, char *out, size_t capacity)
{
    out[0] = 0;
    FILE *pipe = popen(command, "re");
    if (!pipe)
        return;
    if (!fgets(out, (int)capacity, pipe))
        out[0] = 0;
    pclose(pipe);
    out[strcspn(out, "\n")] = 0;
}

static void cpu_model(char *out, size_t capacity)
{
    snprintf(out, capacity, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char text[256];
    while (fgets(text, sizeof text, file)) {
        char *colon = strchr(text, ':');
        if (strncmp(text, "model name", 10) != 0 || !colon)
            continue;
        text[strcspn(text, "\n")] = 0;
        for (colon++; isspace((unsigned char)*colon);)
            colon++;
        snprintf(out, capacity, "%s", colon);
        break;
    }
    fclose(file);
}

void bench_print_machine(const char *mode)
{
    char model[128], commit[64], when[64], folder[512], command[700];
    cpu_model(model, sizeof model);
    snprintf(command, sizeof command, "unknown");
    if (bench_path("", folder, sizeof folder)) {
        snprintf(command, sizeof command,
                 "git -C '%s' describe --always --dirty --exclude '*' 2>/dev/null", folder);
        first_line(command, commit, sizeof commit);
    } else {
        commit[0] = 0;
    }
    struct utsname system = {0};
    uname(&system);
    double load[1] = {NAN};
    getloadavg(load, 1);
    time_t now = time(NULL);
    struct tm utc;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    printf("{\"name\": \"machine\", \"value\": 1, \"unit\": \"machine\"");
    print_text("machine", model);
    printf(", \"cpus\": %ld", sysconf(_SC_NPROCESSORS_ONLN));
    print_number("memory_bytes", (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
    print_text("kernel", system.release);
    print_text("commit", commit[0] ? commit : "unknown");
    print_text("when", when);
    print_number("load", load[0]);
    print_text("mode", mode);
    printf("}\n");
    fflush(stdout);
}
