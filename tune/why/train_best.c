// train_best.c: starts the program of a sweep once more, to train the best config.
#include <errno.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tune/sweep/best_mode.h>
#include <tune/why/results.h>
#include <unistd.h>

typedef struct again {
    trp_trials trials;
    trp_arena arena;
    trp_best_program program;
    trp_best_request request;
} again;

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory to train the best trial");
}

static const char *keep(again *it, trp_json json)
{
    char *copy = trp_arena_alloc(&it->arena, json.size + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, json.at, json.size);
    copy[json.size] = '\0';
    return copy;
}

static troupe_status check_kind(const trp_trials *trials)
{
    const char *what = trials->model != NULL       ? "of a version of a repository of models"
                       : trials->command.size > 0  ? "of a command"
                       : !trials->sweep            ? "of a study, which runs nothing"
                       : trials->program.size == 0 ? "of an earlier library, which put down no "
                                                     "program"
                                                   : NULL;
    if (what == NULL)
        return TROUPE_OK;
    return troupe_fail(TROUPE_UNSUPPORTED,
                       "%s is %s: expected a sweep over the trainer of a program", trials->file,
                       what);
}

static troupe_status read_program(again *it)
{
    trp_best_program *program = &it->program;
    if (trp_json_read(&troupe_type_trp_best_program, it->trials.program, &it->arena, program) !=
            TROUPE_OK ||
        program->path == NULL || program->arguments.count < 1 || program->folder == NULL ||
        program->sweep == NULL || program->schema == NULL || it->trials.trainer == NULL)
        return troupe_fail(TROUPE_CORRUPT, "%s does not say in full which program it was of",
                           it->trials.file);
    return TROUPE_OK;
}

static troupe_status make_request(again *it, const trp_seen_trial *best)
{
    it->request = (trp_best_request){
        .trainer = it->trials.trainer,
        .sweep = it->program.sweep,
        .schema = it->program.schema,
        .folder = it->trials.folder,
        .config = keep(it, best->config),
        .params = best->params.size > 0 ? keep(it, best->params) : NULL,
    };
    bool lacks = it->request.config == NULL || (best->params.size > 0 && !it->request.params);
    return lacks ? no_memory() : TROUPE_OK;
}

static troupe_status check_program(const trp_best_program *program)
{
    struct stat about;
    if (stat(program->path, &about) != 0)
        return trp_fail_errno(TROUPE_NOT_FOUND, "the program of the sweep, %s, is not there",
                              program->path);
    if (stat(program->folder, &about) != 0 || !S_ISDIR(about.st_mode))
        return troupe_fail(TROUPE_NOT_FOUND,
                           "the folder that the program of the sweep was started in, %s, is not "
                           "there",
                           program->folder);
    return TROUPE_OK;
}

// In a file without a name, which the program inherits.
static troupe_status put_request(const trp_best_request *request, int *fd)
{
    trp_buffer text = {0};
    trp_json_value(&text, &troupe_type_trp_best_request, request);
    *fd = text.failed ? -1 : memfd_create("troupe-best", 0);
    bool put = *fd >= 0 && write(*fd, text.data, text.size) == (ssize_t)text.size;
    troupe_status status = text.failed ? no_memory()
                           : put       ? TROUPE_OK
                                       : trp_fail_errno(TROUPE_IO, "what is to be trained cannot "
                                                                         "be given to the program");
    trp_buffer_free(&text);
    if (!put && *fd >= 0)
        close(*fd);
    return status;
}

// Returns where that fails, to the folder that this process was in.
static troupe_status start(again *it)
{
    const trp_best_program *program = &it->program;
    char word[64], here[PATH_MAX];
    int fd;
    size_t count = program->arguments.count;
    char **arguments = trp_arena_alloc(&it->arena, (count + 1) * sizeof *arguments);
    if (arguments == NULL)
        return no_memory();
    for (size_t i = 0; i < count; i++)
        arguments[i] = (char *)(uintptr_t)program->arguments.items[i];
    arguments[count] = NULL;
    TROUPE_TRY(put_request(&it->request, &fd));
    snprintf(word, sizeof word, "%d:%d", (int)getpid(), fd);
    bool back = getcwd(here, sizeof here) != NULL;
    if (setenv("TROUPE_TRAIN_BEST", word, 1) == 0 && chdir(program->folder) == 0)
        (void)execv(program->path, arguments);
    troupe_status status =
        trp_fail_errno(TROUPE_IO, "the program of the sweep cannot be started: %s", program->path);
    (void)unsetenv("TROUPE_TRAIN_BEST");
    if (back && chdir(here) != 0)
        status = trp_fail_errno(TROUPE_IO, "the folder %s cannot be gone back to", here);
    close(fd);
    return status;
}

static troupe_status run(const char *path, const troupe_best_options *how, again *it)
{
    const trp_seen_trial *best;
    double value;
    TROUPE_TRY(trp_trials_read_best(path, how, &it->trials, &best, &value));
    TROUPE_TRY(check_kind(&it->trials));
    TROUPE_TRY(read_program(it));
    TROUPE_TRY(make_request(it, best));
    TROUPE_TRY(check_program(&it->program));
    return start(it);
}

troupe_status troupe_best_trial_exec_by_with(const char *path, const troupe_best_options *how)
{
    again it = {0};
    TRP_REQUIRE(path);
    troupe_status status = run(path, how, &it);
    troupe_error failure = *troupe_last_error();
    trp_trials_free(&it.trials);
    trp_arena_clear(&it.arena);
    trp_error_set(&failure);
    return status;
}

troupe_status troupe_best_trial_exec(const char *path)
{
    return troupe_best_trial_exec_by_with(path, NULL);
}
