// spill_file.c: files of objects (see store/spill_file.h).
#include <runtime/store/spill_file.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/run_folder.h>
#include <runtime/shm/layout.h>
#include <runtime/shm/process_table.h>
#include <runtime/store/row.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#define XXH_NO_INLINE_HINTS 1 // Else it cannot be compiled for a debugger.
#include <xxhash.h>

enum {
    VERSION = 1,
    STEP = 4 << 20, // Bytes by one system call, and of which one sum is made.
    NAME = 64,
};

typedef struct file_header {
    char magic[8];
    uint32_t version, header_size;
    uint64_t id, size, schema;
    uint32_t encoding, zero;
    uint64_t checksum; // Of the header with a 0 here, and the bytes.
    uint64_t last;     // 0.
} file_header;
_Static_assert(sizeof(file_header) == TRP_SPILL_HEADER, "the header of a file");

static const char magic[8] = "trpobj\r\n";
static const char prefix[] = "troupe-objects-";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // Of what follows.
static char opened[TRP_SPILL_FOLDER_MAX];                // What `folder` is.
static int folder = -1;                                  // Its lock says that it is in use.

static char planned[TRP_SPILL_FOLDER_MAX];

// ---- the folder

const char *trp_spill_folder(void)
{
    return planned;
}

// Removes those whose driver has gone and which no process says to use.
static void sweep_folders(const char *base)
{
    char mine[NAME];
    size_t size = (size_t)snprintf(mine, sizeof mine, "%s%u-", prefix, (unsigned)getuid());
    DIR *entries = opendir(base);
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        struct stat about;
        if (strncmp(entry->d_name, mine, size) != 0)
            continue;
        long pid = strtol(entry->d_name + size, NULL, 10);
        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        char path[TRP_SPILL_FOLDER_MAX + 256];
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &about) == 0 && about.st_uid == getuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
            trp_folder_remove(path);
        close(fd);
    }
    closedir(entries);
}

// Half of what is free where the files are to be.
static uint64_t default_quota(const char *base)
{
    struct statvfs about;
    return statvfs(base, &about) == 0 ? (uint64_t)about.f_bavail * about.f_frsize / 2 : 0;
}

void trp_spill_plan(const troupe_options *options)
{
    trp_header *header = trp_segment.header;
    if (folder >= 0) // Of an earlier node: nothing that is forked from here may take it for open.
        close(folder);
    folder = -1;
    planned[0] = '\0';
    header->spill_bytes_max = 0;
    atomic_store(&header->spill_sharing, TRP_SPILL_UNDECIDED);
    if (options->spill_bytes_max >= 0) {
        header->spill_bytes_max = options->spill_bytes_max > 0 ? (uint64_t)options->spill_bytes_max
                                                               : default_quota(options->spill_dir);
        // Where all may write, nobody else can have made a folder whose name he cannot know.
        int size = snprintf(planned, sizeof planned, "%s/%s%u-%d-%016llx", options->spill_dir,
                            prefix, (unsigned)getuid(), (int)getpid(),
                            (unsigned long long)trp_random_incarnation());
        if (size >= (int)sizeof planned)
            planned[0] = '\0';
        sweep_folders(options->spill_dir);
    }
    memcpy(header->spill_folder, planned, sizeof planned);
}

static troupe_status not_ours(const char *path)
{
    errno = EACCES;
    return troupe_fail(TROUPE_IO, "%s is not a folder that only this user can read", path);
}

static troupe_status open_once(const char *path, int *fd)
{
    struct stat about, named;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return trp_fail_errno(TROUPE_IO, "the folder %s for objects cannot be made", path);
    atomic_store(&trp_segment.header->spill_made, 1);
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT ? TROUPE_BUSY
                               : trp_fail_errno(TROUPE_IO, "the folder %s cannot be opened", path);
    if (fstat(*fd, &about) != 0 || about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
        close(*fd);
        return not_ours(path);
    }
    // Whoever removes what is left behind has it alone; then it is no folder any more.
    while (flock(*fd, LOCK_SH) != 0 && errno == EINTR)
        continue;
    if (stat(path, &named) == 0 && named.st_ino == about.st_ino && named.st_dev == about.st_dev)
        return TROUPE_OK;
    close(*fd);
    return TROUPE_BUSY;
}

