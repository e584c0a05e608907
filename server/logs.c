// logs.c: `troupe logs`: what the ranks and the runner of a job have printed, from its files: also
// while no server runs.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <server/ask.h>
#include <server/schedule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ALL = -2, RUNNER = -1 }; // Else a rank.

typedef struct settings {
    bool follows, json;
    int wanted;
    const char *job;
} settings;

// A file that grows.
typedef struct source {
    int rank; // RUNNER: none's.
    off_t at;
} source;

typedef struct job_logs {
    trp_path folder; // Of the job.
    trp_path run;
    source *sources;
    size_t count;
    bool json;
} job_logs;

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: troupe logs [OPTION...] JOB\n\n"
        "Prints what the ranks of a job of the train server have printed, and before that what\n"
        "its runner has: the program up to its troupe_start, and the library. JOB is a number\n"
        "or a key. No server has to run.\n\n"
        "  -f, --follow        go on until the job has ended\n"
        "      --rank N        of that rank alone\n"
        "      --runner        of the runner alone\n"
        "      --json          a JSON object a line: {\"rank\", \"text\"}; null: the runner\n");
}

static bool read_options(int argc, char **argv, settings *is, int *ends)
{
    static const struct option options[] = {
        {"follow", no_argument, NULL, 'f'}, {"rank", required_argument, NULL, 'r'},
        {"runner", no_argument, NULL, 'R'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},   {NULL, 0, NULL, 0}};
    *is = (settings){.wanted = ALL};
    *ends = PROGRAM_MISUSED;
    for (int option; (option = getopt_long(argc, argv, "fh", options, NULL)) != -1;) {
        char *end = NULL;
        if (option == 'f')
            is->follows = true;
        else if (option == 'R')
            is->wanted = RUNNER;
        else if (option == 'j')
            is->json = true;
        long rank = option == 'r' ? strtol(optarg, &end, 10) : 0;
        if (option == 'r' &&
            (*end != '\0' || end == optarg || rank < 0 || rank >= TRP_SCHEDULE_RANKS_MAX)) {
            fprintf(stderr, "troupe logs: --rank is \"%s\", expected a number from 0 to %d\n",
                    optarg, TRP_SCHEDULE_RANKS_MAX - 1);
            return false;
        }
        if (option == 'r')
            is->wanted = (int)rank;
        if (option == 'h') {
            usage(stdout);
            *ends = PROGRAM_DONE;
            return false;
        }
        if (option == '?') {
            *ends = program_misused("troupe logs", usage, NULL);
            return false;
        }
    }
    if (optind + 1 != argc) {
        *ends = program_misused("troupe logs", usage, "expected one job, found %d", argc - optind);
        return false;
    }
    is->job = argv[optind];
    return true;
}

// ---- which job

TROUPE_STRUCT(job_head, (int64_t, id), (troupe_text, key), (troupe_text, folder));

static troupe_status read_head(const char *folder, trp_arena *arena, job_head *head)
{
    trp_path path;
    unsigned char *data;
    size_t size;
    trp_json value;
    *head = (job_head){0};
    TROUPE_TRY(trp_path_make(&path, "%s/job.json", folder));
    TROUPE_TRY(trp_file_read(path.text, &data, &size));
    troupe_status status = trp_json_parse((const char *)data, size, &value);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_job_head, value, arena, head);
    trp_free(data);
    if (status == TROUPE_OK && head->folder == NULL)
        status = troupe_fail(TROUPE_CORRUPT, "%s names no folder of a run", path.text);
    return status;
}

// The newest job of that key; 0: there is none.
static int64_t find_key(const char *state_folder, const char *key)
{
    trp_path jobs, folder;
    int64_t found = 0;
    DIR *all =
        trp_path_make(&jobs, "%s/jobs", state_folder) == TROUPE_OK ? opendir(jobs.text) : NULL;
    for (struct dirent *it; all != NULL && (it = readdir(all)) != NULL;) {
        trp_arena arena = {0};
        job_head head;
        char *end;
        int64_t number = strtoll(it->d_name, &end, 10);
        if (number > found && *end == '\0' &&
            trp_state_folder_job(state_folder, number, &folder) == TROUPE_OK &&
            read_head(folder.text, &arena, &head) == TROUPE_OK && head.key != NULL &&
            strcmp(head.key, key) == 0)
            found = number;
        trp_arena_clear(&arena);
    }
    if (all != NULL)
        (void)closedir(all);
    return found;
}

