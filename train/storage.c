// storage.c: the tables by their schemes, and what is made of their functions.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/require.h>
#include <runtime/host/folder.h>
#include <stdatomic.h>
#include <string.h>
#include <train/manifest.h>
#include <train/storage.h>
#include <train/tree.h>
#include <unistd.h>
// The code itself: a library more is five mappings more that each fork copies.
#define XXH_INLINE_ALL
#define XXH_NO_INLINE_HINTS 1 // Else it cannot be compiled for a debugger.
#include <xxhash.h>

enum {
    TABLES_MAX = 16,
    SCHEME_MAX = 32,
    PIECE = 1 << 20,   // Bytes of one read of an object,
    FIRST = 64 * 1024, // and of the first where its size is not known.
};

static struct {
    pthread_mutex_t lock; // Of writers; rows are never removed.
    const troupe_storage *rows[TABLES_MAX];
    _Atomic size_t count;
} tables = {.lock = PTHREAD_MUTEX_INITIALIZER, .rows = {&trp_storage_files}, .count = 1};

_Atomic(trp_storage_hook) trp_storage_probe;

// ---- schemes

static const troupe_storage *find(const char *scheme, size_t size)
{
    size_t count = atomic_load(&tables.count);
    for (size_t i = 0; i < count; i++)
        if (strlen(tables.rows[i]->scheme) == size &&
            memcmp(tables.rows[i]->scheme, scheme, size) == 0)
            return tables.rows[i];
    return NULL;
}

static troupe_status unknown(const char *path, size_t size)
{
    trp_buffer known = {0};
    size_t count = atomic_load(&tables.count);
    for (size_t i = 0; i < count; i++)
        trp_buffer_printf(&known, "%s'%s'", i > 0 ? ", " : "", tables.rows[i]->scheme);
    trp_buffer_append(&known, "", 1);
    troupe_status status =
        troupe_fail(TROUPE_INVALID,
                    "'%.*s' in front of %.200s is no storage that is known: expected one of %s, "
                    "or ./ in front of a local path",
                    (int)size, path, path, known.failed ? "them" : (const char *)known.data);
    trp_buffer_free(&known);
    return status;
}

// The table of a path, and what the path is in it.
static troupe_status split(const char *path, const troupe_storage **table, const char **name)
{
    size_t size = trp_path_scheme(path);
    *table = size > 0 ? find(path, size) : &trp_storage_files;
    *name = path + (size > 0 ? size + 1 : 0);
    return *table != NULL ? TROUPE_OK : unknown(path, size);
}

troupe_status trp_storage_check(const char *path)
{
    const troupe_storage *table;
    return split(path, &table, &path);
}

static troupe_status check_table(const troupe_storage *storage)
{
    const char *scheme = storage->scheme;
    if (storage->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a storage was compiled for generation %u of the library, this is %u",
                           storage->abi, TROUPE_ABI);
    if (scheme == NULL || scheme[0] < 'a' || scheme[0] > 'z' || strlen(scheme) > SCHEME_MAX ||
        scheme[strspn(scheme, TRP_SCHEME_CHARACTERS)] != '\0')
        return troupe_fail(
            TROUPE_INVALID,
            "the scheme of a storage is '%.60s': expected a lower-case letter and up "
            "to %d letters, digits, '+', '-' or '.'",
            scheme != NULL ? scheme : "", SCHEME_MAX - 1);
    if (!storage->put || !storage->put_file || !storage->get || !storage->append ||
        !storage->sync || !storage->list || !storage->remove || !storage->take || !storage->leave)
        return troupe_fail(TROUPE_INVALID,
                           "the storage '%s' lacks a function: only publish and withdraw may be "
                           "left out",
                           scheme);
    return TROUPE_OK;
}

troupe_status troupe_storage_register(const troupe_storage *storage)
{
    TRP_REQUIRE(storage);
    TROUPE_TRY(check_table(storage));
    pthread_mutex_lock(&tables.lock);
    size_t count = atomic_load(&tables.count);
    const troupe_storage *there = find(storage->scheme, strlen(storage->scheme));
    troupe_status status = TROUPE_OK;
    if (there != NULL && there != storage)
        status = troupe_fail(TROUPE_INVALID, "there is another storage of the scheme '%s'",
                             storage->scheme);
    else if (there == NULL && count == TABLES_MAX)
        status = troupe_fail(TROUPE_NO_MEMORY, "no more than %d storages can be known", TABLES_MAX);
    if (status == TROUPE_OK && there == NULL) {
        tables.rows[count] = storage;
        atomic_store(&tables.count, count + 1);
    }
    pthread_mutex_unlock(&tables.lock);
    return status;
}

// ---- one call each

