// tune_program.c: sweeps over a program that knows nothing of Troupe: each trial is a run of
// troupe_process, whose arguments are a template that is filled with what the space drew.
#include <errno.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe/process.h>
#include <troupe/tune_program.h>
#include <tune/command/asked.h>
#include <tune/command/template.h>
#include <tune/sweep/sweep.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 64, ARGUMENTS_MAX = 4096 };
static const double GRACE_S = 2; // For a program that is to end.

// A program as a trainer of what a space from JSON draws.
typedef struct program {
    troupe_trainer trainer; // First.
    trp_sweep_port port;
    trp_arena arena; // Of all that follows.
    char name[NAME_MAX_BYTES];
    const char **arguments;
    size_t count;
    trp_sweep_asked asked;
    trp_buffer noted;
} program;

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep over a program");
}

// ---- a trial

static const char *fill_argument(const program *it, size_t index, trp_json params, int trial,
                                 trp_arena *arena)
{
    trp_buffer filled = {0};
    char *text = NULL;
    if (trp_template_fill(it->arguments[index], params, trial, true, &filled) == TROUPE_OK)
        text = trp_arena_alloc(arena, filled.size + 1);
    if (text != NULL && filled.size > 0)
        memcpy(text, filled.data, filled.size);
    if (text != NULL)
        text[filled.size] = '\0';
    trp_buffer_free(&filled);
    return text;
}

static troupe_status submit_filled(const program *it, const trp_text_config *drawn,
                                   trp_arena *arena, const troupe_follower *follower,
                                   troupe_job **job, const troupe_train_options *how)
{
    trp_json params;
    char number[32];
    troupe_text environment[1] = {number};
    troupe_text *arguments = trp_arena_alloc(arena, it->count * sizeof *arguments);
    TROUPE_TRY(trp_json_parse(drawn->params, strlen(drawn->params), &params));
    for (size_t i = 0; arguments != NULL && i < it->count; i++)
        if ((arguments[i] = fill_argument(it, i, params, drawn->trial, arena)) == NULL)
            return no_memory();
    if (arguments == NULL)
        return no_memory();
    snprintf(number, sizeof number, "TROUPE_TRIAL=%d", drawn->trial);
    troupe_process_config config = {.arguments = {arguments, it->count},
                                    .environment = {environment, 1},
                                    .json = drawn->params,
                                    .grace_s = GRACE_S,
                                    .json_lines = true};
    troupe_train_options with = *how;
    with.params = drawn->params; // And not the command line.
    return troupe_submit_as(&troupe_trainer_troupe_process, &config, follower, job, &with);
}

static troupe_status submit(const troupe_trainer *trainer, const void *config,
                            const troupe_follower *follower, troupe_job **job,
                            const troupe_train_options *how)
{
    const program *it = (const program *)(const void *)trainer;
    trp_arena arena = {0};
    troupe_status status = submit_filled(it, config, &arena, follower, job, how);
    trp_arena_clear(&arena);
    return status;
}

// ---- what is checked before

static bool is_program(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0 && S_ISREG(is.st_mode) && access(path, X_OK) == 0;
}

static troupe_status find_program(const char *name)
{
    char path[PATH_MAX];
    const char *folders = getenv("PATH");
    bool found = strchr(name, '/') != NULL && is_program(name);
    for (const char *at = folders; strchr(name, '/') == NULL && at != NULL && !found;) {
        size_t length = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)length, length > 0 ? at : ".", name);
        found = is_program(path);
        at = at[length] == ':' ? at + length + 1 : NULL;
    }
    if (!found && strchr(name, '/') != NULL && access(name, F_OK) == 0)
        return troupe_fail(TROUPE_NOT_FOUND,
                           "'%.200s' cannot be executed: expected a program (chmod +x), or what "
                           "runs it before it, as python3",
                           name);
    return found ? TROUPE_OK
                 : troupe_fail(TROUPE_NOT_FOUND,
                               "there is no program '%.200s': expected one that can be executed, "
                               "by its path or along PATH",
                               name);
}

