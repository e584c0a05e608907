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

void trp_boot_id(char id[TRP_BOOT_ID_MAX])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, id, TRP_BOOT_ID_MAX - 1) : 0;
    id[size > 0 ? size : 0] = '\0';
    id[strcspn(id, "\n")] = '\0';
    if (fd >= 0)
        close(fd);
}

uint32_t trp_folder_space(void)
{
    char id[TRP_BOOT_ID_MAX];
    struct stat about;
    trp_boot_id(id);
    if (id[0] == '\0' || stat("/proc/self/ns/pid", &about) != 0)
        return 0;
    uint64_t sum = about.st_ino;
    for (const char *at = id; *at != '\0'; at++) // FNV-1a.
        sum = (sum ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return (uint32_t)(sum ^ (sum >> 32)) | 1;
}

// Who made a folder.
typedef struct maker {
    pid_t pid;
    uint32_t space; // Of one that was being made.
    bool fresh;     // It was.
} maker;

// False: the name is of no folder of this user.
static bool maker_of(const char *name, maker *who)
{
    char prefix[32], *end;
    bool fresh = strncmp(name, TRP_FOLDER_FRESH, strlen(TRP_FOLDER_FRESH)) == 0;
    int written = snprintf(prefix, sizeof prefix, "%s%u-", fresh ? TRP_FOLDER_FRESH : "troupe-",
                           (unsigned)getuid());
    if (strncmp(name, prefix, (size_t)written) != 0)
        return false;
    long pid = strtol(name + written, &end, 10);
    if (pid <= 0 || pid > INT_MAX)
        return false;
    *who = (maker){.pid = (pid_t)pid, .fresh = fresh};
    if (fresh && *end == '-')
        who->space = (uint32_t)strtoul(end + 1, NULL, 16);
    return true;
}

// `about` a folder of a process that has gone, or is another container's.
static bool is_left(const char *path, const struct stat *about, const maker *who, int *lock)
{
    enum { MAKING_S = 60 };
    char lock_path[520];
    if (who->fresh)
        return (who->space != 0 && who->space == trp_folder_space()) ||
               time(NULL) - about->st_mtime > MAKING_S;
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
        maker who;
        int lock = -1;
        if (!maker_of(entry->d_name, &who))
            continue;
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        if (kill(who.pid, 0) == 0 || errno != ESRCH || lstat(path, &about) != 0 ||
            !S_ISDIR(about.st_mode) || about.st_uid != getuid())
            continue;
        if (is_left(path, &about, &who, &lock))
            trp_folder_remove(path);
        if (lock >= 0)
            close(lock);
    }
    closedir(entries);
}
