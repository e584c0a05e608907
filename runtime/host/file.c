// file.c: open, write, fsync, rename and unlink with every result looked at. No stdio: it says that
// all is well on a full disk.
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <runtime/host/folder.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
// The code itself: a library more is five mappings more that each fork copies.
#define XXH_INLINE_ALL
#define XXH_NO_INLINE_HINTS 1 // Else it cannot be compiled for a debugger.
#include <xxhash.h>

_Atomic(trp_file_hook) trp_file_probe;

bool trp_file_refuses(const char *step)
{
    trp_file_hook hook = atomic_load(&trp_file_probe);
    int code = hook ? hook(step) : 0;
    if (code)
        errno = code;
    return code != 0;
}

troupe_status trp_path_make(trp_path *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path->text, sizeof(path->text), format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof(path->text))
        return troupe_fail(TROUPE_TOO_LARGE, "the path %.100s... is longer than %zu bytes",
                           path->text, sizeof(path->text) - 1);
    return TROUPE_OK;
}

troupe_status trp_path_join(trp_path *path, const char *folder, const char *name)
{
    size_t above = strlen(folder), size = strlen(name) + 1;
    if (above + 1 + size > sizeof path->text)
        return trp_path_make(path, "%s/%s", folder, name); // Which says so.
    memcpy(path->text, folder, above);
    path->text[above] = '/';
    memcpy(path->text + above + 1, name, size);
    return TROUPE_OK;
}

void trp_path_trim(trp_path *path)
{
    size_t length = strlen(path->text);
    while (length > 1 && path->text[length - 1] == '/')
        path->text[--length] = '\0';
}

size_t trp_path_scheme(const char *path)
{
    size_t size = path[0] >= 'a' && path[0] <= 'z' ? strspn(path, TRP_SCHEME_CHARACTERS) : 0;
    return path[size] == ':' ? size : 0;
}

bool trp_path_is_local(const char *path)
{
    size_t size = trp_path_scheme(path);
    return size == 0 || strncmp(path, "file:", size + 1) == 0;
}

const char *trp_path_local(const char *path)
{
    size_t size = trp_path_scheme(path);
    return size > 0 && trp_path_is_local(path) ? path + size + 1 : path;
}

static troupe_status write_all(int fd, const char *path, const void *data, size_t size)
{
    const char *at = (const char *)data;
    while (size > 0) {
        ssize_t written = trp_file_refuses("write") ? -1 : write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return trp_fail_errno(TROUPE_IO, "cannot write %s", path);
        at += written;
        size -= (size_t)written;
    }
    return TROUPE_OK;
}

// `how`: O_TRUNC or O_EXCL.
static troupe_status write_file(const char *path, int how, const trp_piece *pieces, size_t count,
                                bool sync)
{
    int fd = -1;
    if (!trp_file_refuses("open"))
        fd = open(path, O_WRONLY | O_CREAT | how | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (fd < 0)
        return trp_fail_errno(errno == EEXIST ? TROUPE_EXISTS : TROUPE_IO, "cannot make %s", path);
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < count && status == TROUPE_OK; i++)
        status = write_all(fd, path, pieces[i].data, pieces[i].size);
    if (status == TROUPE_OK && sync)
        status = trp_file_sync(fd, path);
    if (close(fd) && status == TROUPE_OK)
        status = trp_fail_errno(TROUPE_IO, "cannot close %s", path);
    if (status != TROUPE_OK) {
        troupe_error kept;
        trp_error_hold(&kept);
        if (!trp_file_refuses("unlink"))
            (void)unlink(path);
        trp_error_restore(&kept);
    }
    return status;
}

troupe_status trp_file_write(const char *path, const trp_piece *pieces, size_t count)
{
    return write_file(path, O_TRUNC, pieces, count, true);
}

troupe_status trp_file_write_unsynced(const char *path, const trp_piece *pieces, size_t count)
{
    return write_file(path, O_TRUNC, pieces, count, false);
}

