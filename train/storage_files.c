// storage_files.c: local files as a table: names are paths.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <runtime/host/folder.h>
#include <string.h>
#include <sys/stat.h>
#include <train/storage.h>
#include <train/tree.h>
#include <unistd.h>

#define REMOVED ".removed_"

static troupe_status missing_or(troupe_status status)
{
    return errno == ENOENT || errno == ENOTDIR ? TROUPE_NOT_FOUND : status;
}

static troupe_status parent_of(const char *name, trp_path *folder)
{
    const char *last = strrchr(name, '/');
    return trp_path_make(folder, "%.*s", last != NULL && last > name ? (int)(last - name) : 1,
                         last != NULL ? name : ".");
}

static troupe_status put(void *user, const char *name, const void *data, size_t size)
{
    (void)user;
    return trp_file_replace(name, data, size);
}

static troupe_status put_file(void *user, const char *name, const char *file)
{
    (void)user;
    trp_path made, folder;
    TROUPE_TRY(trp_path_make(&made, "%s.new", name));
    TROUPE_TRY(parent_of(name, &folder));
    troupe_status status = trp_tree_copy(file, made.text);
    int fd = status == TROUPE_OK ? open(made.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (status == TROUPE_OK)
        status = fd >= 0 ? trp_file_sync(fd, made.text)
                         : trp_fail_errno(TROUPE_IO, "cannot open %s", made.text);
    if (fd >= 0)
        close(fd);
    if (status == TROUPE_OK)
        status = trp_folder_rename(made.text, name);
    if (status != TROUPE_OK) {
        (void)unlink(made.text);
        return status;
    }
    return trp_folder_sync(folder.text);
}

static troupe_status get(void *user, const char *name, uint64_t offset, void *data, size_t size,
                         size_t *got)
{
    (void)user;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(missing_or(TROUPE_IO), "cannot open %s", name);
    size_t held = 0;
    troupe_status status = TROUPE_OK;
    while (held < size) {
        ssize_t more = pread(fd, (char *)data + held, size - held, (off_t)(offset + held));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            status = trp_fail_errno(TROUPE_IO, "cannot read %s", name);
        if (more <= 0)
            break;
        held += (size_t)more;
    }
    close(fd);
    if (status == TROUPE_OK)
        *got = held;
    return status;
}

static troupe_status append(void *user, const char *name, uint64_t offset, const void *data,
                            size_t size)
{
    (void)user;
    struct stat about;
    int fd = open(name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", name);
    troupe_status status = TROUPE_OK;
    if (fstat(fd, &about) != 0 ||
        ((uint64_t)about.st_size > offset && ftruncate(fd, (off_t)offset)))
        status = trp_fail_errno(TROUPE_IO, "cannot cut %s", name);
    else if ((uint64_t)about.st_size < offset)
        status = troupe_fail(TROUPE_INVALID, "%s has %lld bytes, nothing can be added at %" PRIu64,
                             name, (long long)about.st_size, offset);
    while (status == TROUPE_OK && size > 0) {
        ssize_t written = pwrite(fd, data, size, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            status = trp_fail_errno(TROUPE_IO, "cannot write %s", name);
            break;
        }
        data = (const char *)data + written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    if (close(fd) && status == TROUPE_OK)
        status = trp_fail_errno(TROUPE_IO, "cannot close %s", name);
    return status;
}

static troupe_status sync_file(void *user, const char *name)
{
    (void)user;
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return trp_fail_errno(missing_or(TROUPE_IO), "cannot open %s", name);
    troupe_status status = trp_file_sync(fd, name);
    close(fd);
    return status;
}

static bool is_folder(int folder, const struct dirent *entry)
{
    struct stat about;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(folder, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(about.st_mode);
}

static troupe_status list(void *user, const char *name, void (*each)(void *to, const char *child),
                          void *to)
{
    (void)user;
    DIR *folder = opendir(name);
    if (folder == NULL)
        return trp_fail_errno(missing_or(TROUPE_IO), "cannot open the folder %s", name);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char child[NAME_MAX + 2];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        size_t length = strlen(entry->d_name);
        memcpy(child, entry->d_name, length + 1);
        if (is_folder(dirfd(folder), entry))
            memcpy(child + length, "/", 2);
        each(to, child);
    }
    closedir(folder);
    return TROUPE_OK;
}

static troupe_status remove_file(void *user, const char *name)
{
    (void)user;
    trp_path folder;
    TROUPE_TRY(parent_of(name, &folder));
    if (unlink(name) == 0)
        return trp_folder_sync(folder.text);
    return trp_fail_errno(missing_or(TROUPE_IO), "cannot remove %s", name);
}

// A run's owner is known by the locks of train/alive.h.
static troupe_status take(void *user, const char *name)
{
    (void)user, (void)name;
    return TROUPE_OK;
}

static void leave(void *user, const char *name)
{
    (void)user, (void)name;
}

static troupe_status publish(void *user, const char *name, const char *folder)
{
    (void)user;
    trp_path above;
    troupe_error kept;
    TROUPE_TRY(parent_of(name, &above));
    TROUPE_TRY(trp_folder_rename(folder, name));
    troupe_status status = trp_folder_sync(above.text);
    if (status == TROUPE_OK)
        return status;
    trp_error_hold(&kept);
    // What may not last is not there: it goes back to where it is discarded.
    if (trp_folder_rename(name, folder) != TROUPE_OK)
        trp_log(TRP_WARN, "%s stays, but may not last: %s", name, troupe_last_error()->text);
    trp_error_restore(&kept);
    return status;
}

// checkpoint_000007 becomes .removed_000007.
static troupe_status withdraw(void *user, const char *name)
{
    (void)user;
    trp_path above, removed;
    const char *last = strrchr(name, '_');
    TROUPE_TRY(parent_of(name, &above));
    TROUPE_TRY(trp_path_make(&removed, "%s/" REMOVED "%s", above.text,
                             last != NULL && !strchr(last, '/') ? last + 1 : "folder"));
    // Renamed first, so that no crash leaves a checkpoint that lacks some of its files. Not synced:
    // one that comes back after a loss of power is an old one, and is verified before it is used.
    TROUPE_TRY(trp_folder_rename(name, removed.text));
    return trp_folder_discard(removed.text);
}

const troupe_storage trp_storage_files = {
    .abi = TROUPE_ABI,
    .scheme = "file",
    .put = put,
    .put_file = put_file,
    .get = get,
    .append = append,
    .sync = sync_file,
    .list = list,
    .remove = remove_file,
    .take = take,
    .leave = leave,
    .publish = publish,
    .withdraw = withdraw,
};
