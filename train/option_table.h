// option_table.h: the one list of a run's options, and what is made of it.
//
// Each member of troupe_train_options, `size` apart, has a row, in the struct's order:
// ROW(type in files, member, shape, kept, what 0 stands for). tests/train/test_option_table reads
// the public header and compares.
//
// `kept` says where an option is known beside the submission:
//     SAVED   run.json has it, and a run that goes on has it from there where it is left out
//     PLACED  says where and how a run is kept, shown and begun: no trainer forbids it
//     SECRET  nowhere: a run that goes on needs it again
//     BESIDE  as PLACED, and cannot be written
#ifndef TRP_OPTION_TABLE_H
#define TRP_OPTION_TABLE_H

#include <runtime/base/arena.h>
#include <troupe/train.h>

#define TRP_OPTION_TABLE(ROW)                                                                      \
    ROW(int, ranks, WHOLE, SAVED, 1)                                                               \
    ROW(double, cpus_per_rank, REAL, SAVED, 1)                                                     \
    ROW(troupe_text, storage, TEXT, PLACED, 0)                                                     \
    ROW(troupe_text, name, TEXT, PLACED, 0)                                                        \
    ROW(int, keep, WHOLE, SAVED, 0)                                                                \
    ROW(troupe_text, keep_metric, TEXT, SAVED, 0)                                                  \
    ROW(int, keep_goal, GOAL, SAVED, 0)                                                            \
    ROW(int, restarts, WHOLE, SAVED, 0)                                                            \
    ROW(troupe_text, from, TEXT, PLACED, 0)                                                        \
    ROW(int, collective_timeout_ms, WHOLE, SAVED, TRP_COLLECTIVE_TIMEOUT_MS)                       \
    ROW(double, gpus_per_rank, REAL, SAVED, 0)                                                     \
    ROW(size_t, memory_per_rank_bytes, SIZE, SAVED, 0)                                             \
    ROW(troupe_text, resources_per_rank, TEXT, SAVED, 0)                                           \
    ROW(troupe_text, env, HIDDEN, SECRET, 0)                                                       \
    ROW(double, coordinator_cpus, REAL, SAVED, 0)                                                  \
    ROW(int, open, OPEN, PLACED, 0)                                                                \
    ROW(bool, force, FLAG, PLACED, 0)                                                              \
    ROW(troupe_text, metadata, TEXT, PLACED, 0)                                                    \
    ROW(, gate, POINTER, BESIDE, 0)                                                                \
    ROW(double, time_limit_s, REAL, SAVED, 0)                                                      \
    ROW(double, time_limit_grace_s, REAL, SAVED, TRP_TIME_LIMIT_GRACE_S)                           \
    ROW(int, console, CONSOLE, PLACED, 0)                                                          \
    ROW(int, checkpoint_every, WHOLE, SAVED, 1)                                                    \
    ROW(bool, rank_metrics, FLAG, PLACED, 0)                                                       \
    ROW(, data, POINTER, BESIDE, 0)                                                                \
    ROW(troupe_text, key, TEXT, PLACED, 0)                                                         \
    ROW(int, expected_reports, WHOLE, SAVED, 0)                                                    \
    ROW(int, ranks_per_process, WHOLE, SAVED, 1)                                                   \
    ROW(int, min_ranks, WHOLE, SAVED, 0)                                                           \
    ROW(int, server, SERVER, PLACED, 0)                                                            \
    ROW(int, priority, PLAIN, PLACED, 0)                                                           \
    ROW(double, start_at, REAL, PLACED, 0)                                                         \
    ROW(troupe_text, params, TEXT, PLACED, 0)                                                      \
    ROW(int, sync, SYNC, PLACED, 0)

// What 0 stands for, where that is not 0 or 1.
enum {
    TRP_COLLECTIVE_TIMEOUT_MS = 60000,
    TRP_TIME_LIMIT_GRACE_S = 10,
};

#define TRP_OPTION_MEMBER_SAVED_(type, member) , (type, member)
#define TRP_OPTION_MEMBER_PLACED_(type, member) , (type, member)
#define TRP_OPTION_MEMBER_SECRET_(type, member) , (type, member)
#define TRP_OPTION_MEMBER_BESIDE_(type, member)
#define TRP_OPTION_MEMBER_(type, member, shape, kept, normal)                                      \
    TRP_OPTION_MEMBER_##kept##_(type, member)
#define TRP_OPTION_FILED_SAVED_(type, member) , (type, member)
#define TRP_OPTION_FILED_PLACED_(type, member)
#define TRP_OPTION_FILED_SECRET_(type, member)
#define TRP_OPTION_FILED_BESIDE_(type, member)
#define TRP_OPTION_FILED_(type, member, shape, kept, normal)                                       \
    TRP_OPTION_FILED_##kept##_(type, member)
#define TRP_OPTION_STRUCT_(...) TROUPE_STRUCT(__VA_ARGS__)

// Options as run.json has them, and all that can be packed. As the program gave them: 0 and NULL
// are those that it left out.
TRP_OPTION_STRUCT_(trp_saved_options TRP_OPTION_TABLE(TRP_OPTION_FILED_));
TRP_OPTION_STRUCT_(trp_packed_options TRP_OPTION_TABLE(TRP_OPTION_MEMBER_));

// All options that can be packed, with the texts of the other.
trp_packed_options trp_options_pack(const troupe_train_options *options);
troupe_train_options trp_options_unpack(const trp_packed_options *packed);
trp_saved_options trp_options_save(const troupe_train_options *options);
// Options that were left out become the saved ones, with the texts of those.
void trp_options_merge(troupe_train_options *options, const trp_saved_options *saved);
// Copies all texts into the arena. TROUPE_NO_MEMORY.
troupe_status trp_options_keep(troupe_train_options *options, trp_arena *arena);

// The name of the next option that is not its default and that a trainer may forbid; *row is 0 at
// first. NULL: no other is.
const char *trp_option_given(const troupe_train_options *options, size_t *row);
bool trp_option_is_known(const char *name, size_t length);
// The first member, by name, in which two submissions differ; NULL: they are equal.
const char *trp_options_differ(const trp_packed_options *one, const trp_packed_options *other);

#endif