// Opens the folder of this node, which is made where it is missing. With the lock held.
static troupe_status open_folder(void)
{
    enum { TRIES = 4 };
    const char *path = trp_segment.header->spill_folder;
    if (path[0] == '\0')
        return troupe_fail(TROUPE_UNSUPPORTED, "objects do not go to disk (.spill_bytes_max of "
                                               "troupe_start)");
    if (folder >= 0 && strcmp(opened, path) == 0)
        return TROUPE_OK;
    if (folder >= 0)
        close(folder);
    folder = -1;
    troupe_status status = TROUPE_BUSY;
    for (int i = 0; i < TRIES && status == TROUPE_BUSY; i++)
        status = open_once(path, &folder);
    if (status == TROUPE_OK) {
        strcpy(opened, path);
        return TROUPE_OK;
    }
    folder = -1;
    return status == TROUPE_BUSY
               ? troupe_fail(TROUPE_IO, "the folder %s is removed again and again", path)
               : status;
}

// Opens a file in the folder. ENOENT of a folder that was removed meanwhile opens that anew.
static troupe_status open_file(const char *name, int flags, int *fd)
{
    pthread_mutex_lock(&lock);
    troupe_status status = open_folder();
    *fd = -1;
    if (status == TROUPE_OK)
        *fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (status == TROUPE_OK && *fd < 0 && errno == ENOENT && (flags & O_CREAT) != 0) {
        opened[0] = '\0';
        status = open_folder();
        if (status == TROUPE_OK)
            *fd = openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (*fd < 0 && status == TROUPE_OK)
        status = TROUPE_NOT_FOUND; // errno says why.
    pthread_mutex_unlock(&lock);
    return status;
}

static void remove_file(const char *name)
{
    pthread_mutex_lock(&lock);
    if (open_folder() == TROUPE_OK)
        (void)unlinkat(folder, name, 0);
    pthread_mutex_unlock(&lock);
}

void trp_spill_keep(void)
{
    if (atomic_load(&trp_segment.header->spill_made) == 0)
        return;
    pthread_mutex_lock(&lock);
    (void)open_folder();
    pthread_mutex_unlock(&lock);
}

// ---- where an object's bytes are

static const char common[] = "small"; // The file of small objects.

// Each row's, and one that is no row's: where holes are tried, others may have objects by then.
static const off_t all_parts = (off_t)(TRP_OBJECTS_MAX + 1) * TRP_SPILL_PART;

static bool make_hole(int fd, off_t at)
{
    int result;
    do
        result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, TRP_SPILL_PART);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

// Whether a file can be as large here, and have holes.
static bool can_share(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= (rlim_t)all_parts &&
           ftruncate(fd, all_parts) == 0 && make_hole(fd, all_parts - TRP_SPILL_PART);
}

// Finds out, once for the whole node, whether small objects share a file.
static troupe_status decide(void)
{
    _Atomic uint32_t *decided = &trp_segment.header->spill_sharing;
    uint32_t is = atomic_load(decided);
    int fd;
    if (is != TRP_SPILL_UNDECIDED)
        return TROUPE_OK;
    TRP_FAULT("store");
    troupe_status status = open_file(common, O_RDWR | O_CREAT, &fd);
    if (status == TROUPE_NOT_FOUND)
        return trp_fail_errno(TROUPE_IO, "the file %s/%s cannot be made",
                              trp_segment.header->spill_folder, common);
    TROUPE_TRY(status);
    uint32_t found = can_share(fd) ? TRP_SPILL_TOGETHER : TRP_SPILL_APART;
    close(fd);
    // Another may have found the same before, or something else: then that holds.
    if (atomic_compare_exchange_strong(decided, &is, found) && found == TRP_SPILL_APART)
        remove_file(common);
    return TROUPE_OK;
}

// The file of an object, and where in it.
typedef struct spot {
    char name[NAME];
    bool shared;
    off_t at;
} spot;

static spot find_spot(const trp_spill_object *object)
{
    spot found = {.shared = object->size <= TRP_SPILL_SMALL &&
                            atomic_load(&trp_segment.header->spill_sharing) == TRP_SPILL_TOGETHER};
    uint64_t generation = (object->id & ~TRP_ID_BIT) >> TRP_ID_SLOT_BITS;
    uint32_t slot = trp_row_slot(object->id);
    if (found.shared) {
        snprintf(found.name, NAME, "%s", common);
        found.at = (off_t)slot * TRP_SPILL_PART;
    } else {
        snprintf(found.name, NAME, "%u.%llx", slot, (unsigned long long)generation);
    }
    return found;
}

// ---- files

static file_header header_of(const trp_spill_object *object)
{
    file_header header = {.version = VERSION,
                          .header_size = sizeof header,
                          .id = object->id,
                          .size = object->size,
                          .schema = object->schema,
                          .encoding = object->encoding};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

static bool write_all(int fd, const char *data, uint64_t size, uint64_t at)
{
    while (size > 0) {
        ssize_t did = pwrite(fd, data, size < STEP ? (size_t)size : STEP, (off_t)at);
        if (did < 0 && errno == EINTR)
            continue;
        if (did <= 0) {
            errno = did == 0 ? ENOSPC : errno;
            return false;
        }
        data += did;
        size -= (uint64_t)did;
        at += (uint64_t)did;
    }
    return true;
}

// A file that is cut to nothing when it is opened is written to the disk when it is closed, by
// ext4: this one is new, but for one that could not be removed.
static bool is_new(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && (about.st_size == 0 || ftruncate(fd, 0) == 0);
}

static bool write_object(int fd, uint64_t from, const trp_spill_object *object, const char *data)
{
    file_header header = header_of(object);
    uint64_t sum = XXH3_64bits(&header, sizeof header);
    for (uint64_t at = 0, step; at < object->size; at += step) {
        step = object->size - at < STEP ? object->size - at : STEP;
        // What has just been read for the sum is in the cache for the system.
        sum = XXH3_64bits_withSeed(data + at, step, sum);
        if (!write_all(fd, data + at, step, from + sizeof header + at))
            return false;
        TRP_FAULT("store");
    }
    header.checksum = sum;
    bool done = write_all(fd, (const char *)&header, sizeof header, from);
    TRP_FAULT("store");
    return done;
}

// A file that grows above the limit does not fail: it kills.
static troupe_status check_limit(uint64_t end, uint64_t size)
{
    struct rlimit limit;
    errno = EFBIG;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= end
               ? TROUPE_OK
               : troupe_fail(TROUPE_NO_SPACE,
                             "an object of %llu bytes cannot go to disk: files may have %llu here "
                             "(ulimit -f)",
                             (unsigned long long)size, (unsigned long long)limit.rlim_cur);
}

troupe_status trp_spill_write(const trp_spill_object *object, const void *data)
{
    int fd;
    TROUPE_TRY(check_limit(object->size + TRP_SPILL_HEADER, object->size));
    if (object->size <= TRP_SPILL_SMALL)
        TROUPE_TRY(decide());
    spot to = find_spot(object);
    TROUPE_TRY(check_limit((uint64_t)to.at + object->size + TRP_SPILL_HEADER, object->size));
    troupe_status status = open_file(to.name, O_WRONLY | O_CREAT, &fd);
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND)
        return status;
    TRP_FAULT("store");
    bool done =
        fd >= 0 && (to.shared || is_new(fd)) && write_object(fd, (uint64_t)to.at, object, data);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && done) {
        done = false;
        error = errno;
    }
    if (done)
        return TROUPE_OK;
    trp_spill_remove(object);
    errno = error;
    return trp_fail_errno(TROUPE_IO, "the file %s/%s of an object cannot be written",
                          trp_segment.header->spill_folder, to.name);
}

