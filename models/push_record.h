// push_record.h: what the manifest of a version has beyond that of a checkpoint: its member "push".
//
// Members may come and go: those unknown are ignored, those missing have their defaults.
#ifndef TRP_MODELS_PUSH_RECORD_H
#define TRP_MODELS_PUSH_RECORD_H

#include <models/model.h>
#include <train/manifest.h>

TROUPE_STRUCT(trp_push_schema, (troupe_text, name), (troupe_text, hash)); // In hexadecimal.

// The program that was kept: the file `program` of the version. Size 0: none was.
TROUPE_STRUCT(trp_push_program, (uint64_t, size), (uint64_t, digest), // XXH64.
              (troupe_array_troupe_text, arguments), (troupe_text, folder), (troupe_text, data),
              (troupe_text, source), // What it trains with, the source as
              (troupe_text, share)); // JSON; NULL: nothing.

// What a layer above says of the model, which is kept and not read here.
TROUPE_STRUCT(trp_push_note, (troupe_text, name), (troupe_text, text));

// Not known: NULL.
TROUPE_STRUCT(trp_push_record, (troupe_text, ref), (troupe_text, at), (trp_push_schema, config),
              (trp_push_schema, state), (troupe_text, program), (troupe_text, build_id),
              (troupe_text, run), (troupe_text, data), (troupe_array_troupe_text, data_keys),
              (trp_push_program, kept), (troupe_array_trp_push_note, notes));

// What is to be said of a push of that checkpoint now, but for its ref. Texts go to `arena`.
troupe_status trp_push_record_make(const troupe_model *model, const char *checkpoint,
                                   trp_arena *arena, trp_push_record *record);
// The record of a manifest. TROUPE_NOT_FOUND: it has none, so was never pushed; TROUPE_CORRUPT.
troupe_status trp_push_record_read(const trp_manifest *manifest, trp_arena *arena,
                                   trp_push_record *record);
// A hash in hexadecimal; 0: it is none.
uint64_t trp_push_hash(const char *text);

#endif
