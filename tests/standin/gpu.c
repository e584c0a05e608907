// gpu.c: stands in for libcuda and libnccl, so that the order of calls and what happens after
// errors can be tested where there is no GPU. It takes what it is to do from the environment:
//
//     STANDIN_DEVICES=2            devices that there are (1)
//     STANDIN_MEMORY=1048576       bytes of each (1 GiB)
//     STANDIN_LOG=FILE             a line for each call, of all processes: "name rank"
//     STANDIN_FAIL=name:n:code     the n-th call of that function, from 1 on, fails with that code
//     STANDIN_HANG=name:n          the n-th call of that function does not return
//     STANDIN_STUCK=n              the n-th collective and those after it never come to their end
//     STANDIN_ASYNC=n:code         from the n-th collective on the communicator has that error
//
// A device's memory is memory of the host that is mapped twice: at the address that is given out
// nothing can be read or written, so that who takes it for the host's crashes; copies and
// collectives go by the other mapping. Work is put on a stream, and done when it is asked whether
// it is done: so it is as late as a device's. Collectives are real, among processes: the unique id
// names a file that all ranks map. They combine values in the order of ranks, as the engine over
// shared memory does, so that results can be compared to the bit.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SUCCESS,
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    NO_CONTEXT = 201,
    NOT_READY = 600,
    NCCL_INVALID = 4, // ncclInvalidArgument
    NCCL_IN_PROGRESS = 7,
};

// ---- what it is told

static const char *told(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? value : otherwise;
}

static atomic_int rank = -1; // Of the communicator that was made last.

static void log_line(const char *function)
{
    const char *path = getenv("STANDIN_LOG");
    char line[128];
    if (path == NULL)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int length = snprintf(line, sizeof line, "%s %d\n", function, rank);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        abort();
    close(fd);
}

// Whether the variable says "name:<this call>"; `rest` is what follows.
static bool meant(const char *variable, const char *function, int call, const char **rest)
{
    const char *value = getenv(variable);
    size_t length = strlen(function);
    if (value == NULL || strncmp(value, function, length) != 0 || value[length] != ':')
        return false;
    char *end;
    bool now = strtol(value + length + 1, &end, 10) == call;
    *rest = *end == ':' ? end + 1 : "1";
    return now;
}

static int called(const char *function, atomic_int *calls)
{
    const char *rest;
    int call = atomic_fetch_add(calls, 1) + 1;
    log_line(function);
    while (meant("STANDIN_HANG", function, call, &rest))
        pause();
    return meant("STANDIN_FAIL", function, call, &rest) ? atoi(rest) : SUCCESS;
}

// Begins each function.
#define CALLED()                                                                                   \
    do {                                                                                           \
        static atomic_int calls_;                                                                  \
        int told_ = called(__func__, &calls_);                                                     \
        if (told_ != SUCCESS)                                                                      \
            return told_;                                                                          \
    } while (0)

// ---- memory

// As CUDA, it may be called by several threads: this is for the blocks, and for streams.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { BLOCKS_MAX = 256 };
typedef struct block {
    unsigned char *device, *alias;
    size_t size;
    bool pinned;
    int home; // The device.
} block;
static block blocks[BLOCKS_MAX];
static size_t taken;
static atomic_bool begun;
static _Thread_local long context; // 1 + the thread's device.

// Under the lock.
static block *block_of(const void *address)
{
    for (int i = 0; i < BLOCKS_MAX; i++)
        if (blocks[i].device != NULL && (const unsigned char *)address >= blocks[i].device &&
            (const unsigned char *)address < blocks[i].device + blocks[i].size)
            return &blocks[i];
    return NULL;
}

