// log_queue.c: see log_queue.h.
#include <train/log_queue.h>

#include <fcntl.h>
#include <limits.h>
#include <runtime/base/memory.h>
#include <runtime/host/file.h>
#include <string.h>
#include <unistd.h>

bool trp_log_queue_add(trp_log_queue *queue, const trp_log_piece *piece)
{
    trp_log_piece **at = &queue->first, *last = NULL;
    for (; *at != NULL; at = &(*at)->next)
        if ((*at)->rank == piece->rank)
            last = *at;
    if (last != NULL && last->attempt == piece->attempt && last->pid == piece->pid &&
        last->lost == 0 && last->end == piece->at) {
        last->end = piece->end;
        last->lost = piece->lost;
        return true;
    }
    trp_log_piece *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return false;
    *made = *piece;
    made->next = NULL;
    *at = made;
    return true;
}

trp_log_piece *trp_log_queue_next(trp_log_queue *queue)
{
    trp_log_piece *next = NULL;
    int nearest = 0;
    for (trp_log_piece *at = queue->first; at != NULL; at = at->next) {
        int distance = at->rank - queue->turn;
        distance += distance > 0 ? 0 : INT_MAX / 2;
        if (next == NULL || distance < nearest) { // The first one of its rank.
            next = at;
            nearest = distance;
        }
    }
    if (next != NULL)
        queue->turn = next->rank;
    return next;
}

void trp_log_queue_remove(trp_log_queue *queue, trp_log_piece *piece)
{
    trp_log_piece **at = &queue->first;
    while (*at != piece)
        at = &(*at)->next;
    *at = piece->next;
    trp_free(piece);
}

void trp_log_queue_clear(trp_log_queue *queue)
{
    while (queue->first != NULL)
        trp_log_queue_remove(queue, queue->first);
}

troupe_status trp_log_read(const char *run, int rank, off_t at, off_t end, trp_buffer *lines)
{
    enum { ROOM = 32 * 1024 }; // The longest line that is read of a worker fits.
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/log/rank_%05d.log", run, rank));
    char *text = trp_alloc(ROOM);
    if (text == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for lines of %s", path.text);
    size_t left = (size_t)(end - at);
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t got = fd >= 0 ? pread(fd, text, left < ROOM ? left : ROOM, at) : -1;
    const char *last = got > 0 ? memrchr(text, '\n', (size_t)got) : NULL;
    if (fd >= 0)
        close(fd);
    if (last == NULL) {
        trp_free(text);
        return troupe_fail(TROUPE_IO, "%s has no longer what was written there", path.text);
    }
    *lines = (trp_buffer){(unsigned char *)text, (size_t)(last - text) + 1, ROOM, false};
    return TROUPE_OK;
}
