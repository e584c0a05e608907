// config.h: values as a job holds and sends them: the config of its trainer, and what functions of
// ranks are given.
#ifndef TRP_CONFIG_H
#define TRP_CONFIG_H

#include <runtime/base/buffer.h>
#include <troupe/train.h>

// A value, packed, with holds of the references in it, in the order of trp_value_refs. Zeroed:
// none.
typedef struct trp_packed {
    trp_buffer bytes;
    troupe_ref *refs;
    size_t ref_count;
} trp_packed;

// Packs a value. `what` names it in texts: "the config of 'fit'". On failure it is to be freed,
// too.
troupe_status trp_packed_take(trp_packed *packed, const troupe_type *type, const char *what,
                              const void *value);
// Makes one of bytes and of references that another has: both are copied. Failures likewise.
troupe_status trp_packed_copy(trp_packed *packed, const char *what, troupe_bytes bytes,
                              const troupe_ref *refs, size_t count);
// Reads it into the thread's arena, with references that are lent: to be given back by
// trp_refs_return(*lent), whatever was done with them.
troupe_status trp_packed_lend(const trp_packed *packed, const troupe_type *type, const char *what,
                              void **value, uint64_t *lent);
// Frees it, and drops the references.
void trp_packed_free(trp_packed *packed);

// Reads a packed value into the thread's arena. The references in it become those that came beside
// it, in order.
troupe_status trp_config_read(const troupe_type *type, const char *what, troupe_bytes packed,
                              const troupe_ref *refs, size_t count, void **value);

// How many references a value has.
size_t trp_config_refs(const troupe_type *type, const void *value);

#endif
