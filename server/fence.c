// fence.c: see server/fence.h.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/host/file.h>
#include <server/fence.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/alive.h>
#include <unistd.h>

enum { RUNNER, KEEPER }; // Bytes.

// One at a time: a process has no locks against itself.
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static struct flock lock_of(short type, off_t byte)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

static pid_t holder(int fd, off_t byte)
{
    struct flock lock = lock_of(F_WRLCK, byte);
    if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid > 0 ? lock.l_pid : -1;
}

static void read_attempt(int fd, trp_fence *found)
{
    char text[32] = "";
    found->set = pread(fd, text, sizeof text - 1, 0) > 0;
    found->attempt = (int)strtol(text, NULL, 10);
    found->left = strstr(text, TRP_ALIVE_LEFT) != NULL;
}

static troupe_status write_attempt(int fd, const char *path, int attempt)
{
    char text[32];
    trp_fence found;
    read_attempt(fd, &found); // Of the last one, until there is another.
    int size = snprintf(text, sizeof text, "%d%s\n", attempt,
                        attempt == 0 && found.left ? TRP_ALIVE_LEFT : "");
    if (pwrite(fd, text, (size_t)size, 0) != size || ftruncate(fd, size) != 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be written", path);
    return TROUPE_OK;
}

// Takes the lock of the runner, which goes with the descriptor. The keeper of the last one may live
// still.
static troupe_status take(const char *folder, trp_path *path, int *fd)
{
    struct flock lock = lock_of(F_WRLCK, RUNNER);
    TROUPE_TRY(trp_path_make(path, "%s/alive", folder));
    int file = open(path->text, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be made", path->text);
    bool locked = fcntl(file, F_SETLK, &lock) == 0;
    bool taken = !locked && (errno == EACCES || errno == EAGAIN);
    troupe_status status = TROUPE_OK;
    if (taken || (locked && holder(file, KEEPER) != 0))
        status = troupe_fail(TROUPE_BUSY, "the job in %s has not ended: process %d", folder,
                             (int)holder(file, taken ? RUNNER : KEEPER));
    else if (!locked)
        status = trp_fail_errno(TROUPE_IO, "%s cannot be locked", path->text);
    if (status != TROUPE_OK)
        close(file);
    else
        *fd = file;
    return status;
}

troupe_status trp_fence_set(const char *folder, int attempt)
{
    trp_path path;
    int fd;
    pthread_mutex_lock(&turn);
    troupe_status status = take(folder, &path, &fd);
    if (status == TROUPE_OK) {
        status = write_attempt(fd, path.text, attempt);
        close(fd);
    }
    pthread_mutex_unlock(&turn);
    return status;
}

static troupe_status end_job(const char *folder, const trp_path *path, int fd,
                             const trp_job_end *end)
{
    trp_path there;
    TROUPE_TRY(trp_path_make(&there, "%s/end", folder));
    TROUPE_TRY(write_attempt(fd, path->text, 0));
    if (access(there.text, F_OK) == 0)
        return troupe_fail(TROUPE_EXISTS, "the job in %s has ended", folder);
    return trp_job_end_write(folder, end);
}

troupe_status trp_fence_end(const char *folder, const trp_job_end *end)
{
    trp_path path;
    int fd;
    pthread_mutex_lock(&turn);
    troupe_status status = take(folder, &path, &fd);
    if (status == TROUPE_OK) {
        status = end_job(folder, &path, fd, end);
        close(fd);
    }
    pthread_mutex_unlock(&turn);
    return status;
}

troupe_status trp_fence_look(const char *folder, trp_fence *found)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/alive", folder));
    *found = (trp_fence){0};
    pthread_mutex_lock(&turn);
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int failure = errno;
    if (fd >= 0) {
        read_attempt(fd, found);
        found->runner = holder(fd, RUNNER);
        found->keeper = holder(fd, KEEPER);
        close(fd);
    }
    pthread_mutex_unlock(&turn);
    errno = failure;
    return fd >= 0 || failure == ENOENT ? TROUPE_OK
                                        : trp_fail_errno(TROUPE_IO, "%s cannot be read", path.text);
}
