// alive.c: see alive.h. The table of this process's runs is asked before a file is opened, since
// closing that descriptor again would release the locks.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <runtime/host/folder.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <train/alive.h>
#include <unistd.h>

enum { DRIVER = 0, RANKS = 1, CLEANER = 2, TEXT_MAX = 160, CLEANED_MS = 5000, DIGITS_MAX = 18 };

struct trp_alive {
    trp_alive *next;
    pid_t pid; // Whose lock it is: a forked child has a copy of this table, and none of the locks.
    dev_t device;
    ino_t inode;
    int fd, holds;
    bool cleans;
};

static struct {
    pthread_mutex_t lock;
    trp_alive *first;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

// What this process has of that file. With the lock.
static trp_alive *find(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return NULL;
    for (trp_alive *at = table.first; at != NULL; at = at->next)
        if (at->pid == getpid() && at->device == about.st_dev && at->inode == about.st_ino)
            return at;
    return NULL;
}

// What the file says of its driver, and how many bytes it has, as far as they count. Without scanf,
// whose code is pages that each rank has to map anew.
static ssize_t read_text(int fd, int64_t *epoch, char holder[TEXT_MAX])
{
    static const char before[] = "epoch ";
    char text[TEXT_MAX], *at = text + sizeof before - 1;
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\n';
    *epoch = 0;
    holder[0] = '\0';
    if (size < (ssize_t)sizeof before || memcmp(text, before, sizeof before - 1) != 0)
        return size;
    for (int digits = 0; digits < DIGITS_MAX && *at >= '0' && *at <= '9'; digits++, at++)
        *epoch = *epoch * 10 + (*at - '0');
    for (; *at == ' '; at++)
        continue;
    for (; *at != '\n' && *at != '\0'; at++)
        *holder++ = *at;
    *holder = '\0';
    return size;
}

static int set_lock(int fd, short type, off_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_SETLK, &lock);
}

// Another process that has the byte; 0: none, -1: one that this system cannot name.
static pid_t holder_of(int fd, off_t byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid > 0 ? lock.l_pid : -1;
}

static troupe_status refuse(const char *run, int fd)
{
    int64_t epoch;
    char text[TEXT_MAX];
    pid_t pid = holder_of(fd, DRIVER);
    read_text(fd, &epoch, text);
    if (pid > 0)
        return troupe_fail(TROUPE_BUSY, "the run %s is being run by process %d", run, (int)pid);
    return troupe_fail(TROUPE_BUSY, "the run %s is being run by %s", run,
                       text[0] != '\0' ? text : "another process");
}

static troupe_status lock_driver(const char *run, int fd)
{
    if (set_lock(fd, F_WRLCK, DRIVER) == 0)
        return TROUPE_OK;
    if (errno == EACCES || errno == EAGAIN)
        return refuse(run, fd);
    return trp_fail_errno(TROUPE_IO,
                          "%s/alive cannot be locked: a run's folder must be on a file "
                          "system with record locks",
                          run);
}

// Makes a row of the open file, which has been locked. With the lock of the table.
static troupe_status add(int fd, bool cleans, trp_alive **alive)
{
    struct stat about;
    trp_alive *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the lock of a run");
    if (fstat(fd, &about) != 0) {
        trp_free(made);
        return trp_fail_errno(TROUPE_IO, "the lock of a run cannot be looked at");
    }
    *made = (trp_alive){table.first, getpid(), about.st_dev, about.st_ino, fd, 1, cleans};
    table.first = made;
    *alive = made;
    return TROUPE_OK;
}

// Waits until nothing removes the remains of the run any more.
static void await_cleaner(int fd)
{
    int64_t until_ms = trp_clock_ms() + CLEANED_MS;
    struct timespec pause = {0, 1000000};
    while (holder_of(fd, CLEANER) != 0 && trp_clock_ms() < until_ms)
        nanosleep(&pause, NULL);
}

static troupe_status take_open(const char *run, int fd, trp_alive **alive)
{
    troupe_status status = lock_driver(run, fd);
    if (status == TROUPE_OK)
        await_cleaner(fd);
    if (status == TROUPE_OK)
        status = add(fd, false, alive);
    if (status != TROUPE_OK)
        close(fd);
    return status;
}

static troupe_status take(const char *run, const char *path, trp_alive **alive)
{
    if (find(path) != NULL)
        return troupe_fail(TROUPE_BUSY, "the run %s is being run by this process", run);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    return fd >= 0 ? take_open(run, fd, alive) : trp_fail_errno(TROUPE_IO, "cannot make %s", path);
}

