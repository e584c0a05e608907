// record.c: see tune/study/record.h.
#include <tune/study/record.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/log.h>
#include <runtime/base/memory.h>
#include <runtime/base/thread.h>
#include <runtime/host/folder.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Between syncs that nobody waits for: a file system's files are made more slowly while it commits.
static const int64_t SPACING_NS = 10000000;

struct trp_tune_record {
    int fd;
    int folder; // Descriptor of the file's folder, until the file's name lasts; -1: none.
    char *path;
    // Whether something behind `keep` bytes is to be cut off before anything is added. Of the
    // thread that adds, as all above `lock`.
    bool to_cut;
    size_t keep;
    bool was_empty; // The file was made, or had nothing.

    pthread_mutex_t lock; // Of all that follows.
    pthread_cond_t changed;
    trp_buffer soon;    // Lines that were added to be written soon,
    bool gathers;       // while that is so.
    trp_buffer waiting; // Lines, or a part of one and lines behind it, that could not be written.
    int write_errno;    // Why they wait.
    bool lost;          // There was no memory to let a line wait: nothing is written any more.
    bool warned;
    bool named;     // The file's name lasts, too.
    int sync_errno; // A sync has failed. The kernel may have forgotten what it could not write,
                    // so that another one would succeed for nothing: this one stays.
    uint64_t added, written, lasts; // Bytes.
    bool syncing;                   // By some thread, outside of the lock.
    bool wanted, ends;              // What the record's own thread is to do.
    bool has_thread;
    pthread_t thread;
};

// ---- opening

// What the first line of every record begins with.
static const char beginning[] = "{\"event\": \"";

static bool is_beginning(const trp_buffer *text)
{
    size_t size = text->size < sizeof beginning - 1 ? text->size : sizeof beginning - 1;
    return memcmp(text->data, beginning, size) == 0;
}

