// config.h: the config of a trainer, and what functions of ranks are given, as they are sent.
#ifndef TRP_CONFIG_H
#define TRP_CONFIG_H

#include <troupe/train.h>

// Reads a packed config of that trainer into the thread's arena. The references in it become those
// that came beside it, in order.
troupe_status trp_config_read(const troupe_trainer *trainer, troupe_bytes packed,
                              const troupe_ref *refs, size_t count, void **config);

// How many references a value has.
size_t trp_config_refs(const troupe_type *type, const void *value);

#endif