// What a parameter may be, for the names within it: of choices the first.
static trp_json example_of(trp_json drawn)
{
    trp_json choices, first = {0};
    bool has = trp_json_member(drawn, "choice", &choices) ||
               trp_json_member(drawn, "ordered", &choices) ||
               trp_json_member(drawn, "grid", &choices);
    return has && trp_json_next_item(choices, &first) ? first : drawn;
}

// Makes an object of examples of the space's parameters, of which none may have the name of what is
// filled in besides.
static troupe_status make_example(const char *space_text, trp_buffer *out)
{
    trp_json space, at = {0}, name, value;
    TROUPE_TRY(trp_json_parse(space_text, strlen(space_text), &space));
    trp_buffer_append(out, "{", 1);
    for (size_t i = 0; trp_json_next_member(space, &at, &name, &value); i++) {
        if (trp_json_equals(name, "trial") || trp_json_equals(name, "params"))
            return troupe_fail(TROUPE_INVALID,
                               "a parameter of the space is called %.*s: {trial} and {params} "
                               "stand for the trial's number and for all of its parameters",
                               (int)name.size, name.at);
        trp_json example = example_of(value);
        bool drawn = trp_json_is_object(value) && example.at == value.at &&
                     (trp_json_member(value, "uniform", &example) ||
                      trp_json_member(value, "log_uniform", &example) ||
                      trp_json_member(value, "integer", &example) ||
                      trp_json_member(value, "normal", &example));
        trp_buffer_printf(out, "%s%.*s: ", i > 0 ? ", " : "", (int)name.size, name.at);
        trp_buffer_append(out, drawn ? "0" : example.at, drawn ? 1 : example.size);
    }
    trp_buffer_append(out, "}", 1);
    return out->failed ? no_memory() : TROUPE_OK;
}

// A name in braces that the space has not would be filled with nothing in every trial.
static troupe_status check_arguments(const program *it)
{
    trp_json example;
    trp_buffer text = {0}, filled = {0};
    troupe_status status = make_example(it->asked.file.space_text, &text);
    if (status == TROUPE_OK)
        status = trp_json_parse((const char *)text.data, text.size, &example);
    for (size_t i = 0; status == TROUPE_OK && i < it->count; i++) {
        filled.size = 0;
        status = trp_template_fill(it->arguments[i], example, 0, false, &filled);
    }
    trp_buffer_free(&text);
    trp_buffer_free(&filled);
    return status != TROUPE_OK ? status : find_program(it->arguments[0]);
}

// ---- the sweep

static void release(const troupe_trainer *trainer)
{
    program *it = (program *)(uintptr_t)trainer;
    trp_sweep_file_close(&it->asked.file);
    trp_buffer_free(&it->noted);
    trp_arena_clear(&it->arena);
    trp_free(it);
}

static const char *settings_of(const troupe_trainer *trainer, const void *config, trp_arena *arena)
{
    const trp_text_config *drawn = config;
    size_t size = strlen(drawn->params) + 1;
    char *copy = trp_arena_alloc(arena, size);
    (void)trainer;
    return copy == NULL ? NULL : memcpy(copy, drawn->params, size);
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// Whether the program runs the script that is its first argument: sweeps over all of these would
// have one name.
static bool runs_script(const program *it)
{
    static const char *const names[] = {"python", "pypy", "sh",    "bash",    "dash", "perl",
                                        "ruby",   "node", "julia", "Rscript", "lua"};
    struct stat is;
    const char *name = name_in(it->arguments[0]);
    if (it->count < 2 || stat(it->arguments[1], &is) != 0 || !S_ISREG(is.st_mode))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(name, names[i], length) == 0 &&
            name[length + strspn(name + length, "0123456789.")] == '\0') // "python3.11"
            return true;
    }
    return false;
}

// The name of the program or of its script, of what a name may have.
static void make_name(program *it)
{
    bool script = runs_script(it);
    const char *own = name_in(it->arguments[script ? 1 : 0]), *dot = strrchr(own, '.');
    int length = script && dot != NULL && dot > own ? (int)(dot - own) : (int)strlen(own);
    snprintf(it->name, sizeof it->name, "%.*s", length, own);
    for (char *at = it->name; *at != '\0'; at++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *at) == NULL)
            *at = '_';
}

