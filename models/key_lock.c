// key_lock.c: see key_lock.h. The table of this process is asked before a file is opened, since
// closing that descriptor again would release the locks.
#include <models/key_lock.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <runtime/host/folder.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// A version that a thread of this process pushes.
typedef struct claim {
    struct claim *next;
    int64_t version;
} claim;

struct trp_key_lock {
    trp_key_lock *next;
    pid_t pid; // Whose locks they are: a forked child has a copy of this table, and no locks.
    dev_t device;
    ino_t inode;
    int fd, holds;
    bool entered;
    claim *claims;
};

static struct {
    pthread_mutex_t lock;
    trp_key_lock *first;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

// With the lock of the table, as those that follow.
static trp_key_lock *find(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0)
        return NULL;
    for (trp_key_lock *at = table.first; at; at = at->next)
        if (at->pid == getpid() && at->device == about.st_dev && at->inode == about.st_ino)
            return at;
    return NULL;
}

static int set_lock(int fd, short type, off_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_SETLK, &lock);
}

static troupe_status add(const char *path, trp_key_lock **made)
{
    struct stat about;
    trp_key_lock *lock = (trp_key_lock *)trp_alloc(sizeof *lock);
    if (!lock)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the lock %s", path);
    int fd = -1;
    if (!trp_file_refuses("open"))
        fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (fd < 0 || fstat(fd, &about) != 0) {
        troupe_status status = trp_fail_errno(TROUPE_IO, "cannot open the lock %s", path);
        if (fd >= 0)
            close(fd);
        trp_free(lock);
        return status;
    }
    *lock = (trp_key_lock){.next = table.first,
                           .pid = getpid(),
                           .device = about.st_dev,
                           .inode = about.st_ino,
                           .fd = fd};
    table.first = *made = lock;
    return TROUPE_OK;
}

troupe_status trp_key_open(const char *folder, trp_key_lock **lock)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/lock", folder));
    pthread_mutex_lock(&table.lock);
    trp_key_lock *there = find(path.text);
    troupe_status status = there ? TROUPE_OK : add(path.text, &there);
    if (status == TROUPE_OK) {
        there->holds++;
        *lock = there;
    }
    pthread_mutex_unlock(&table.lock);
    return status;
}

void trp_key_close(trp_key_lock **held)
{
    trp_key_lock *lock = *held;
    *held = NULL;
    if (!lock)
        return;
    pthread_mutex_lock(&table.lock);
    if (--lock->holds == 0) {
        trp_key_lock **at = &table.first;
        while (*at != lock)
            at = &(*at)->next;
        *at = lock->next;
        close(lock->fd);
        trp_free(lock);
    }
    pthread_mutex_unlock(&table.lock);
}

// False with errno: EAGAIN or EACCES where another one has it.
static bool try_to_enter(trp_key_lock *lock)
{
    pthread_mutex_lock(&table.lock);
    bool entered = false;
    if (lock->entered)
        errno = EAGAIN;
    else
        entered = lock->entered = set_lock(lock->fd, F_WRLCK, 0) == 0;
    int error = errno;
    pthread_mutex_unlock(&table.lock);
    errno = error;
    return entered;
}

static troupe_status refuse(const trp_key_lock *lock)
{
    struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (fcntl(lock->fd, F_GETLK, &held) == 0 && held.l_type != F_UNLCK && held.l_pid > 0)
        return troupe_fail(TROUPE_BUSY, "process %d keeps others from changing the key",
                           (int)held.l_pid);
    return troupe_fail(TROUPE_BUSY, "another thread or machine keeps others from changing the key");
}

troupe_status trp_key_enter(trp_key_lock *lock, int wait_ms)
{
    int64_t until_ms = trp_clock_ms() + wait_ms;
    struct timespec pause = {0, 500000};
    while (!try_to_enter(lock)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return trp_fail_errno(TROUPE_IO,
                                  "the key cannot be locked: a repository must be on a file "
                                  "system with record locks");
        if (trp_clock_ms() >= until_ms)
            return refuse(lock);
        nanosleep(&pause, NULL);
    }
    return TROUPE_OK;
}

void trp_key_leave(trp_key_lock *lock)
{
    pthread_mutex_lock(&table.lock);
    lock->entered = false;
    (void)set_lock(lock->fd, F_UNLCK, 0);
    pthread_mutex_unlock(&table.lock);
}

static claim **claim_of(trp_key_lock *lock, int64_t version)
{
    claim **at = &lock->claims;
    while (*at && (*at)->version != version)
        at = &(*at)->next;
    return at;
}

bool trp_key_claim(trp_key_lock *lock, int64_t version)
{
    pthread_mutex_lock(&table.lock);
    claim **at = claim_of(lock, version);
    bool taken = *at != NULL;
    claim *made = taken ? NULL : (claim *)trp_alloc(sizeof *made);
    if (made && set_lock(lock->fd, F_WRLCK, (off_t)version) == 0) {
        made->version = version;
        *at = made;
    } else {
        trp_free(made);
        made = NULL;
    }
    pthread_mutex_unlock(&table.lock);
    return made != NULL;
}

void trp_key_release(trp_key_lock *lock, int64_t version)
{
    pthread_mutex_lock(&table.lock);
    claim **at = claim_of(lock, version), *held = *at;
    if (held) {
        *at = held->next;
        (void)set_lock(lock->fd, F_UNLCK, (off_t)version);
        trp_free(held);
    }
    pthread_mutex_unlock(&table.lock);
}
