// folder.c: makes a sweep's folder. mkdir is what decides who has a name, so that two sweeps that
// start at once never share one.
#include <tune/folder.h>

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <runtime/error.h>
#include <runtime/memory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES_MAX = 100000 };

static troupe_status default_storage(char path[PATH_MAX])
{
    const char *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char memory[1024];
    if (home == NULL || home[0] == '\0') {
        if (getpwuid_r(getuid(), &entry, memory, sizeof memory, &found) == 0 && found != NULL)
            home = entry.pw_dir;
    }
    if (home == NULL || home[0] == '\0')
        return troupe_fail(TROUPE_IO,
                           "there is no home folder for troupe_results; set train.storage");
    snprintf(path, PATH_MAX, "%s/troupe_results", home);
    return TROUPE_OK;
}

// Makes a folder and those above it, as far as they are missing.
static troupe_status make_all(char path[PATH_MAX])
{
    for (char *at = path + 1;; at++) {
        char end = *at;
        if (end != '/' && end != '\0')
            continue;
        *at = '\0';
        struct stat info;
        if (mkdir(path, 0777) != 0 && (errno != EEXIST || stat(path, &info) != 0))
            return trp_fail_errno(TROUPE_IO, "the folder %s cannot be made", path);
        *at = end;
        if (end == '\0')
            return TROUPE_OK;
    }
}

troupe_status trp_sweep_folder(const char *storage, const char *name, char **path)
{
    char parent[PATH_MAX], whole[PATH_MAX];
    if (storage == NULL || storage[0] == '\0') {
        TROUPE_TRY(default_storage(parent));
    } else {
        if (strlen(storage) + strlen(name) + 16 > sizeof parent)
            return troupe_fail(TROUPE_INVALID, "train.storage has %zu bytes, too long for a path",
                               strlen(storage));
        snprintf(parent, sizeof parent, "%s", storage);
    }
    TROUPE_TRY(make_all(parent));
    for (int number = 0; number <= TRIES_MAX; number++) {
        int length = number == 0 ? snprintf(whole, sizeof whole, "%s/%s", parent, name)
                                 : snprintf(whole, sizeof whole, "%s/%s_%d", parent, name, number);
        if (length < 0 || (size_t)length >= sizeof whole)
            return troupe_fail(TROUPE_INVALID, "the path of the sweep's folder in %s is too long",
                               parent);
        if (mkdir(whole, 0777) == 0) {
            *path = trp_strdup(whole);
            if (*path == NULL) {
                rmdir(whole);
                return troupe_fail(TROUPE_NO_MEMORY, "no memory for a path");
            }
            return TROUPE_OK;
        }
        if (errno != EEXIST)
            return trp_fail_errno(TROUPE_IO, "the sweep's folder %s cannot be made", whole);
    }
    return troupe_fail(TROUPE_IO, "%s/%s and %d numbers behind it are all taken", parent, name,
                       TRIES_MAX);
}
