// launch_record.c: see launch_record.h.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/host/file.h>
#include <runtime/host/own_command.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <train/launch_record.h>
#include <unistd.h>

// ---- of which files the program consists

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *string_table(const struct link_map *object)
{
    const ElfW(Dyn) *at = object->l_ld;
    while (at != NULL && at->d_tag != DT_NULL && at->d_tag != DT_STRTAB)
        at++;
    if (at == NULL || at->d_tag != DT_STRTAB)
        return NULL;
    // The loader makes it an address, but not in what the kernel has mapped, which is read-only.
    ElfW(Addr) table = at->d_un.d_ptr;
    return (const char *)(table < object->l_addr ? object->l_addr + table : table);
}

// The name that others ask for it by; that of its file, where it has none.
static const char *own_name(const struct link_map *object)
{
    const char *texts = string_table(object);
    for (const ElfW(Dyn) *at = object->l_ld; texts != NULL && at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_SONAME)
            return texts + at->d_un.d_val;
    return last_part(object->l_name);
}

static bool needs(const struct link_map *object, const struct link_map *other)
{
    const char *texts = string_table(object);
    for (const ElfW(Dyn) *at = object->l_ld; texts != NULL && at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_NEEDED) {
            const char *name = texts + at->d_un.d_val;
            if (strcmp(last_part(name), own_name(other)) == 0 ||
                strcmp(last_part(name), last_part(other->l_name)) == 0)
                return true;
        }
    return false;
}

// Whether the object is loaded with the program, and not later by a call: the program needs it, or
// another one that is loaded with it.
static bool is_of_program(const struct link_map *wanted)
{
    enum { MOST = 1024 };
    const struct link_map *main = wanted, *found[MOST];
    size_t count = 0;
    while (main->l_prev != NULL)
        main = main->l_prev;
    found[count++] = main;
    for (size_t next = 0; next < count; next++) {
        if (found[next] == wanted)
            return true;
        for (const struct link_map *at = main->l_next; at != NULL && count < MOST;
             at = at->l_next) {
            bool known = false;
            for (size_t i = 0; i < count && !known; i++)
                known = found[i] == at;
            if (!known && needs(found[next], at))
                found[count++] = at;
        }
    }
    return false;
}

static troupe_status check_executable(void)
{
    char path[PATH_MAX];
    struct stat runs, lies;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (length <= 0 || stat("/proc/self/exe", &runs) != 0)
        return trp_fail_errno(TROUPE_IO, "/proc/self/exe does not say which program this is");
    if (stat(path, &lies) != 0 || runs.st_dev != lies.st_dev || runs.st_ino != lies.st_ino)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the program %s was removed or replaced since it was started, and a "
                           "train server would start it again: start the new one",
                           path);
    return TROUPE_OK;
}

troupe_status trp_launch_record_check_rights(void)
{
    if (getauxval(AT_SECURE) != 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "this program has rights that its user has not (AT_SECURE), and a train "
                           "server would start it without them");
    return TROUPE_OK;
}

troupe_status trp_launch_record_check(const void *trainer, const char *name)
{
    Dl_info about;
    struct link_map *object = NULL;
    TROUPE_TRY(trp_launch_record_check_rights());
    if (dladdr1(trainer, &about, (void **)&object, RTLD_DL_LINKMAP) == 0 || object == NULL)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "trainer '%s' is no part of a file that is mapped: a train server could "
                           "not find it again",
                           name);
    if (!is_of_program(object))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "trainer '%s' is part of %s, which was loaded while the program ran: a "
                           "train server starts the program alone",
                           name, about.dli_fname);
    return check_executable();
}

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for how a program is started");
}

// ---- the objects

typedef struct objects {
    trp_arena *arena;
    trp_wire_object *items;
    size_t count, capacity;
    troupe_status status;
} objects;

static void add_object(objects *all, const char *path)
{
    struct stat about;
    if (all->count == all->capacity) {
        size_t capacity = all->capacity > 0 ? 2 * all->capacity : 32;
        trp_wire_object *more = trp_arena_alloc(all->arena, capacity * sizeof *more);
        if (more == NULL) {
            all->status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the files of a program");
            return;
        }
        if (all->count > 0)
            memcpy(more, all->items, all->count * sizeof *more);
        all->items = more;
        all->capacity = capacity;
    }
    char *copy = trp_arena_alloc(all->arena, strlen(path) + 1);
    if (stat(path, &about) != 0)
        all->status = trp_fail_errno(TROUPE_UNSUPPORTED,
                                     "%s, a file of this program, is not there any more", path);
    else if (copy == NULL)
        all->status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the files of a program");
    else
        all->items[all->count++] = (trp_wire_object){
            .path = strcpy(copy, path),
            .device = about.st_dev,
            .inode = about.st_ino,
            .changed_ns = (int64_t)about.st_ctim.tv_sec * 1000000000 + about.st_ctim.tv_nsec,
            .bytes = (uint64_t)about.st_size};
}