static troupe_status read_lines(trp_tune_record *record, trp_buffer *lines)
{
    struct stat is;
    if (fstat(record->fd, &is) != 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be read", record->path);
    if (!S_ISREG(is.st_mode))
        return troupe_fail(TROUPE_INVALID, "%s is no file of a kind that can be added to",
                           record->path);
    size_t size = (size_t)is.st_size;
    if (size > 0 && !trp_buffer_reserve(lines, size))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the %zu bytes of %s", size,
                           record->path);
    while (lines->size < size) {
        ssize_t got =
            pread(record->fd, lines->data + lines->size, size - lines->size, (off_t)lines->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return trp_fail_errno(TROUPE_IO, "%s cannot be read", record->path);
        if (got == 0)
            break;
        lines->size += (size_t)got;
    }
    return TROUPE_OK;
}

// Leaves the whole lines of the text.
static troupe_status find_lines(trp_tune_record *record, troupe_open how, trp_buffer *lines)
{
    size_t size = lines->size;
    const char *end = size > 0 ? memrchr(lines->data, '\n', size) : NULL;
    lines->size = end != NULL ? (size_t)(end + 1 - (const char *)lines->data) : 0;
    if (how == TROUPE_OPEN_NEW && lines->size > 0)
        return troupe_fail(TROUPE_EXISTS,
                           "%s is there already: expected a new file, or .open = "
                           "TROUPE_OPEN_RESUME for what it has to go on",
                           record->path);
    // A beginning of a first line, of which nobody has heard, is no loss; another's file would be.
    if (lines->size == 0 && size > 0 &&
        !is_beginning(&(trp_buffer){.data = lines->data, .size = size}))
        return troupe_fail(how == TROUPE_OPEN_NEW ? TROUPE_EXISTS : TROUPE_CORRUPT,
                           "%s is a file of something else: expected lines of JSON, one a step",
                           record->path);
    record->to_cut = lines->size < size;
    record->keep = lines->size;
    record->added = record->written = record->lasts = lines->size;
    record->was_empty = size == 0;
    return TROUPE_OK;
}

// Whether the path still means the file that is open: who had it before may have removed it.
static bool is_at_its_path(const trp_tune_record *record)
{
    struct stat open, there;
    return fstat(record->fd, &open) == 0 && stat(record->path, &there) == 0 &&
           open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

// *gone: what was opened is no longer there.
static troupe_status open_once(trp_tune_record *record, troupe_open how, bool *gone)
{
    int make = how == TROUPE_OPEN_RESUME ? 0 : O_CREAT;
    record->fd =
        open(record->path, O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK | make, trp_file_mode());
    if (record->fd < 0 && errno == ENOENT)
        return troupe_fail(TROUPE_NOT_FOUND, "%s is not there%s", record->path,
                           make ? ": its folder must be" : "");
    if (record->fd < 0)
        return trp_fail_errno(TROUPE_IO, "%s cannot be opened", record->path);
    if (flock(record->fd, LOCK_EX | LOCK_NB) == 0) {
        *gone = !is_at_its_path(record);
        return TROUPE_OK;
    }
    return errno == EWOULDBLOCK
               ? troupe_fail(TROUPE_BUSY, "%s is open in another process", record->path)
               : trp_fail_errno(TROUPE_IO, "%s cannot be locked", record->path);
}

static troupe_status open_alone(trp_tune_record *record, troupe_open how)
{
    for (bool gone = false;; gone = false) {
        TROUPE_TRY(open_once(record, how, &gone));
        if (!gone)
            return TROUPE_OK;
        close(record->fd);
        record->fd = -1;
    }
}

static void release(trp_tune_record *record)
{
    if (record->fd >= 0)
        close(record->fd);
    if (record->folder >= 0)
        close(record->folder);
    pthread_cond_destroy(&record->changed);
    pthread_mutex_destroy(&record->lock);
    trp_buffer_free(&record->soon);
    trp_buffer_free(&record->waiting);
    trp_free(record->path);
    trp_free(record);
}

// Opens the folder of the file, whose path may mean another one later. One that cannot be opened
// has names that last as they may.
static bool open_folder(trp_tune_record *record)
{
    char *folder = trp_strdup(strchr(record->path, '/') != NULL ? record->path : ".");
    if (folder == NULL)
        return false;
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    record->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    record->named = record->folder < 0;
    trp_free(folder);
    return true;
}

troupe_status trp_tune_record_open(const char *path, troupe_open how, trp_buffer *lines,
                                   trp_tune_record **record)
{
    *lines = (trp_buffer){0};
    trp_tune_record *made = trp_alloc(sizeof *made);
    char *copy = trp_strdup(path);
    if (made == NULL || copy == NULL) {
        trp_free(made);
        trp_free(copy);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a record in %s", path);
    }
    made->fd = -1;
    made->path = copy;
    made->folder = -1;
    pthread_mutex_init(&made->lock, NULL);
    trp_cond_open(&made->changed);
    troupe_status status =
        open_folder(made) ? open_alone(made, how)
                          : troupe_fail(TROUPE_NO_MEMORY, "no memory for a record in %s", path);
    if (status == TROUPE_OK)
        status = read_lines(made, lines);
    if (status == TROUPE_OK)
        status = find_lines(made, how, lines);
    if (status != TROUPE_OK) {
        release(made);
        trp_buffer_free(lines);
        return status;
    }
    if (lines->size == 0)
        trp_buffer_free(lines);
    *record = made;
    return TROUPE_OK;
}

void trp_tune_record_cut(trp_tune_record *record, size_t size)
{
    trp_assert(size <= record->keep && record->added == record->keep);
    record->to_cut = true;
    record->keep = size;
    record->added = record->written = record->lasts = size;
}

const char *trp_tune_record_path(const trp_tune_record *record)
{
    return record->path;
}

// ---- writing

// With the lock, as all that warns.
static void warn(trp_tune_record *record, int error)
{
    if (!record->warned)
        trp_log(TRP_WARN, "%s is not complete: %s", record->path, strerror(error));
    record->warned = true;
}

// How much of it was written. errno is set if it was not all.
static size_t write_some(int fd, const unsigned char *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t wrote = write(fd, data + done, size - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            errno = wrote == 0 ? ENOSPC : errno;
            break;
        }
        done += (size_t)wrote;
    }
    return done;
}

static bool cut_off(trp_tune_record *record)
{
    if (record->to_cut && ftruncate(record->fd, (off_t)record->keep) != 0)
        return false;
    record->to_cut = false;
    return true;
}

// Writes what waits. False: not all of it.
static bool flush(trp_tune_record *record)
{
    trp_buffer *waiting = &record->waiting;
    if (waiting->size == 0 || record->lost)
        return !record->lost;
    size_t wrote =
        cut_off(record) ? write_some(record->fd, waiting->data, waiting->size) : (size_t)0;
    if (wrote < waiting->size) {
        record->write_errno = errno;
        warn(record, errno);
        memmove(waiting->data, waiting->data + wrote, waiting->size - wrote);
    }
    waiting->size -= wrote;
    record->written += wrote;
    if (waiting->size == 0)
        trp_buffer_free(waiting);
    return record->waiting.size == 0;
}

// Lets bytes wait.
static void put_off(trp_tune_record *record, const unsigned char *data, size_t size)
{
    trp_buffer_append(&record->waiting, data, size);
    if (!record->waiting.failed)
        return;
    record->lost = true; // What follows would stand behind a gap.
    warn(record, ENOMEM);
}

static void add(trp_tune_record *record, const trp_buffer *line)
{
    record->added += line->size;
    if (record->lost)
        return;
    if (line->failed) {
        record->lost = true;
        warn(record, ENOMEM);
        return;
    }
    if (!flush(record)) {
        put_off(record, line->data, line->size);
        return;
    }
    TRP_FAULT("record write");
    size_t wrote = cut_off(record) ? write_some(record->fd, line->data, line->size) : (size_t)0;
    if (wrote < line->size) {
        record->write_errno = errno;
        warn(record, errno);
        put_off(record, line->data + wrote, line->size - wrote);
    }
    record->written += wrote;
    TRP_FAULT("record written");
}

// With the lock.
static void write_soon(trp_tune_record *record)
{
    trp_buffer lines = record->soon;
    if (lines.size == 0)
        return;
    record->soon = (trp_buffer){0};
    add(record, &lines);
    trp_buffer_free(&lines);
}

void trp_tune_record_add(trp_tune_record *record, trp_buffer *line)
{
    trp_buffer_append(line, "}\n", 2);
    pthread_mutex_lock(&record->lock);
    write_soon(record);
    add(record, line);
    pthread_mutex_unlock(&record->lock);
    trp_buffer_free(line);
}

void trp_tune_record_add_soon(trp_tune_record *record, trp_buffer *line)
{
    enum { SOON_MAX = 64 * 1024 };
    trp_buffer *soon = &record->soon;
    trp_buffer_append(line, "}\n", 2);
    pthread_mutex_lock(&record->lock);
    bool waits = record->gathers && !line->failed && soon->size + line->size <= SOON_MAX &&
                 trp_buffer_reserve(soon, line->size);
    soon->failed = false; // No memory: it is not put off.
    if (waits) {
        trp_buffer_append(soon, line->data, line->size);
    } else {
        write_soon(record);
        add(record, line);
    }
    pthread_mutex_unlock(&record->lock);
    trp_buffer_free(line);
}

void trp_tune_record_write(trp_tune_record *record)
{
    pthread_mutex_lock(&record->lock);
    write_soon(record);
    pthread_mutex_unlock(&record->lock);
}

void trp_tune_record_gather(trp_tune_record *record, bool begins)
{
    pthread_mutex_lock(&record->lock);
    record->gathers = begins;
    write_soon(record);
    pthread_mutex_unlock(&record->lock);
}

// ---- syncing

// Has the file's bytes so far last, for all who wait. With the lock, which it leaves meanwhile.
static void sync_now(trp_tune_record *record)
{
    uint64_t until = record->written;
    bool named = record->named;
    record->syncing = true;
    pthread_mutex_unlock(&record->lock);
    TRP_FAULT("record sync");
    int error = fdatasync(record->fd) != 0 ? errno : 0;
    if (error == 0 && !named)
        error = fsync(record->folder) != 0 && errno != EINVAL ? errno : 0; // Not everywhere.
    pthread_mutex_lock(&record->lock);
    record->syncing = false;
    if (error == 0) {
        record->lasts = until;
        record->named = true;
        if (!named)
            close(record->folder);
        record->folder = -1;
    } else {
        record->sync_errno = error;
        warn(record, error);
    }
    pthread_cond_broadcast(&record->changed);
}

// With the lock.
static troupe_status said(trp_tune_record *record)
{
    if (record->lost)
        return troupe_fail(TROUPE_NO_MEMORY,
                           "%s lacks the end of what was done, for which there was no memory",
                           record->path);
    errno = record->sync_errno != 0 ? record->sync_errno : record->write_errno;
    return trp_fail_errno(TROUPE_IO, "%s lacks the end of what was done", record->path);
}

// Until all that was added so far lasts, or cannot. With the lock.
static troupe_status sync_all(trp_tune_record *record)
{
    write_soon(record);
    uint64_t until = record->added;
    while (record->lasts < until || !record->named) {
        if (record->sync_errno != 0 || !flush(record))
            return said(record);
        if (record->syncing)
            pthread_cond_wait(&record->changed, &record->lock);
        else
            sync_now(record);
    }
    return TROUPE_OK;
}

// Leaves the lock until then, or the end.
static void rest_until(trp_tune_record *record, int64_t until_ns)
{
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (!record->ends &&
           pthread_cond_timedwait(&record->changed, &record->lock, &until) != ETIMEDOUT) {
    }
}

static void *sync_as_wanted(void *user)
{
    trp_tune_record *record = user;
    pthread_mutex_lock(&record->lock);
    while (!record->ends) {
        if (record->wanted) {
            int64_t next_ns = trp_clock_ns() + SPACING_NS;
            record->wanted = false;
            (void)sync_all(record); // Who waits is told; all else is told by the next.
            rest_until(record, next_ns);
            continue;
        }
        pthread_cond_wait(&record->changed, &record->lock);
    }
    pthread_mutex_unlock(&record->lock);
    return NULL;
}

// Asks the record's thread. False: there is none.
static bool ask_thread(trp_tune_record *record)
{
    if (!record->has_thread)
        record->has_thread =
            trp_thread_start(&record->thread, "troupe-record", sync_as_wanted, record) == TROUPE_OK;
    if (!record->wanted) // Else it has been told, and may be between two syncs.
        pthread_cond_broadcast(&record->changed);
    record->wanted = true;
    return record->has_thread;
}

troupe_status trp_tune_record_sync(trp_tune_record *record, bool wait)
{
    troupe_status status = TROUPE_OK;
    pthread_mutex_lock(&record->lock);
    if (wait || record->sync_errno != 0 || record->lost || !ask_thread(record))
        status = sync_all(record);
    pthread_mutex_unlock(&record->lock);
    return status;
}

uint64_t trp_tune_record_added(trp_tune_record *record)
{
    pthread_mutex_lock(&record->lock);
    uint64_t added = record->added + record->soon.size;
    pthread_mutex_unlock(&record->lock);
    return added;
}

uint64_t trp_tune_record_lasts(trp_tune_record *record)
{
    pthread_mutex_lock(&record->lock);
    uint64_t lasts = record->lasts;
    pthread_mutex_unlock(&record->lock);
    return lasts;
}

void trp_tune_record_close(trp_tune_record **record)
{
    trp_tune_record *closed = *record;
    if (closed == NULL)
        return;
    *record = NULL;
    troupe_error kept;
    trp_error_hold(&kept);
    pthread_mutex_lock(&closed->lock);
    (void)sync_all(closed); // It has been warned of.
    closed->ends = true;
    pthread_cond_broadcast(&closed->changed);
    pthread_mutex_unlock(&closed->lock);
    if (closed->has_thread)
        pthread_join(closed->thread, NULL);
    release(closed);
    trp_error_restore(&kept);
}

void trp_tune_record_remove(trp_tune_record **record)
{
    if (*record == NULL)
        return;
    (void)unlink((*record)->path);
    trp_tune_record_close(record);
}

void trp_tune_record_abandon(trp_tune_record **record)
{
    if (*record == NULL)
        return;
    if ((*record)->was_empty &&
        (*record)->added == 0) // With its lock, so that nobody has begun there.
        (void)unlink((*record)->path);
    trp_tune_record_close(record);
}
