// tree.c: walks by openat from an open root, so that nobody who renames or links meanwhile can lead
// it out.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <runtime/host/folder.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <train/tree.h>
#include <unistd.h>

typedef struct walk {
    const char *root;
    troupe_status (*visit)(void *user, const trp_tree_node *node);
    void *user;
    trp_path path; // Where it is, from the root.
} walk;

static troupe_status walk_folder(walk *it, trp_tree_node *node);

static trp_tree_kind kind_of(mode_t mode)
{
    return S_ISDIR(mode)   ? TRP_TREE_ENTER
           : S_ISREG(mode) ? TRP_TREE_FILE
           : S_ISLNK(mode) ? TRP_TREE_LINK
                           : TRP_TREE_OTHER;
}

// One entry of an open folder.
static troupe_status walk_entry(walk *it, const trp_tree_node *above, const char *name)
{
    struct stat about;
    size_t length = strlen(it->path.text);
    int added = snprintf(it->path.text + length, sizeof(it->path.text) - length, "%s%s",
                         length ? "/" : "", name);
    if (added < 0 || (size_t)added >= sizeof(it->path.text) - length)
        return troupe_fail(TROUPE_TOO_LARGE, "a path in %s is longer than %zu bytes", it->root,
                           sizeof(it->path.text) - 1);
    troupe_status status = TROUPE_OK;
    if (fstatat(above->fd, name, &about, AT_SYMLINK_NOFOLLOW)) {
        if (errno != ENOENT) // Gone meanwhile: as if it had not been there.
            status = trp_fail_errno(TROUPE_IO, "cannot look at %s/%s", it->root, it->path.text);
    } else {
        trp_tree_node node = {
            .kind = kind_of(about.st_mode),
            .path = it->path.text,
            .name = it->path.text + length + (length ? 1 : 0),
            .parent = above->fd,
            .fd = -1,
            .depth = above->depth + 1,
            .mode = about.st_mode,
        };
        status = node.kind == TRP_TREE_ENTER ? walk_folder(it, &node) : it->visit(it->user, &node);
    }
    it->path.text[length] = '\0';
    return status;
}

static troupe_status walk_entries(walk *it, trp_tree_node *node)
{
    int fd = dup(node->fd); // That of the stream is closed with it.
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries) {
        troupe_status status =
            trp_fail_errno(TROUPE_IO, "cannot read the folder %s/%s", it->root, it->path.text);
        if (fd >= 0)
            close(fd);
        return status;
    }
    troupe_status status = TROUPE_OK;
    node->empty = true;
    for (struct dirent *entry; status == TROUPE_OK && (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        node->empty = false;
        status = walk_entry(it, node, entry->d_name);
    }
    closedir(entries);
    return status;
}

static troupe_status walk_folder(walk *it, trp_tree_node *node)
{
    if (node->depth >= TRP_TREE_DEPTH)
        return troupe_fail(TROUPE_TOO_LARGE, "%s/%s is deeper than %d folders", it->root,
                           it->path.text, TRP_TREE_DEPTH);
    node->fd = node->parent < 0 ? open(it->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                : openat(node->parent, node->name,
                                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (node->fd < 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "cannot open the folder %s%s%s", it->root, node->path[0] ? "/" : "",
                              node->path);
    troupe_status status = it->visit(it->user, node);
    if (status == TROUPE_OK)
        status = walk_entries(it, node);
    if (status == TROUPE_OK) {
        node->kind = TRP_TREE_LEAVE;
        status = it->visit(it->user, node);
    }
    close(node->fd);
    return status;
}

troupe_status trp_tree_walk(const char *root,
                            troupe_status (*visit)(void *user, const trp_tree_node *node),
                            void *user)
{
    walk it = {.root = root, .visit = visit, .user = user};
    trp_tree_node node = {
        .kind = TRP_TREE_ENTER, .path = it.path.text, .name = root, .parent = -1, .depth = -1};
    return walk_folder(&it, &node);
}

// ---- copying

static troupe_status copy_bytes(int from, int to, const char *path)
{
    enum { STEP = 1 << 30, BUFFER = 256 << 10 };
    if (ioctl(to, FICLONE, from) == 0)
        return TROUPE_OK;
    ssize_t moved;
    bool any = false;
    while (
        (moved = trp_file_refuses("write") ? -1 : copy_file_range(from, NULL, to, NULL, STEP, 0)))
        if (moved > 0)
            any = true;
        else if (errno != EINTR)
            break;
    if (moved == 0)
        return TROUPE_OK;
    // Not between these two file systems, or not of this one.
    if (any || (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP))
        return trp_fail_errno(TROUPE_IO, "cannot write %s", path);
    char *buffer = (char *)trp_alloc(BUFFER);
    if (!buffer)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to copy %s", path);
    troupe_status status = TROUPE_OK;
    ssize_t got;
    while (status == TROUPE_OK &&
           ((got = read(from, buffer, BUFFER)) > 0 || (got < 0 && errno == EINTR)))
        for (ssize_t at = 0; status == TROUPE_OK && at < got;) {
            ssize_t written = write(to, buffer + at, (size_t)(got - at));
            if (written < 0 && errno != EINTR)
                status = trp_fail_errno(TROUPE_IO, "cannot write %s", path);
            at += written > 0 ? written : 0;
        }
    if (status == TROUPE_OK && got < 0)
        status = trp_fail_errno(TROUPE_IO, "cannot read what is copied to %s", path);
    trp_free(buffer);
    return status;
}

static troupe_status copy_file(int parent, const char *name, const char *to)
{
    int in = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", name);
    (void)unlink(to); // A link that is there is replaced, and not followed.
    int out = -1;
    if (!trp_file_refuses("open"))
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, trp_file_mode());
    troupe_status status =
        out < 0 ? trp_fail_errno(TROUPE_IO, "cannot make %s", to) : copy_bytes(in, out, to);
    close(in);
    if (out >= 0 && close(out) && status == TROUPE_OK)
        status = trp_fail_errno(TROUPE_IO, "cannot close %s", to);
    return status;
}

static troupe_status copy_link(int parent, const char *name, const char *to)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(parent, name, target, sizeof(target) - 1);
    if (length < 0)
        return trp_fail_errno(TROUPE_IO, "cannot read the link %s", name);
    target[length] = '\0';
    (void)unlink(to);
    if (trp_file_refuses("link") || symlink(target, to))
        return trp_fail_errno(TROUPE_IO, "cannot make the link %s", to);
    return TROUPE_OK;
}

