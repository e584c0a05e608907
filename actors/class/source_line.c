// source_line.c: lines of the source (see class/source_line.h).
#include <actors/class/source_line.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <runtime/base/clock.h>
#include <runtime/base/memory.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SITES_MAX = 32, ANSWER_MS = 3000, FILE_MAX = 512 };

typedef struct found {
    char file[FILE_MAX];  // Empty: not known.
    uintptr_t offset;     // As addr2line wants it.
    const char *function; // NULL: not exported.
    uintptr_t into;       // How far into that.
    bool asked;
} found;

// A call returns behind itself: the line is that of the byte before.
static uintptr_t call_of(const void *address)
{
    return (uintptr_t)address - 1;
}

static found find(const void *address)
{
    found it = {0};
    Dl_info about;
    struct link_map *map = NULL;
    uintptr_t call = call_of(address);
    if (dladdr1((const void *)call, &about, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return it;
    if (map->l_name != NULL && map->l_name[0] != '\0') {
        snprintf(it.file, sizeof it.file, "%s", map->l_name);
    } else {
        ssize_t size = readlink("/proc/self/exe", it.file, sizeof it.file - 1);
        it.file[size > 0 ? size : 0] = '\0';
    }
    it.offset = call - map->l_addr;
    it.function = about.dli_sname;
    it.into = about.dli_sname != NULL ? call - (uintptr_t)about.dli_saddr : 0;
    return it;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool trp_site_is_ours(const void *address)
{
    found it = find(address);
    return strncmp(base_name(it.file), "libtroupe", strlen("libtroupe")) == 0;
}

static void describe(const found *it, const void *address, char text[TRP_SITE_TEXT])
{
    if (it->file[0] == '\0')
        snprintf(text, TRP_SITE_TEXT, "%p", address);
    else if (it->function == NULL)
        snprintf(text, TRP_SITE_TEXT, "%.100s+0x%lx", base_name(it->file),
                 (unsigned long)it->offset);
    else
        snprintf(text, TRP_SITE_TEXT, "%.100s+0x%lx in %.100s+0x%lx", it->function,
                 (unsigned long)it->into, base_name(it->file), (unsigned long)it->offset);
}

// ---- asking addr2line

static bool spawn_reader(char **argv, pid_t *child, int *from)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    bool good = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0 &&
                posix_spawn_file_actions_adddup2(&actions, ends[1], 1) == 0 &&
                posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0 &&
                posix_spawnp(child, argv[0], &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!good)
        close(ends[0]);
    *from = ends[0];
    return good;
}

// All that the child writes, cut; it is killed if that takes too long.
static void read_all(pid_t child, int from, char *text, size_t capacity)
{
    int64_t give_up = trp_clock_ms() + ANSWER_MS;
    size_t size = 0;
    struct pollfd ready = {.fd = from, .events = POLLIN};
    for (;;) {
        int64_t left = give_up - trp_clock_ms();
        int polled = left > 0 ? poll(&ready, 1, (int)left) : 0;
        ssize_t more = polled > 0 ? read(from, text + size, capacity - 1 - size) : -1;
        if (polled == 0 || more == 0)
            break;
        size += more > 0 ? (size_t)more : 0;
        if (size == capacity - 1)
            break;
    }
    text[size] = '\0';
    close(from);
    (void)kill(child, SIGKILL); // It is done, or late.
    (void)waitpid(child, NULL, 0);
}

// Two lines for each address: the function, and "file:line (discriminator 2)".
static void take_answer(char **at, char text[TRP_SITE_TEXT])
{
    char *lines[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        char *end = strchr(*at, '\n');
        if (end == NULL)
            return;
        *end = '\0';
        lines[i] = *at;
        *at = end + 1;
    }
    char *more = strstr(lines[1], " (");
    if (more != NULL)
        *more = '\0';
    size_t length = strlen(lines[1]);
    if (lines[1][0] == '?' || strrchr(lines[1], ':') == NULL || length < 2 ||
        lines[1][length - 1] == '?' || strcmp(lines[1] + length - 2, ":0") == 0)
        return; // It does not know.
    // The compiler's folder and the path that it was given may go up and down again.
    char real[PATH_MAX];
    char *colon = strrchr(lines[1], ':');
    *colon = '\0';
    const char *path = realpath(lines[1], real) != NULL ? real : lines[1];
    if (lines[0][0] == '?')
        snprintf(text, TRP_SITE_TEXT, "%.230s:%.20s", path, colon + 1);
    else
        snprintf(text, TRP_SITE_TEXT, "%.160s:%.20s (%.64s)", path, colon + 1, lines[0]);
}

// What a look-up needs: too much for a small stack.
typedef struct question {
    found places[SITES_MAX];
    size_t count;
    char answer[SITES_MAX * 2 * TRP_SITE_TEXT];
} question;

// Asks for all places in the file of place `first`.
static void ask(question *about, size_t first, char (*texts)[TRP_SITE_TEXT])
{
    static const char *const command[] = {"addr2line", "-f", "-e"};
    enum { FIXED = sizeof command / sizeof *command };
    found *places = about->places;
    char numbers[SITES_MAX][24];
    char *argv[FIXED + SITES_MAX + 2];
    size_t asked[SITES_MAX], wanted = 0;
    memcpy(argv, command, sizeof command);
    argv[FIXED] = places[first].file;
    for (size_t i = first; i < about->count; i++) {
        if (places[i].asked || strcmp(places[i].file, places[first].file) != 0)
            continue;
        places[i].asked = true;
        snprintf(numbers[wanted], sizeof numbers[wanted], "0x%lx", (unsigned long)places[i].offset);
        argv[FIXED + 1 + wanted] = numbers[wanted];
        asked[wanted++] = i;
    }
    argv[FIXED + 1 + wanted] = NULL;
    pid_t child;
    int from;
    if (!spawn_reader(argv, &child, &from))
        return;
    read_all(child, from, about->answer, sizeof about->answer);
    char *at = about->answer;
    for (size_t i = 0; i < wanted; i++)
        take_answer(&at, texts[asked[i]]);
}

void trp_sites_resolve(const void *const *addresses, size_t count, char (*texts)[TRP_SITE_TEXT])
{
    question *about = trp_alloc(sizeof *about);
    count = count < SITES_MAX ? count : SITES_MAX;
    for (size_t i = 0; i < count; i++) {
        found it = find(addresses[i]);
        describe(&it, addresses[i], texts[i]);
        if (about != NULL)
            about->places[i] = it;
    }
    if (about == NULL)
        return;
    about->count = count;
    for (size_t i = 0; i < count; i++)
        if (!about->places[i].asked && about->places[i].file[0] != '\0')
            ask(about, i, texts);
    trp_free(about);
}
