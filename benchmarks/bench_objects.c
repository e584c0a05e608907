// bench_objects.c: what do putting, getting and viewing objects of the store cost?
//
//     bench_objects [quick] [NAME...]
//
// quick: one small round of each figure. NAME: only figures whose names begin with one of these.
// The rows are described in results/README.md. One or two client processes do the same at once, on
// written data, until a moment that was agreed with them; rounds of memcpy and of files in memory
// are measured in the same processes, in turns with ours, and so are those of Plasma and Ray, in
// programs of their own. A quick run leaves these two out. Prints one JSON object a line.
#include "harness_rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <troupe.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = 2,
    BATCH_MAX = 256,
    ROUNDS = 9,
    SECONDS_MAX = 240, // Of the rows before Ray's, on a machine that does much else.
    SMALL = 65536,     // Below it, figures are times, and objects are made in batches.
    STORE = 2 << 10,   // MiB
};

// ---- What a client does

typedef enum operation {
    PUT,
    PUT_DROP,
    GET,
    VIEW,
    COPY,
    ALLOCATE,
    FILL_FILE, // What a store without recycled memory would do.
    COPY_FILE,
    VIEW_FILE,
} operation;

TROUPE_STRUCT(order, (int, what), (size_t, size), (int64_t, start_ns), (int64_t, stop_ns));
TROUPE_STRUCT(outcome, (double, count), (double, ns));

typedef struct client {
    unsigned char *from, *to; // Written, so that their pages are there.
    size_t size;
    // To read, of that size: an object, and a file in memory.
    troupe_ref lent;
    int file;
} client;

static void *map_file(int file, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        bench_die("bench_objects: no file in memory");
    return memory;
}

static int fill_file(const client *self)
{
    int file = memfd_create("bench", 0);
    if (file < 0 || ftruncate(file, (off_t)self->size) != 0)
        bench_die("bench_objects: no file in memory");
    void *to = map_file(file, self->size);
    memcpy(to, self->from, self->size);
    munmap(to, self->size);
    return file;
}

static void resize(client *self, size_t size)
{
    if (self->size == size)
        return;
    if (self->size > 0) {
        munmap(self->from, self->size);
        munmap(self->to, self->size);
        troupe_ref_drop(self->lent);
        close(self->file);
    }
    self->from = bench_written(size);
    self->to = bench_written(size);
    self->lent = troupe_put_bytes(self->from, size);
    self->size = size;
    self->file = fill_file(self);
}

static void use(const void *memory, unsigned sum)
{
    __asm__ volatile("" : : "r"(memory), "r"(sum) : "memory");
}

// A put that failed says so when it is read.
static troupe_status check(troupe_ref ref)
{
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(ref, &view, 0));
    troupe_view_end(&view);
    return TROUPE_OK;
}

// Objects are put while the clock runs and dropped while it stands still.
static troupe_status put(const client *self, size_t count, double *ns)
{
    static troupe_ref refs[BATCH_MAX];
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        refs[i] = troupe_put_bytes(self->from, self->size);
    *ns += (double)(bench_now_ns() - start);
    troupe_status status = check(refs[count - 1]);
    for (size_t i = 0; i < count; i++)
        troupe_ref_drop(refs[i]);
    return status;
}

static void read_at(const client *self, const unsigned char *bytes, bool copy)
{
    if (copy)
        memcpy(self->to, bytes, self->size);
    use(self->to, (unsigned)bytes[0] + bytes[self->size - 1]);
}

static troupe_status look(const client *self, bool copy)
{
    troupe_view view;
    TROUPE_TRY(troupe_view_bytes(self->lent, &view, 0));
    read_at(self, view.data, copy);
    troupe_view_end(&view);
    return TROUPE_OK;
}

static troupe_status look_at_file(const client *self, bool copy)
{
    void *bytes = map_file(self->file, self->size);
    read_at(self, bytes, copy);
    munmap(bytes, self->size);
    return TROUPE_OK;
}