// Takes a run whose file is not there yet, so that nothing has to be asked about it. False: it is.
static bool take_new(const char *run, const char *path, trp_alive **alive, troupe_status *status)
{
    pthread_mutex_lock(&table.lock);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (fd >= 0)
        *status = take_open(run, fd, alive);
    pthread_mutex_unlock(&table.lock);
    return fd >= 0;
}

// Takes the lock of the table once this process does not clean the run.
static void lock_table(const char *path)
{
    int64_t until_ms = trp_clock_ms() + CLEANED_MS;
    struct timespec pause = {0, 1000000};
    pthread_mutex_lock(&table.lock);
    for (trp_alive *there; (there = find(path)) != NULL && there->cleans;) {
        if (trp_clock_ms() >= until_ms)
            break;
        pthread_mutex_unlock(&table.lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&table.lock);
    }
}

static troupe_status clean(const char *run, const char *path, trp_alive **alive)
{
    if (find(path) != NULL)
        return troupe_fail(TROUPE_BUSY, "the run %s is in use by this process", run);
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "cannot open %s",
                              path);
    troupe_status status = TROUPE_OK;
    if (set_lock(fd, F_WRLCK, CLEANER) != 0 || holder_of(fd, DRIVER) != 0)
        status = troupe_fail(TROUPE_BUSY, "the run %s is in use", run);
    if (status == TROUPE_OK)
        status = add(fd, true, alive);
    if (status != TROUPE_OK)
        close(fd);
    return status;
}

troupe_status trp_alive_clean(const char *run, trp_alive **alive)
{
    trp_path path;
    TROUPE_TRY(trp_path_join(&path, run, "alive"));
    pthread_mutex_lock(&table.lock);
    troupe_status status = clean(run, path.text, alive);
    pthread_mutex_unlock(&table.lock);
    return status;
}

troupe_status trp_alive_take(const char *run, trp_alive **alive)
{
    trp_path path;
    troupe_status status;
    TROUPE_TRY(trp_path_join(&path, run, "alive"));
    if (take_new(run, path.text, alive, &status))
        return status;
    lock_table(path.text);
    status = take(run, path.text, alive);
    pthread_mutex_unlock(&table.lock);
    if (status == TROUPE_OK && trp_alive_check(*alive, run) != TROUPE_OK) {
        trp_alive_leave(alive);
        return troupe_last_error()->status;
    }
    return status;
}

static troupe_status lock_again(int fd)
{
    if (set_lock(fd, F_WRLCK, DRIVER) == 0)
        return TROUPE_OK;
    return troupe_fail(errno == EACCES || errno == EAGAIN ? TROUPE_BUSY : TROUPE_IO,
                       "this process has not the lock of its job any more: %s", strerror(errno));
}

troupe_status trp_alive_adopt(int fd, trp_alive **alive)
{
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return trp_fail_errno(TROUPE_IO, "descriptor %d is not the lock of a job", fd);
    TROUPE_TRY(lock_again(fd));
    pthread_mutex_lock(&table.lock);
    troupe_status status = add(fd, false, alive);
    pthread_mutex_unlock(&table.lock);
    return status;
}

troupe_status trp_alive_hold_on(const trp_alive *alive)
{
    struct stat about;
    if (fstat(alive->fd, &about) != 0 || about.st_dev != alive->device ||
        about.st_ino != alive->inode)
        return troupe_fail(TROUPE_IO, "the program has closed the descriptor of its job's lock");
    return lock_again(alive->fd);
}

troupe_status trp_alive_say_left(const trp_alive *alive)
{
    char text[TEXT_MAX];
    ssize_t size = pread(alive->fd, text, sizeof text - sizeof TRP_ALIVE_LEFT, 0);
    text[size > 0 ? size : 0] = '\0';
    text[strcspn(text, " \n")] = '\0';
    strcat(text, TRP_ALIVE_LEFT "\n");
    size = (ssize_t)strlen(text);
    if (pwrite(alive->fd, text, (size_t)size, 0) != size)
        return trp_fail_errno(TROUPE_IO, "that the process ends cannot be said");
    return TROUPE_OK;
}

int trp_alive_keeper(const trp_alive *alive)
{
    return (int)holder_of(alive->fd, RANKS);
}

int trp_alive_await_ranks(const trp_alive *alive, int wait_ms)
{
    int64_t until_ms = trp_clock_ms() + wait_ms;
    struct timespec pause = {0, 1000000};
    pid_t pid;
    while ((pid = holder_of(alive->fd, RANKS)) != 0 && trp_clock_ms() < until_ms)
        nanosleep(&pause, NULL);
    return (int)pid;
}