static troupe_status replace_file(const char *path, const trp_piece *pieces, size_t count,
                                  bool sync)
{
    trp_path made, folder;
    const char *name = strrchr(path, '/');
    TROUPE_TRY(trp_path_make(&made, "%s.new", path));
    TROUPE_TRY(trp_path_make(&folder, "%.*s", name != NULL ? (int)(name - path) : 1,
                             name != NULL ? path : "."));
    TROUPE_TRY(write_file(made.text, O_TRUNC, pieces, count, sync));
    troupe_status status = trp_folder_rename(made.text, path);
    if (status != TROUPE_OK) {
        (void)unlink(made.text);
        return status;
    }
    return sync ? trp_folder_sync(folder.text) : TROUPE_OK;
}

troupe_status trp_file_replace_by(const char *path, const trp_piece *pieces, size_t count)
{
    return replace_file(path, pieces, count, true);
}

troupe_status trp_file_replace_unsynced(const char *path, const void *data, size_t size)
{
    return replace_file(path, &(trp_piece){data, size}, 1, false);
}

troupe_status trp_file_make(const char *path, const void *data, size_t size)
{
    return write_file(path, O_EXCL, &(trp_piece){data, size}, 1, false);
}

troupe_status trp_file_replace(const char *path, const void *data, size_t size)
{
    return trp_file_replace_by(path, &(trp_piece){data, size}, 1);
}

troupe_status trp_file_append(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", path);
    troupe_status status = write_all(fd, path, data, size);
    if (close(fd) && status == TROUPE_OK)
        status = trp_fail_errno(TROUPE_IO, "cannot close %s", path);
    return status;
}

static troupe_status read_all(int fd, const char *path, unsigned char *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, data + at, size - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return trp_fail_errno(TROUPE_IO, "cannot read %s", path);
        if (got == 0)
            return troupe_fail(TROUPE_CORRUPT, "%s became shorter while it was read", path);
        at += (size_t)got;
    }
    return TROUPE_OK;
}

uint64_t trp_digest(const void *data, size_t size)
{
    return XXH64(data, size, 0);
}

troupe_status trp_file_digest(int fd, const char *path, uint64_t *size, uint64_t *digest)
{
    enum { STEP = 256 << 10 };
    XXH64_state_t sum;
    (void)XXH64_reset(&sum, 0);
    unsigned char *piece = (unsigned char *)trp_alloc(STEP);
    if (!piece)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to read %s", path);
    troupe_status status = TROUPE_OK;
    off_t at = 0;
    for (ssize_t got; (got = pread(fd, piece, STEP, at)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = trp_fail_errno(TROUPE_IO, "cannot read %s", path);
            break;
        }
        (void)XXH64_update(&sum, piece, (size_t)got);
        at += got;
    }
    trp_free(piece);
    if (status == TROUPE_OK) {
        *size = (uint64_t)at;
        *digest = XXH64_digest(&sum);
    }
    return status;
}

troupe_status trp_file_sync(int fd, const char *path)
{
    if (trp_file_refuses("fsync") || fsync(fd))
        return trp_fail_errno(TROUPE_IO, "cannot sync %s", path);
    return TROUPE_OK;
}

bool trp_file_plain_open;

// Without openat2: part by part, and through no link.
static int open_plainly(int folder, const char *path)
{
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
        trp_log(TRP_INFO, "this system has no openat2: files of checkpoints are opened without it, "
                          "and links are refused");
    int at = folder;
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        char part[NAME_MAX + 1];
        int length = snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        int next = -1;
        if (length < 0 || (size_t)length >= sizeof(part))
            errno = ENAMETOOLONG;
        else if (strcmp(part, "..") == 0)
            errno = EXDEV;
        else
            next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        if (at != folder)
            close(at);
        errno = error;
        if (next < 0)
            return -1;
        at = next;
    }
    int fd = openat(at, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC), error = errno;
    if (at != folder)
        close(at);
    errno = error;
    return fd;
}

