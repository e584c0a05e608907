// settings.h: settings of a trial over a version whose code is another program's: what the space
// draws, over the settings that all trials have.
#ifndef TRP_TUNE_SETTINGS_H
#define TRP_TUNE_SETTINGS_H

#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>

// Writes what both objects have, where both have it what the second has.
void trp_settings_merge(trp_json under, trp_json over, trp_buffer *out);
// Writes an object whose members have names with dots as objects within objects: {"a.b": 1} is
// {"a": {"b": 1}}.
void trp_settings_nest(trp_json flat, trp_buffer *out);

#endif