static troupe_status copy_node(void *user, const trp_tree_node *node)
{
    const char *base = (const char *)user;
    trp_path to;
    TROUPE_TRY(trp_path_make(&to, "%s%s%s", base, node->path[0] ? "/" : "", node->path));
    switch (node->kind) {
    case TRP_TREE_ENTER: {
        troupe_status status = trp_folder_make_new(to.text);
        return status == TROUPE_EXISTS ? TROUPE_OK : status;
    }
    case TRP_TREE_FILE:
        return copy_file(node->parent, node->name, to.text);
    case TRP_TREE_LINK:
        return copy_link(node->parent, node->name, to.text);
    case TRP_TREE_OTHER:
        return troupe_fail(TROUPE_INVALID,
                           "%s is a pipe, a socket or a device: expected files, folders and links",
                           node->path);
    case TRP_TREE_LEAVE:
        break;
    }
    return TROUPE_OK;
}

troupe_status trp_tree_copy(const char *from, const char *to)
{
    struct stat about;
    if (lstat(from, &about))
        return trp_fail_errno(errno == ENOENT || errno == ENOTDIR ? TROUPE_NOT_FOUND : TROUPE_IO,
                              "cannot copy %s", from);
    switch (kind_of(about.st_mode)) {
    case TRP_TREE_FILE:
        return copy_file(AT_FDCWD, from, to);
    case TRP_TREE_LINK:
        return copy_link(AT_FDCWD, from, to);
    case TRP_TREE_ENTER:
        return trp_tree_walk(from, copy_node, (void *)(uintptr_t)to);
    default:
        return troupe_fail(TROUPE_INVALID,
                           "%s is a pipe, a socket or a device: expected a file or a folder", from);
    }
}

// ---- removing

typedef struct removal {
    int error; // Of the first that could not be removed.
} removal;

static troupe_status remove_node(void *user, const trp_tree_node *node)
{
    removal *work = (removal *)user;
    bool folder = node->kind == TRP_TREE_LEAVE;
    if (node->kind == TRP_TREE_ENTER || node->parent < 0)
        return TROUPE_OK;
    bool refused = trp_file_refuses(folder ? "rmdir" : "unlink");
    if ((refused || unlinkat(node->parent, node->name, folder ? AT_REMOVEDIR : 0)) &&
        errno != ENOENT && !work->error)
        work->error = errno;
    return TROUPE_OK;
}

// A link alone: what it leads to is somebody else's.
static bool remove_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode) && unlink(path) == 0;
}

troupe_status trp_folder_discard(const char *path)
{
    if (remove_link(path))
        return TROUPE_OK;
    removal work = {0};
    TROUPE_TRY(trp_tree_walk(path, remove_node, &work));
    if ((trp_file_refuses("rmdir") || rmdir(path)) && !work.error)
        work.error = errno;
    if (!work.error)
        return TROUPE_OK;
    errno = work.error;
    return trp_fail_errno(TROUPE_IO, "cannot remove the folder %s with all that is in it", path);
}