static troupe_status once(const client *self, operation what)
{
    void *memory;
    switch (what) {
    case PUT_DROP:
        troupe_ref_drop(troupe_put_bytes(self->from, self->size));
        return TROUPE_OK;
    case GET:
    case VIEW:
        return look(self, what == GET);
    case FILL_FILE:
        close(fill_file(self));
        return TROUPE_OK;
    case COPY_FILE:
    case VIEW_FILE:
        return look_at_file(self, what == COPY_FILE);
    case ALLOCATE:
        memory = malloc(self->size);
        if (memory == NULL)
            bench_die("bench_objects: no memory");
        memcpy(memory, self->from, self->size);
        use(memory, 0);
        free(memory);
        return TROUPE_OK;
    default:
        memcpy(self->to, self->from, self->size);
        use(self->to, 0);
        return TROUPE_OK;
    }
}

// Batches, since reading the clock costs as much as a small put.
static troupe_status batch(const client *self, operation what, size_t count, double *ns)
{
    if (what == PUT)
        return put(self, count, ns);
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        TROUPE_TRY(once(self, what));
    *ns += (double)(bench_now_ns() - start);
    return TROUPE_OK;
}

static troupe_status client_work(client *self, const order *wanted, outcome *done)
{
    operation what = (operation)wanted->what;
    resize(self, wanted->size);
    size_t count = self->size < SMALL || what == VIEW || what == VIEW_FILE ? BATCH_MAX : 1;
    *done = (outcome){0};
    while (bench_now_ns() < wanted->start_ns)
        continue;
    do {
        TROUPE_TRY(batch(self, what, count, &done->ns));
        done->count += (double)count;
    } while (bench_now_ns() < wanted->stop_ns);
    return TROUPE_OK;
}

TROUPE_ACTOR(client, (client_work, order, outcome));

static client_actor clients[CLIENTS_MAX];

// How often all of the clients together do it in a second. Negative: failed.
static double rate(operation what, size_t size, int count)
{
    double sum = 0;
    order wanted = {.what = what, .size = size}; // The first brings the pages.
    for (int round = 0; round < 2; round++) {
        troupe_ref refs[CLIENTS_MAX];
        outcome done[CLIENTS_MAX];
        for (int i = 0; i < count; i++)
            refs[i] = troupe_call_from(clients[i], client_work, &wanted);
        if (troupe_get_all(outcome, refs, (size_t)count, done) != TROUPE_OK)
            return -1;
        sum = 0;
        for (int i = 0; i < count; i++)
            sum += done[i].count / done[i].ns * 1e9;
        wanted.start_ns = bench_now_ns() + 1000000;
        wanted.stop_ns = wanted.start_ns + (bench_rows_quick() ? 5000000 : 100000000);
    }
    return sum;
}

// ---- Rows of sizes

typedef enum measure { BY_SIZE, MICROSECONDS, RATE } measure;

typedef struct row {
    const char *kind;
    operation ours;
    measure in; // By size: large ones in GB/s, small ones in us.
    int clients_max;
    operation peers[CLIENTS_MAX];
    const char *peer[CLIENTS_MAX]; // With as many clients.
    int peer_clients[CLIENTS_MAX];
    operation other;
    const char *other_name; // NULL: there is none.
    const char *note;
    size_t sizes[8]; // Up to a 0.
} row;

static const char warm[] = "memcpy into warm pages", two_warm[] = "two memcpy into warm pages",
                  new_file[] = "a new memfd, mapped and filled", mapped_file[] = "a memfd, mapped";

static const row rows[] = {
    {.kind = "put",
     .ours = PUT,
     .clients_max = 2,
     .peers = {COPY, COPY},
     .peer = {warm, two_warm},
     .peer_clients = {1, 2},
     .other = FILL_FILE,
     .other_name = new_file,
     .note = "floor: 0.8 of the copies from 1 MiB on",
     .sizes = {64, 1024, 65536, 1 << 20, 64 << 20, 256 << 20}},
    {.kind = "putdrop",
     .ours = PUT_DROP,
     .in = RATE,
     .clients_max = 2,
     .peers = {ALLOCATE, PUT_DROP},
     .peer = {"malloc, memcpy, free", "one client"},
     .peer_clients = {1, 1},
     .note = "floor: 2 million a second with one client, more with two",
     .sizes = {64}},
    {.kind = "get",
     .ours = GET,
     .clients_max = 1,
     .peers = {COPY},
     .peer = {warm},
     .peer_clients = {1},
     .other = COPY_FILE,
     .other_name = mapped_file,
     .sizes = {64, 1024, 65536, 1 << 20, 64 << 20, 256 << 20}},
    {.kind = "view",
     .ours = VIEW,
     .in = MICROSECONDS,
     .clients_max = 1,
     .peers = {COPY},
     .peer = {warm},
     .peer_clients = {1},
     .other = VIEW_FILE,
     .other_name = mapped_file,
     .note = "floor: 1 us at any size",
     .sizes = {64, 1024, 65536, 1 << 20, 64 << 20, 256 << 20}},
};

