// spawn_frame.h: what a SPAWN frame says.
#ifndef TRP_SPAWN_SPAWN_FRAME_H
#define TRP_SPAWN_SPAWN_FRAME_H

#include <actors/spawn/spawn.h>

// Replaces the texts of options by copies; false: no memory for all of them. And frees those.
bool trp_spawn_options_copy(troupe_spawn_options *how);
void trp_spawn_options_free(troupe_spawn_options *how);

// Appends what a request says about restarts.
void trp_spawn_write_policy(const trp_spawn_policy *policy, trp_buffer *out);

// Reads a request; the arguments' holds begin where it ends. TROUPE_MALFORMED.
troupe_status trp_spawn_read(trp_reader *in, trp_spawn_request *wanted);

// Makes the actor that a SPAWN frame asks for, and takes the message (its body is the frame's),
// which the new actor runs first and answers. On failure the message stays the caller's, with the
// last error set.
troupe_status trp_spawn_serve(trp_message *message);

#endif