int trp_file_open_beneath(int folder, const char *path)
{
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    int fd = -1;
    if (trp_file_plain_open)
        errno = ENOSYS;
    else
        fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    return open_plainly(folder, path);
}

static int open_to_read(const char *path)
{
    trp_path parent;
    const char *name = strrchr(path, '/');
    if (trp_path_make(&parent, "%.*s", name != NULL ? (int)(name - path) : 1,
                      name != NULL ? path : ".") != TROUPE_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int folder = open(name == path ? "/" : parent.text, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    int fd = trp_file_open_beneath(folder, name != NULL ? name + 1 : path), error = errno;
    close(folder);
    errno = error;
    return fd;
}

troupe_status trp_file_read(const char *path, unsigned char **data, size_t *size)
{
    int fd = open_to_read(path);
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT || errno == ENOTDIR ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "cannot open %s", path);
    struct stat about;
    troupe_status status = TROUPE_OK;
    unsigned char *bytes = NULL;
    if (fstat(fd, &about))
        status = trp_fail_errno(TROUPE_IO, "cannot read %s", path);
    else if (!S_ISREG(about.st_mode))
        status = troupe_fail(TROUPE_CORRUPT, "%s is not a file", path);
    else if (!(bytes = (unsigned char *)trp_alloc((size_t)about.st_size + 1)))
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the %lld bytes of %s",
                             (long long)about.st_size, path);
    else
        status = read_all(fd, path, bytes, (size_t)about.st_size);
    close(fd);
    if (status != TROUPE_OK) {
        trp_free(bytes);
        return status;
    }
    *data = bytes;
    *size = (size_t)about.st_size;
    return TROUPE_OK;
}

troupe_status trp_folder_make_new(const char *path)
{
    if (!trp_file_refuses("mkdir") && mkdir(path, trp_folder_mode()) == 0)
        return TROUPE_OK;
    return trp_fail_errno(errno == EEXIST ? TROUPE_EXISTS : TROUPE_IO, "cannot make the folder %s",
                          path);
}

// Makes the folders above it, and it.
static troupe_status make_all(trp_path part)
{
    for (char *at = part.text + 1;; at++) {
        char ended = *at;
        if (ended != '/' && ended != '\0')
            continue;
        *at = '\0';
        if (mkdir(part.text, trp_folder_mode()) && errno != EEXIST)
            return trp_fail_errno(TROUPE_IO, "cannot make the folder %s", part.text);
        *at = ended;
        if (ended == '\0')
            return TROUPE_OK;
    }
}

troupe_status trp_folder_make(const char *path)
{
    trp_path whole;
    struct stat about;
    TROUPE_TRY(trp_path_make(&whole, "%s", path));
    if (mkdir(whole.text, trp_folder_mode()) == 0)
        return TROUPE_OK;
    if (errno != EEXIST) // Most often those above it are there.
        TROUPE_TRY(make_all(whole));
    if (stat(path, &about))
        return trp_fail_errno(TROUPE_IO, "cannot use the folder %s", path);
    if (!S_ISDIR(about.st_mode))
        return troupe_fail(TROUPE_IO, "%s is not a folder", path);
    return TROUPE_OK;
}

troupe_status trp_folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", path);
    int result = trp_file_refuses("fsync folder") ? -1 : fsync(fd);
    int error = errno;
    close(fd);
    errno = error;
    if (result)
        return trp_fail_errno(TROUPE_IO, "cannot sync the folder %s", path);
    return TROUPE_OK;
}

troupe_status trp_folder_rename(const char *from, const char *to)
{
    if (trp_file_refuses("rename") || rename(from, to))
        return trp_fail_errno(TROUPE_IO, "cannot rename %s to %s", from, to);
    return TROUPE_OK;
}