static double in_unit(double rate_now, measure in, size_t size, int count)
{
    if (in == RATE)
        return rate_now;
    if (in == BY_SIZE && size >= SMALL)
        return rate_now * (double)size / 1e9;
    return count / rate_now * 1e6;
}

static void add(bench_rounds *rounds, operation what, measure in, size_t size, int count)
{
    double now = rate(what, size, count);
    if (now > 0)
        bench_rounds_add(rounds, bench_round_plain(in_unit(now, in, size, count)));
    else
        bench_rounds_fail(rounds, "%s", troupe_last_error()->text);
}

// A round of Plasma, with as many clients.
static void add_plasma(bench_rounds *rounds, const row *what, size_t size, int count)
{
    char bytes[24], clients_wanted[12];
    snprintf(bytes, sizeof bytes, "%zu", size);
    snprintf(clients_wanted, sizeof clients_wanted, "%d", count);
    const char *program[] = {"compare/peer_plasma", what->kind, bytes, clients_wanted, NULL};
    bench_peer_round(program, rounds);
    if (rounds->missing[0])
        return;
    bench_round *last = &rounds->rounds[rounds->count - 1];
    last->value = in_unit(last->value, what->in, size, count);
}

static void measure_size(const row *what, size_t size, int count)
{
    char both[64] = "plasma.", *name = both + strlen(both);
    size_t room = sizeof both - strlen(both);
    int used = snprintf(name, room, "%s.%zu", what->kind, size);
    if (what->clients_max > 1)
        snprintf(name + used, room - (size_t)used, ".%dc", count);
    bool alone = bench_rows_wanted(name), plasma = !bench_rows_quick() && bench_rows_wanted(both);
    if (!alone && !plasma)
        return;
    static bench_rounds ours, theirs, others, plasmas;
    ours = theirs = others = plasmas = (bench_rounds){0};
    int which = count - 1;
    for (int i = 0; bench_goes_on(i, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); i++) {
        add(&ours, what->ours, what->in, size, count);
        if (plasma)
            add_plasma(&plasmas, what, size, count);
        if (!alone)
            continue;
        add(&theirs, what->peers[which], what->in, size, what->peer_clients[which]);
        if (what->other_name != NULL)
            add(&others, what->other, what->in, size, count);
    }
    bool times = what->in == MICROSECONDS || (what->in == BY_SIZE && size < SMALL);
    bench_line line = {.name = name,
                       .unit = what->in == RATE ? "1/s"
                               : times          ? "us"
                                                : "GB/s",
                       .placement =
                           count == 1 ? "one client process, not pinned" : "two, not pinned",
                       .better = times ? BENCH_LOWER : BENCH_HIGHER,
                       .ours = &ours,
                       .peer = what->peer[which],
                       .peers = &theirs,
                       .other = what->other_name,
                       .others = &others,
                       .note = what->note};
    if (alone)
        bench_rows_print(&line);
    line.name = both;
    line.peer = "Plasma (Arrow 11), in C++";
    line.peers = &plasmas;
    line.other = line.note = NULL;
    if (plasma)
        bench_rows_print(&line);
}

static void measure_rows(const row *what)
{
    for (int s = 0; what->sizes[s] > 0; s++) {
        if (bench_rows_quick() && what->sizes[s] > 64 << 20)
            continue;
        for (int count = 1; count <= what->clients_max; count++)
            measure_size(what, what->sizes[s], count);
    }
}

// ---- Rows of many references

enum { MANY = 10000, FEW = 1000 };

static troupe_ref kept[MANY], refs[MANY], list;
static int numbers[MANY];

static troupe_status get_many(void)
{
    for (int i = 0; i < MANY; i++)
        refs[i] = troupe_ref_keep(kept[i]);
    return troupe_get_all(int, refs, MANY, numbers);
}

