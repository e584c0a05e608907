// screen.c: the lines at the foot of the terminal (see base/screen.h).
#include <runtime/base/screen.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    _Atomic bool shown;  // There is a foot: read without the lock first.
    _Atomic pid_t owner; // A child that a program forks has none.
    int lines;
    trp_buffer text;
} foot = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void write_whole(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return; // It is closed: there is nobody to tell.
        } else if (written > 0) {
            data += written;
            size -= (size_t)written;
        }
    }
}

// What takes the foot away: to its first line, and all from there is wiped out.
static void wipe(trp_buffer *out)
{
    if (foot.lines > 0)
        trp_buffer_printf(out, "\033[%dA\r\033[J", foot.lines);
}

void trp_screen_foot(const char *lines, size_t size)
{
    pthread_mutex_lock(&foot.lock);
    trp_buffer out = {0};
    if (foot.owner == getpid())
        wipe(&out);
    trp_buffer_append(&out, lines, size);
    trp_buffer_free(&foot.text);
    foot.lines = 0;
    trp_buffer_append(&foot.text, lines, size);
    if (!out.failed && !foot.text.failed) {
        for (size_t i = 0; i < size; i++)
            foot.lines += lines[i] == '\n';
        write_whole(STDOUT_FILENO, (const char *)out.data, out.size);
    }
    foot.owner = getpid();
    atomic_store(&foot.shown, foot.lines > 0);
    trp_buffer_free(&out);
    pthread_mutex_unlock(&foot.lock);
}

bool trp_screen_enter(int fd)
{
    if (!atomic_load(&foot.shown) || foot.owner != getpid() || !isatty(fd))
        return false;
    pthread_mutex_lock(&foot.lock);
    if (!atomic_load(&foot.shown)) {
        pthread_mutex_unlock(&foot.lock);
        return false;
    }
    trp_buffer out = {0};
    wipe(&out);
    if (!out.failed)
        write_whole(STDOUT_FILENO, (const char *)out.data, out.size);
    trp_buffer_free(&out);
    return true;
}

void trp_screen_leave(void)
{
    write_whole(STDOUT_FILENO, (const char *)foot.text.data, foot.text.size);
    pthread_mutex_unlock(&foot.lock);
}

void trp_screen_print(int fd, const char *lines, size_t size)
{
    bool entered = trp_screen_enter(fd);
    write_whole(fd, lines, size);
    if (entered)
        trp_screen_leave();
}
