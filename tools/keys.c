// keys.c: `troupe keys`: a cluster's keys file, and certificates of CZMQ made from it and into it.
// CZMQ is loaded here, when it is asked for: the library does without.
#include "troupe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe.h>
#include <unistd.h>

enum { KEY_TEXT = 41, KEY_BYTES = 32, PATH_BYTES = 4096 };

typedef struct pair {
    char public_key[KEY_TEXT], secret_key[KEY_TEXT]; // In Z85.
} pair;

static void usage(FILE *out)
{
    fprintf(out,
            "usage: troupe keys make FILE\n"
            "       troupe keys show FILE\n"
            "       troupe keys export [--public] FILE CERTIFICATE\n"
            "       troupe keys import CERTIFICATE FILE\n\n"
            "Makes a cluster's keys, and reads and writes certificates of CZMQ (zcert).\n\n"
            "  make    makes a new pair of keys in a new FILE that only you may read\n"
            "  show    prints the public key of FILE\n"
            "  export  writes the pair of FILE as CERTIFICATE and CERTIFICATE_secret;\n"
            "          --public: the first alone, which may be given to others\n"
            "  import  writes the pair of CERTIFICATE (or CERTIFICATE_secret) into a new FILE\n\n"
            "export and import need CZMQ (Debian's package libczmq4).\n");
}

static int failed(const char *what, const char *path)
{
    fprintf(stderr, "troupe keys: %s %s: %s\n", path, what, strerror(errno));
    return TOOL_FAILED;
}

// ---- the keys file

static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               ".-:+=^!/*?&<>()[]{}@%$#";

static bool is_key(const char *text)
{
    return strspn(text, alphabet) == KEY_TEXT - 1 && text[KEY_TEXT - 1] == '\0';
}

// Only from a file that nobody else may read, as a node does.
static int read_pair(const char *path, pair *keys)
{
    char text[2 * KEY_TEXT + 2] = "";
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) != 0 ||
        (S_ISREG(about.st_mode) && // A folder fails in read.
         read(fd, text, sizeof text - 1) < 0)) {
        int status = failed("could not be read", path);
        if (fd >= 0)
            close(fd);
        return status;
    }
    close(fd);
    if (!S_ISREG(about.st_mode) || (about.st_uid != geteuid() && about.st_uid != 0) ||
        (about.st_mode & 077) != 0) {
        fprintf(stderr,
                "troupe keys: %s must be a file of yours that no other user may use (mode 600)\n",
                path);
        return TOOL_FAILED;
    }
    bool good = sscanf(text, "%40s %40s", keys->public_key, keys->secret_key) == 2 &&
                is_key(keys->public_key) && is_key(keys->secret_key);
    explicit_bzero(text, sizeof text);
    if (!good)
        fprintf(stderr, "troupe keys: %s does not hold two keys of 40 characters of Z85\n", path);
    return good ? TOOL_DONE : TOOL_FAILED;
}

static int write_pair(const char *path, const pair *keys)
{
    char text[2 * KEY_TEXT + 2];
    int size = snprintf(text, sizeof text, "%s\n%s\n", keys->public_key, keys->secret_key);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return failed("could not be made", path);
    bool written = write(fd, text, (size_t)size) == size;
    written = close(fd) == 0 && written;
    explicit_bzero(text, sizeof text);
    if (written)
        return TOOL_DONE;
    int status = failed("could not be written", path);
    (void)unlink(path);
    return status;
}

// ---- CZMQ

typedef struct zcert zcert;

static struct {
    zcert *(*create)(const uint8_t *public_key, const uint8_t *secret_key);
    zcert *(*load)(const char *path);
    void (*destroy)(zcert **it);
    const char *(*public_text)(zcert *it);
    const char *(*secret_text)(zcert *it);
    int (*save_public)(zcert *it, const char *path);
    int (*save_secret)(zcert *it, const char *path);
    uint8_t *(*decode)(uint8_t *bytes, const char *text); // libzmq's.
} czmq;