// For a change: whether a test has it fail.
static troupe_status begin(const char *step, const char *path, const troupe_storage **table,
                           const char **name)
{
    trp_storage_hook hook = atomic_load(&trp_storage_probe);
    TROUPE_TRY(split(path, table, name));
    int code = hook != NULL ? hook(step, path) : 0;
    if (code == 0)
        return TROUPE_OK;
    errno = code;
    return trp_fail_errno(TROUPE_IO, "cannot %s %s", step, path);
}

troupe_status trp_storage_put(const char *path, const void *data, size_t size)
{
    const troupe_storage *table;
    const char *name;
    TROUPE_TRY(begin("put", path, &table, &name));
    return table->put(table->user, name, data, size);
}

troupe_status trp_storage_append(const char *path, uint64_t offset, const void *data, size_t size)
{
    const troupe_storage *table;
    const char *name;
    TROUPE_TRY(begin("append", path, &table, &name));
    return table->append(table->user, name, offset, data, size);
}

troupe_status trp_storage_sync(const char *path)
{
    const troupe_storage *table;
    const char *name;
    TROUPE_TRY(begin("sync", path, &table, &name));
    return table->sync(table->user, name);
}

troupe_status trp_storage_remove(const char *path)
{
    const troupe_storage *table;
    const char *name;
    TROUPE_TRY(begin("remove", path, &table, &name));
    return table->remove(table->user, name);
}

troupe_status trp_storage_list(const char *path, trp_storage_each each, void *user)
{
    const troupe_storage *table;
    TROUPE_TRY(split(path, &table, &path));
    return table->list(table->user, path, each, user);
}

troupe_status trp_storage_take(const char *path)
{
    const troupe_storage *table;
    TROUPE_TRY(split(path, &table, &path));
    return table->take(table->user, path);
}

void trp_storage_leave(const char *path)
{
    const troupe_storage *table;
    troupe_error kept;
    trp_error_hold(&kept); // It may be left because something else has failed.
    if (split(path, &table, &path) == TROUPE_OK)
        table->leave(table->user, path);
    trp_error_restore(&kept);
}

static void note_child(void *user, const char *child)
{
    (void)child;
    *(bool *)user = true;
}

troupe_status trp_storage_has(const char *path, bool *has)
{
    *has = false;
    troupe_status status = trp_storage_list(path, note_child, has);
    return status == TROUPE_NOT_FOUND ? TROUPE_OK : status;
}

// ---- reading

troupe_status trp_storage_read(const char *path, unsigned char **data, size_t *size)
{
    const troupe_storage *table;
    const char *name;
    TROUPE_TRY(split(path, &table, &name));
    if (table == &trp_storage_files)
        return trp_file_read(name, data, size);
    unsigned char *bytes = NULL;
    size_t held = 0, room = 0, got = 0;
    do {
        room = room > 0 ? 2 * room : FIRST;
        unsigned char *grown = (unsigned char *)trp_realloc(bytes, room);
        troupe_status status =
            grown != NULL ? table->get(table->user, name, held, grown + held, room - held, &got)
                          : troupe_fail(TROUPE_NO_MEMORY, "no memory for the bytes of %s", path);
        bytes = grown != NULL ? grown : bytes;
        if (status != TROUPE_OK) {
            trp_free(bytes);
            return status;
        }
        held += got;
    } while (held == room);
    *data = bytes;
    *size = held;
    return TROUPE_OK;
}

