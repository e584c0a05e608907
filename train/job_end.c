// job_end.c: see train/job_end.h.
#include <errno.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/msgpack.h>
#include <runtime/codec/pack.h>
#include <runtime/codec/unpack.h>
#include <runtime/host/file.h>
#include <string.h>
#include <train/job_end.h>
#include <unistd.h>

enum { VERSION = 1, RESERVED = 4096, ERROR_MAX = 3500 };

static troupe_status open_fresh(const char *folder, trp_path *path, int *fd)
{
    TROUPE_TRY(trp_path_make(path, "%s/end.new", folder));
    *fd = open(path->text, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *fd >= 0 ? TROUPE_OK : trp_fail_errno(TROUPE_IO, "%s cannot be made", path->text);
}

troupe_status trp_job_end_reserve(const char *folder)
{
    trp_path path;
    int fd;
    TROUPE_TRY(open_fresh(folder, &path, &fd));
    errno = posix_fallocate(fd, 0, RESERVED);
    troupe_status status =
        errno == 0 ? TROUPE_OK
                   : trp_fail_errno(TROUPE_IO, "no blocks can be reserved for %s", path.text);
    close(fd);
    return status;
}

static troupe_status write_whole(int fd, const char *path, const trp_buffer *bytes)
{
    for (size_t done = 0; done < bytes->size;) {
        ssize_t got = pwrite(fd, bytes->data + done, bytes->size - done, (off_t)done);
        if (got < 0 && errno != EINTR)
            return trp_fail_errno(TROUPE_IO, "%s cannot be written", path);
        done += got > 0 ? (size_t)got : 0;
    }
    if (ftruncate(fd, (off_t)bytes->size) != 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be cut", path);
    return trp_file_sync(fd, path);
}

static troupe_status write_fresh(const char *folder, const trp_buffer *bytes, trp_path *path)
{
    int fd;
    TROUPE_TRY(open_fresh(folder, path, &fd));
    troupe_status status = write_whole(fd, path->text, bytes);
    close(fd);
    return status;
}

troupe_status trp_job_end_write(const char *folder, const trp_job_end *end)
{
    char error[ERROR_MAX + 1] = "";
    trp_job_end cut = *end;
    trp_buffer bytes = {0};
    trp_path fresh, path;
    cut.version = VERSION;
    if (end->error != NULL) {
        size_t length = strnlen(end->error, ERROR_MAX);
        memcpy(error, end->error, length);
        error[trp_text_good(error, length)] = '\0';
    }
    cut.error = error;
    TROUPE_TRY(trp_path_make(&path, "%s/end", folder));
    troupe_status status = trp_pack(&troupe_type_trp_job_end, &cut, &bytes);
    if (status == TROUPE_OK && bytes.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for %s", path.text);
    if (status == TROUPE_OK)
        status = write_fresh(folder, &bytes, &fresh);
    trp_buffer_free(&bytes);
    return status == TROUPE_OK ? trp_folder_rename(fresh.text, path.text) : status;
}

troupe_status trp_job_end_read(const char *folder, trp_arena *arena, trp_job_end *end)
{
    trp_path path;
    unsigned char *data;
    size_t size;
    TROUPE_TRY(trp_path_make(&path, "%s/end", folder));
    TROUPE_TRY(trp_file_read(path.text, &data, &size));
    trp_job_end found;
    troupe_status status = trp_unpack_whole(&troupe_type_trp_job_end, data, size, arena, &found);
    trp_free(data);
    if (status == TROUPE_MALFORMED)
        return troupe_fail(TROUPE_CORRUPT, "%s is not how a job ended", path.text);
    TROUPE_TRY(status);
    if (found.version > VERSION)
        return troupe_fail(TROUPE_VERSION, "%s has version %d: expected at most %d", path.text,
                           found.version, (int)VERSION);
    *end = found;
    return TROUPE_OK;
}