static bool load_czmq(void)
{
    static const struct {
        const char *name;
        void **function;
    } wanted[] = {
        {"zcert_new_from", (void **)&czmq.create},
        {"zcert_load", (void **)&czmq.load},
        {"zcert_destroy", (void **)&czmq.destroy},
        {"zcert_public_txt", (void **)&czmq.public_text},
        {"zcert_secret_txt", (void **)&czmq.secret_text},
        {"zcert_save_public", (void **)&czmq.save_public},
        {"zcert_save_secret", (void **)&czmq.save_secret},
        {"zmq_z85_decode", (void **)&czmq.decode},
    };
    void *library = dlopen("libczmq.so.4", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "troupe keys: certificates need CZMQ (Debian's package libczmq4): %s\n",
                dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if ((*wanted[i].function = dlsym(library, wanted[i].name)) == NULL) {
            fprintf(stderr, "troupe keys: this CZMQ has no %s\n", wanted[i].name);
            return false;
        }
    return true;
}

static bool is_free(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0 && errno == ENOENT)
        return true;
    fprintf(stderr, "troupe keys: %s exists already\n", path);
    return false;
}

static int export(const char *from, const char *certificate, bool public_only)
{
    pair keys;
    uint8_t public_key[KEY_BYTES], secret_key[KEY_BYTES];
    char secret_path[PATH_BYTES];
    if (snprintf(secret_path, sizeof secret_path, "%s_secret", certificate) >= PATH_BYTES) {
        errno = ENAMETOOLONG;
        return failed("could not be made", certificate);
    }
    int status = read_pair(from, &keys);
    if (status != TOOL_DONE)
        return status;
    if (!is_free(certificate) || (!public_only && !is_free(secret_path)) || !load_czmq())
        return TOOL_FAILED;
    (void)czmq.decode(public_key, keys.public_key);
    (void)czmq.decode(secret_key, keys.secret_key);
    zcert *it = czmq.create(public_key, secret_key);
    explicit_bzero(&keys, sizeof keys);
    explicit_bzero(secret_key, sizeof secret_key);
    (void)umask(077); // Of the secret one from its first byte on.
    errno = 0;
    if (it == NULL || (!public_only && czmq.save_secret(it, secret_path) != 0))
        status = failed("could not be written", secret_path);
    else if (czmq.save_public(it, certificate) != 0 || chmod(certificate, 0644) != 0)
        status = failed("could not be written", certificate);
    if (it != NULL)
        czmq.destroy(&it);
    return status;
}

// CZMQ reads CERTIFICATE_secret where there is one, else CERTIFICATE.
static int import(const char *certificate, const char *to)
{
    static const char none[] = "0000000000000000000000000000000000000000";
    pair keys;
    if (!load_czmq())
        return TOOL_FAILED;
    zcert *it = czmq.load(certificate);
    if (it == NULL) {
        fprintf(stderr, "troupe keys: %s is not a certificate of CZMQ, or could not be read\n",
                certificate);
        return TOOL_FAILED;
    }
    snprintf(keys.public_key, sizeof keys.public_key, "%s", czmq.public_text(it));
    snprintf(keys.secret_key, sizeof keys.secret_key, "%s", czmq.secret_text(it));
    czmq.destroy(&it);
    int status = TOOL_FAILED;
    if (strcmp(keys.secret_key, none) == 0)
        fprintf(stderr,
                "troupe keys: %s has no secret key: import the certificate's secret part too\n",
                certificate);
    else if (!is_key(keys.public_key) || !is_key(keys.secret_key))
        fprintf(stderr, "troupe keys: %s does not hold a pair of keys\n", certificate);
    else
        status = write_pair(to, &keys);
    explicit_bzero(&keys, sizeof keys);
    return status;
}

// ---- the command

static int show(const char *path)
{
    pair keys;
    int status = read_pair(path, &keys);
    if (status == TOOL_DONE)
        printf("%s\n", keys.public_key);
    explicit_bzero(&keys, sizeof keys);
    return status;
}

static int make(const char *path)
{
    if (troupe_keys_make(path) == TROUPE_OK)
        return TOOL_DONE;
    fprintf(stderr, "troupe keys: %s\n", troupe_last_error()->text);
    return TOOL_FAILED;
}

int tool_keys(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        usage(stdout);
        return TOOL_DONE;
    }
    bool public_only = strcmp(what, "export") == 0 && argc == 5 && strcmp(argv[2], "--public") == 0;
    char **paths = argv + (public_only ? 3 : 2);
    int count = argc - (public_only ? 3 : 2);
    if (count == 1 && strcmp(what, "make") == 0)
        return make(paths[0]);
    if (count == 1 && strcmp(what, "show") == 0)
        return show(paths[0]);
    if (count == 2 && strcmp(what, "export") == 0)
        return export(paths[0], paths[1], public_only);
    if (count == 2 && strcmp(what, "import") == 0)
        return import(paths[0], paths[1]);
    usage(stderr);
    return TOOL_MISUSED;
}
