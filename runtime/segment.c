// segment.c: the node's shared-memory segment: making it, mapping it, backing it (see segment.h,
// layout.h).
#include <runtime/segment.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/error.h>
#include <runtime/layout.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAYOUT_VERSION = 1, SYSTEM_PAGE = 4096 };
static const char magic[8] = "troupe\1";

struct trp_segment trp_segment = {.fd = -1};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint64_t processes_at(void)
{
    return round_up(sizeof(trp_header), SYSTEM_PAGE);
}

static trp_header plan(size_t capacity)
{
    trp_header header = {.version = LAYOUT_VERSION, .header_size = sizeof header};
    memcpy(header.magic, magic, sizeof magic);
    header.pages_max =
        (uint32_t)(capacity / TRP_PAGE_SIZE < UINT32_MAX / 2 ? capacity / TRP_PAGE_SIZE
                                                             : UINT32_MAX / 2);
    header.capacity = (uint64_t)header.pages_max * TRP_PAGE_SIZE;
    header.ledgers_at =
        round_up(processes_at() + TRP_PROCESSES_MAX * sizeof(trp_process_row), SYSTEM_PAGE);
    header.objects_at =
        header.ledgers_at + (uint64_t)TRP_PROCESSES_MAX * TRP_OBJECTS_MAX * sizeof(uint16_t);
    header.owners_at = header.objects_at + (uint64_t)TRP_OBJECTS_MAX * sizeof(trp_object_row);
    header.blocks_at =
        round_up(header.owners_at + (uint64_t)header.pages_max * sizeof(uint32_t), SYSTEM_PAGE);
    header.data_at =
        round_up(header.blocks_at + (uint64_t)header.pages_max * TRP_BLOCKS_SIZE, TRP_PAGE_SIZE);
    header.end_at = header.data_at + header.capacity;
    return header;
}

troupe_status trp_segment_back(uint64_t at, uint64_t size)
{
    uint64_t from = at / SYSTEM_PAGE * SYSTEM_PAGE, to = round_up(at + size, SYSTEM_PAGE);
    int failed;
    do
        failed = fallocate(trp_segment.fd, 0, (off_t)from, (off_t)(to - from)) == 0 ? 0 : errno;
    while (failed == EINTR);
    if (failed == 0)
        return TROUPE_OK;
    return troupe_fail(TROUPE_NO_MEMORY,
                       "the system has no memory for %llu more bytes of the store: %s",
                       (unsigned long long)(to - from), strerror(failed));
}

static troupe_status map(int fd, size_t size)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    void *read_only = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED || read_only == MAP_FAILED) {
        troupe_status status = trp_fail_errno(
            TROUPE_NO_MEMORY, "%zu bytes of address space for the store could not be mapped", size);
        if (base != MAP_FAILED)
            (void)munmap(base, size);
        if (read_only != MAP_FAILED)
            (void)munmap(read_only, size);
        return status;
    }
    trp_segment.fd = fd;
    trp_segment.base = base;
    trp_segment.read_only = read_only;
    trp_segment.header = base;
    trp_segment.size = size;
    return TROUPE_OK;
}

troupe_status trp_segment_create(size_t capacity)
{
    trp_header header = plan(capacity);
    int fd = memfd_create("troupe", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)header.end_at) != 0) {
        troupe_status status =
            trp_fail_errno(TROUPE_NO_MEMORY, "the store's segment could not be made");
        if (fd >= 0)
            close(fd);
        return status;
    }
    trp_segment.fd = fd;
    troupe_status status = trp_segment_back(0, header.ledgers_at);
    if (status == TROUPE_OK)
        status = map(fd, header.end_at);
    if (status != TROUPE_OK) {
        close(fd);
        trp_segment.fd = -1;
        return status;
    }
    memcpy(trp_segment.base, &header, sizeof header);
    return TROUPE_OK;
}

troupe_status trp_segment_attach(int fd)
{
    trp_header header;
    struct stat about;
    if (fstat(fd, &about) != 0 || pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return troupe_fail(TROUPE_CORRUPT, "descriptor %d is no segment: it has no header", fd);
    if (memcmp(header.magic, magic, sizeof magic) != 0)
        return troupe_fail(TROUPE_CORRUPT,
                           "descriptor %d is no segment: its header begins otherwise", fd);
    if (header.version != LAYOUT_VERSION || header.header_size != sizeof header)
        return troupe_fail(TROUPE_VERSION, "the segment has layout %u, this library knows %d",
                           header.version, LAYOUT_VERSION);
    trp_header planned = plan(header.capacity);
    if (planned.end_at != header.end_at || planned.data_at != header.data_at ||
        (uint64_t)about.st_size < header.end_at)
        return troupe_fail(TROUPE_CORRUPT, "the segment's header contradicts itself");
    return map(fd, header.end_at);
}

void trp_segment_close(void)
{
    if (trp_segment.base != NULL) {
        (void)munmap(trp_segment.base, trp_segment.size);
        (void)munmap((void *)(uintptr_t)trp_segment.read_only, trp_segment.size);
    }
    if (trp_segment.fd >= 0)
        close(trp_segment.fd);
    trp_segment = (struct trp_segment){.fd = -1};
}

int trp_segment_fd(void)
{
    return trp_segment.fd;
}

trp_process_row *trp_segment_process(uint32_t slot)
{
    return (trp_process_row *)(void *)(trp_segment.base + processes_at()) + slot;
}

_Atomic uint32_t *trp_segment_deaths(void)
{
    return &trp_segment.header->deaths;
}