// Where the command means what it does, for `troupe tune train-best`.
static void note_folder(trp_buffer *line, const troupe_sweep *sweep)
{
    (void)sweep;
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) == NULL)
        return;
    trp_buffer_printf(line, ", \"folder\": ");
    trp_json_text(line, folder);
}

static troupe_status keep_arguments(program *it, const char *const *arguments, size_t count)
{
    TRP_REQUIRE(arguments);
    if (count < 1 || count > ARGUMENTS_MAX)
        return troupe_fail(TROUPE_INVALID,
                           "there are %zu arguments: expected 1 to %d, of which "
                           "the first is the program",
                           count, (int)ARGUMENTS_MAX);
    it->arguments = (const char **)trp_arena_alloc(&it->arena, count * sizeof *it->arguments);
    if (it->arguments == NULL)
        return no_memory();
    trp_buffer_printf(&it->noted, ", \"command\": [");
    for (; it->count < count; it->count++) {
        const char *given = arguments[it->count];
        if (given == NULL || (it->count == 0 && given[0] == '\0'))
            return troupe_fail(TROUPE_INVALID, "argument %zu is %s", it->count,
                               given == NULL ? "NULL" : "empty: expected the program");
        size_t size = strlen(given) + 1;
        char *copy = trp_arena_alloc(&it->arena, size);
        if (copy == NULL)
            return no_memory();
        it->arguments[it->count] = memcpy(copy, given, size);
        trp_buffer_printf(&it->noted, "%s", it->count > 0 ? ", " : "");
        trp_json_text(&it->noted, given);
    }
    trp_buffer_append(&it->noted, "]", 2); // With its end.
    return it->noted.failed ? no_memory() : TROUPE_OK;
}

static troupe_status prepare(program *it, const char *json, const char *const *arguments,
                             size_t count, const troupe_tune_options *how)
{
    TROUPE_TRY(keep_arguments(it, arguments, count));
    TROUPE_TRY(
        trp_sweep_asked_read("troupe_tune_program", json, false, how, &it->arena, &it->asked));
    TROUPE_TRY(check_arguments(it));
    make_name(it);
    it->trainer = (troupe_trainer){
        .abi = TROUPE_ABI, .name = it->name, .config = &troupe_type_trp_text_config};
    return TROUPE_OK;
}

static troupe_status begin(program *it, troupe_sweep **sweep)
{
    troupe_space *space = it->asked.file.space;
    it->asked.file.space = NULL;
    TROUPE_TRY(trp_sweep_begin_json(&it->port, &it->trainer, space, (const char *)it->noted.data,
                                    sweep, &it->asked.how));
    (*sweep)->settings = settings_of;
    (*sweep)->release = release;
    return TROUPE_OK;
}

troupe_status troupe_tune_program_with(const char *json, const char *const *arguments, size_t count,
                                       troupe_sweep **sweep, const troupe_tune_options *how)
{
    TRP_REQUIRE(sweep);
    *sweep = NULL;
    TRP_REQUIRE(json);
    program *it = trp_alloc(sizeof *it);
    troupe_status status = it == NULL ? no_memory() : TROUPE_OK;
    if (it != NULL) {
        *it = (program){.port = trp_sweep_train};
        it->port.submit = submit;
        it->port.prints = true;
        it->port.program = note_folder;
        status = prepare(it, json, arguments, count, how);
    }
    if (status != TROUPE_OK) {
        troupe_error failure = *troupe_last_error();
        trp_sweep_consume(how);
        if (it != NULL)
            release(&it->trainer);
        trp_error_set(&failure);
        return status;
    }
    trp_sweep_asked_choose(&it->asked);
    status = begin(it, sweep);
    if (status != TROUPE_OK) {
        troupe_error failure = *troupe_last_error();
        release(&it->trainer);
        trp_error_set(&failure);
    }
    return status;
}
