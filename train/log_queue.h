// log_queue.h: lines of ranks that a follower has not been told yet: where they lie in the ranks'
// log files, not the lines themselves. Under its owner's lock.
//
// Lines of one process that follow each other in its file are one piece, however many they are: so
// the queue has about as many pieces as processes have printed, however far behind its reader is.
#ifndef TRP_LOG_QUEUE_H
#define TRP_LOG_QUEUE_H

#include <runtime/base/buffer.h>
#include <stdint.h>
#include <sys/types.h>
#include <troupe/train.h>

typedef struct trp_log_piece {
    struct trp_log_piece *next;
    int rank, attempt, pid;
    off_t at, end; // Of the file.
    uint64_t lost; // Lines behind these that are in no file.
} trp_log_piece;

// A zeroed one is empty.
typedef struct trp_log_queue {
    trp_log_piece *first;
    int turn; // The rank that was told of last.
} trp_log_queue;

// Adds a copy; what follows directly on the last piece of its process becomes a part of that.
// False: no memory.
bool trp_log_queue_add(trp_log_queue *queue, const trp_log_piece *piece);
// The piece to tell of now: ranks take turns. It stays in the queue, and may grow there. NULL:
// none.
trp_log_piece *trp_log_queue_next(trp_log_queue *queue);
// Removes a piece.
void trp_log_queue_remove(trp_log_queue *queue, trp_log_piece *piece);
void trp_log_queue_clear(trp_log_queue *queue);

// Reads lines of [at, end) of rank's log in the run's folder: a few whole ones. TROUPE_IO: not what
// was written there. Not under the lock.
troupe_status trp_log_read(const char *run, int rank, off_t at, off_t end, trp_buffer *lines);

#endif
