// segment.c: makes, maps and backs the node's shared memory.
//
// The memfd is sealed against shrinking and growing, so no process can pull pages away from under the
// others. It is mapped once as a whole, writable, and its data a second time read-only: views
// point into the second mapping, so that a write through one faults.
#include <runtime/segment.h>

#include <runtime/error.h>
#include <runtime/segment_layout.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x31676573706f7254) // "Tropseg1" as bytes

enum {
    VERSION = 1,
    ALIGNMENT = 4096,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    BACK_STEP = 64 << 20, // A signal undoes and repeats no more than this.
};

#define CAPACITY_MAX ((size_t)1 << 44)
#define DATA_ALIGNMENT ((size_t)2 << 20)

trp_segment_map trp_segment = {.fd = -1};

// ---- layout

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

// Takes `size` bytes of the file at *end; returns their offset.
static size_t place(size_t *end, size_t size)
{
    size_t start = *end;
    *end = start + round_up(size, ALIGNMENT);
    return start;
}

typedef struct layout {
    size_t processes, extents, pages, objects, ledger_flags, blocks, ledger, data, size;
    uint32_t page_count, slot_count;
} layout;

static layout layout_of(size_t capacity)
{
    layout at = {.page_count = (uint32_t)(capacity / TRP_PAGE_SIZE)};
    // A slot for each KiB: objects of 64 bytes run out of slots before they run out of space only in
    // segments whose space is small anyway.
    size_t slots = round_up(capacity / 1024, TRP_SLOT_CHUNK);
    at.slot_count = slots < 65536 ? 65536 : slots > TRP_SLOTS_MAX ? TRP_SLOTS_MAX : (uint32_t)slots;
    size_t end = ALIGNMENT;
    at.processes = place(&end, TRP_PROCESSES_MAX * sizeof(trp_process_row));
    at.extents = place(&end, (at.page_count + TRP_EXTENT_PAGES - 1) / TRP_EXTENT_PAGES);
    at.pages = place(&end, at.page_count * sizeof(trp_page_row));
    at.objects = place(&end, at.slot_count * sizeof(trp_object_row));
    at.ledger_flags = place(&end, (size_t)at.slot_count / TRP_SLOT_CHUNK * TRP_LEDGER_GROUPS);
    at.blocks = place(&end, (size_t)at.page_count * TRP_PAGE_BLOCKS * sizeof(uint32_t));
    at.ledger = place(&end, (size_t)at.slot_count * TRP_PROCESSES_MAX * sizeof(uint32_t));
    at.data = end = round_up(end, DATA_ALIGNMENT);
    at.size = at.data + capacity;
    return at;
}

// ---- mapping

static troupe_status map(int fd, const layout *at)
{
    unsigned char *base =
        mmap(NULL, at->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return trp_fail_errno(TROUPE_NO_MEMORY, "cannot map %zu bytes of address space for the store",
                              at->size);
    size_t data_size = at->size - at->data;
    void *view = mmap(NULL, data_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, (off_t)at->data);
    if (view == MAP_FAILED) {
        troupe_status status = trp_fail_errno(
            TROUPE_NO_MEMORY, "cannot map %zu bytes of address space for reading the store", data_size);
        (void)munmap(base, at->size);
        return status;
    }
    // A core file of a worker is about that worker, not a copy of all data of the node, twice.
    (void)madvise(base, at->size, MADV_DONTDUMP);
    (void)madvise(view, data_size, MADV_DONTDUMP);
    trp_segment = (trp_segment_map){
        .fd = fd,
        .header = (trp_segment_header *)base,
        .processes = (trp_process_row *)(base + at->processes),
        .extents = (_Atomic uint8_t *)(base + at->extents),
        .pages = (trp_page_row *)(base + at->pages),
        .objects = (trp_object_row *)(base + at->objects),
        .ledger_flags = (_Atomic uint8_t *)(base + at->ledger_flags),
        .blocks = (_Atomic uint32_t *)(base + at->blocks),
        .ledger = (_Atomic uint32_t *)(base + at->ledger),
        .data = base + at->data,
        .view = view,
        .page_count = at->page_count,
        .slot_count = at->slot_count,
        .size = at->size,
        .data_offset = at->data,
    };
    return TROUPE_OK;
}

static void unmap(void)
{
    (void)munmap((void *)(uintptr_t)trp_segment.view, trp_segment.size - trp_segment.data_offset);
    (void)munmap(trp_segment.header, trp_segment.size);
    trp_segment = (trp_segment_map){.fd = -1};
}

// ---- backing

static troupe_status back(int fd, off_t start, off_t end)
{
    while (start < end) {
        off_t size = end - start < BACK_STEP ? end - start : BACK_STEP;
        if (fallocate(fd, 0, start, size) == 0)
            start += size;
        else if (errno == ENOSPC || errno == ENOMEM)
            return troupe_fail(TROUPE_NO_MEMORY,
                               "the system has no memory for %lld more bytes of the store: %s",
                               (long long)size, strerror(errno));
        else if (errno != EINTR)
            return trp_fail_errno(TROUPE_NO_MEMORY, "cannot reserve memory for the store");
    }
    return TROUPE_OK;
}

static off_t offset_of(const volatile void *address)
{
    return (off_t)((const volatile unsigned char *)address -
                   (const volatile unsigned char *)trp_segment.header);
}

troupe_status trp_segment_back(const volatile void *start, size_t size)
{
    off_t first = offset_of(start);
    return back(trp_segment.fd, first & ~(off_t)(ALIGNMENT - 1),
                (off_t)round_up((size_t)first + size, ALIGNMENT));
}

void trp_segment_unback(const volatile void *start, size_t size)
{
    (void)fallocate(trp_segment.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_of(start),
                    (off_t)size);
}

// ---- making and joining

static troupe_status check_capacity(size_t capacity)
{
    if (trp_segment.header != NULL)
        return troupe_fail(TROUPE_EXISTS, "this process has a segment already");
    if (capacity < TRP_PAGE_SIZE || capacity > CAPACITY_MAX)
        return troupe_fail(TROUPE_INVALID,
                           "a store of %zu bytes was asked for; it takes from %d bytes to 16 TiB",
                           capacity, TRP_PAGE_SIZE);
    return TROUPE_OK;
}

// Lengthening a file beyond the limit does not fail, it kills.
static troupe_status check_file_limit(size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < size)
        return troupe_fail(TROUPE_NO_MEMORY,
                           "the store needs a (sparse) file of %zu bytes and the limit of file sizes "
                           "is %llu (ulimit -f)",
                           size, (unsigned long long)limit.rlim_cur);
    return TROUPE_OK;
}

