// launch_record.h: how this program can be started again for a job of a train server: what it was
// started with, and of which files it consists.
#ifndef TRP_LAUNCH_RECORD_H
#define TRP_LAUNCH_RECORD_H

#include <train/wire.h>

// That a job of what lies at that address, the trainer, can be done by this program started again.
// TROUPE_UNSUPPORTED says why not: it is in a file that is not part of the program, or the program
// runs with the rights of another user or was replaced since it was started.
troupe_status trp_launch_record_check(const void *trainer, const char *name);
// The part of it that is about rights.
troupe_status trp_launch_record_check_rights(void);
// Writes it down, as it is now; all that it points to is in the arena. TROUPE_IO, TROUPE_NO_MEMORY,
// TROUPE_UNSUPPORTED: a file of the program was replaced since it was started.
troupe_status trp_launch_record_make(trp_arena *arena, trp_wire_launch *launch);

#endif
