// support.c: see support.h.
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int64_t support_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t support_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool support_wait_until(bool (*condition)(void *context), void *context, int timeout_ms)
{
    int64_t deadline = support_now_ms() + timeout_ms;
    while (!condition(context)) {
        if (support_now_ms() >= deadline)
            return condition(context);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

typedef struct counting {
    const _Atomic int *counter;
    int least;
} counting;

static bool is_reached(void *context)
{
    const counting *it = context;
    return *it->counter >= it->least;
}

void support_await_counter(const _Atomic int *counter, int least)
{
    counting it = {counter, least};
    if (!support_wait_until(is_reached, &it, SUPPORT_SOON_MS))
        fail_msg("a counter is %d, and should have come to %d", *counter, least);
}

void *support_share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail_msg("cannot share %zu bytes: %s", size, strerror(errno));
    return memory;
}

void *support_zeros(void *memory, size_t size)
{
    return memory != NULL ? memset(memory, 0, size) : support_share(size);
}

char *support_directory_make(void)
{
    const char *base = getenv("TMPDIR");
    char *path = support_path(base && *base ? base : "/tmp", "troupe-test-XXXXXX");
    if (!mkdtemp(path))
        fail_msg("cannot make a directory %s: %s", path, strerror(errno));
    return path;
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void support_directory_remove(char *path)
{
    int64_t until_ms = support_now_ms() + SUPPORT_SOON_MS;
    // A run's files for other programs may still be written as it goes.
    for (;;) {
        (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        if (!support_exists(path))
            break;
        if (support_now_ms() > until_ms)
            fail_msg("cannot remove %s: %s", path, strerror(errno));
        usleep(1000);
    }
    free(path);
}

char *support_path(const char *directory, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0)
        fail_msg("memory is short");
    return path;
}

char *support_read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *copy = open_memstream(&text, &size);
    char part[4096];
    size_t got;
    while ((got = fread(part, 1, sizeof part, file)) > 0)
        fwrite(part, 1, got, copy);
    fclose(file);
    if (fclose(copy) != 0)
        fail_msg("memory is short");
    return text;
}

void support_assert_file(const char *folder, const char *name, const char *expected)
{
    char *path = support_path(folder, name), *text = support_read_file(path);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
    free(path);
}

void support_write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "we");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        fail_msg("cannot write %s: %s", path, strerror(errno));
}

bool support_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool is_hole(int directory, const char *name)
{
    struct stat about;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    bool hole = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
                lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO;
    if (fd >= 0)
        close(fd);
    return hole;
}

int support_count_files(const char *directory)
{
    DIR *all = opendir(directory);
    if (!all && errno == ENOENT)
        return 0;
    if (!all)
        fail_msg("cannot open %s: %s", directory, strerror(errno));
    int count = 0;
    for (struct dirent *entry; (entry = readdir(all));)
        count += entry->d_name[0] != '.' && !is_hole(dirfd(all), entry->d_name);
    closedir(all);
    return count;
}

// Each word is of its filling and its place.
static uint64_t word_at(size_t at, uint64_t seed)
{
    return (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + at;
}

void support_fill(void *memory, size_t size, uint64_t seed)
{
    char *bytes = memory;
    uint64_t word;
    size_t at = 0;
    for (; at + sizeof word <= size; at += sizeof word) {
        word = word_at(at, seed);
        memcpy(bytes + at, &word, sizeof word);
    }
    word = word_at(at, seed);
    memcpy(bytes + at, &word, size - at);
}

bool support_is_filled(const void *memory, size_t size, uint64_t seed)
{
    const char *bytes = memory;
    uint64_t word, found;
    size_t at = 0;
    for (; at + sizeof word <= size; at += sizeof word) {
        memcpy(&found, bytes + at, sizeof found);
        if (found != word_at(at, seed))
            return false;
    }
    word = word_at(at, seed);
    return memcmp(bytes + at, &word, size - at) == 0;
}

int support_count_descriptors(void)
{
    return support_count_files("/proc/self/fd") -
           1; // The folder that is being read is open as well.
}

typedef struct process_stat {
    char state; // A letter, as proc(5) has them.
    pid_t parent, group;
    unsigned flags;
} process_stat;

// Of a process or a thread, by its folder in /proc. False if there is none.
static bool stat_read(const char *folder, process_stat *stat)
{
    char path[96], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0)
        return false;
    text[size] = 0;
    // The name may hold blanks and parentheses, so the fields are found from the last one.
    const char *rest = strrchr(text, ')');
    return rest && sscanf(rest + 1, " %c %d %d %*d %*d %*d %u", &stat->state, &stat->parent,
                          &stat->group, &stat->flags) == 4;
}

