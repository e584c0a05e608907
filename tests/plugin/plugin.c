// plugin.c: a plugin as a host program would load it: it links to the library, the program does
// not. See program.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <troupe/actor.h>
#include <troupe/task.h>
#include <unistd.h>

int plugin_run(int argc, char **argv, int executed);
int plugin_run_loaded(const char *library);

enum { MUCH = 200000 };

typedef struct tally {
    int64_t total;
} tally;

static troupe_status tally_add(tally *self, const int64_t *amount, int64_t *total)
{
    *total = self->total += *amount;
    return TROUPE_OK;
}

static troupe_status tally_pid(tally *self, const troupe_none *none, int64_t *pid)
{
    (void)self;
    (void)none;
    *pid = getpid();
    return TROUPE_OK;
}

// Too large for the messages of plugin_run_loaded.
static troupe_status tally_much(tally *self, const troupe_none *none, troupe_bytes *much)
{
    (void)self;
    (void)none;
    *much = (troupe_bytes){troupe_arena_alloc(MUCH), MUCH};
    return TROUPE_OK;
}

static troupe_status tally_variable(tally *self, const troupe_text *name, troupe_text *value)
{
    (void)self;
    *value = getenv(*name);
    return TROUPE_OK;
}

TROUPE_ACTOR(tally, (tally_add, int64_t, int64_t), (tally_pid, troupe_none, int64_t),
             (tally_much, troupe_none, troupe_bytes), (tally_variable, troupe_text, troupe_text));

static troupe_status twice(const int64_t *number, int64_t *result)
{
    *result = 2 * *number;
    return TROUPE_OK;
}
TROUPE_TASK(twice, int64_t, int64_t);

static int check(troupe_place place, int elsewhere)
{
    int64_t total = 0, pid = 0;
    tally_actor actor = troupe_spawn(tally, .place = place);
    for (int64_t i = 1; i < 10; i++)
        (void)troupe_tell(actor, tally_add, i);
    if (troupe_get(int64_t, troupe_call(actor, tally_add, 10), &total) != TROUPE_OK ||
        troupe_get(int64_t, troupe_call(actor, tally_pid), &pid) != TROUPE_OK)
        fprintf(stderr, "%s\n", troupe_last_error()->text);
    return total == 55 && (pid != getpid()) == elsewhere ? 0 : 1;
}

// In an executed worker it does not return.
int plugin_run(int argc, char **argv, int executed)
{
    if (troupe_start(argc, argv, .workers = 1,
                     .launch = executed ? TROUPE_LAUNCH_EXEC : TROUPE_LAUNCH_AUTO) != TROUPE_OK) {
        fprintf(stderr, "%s\n", troupe_last_error()->text);
        return 1;
    }
    int failures = check(TROUPE_PLACE_HERE, 0) + check(TROUPE_PLACE_WORKER, 1) +
                   check(TROUPE_PLACE_ISOLATED, 1);
    return failures + troupe_stop();
}

// ---- workers that load this library

static int expect(int good, const char *what)
{
    if (!good)
        fprintf(stderr, "%s: %s\n", what, troupe_last_error()->text);
    return good ? 0 : 1;
}

static void no_init(void)
{
}

static int check_refusals(const char *library)
{
    int failures =
        expect(troupe_start(0, NULL, .worker_library = "/nonexistent/lib.so") == TROUPE_INVALID &&
                   strstr(troupe_last_error()->text, "/nonexistent/lib.so") != NULL,
               "a library that is not there");
    failures += expect(troupe_start(0, NULL, .worker_library = library, .worker_init = no_init) ==
                               TROUPE_INVALID &&
                           strstr(troupe_last_error()->text, ".worker_init") != NULL,
                       "with .worker_init");
    failures += expect(troupe_start(0, NULL, .worker_library = library,
                                    .launch = TROUPE_LAUNCH_FORK) == TROUPE_INVALID &&
                           strstr(troupe_last_error()->text, ".launch") != NULL,
                       "with TROUPE_LAUNCH_FORK");
    char *kept = strdup(getenv("TROUPE_COMMAND"));
    (void)setenv("TROUPE_COMMAND", "/nonexistent/troupe", 1);
    failures += expect(troupe_start(0, NULL, .worker_library = library) == TROUPE_NOT_FOUND &&
                           strstr(troupe_last_error()->text, "TROUPE_COMMAND") != NULL,
                       "without the command");
    (void)setenv("TROUPE_COMMAND", kept, 1);
    free(kept);
    return failures;
}

static int check_worker(troupe_place place)
{
    int64_t pid = 0;
    troupe_bytes much;
    troupe_text value = NULL;
    char path[64], command[4096] = "";
    tally_actor actor = troupe_spawn(tally, .place = place);
    int failures =
        expect(troupe_get(int64_t, troupe_call(actor, tally_pid), &pid) == TROUPE_OK, "its pid");
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "r");
    size_t size = file != NULL ? fread(command, 1, sizeof command - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    static const char wanted[] = "troupe\0worker\0--load";
    failures += expect(size > sizeof wanted && memcmp(command, wanted, sizeof wanted) == 0,
                       "what it executes");
    failures +=
        expect(troupe_get(troupe_bytes, troupe_call(actor, tally_much), &much) == TROUPE_TOO_LARGE,
               ".message_bytes_max of a loaded worker");
    failures += expect(troupe_get(troupe_text, troupe_call(actor, tally_variable, "LOADED"),
                                  &value) == TROUPE_OK &&
                           value != NULL && strcmp(value, "yes") == 0,
                       ".worker_env of a loaded worker");
    return failures;
}

int plugin_run_loaded(const char *library)
{
    int64_t doubled = 0;
    int failures = check_refusals(library);
    if (troupe_start(0, NULL, .workers = 1, .worker_library = library,
                     .message_bytes_max = MUCH / 2, .worker_env = "LOADED=yes") != TROUPE_OK) {
        fprintf(stderr, "%s\n", troupe_last_error()->text);
        return failures + 1;
    }
    failures += check(TROUPE_PLACE_HERE, 0) + check(TROUPE_PLACE_WORKER, 1) +
                check(TROUPE_PLACE_ISOLATED, 1);
    failures += check_worker(TROUPE_PLACE_WORKER) + check_worker(TROUPE_PLACE_ISOLATED);
    failures +=
        expect(troupe_get(int64_t, troupe_run(twice, 21), &doubled) == TROUPE_OK && doubled == 42,
               "a task");
    return failures + troupe_stop();
}
