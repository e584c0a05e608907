// keys.c: see keys.h.
#include <runtime/keys.h>

#include <fcntl.h>
#include <runtime/error.h>
#include <runtime/require.h>
#include <runtime/transport.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe/node.h>
#include <unistd.h>

enum { PATH_MAX_SHOWN = 1024 };

troupe_status trp_text_write(const char *path, const char *text)
{
    char draft[PATH_MAX_SHOWN];
    int size = snprintf(draft, sizeof draft, "%s.new", path);
    if (size >= (int)sizeof draft)
        return troupe_fail(TROUPE_INVALID, "the path of a file has %d bytes, expected at most %d",
                           size - 4, (int)sizeof draft - 5);
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written && rename(draft, path) == 0
               ? TROUPE_OK
               : trp_fail_errno(TROUPE_IO, "%s could not be written", path);
}

troupe_status trp_text_read(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, capacity - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (size < 0)
        return trp_fail_errno(TROUPE_IO, "%s could not be read", path);
    text[size] = '\0';
    return TROUPE_OK;
}

troupe_status trp_keys_write(const char *path, const trp_key_pair *keys)
{
    char text[2 * TRP_KEY_TEXT + 2];
    snprintf(text, sizeof text, "%s\n%s\n", keys->public_key, keys->secret_key);
    return trp_text_write(path, text);
}

troupe_status trp_keys_read(const char *path, bool secret, trp_key_pair *keys)
{
    // Of Z85, which ZeroMQ writes keys in.
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   ".-:+=^!/*?&<>()[]{}@%$#";
    char text[2 * TRP_KEY_TEXT + 2];
    struct stat about;
    if (secret && stat(path, &about) == 0 && (about.st_mode & 077) != 0)
        return troupe_fail(TROUPE_INVALID,
                           "the keys in %s may be used by others too (mode %03o): expected 600",
                           path, (unsigned)about.st_mode & 0777);
    TROUPE_TRY(trp_text_read(path, text, sizeof text));
    if (sscanf(text, "%40s %40s", keys->public_key, keys->secret_key) != 2 ||
        strlen(keys->public_key) != TRP_KEY_TEXT - 1 ||
        strlen(keys->secret_key) != TRP_KEY_TEXT - 1 ||
        strspn(keys->public_key, alphabet) != TRP_KEY_TEXT - 1 ||
        strspn(keys->secret_key, alphabet) != TRP_KEY_TEXT - 1)
        return troupe_fail(TROUPE_CORRUPT, "%s does not hold two keys of 40 characters of Z85",
                           path);
    return TROUPE_OK;
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