// What comes out of it is the caller's, and is dropped.
static troupe_status get_list(void)
{
    troupe_array_troupe_ref found;
    TROUPE_TRY(troupe_get(troupe_array_troupe_ref, troupe_ref_keep(list), &found));
    for (size_t i = 0; i < found.count; i++)
        troupe_ref_drop(found.items[i]);
    troupe_arena_reset();
    return found.count == MANY ? TROUPE_OK : TROUPE_FAILED;
}

// Waits for one of what is left, a thousand times.
static troupe_status wait_few(void)
{
    static bool ready[FEW];
    memcpy(refs, kept, FEW * sizeof *refs);
    for (size_t left = FEW; left > 0;) {
        TROUPE_TRY(troupe_wait(refs, left, 1, -1, ready, NULL));
        size_t first = 0;
        while (!ready[first])
            first++;
        memmove(&refs[first], &refs[first + 1], (--left - first) * sizeof *refs);
    }
    return TROUPE_OK;
}

static const struct many {
    const char *name, *note;
    troupe_status (*once)(void);
} many_rows[] = {
    {"refs10k",
     "an object that holds 10,000 references: troupe_get, and a drop of each; floor: 500",
     get_list},
    {"getall10k", "10,000 objects of an int: troupe_ref_keep of each, troupe_get_all", get_many},
    {"wait1k", "1,000 objects: troupe_wait for one of those left, until none is", wait_few},
};

static void measure_many(const struct many *what)
{
    if (!bench_rows_wanted(what->name))
        return;
    static bench_rounds ours;
    ours = (bench_rounds){0};
    for (int i = 0; i < MANY; i++)
        kept[i] = troupe_put(int, &i);
    troupe_array_troupe_ref all = {kept, MANY};
    list = troupe_put(troupe_array_troupe_ref, &all);
    for (int i = 0; bench_goes_on(i, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); i++) {
        int64_t start = bench_now_ns(), passed;
        int count = 0;
        do {
            if (what->once() != TROUPE_OK)
                bench_rounds_fail(&ours, "%s", troupe_last_error()->text);
            count++;
        } while ((passed = bench_now_ns() - start) < (bench_rows_quick() ? 5000000 : 100000000));
        bench_rounds_add(&ours, bench_round_plain(count / ((double)passed / 1e9)));
    }
    troupe_ref_drop(list);
    for (int i = 0; i < MANY; i++)
        troupe_ref_drop(kept[i]);
    bench_rows_print(&(bench_line){.name = what->name,
                                   .unit = "1/s",
                                   .placement = "one thread, not pinned",
                                   .better = BENCH_HIGHER,
                                   .ours = &ours,
                                   .note = what->note});
}

// ---- Disk: a store that is full of objects, as many of which come as leave

enum { FULL = 256 << 20, WHOLE = 1 << 20, WHOLES = FULL / WHOLE };

typedef struct disk_round {
    double spill, restore, write, read; // GB/s
} disk_round;

static double gigabytes(int64_t start_ns, size_t count)
{
    return (double)count * WHOLE / (double)(bench_now_ns() - start_ns);
}

// The same bytes in files of their own, below the folder that objects go to.
static void use_files(unsigned char *memory, size_t count, disk_round *round)
{
    char path[64];
    int64_t start = bench_now_ns();
    for (int reading = 0; reading < 2; reading++, start = bench_now_ns()) {
        for (size_t i = 0; i < count; i++) {
            snprintf(path, sizeof path, "/var/tmp/bench_objects.%d.%zu", (int)getpid(), i);
            int fd = open(path, reading ? O_RDONLY : O_CREAT | O_TRUNC | O_WRONLY, 0600);
            ssize_t done = reading ? read(fd, memory, WHOLE) : write(fd, memory, WHOLE);
            if (fd < 0 || done != WHOLE)
                bench_die("bench_objects: no file %s of %d bytes", path, WHOLE);
            close(fd);
            if (reading)
                unlink(path);
        }
        *(reading ? &round->read : &round->write) = gigabytes(start, count);
    }
}