// Where the bytes of an address are; NULL: a range that is not within one block.
static void *bytes_at(const void *address, size_t size)
{
    pthread_mutex_lock(&lock);
    const block *found = block_of(address);
    void *bytes = (void *)(uintptr_t)address;
    if (found != NULL) {
        size_t offset = (size_t)((const unsigned char *)address - found->device);
        bytes = offset + size <= found->size ? found->alias + offset : NULL;
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}

// What kind of memory it is, as CUDA numbers them: 1 pinned, 2 a device's; 0: neither.
static int kind_of(const void *address, int *home)
{
    pthread_mutex_lock(&lock);
    const block *found = block_of(address);
    int kind = found == NULL ? 0 : found->pinned ? 1 : 2;
    *home = found != NULL ? found->home : -1;
    pthread_mutex_unlock(&lock);
    return kind;
}

static size_t memory_size(void)
{
    return (size_t)atoll(told("STANDIN_MEMORY", "1073741824"));
}

static void map_block(block *made, size_t pages, bool pinned)
{
    int fd = memfd_create("standin", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)pages) != 0)
        abort();
    void *alias = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *device = pinned ? alias : mmap(NULL, pages, PROT_NONE, MAP_SHARED, fd, 0);
    if (alias == MAP_FAILED || device == MAP_FAILED)
        abort();
    close(fd);
    *made = (block){.device = (unsigned char *)device,
                    .alias = (unsigned char *)alias,
                    .size = pages,
                    .pinned = pinned,
                    .home = (int)context - 1};
}

static int make_block(size_t size, bool pinned, void **address)
{
    size_t pages = (size + 4095) / 4096 * 4096;
    if (size == 0)
        return INVALID;
    pthread_mutex_lock(&lock);
    bool room = pinned || taken + pages <= memory_size();
    block *made = blocks;
    while (made < blocks + BLOCKS_MAX && made->device != NULL)
        made++;
    if (made == blocks + BLOCKS_MAX)
        abort();
    if (room) {
        map_block(made, pages, pinned);
        taken += pinned ? 0 : pages;
        *address = made->device;
    }
    pthread_mutex_unlock(&lock);
    return room ? SUCCESS : OUT_OF_MEMORY;
}

static int end_block(void *address, bool pinned)
{
    pthread_mutex_lock(&lock);
    block *found = block_of(address);
    bool good = found != NULL && found->device == address && found->pinned == pinned;
    if (good) {
        taken -= pinned ? 0 : found->size;
        munmap(found->alias, found->size);
        if (!pinned)
            munmap(found->device, found->size);
        *found = (block){0};
    }
    pthread_mutex_unlock(&lock);
    return good ? SUCCESS : INVALID;
}

// ---- streams: work is done in order, when somebody asks

struct comm;
typedef struct work {
    void *to;
    const void *from;
    size_t size;       // Of a copy.
    struct comm *comm; // NULL: a copy.
    int kind, element, how, root, number, state;
    size_t count;
    struct work *next;
} work;
typedef struct stream {
    work *first, **last;
} stream;
static stream default_stream = {.last = &default_stream.first};

static int advance(work *item); // NOT_READY, or done.

static int progress(stream *on)
{
    int result = SUCCESS;
    pthread_mutex_lock(&lock);
    while (on->first != NULL) {
        work *item = on->first;
        result = item->comm == NULL ? SUCCESS : advance(item);
        if (result != SUCCESS)
            break;
        if (item->comm == NULL)
            memmove(item->to, item->from, item->size);
        on->first = item->next;
        if (on->first == NULL)
            on->last = &on->first;
        free(item);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void put(stream *on, work item)
{
    work *made = malloc(sizeof *made);
    if (made == NULL)
        abort();
    *made = item;
    made->next = NULL;
    pthread_mutex_lock(&lock);
    *on->last = made;
    on->last = &made->next;
    pthread_mutex_unlock(&lock);
}

static stream *stream_of(void *handle)
{
    return handle != NULL ? (stream *)handle : &default_stream;
}

// ---- CUDA

int cuInit(unsigned flags);
int cuGetErrorName(int code, const char **text);
int cuGetErrorString(int code, const char **text);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int size, int device);
int cuDevicePrimaryCtxRetain(void **made, int device);
int cuCtxSetCurrent(void *chosen);
int cuCtxGetCurrent(void **found);
int cuCtxGetDevice(int *device);
int cuMemGetInfo_v2(size_t *left, size_t *all);
int cuMemAlloc_v2(unsigned long long *address, size_t size);
int cuMemFree_v2(unsigned long long address);
int cuMemHostAlloc(void **address, size_t size, unsigned flags);
int cuMemFreeHost(void *address);
int cuPointerGetAttribute(void *value, int attribute, unsigned long long address);
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t size, void *on);
int cuStreamCreate(void **made, unsigned flags);
int cuStreamQuery(void *on);
int cuStreamSynchronize(void *on);
int cuStreamDestroy_v2(void *on);