// Takes an object a piece at a time.
typedef troupe_status (*take_piece)(void *user, const void *data, size_t size);
static troupe_status read_pieces(const char *path, uint64_t most, take_piece take, void *user)
{
    const troupe_storage *table;
    const char *name;
    TROUPE_TRY(split(path, &table, &name));
    unsigned char *piece = (unsigned char *)trp_alloc(PIECE);
    if (piece == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to read %s", path);
    troupe_status status = TROUPE_OK;
    size_t got = PIECE;
    for (uint64_t at = 0; status == TROUPE_OK && got == PIECE && at <= most; at += got) {
        status = table->get(table->user, name, at, piece, PIECE, &got);
        if (status == TROUPE_OK)
            status = take(user, piece, got);
    }
    trp_free(piece);
    return status;
}

typedef struct copy {
    const char *file;
    int fd;
} copy;

static troupe_status write_piece(void *user, const void *data, size_t size)
{
    const copy *to = (const copy *)user;
    const char *at = (const char *)data;
    while (size > 0) {
        ssize_t written = trp_file_refuses("write") ? -1 : write(to->fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return trp_fail_errno(TROUPE_IO, "cannot write %s", to->file);
        at += written;
        size -= (size_t)written;
    }
    return TROUPE_OK;
}

troupe_status trp_storage_fetch(const char *path, const char *file, uint64_t most)
{
    copy to = {.file = file};
    to.fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (to.fd < 0)
        return trp_fail_errno(errno == EEXIST || errno == ENOTDIR ? TROUPE_CORRUPT : TROUPE_IO,
                              "cannot make %s", file);
    troupe_status status = read_pieces(path, most, write_piece, &to);
    if (close(to.fd) && status == TROUPE_OK)
        status = trp_fail_errno(TROUPE_IO, "cannot close %s", file);
    return status;
}

typedef struct summing {
    XXH64_state_t sum;
    uint64_t size;
} summing;

static troupe_status sum_piece(void *user, const void *data, size_t size)
{
    summing *work = (summing *)user;
    work->size += size;
    (void)XXH64_update(&work->sum, data, size);
    return TROUPE_OK;
}

troupe_status trp_storage_digest(const char *path, uint64_t *size, uint64_t *digest)
{
    summing work = {.size = 0};
    (void)XXH64_reset(&work.sum, 0);
    TROUPE_TRY(read_pieces(path, UINT64_MAX, sum_piece, &work));
    *size = work.size;
    *digest = XXH64_digest(&work.sum);
    return TROUPE_OK;
}

// ---- prefixes

typedef struct publishing {
    const troupe_storage *table;
    const char *name, *path, *folder;
} publishing;

static troupe_status put_one(const publishing *work, const char *file)
{
    trp_path name, from, path;
    const troupe_storage *table;
    const char *behind;
    TROUPE_TRY(trp_path_make(&path, "%s/%s", work->path, file));
    TROUPE_TRY(begin("put", path.text, &table, &behind));
    TROUPE_TRY(trp_path_make(&name, "%s/%s", work->name, file));
    TROUPE_TRY(trp_path_make(&from, "%s/%s", work->folder, file));
    return table->put_file(table->user, name.text, from.text);
}

static troupe_status put_node(void *user, const trp_tree_node *node)
{
    if (node->kind != TRP_TREE_FILE || strcmp(node->path, TRP_MANIFEST_NAME) == 0)
        return TROUPE_OK;
    return put_one((const publishing *)user, node->path);
}

troupe_status trp_storage_publish(const char *path, const char *folder)
{
    publishing work = {.path = path, .folder = folder};
    TROUPE_TRY(begin("publish", path, &work.table, &work.name));
    if (work.table->publish != NULL)
        return work.table->publish(work.table->user, work.name, folder);
    troupe_status status = trp_tree_walk(folder, put_node, &work);
    if (status == TROUPE_OK)
        status = put_one(&work, TRP_MANIFEST_NAME);
    if (status == TROUPE_OK)
        return status;
    troupe_error kept;
    trp_error_hold(&kept);
    (void)trp_storage_withdraw(path); // Else the next cleaning does.
    trp_error_restore(&kept);
    return status;
}

static void keep_child(void *user, const char *child)
{
    trp_buffer_append((trp_buffer *)user, child, strlen(child) + 1);
}

static troupe_status remove_below(const char *path, int depth)
{
    trp_buffer children = {0};
    troupe_status status = trp_storage_list(path, keep_child, &children), first = TROUPE_OK;
    if (status == TROUPE_OK && children.failed)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for what is below %s", path);
    const char *child = (const char *)children.data;
    for (size_t at = 0; status == TROUPE_OK && at < children.size; at += strlen(child + at) + 1) {
        size_t length = strlen(child + at);
        trp_path below;
        bool more = child[at + length - 1] == '/';
        troupe_status one =
            trp_path_make(&below, "%s/%.*s", path, (int)(length - more), child + at);
        if (one == TROUPE_OK && more)
            one = depth < TRP_TREE_DEPTH ? remove_below(below.text, depth + 1)
                                         : troupe_fail(TROUPE_TOO_LARGE, "%s is too deep", path);
        else if (one == TROUPE_OK)
            one = trp_storage_remove(below.text);
        if (one != TROUPE_OK && one != TROUPE_NOT_FOUND && first == TROUPE_OK)
            first = one;
    }
    trp_buffer_free(&children);
    if (status == TROUPE_NOT_FOUND)
        status = TROUPE_OK;
    return status != TROUPE_OK ? status : first;
}

troupe_status trp_storage_withdraw(const char *path)
{
    const troupe_storage *table;
    const char *name;
    trp_path manifest;
    TROUPE_TRY(begin("withdraw", path, &table, &name));
    if (table->withdraw != NULL)
        return table->withdraw(table->user, name);
    TROUPE_TRY(trp_path_make(&manifest, "%s/" TRP_MANIFEST_NAME, path));
    troupe_status status = trp_storage_remove(manifest.text);
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND)
        return status;
    return remove_below(path, 0);
}
