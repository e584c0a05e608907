// run_folder.c: the folder of a run, in .directory of troupe_start: removing it, and those that
// killed runs have left there.
#include <runtime/base/run_folder.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void trp_folder_remove(const char *folder)
{
    int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder_fd < 0)
        return;
    for (int tries = 0; tries < 64 && rmdir(folder) != 0 && errno == ENOTEMPTY; tries++) {
        char entries[4096] __attribute__((aligned(8)));
        long got;
        (void)lseek(folder_fd, 0, SEEK_SET);
        // getdents64 instead of readdir, which allocates.
        while ((got = syscall(SYS_getdents64, folder_fd, entries, sizeof entries)) > 0) {
            for (long at = 0; at < got;) {
                const struct dirent64 *entry = (const void *)(entries + at);
                (void)unlinkat(folder_fd, entry->d_name, 0);
                at += entry->d_reclen;
            }
        }
    }
    close(folder_fd);
}

// The process that made a folder of that name for this user; 0: it is none such.
static pid_t maker_of(const char *name, bool *fresh)
{
    char prefix[32];
    size_t size = strlen(TRP_FOLDER_FRESH);
    *fresh = strncmp(name, TRP_FOLDER_FRESH, size) == 0;
    int written = snprintf(prefix, sizeof prefix, "%s%u-", *fresh ? TRP_FOLDER_FRESH : "troupe-",
                           (unsigned)getuid());
    if (strncmp(name, prefix, (size_t)written) != 0)
        return 0;
    long pid = strtol(name + written, NULL, 10);
    return pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

// `about` a folder of a process that has gone, or is another container's.
static bool is_left(const char *path, const struct stat *about, bool fresh, int *lock)
{
    enum { MAKING_S = 60 };
    char lock_path[520];
    if (fresh)
        return time(NULL) - about->st_mtime > MAKING_S;
    snprintf(lock_path, sizeof lock_path, "%s/lock", path);
    *lock = open(lock_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return *lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0;
}

void trp_folder_sweep(const char *base)
{
    DIR *entries = opendir(base);
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[512];
        struct stat about;
        bool fresh;
        int lock = -1;
        pid_t pid = maker_of(entry->d_name, &fresh);
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH || lstat(path, &about) != 0 ||
            !S_ISDIR(about.st_mode) || about.st_uid != getuid())
            continue;
        if (is_left(path, &about, fresh, &lock))
            trp_folder_remove(path);
        if (lock >= 0)
            close(lock);
    }
    closedir(entries);
}