int cuInit(unsigned flags)
{
    CALLED();
    begun = flags == 0;
    return SUCCESS;
}

int cuGetErrorName(int code, const char **text)
{
    static _Thread_local char name[32];
    snprintf(name, sizeof name, "STANDIN_ERROR_%d", code);
    *text = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : name;
    return SUCCESS;
}

int cuGetErrorString(int code, const char **text)
{
    *text = code == OUT_OF_MEMORY ? "out of memory" : "an error of the stand-in";
    return SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    CALLED();
    *count = atoi(told("STANDIN_DEVICES", "1"));
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    CALLED();
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int size, int device)
{
    CALLED();
    snprintf(name, (size_t)size, "Stand-in %d", device);
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **made, int device)
{
    CALLED();
    *made = (void *)(uintptr_t)(device + 1);
    return SUCCESS;
}

int cuCtxSetCurrent(void *chosen)
{
    CALLED();
    context = (long)(uintptr_t)chosen;
    return SUCCESS;
}

int cuCtxGetCurrent(void **found)
{
    *found = (void *)(uintptr_t)context;
    return SUCCESS;
}

int cuCtxGetDevice(int *device)
{
    CALLED();
    *device = (int)context - 1;
    return context != 0 ? SUCCESS : NO_CONTEXT;
}

int cuMemGetInfo_v2(size_t *left, size_t *all)
{
    CALLED();
    *all = memory_size();
    *left = *all - taken;
    return SUCCESS;
}

int cuMemAlloc_v2(unsigned long long *address, size_t size)
{
    CALLED();
    void *made = NULL;
    int result = context != 0 ? make_block(size, false, &made) : NO_CONTEXT;
    *address = (uintptr_t)made;
    return result;
}

int cuMemFree_v2(unsigned long long address)
{
    CALLED();
    return end_block((void *)(uintptr_t)address, false);
}

int cuMemHostAlloc(void **address, size_t size, unsigned flags)
{
    CALLED();
    (void)flags;
    return context != 0 ? make_block(size, true, address) : NO_CONTEXT;
}

int cuMemFreeHost(void *address)
{
    CALLED();
    return end_block(address, true);
}

int cuPointerGetAttribute(void *value, int attribute, unsigned long long address)
{
    int home, kind = kind_of((void *)(uintptr_t)address, &home);
    if (!begun || kind == 0 || (attribute != 2 && attribute != 9))
        return INVALID;
    *(int *)value = attribute == 9 ? home : kind;
    return SUCCESS;
}

int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t size, void *on)
{
    CALLED();
    void *into = bytes_at((void *)(uintptr_t)to, size);
    const void *out_of = bytes_at((void *)(uintptr_t)from, size);
    if (context == 0 || into == NULL || out_of == NULL)
        return context == 0 ? NO_CONTEXT : INVALID;
    put(stream_of(on), (work){.to = into, .from = out_of, .size = size});
    return SUCCESS;
}

int cuStreamCreate(void **made, unsigned flags)
{
    CALLED();
    stream *new = calloc(1, sizeof *new);
    if (new == NULL || context == 0 || flags != 0) {
        free(new);
        return INVALID;
    }
    new->last = &new->first;
    *made = new;
    return SUCCESS;
}

int cuStreamQuery(void *on)
{
    static atomic_int calls;
    if (atomic_load(&calls) == 0) // Asked again and again; logged once.
        log_line(__func__);
    int call = atomic_fetch_add(&calls, 1) + 1;
    const char *rest;
    if (meant("STANDIN_FAIL", __func__, call, &rest))
        return atoi(rest);
    return progress(stream_of(on));
}

int cuStreamSynchronize(void *on)
{
    CALLED();
    int result;
    while ((result = progress(stream_of(on))) == NOT_READY)
        usleep(50);
    return result;
}

int cuStreamDestroy_v2(void *on)
{
    CALLED();
    stream *ended = (stream *)on;
    while (ended->first != NULL) {
        work *item = ended->first;
        ended->first = item->next;
        free(item);
    }
    free(ended);
    return SUCCESS;
}

// ---- NCCL

enum { RANKS_MAX = 16, SLOT = 1 << 20 };

// What the ranks of a communicator share, with two slots for each behind it.
typedef struct shared {
    atomic_int present, finalized;
    atomic_uint arrived[RANKS_MAX], read[RANKS_MAX]; // Collectives.
} shared;

