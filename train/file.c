// file.c: open, write, fsync, rename and unlink with every result looked at. No stdio: it says that
// all is well on a full disk.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/host/folder.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <train/file.h>
#include <unistd.h>

void (*trp_file_probe)(const char *step);

static void probe(const char *step)
{
    if (trp_file_probe)
        trp_file_probe(step);
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

static troupe_status write_all(int fd, const char *path, const void *data, size_t size)
{
    const char *at = (const char *)data;
    while (size > 0) {
        ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return trp_fail_errno(TROUPE_IO, "cannot write %s", path);
        at += written;
        size -= (size_t)written;
    }
    return TROUPE_OK;
}

troupe_status trp_file_write(const char *path, const trp_piece *pieces, size_t count)
{
    probe("open");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot make %s", path);
    troupe_status status = TROUPE_OK;
    for (size_t i = 0; i < count && status == TROUPE_OK; i++) {
        probe("write");
        status = write_all(fd, path, pieces[i].data, pieces[i].size);
    }
    probe("fsync");
    if (status == TROUPE_OK && fsync(fd))
        status = trp_fail_errno(TROUPE_IO, "cannot sync %s", path);
    if (close(fd) && status == TROUPE_OK)
        status = trp_fail_errno(TROUPE_IO, "cannot close %s", path);
    if (status != TROUPE_OK)
        (void)unlink(path);
    return status;
}

troupe_status trp_file_replace(const char *path, const void *data, size_t size)
{
    trp_path made, folder;
    const char *name = strrchr(path, '/');
    const trp_piece piece = {data, size};
    TROUPE_TRY(trp_path_make(&made, "%s.new", path));
    TROUPE_TRY(trp_path_make(&folder, "%.*s", name != NULL ? (int)(name - path) : 1,
                             name != NULL ? path : "."));
    TROUPE_TRY(trp_file_write(made.text, &piece, 1));
    troupe_status status = trp_folder_rename(made.text, path);
    if (status != TROUPE_OK) {
        (void)unlink(made.text);
        return status;
    }
    return trp_folder_sync(folder.text);
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

bool trp_file_plain_open;

// Opens what lies in that folder and nowhere else, whatever links are there.
static int open_beneath(int folder, const char *name)
{
    static atomic_bool said;
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    int fd = -1;
    if (trp_file_plain_open)
        errno = ENOSYS;
    else
        fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    if (!atomic_exchange(&said, true))
        trp_log(TRP_INFO, "this system has no openat2: files of checkpoints are opened without it, "
                          "and links are refused");
    return openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
}

// A pipe in place of a file is opened too, without waiting, to be refused.
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
    int fd = open_beneath(folder, name != NULL ? name + 1 : path), error = errno;
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
    probe("mkdir");
    if (mkdir(path, trp_folder_mode()) == 0)
        return TROUPE_OK;
    return trp_fail_errno(errno == EEXIST ? TROUPE_EXISTS : TROUPE_IO, "cannot make the folder %s",
                          path);
}

troupe_status trp_folder_make(const char *path)
{
    trp_path part;
    TROUPE_TRY(trp_path_make(&part, "%s", path));
    for (char *at = part.text + 1;; at++) {
        char ended = *at;
        if (ended != '/' && ended != '\0')
            continue;
        *at = '\0';
        if (mkdir(part.text, trp_folder_mode()) && errno != EEXIST)
            return trp_fail_errno(TROUPE_IO, "cannot make the folder %s", part.text);
        *at = ended;
        if (ended == '\0')
            break;
    }
    struct stat about;
    if (stat(path, &about))
        return trp_fail_errno(TROUPE_IO, "cannot use the folder %s", path);
    if (!S_ISDIR(about.st_mode))
        return troupe_fail(TROUPE_IO, "%s is not a folder", path);
    return TROUPE_OK;
}

troupe_status trp_folder_sync(const char *path)
{
    probe("fsync folder");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", path);
    int result = fsync(fd);
    int error = errno;
    close(fd);
    errno = error;
    if (result)
        return trp_fail_errno(TROUPE_IO, "cannot sync the folder %s", path);
    return TROUPE_OK;
}

troupe_status trp_folder_rename(const char *from, const char *to)
{
    probe("rename");
    if (rename(from, to))
        return trp_fail_errno(TROUPE_IO, "cannot rename %s to %s", from, to);
    return TROUPE_OK;
}

// A link alone: what it leads to is somebody else's.
static bool remove_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode) && unlink(path) == 0;
}

troupe_status trp_folder_discard(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    int error = errno;
    if (!folder && fd >= 0)
        close(fd);
    if (!folder && fd < 0 && remove_link(path))
        return TROUPE_OK;
    errno = error;
    if (!folder)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", path);
    bool whole = true;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        probe("unlink");
        whole = unlinkat(dirfd(folder), entry->d_name, 0) == 0 && whole;
    }
    closedir(folder);
    probe("rmdir");
    if (rmdir(path))
        return trp_fail_errno(TROUPE_IO, "cannot remove the folder %s%s", path,
                              whole ? "" : " with all its files");
    return TROUPE_OK;
}
