// inspect.c: looking at a store (see store/inspect.h), and its largest holders.
//
// Everything is read while others write it. A row counts only if its word named the same object
// before and after the rest was read; the counts of holds are read one by one after that, so that
// the whole is no picture of one moment.
#include <runtime/store/inspect.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/shm/page_words.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment_guard.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 4, TEXT_MAX = 160 };

// ---- opening

static troupe_status none_to_be_seen(int pid, const char *why)
{
    return troupe_fail(TROUPE_NOT_FOUND, "process %d belongs to no node that can be seen: %s", pid,
                       why);
}

// Opens a file to be read, if it is one. What has that name may be something else by now: a pipe
// would wait for who writes it, and a device may do something when it is opened. So it is looked at
// first, which opens nothing.
static int open_file(const char *name)
{
    char again[64];
    struct stat about;
    int fd = -1, path = open(name, O_PATH | O_CLOEXEC);
    if (path < 0)
        return -1;
    snprintf(again, sizeof again, "/proc/self/fd/%d", path);
    if (fstat(path, &about) == 0 && S_ISREG(about.st_mode))
        fd = open(again, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    else
        errno = EINVAL;
    int error = errno;
    close(path);
    errno = error;
    return fd;
}

// Opens the descriptor of a segment among those of the process.
static troupe_status open_segment(int pid, int *fd)
{
    static const char wanted[] = "/memfd:troupe (deleted)";
    char path[64], entry[128], target[sizeof wanted + 1];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return none_to_be_seen(pid, strerror(errno));
    bool found = false;
    for (struct dirent *it; !found && (it = readdir(folder)) != NULL;) {
        snprintf(entry, sizeof entry, "%s/%.32s", path, it->d_name);
        ssize_t size = readlink(entry, target, sizeof target);
        found = size == sizeof wanted - 1 && memcmp(target, wanted, sizeof wanted - 1) == 0;
    }
    *fd = found ? open_file(entry) : -1;
    int error = errno;
    closedir(folder);
    if (!found)
        return none_to_be_seen(pid, "it has no store open");
    return *fd >= 0 ? TROUPE_OK : none_to_be_seen(pid, strerror(error));
}

troupe_status trp_view_open(int pid, trp_store_view *view)
{
    if (pid == 0) {
        if (trp_segment.header == NULL)
            return troupe_fail(TROUPE_NOT_STARTED, "there is no store: call troupe_start first");
        *view = (trp_store_view){
            .base = trp_segment.base, .header = trp_segment.header, .fd = trp_segment.fd};
        memcpy(&view->plan, trp_segment.base, sizeof view->plan);
        return TROUPE_OK;
    }
    int fd = -1;
    TROUPE_TRY(open_segment(pid, &fd));
    troupe_status status = trp_segment_map_tables(fd, &view->base, &view->mapped, &view->plan);
    if (status != TROUPE_OK) {
        close(fd);
        return status;
    }
    view->header = (const trp_header *)(const void *)view->base;
    view->fd = fd;
    return TROUPE_OK;
}

void trp_view_close(trp_store_view *view)
{
    if (view->mapped == 0)
        return;
    (void)munmap((void *)(uintptr_t)view->base, view->mapped);
    close(view->fd);
}

// ---- parts of long tables

// So much as a small stack has room for.
enum { PART_CELLS = TRP_LEDGER_CHUNK / 4, PART_PAGES = TRP_PAGE_CHUNK / 4 };

typedef union trp_part {
    _Atomic trp_ledger_cell cells[PART_CELLS];
    trp_page_row pages[PART_PAGES];
} trp_part;

// Of this process's own segment where it is. Of others' it is copied: a look at mapped memory that
// is not backed would take it from the system, 2 GiB of it where a table says that it is all used.
static const void *read_part(const trp_store_view *view, uint64_t at, size_t size, trp_part *part)
{
    if (view->mapped == 0)
        return view->base + at;
    ssize_t got = pread(view->fd, part, size, (off_t)at);
    size_t there = got > 0 ? (size_t)got : 0;
    memset((char *)part + there, 0, size - there);
    return part;
}

// ---- objects

uint32_t trp_view_objects(const trp_store_view *view)
{
    uint32_t backed = atomic_load(&view->header->objects_backed);
    return backed < TRP_OBJECTS_MAX ? backed : TRP_OBJECTS_MAX;
}

static const trp_object_row *row_at(const trp_store_view *view, uint32_t slot)
{
    return (const trp_object_row *)(const void *)(view->base + view->plan.objects_at) + slot;
}

// Whether two words of a row say the same of the same object: the epoch may be another.
static bool is_same(uint64_t one, uint64_t other)
{
    return trp_row_generation(one) == trp_row_generation(other) &&
           trp_row_state_of(one) == trp_row_state_of(other);
}

bool trp_view_object(const trp_store_view *view, uint32_t slot, trp_object_seen *seen)
{
    const trp_object_row *row = row_at(view, slot);
    for (int i = 0; i < TRIES; i++) {
        uint64_t word = atomic_load(&row->word);
        if (!trp_row_unsettled(word) && !trp_row_settled(word))
            return false;
        *seen = (trp_object_seen){
            .id = trp_row_id(slot, trp_row_generation(word)),
            .state = trp_row_state_of(word),
            .kind = (trp_object_kind)atomic_load_explicit(&row->kind, memory_order_acquire),
            .size = atomic_load(&row->size),
            .bytes = trp_place_bytes(atomic_load(&row->place)),
            .schema = atomic_load(&row->schema),
            .made_ms = atomic_load(&row->made_ms),
            .used_ms = atomic_load(&row->used_ms),
            .maker = atomic_load(&row->maker),
            .where = trp_where_state(atomic_load(&row->where)),
        };
        TRP_FAULT("store view");
        if (is_same(word, atomic_load(&row->word)))
            return seen->kind > TRP_KIND_NONE && seen->kind < TRP_KINDS;
    }
    return false;
}

// ---- holds

static const trp_process_row *process_at(const trp_store_view *view, uint32_t process)
{
    return (const trp_process_row *)(const void *)(view->base + trp_segment_processes_at()) +
           process;
}

static void show_part(const trp_store_view *view, uint32_t process, uint32_t from, uint32_t to,
                      void (*show)(const trp_hold_seen *hold, void *user), void *user)
{
    trp_part part;
    uint64_t at = ((uint64_t)process * TRP_OBJECTS_MAX + from) * sizeof(trp_ledger_cell);
    const _Atomic trp_ledger_cell *cells =
        read_part(view, view->plan.ledgers_at + at, (to - from) * sizeof *cells, &part);
    for (uint32_t object = from; object < to; object++) {
        uint32_t cell = atomic_load(cells + (object - from));
        if (cell != 0)
            show(&(trp_hold_seen){process, object, cell & 0xffff, cell >> 16}, user);
    }
}

void trp_view_holds(const trp_store_view *view, void (*show)(const trp_hold_seen *hold, void *user),
                    void *user)
{
    uint32_t objects = trp_view_objects(view);
    for (uint32_t process = 0; process < TRP_PROCESSES_MAX; process++) {
        bool present = (atomic_load(&view->header->present[process / 64]) >> process % 64 & 1) != 0;
        if (!present || atomic_load(&process_at(view, process)->state) == TRP_PROCESS_DEAD)
            continue;
        uint64_t backed = atomic_load(&view->header->ledger_backed[process]);
        for (uint32_t from = 0; from < objects; from += PART_CELLS) {
            uint32_t to = objects - from > PART_CELLS ? from + PART_CELLS : objects;
            if ((backed >> from / TRP_LEDGER_CHUNK & 1) != 0)
                show_part(view, process, from, to, show, user);
        }
    }
}

// ---- names

// Both have that size. What was copied, and no other writes, is ended and made printable.
static void copy_text(const char *from, char *to, size_t size)
{
    memcpy(to, from, size);
    trp_printable_clean(to, size);
}

trp_process_seen trp_view_process(const trp_store_view *view, uint32_t process)
{
    trp_process_seen seen = {0};
    if (process >= TRP_PROCESSES_MAX)
        return seen;
    const trp_process_row *row = process_at(view, process);
    const char *label = trp_row_label(row);
    seen.pid = atomic_load(&row->pid);
    if (process == TRP_PROCESS_DRIVER || process == TRP_PROCESS_NODE)
        snprintf(seen.label, sizeof seen.label, "%s",
                 process == TRP_PROCESS_DRIVER ? "driver" : "node");
    else if (label != NULL)
        copy_text(label, seen.label, sizeof seen.label);
    else
        snprintf(seen.label, sizeof seen.label, "worker %u", process);
    return seen;
}

bool trp_view_type(const trp_store_view *view, uint64_t schema, char name[TRP_TYPE_NAME])
{
    for (uint32_t i = 0; schema != 0 && i < TRP_TYPE_NAMES; i++) {
        const trp_type_name *row = &view->header->types[(schema + i) % TRP_TYPE_NAMES];
        uint64_t found = atomic_load(&row->schema);
        if (found == 0)
            return false;
        if (found == schema) {
            if (atomic_load_explicit(&row->named, memory_order_acquire) == 0)
                return false;
            copy_text(row->name, name, TRP_TYPE_NAME);
            return true;
        }
    }
    return false;
}

// ---- room

void trp_view_room(const trp_store_view *view, uint64_t *left, uint64_t *longest)
{
    trp_part part;
    const trp_page_row *pages = part.pages;
    uint32_t backed = atomic_load_explicit(&view->header->pages_backed, memory_order_acquire);
    if (backed > view->plan.pages_max)
        backed = view->plan.pages_max;
    uint64_t fresh = view->plan.pages_max - backed, run = 0, most = 0, count = fresh;
    for (uint32_t page = 0; page < backed; page++) {
        uint32_t at = page % PART_PAGES;
        if (at == 0)
            pages = read_part(
                view, view->plan.pages_at + (uint64_t)page * sizeof *pages,
                (backed - page < PART_PAGES ? backed - page : PART_PAGES) * sizeof *pages, &part);
        bool is_free =
            trp_owner_is_free(atomic_load_explicit(&pages[at].owner, memory_order_relaxed));
        count += is_free;
        run = is_free ? run + 1 : 0;
        most = run > most ? run : most;
    }
    run += fresh; // What is not backed yet goes on from the last page.
    *left = count * TRP_PAGE_SIZE;
    *longest = (run > most ? run : most) * TRP_PAGE_SIZE;
}

troupe_status trp_view_backed(const trp_store_view *view, uint64_t *bytes)
{
    struct stat file;
    if (fstat(view->fd, &file) != 0)
        return trp_fail_errno(TROUPE_IO, "the store's file cannot be asked for its size");
    *bytes = (uint64_t)file.st_blocks * 512;
    return TROUPE_OK;
}

// ---- who holds most

typedef struct weighing {
    const trp_store_view *view;
    uint64_t bytes[TRP_PROCESSES_MAX];
} weighing;

static void weigh(const trp_hold_seen *hold, void *user)
{
    weighing *work = user;
    trp_object_seen object;
    if (trp_view_object(work->view, hold->object, &object) && object.kind != TRP_KIND_INNER)
        work->bytes[hold->process] += object.bytes;
}

static uint32_t take_heaviest(weighing *work, uint64_t *bytes)
{
    uint32_t heaviest = 0;
    for (uint32_t process = 1; process < TRP_PROCESSES_MAX; process++)
        if (work->bytes[process] > work->bytes[heaviest])
            heaviest = process;
    *bytes = work->bytes[heaviest];
    work->bytes[heaviest] = 0;
    return heaviest;
}

void trp_store_holders(char *text, size_t size)
{
    text[0] = '\0';
    TRP_USE_SEGMENT();
    enum { SHOWN = 3 };
    trp_store_view view;
    troupe_error kept;
    text[0] = '\0';
    trp_error_hold(&kept);
    troupe_status status = trp_view_open(0, &view);
    trp_error_restore(&kept);
    if (status != TROUPE_OK)
        return;
    weighing *work = trp_alloc(sizeof *work);
    if (work == NULL)
        return;
    work->view = &view;
    trp_view_holds(&view, weigh, work);
    size_t length = 0;
    for (int i = 0; i < SHOWN && length < size; i++) {
        uint64_t bytes;
        uint32_t process = take_heaviest(work, &bytes);
        if (bytes == 0)
            break;
        trp_process_seen seen = trp_view_process(&view, process);
        int written =
            snprintf(text + length, size - length, "%s%s (pid %d) %.1f MiB",
                     i == 0 ? "held by " : ", ", seen.label, seen.pid, (double)bytes / (1 << 20));
        length += written > 0 ? (size_t)written : 0;
    }
    trp_free(work);
}

troupe_status trp_store_blame(void)
{
    char holders[3 * TEXT_MAX];
    troupe_error failure = *troupe_last_error();
    trp_store_holders(holders, sizeof holders);
    size_t length = strlen(failure.text);
    if (holders[0] != '\0')
        snprintf(failure.text + length, sizeof failure.text - length, "; it is %s", holders);
    return trp_error_set(&failure);
}

// ---- what makers say

void trp_store_kind(trp_object id, trp_object_kind kind)
{
    TRP_USE_SEGMENT();
    uint64_t word;
    trp_object_row *row = trp_row_find(id, &word);
    if (row != NULL)
        atomic_store_explicit(&row->kind, (uint32_t)kind, memory_order_release);
}

void trp_store_name_type(uint64_t schema, const char *name)
{
    TRP_USE_SEGMENT();
    if (schema == 0 || trp_segment.header == NULL)
        return;
    for (uint32_t i = 0; i < TRP_TYPE_NAMES; i++) {
        trp_type_name *row = &trp_segment.header->types[(schema + i) % TRP_TYPE_NAMES];
        uint64_t found = atomic_load_explicit(&row->schema, memory_order_relaxed);
        if (found == schema)
            return;
        if (found != 0 || !atomic_compare_exchange_strong(&row->schema, &found, schema)) {
            if (found == schema)
                return;
            continue;
        }
        snprintf(row->name, sizeof row->name, "%s", name);
        // Release: who sees it sees the name. Who dies before leaves a type without one.
        atomic_store_explicit(&row->named, 1, memory_order_release);
        return;
    }
}
