// folder.c: makes folders for results. mkdir decides which run has a name, so that two runs that
// start at once never share one.
#include <runtime/host/folder.h>

#include <errno.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUMBERS_MAX = 1000000 };

mode_t trp_file_mode(void)
{
    return trp_process_options()->shared_files ? 0666 : 0600;
}

mode_t trp_folder_mode(void)
{
    return trp_process_options()->shared_files ? 0777 : 0700;
}

static troupe_status too_long(const char *what)
{
    return troupe_fail(TROUPE_INVALID, "the path of a folder is too long: %.100s...", what);
}

static troupe_status storage_path(const char *storage, char path[PATH_MAX])
{
    const char *home = getenv("HOME"), *usual = getenv("TROUPE_RESULTS");
    char here[PATH_MAX];
    int length;
    if ((storage == NULL || storage[0] == '\0') && usual != NULL && usual[0] != '\0')
        storage = usual;
    if (storage != NULL && storage[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s", storage);
    } else if ((storage == NULL || storage[0] == '\0') && home != NULL && home[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/troupe_results", home);
    } else {
        if (storage == NULL || storage[0] == '\0')
            storage = "troupe_results";
        if (getcwd(here, sizeof here) == NULL)
            return trp_fail_errno(TROUPE_IO, "cannot tell which folder this is");
        length = snprintf(path, PATH_MAX, "%s/%s", here, storage);
    }
    return length >= 0 && length < PATH_MAX ? TROUPE_OK : too_long(path);
}

// Makes a folder and those above it, as far as they are missing.
static troupe_status make_all(char path[PATH_MAX])
{
    struct stat there;
    if (stat(path, &there) == 0) // Else it is seen below what is in the way.
        return TROUPE_OK;
    for (char *at = path + 1;; at++) {
        char ended = *at;
        if (ended != '/' && ended != '\0')
            continue;
        *at = '\0';
        struct stat about;
        if (mkdir(path, trp_folder_mode()) != 0 && (errno != EEXIST || stat(path, &about) != 0))
            return trp_fail_errno(TROUPE_IO, "the folder %s cannot be made", path);
        *at = ended;
        if (ended == '\0')
            return TROUPE_OK;
    }
}

static troupe_status numbered(const char *parent, const char *name, int number,
                              char whole[PATH_MAX])
{
    int length = number == 0 ? snprintf(whole, PATH_MAX, "%s/%s", parent, name)
                             : snprintf(whole, PATH_MAX, "%s/%s_%d", parent, name, number);
    return length >= 0 && length < PATH_MAX ? TROUPE_OK : too_long(parent);
}

static bool is_taken(const char *parent, const char *name, int number)
{
    char whole[PATH_MAX];
    struct stat about;
    return numbered(parent, name, number, whole) == TROUPE_OK && lstat(whole, &about) == 0;
}

// A number behind one that is taken, found in few steps where all below it are.
static int guess_number(const char *parent, const char *name)
{
    int taken = -1, free = 0;
    for (; free < NUMBERS_MAX && is_taken(parent, name, free); free = 2 * free + 1)
        taken = free;
    while (free - taken > 1) {
        int middle = taken + (free - taken) / 2;
        if (is_taken(parent, name, middle))
            taken = middle;
        else
            free = middle;
    }
    return free;
}

troupe_status trp_folder_claim(const char *storage, const char *name, char **path)
{
    char parent[PATH_MAX], whole[PATH_MAX];
    TROUPE_TRY(storage_path(storage, parent));
    TROUPE_TRY(make_all(parent));
    for (int number = guess_number(parent, name); number <= NUMBERS_MAX; number++) {
        TROUPE_TRY(numbered(parent, name, number, whole));
        if (mkdir(whole, trp_folder_mode()) == 0) {
            *path = trp_strdup(whole);
            if (*path != NULL)
                return TROUPE_OK;
            (void)rmdir(whole);
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a path");
        }
        if (errno != EEXIST)
            return trp_fail_errno(TROUPE_IO, "the folder %s cannot be made", whole);
    }
    return troupe_fail(TROUPE_IO, "%s/%s and %d numbers behind it are all taken", parent, name,
                       NUMBERS_MAX);
}

troupe_status trp_folder_named(const char *storage, const char *name, bool make, char **path)
{
    char parent[PATH_MAX], whole[PATH_MAX];
    struct stat about;
    TROUPE_TRY(storage_path(storage, parent));
    int length = snprintf(whole, sizeof whole, "%s/%s", parent, name);
    if (length < 0 || (size_t)length >= sizeof whole)
        return too_long(parent);
    if (make)
        TROUPE_TRY(make_all(parent));
    if (make && mkdir(whole, trp_folder_mode()) != 0 && errno != EEXIST)
        return trp_fail_errno(TROUPE_IO, "the folder %s cannot be made", whole);
    if (stat(whole, &about) != 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "the folder %s cannot be used", whole);
    if (!S_ISDIR(about.st_mode))
        return troupe_fail(TROUPE_EXISTS, "%s is not a folder", whole);
    *path = trp_strdup(whole);
    return *path != NULL ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for a path");
}
