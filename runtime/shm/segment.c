// segment.c: the node's shared-memory segment: making it, mapping it, backing it (see segment.h,
// layout.h).
#include <runtime/shm/segment.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <runtime/base/error.h>
#include <runtime/base/screen.h>
#include <runtime/shm/doorbell.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/segment_guard.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    LAYOUT_VERSION = 9,
    SYSTEM_PAGE = 4096,
    DATA_ALIGNMENT = 2 << 20,
    BACK_STEP = 64 << 20, // A signal undoes and repeats no more than this.
    HUGE_MIN = 256 << 20, // A smaller store has small pages.
    // The file keeps its length, so that nobody can pull pages away from under the others.
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};
static const char magic[8] = "troupe\1";

#define CAPACITY_MAX ((uint64_t)1 << 44)

struct trp_segment trp_segment = {.fd = -1};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

uint64_t trp_segment_processes_at(void)
{
    return round_up(sizeof(trp_header), SYSTEM_PAGE);
}

static trp_plan plan_for(size_t capacity)
{
    trp_plan plan = {.version = LAYOUT_VERSION, .header_size = sizeof(trp_header)};
    memcpy(plan.magic, magic, sizeof magic);
    plan.pages_max = (uint32_t)(capacity / TRP_PAGE_SIZE);
    plan.capacity = (uint64_t)plan.pages_max * TRP_PAGE_SIZE;
    plan.doors_at = round_up(
        trp_segment_processes_at() + TRP_PROCESSES_MAX * sizeof(trp_process_row), SYSTEM_PAGE);
    plan.ledgers_at = round_up(plan.doors_at + TRP_PROCESSES_MAX * sizeof(trp_door), SYSTEM_PAGE);
    plan.objects_at =
        plan.ledgers_at + (uint64_t)TRP_PROCESSES_MAX * TRP_OBJECTS_MAX * sizeof(trp_ledger_cell);
    plan.pages_at = plan.objects_at + (uint64_t)TRP_OBJECTS_MAX * sizeof(trp_object_row);
    plan.blocks_at =
        round_up(plan.pages_at + (uint64_t)plan.pages_max * sizeof(trp_page_row), SYSTEM_PAGE);
    plan.data_at =
        round_up(plan.blocks_at + (uint64_t)plan.pages_max * TRP_PAGE_BLOCKS * sizeof(uint32_t),
                 DATA_ALIGNMENT);
    plan.end_at = plan.data_at + plan.capacity;
    return plan;
}

static bool reserve(uint64_t at, uint64_t size)
{
    bool huge = trp_segment.base != NULL && atomic_load(&trp_segment.header->huge) != 0;
    if (huge && trp_segment_huge_back(at, size))
        return true;
    if (huge && errno != EINVAL) // Else the system is an older one, which cannot.
        return false;
    return fallocate(trp_segment.fd, 0, (off_t)at, (off_t)size) == 0;
}

troupe_status trp_segment_back(uint64_t at, uint64_t size)
{
    uint64_t from = at / SYSTEM_PAGE * SYSTEM_PAGE, to = round_up(at + size, SYSTEM_PAGE);
    while (from < to) {
        uint64_t step = to - from < BACK_STEP ? to - from : BACK_STEP;
        if (reserve(from, step))
            from += step;
        else if (errno != EINTR)
            return troupe_fail(TROUPE_NO_MEMORY,
                               "the system has no memory for %llu more bytes of the store: %s",
                               (unsigned long long)(to - from), strerror(errno));
    }
    return TROUPE_OK;
}

bool trp_segment_unback(uint64_t at, uint64_t size)
{
    return fallocate(trp_segment.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                     (off_t)size) == 0;
}

// Maps the file where pages of 2 MiB can lie.
static void *map_aligned(int fd, size_t size, int protection)
{
    size_t room = size + DATA_ALIGNMENT;
    char *from = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (from == MAP_FAILED)
        return MAP_FAILED;
    char *base = from + (round_up((uintptr_t)from, DATA_ALIGNMENT) - (uintptr_t)from);
    void *mapped = mmap(base, size, protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
    int error = errno;
    if (mapped == MAP_FAILED) {
        (void)munmap(from, room);
    } else {
        if (base > from)
            (void)munmap(from, (size_t)(base - from));
        (void)munmap(base + size, (size_t)(from + room - (base + size)));
    }
    errno = error;
    return mapped;
}

static troupe_status map(int fd, size_t size)
{
    void *base = map_aligned(fd, size, PROT_READ | PROT_WRITE);
    void *read_only = map_aligned(fd, size, PROT_READ);
    if (base == MAP_FAILED || read_only == MAP_FAILED) {
        troupe_status status = trp_fail_errno(
            TROUPE_NO_MEMORY,
            "%zu bytes of address space for the store (.store_bytes_max) could not be mapped",
            size);
        if (base != MAP_FAILED)
            (void)munmap(base, size);
        if (read_only != MAP_FAILED)
            (void)munmap(read_only, size);
        return status;
    }
    // A core file of a worker is about that worker, not a copy of the node's data, twice.
    (void)madvise(base, size, MADV_DONTDUMP);
    (void)madvise(read_only, size, MADV_DONTDUMP);
    trp_segment.fd = fd;
    trp_segment.base = base;
    trp_segment.read_only = read_only;
    trp_segment.header = base;
    trp_segment.size = size;
    trp_screen_share(&trp_segment.header->foot_lines);
    trp_use_allow(true);
    return TROUPE_OK;
}

// The file with its length and its seals. To make a file longer than RLIMIT_FSIZE does not fail, it
// kills; therefore that is asked first.
static troupe_status make_file(uint64_t size, int *made)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
        return troupe_fail(TROUPE_NO_MEMORY,
                           "the store needs a sparse file of %llu bytes; files may have %llu here "
                           "(ulimit -f)",
                           (unsigned long long)size, (unsigned long long)limit.rlim_cur);
    int fd = memfd_create("troupe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        troupe_status status =
            trp_fail_errno(TROUPE_NO_MEMORY, "the store's segment could not be made");
        if (fd >= 0)
            close(fd);
        return status;
    }
    *made = fd;
    return TROUPE_OK;
}