// The file with its length, its seals and what is backed from the start.
static troupe_status make_file(const layout *at, int *made)
{
    TROUPE_TRY(check_file_limit(at->size));
    int fd = memfd_create("troupe-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot make the file of the store (memfd_create)");
    troupe_status status = TROUPE_OK;
    if (ftruncate(fd, (off_t)at->size) != 0)
        status = trp_fail_errno(TROUPE_NO_MEMORY, "cannot make the store's file %zu bytes long", at->size);
    else if (fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        status = trp_fail_errno(TROUPE_IO, "cannot seal the length of the store's file");
    else
        status = back(fd, 0, (off_t)at->pages);
    if (status != TROUPE_OK)
        (void)close(fd);
    else
        *made = fd;
    return status;
}

troupe_status trp_segment_create(size_t capacity)
{
    TROUPE_TRY(check_capacity(capacity));
    capacity = round_up(capacity, TRP_PAGE_SIZE);
    layout at = layout_of(capacity);
    int fd = -1;
    TROUPE_TRY(make_file(&at, &fd));
    troupe_status status = map(fd, &at);
    if (status != TROUPE_OK) {
        (void)close(fd);
        return status;
    }
    trp_segment_header *header = trp_segment.header;
    header->magic = MAGIC;
    header->version = VERSION;
    header->header_size = sizeof *header;
    header->capacity = capacity;
    header->file_size = at.size;
    return TROUPE_OK;
}

// Reads the head by read(2), which cannot fault whatever the file is.
static troupe_status check_header(int fd, trp_segment_header *header)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return trp_fail_errno(TROUPE_INVALID, "descriptor %d is no segment of a store", fd);
    ssize_t got = pread(fd, header, sizeof *header, 0);
    if (got != (ssize_t)sizeof *header || header->magic != MAGIC)
        return troupe_fail(TROUPE_CORRUPT, "descriptor %d does not begin as the segment of a store", fd);
    if (header->version != VERSION)
        return troupe_fail(TROUPE_VERSION,
                           "the segment was made by version %u of the store; this program has version %d",
                           header->version, VERSION);
    if (header->header_size != sizeof *header || header->capacity < TRP_PAGE_SIZE ||
        header->capacity > CAPACITY_MAX || header->capacity % TRP_PAGE_SIZE != 0 ||
        header->file_size != layout_of(header->capacity).size ||
        (uint64_t)file.st_size != header->file_size)
        return troupe_fail(TROUPE_CORRUPT,
                           "the sizes in the segment's header do not agree: %llu bytes for data, %llu "
                           "in all, the file has %lld",
                           (unsigned long long)header->capacity, (unsigned long long)header->file_size,
                           (long long)file.st_size);
    if ((fcntl(fd, F_GET_SEALS) & SEALS) != SEALS)
        return troupe_fail(TROUPE_CORRUPT, "the segment's length is not sealed, so it is not ours");
    layout at = layout_of(header->capacity);
    if (header->objects_high > at.slot_count || header->pages_high > at.page_count)
        return troupe_fail(TROUPE_CORRUPT, "the segment's tables are said to have %u objects and %u pages; "
                                           "they have room for %u and %u",
                           header->objects_high, header->pages_high, at.slot_count, at.page_count);
    return TROUPE_OK;
}

troupe_status trp_segment_attach(int fd)
{
    if (trp_segment.header != NULL)
        return troupe_fail(TROUPE_EXISTS, "this process has a segment already");
    trp_segment_header header;
    TROUPE_TRY(check_header(fd, &header));
    layout at = layout_of(header.capacity);
    return map(fd, &at);
}

void trp_segment_close(void)
{
    if (trp_segment.header == NULL)
        return;
    int fd = trp_segment.fd;
    unmap();
    (void)close(fd);
}

int trp_segment_fd(void)
{
    return trp_segment.fd;
}

trp_process_row *trp_segment_process(uint32_t slot)
{
    return &trp_segment.processes[slot];
}

_Atomic uint32_t *trp_segment_deaths(void)
{
    return &trp_segment.header->deaths;
}
