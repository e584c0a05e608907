// ring_poller.h: reading what others have put into rings to this process: by one thread at a time,
// whichever waits, or by a thread of its own when none does. See docs/internals/runtime/rings.md.
#ifndef TRP_LINK_RING_POLLER_H
#define TRP_LINK_RING_POLLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

// Makes the process's door its own. Nothing is read yet.
void trp_reader_open(void);
// Starts the thread that reads when nobody waits. Before all of this, in a process that is to be a
// worker, trp_reader_prepare may have made it: it waits for the start then.
troupe_status trp_reader_start(void);
troupe_status trp_reader_prepare(void);
void trp_reader_stop(void);
// Waits until no thread reads, and sees to it that none will; gives all rings back.
void trp_reader_close(void);

// Whether nobody reads.
bool trp_reader_free(void);
// Reads while *word is `seen`, until the monotonic time `deadline_ns` (negative: none). False, at
// once: another thread reads already.
bool trp_reader_read(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns);
// Whether the reader waits for that word, which was changed before: then it is awake now.
bool trp_reader_wake(_Atomic uint32_t *word);

// Makes the thread that reads when nobody waits look at what is to be done.
void trp_reader_nudge(void);
// Makes the reader call trp_process_lost.
void trp_reader_lost(void);

#endif