troupe_status trp_segment_create(size_t capacity)
{
    if (trp_segment.header != NULL)
        return troupe_fail(TROUPE_EXISTS, "this process has a segment already");
    if (capacity < TRP_PAGE_SIZE || capacity > CAPACITY_MAX)
        return troupe_fail(TROUPE_INVALID,
                           "a store of %zu bytes was asked for; it takes from %d bytes to 16 TiB",
                           capacity, TRP_PAGE_SIZE);
    trp_plan plan = plan_for(capacity);
    int fd = -1;
    TROUPE_TRY(make_file(plan.end_at, &fd));
    trp_segment.fd = fd;
    troupe_status status = trp_segment_back(0, plan.doors_at + SYSTEM_PAGE); // The first doors.
    if (status == TROUPE_OK)
        status = map(fd, plan.end_at);
    if (status != TROUPE_OK) {
        close(fd);
        trp_segment.fd = -1;
        return status;
    }
    plan.huge = capacity >= HUGE_MIN && trp_segment_huge_allowed();
    memcpy(trp_segment.base, &plan, sizeof plan);
    if (plan.huge != 0)
        trp_segment_huge_ask();
    return TROUPE_OK;
}

// Whether the file cannot be shortened any more; then its length. Files of other kinds (those of
// huge pages can be sealed too) may have holes that kill who reads them.
static bool is_sealed(int fd, uint64_t *size)
{
    struct statfs system;
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS); // Before its length, which may change until then.
    if (seals < 0 || (seals & SEALS) != SEALS || fstatfs(fd, &system) != 0 ||
        (unsigned long)system.f_type != TMPFS_MAGIC || fstat(fd, &about) != 0)
        return false;
    *size = (uint64_t)about.st_size;
    return true;
}

// Reads what the header begins with by pread, which cannot fault whatever the file is.
static troupe_status read_plan(int fd, trp_plan *plan)
{
    struct {
        trp_plan plan;
        uint32_t pages_backed, objects_backed;
    } head;
    uint64_t size;
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return troupe_fail(TROUPE_CORRUPT, "descriptor %d is not a segment: it has no header", fd);
    *plan = head.plan;
    if (memcmp(plan->magic, magic, sizeof magic) != 0)
        return troupe_fail(TROUPE_CORRUPT,
                           "descriptor %d is not a segment: its header begins otherwise", fd);
    if (plan->version != LAYOUT_VERSION || plan->header_size != sizeof(trp_header))
        return troupe_fail(TROUPE_VERSION, "the segment has layout %u, this library knows %d",
                           plan->version, LAYOUT_VERSION);
    if (plan->capacity < TRP_PAGE_SIZE || plan->capacity > CAPACITY_MAX)
        return troupe_fail(TROUPE_CORRUPT, "the segment's header says that it has %llu bytes",
                           (unsigned long long)plan->capacity);
    trp_plan right = plan_for(plan->capacity);
    right.huge = plan->huge;
    if (memcmp(plan, &right, sizeof right) != 0 || head.pages_backed > plan->pages_max ||
        head.objects_backed > TRP_OBJECTS_MAX)
        return troupe_fail(TROUPE_CORRUPT, "the segment's header contradicts itself");
    if (!is_sealed(fd, &size))
        return troupe_fail(TROUPE_CORRUPT, "the segment's file is not sealed, or of another kind");
    if (size != plan->end_at)
        return troupe_fail(TROUPE_CORRUPT, "the segment's file has %llu bytes, expected %llu",
                           (unsigned long long)size, (unsigned long long)plan->end_at);
    return TROUPE_OK;
}

troupe_status trp_segment_attach(int fd)
{
    trp_plan plan;
    TROUPE_TRY(read_plan(fd, &plan));
    if (trp_segment.header != NULL)
        return troupe_fail(TROUPE_EXISTS, "this process has a segment already");
    TROUPE_TRY(map(fd, plan.end_at));
    if (plan.huge != 0)
        trp_segment_huge_ask();
    return TROUPE_OK;
}

troupe_status trp_segment_map_tables(int fd, const char **base, size_t *size, trp_plan *plan)
{
    trp_plan read;
    TROUPE_TRY(read_plan(fd, &read));
    void *tables = mmap(NULL, read.data_at, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (tables == MAP_FAILED)
        return trp_fail_errno(TROUPE_NO_MEMORY, "the tables of a store could not be mapped");
    *base = tables;
    *size = read.data_at;
    *plan = read;
    return TROUPE_OK;
}

void trp_segment_close(void)
{
    trp_use_allow(false);
    trp_use_await();
    trp_screen_share(NULL);
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

trp_node_table *trp_segment_nodes(void)
{
    return &trp_segment.header->nodes;
}

trp_process_row *trp_segment_process(uint32_t slot)
{
    return (trp_process_row *)(void *)(trp_segment.base + trp_segment_processes_at()) + slot;
}
