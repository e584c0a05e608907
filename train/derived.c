// derived.c: the thread that reads journals and writes what is made of them (see derived.h).
#include <train/derived.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <train/roster.h>
#include <unistd.h>

enum {
    LOOK_MS = 500, // Between looks at a journal that may grow.
    PIECE_BYTES = 1 << 18,
    // Of a journal: what is made of less is written with what else the same look leads to.
    SMALL_BYTES = 1 << 14,
    // A busy machine may leave a thread of low priority little time.
    AWAIT_MS = 10000,
    STOP_MS = 10000,
    NICE = 10,
    HOLD_MS = 60000, // The longest that a row waits for its checkpoint.
};

struct trp_derived {
    trp_roster_item item; // It is done when all of an ended run is in the files.
    char *run;            // Its folder,
    char *params;         // and what it was configured with, behind it; NULL: nothing.
    char host[65];
    int64_t looked_ms; // Under the lock. The rest is the thread's:
    bool told;
    bool made[TRP_DERIVED_FILES]; // What lay there before is gone.
    bool given_up[TRP_DERIVED_FILES];
    off_t at;         // Of the journal.
    int waits;        // The report whose row waits,
    int64_t waits_ms; // since when.
    trp_derived_state state;
    trp_buffer out[TRP_DERIVED_FILES]; // Lines that are to be written.
};

static void follow_journals(void);

static trp_roster all = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .name = "troupe-files", .serve = follow_journals};

static void free_derived(trp_derived *derived)
{
    for (int i = 0; i < TRP_DERIVED_FILES; i++)
        trp_buffer_free(&derived->out[i]);
    trp_derived_state_free(&derived->state);
    trp_free(derived->run);
    trp_free(derived);
}

// ---- writing

// One name for the whole life of a run, so that the file is made anew and not beside itself.
static troupe_status path_of(const trp_derived *derived, int file, trp_path *path)
{
    if (file == TRP_DERIVED_JSON)
        return trp_path_join(path, derived->run, "result.json");
    if (file == TRP_DERIVED_CSV)
        return trp_path_join(path, derived->run, "progress.csv");
    if (file == TRP_DERIVED_PARAMS)
        return trp_path_join(path, derived->run, "params.json");
    return trp_path_make(path, "%s/events.out.tfevents.%.0f.troupe", derived->run,
                         derived->state.begun_s);
}

static void give_up(trp_derived *derived, int file)
{
    derived->given_up[file] = true;
    if (!derived->told)
        trp_log(TRP_WARN, "a file for other programs is not complete: %s",
                troupe_last_error()->text);
    derived->told = true;
}

// In place of one that an earlier opening of the run, or another program, has left.
static troupe_status make_file(const char *path, const trp_buffer *out)
{
    troupe_status status = trp_file_make(path, out->data, out->size);
    if (status != TROUPE_EXISTS)
        return status;
    if (unlink(path) != 0 && errno != ENOENT)
        return trp_fail_errno(TROUPE_IO, "cannot replace %s", path);
    return trp_file_append(path, out->data, out->size);
}

