// web_sweeps.h: what is kept of the sweeps that were asked for lately: the trials that their
// trials.jsonl speaks of, so that the next request reads only what was added.
#ifndef TRP_SERVER_WEB_SWEEPS_H
#define TRP_SERVER_WEB_SWEEPS_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    WEB_TRIALS_MAX = 2000, // More are counted.
    WEB_TRIAL_POINTS = 96, // Of a trial's curve, at equal distances, which double as it goes on.
    WEB_TRIAL_NAME = 256,
    WEB_SWEEP_TEXT_MAX = 8 << 20,   // Bytes of configs and errors: those beyond are counted.
    WEB_SWEEP_BYTES_MAX = 12 << 20, // What that and the trials come to.
    WEB_SWEEPS_KEPT = 8,
    WEB_SWEEPS_BYTES_MAX = 32 << 20, // Of all that are kept.
};

typedef struct web_trial {
    const char *name;
    const char *config; // JSON; NULL: not known yet.
    const char *error;  // NULL: none.
    const char *state;  // "RUNNING" from its first report on.
    char metrics[512];  // The last ones, as a JSON object; "": none, or too long.
    int reports, stride;
    double elapsed_s, best;
    bool has_best;
    size_t used;
    float points[WEB_TRIAL_POINTS]; // Point i is of report 1 + i * stride.
} web_trial;

typedef struct web_sweep {
    struct web_sweep *next;
    char *folder;
    uint64_t inode, read, asked;
    bool whole, skipping;
    trp_arena arena;
    const char *trainer, *metric, *goal, *scheduler, *searcher;
    int wanted; // Trials.
    char seed[24];
    web_trial **trials;
    size_t count, room;
    size_t text_bytes;
    uint64_t left_out, texts_left_out, bad_lines;
} web_sweep;

typedef struct web_sweeps {
    web_sweep *first;
    size_t count;
    uint64_t requests;
} web_sweeps;

// As web_runs_find, of a folder with trials.jsonl.
troupe_status web_sweeps_find(web_sweeps *sweeps, const char *folder, size_t *budget,
                              web_sweep **sweep);
void web_sweeps_clear(web_sweeps *sweeps);

#endif
