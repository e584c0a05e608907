// gzip.c: see gzip.h.
#include <models/gzip.h>

#include <errno.h>
#include <pthread.h>
#include <runtime/base/error.h>
#include <runtime/base/library.h>
#include <string.h>

// zlib's, whose numbers and signatures have not changed since 1.2.
typedef struct gzFile_s *gz_file;
enum { GZ_OK = 0, GZ_STREAM_END = 1, GZ_ERRNO = -1, GZ_CUT = -5, GZ_PIECE = 1 << 20 };
static struct {
    gz_file (*open)(const char *path, const char *mode);
    int (*read)(gz_file file, void *out, unsigned size);
    const char *(*error)(gz_file file, int *code);
    int (*close)(gz_file file);
    bool loaded;
    pthread_mutex_t lock;
} zlib = {.lock = PTHREAD_MUTEX_INITIALIZER};

static troupe_status load(const char *path)
{
    static const trp_library_function functions[] = {
        {"gzopen64", (char *)&zlib.open},
        {"gzread", (char *)&zlib.read},
        {"gzerror", (char *)&zlib.error},
        {"gzclose_r", (char *)&zlib.close},
    };
    char why[256];
    pthread_mutex_lock(&zlib.lock);
    if (!zlib.loaded)
        zlib.loaded = trp_library_load("libz.so.1", functions, sizeof functions / sizeof *functions,
                                       why, sizeof why);
    bool loaded = zlib.loaded;
    pthread_mutex_unlock(&zlib.lock);
    return loaded ? TROUPE_OK
                  : troupe_fail(TROUPE_UNSUPPORTED, "%s: unpacking it needs zlib: %s", path, why);
}

bool trp_gzip_is(const void *data, size_t size)
{
    return size >= 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}

static troupe_status read_all(const char *path, gz_file file, trp_buffer *out)
{
    int got = 1, code;
    while (got > 0) {
        if (!trp_buffer_reserve(out, GZ_PIECE))
            return troupe_fail(TROUPE_NO_MEMORY, "%s: no memory to unpack it", path);
        got = zlib.read(file, out->data + out->size, GZ_PIECE);
        out->size += got > 0 ? (size_t)got : 0;
    }
    const char *text = zlib.error(file, &code);
    if (code == GZ_ERRNO)
        return trp_fail_errno(TROUPE_IO, "cannot read %s", path);
    if (code == GZ_CUT)
        return troupe_fail(TROUPE_CORRUPT, "%s: its packed data end too early", path);
    if (code != GZ_OK && code != GZ_STREAM_END)
        return troupe_fail(TROUPE_CORRUPT, "%s: its packed data are damaged: %s", path, text);
    return TROUPE_OK;
}

troupe_status trp_gzip_read(const char *path, trp_buffer *out)
{
    TROUPE_TRY(load(path));
    errno = 0;
    gz_file file = zlib.open(path, "rbe");
    if (!file)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", path);
    troupe_status status = read_all(path, file, out);
    (void)zlib.close(file); // What it could tell was asked before.
    return status;
}
