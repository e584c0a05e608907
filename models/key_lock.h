// key_lock.h: who changes a key of the repository: record locks on the file `lock` in its folder,
// which the kernel releases when their process ends, however it ends.
//
// Byte 0 belongs to who changes what the key has, byte n to the push of version n. A process loses
// its locks of a file when it closes any descriptor of it: so it has one for each key, which all of
// its threads share that need it, and a table tells those apart.
#ifndef TRP_MODELS_KEY_LOCK_H
#define TRP_MODELS_KEY_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

typedef struct trp_key_lock trp_key_lock;

enum { TRP_KEY_WAIT_MS = 30000 };

// Opens the lock of the key in that folder, and makes it if need be. TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_key_open(const char *folder, trp_key_lock **lock);
// Lets go of it, and clears *lock. Harmless on NULL.
void trp_key_close(trp_key_lock **lock);

// Waits until no other thread or process changes the key. TROUPE_BUSY: one that does not end, and
// which; TROUPE_IO: its file system has no locks.
troupe_status trp_key_enter(trp_key_lock *lock, int wait_ms);
void trp_key_leave(trp_key_lock *lock);

// Takes that version for this thread, if nobody pushes it. Never waits.
bool trp_key_claim(trp_key_lock *lock, int64_t version);
void trp_key_release(trp_key_lock *lock, int64_t version);

#endif
