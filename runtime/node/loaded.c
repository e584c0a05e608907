// loaded.c: see loaded.h.
//
// The file is the struct of the options as it is in memory, and behind it each text that it points
// to, with its NUL: its reader has the same version of the library, since the segment says so.
#include <runtime/node/loaded.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t texts[] = {
    offsetof(troupe_options, directory),     offsetof(troupe_options, worker_env),
    offsetof(troupe_options, worker_folder), offsetof(troupe_options, resources),
    offsetof(troupe_options, trace),         offsetof(troupe_options, listen),
    offsetof(troupe_options, keys),          offsetof(troupe_options, spill_dir),
    offsetof(troupe_options, worker_library)};
enum { TEXTS = sizeof texts / sizeof *texts, PATH_BYTES = 144 };

static const char **text_at(troupe_options *options, int i)
{
    return (const char **)(void *)((char *)options + texts[i]);
}

// ---- the command and the library

static bool is_program(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

// Where the library is installed: its command lies in ../bin.
static bool beside_library(const char *name, char *path, size_t size)
{
    Dl_info about;
    char here[PATH_MAX];
    if (dladdr((const void *)(uintptr_t)&trp_loaded_prepare, &about) == 0 ||
        about.dli_fname == NULL || realpath(about.dli_fname, here) == NULL)
        return false;
    // From lib, or lib/x86_64-linux-gnu.
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(here, '/');
        if (slash == NULL || slash == here)
            return false;
        *slash = '\0';
        if (snprintf(path, size, "%s/bin/%s", here, name) < (int)size && is_program(path))
            return true;
    }
    return false;
}

// As `troupe` itself has those that are installed with it.
static bool beside_program(const char *name, char *path, size_t size)
{
    char here[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    here[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(here, '/');
    return slash != NULL &&
           snprintf(path, size, "%.*s/%s", (int)(slash - here), here, name) < (int)size &&
           is_program(path);
}

static bool on_path(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        int length = (int)strcspn(at, ":");
        if (length > 0 && snprintf(path, size, "%.*s/%s", length, at, name) < (int)size &&
            is_program(path))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static troupe_status find_command(char *path, size_t size)
{
    const char *named = getenv("TROUPE_COMMAND");
    if (named != NULL && named[0] != '\0') {
        if (snprintf(path, size, "%s", named) < (int)size && is_program(path))
            return TROUPE_OK;
        return troupe_fail(TROUPE_NOT_FOUND,
                           "the variable TROUPE_COMMAND is '%.200s': expected the path of the "
                           "program troupe",
                           named);
    }
    if (beside_library("troupe", path, size) || on_path("troupe", path, size))
        return TROUPE_OK;
    return troupe_fail(TROUPE_NOT_FOUND,
                       ".worker_library of troupe_start needs the program troupe, which is neither "
                       "beside the library nor in PATH: name it in the variable TROUPE_COMMAND");
}

troupe_status trp_command_find(const char *name, char *path, size_t size)
{
    const char *named = getenv("TROUPE_COMMAND");
    const char *slash = named != NULL ? strrchr(named, '/') : NULL;
    bool found = false;
    if (slash != NULL)
        found = snprintf(path, size, "%.*s/%s", (int)(slash - named), named, name) < (int)size &&
                is_program(path);
    if (found || beside_program(name, path, size) || beside_library(name, path, size) ||
        on_path(name, path, size))
        return TROUPE_OK;
    return troupe_fail(TROUPE_NOT_FOUND,
                       "the program %s is neither beside the one that TROUPE_COMMAND names, nor "
                       "beside this program or the library, nor in PATH",
                       name);
}

// A name without a slash is the dynamic loader's to find.
static troupe_status find_library(const char *given, char *path, size_t size)
{
    char whole[PATH_MAX];
    const char *found = strchr(given, '/') != NULL ? realpath(given, whole) : given;
    if (found == NULL)
        return troupe_fail(TROUPE_INVALID, ".worker_library of troupe_start is '%.200s': %s", given,
                           strerror(errno));
    if (found[0] == '\0' || snprintf(path, size, "%s", found) >= (int)size)
        return troupe_fail(TROUPE_INVALID,
                           ".worker_library of troupe_start has %zu bytes: expected 1 to %zu",
                           strlen(found), size - 1);
    return TROUPE_OK;
}

// ---- the options

static bool path_of(const char *folder, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/options", folder) < PATH_BYTES;
}

static troupe_status write_options(const troupe_options *options, const char *folder)
{
    char path[PATH_BYTES];
    troupe_options kept = *options;
    trp_buffer whole = {0};
    trp_buffer_append(&whole, &kept, sizeof kept);
    for (int i = 0; i < TEXTS; i++) {
        const char *text = *text_at(&kept, i);
        if (text != NULL)
            trp_buffer_append(&whole, text, strlen(text) + 1);
    }
    if (whole.failed) {
        trp_buffer_free(&whole);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the options of workers");
    }
    int fd = path_of(folder, path)
                 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)
                 : -1;
    bool written = fd >= 0 && write(fd, whole.data, whole.size) == (ssize_t)whole.size;
    troupe_status status =
        written ? TROUPE_OK : trp_fail_errno(TROUPE_IO, "%s could not be written", path);
    if (fd >= 0)
        close(fd);
    trp_buffer_free(&whole);
    return status;
}

// Sets the texts to what lies at `at`; false: it is cut off.
static bool take_texts(troupe_options *options, const char *at, const char *end)
{
    for (int i = 0; i < TEXTS; i++) {
        const char **text = text_at(options, i);
        const char *last = *text != NULL ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        if (*text == NULL)
            continue;
        if (last == NULL)
            return false;
        *text = at;
        at = last + 1;
    }
    return at == end;
}

bool trp_loaded_options(const char *folder, troupe_options *options)
{
    char path[PATH_BYTES];
    struct stat about;
    troupe_options read_in;
    int fd = path_of(folder, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool good = fd >= 0 && fstat(fd, &about) == 0 && about.st_size >= (off_t)sizeof read_in &&
                read(fd, &read_in, sizeof read_in) == (ssize_t)sizeof read_in &&
                read_in.size <= sizeof read_in;
    size_t rest = good ? (size_t)about.st_size - sizeof read_in : 0;
    char *kept = good ? trp_alloc(rest + 1) : NULL; // For as long as the process lives.
    good = kept != NULL && read(fd, kept, rest) == (ssize_t)rest &&
           take_texts(&read_in, kept, kept + rest);
    if (fd >= 0)
        close(fd);
    if (good)
        *options = read_in;
    else
        trp_free(kept);
    return good;
}

troupe_status trp_loaded_prepare(const troupe_options *options, const char *folder,
                                 trp_loaded_command *command)
{
    static char name[] = "troupe", worker[] = "worker", load[] = "--load";
    TROUPE_TRY(find_library(options->worker_library, command->library, sizeof command->library));
    TROUPE_TRY(find_command(command->program, sizeof command->program));
    memcpy(command->argv, (char *[]){name, worker, load, command->library, NULL},
           sizeof command->argv);
    return write_options(options, folder);
}
