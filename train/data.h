// data.h: the sets of a run: what its data's setup has named, and a rank's part of each.
#ifndef TRP_DATA_H
#define TRP_DATA_H

#include <runtime/base/arena.h>
#include <troupe/train.h>

TROUPE_STRUCT(trp_data_set, (troupe_text, key), (troupe_ref, ref), (int64_t, rows), (bool, split));

// The setup of a rank: which, and of what. No name: there is none.
TROUPE_STRUCT(trp_data_plan, (troupe_text, name), (uint64_t, schema), (troupe_bytes, source),
              (troupe_array_troupe_ref, refs), (troupe_text, share));

// Sets as a loop has them: their references are lent.
TROUPE_STRUCT(trp_lent_sets, (troupe_array_trp_data_set, sets));

// With a hold of each object. Zeroed: none.
typedef struct trp_data_sets {
    trp_arena arena;
    trp_data_set *items; // By key.
    size_t count, room;
} trp_data_sets;

// The data of that name whose source has that schema hash. NULL with the last error set.
const troupe_data_table *trp_data_table_find(const char *name, uint64_t schema);
// The same of any source.
const troupe_data_table *trp_data_table_named(const char *name);
// Calls the setup on this thread, and has what it names in *sets, on failure too, shared as `share`
// says (NULL: as the setup does). TROUPE_INVALID also: it named nothing, or nothing of a name
// there.
troupe_status trp_data_make(const troupe_data_table *table, const troupe_data *about,
                            const void *source, const char *share, trp_data_sets *sets);
// Whether a text of .share is one; `sets`, where it is not NULL, are shared so then.
troupe_status trp_data_share(const char *share, trp_data_sets *sets);
// Lets all go; may be called again.
void trp_data_drop(trp_data_sets *sets);
// Their keys in the arena, by name. NULL with 0 sets, or no memory.
const troupe_text *trp_data_keys(const trp_data_sets *sets, trp_arena *arena);

// The part of that rank.
troupe_shard trp_data_part(const trp_data_set *set, int rank, int world);
// TROUPE_NOT_FOUND lists the keys.
troupe_status trp_data_find(const trp_data_set *sets, size_t count, const char *key,
                            const trp_data_set **found);
// Writes "test, train" into `out`, with "..." where it is too small, or "none".
void trp_data_list(const troupe_text *keys, size_t count, char *out, size_t size);

#endif