static void write_file(trp_derived *derived, int file)
{
    const trp_buffer *out = &derived->out[file];
    trp_path path;
    if (derived->given_up[file] || (out->size == 0 && !out->failed))
        return;
    troupe_status status = path_of(derived, file, &path);
    if (status == TROUPE_OK && out->failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for lines of %s", path.text);
    if (status == TROUPE_OK && !derived->made[file])
        status = make_file(path.text, out);
    else if (status == TROUPE_OK)
        status = trp_file_append(path.text, out->data, out->size);
    derived->made[file] = true;
    if (status != TROUPE_OK)
        give_up(derived, file);
}

// Takes the lines that are whole; returns how many bytes they have.
static size_t take_lines(trp_derived *derived, const char *text, size_t size)
{
    size_t at = 0;
    for (const char *end; at < size; at = (size_t)(end - text) + 1) {
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        trp_derived_take(&derived->state, text + at, (size_t)(end - text) - at, derived->out);
    }
    return at;
}

static void write_files(trp_derived *derived)
{
    for (int i = 0; i < TRP_DERIVED_FILES; i++) {
        write_file(derived, i);
        trp_buffer_free(&derived->out[i]);
    }
}

// Rows that have waited for long, or `each`, are written without what they wait for.
static void give_up_rows(trp_derived *derived, bool each)
{
    int64_t now_ms = trp_clock_ms();
    int waits = trp_derived_waits(&derived->state);
    if (waits != derived->waits) {
        derived->waits = waits;
        derived->waits_ms = now_ms;
    }
    if (each || now_ms - derived->waits_ms > HOLD_MS)
        trp_derived_give_up(&derived->state, each, derived->out);
}

// Goes on by one piece of the journal of up to `size` bytes; false: there is no whole line in it.
static bool take_piece(trp_derived *derived, int fd, char *piece, size_t size)
{
    ssize_t got = pread(fd, piece, size, derived->at);
    size_t taken = got > 0 ? take_lines(derived, piece, (size_t)got) : 0;
    if (taken > SMALL_BYTES)
        write_files(derived);
    derived->at += (off_t)taken;
    return taken > 0;
}

// Not by who opens it, who has other things to do.
static void begin(trp_derived *derived)
{
    const char *last = strrchr(derived->run, '/');
    if (gethostname(derived->host, sizeof derived->host - 1) != 0)
        derived->host[0] = '\0';
    trp_derived_begin(&derived->state, last != NULL ? last + 1 : derived->run, derived->host,
                      derived->params);
}

static void look(trp_derived *derived)
{
    trp_path path;
    struct stat about = {0};
    int fd = -1;
    if (derived->state.run.name == NULL)
        begin(derived);
    if (trp_path_join(&path, derived->run, "journal.jsonl") == TROUPE_OK)
        fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fstat(fd, &about);
    off_t left = about.st_size - derived->at;
    // A line of many ranks may be longer than a piece: until it is whole, or nothing is left.
    for (size_t size = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES; derived->at < about.st_size;
         size *= 2) {
        char *piece = trp_alloc(size);
        bool taken = piece != NULL && take_piece(derived, fd, piece, size);
        while (taken && derived->at < about.st_size && take_piece(derived, fd, piece, size))
            continue;
        trp_free(piece);
        if (!taken && (piece == NULL || derived->at + (off_t)size >= about.st_size))
            break;
    }
    close(fd);
}

// ---- the thread

// The next one to look at; NULL: none now. With the lock.
static trp_derived *due(int64_t now_ms)
{
    for (trp_roster_item *it = all.first; it != NULL; it = it->next) {
        trp_derived *derived = (trp_derived *)it;
        bool looks = !it->ended && now_ms - derived->looked_ms >= LOOK_MS;
        if (it->closed || (it->ended && !it->done) || looks)
            return derived;
    }
    return NULL;
}

// With the lock, which is let go meanwhile.
static void look_at(trp_derived *derived, int64_t now_ms)
{
    trp_roster_item before = derived->item;
    derived->looked_ms = now_ms;
    pthread_mutex_unlock(&all.lock);
    if (!before.done) {
        look(derived);
        give_up_rows(derived, before.ended || before.closed);
        if (before.ended)
            trp_derived_finish(&derived->state, derived->out);
        write_files(derived);
    }
    pthread_mutex_lock(&all.lock);
    derived->item.done = before.done || before.ended;
    if (before.closed) {
        trp_roster_remove(&all, &derived->item);
        free_derived(derived);
    }
    trp_roster_change(&all);
}

static void follow_journals(void)
{
    // It may be behind: training goes first. On Linux this is the thread's own.
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
    while (all.first != NULL) {
        int64_t now_ms = trp_clock_ms();
        trp_derived *next = due(now_ms);
        if (next != NULL)
            look_at(next, now_ms);
        else
            trp_roster_await_change(&all, now_ms + LOOK_MS);
    }
}

// Texts of its own, in one piece.
static bool keep_texts(trp_derived *derived, const char *run, const char *params)
{
    size_t size = strlen(run) + 1, more = params != NULL ? strlen(params) + 1 : 0;
    derived->run = trp_alloc(size + more);
    if (derived->run == NULL)
        return false;
    memcpy(derived->run, run, size);
    if (more > 0)
        derived->params = memcpy(derived->run + size, params, more);
    return true;
}

trp_derived *trp_derived_open(const char *run, const char *params)
{
    trp_derived *derived = trp_alloc(sizeof *derived);
    if (derived == NULL)
        return NULL;
    *derived = (trp_derived){.looked_ms = trp_clock_ms()};
    if (keep_texts(derived, run, params) && trp_roster_add(&all, &derived->item))
        return derived;
    free_derived(derived);
    return NULL;
}

void trp_derived_end(trp_derived *derived)
{
    if (derived != NULL)
        trp_roster_end(&all, &derived->item);
}

void trp_derived_await(trp_derived *derived)
{
    if (derived != NULL)
        trp_roster_await(&all, &derived->item, AWAIT_MS);
}

void trp_derived_settle(void)
{
    trp_roster_settle(&all, STOP_MS);
}

void trp_derived_close(trp_derived *derived)
{
    if (derived != NULL)
        trp_roster_close(&all, &derived->item);
}
