// nap.h: a program that jobs of these tests run: the test itself, started again by troupe-launch.
// It does of job mode what the server can see: it keeps the lock, says hello, follows wishes, and
// writes its end; and it records in the run's folder that it ran, and whether another one did too.
#ifndef TROUPE_TEST_NAP_H
#define TROUPE_TEST_NAP_H

#include <fcntl.h>
#include <inttypes.h>
#include <runtime/codec/unpack.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <train/job_end.h>
#include <train/server_link.h>
#include <unistd.h>

typedef struct nap {
    int pid, lock, order_fd, attempt;
    int64_t job;
    char folder[512], state[512];
    trp_wire_order order;
    _Atomic bool stop, kill, leave, again;
    _Atomic int64_t echo;
} nap;

static inline void nap_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

// The variable as it was at exec, whatever the library has done with it since.
static inline bool nap_read_variable(nap *it)
{
    char text[65536];
    int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    for (char *at = text; at < text + size; at += strlen(at) + 1)
        if (sscanf(at, "TROUPE_JOB=%d:%d:%d:%" SCNd64 ":%d:%511[^\n]", &it->pid, &it->lock,
                   &it->order_fd, &it->job, &it->attempt, it->folder) == 6)
            return true;
    return false;
}

static inline void nap_take(nap *it, const trp_wire_wishes *wishes)
{
    it->stop = wishes->stop || wishes->stop_next;
    it->kill = wishes->kill != 0;
    it->leave = wishes->leave || wishes->pause || wishes->grown;
    it->echo = wishes->revision;
}

static inline void nap_told(void *user, const trp_wire_frame *frame)
{
    trp_arena arena = {0};
    trp_wire_wishes wishes;
    if (frame->kind == TRP_WIRE_WISHES &&
        trp_wire_read(frame, &troupe_type_trp_wire_wishes, &arena, &wishes) == TROUPE_OK)
        nap_take((nap *)user, &wishes);
    trp_arena_clear(&arena);
}

static inline void nap_again(void *user)
{
    ((nap *)user)->again = true;
}

// Says hello, if there is a server.
static inline void nap_greet(nap *it, trp_server_link **link)
{
    trp_server_told told = {.frame = nap_told, .again = nap_again, .user = it};
    trp_wire_runner hello = {it->job, it->attempt, it->order.submission};
    if (*link == NULL && trp_server_link_open(it->state, &told, link) != TROUPE_OK)
        return;
    it->again = trp_server_link_tell(*link, TRP_WIRE_RUNNER, &troupe_type_trp_wire_runner,
                                     &hello) != TROUPE_OK;
}

static inline volatile sig_atomic_t *nap_signal(void)
{
    static volatile sig_atomic_t came;
    return &came;
}

static inline volatile sig_atomic_t *nap_end(void)
{
    static volatile sig_atomic_t came;
    return &came;
}

static inline void nap_be_told(int number)
{
    *(number == SIGUSR2 ? nap_end() : nap_signal()) = 1;
}

static inline void nap_append(const char *folder, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
    close(fd);
}

// A counter that all runners share: the ranks that run, and the most that ever did.
static inline _Atomic int *nap_slots(const char *storage)
{
    char path[600];
    snprintf(path, sizeof path, "%s/slots", storage);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        abort();
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        abort();
    return (_Atomic int *)at;
}

static inline void nap_begin(const nap *it, _Atomic int *slots)
{
    char line[64], path[600];
    snprintf(line, sizeof line, "%d %d\n", (int)getpid(), it->attempt);
    nap_append(it->order.run, "ranks", line);
    snprintf(path, sizeof path, "%s/one", it->order.run);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); // For life.
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        nap_append(it->order.run, "ranks", "TWICE\n");
    int now = atomic_fetch_add(&slots[0], it->order.ranks) + it->order.ranks;
    for (int most = slots[1]; now > most && !atomic_compare_exchange_weak(&slots[1], &most, now);)
        continue;
}

// Where the test has put the file `together`: waits until more ranks ran at once than its own.
static inline void nap_await_others(const nap *it, const char *storage, const _Atomic int *slots)
{
    enum { LONGEST_MS = 20000 };
    char path[600];
    snprintf(path, sizeof path, "%s/together", storage);
    for (int i = 0; access(path, F_OK) == 0 && slots[1] <= it->order.ranks && i < LONGEST_MS; i++)
        nap_ms(1);
}

static inline bool nap_read_order(nap *it)
{
    static char data[65536];
    trp_arena *arena = (trp_arena *)calloc(1, sizeof *arena); // Of the order, for life.
    ssize_t size = pread(it->order_fd, data, sizeof data, 0);
    return size > 0 && trp_unpack_whole(&troupe_type_trp_wire_order, data, (size_t)size, arena,
                                        &it->order) == TROUPE_OK;
}

// What the program does, with {"nap", reports, milliseconds of each}.
static inline int nap_main(char **argv)
{
    static nap it;
    trp_server_link *link = NULL;
    int reports = atoi(argv[2]), each_ms = atoi(argv[3]), done = 0;
    if (!nap_read_variable(&it) || !nap_read_order(&it))
        return 1;
    snprintf(it.state, sizeof it.state, "%s", it.folder);
    for (int i = 0; i < 2; i++) // .../jobs/<id>
        *strrchr(it.state, '/') = '\0';
    char storage[512];
    snprintf(storage, sizeof storage, "%s", it.order.run);
    *strrchr(storage, '/') = '\0';
    _Atomic int *slots = nap_slots(storage);
    nap_begin(&it, slots);
    nap_await_others(&it, storage, slots);
    nap_take(&it, &it.order.wishes);
    signal(SIGUSR1, nap_be_told);
    signal(SIGUSR2, nap_be_told); // It ends, as if it had made all of its reports.
    while (done < reports && *nap_end() == 0 && !it.stop && !it.kill && !it.leave) {
        if (*nap_signal() != 0) { // It is to say hello anew, by another connection.
            *nap_signal() = 0;
            trp_server_link_close(&link);
            nap_greet(&it, &link);
            nap_append(it.order.run, "again", "");
        }
        if (link == NULL || it.again)
            nap_greet(&it, &link);
        nap_ms(each_ms);
        done++;
        trp_wire_progress progress = {TRP_JOB_RUNNING, it.order.ranks, done, 0,
                                      it.echo,         NULL,           false};
        if (link != NULL)
            (void)trp_server_link_tell(link, TRP_WIRE_PROGRESS, &troupe_type_trp_wire_progress,
                                       &progress);
    }
    atomic_fetch_sub(&slots[0], it.order.ranks);
    trp_job_end end = {.version = 1,
                       .attempt = it.attempt,
                       .status = it.kill ? TROUPE_CANCELLED : TROUPE_OK,
                       .stopped = it.stop,
                       .reports = done,
                       .ended_at = (double)time(NULL)};
    if (!it.leave && trp_job_end_write(it.folder, &end) != TROUPE_OK)
        return 1;
    _exit(0);
}

#endif