static troupe_status use_disk(unsigned char *memory, size_t count, disk_round *round)
{
    static troupe_ref cold[WHOLES], warmer[WHOLES];
    size_t fill = bench_rows_quick() ? WHOLES - count : 0; // So that the store is full in any case.
    for (size_t i = 0; i < fill; i++)
        warmer[i] = troupe_put_bytes(memory, WHOLE);
    for (size_t i = 0; i < count; i++)
        cold[i] = troupe_put_bytes(memory, WHOLE);
    bench_pause(2000); // When an object was used is known to the millisecond.
    for (size_t i = 0; i < fill; i++)
        TROUPE_TRY(check(warmer[i])); // The others are used longest ago.
    int64_t start = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        warmer[fill + i] = troupe_put_bytes(memory, WHOLE);
    round->spill = gigabytes(start, count);
    for (size_t i = 0; i < fill + count; i++)
        troupe_ref_drop(warmer[i]);
    start = bench_now_ns();
    for (size_t i = 0; i < count; i++)
        TROUPE_TRY(check(cold[i]));
    round->restore = gigabytes(start, count);
    for (size_t i = 0; i < count; i++)
        troupe_ref_drop(cold[i]);
    return TROUPE_OK;
}

static void print_disk(const char *name, const char *peer, const bench_rounds *ours,
                       const bench_rounds *theirs)
{
    bench_rows_print(&(bench_line){.name = name,
                                   .unit = "GB/s",
                                   .placement = "one thread, not pinned",
                                   .better = BENCH_HIGHER,
                                   .ours = ours,
                                   .peer = peer,
                                   .peers = theirs,
                                   .note = "objects of 1 MiB; nothing is synced on either side"});
}

static void measure_disk(void)
{
    if (!bench_rows_wanted("spill") && !bench_rows_wanted("restore"))
        return;
    static bench_rounds spill, restore, write_files, read_files;
    size_t count = bench_rows_quick() ? 8 : WHOLES;
    unsigned char *memory = bench_written(WHOLE);
    troupe_must(troupe_start(0, NULL, .workers = TROUPE_NONE, .store_bytes_max = FULL));
    for (int i = 0; bench_goes_on(i, bench_rows_quick() ? 1 : ROUNDS, SECONDS_MAX); i++) {
        disk_round round = {0};
        if (use_disk(memory, count, &round) != TROUPE_OK) {
            bench_rounds_fail(&spill, "%s", troupe_last_error()->text);
            break;
        }
        use_files(memory, count, &round);
        bench_rounds_add(&spill, bench_round_plain(round.spill));
        bench_rounds_add(&restore, bench_round_plain(round.restore));
        bench_rounds_add(&write_files, bench_round_plain(round.write));
        bench_rounds_add(&read_files, bench_round_plain(round.read));
    }
    (void)troupe_stop();
    if (bench_rows_wanted("spill"))
        print_disk("spill", "write of files", &spill, &write_files);
    if (bench_rows_wanted("restore"))
        print_disk("restore", "read and unlink of files", &restore, &read_files);
}

// ---- All

// Ray's own, and rows of sizes that its microbenchmark has not.
static const char *const ray_rows[] = {
    "single_client_get_calls",
    "single_client_put_calls",
    "multi_client_put_calls",
    "single_client_put_gigabytes",
    "multi_client_put_gigabytes",
    "single_client_get_object_containing_10k_refs",
    "single_client_wait_1k_refs",
    "put.65536.1c",
    "put.65536.2c",
    "put.1048576.1c",
    "put.1048576.2c",
    "put.67108864.1c",
    "put.67108864.2c",
    "put.268435456.1c",
    "put.268435456.2c",
    "view.65536",
    "view.1048576",
    "view.268435456",
};

int main(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .store_bytes_max = (size_t)STORE << 20));
    bench_rows_open(argc, argv); // A worker does not come here.
    for (int i = 0; i < CLIENTS_MAX; i++)
        clients[i] = troupe_spawn(client, .place = TROUPE_PLACE_ISOLATED);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        measure_rows(&rows[i]);
    for (size_t i = 0; i < sizeof many_rows / sizeof *many_rows; i++)
        measure_many(&many_rows[i]);
    troupe_stop();
    measure_disk();
    bench_ray(ray_rows, sizeof ray_rows / sizeof *ray_rows, "1");
    return bench_rows_close();
}
