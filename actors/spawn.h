// spawn.h: making actors, here and elsewhere, and remembering why one could not be made.
#ifndef TRP_SPAWN_H
#define TRP_SPAWN_H

#include <actors/message.h>
#include <troupe/actor.h>

// Makes the actor that a SPAWN frame asks for, and takes the message (its body is the frame's),
// which the new actor runs first and answers. On failure the message stays the caller's, with the
// last error set.
troupe_status trp_spawn_serve(trp_message *message);
// Why the address (of id 0) is none, as the last error.
troupe_status trp_spawn_failure(troupe_actor actor);
// Makes an actor whose process has died again, elsewhere; it is known by `origin`.
struct trp_adoption;
troupe_status trp_spawn_again(const struct trp_adoption *what, troupe_actor origin,
                              troupe_actor *address);
// As troupe_spawn_many_class, with the arguments of each one `stride` bytes behind the last one's.
troupe_status trp_spawn_many(const troupe_class *row, const void *args, size_t stride, size_t count,
                             troupe_actor *addresses, const troupe_spawn_options *how);
// An address that fails with the thread's last error, of that status.
troupe_actor trp_spawn_failed(troupe_status status);
// Frees the failures.
void trp_spawn_forget(void);

#endif
