// command.h: the command line of a trial of another program.
#ifndef TRP_WHY_COMMAND_H
#define TRP_WHY_COMMAND_H

#include <runtime/codec/json.h>

// The words of an array of texts, in which {name} is the value of that member of the config, as
// text; NULL at the end. It belongs to the thread's arena. NULL: no memory.
const char *const *trp_command_of(trp_json words, trp_json config);

#endif