static int take_object(struct dl_phdr_info *info, size_t size, void *user)
{
    objects *all = user;
    (void)size;
    if (all->status == TROUPE_OK && info->dlpi_name != NULL && info->dlpi_name[0] == '/')
        add_object(all, info->dlpi_name);
    return all->status != TROUPE_OK;
}

// What is mapped and was replaced is another file than the one of that path.
static troupe_status check_mapped(const objects *all)
{
    static const char gone[] = " (deleted)";
    trp_buffer maps = {0};
    troupe_status status = trp_proc_read("/proc/self/maps", &maps);
    trp_buffer_append(&maps, "", 1);
    char *rest = NULL;
    char *line =
        status == TROUPE_OK && !maps.failed ? strtok_r((char *)maps.data, "\n", &rest) : NULL;
    for (; line != NULL && status == TROUPE_OK; line = strtok_r(NULL, "\n", &rest)) {
        char *path = strchr(line, '/'), *end = path != NULL ? strstr(path, gone) : NULL;
        if (end == NULL || end[sizeof gone - 1] != '\0')
            continue;
        *end = '\0';
        for (size_t i = 0; i < all->count && status == TROUPE_OK; i++)
            if (strcmp(all->items[i].path, path) == 0)
                status = troupe_fail(TROUPE_UNSUPPORTED,
                                     "%s, a file of this program, was replaced since it was "
                                     "started: start the program again",
                                     path);
    }
    trp_buffer_free(&maps);
    return status;
}

static troupe_status take_objects(trp_arena *arena, trp_wire_launch *launch)
{
    objects all = {.arena = arena};
    add_object(&all, launch->program);
    if (all.status == TROUPE_OK)
        (void)dl_iterate_phdr(take_object, &all);
    TROUPE_TRY(all.status);
    launch->objects.items = all.items;
    launch->objects.count = all.count;
    return check_mapped(&all);
}

// ---- what it was started with

// Those of this process alone.
static bool is_left_out(const char *line)
{
    static const char *const names[] = {"TROUPE_LOCAL=",
                                        "TROUPE_TRACE=",
                                        "TROUPE_WORKER=",
                                        "TROUPE_DEBUG_WAIT=",
                                        "TROUPE_JOB=",
                                        "TROUPE_IN_JOB=",
                                        "TROUPE_DEBUG_WAIT_SECONDS="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(line, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static troupe_status take_environment(trp_arena *arena, trp_wire_launch *launch)
{
    size_t count = 0, size = 0;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        count++;
        size += strlen(*at) + 1;
    }
    troupe_text *items = trp_arena_alloc(arena, (count + 1) * sizeof *items);
    char *texts = trp_arena_alloc(arena, size + 1);
    if (items == NULL || texts == NULL)
        return no_memory();
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(environ[i]) + 1;
        if (is_left_out(environ[i]))
            continue;
        items[kept++] = memcpy(texts, environ[i], length);
        texts += length;
    }
    launch->environment.items = items;
    launch->environment.count = kept;
    return TROUPE_OK;
}

static troupe_status take_limits(trp_arena *arena, trp_wire_launch *launch)
{
    size_t count = 0;
    trp_wire_limit *items = trp_arena_alloc(arena, RLIM_NLIMITS * sizeof *items);
    if (items == NULL)
        return no_memory();
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)i, &limit) == 0)
            items[count++] = (trp_wire_limit){i, limit.rlim_cur, limit.rlim_max};
    }
    launch->limits.items = items;
    launch->limits.count = count;
    return TROUPE_OK;
}

// To ask umask(2) is to change it, for other threads too.
static int own_umask(void)
{
    trp_buffer text = {0};
    int mask = 022;
    if (trp_proc_read("/proc/self/status", &text) == TROUPE_OK) {
        trp_buffer_append(&text, "", 1);
        const char *at = text.failed ? NULL : strstr((const char *)text.data, "\nUmask:");
        if (at != NULL)
            mask = (int)strtol(at + strlen("\nUmask:"), NULL, 8);
    }
    trp_buffer_free(&text);
    return mask;
}

static troupe_status take_affinity(trp_arena *arena, trp_wire_launch *launch)
{
    enum { BYTES = 1024 }; // 8,192 CPUs.
    cpu_set_t *set = trp_arena_alloc(arena, BYTES);
    if (set == NULL)
        return no_memory();
    if (sched_getaffinity(0, BYTES, set) == 0)
        launch->affinity = (troupe_bytes){(const unsigned char *)set, BYTES};
    return TROUPE_OK;
}

troupe_status trp_launch_record_make(trp_arena *arena, trp_wire_launch *launch)
{
    trp_own_command own;
    TROUPE_TRY(trp_own_command_find(arena, &own));
    *launch = (trp_wire_launch){.program = own.program,
                                .arguments = own.arguments,
                                .folder = own.folder,
                                .umask = own_umask()};
    errno = 0;
    launch->nice = getpriority(PRIO_PROCESS, 0);
    TROUPE_TRY(take_environment(arena, launch));
    TROUPE_TRY(take_affinity(arena, launch));
    TROUPE_TRY(take_limits(arena, launch));
    return take_objects(arena, launch);
}
