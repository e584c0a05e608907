// own_command.c: see own_command.h.
#include <runtime/host/own_command.h>

#include <fcntl.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <string.h>
#include <unistd.h>

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for how a program is started");
}

troupe_status trp_proc_read(const char *path, trp_buffer *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? 1 : -1;
    while (got > 0 && trp_buffer_reserve(out, 4096)) {
        got = read(fd, out->data + out->size, 4096);
        out->size += got > 0 ? (size_t)got : 0;
    }
    troupe_status status = got < 0 ? trp_fail_errno(TROUPE_IO, "%s cannot be read", path)
                                   : (out->failed ? no_memory() : TROUPE_OK);
    if (fd >= 0)
        close(fd);
    return status;
}

static troupe_status take_arguments(trp_arena *arena, trp_own_command *own)
{
    trp_buffer line = {0};
    size_t count = 0;
    troupe_status status = trp_proc_read("/proc/self/cmdline", &line);
    trp_buffer_append(&line, "", 1);
    char *copy = status == TROUPE_OK && !line.failed ? trp_arena_alloc(arena, line.size) : NULL;
    if (copy != NULL)
        memcpy(copy, line.data, line.size);
    size_t size = line.size - 1; // Without the end that was added.
    trp_buffer_free(&line);
    TROUPE_TRY(status);
    if (copy == NULL)
        return no_memory();
    for (size_t at = 0; at < size; at += strlen(copy + at) + 1)
        count++;
    troupe_text *items = trp_arena_alloc(arena, (count + 1) * sizeof *items);
    if (items == NULL)
        return no_memory();
    count = 0;
    for (size_t at = 0; at < size; at += strlen(copy + at) + 1)
        items[count++] = copy + at;
    own->arguments.items = items;
    own->arguments.count = count;
    return TROUPE_OK;
}

static troupe_status keep(trp_arena *arena, const char *path, troupe_text *kept)
{
    char *copy = trp_arena_alloc(arena, strlen(path) + 1);
    if (copy == NULL)
        return no_memory();
    *kept = strcpy(copy, path);
    return TROUPE_OK;
}

troupe_status trp_own_command_find(trp_arena *arena, trp_own_command *own)
{
    char path[PATH_MAX];
    *own = (trp_own_command){0};
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return trp_fail_errno(TROUPE_IO, "/proc/self/exe does not say which program this is");
    path[length] = '\0';
    TROUPE_TRY(keep(arena, path, &own->program));
    if (getcwd(path, sizeof path) == NULL)
        return trp_fail_errno(TROUPE_IO, "cannot tell which folder this is");
    TROUPE_TRY(keep(arena, path, &own->folder));
    return take_arguments(arena, own);
}
