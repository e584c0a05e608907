// keys.c: see keys.h.
#include <runtime/link/keys.h>

#include <errno.h>
#include <fcntl.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/link/zmq.h>
#include <runtime/link/zmq_acceptor.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <troupe/node.h>
#include <unistd.h>

enum { PATH_MAX_SHOWN = 1024, TEXT_MAX = 2 * TRP_KEY_TEXT + 2 };

// Gives the draft its name, unless that is taken: nothing that came meanwhile is replaced. Some
// file systems know one way, others the other.
static bool give_name(const char *draft, const char *path)
{
    enum { NO_REPLACE = 1 }; // RENAME_NOREPLACE of linux/fs.h
    if (syscall(SYS_renameat2, AT_FDCWD, draft, AT_FDCWD, path, NO_REPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    return link(draft, path) == 0 && unlink(draft) == 0;
}

troupe_status trp_text_write(const char *path, const char *text)
{
    char draft[PATH_MAX_SHOWN];
    // What somebody has left behind who was killed here keeps nobody from writing.
    int size =
        snprintf(draft, sizeof draft, "%s.%08x.new", path, (unsigned)trp_random_incarnation());
    if (size >= (int)sizeof draft)
        return troupe_fail(TROUPE_INVALID, "the path of a file has %zu bytes, expected at most %d",
                           strlen(path), (int)sizeof draft - 14);
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    if (written && give_name(draft, path))
        return TROUPE_OK;
    int error = errno;
    if (fd >= 0)
        (void)unlink(draft);
    errno = error;
    return error == EEXIST ? troupe_fail(TROUPE_EXISTS, "%s exists already", path)
                           : trp_fail_errno(TROUPE_IO, "%s could not be written", path);
}

static troupe_status read_all(int fd, const char *path, char *text, size_t capacity)
{
    ssize_t size = fd >= 0 ? read(fd, text, capacity - 1) : -1;
    if (size < 0)
        return trp_fail_errno(TROUPE_IO, "%s could not be read", path);
    text[size] = '\0';
    return TROUPE_OK;
}

troupe_status trp_text_read(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    troupe_status status = read_all(fd, path, text, capacity);
    if (fd >= 0)
        close(fd);
    return status;
}

troupe_status trp_keys_write(const char *path, const trp_key_pair *keys)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "%s\n%s\n", keys->public_key, keys->secret_key);
    troupe_status status = trp_text_write(path, text);
    explicit_bzero(text, sizeof text);
    return status;
}

// What is checked is what was opened: another file may have the name a moment later.
static troupe_status check_file(int fd, const char *path)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return trp_fail_errno(TROUPE_IO, "%s could not be read", path);
    if (!S_ISREG(about.st_mode))
        return troupe_fail(TROUPE_INVALID, "the keys in %s: not a regular file", path);
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return troupe_fail(TROUPE_INVALID,
                           "the keys in %s belong to user %u: expected this user's (%u)", path,
                           (unsigned)about.st_uid, (unsigned)geteuid());
    if ((about.st_mode & 077) != 0)
        return troupe_fail(TROUPE_INVALID,
                           "the keys in %s can be read by other users (mode %03o): expected 600",
                           path, (unsigned)about.st_mode & 0777);
    return TROUPE_OK;
}

static bool is_key(const char *text)
{
    // Of Z85, which ZeroMQ writes keys in.
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   ".-:+=^!/*?&<>()[]{}@%$#";
    return strspn(text, alphabet) == TRP_KEY_TEXT - 1 && text[TRP_KEY_TEXT - 1] == '\0';
}

troupe_status trp_keys_read(const char *path, trp_key_pair *keys)
{
    char text[TEXT_MAX];
    memset(keys, 0, sizeof *keys);
    // A pipe of that name would be waited for.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP)
        return troupe_fail(TROUPE_INVALID, "the keys in %s: it is a link, expected the file itself",
                           path);
    troupe_status status = fd >= 0 ? check_file(fd, path) : TROUPE_OK;
    if (status == TROUPE_OK)
        status = read_all(fd, path, text, sizeof text);
    if (fd >= 0)
        close(fd);
    if (status != TROUPE_OK)
        return status;
    if (sscanf(text, "%40s %40s", keys->public_key, keys->secret_key) != 2 ||
        !is_key(keys->public_key) || !is_key(keys->secret_key))
        status =
            troupe_fail(TROUPE_CORRUPT, "%s does not hold two keys of 40 characters of Z85", path);
    explicit_bzero(text, sizeof text);
    return status;
}

trp_key_pair *trp_keys_hold(void)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a pair of keys");
        return NULL;
    }
    (void)madvise(page, 1, MADV_DONTDUMP);
    (void)madvise(page, 1, MADV_WIPEONFORK);
    (void)mlock(page, 1); // Nor on disk, where the system allows that.
    return page;
}

void trp_keys_release(trp_key_pair *keys)
{
    if (keys == NULL)
        return;
    explicit_bzero(keys, sizeof *keys);
    (void)munmap(keys, (size_t)sysconf(_SC_PAGESIZE));
}

troupe_status troupe_keys_make(const char *path)
{
    TRP_REQUIRE(path);
    struct stat there;
    if (path[0] == '\0')
        return troupe_fail(TROUPE_INVALID, "troupe_keys_make was given no path");
    if (lstat(path, &there) == 0)
        return troupe_fail(TROUPE_EXISTS, "%s exists; keys are made in a new file", path);
    return trp_transport_keys_make(path);
}
