// mapping.c: see mapping.h.
#include <models/mapping.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static trp_file_stamp stamp_of(const struct stat *about)
{
    return (trp_file_stamp){about->st_size,
                            (int64_t)about->st_mtim.tv_sec * 1000000000 + about->st_mtim.tv_nsec};
}

static troupe_status map(int fd, trp_mapping *mapping)
{
    struct stat about;
    if (fstat(fd, &about))
        return trp_fail_errno(TROUPE_IO, "cannot read %s", mapping->path);
    if (!S_ISREG(about.st_mode))
        return troupe_fail(TROUPE_INVALID, "%s is not a file", mapping->path);
    if (about.st_size == 0)
        return troupe_fail(TROUPE_INVALID, "%s is empty", mapping->path);
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return trp_fail_errno(TROUPE_IO, "cannot map %s", mapping->path);
    mapping->bytes = (const unsigned char *)bytes;
    mapping->stamp = stamp_of(&about);
    return TROUPE_OK;
}

troupe_status trp_mapping_open(const char *path, trp_mapping *mapping)
{
    trp_mapping made = {.path = path};
    // A pipe is refused, and not waited for.
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT || errno == ENOTDIR ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "cannot open %s", path);
    troupe_status status = map(fd, &made);
    if (status != TROUPE_OK) {
        close(fd);
        return status;
    }
    made.fd = fd;
    *mapping = made;
    return TROUPE_OK;
}

troupe_status trp_mapping_check(const trp_mapping *mapping, const trp_file_stamp *then)
{
    struct stat about;
    if (fstat(mapping->fd, &about))
        return trp_fail_errno(TROUPE_IO, "cannot read %s", mapping->path);
    trp_file_stamp now = stamp_of(&about);
    if (now.bytes != then->bytes)
        return troupe_fail(TROUPE_CORRUPT,
                           "%s has changed since it was named: it has %" PRId64
                           " bytes, where it had %" PRId64,
                           mapping->path, now.bytes, then->bytes);
    if (now.changed_ns != then->changed_ns)
        return troupe_fail(TROUPE_CORRUPT, "%s has changed since it was named: it was written to",
                           mapping->path);
    return TROUPE_OK;
}

void trp_mapping_close(trp_mapping *mapping)
{
    if (!mapping->bytes)
        return;
    munmap((void *)(uintptr_t)mapping->bytes, (size_t)mapping->stamp.bytes);
    close(mapping->fd);
    *mapping = (trp_mapping){0};
}