typedef struct comm {
    shared *all;
    int rank, world;
    unsigned number; // Of the last collective.
    int asked;       // Since the last call: it is in progress for a while.
    bool finalizing, aborted;
} comm;

typedef struct unique_id {
    char text[128];
} unique_id;

typedef struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
} config;

int ncclGetVersion(int *version);
const char *ncclGetErrorString(int code);
const char *ncclGetLastError(comm *of);
int ncclGetUniqueId(unique_id *id);
int ncclCommInitRankConfig(comm **made, int world, unique_id id, int me, config *how);
int ncclCommGetAsyncError(comm *of, int *state);
int ncclCommFinalize(comm *of);
int ncclCommDestroy(comm *of);
int ncclCommAbort(comm *of);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int how, comm *of, void *on);
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int how, comm *of,
                      void *on);
int ncclAllGather(const void *from, void *to, size_t count, int type, comm *of, void *on);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, comm *of, void *on);

static size_t shared_size(int world)
{
    return sizeof(shared) + (size_t)world * 2 * SLOT;
}

static unsigned char *slot_of(const comm *of, int of_rank, unsigned number)
{
    return (unsigned char *)(of->all + 1) + ((size_t)of_rank * 2 + (number & 1)) * SLOT;
}

int ncclGetVersion(int *version)
{
    CALLED();
    *version = atoi(told("STANDIN_NCCL_VERSION", "22809"));
    return SUCCESS;
}

const char *ncclGetErrorString(int code)
{
    return code == 6 ? "remote process exited or there was a network error" : "stand-in error";
}

const char *ncclGetLastError(comm *of)
{
    (void)of;
    return "the last error of the stand-in";
}

int ncclGetUniqueId(unique_id *id)
{
    CALLED();
    int fd = memfd_create("standin", 0); // Open as long as the process is.
    if (fd < 0 || ftruncate(fd, (off_t)shared_size(RANKS_MAX)) != 0)
        abort();
    snprintf(id->text, sizeof id->text, "/proc/%d/fd/%d", (int)getpid(), fd);
    return SUCCESS;
}