static troupe_status find_job(const char *named, job_logs *job)
{
    trp_path state;
    trp_arena arena = {0};
    job_head head;
    trp_wire_job_name name = trp_job_named(named);
    TROUPE_TRY(trp_state_folder_find(&state));
    troupe_status checked = trp_state_folder_check(state.text);
    if (checked == TROUPE_NOT_FOUND)
        return troupe_fail(checked, "there is no job %s: no train server has run in %s", named,
                           state.text);
    TROUPE_TRY(checked);
    int64_t number = name.job, keyed = 0;
    if (number > 0)
        TROUPE_TRY(trp_state_folder_job(state.text, number, &job->folder));
    if (number == 0 || access(job->folder.text, F_OK) != 0)
        keyed = find_key(state.text, named);
    if (keyed > 0)
        number = keyed;
    if (number == 0)
        return troupe_fail(TROUPE_NOT_FOUND, "there is no job with the key '%s' in %s", named,
                           state.text);
    TROUPE_TRY(trp_state_folder_job(state.text, number, &job->folder));
    troupe_status status = read_head(job->folder.text, &arena, &head);
    if (status == TROUPE_NOT_FOUND)
        status = troupe_fail(status, "there is no job %" PRId64 " in %s", number, state.text);
    if (status == TROUPE_OK)
        status = trp_path_make(&job->run, "%s", head.folder);
    trp_arena_clear(&arena);
    return status;
}

// ---- what it has printed

static void print_json(const source *from, const char *text, size_t length)
{
    trp_buffer line = {0}, json = {0};
    trp_buffer_append(&line, text, length);
    trp_buffer_append(&line, "", 1);
    trp_json_text(&json, (const char *)line.data);
    if (from->rank == RUNNER)
        printf("{\"rank\": null, \"text\": %.*s}\n", (int)json.size, (const char *)json.data);
    else
        printf("{\"rank\": %d, \"text\": %.*s}\n", from->rank, (int)json.size,
               (const char *)json.data);
    trp_buffer_free(&json);
    trp_buffer_free(&line);
}

static void print_line(const source *from, const char *text, size_t length)
{
    if (from->rank == RUNNER)
        printf("(runner) ");
    else
        printf("(rank %d) ", from->rank);
    for (size_t i = 0; i < length; i++) { // Nothing that a terminal would take for an order.
        unsigned char c = (unsigned char)text[i];
        putchar(c >= 0x20 || c == '\t' ? c : '?');
    }
    putchar('\n');
}

static void print_lines(const source *from, bool json, const char *text, size_t size)
{
    const char *at = text, *end = text + size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop != NULL ? stop : end) - at);
        if (json)
            print_json(from, at, length);
        else
            print_line(from, at, length);
        at += length + 1;
    }
}

// Prints what is new, whole lines or, with `all`, also what ends without one.
static void print_new(const job_logs *job, source *from, bool all)
{
    enum { PIECE = 64 * 1024 };
    trp_path path;
    char *text = trp_alloc(PIECE);
    troupe_status status = from->rank == RUNNER ? trp_path_make(&path, "%s/log", job->folder.text)
                                                : trp_path_make(&path, "%s/log/rank_%05d.log",
                                                                job->run.text, from->rank);
    int fd = status == TROUPE_OK && text != NULL ? open(path.text, O_RDONLY | O_CLOEXEC) : -1;
    for (ssize_t got = 1; fd >= 0 && got > 0;) {
        got = pread(fd, text, PIECE, from->at);
        const char *last = got > 0 ? memrchr(text, '\n', (size_t)got) : NULL;
        size_t size = last != NULL ? (size_t)(last - text) + 1 : 0;
        if (size == 0 && got > 0 && (all || got == PIECE))
            size = (size_t)got;
        if (size == 0)
            break;
        print_lines(from, job->json, text, size);
        from->at += (off_t)size;
    }
    if (fd >= 0)
        close(fd);
    trp_free(text);
}