static troupe_status damaged(const char *name, const char *what)
{
    return troupe_fail(TROUPE_CORRUPT, "the object is lost: its file %s/%s %s",
                       trp_segment.header->spill_folder, name, what);
}

static troupe_status unreadable(const char *name)
{
    return trp_fail_errno(TROUPE_IO, "the file %s/%s of an object cannot be read",
                          trp_segment.header->spill_folder, name);
}

// 1: all was read; 0: the file ends before; -1: errno.
static int read_all(int fd, char *data, uint64_t size, uint64_t at)
{
    while (size > 0) {
        ssize_t did = pread(fd, data, size < STEP ? (size_t)size : STEP, (off_t)at);
        if (did < 0 && errno == EINTR)
            continue;
        if (did <= 0)
            return did == 0 ? 0 : -1;
        data += did;
        size -= (uint64_t)did;
        at += (uint64_t)did;
    }
    return 1;
}

// What of a file's header is not as it was written; NULL: nothing.
static const char *compare(const file_header *found, const trp_spill_object *object)
{
    file_header wanted = header_of(object);
    if (memcmp(found->magic, wanted.magic, sizeof magic) != 0)
        return "does not begin like such a file: it is incomplete, or another program's";
    if (found->version != wanted.version || found->header_size != wanted.header_size)
        return "has another version";
    if (found->id != wanted.id)
        return "is that of another object";
    if (found->size != wanted.size)
        return "names another size";
    if (found->schema != wanted.schema || found->encoding != wanted.encoding)
        return "names another type";
    return found->zero == 0 && found->last == 0 ? NULL : "is damaged: its header is wrong";
}