int ncclCommInitRankConfig(comm **made, int world, unique_id id, int me, config *how)
{
    rank = me;
    CALLED();
    if (how->magic != 0xcafebeef || how->size < sizeof *how || how->blocking != 0 || context == 0 ||
        world > RANKS_MAX)
        return NCCL_INVALID;
    int fd = open(id.text, O_RDWR | O_CLOEXEC);
    comm *new = calloc(1, sizeof *new);
    if (fd < 0 || new == NULL) {
        free(new);
        return 2; // A system error: rank 0 is gone.
    }
    void *all = mmap(NULL, shared_size(world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (all == MAP_FAILED)
        abort();
    close(fd);
    *new = (comm){.all = (shared *)all, .rank = me, .world = world};
    atomic_fetch_add(&new->all->present, 1);
    *made = new;
    return NCCL_IN_PROGRESS;
}

int ncclCommGetAsyncError(comm *of, int *state)
{
    const char *told_error = getenv("STANDIN_ASYNC");
    *state = SUCCESS;
    if (told_error != NULL && of->number >= (unsigned)atoi(told_error))
        *state = atoi(strchr(told_error, ':') + 1);
    else if (of->asked++ < 3 || atomic_load(&of->all->present) < of->world ||
             (of->finalizing && atomic_load(&of->all->finalized) < of->world))
        *state = NCCL_IN_PROGRESS;
    return SUCCESS;
}

int ncclCommFinalize(comm *of)
{
    CALLED();
    of->finalizing = true;
    of->asked = 0;
    atomic_fetch_add(&of->all->finalized, 1);
    return NCCL_IN_PROGRESS;
}

static void forget(comm *of)
{
    munmap(of->all, shared_size(of->world));
    of->all = NULL; // The rest stays for the work that is still on a stream.
    of->aborted = true;
}

int ncclCommDestroy(comm *of)
{
    CALLED();
    forget(of);
    return SUCCESS;
}

int ncclCommAbort(comm *of)
{
    CALLED();
    forget(of);
    return SUCCESS;
}

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };

static size_t width_of(int type)
{
    static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return widths[type];
}

static int collective(comm *of, void *on, work item, const void *from, void *to)
{
    size_t width = width_of(item.element), parts = (size_t)of->world;
    size_t in = item.count * width * (item.kind == REDUCE_SCATTER ? parts : 1);
    size_t out = item.count * width * (item.kind == ALL_GATHER ? parts : 1);
    item.from = bytes_at(from, in);
    item.to = bytes_at(to, out);
    int home;
    bool device = kind_of(from, &home) == 2 && kind_of(to, &home) == 2;
    if (!device || item.from == NULL || item.to == NULL || in > SLOT || width == 2 || of->asked < 3)
        return NCCL_INVALID; // It also has to be waited for before.
    item.size = in;
    item.comm = of;
    item.number = (int)++of->number;
    of->asked = 0;
    put(stream_of(on), item);
    return NCCL_IN_PROGRESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int how, comm *of, void *on)
{
    CALLED();
    work item = {.kind = ALL_REDUCE, .count = count, .element = type, .how = how};
    return collective(of, on, item, from, to);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int how, comm *of,
                      void *on)
{
    CALLED();
    work item = {.kind = REDUCE_SCATTER, .count = count, .element = type, .how = how};
    return collective(of, on, item, from, to);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, comm *of, void *on)
{
    CALLED();
    work item = {.kind = ALL_GATHER, .count = count, .element = type};
    return collective(of, on, item, from, to);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, comm *of, void *on)
{
    CALLED();
    work item = {.kind = BROADCAST, .count = count, .element = type, .root = root};
    return collective(of, on, item, from, to);
}

// 0: sum, 2: maximum, 3: minimum, 4: mean.
#define REDUCE(T)                                                                                  \
    for (size_t i = 0; i < count; i++) {                                                           \
        T value = ((const T *)slot_of(of, 0, number))[first + i];                                  \
        for (int other = 1; other < of->world; other++) {                                          \
            T next = ((const T *)slot_of(of, other, number))[first + i];                           \
            value = how == 2   ? (next > value ? next : value)                                     \
                    : how == 3 ? (next < value ? next : value)                                     \
                               : (T)(value + next);                                                \
        }                                                                                          \
        ((T *)to)[i] = how == 4 ? (T)(value / (T)of->world) : value;                               \
    }

static void reduce(const comm *of, const work *item, size_t first)
{
    size_t count = item->count;
    unsigned number = (unsigned)item->number;
    int how = item->how;
    void *to = item->to;
    switch (item->element) {
    case 0:
        REDUCE(int8_t) break;
    case 1:
        REDUCE(uint8_t) break;
    case 2:
        REDUCE(int32_t) break;
    case 3:
        REDUCE(uint32_t) break;
    case 4:
        REDUCE(int64_t) break;
    case 5:
        REDUCE(uint64_t) break;
    case 7:
        REDUCE(float) break;
    default:
        REDUCE(double)
    }
}

static bool all_at_least(const comm *of, atomic_uint *counts, unsigned number)
{
    for (int other = 0; other < of->world; other++)
        if ((int)(atomic_load(&counts[other]) - number) < 0)
            return false;
    return true;
}

static int advance(work *item)
{
    const comm *of = item->comm;
    unsigned number = (unsigned)item->number;
    size_t bytes = item->count * width_of(item->element);
    if (of->aborted)
        return SUCCESS;
    if (number >= (unsigned)atoi(told("STANDIN_STUCK", "2000000000")) ||
        !all_at_least(of, of->all->read, number - 2))
        return NOT_READY;
    if (item->state == 0) {
        memcpy(slot_of(of, of->rank, number), item->from, item->size);
        atomic_store(&of->all->arrived[of->rank], number);
        item->state = 1;
    }
    if (!all_at_least(of, of->all->arrived, number))
        return NOT_READY;
    for (int other = 0; other < of->world && item->kind == ALL_GATHER; other++)
        memcpy((char *)item->to + (size_t)other * bytes, slot_of(of, other, number), bytes);
    if (item->kind == BROADCAST)
        memcpy(item->to, slot_of(of, item->root, number), bytes);
    else if (item->kind != ALL_GATHER)
        reduce(of, item, item->kind == REDUCE_SCATTER ? (size_t)of->rank * item->count : 0);
    atomic_store(&of->all->read[of->rank], number);
    return SUCCESS;
}
