// settings.h: settings of a trial over a version whose code is another program's: what the space
// draws, over the settings that all trials have.
#ifndef TRP_TUNE_SETTINGS_H
#define TRP_TUNE_SETTINGS_H

#include <runtime/base/arena.h>
#include <runtime/codec/json.h>

// The whole settings, in the arena: `drawn`, whose names are ways through objects ({"a.b": 1} is
// {"a": {"b": 1}}), laid over `under`. NULL: no memory.
const char *trp_settings_lay(trp_json under, trp_json drawn, trp_arena *arena);

#endif