// Ranks that have printed have a file.
static bool add_sources(job_logs *job, int wanted)
{
    for (;;) {
        trp_path path;
        int rank = (int)job->count + RUNNER;
        bool there = rank == RUNNER || (trp_path_make(&path, "%s/log/rank_%05d.log", job->run.text,
                                                      rank) == TROUPE_OK &&
                                        (access(path.text, F_OK) == 0 || rank <= wanted));
        if (!there)
            return true;
        source *more = trp_realloc(job->sources, (job->count + 1) * sizeof *more);
        if (more == NULL)
            return false;
        job->sources = more;
        job->sources[job->count++] = (source){.rank = rank};
    }
}

static bool has_ended(const job_logs *job)
{
    trp_path end;
    return trp_path_make(&end, "%s/end", job->folder.text) == TROUPE_OK &&
           access(end.text, F_OK) == 0;
}

// Where the server does not know the job, it puts its folder aside.
static bool is_gone(const job_logs *job)
{
    trp_path about;
    if (trp_path_make(&about, "%s/job.json", job->folder.text) != TROUPE_OK ||
        access(about.text, F_OK) == 0 || errno != ENOENT)
        return false;
    bool aside = trp_path_make(&about, "%s.lost", job->folder.text) == TROUPE_OK &&
                 access(about.text, F_OK) == 0;
    fprintf(stderr, "troupe logs: the job is gone: its folder %s was %s%s\n", job->folder.text,
            aside ? "put aside by a train server that does not know it, as "
                  : "removed by `troupe server gc`",
            aside ? about.text : "");
    return true;
}

static bool print_all(job_logs *job, int wanted, bool all)
{
    if (!add_sources(job, wanted))
        return false;
    for (size_t i = 0; i < job->count; i++)
        if (wanted == ALL || job->sources[i].rank == wanted)
            print_new(job, &job->sources[i], all);
    return fflush(stdout) == 0;
}

static bool has_log(const job_logs *job, int rank)
{
    trp_path path;
    if (rank < 0 ||
        (trp_path_make(&path, "%s/log/rank_%05d.log", job->run.text, rank) == TROUPE_OK &&
         access(path.text, F_OK) == 0))
        return true;
    fprintf(stderr, "troupe logs: rank %d has no log in %s/log\n", rank, job->run.text);
    return false;
}

// For who would wait before an empty terminal: a launcher makes the runner's log.
static void say_that_it_waits(const job_logs *job, const char *named)
{
    trp_path log;
    if (!has_ended(job) && trp_path_make(&log, "%s/log", job->folder.text) == TROUPE_OK &&
        access(log.text, F_OK) != 0)
        fprintf(stderr, "troupe logs: the job has not begun: `troupe jobs %s` says why\n", named);
}

int program_logs(int argc, char **argv)
{
    static const struct timespec pause = {0, 100000000};
    settings is;
    static job_logs job; // Two paths, which a frame has no room for beside those of its parts.
    int ends;
    if (!read_options(argc, argv, &is, &ends))
        return ends;
    job.json = is.json;
    if (find_job(is.job, &job) != TROUPE_OK) {
        fprintf(stderr, "troupe logs: %s\n", troupe_last_error()->text);
        return PROGRAM_FAILED;
    }
    if (is.follows)
        say_that_it_waits(&job, is.job);
    bool ended = false, fine = true, gone = false;
    do {
        ended = has_ended(&job) || !is.follows; // Looked at before what it may still have written.
        gone = !ended && is_gone(&job);
        fine = print_all(&job, is.wanted, ended || gone);
        if (!ended && !gone && fine)
            nanosleep(&pause, NULL);
    } while (!ended && !gone && fine);
    trp_free(job.sources);
    if (!fine)
        fprintf(stderr, "troupe logs: standard output is gone, or there is no memory\n");
    return fine && !gone && has_log(&job, is.wanted) ? PROGRAM_DONE : PROGRAM_FAILED;
}
