// stored.h: checkpoints to push, made without a run, of the model of line_model.h.
#ifndef STORED_H
#define STORED_H

#include "line_model.h"

#include <support.h>

#include <models/model.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/manifest.h>
#include <train/state.h>

// Makes the checkpoint `number` of the run in that folder, with that slope, and returns its path:
// to be freed.
static inline char *stored_checkpoint(const char *run, int number, double slope)
{
    const trp_model *model;
    char name[64];
    trp_buffer packed = {0}, text = {0};
    trp_path path;
    troupe_must(trp_model_of(&troupe_model_line, &model));
    struct {
        line it;
        trp_progress progress;
    } kept = {{0.5, slope}, {number, 0}};
    assert_int_equal(model->progress_at, sizeof kept.it);
    troupe_must(trp_state_pack("it", &model->kept, &kept, &packed));
    (void)snprintf(name, sizeof name, "checkpoints/checkpoint_%06d", number);
    char *folder = support_path(run, name);
    troupe_must(trp_folder_make(folder));
    const trp_metric metric = {"loss", 1 / slope};
    trp_manifest_file file = {.path = "rank_00000.safetensors",
                              .kind = TRP_FILE_STATE,
                              .size = packed.size,
                              .digest = trp_digest(packed.data, packed.size),
                              .schema = troupe_type_hash(&model->kept)};
    trp_manifest manifest = {.id = number,
                             .report = number + 1,
                             .world = 2,
                             .created = "2026-01-31T12:00:00.000Z",
                             .trainer = "line",
                             .config = "{\"rate\": 0.5, \"fitting\": {\"epochs\": 3}}",
                             .metadata = "{\"of\": \"the run\"}",
                             .metrics = {&metric, 1},
                             .files = {&file, 1}};
    trp_manifest_write(&manifest, &text);
    troupe_must(trp_path_make(&path, "%s/%s", folder, file.path));
    troupe_must(trp_file_write(path.text, &(trp_piece){packed.data, packed.size}, 1));
    troupe_must(trp_path_make(&path, "%s/" TRP_MANIFEST_NAME, folder));
    troupe_must(trp_file_write(path.text, &(trp_piece){text.data, text.size}, 1));
    trp_buffer_free(&packed);
    trp_buffer_free(&text);
    return folder;
}

static inline void stored_said(troupe_status status, troupe_status expected, const char *text)
{
    if (status != expected || !strstr(troupe_last_error()->text, text))
        fail_msg("expected %s and '%s': %s, %s", troupe_status_name(expected), text,
                 troupe_status_name(status), troupe_last_error()->text);
}

#endif
