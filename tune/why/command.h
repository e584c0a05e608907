// command.h: the command line of a trial of another program.
#ifndef TRP_WHY_COMMAND_H
#define TRP_WHY_COMMAND_H

#include <runtime/codec/json.h>

// The words of an array of texts, filled in as for a trial (tune/command/template.h), what the
// config lacks by nothing; NULL at the end. They belong to the thread's arena. NULL: no memory.
const char *const *trp_command_of(trp_json words, trp_json config, int trial);

#endif
