// spec.h: what a job is, as a plain value: program, trainer, config, options. It can be packed to
// bytes and read back whole; the references of a config travel beside it.
#ifndef TRP_SPEC_H
#define TRP_SPEC_H

#include <runtime/base/buffer.h>
#include <train/config.h>
#include <train/gate.h>
#include <train/option_table.h>

TROUPE_STRUCT(trp_job_spec, (int, version),
              (troupe_text, program), // Path of the executable whose trainers are meant.
              (troupe_text, trainer), (uint64_t, schema), // Of its config.
              (troupe_bytes, config),                     // Packed,
              (size_t, ref_count),                        // with so many references.
              (trp_packed_options, options), (trp_gate_plan, gate),
              (troupe_text, data_name), // What the run learns from; NULL: nothing.
              (uint64_t, data_schema), (troupe_bytes, data), // The source, packed,
              (troupe_text, data_share),
              (size_t, data_ref_count)); // with references after those of the config.

// The spec of a submission. It points into the arena, and to the texts of the options.
// TROUPE_INVALID, TROUPE_NO_MEMORY.
troupe_status trp_spec_make(const troupe_trainer *trainer, const trp_packed *config,
                            const troupe_train_options *options, trp_arena *arena,
                            trp_job_spec *spec);
// Adds the data that the run learns from. TROUPE_NO_MEMORY.
troupe_status trp_spec_set_data(trp_job_spec *spec, const troupe_data_given *given,
                                const trp_packed *source, trp_arena *arena);
// The bytes are added. TROUPE_NO_MEMORY.
troupe_status trp_spec_pack(const trp_job_spec *spec, trp_buffer *out);
// Reads it back, into the arena. TROUPE_MALFORMED; TROUPE_VERSION: made by a later library;
// TROUPE_UNSUPPORTED: it is another program's; TROUPE_NOT_FOUND and TROUPE_WRONG_TYPE: this one has
// no such trainer.
troupe_status trp_spec_read(troupe_bytes packed, trp_arena *arena, trp_job_spec *spec,
                            const troupe_trainer **trainer);

// Makes the metadata that a user gives canonical, in the arena; *kept stays where none are given.
// TROUPE_MALFORMED, TROUPE_INVALID: no JSON object; TROUPE_NO_MEMORY. `given` may be *kept.
troupe_status trp_spec_metadata(const char *given, trp_arena *arena, const char **kept);

// The config as JSON, in the arena. TROUPE_MALFORMED,
// TROUPE_NO_MEMORY.
troupe_status trp_spec_config(const trp_job_spec *spec, const troupe_trainer *trainer,
                              trp_arena *arena, const char **json);

// Of two specs that are the same job for a train server, the same: not where and how the run is
// kept, shown and begun, nor the program's path.
typedef struct trp_spec_hash_text {
    char text[33]; // In hexadecimal.
} trp_spec_hash_text;
// TROUPE_NO_MEMORY.
troupe_status trp_spec_hash(const trp_job_spec *spec, trp_spec_hash_text *hash);
// The options that count for that.
trp_packed_options trp_spec_identity(trp_packed_options options);

// The first member in which two specs differ, as ".ranks" or "config.rate", in the arena; NULL:
// they are equal. A gate is no part of that: it decides for the job that it was given with.
const char *trp_spec_differ(const trp_job_spec *one, const trp_job_spec *other,
                            const troupe_trainer *trainer, trp_arena *arena);

#endif
