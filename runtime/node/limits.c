// limits.c: what this process may use of its machine (see limits.h).
#include <runtime/node/limits.h>

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_MAX_BYTES = 1024 };

static int affinity_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

// Reads up to two numbers from a file; how many there were. "max" reads as no number.
static int read_numbers(const char *folder, const char *name, double numbers[2])
{
    char path[PATH_MAX_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    int count = fscanf(file, "%lf %lf", &numbers[0], &numbers[1]);
    fclose(file);
    return count > 0 ? count : 0;
}

static void lower(double *value, double limit)
{
    if (limit > 0 && limit < *value)
        *value = limit;
}

// What the files of one folder of a cgroup say, of either version.
static void read_group(const char *folder, void *user)
{
    trp_limits *limits = user;
    double numbers[2], period[2];
    if (read_numbers(folder, "cpu.max", numbers) == 2 && numbers[1] > 0)
        lower(&limits->cpus, numbers[0] / numbers[1]);
    if (read_numbers(folder, "cpu.cfs_quota_us", numbers) >= 1 &&
        read_numbers(folder, "cpu.cfs_period_us", period) >= 1 && period[0] > 0)
        lower(&limits->cpus, numbers[0] / period[0]);
    if (read_numbers(folder, "memory.max", numbers) >= 1)
        lower(&limits->memory_bytes, numbers[0]);
    if (read_numbers(folder, "memory.limit_in_bytes", numbers) >= 1)
        lower(&limits->memory_bytes, numbers[0]);
}

typedef struct visitor {
    void (*visit)(const char *folder, void *user);
    void *user;
} visitor;

// Visits the folder of a cgroup below `mount` and all those above it, up to the mount itself: any
// of them may be the one that limits. Inside a container the path may not exist; its mount does.
static void visit_groups(const char *mount, const char *path, const visitor *who)
{
    char folder[PATH_MAX_BYTES];
    size_t base = strlen(mount);
    if (strcmp(path, "/") == 0)
        path = "";
    if (base + strlen(path) >= sizeof folder)
        path = "";
    snprintf(folder, sizeof folder, "%s%s", mount, path);
    for (;;) {
        who->visit(folder, who->user);
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= base || slash == NULL || (size_t)(slash - folder) < base)
            return;
        *slash = '\0';
    }
}

// A line of /proc/self/cgroup: "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
static void read_line(const char *root, char *line, const visitor *who)
{
    char mount[PATH_MAX_BYTES / 2];
    char *names = strchr(line, ':'), *path = names != NULL ? strchr(names + 1, ':') : NULL;
    if (path == NULL)
        return;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    names++;
    if (*names == '\0') {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        visit_groups(mount, path, who);
        return;
    }
    char *rest = NULL;
    for (char *name = strtok_r(names, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        if (strcmp(name, "cpu") != 0 && strcmp(name, "memory") != 0)
            continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, name);
        visit_groups(mount, path, who);
    }
}

void trp_limits_each_group(const char *root, void (*visit)(const char *folder, void *user),
                           void *user)
{
    visitor who = {visit, user};
    char path[PATH_MAX_BYTES], line[PATH_MAX_BYTES];
    snprintf(path, sizeof path, "%.900s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL)
        read_line(root, line, &who);
    fclose(file);
}

// Entries of CUDA_VISIBLE_DEVICES; -1: it is not set. CUDA itself stops at the first "-1".
static int visible_gpus(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (list == NULL)
        return -1;
    int count = 0;
    while (*list != '\0' && *list != '-') {
        size_t size = strcspn(list, ",");
        count += size > 0;
        list += size + (list[size] == ',');
    }
    return count;
}

// GPUs with a device file: nvidia0, nvidia1, ... and not nvidiactl.
static int device_gpus(const char *root)
{
    char path[PATH_MAX_BYTES];
    snprintf(path, sizeof path, "%.900s/dev", root);
    DIR *devices = opendir(path);
    if (devices == NULL)
        return 0;
    int count = 0;
    for (struct dirent *it; (it = readdir(devices)) != NULL;)
        if (strncmp(it->d_name, "nvidia", 6) == 0 && isdigit((unsigned char)it->d_name[6]))
            count++;
    closedir(devices);
    return count;
}

trp_limits trp_limits_read(const char *root)
{
    trp_limits limits = {.cpus = affinity_cpus()};
    limits.memory_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    trp_limits_each_group(root, read_group, &limits);
    limits.gpus = visible_gpus();
    if (limits.gpus < 0)
        limits.gpus = device_gpus(root);
    return limits;
}

void trp_gpu_id(int index, char id[TRP_GPU_ID_MAX])
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(id, TRP_GPU_ID_MAX, "%d", index);
    if (list == NULL)
        return;
    for (int at = 0; *list != '\0'; at++) {
        size_t size = strcspn(list, ",");
        if (at == index && size > 0)
            snprintf(id, TRP_GPU_ID_MAX, "%.*s", (int)size, list);
        list += size + (list[size] == ',');
    }
}
