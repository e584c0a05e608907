// best_mode.h: a program that is started once more, to train the best config of one of its sweeps:
// what is put down of it when the sweep begins, and what it does then in place of the sweep.
#ifndef TRP_TUNE_BEST_MODE_H
#define TRP_TUNE_BEST_MODE_H

#include <runtime/base/buffer.h>
#include <troupe/tune.h>

// TROUPE_TRAIN_BEST tells it, as "<its process>:<descriptor>", where the request is.

// As the first line of a record has it. Not the environment, which may have what is secret.
TROUPE_STRUCT(trp_best_program, (troupe_text, path), (troupe_array_troupe_text, arguments),
              (troupe_text, folder),  // That it was started in.
              (troupe_text, sweep),   // The option .name.
              (troupe_text, schema)); // Of the trainer's config, in hexadecimal.

TROUPE_STRUCT(trp_best_request, (troupe_text, trainer), (troupe_text, sweep), (troupe_text, schema),
              (troupe_text, folder),  // The sweep's.
              (troupe_text, config),  // JSON; and what was drawn, with options of the run,
              (troupe_text, params)); // NULL: not known.

// trp_sweep_port.program of the real Train. What cannot be found out is left out.
void trp_best_program_note(trp_buffer *line, const troupe_sweep *sweep);
// Called before a sweep begins. Where this process was started for that sweep it trains the config
// with the options that the trials would have, and ends the process: it does not return then.
void trp_best_mode_take(const troupe_trainer *trainer, const troupe_param *space, size_t count,
                        const troupe_tune_options *how);

#endif