static troupe_status read_object(int fd, const spot *from, const trp_spill_object *object,
                                 char *data)
{
    file_header header, wanted = header_of(object);
    struct stat about;
    uint64_t begin = (uint64_t)from->at;
    if (fstat(fd, &about) != 0)
        return unreadable(from->name);
    if (!from->shared && (uint64_t)about.st_size != object->size + sizeof header)
        return damaged(from->name, "has another length than was written");
    int got = read_all(fd, (char *)&header, sizeof header, begin);
    if (got <= 0)
        return got == 0 ? damaged(from->name, "has become shorter") : unreadable(from->name);
    const char *wrong = compare(&header, object);
    if (wrong != NULL)
        return damaged(from->name, wrong);
    uint64_t sum = XXH3_64bits(&wanted, sizeof wanted);
    for (uint64_t at = 0, step; at < object->size; at += step) {
        step = object->size - at < STEP ? object->size - at : STEP;
        got = read_all(fd, data + at, step, begin + sizeof header + at);
        if (got <= 0)
            return got == 0 ? damaged(from->name, "has become shorter") : unreadable(from->name);
        sum = XXH3_64bits_withSeed(data + at, step, sum);
        TRP_FAULT("store");
    }
    return sum == header.checksum
               ? TROUPE_OK
               : damaged(from->name, "is damaged: its bytes are not those that were written");
}

troupe_status trp_spill_read(const trp_spill_object *object, void *data)
{
    spot from = find_spot(object);
    int fd;
    troupe_status status = open_file(from.name, O_RDONLY, &fd);
    if (status == TROUPE_NOT_FOUND)
        return errno == ENOENT ? damaged(from.name, "is gone") : unreadable(from.name);
    if (status != TROUPE_OK)
        return status;
    TRP_FAULT("store");
    status = read_object(fd, &from, object, data);
    close(fd);
    return status;
}

void trp_spill_remove(const trp_spill_object *object)
{
    spot of = find_spot(object);
    int fd;
    if (!of.shared) {
        remove_file(of.name);
    } else if (open_file(of.name, O_WRONLY, &fd) == TROUPE_OK) {
        (void)make_hole(fd, of.at);
        close(fd);
    }
    TRP_FAULT("store");
}
