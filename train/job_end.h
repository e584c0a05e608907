// job_end.h: the file `end` in the folder of a job of the train server: how the job ended.
//
// Only who has byte 0 of `alive` there, and is the attempt that it names, writes it: by a rename,
// and into blocks that were reserved when the job was taken on, so that a full disk cannot lose it.
#ifndef TRP_JOB_END_H
#define TRP_JOB_END_H

#include <train/wire.h>

// What a runner ends with that leaves no `end`, so that another attempt follows.
enum { TRP_JOB_NO_END = 75 };

// Reserves the blocks. TROUPE_NO_SPACE, TROUPE_IO.
troupe_status trp_job_end_reserve(const char *folder);
// Writes it, synced, in place of what is there; an error that is too long for the blocks is cut.
// That its name lasts is seen to by the books of the server, from which it is written again.
// TROUPE_NO_SPACE, TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_job_end_write(const char *folder, const trp_job_end *end);
// Reads it, into the arena. TROUPE_NOT_FOUND: the job has not ended; TROUPE_VERSION: a later
// library wrote it; TROUPE_CORRUPT, TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_job_end_read(const char *folder, trp_arena *arena, trp_job_end *end);

#endif