static bool process_read(pid_t pid, process_stat *stat)
{
    char folder[16];
    snprintf(folder, sizeof folder, "%d", (int)pid);
    return stat_read(folder, stat);
}

static bool lives(const process_stat *stat)
{
    return stat->state != 'Z' && stat->state != 'X';
}

// Of this process; one that ends does not count: it stays listed for a moment after it was joined.
static bool thread_lives(const char *name)
{
    enum { EXITING = 0x4 }; // The kernel's PF_EXITING, in the field `flags` of proc(5).
    char path[64];
    process_stat stat;
    snprintf(path, sizeof path, "self/task/%.20s", name);
    return stat_read(path, &stat) && lives(&stat) && (stat.flags & EXITING) == 0;
}

int support_count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        fail_msg("cannot list the threads");
    int count = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.' && thread_lives(task->d_name);
    closedir(tasks);
    return count;
}

static bool thread_is(const char *task, const char *name)
{
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size - 1 : 0] = '\0'; // Without the end of its line.
    return strcmp(text, name) == 0;
}

int support_find_thread(const char *name)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        fail_msg("cannot list the threads");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        if (task->d_name[0] != '.' && thread_is(task->d_name, name) && thread_lives(task->d_name))
            found = atoi(task->d_name);
    closedir(tasks);
    return found;
}

bool support_process_lives(pid_t pid)
{
    process_stat stat;
    return process_read(pid, &stat) && lives(&stat);
}

static bool descends(pid_t pid, pid_t ancestor)
{
    for (process_stat stat; pid > 1 && process_read(pid, &stat); pid = stat.parent)
        if (stat.parent == ancestor)
            return true;
    return false;
}

static bool is_of_group(pid_t pid, pid_t group)
{
    process_stat stat;
    return process_read(pid, &stat) && stat.group == group;
}

// The living ones of which `is_counted` says so.
static int count_processes(bool (*is_counted)(pid_t pid, pid_t of), pid_t of)
{
    DIR *directory = opendir("/proc");
    if (!directory)
        fail_msg("cannot open /proc: %s", strerror(errno));
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        count += pid > 0 && support_process_lives(pid) && is_counted(pid, of);
    }
    closedir(directory);
    return count;
}

int support_count_descendants(pid_t ancestor)
{
    return count_processes(descends, ancestor);
}

int support_count_group(pid_t group)
{
    return count_processes(is_of_group, group);
}

typedef struct process_list {
    const pid_t *pids;
    size_t count;
} process_list;

static bool all_ended(void *context)
{
    const process_list *list = context;
    for (size_t i = 0; i < list->count; i++)
        if (support_process_lives(list->pids[i]))
            return false;
    return true;
}

bool support_processes_end(const pid_t *pids, size_t count, int timeout_ms)
{
    process_list list = {pids, count};
    return support_wait_until(all_ended, &list, timeout_ms);
}

bool support_was_killed(int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        fail_msg("a child was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        fail_msg("a child ended with %d", WEXITSTATUS(status));
    return WIFSIGNALED(status);
}

int support_run(const char *command, char *output, size_t capacity)
{
    char *whole = NULL;
    if (asprintf(&whole, "{ %s\n} 2>&1", command) < 0)
        fail_msg("memory is short");
    FILE *pipe = popen(whole, "re");
    free(whole);
    if (!pipe)
        fail_msg("cannot run %s: %s", command, strerror(errno));
    size_t used = 0;
    char part[4096];
    size_t got;
    while ((got = fread(part, 1, sizeof part, pipe)) > 0) {
        size_t room = capacity > used + 1 ? capacity - used - 1 : 0;
        size_t taken = got < room ? got : room;
        memcpy(output + used, part, taken);
        used += taken;
    }
    if (capacity > 0)
        output[used] = 0;
    int status = pclose(pipe);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void support_print(const char *output)
{
    fprintf(stderr, "---- it wrote:\n%s\n---- end of what it wrote\n", output);
}

const char *support_setting(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        fail_msg("%s is not set: run this test through ctest", name);
    return value;
}

void support_allow_mounts(void)
{
    uid_t user = geteuid();
    gid_t group = getegid();
    if (user == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return;
    char map[64];
    support_write_file("/proc/self/setgroups", "deny", 4);
    int length = snprintf(map, sizeof map, "0 %u 1", (unsigned)user);
    support_write_file("/proc/self/uid_map", map, (size_t)length);
    length = snprintf(map, sizeof map, "0 %u 1", (unsigned)group);
    support_write_file("/proc/self/gid_map", map, (size_t)length);
}
