// usage.c: see train/usage.h.
#include <fcntl.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <train/usage.h>
#include <unistd.h>

enum { EVERY_MS = 1000, RARELY_MS = 10000, LARGE_BYTES = 16 << 20 };

static bool read_stat(int pid, char *text, size_t capacity)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, capacity - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

bool trp_usage_line(trp_buffer *out, double time_s, int rank, int pid)
{
    char text[1024];
    unsigned long user, system;
    long pages;
    if (!read_stat(pid, text, sizeof text))
        return false;
    const char *behind_name = strrchr(text, ')'); // A name may have blanks and brackets.
    if (behind_name == NULL ||
        sscanf(behind_name,
               ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d "
               "%*u %*u %ld",
               &user, &system, &pages) != 3)
        return false;
    trp_buffer_printf(out,
                      "{\"t\": %.3f, \"rank\": %d, \"pid\": %d, \"cpu_s\": %.2f, "
                      "\"rss_bytes\": %lld}\n",
                      time_s, rank, pid, (double)(user + system) / (double)sysconf(_SC_CLK_TCK),
                      (long long)pages * sysconf(_SC_PAGESIZE));
    return true;
}

int trp_usage_parent(int pid)
{
    char text[1024];
    int parent = 0;
    const char *behind_name = read_stat(pid, text, sizeof text) ? strrchr(text, ')') : NULL;
    return behind_name != NULL && sscanf(behind_name, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void tick_gpus(trp_usage *usage, const int *pids, int ranks, trp_buffer *lines)
{
    enum { MOST = 256 };
    int all[MOST + 1] = {(int)getpid()}, count = ranks < MOST ? ranks : MOST;
    if (usage->gpu_ids == NULL || usage->gpu_ids[0] == '\0')
        return;
    if (usage->gpus == NULL)
        usage->gpus = trp_gpu_usage_begin(usage->gpu_ids);
    memcpy(all + 1, pids, (size_t)count * sizeof *pids);
    if (usage->gpus != NULL)
        trp_gpu_usage_tick(usage->gpus, all, count + 1, lines);
}

static int every_ms(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && about.st_size >= LARGE_BYTES ? RARELY_MS : EVERY_MS;
}

void trp_usage_tick(trp_usage *usage, const int *pids, int ranks)
{
    int64_t now_ms = trp_clock_ms();
    struct timespec now;
    trp_path path;
    trp_buffer lines = {0};
    troupe_error kept;
    if (now_ms < usage->next_ms)
        return;
    trp_error_hold(&kept);
    clock_gettime(CLOCK_REALTIME, &now);
    double time_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    (void)trp_usage_line(&lines, time_s, -1, (int)getpid());
    for (int rank = 0; rank < ranks; rank++)
        if (pids[rank] > 0)
            (void)trp_usage_line(&lines, time_s, rank, pids[rank]);
    tick_gpus(usage, pids, ranks, &lines);
    if (!lines.failed && trp_path_make(&path, "%s/usage.jsonl", usage->folder) == TROUPE_OK) {
        (void)trp_file_append(path.text, lines.data, lines.size);
        usage->next_ms = now_ms + every_ms(path.text);
    }
    trp_buffer_free(&lines);
    trp_error_restore(&kept);
}
