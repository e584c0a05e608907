// screen.c: the lines at the foot of the terminal (see base/screen.h).
#include <runtime/base/screen.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic int own_lines;

static struct {
    pthread_mutex_t lock;
    _Atomic bool shown; // This process has a foot.
    _Atomic bool shared;
    _Atomic pid_t owner; // A child that a program forks has none.
    _Atomic int *on;     // Lines that are on the terminal now; whoever takes them wipes them out.
    int lines;           // Of the text.
    trp_buffer text;
} foot = {.lock = PTHREAD_MUTEX_INITIALIZER, .on = &own_lines};

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

// What takes the foot away: to its first line, and all from there is wiped out. With the lock.
static void wipe(trp_buffer *out)
{
    int lines = atomic_exchange(foot.on, 0);
    if (lines > 0)
        trp_buffer_printf(out, "\033[%dA\r\033[J", lines);
}

void trp_screen_share(_Atomic int *lines)
{
    pthread_mutex_lock(&foot.lock);
    _Atomic int *to = lines != NULL ? lines : &own_lines;
    if (foot.shown)
        atomic_store(to, atomic_load(foot.on));
    foot.on = to;
    foot.shared = lines != NULL;
    pthread_mutex_unlock(&foot.lock);
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
    foot.shown = foot.lines > 0;
    atomic_store(foot.on, foot.lines);
    trp_buffer_free(&out);
    pthread_mutex_unlock(&foot.lock);
}

void trp_screen_keep(void)
{
    pthread_mutex_lock(&foot.lock);
    trp_buffer_free(&foot.text);
    foot.lines = 0;
    foot.shown = false;
    atomic_store(foot.on, 0);
    pthread_mutex_unlock(&foot.lock);
}

bool trp_screen_enter(int fd)
{
    bool own = foot.shown && foot.owner == getpid();
    if (!(own || foot.shared) || !isatty(fd))
        return false;
    pthread_mutex_lock(&foot.lock);
    trp_buffer out = {0};
    wipe(&out);
    if (!out.failed)
        write_whole(fd, (const char *)out.data, out.size);
    trp_buffer_free(&out);
    return true;
}

void trp_screen_leave(void)
{
    // Another process does not know the text: whoever has it draws it soon.
    if (foot.shown && foot.owner == getpid()) {
        write_whole(STDOUT_FILENO, (const char *)foot.text.data, foot.text.size);
        atomic_store(foot.on, foot.lines);
    }
    pthread_mutex_unlock(&foot.lock);
}

void trp_screen_print(int fd, const char *lines, size_t size)
{
    bool entered = trp_screen_enter(fd);
    write_whole(fd, lines, size);
    if (entered)
        trp_screen_leave();
}
