// stored_value.h: packed values that are kept for later, with the objects that they refer to: the
// init arguments and the saved state of actors that are started again.
//
// What is kept is a body (ref/body.h): a count, the ids of the objects that its owner holds, the
// packed value. So it can be copied, handed to another process and dropped by code that does not
// know the value's type.
#ifndef TRP_REF_STORED_VALUE_H
#define TRP_REF_STORED_VALUE_H

#include <actors/ref/body.h>

typedef struct trp_kept {
    unsigned char *data; // NULL: nothing is kept.
    size_t size;
} trp_kept;

// Packs a value. Calls that references in it are of become objects that their ends fulfil.
troupe_status trp_kept_pack(const trp_shape *shape, const void *value, trp_kept *kept);
// Keeps a value that is packed already and has no references.
troupe_status trp_kept_packed(const troupe_bytes *packed, trp_kept *kept);
// Copies a body. `held`: this process has its holds; otherwise it has others, and takes more.
// MALFORMED: it is none; NO_MEMORY. On failure the holds that came are given back.
troupe_status trp_kept_take(const void *data, size_t size, bool held, trp_kept *kept);
// Copies a body that came beside references to what it lists, in that order, and takes holds for
// this process. MALFORMED: it lists something else.
troupe_status trp_kept_take_with(const void *data, size_t size, const troupe_ref *refs,
                                 size_t count, trp_kept *kept);
// Gives up what is kept, and clears it.
void trp_kept_drop(trp_kept *kept);
// Gives the holds that came with a body back, which nobody wants.
void trp_kept_refuse(const void *data, size_t size);

// Adds holds of all that is kept to the parcel, whose receiver gets its own when it is sent.
troupe_status trp_kept_lend(const trp_kept *kept, trp_parcel *parcel);
// The packed value in it.
troupe_bytes trp_kept_value(const trp_kept *kept);

#endif