troupe_status trp_alive_begin(trp_alive *alive, int64_t *epoch, int wait_ms)
{
    char text[TEXT_MAX], host[64] = "";
    int64_t last;
    ssize_t had = read_text(alive->fd, &last, text);
    if (*epoch <= last)
        *epoch = last + 1;
    (void)gethostname(host, sizeof host - 1);
    int size = snprintf(text, sizeof text, "epoch %" PRId64 " process %d on %s\n", *epoch,
                        (int)getpid(), host);
    if (pwrite(alive->fd, text, (size_t)size, 0) != size ||
        (had > size && ftruncate(alive->fd, size) != 0))
        return trp_fail_errno(TROUPE_IO, "the file alive of a run cannot be written");
    int pid = trp_alive_await_ranks(alive, wait_ms);
    if (pid != 0)
        return troupe_fail(TROUPE_BUSY, "a rank of the run's last driver has not ended: process %d",
                           pid);
    return TROUPE_OK;
}

// As holder_of; where the byte is DRIVER it may be this process.
static int holder_at(const char *run, off_t byte)
{
    trp_path path;
    if (trp_path_join(&path, run, "alive") != TROUPE_OK)
        return 0;
    pthread_mutex_lock(&table.lock);
    trp_alive *there = find(path.text);
    int fd = there != NULL ? there->fd : open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int pid = fd >= 0 ? (int)holder_of(fd, byte) : 0;
    if (byte == DRIVER && pid == 0 && there != NULL && !there->cleans)
        pid = (int)getpid();
    if (there == NULL && fd >= 0)
        close(fd);
    pthread_mutex_unlock(&table.lock);
    return pid;
}

int trp_alive_driver(const char *run)
{
    return holder_at(run, DRIVER);
}

troupe_status trp_alive_check(const trp_alive *alive, const char *run)
{
    struct stat about;
    trp_path path;
    TROUPE_TRY(trp_path_join(&path, run, "alive"));
    if (stat(path.text, &about) != 0 || about.st_dev != alive->device ||
        about.st_ino != alive->inode)
        return troupe_fail(TROUPE_IO, "the folder %s was moved or replaced while it was in use",
                           run);
    return TROUPE_OK;
}

// With the lock of the table.
static troupe_status join(const char *run, const char *path, int64_t epoch, trp_alive **alive)
{
    int64_t current;
    char text[TEXT_MAX];
    trp_alive *there = find(path);
    int fd = there != NULL ? there->fd : open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    troupe_status status = TROUPE_OK;
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "cannot open %s",
                              path);
    if (there == NULL && set_lock(fd, F_RDLCK, RANKS) != 0)
        status = trp_fail_errno(TROUPE_IO, "cannot lock %s", path);
    if (status == TROUPE_OK) {
        read_text(fd, &current, text);
        if (current != epoch)
            status = troupe_fail(TROUPE_PEER_LOST, "the run %s has been taken over by %s", run,
                                 text[0] != '\0' ? text : "another driver");
    }
    if (status == TROUPE_OK && there == NULL)
        status = add(fd, false, &there);
    else if (status == TROUPE_OK)
        there->holds++;
    if (status == TROUPE_OK)
        *alive = there;
    else if (there == NULL)
        close(fd);
    return status;
}

troupe_status trp_alive_join(const char *run, int64_t epoch, trp_alive **alive)
{
    trp_path path;
    TROUPE_TRY(trp_path_join(&path, run, "alive"));
    pthread_mutex_lock(&table.lock);
    troupe_status status = join(run, path.text, epoch, alive);
    pthread_mutex_unlock(&table.lock);
    return status;
}

int trp_alive_guard(const char *file)
{
    int fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC); // Stays open.
    return fd >= 0 && set_lock(fd, F_RDLCK, RANKS) == 0 ? 0 : errno;
}

bool trp_alive_has_ranks(const char *run)
{
    return holder_at(run, RANKS) != 0;
}

void trp_alive_leave(trp_alive **held)
{
    trp_alive *alive = *held;
    *held = NULL;
    if (alive == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    if (--alive->holds == 0) {
        trp_alive **at = &table.first;
        while (*at != alive)
            at = &(*at)->next;
        *at = alive->next;
        close(alive->fd);
        trp_free(alive);
    }
    pthread_mutex_unlock(&table.lock);
}
