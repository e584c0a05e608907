// web_json.h: JSON, member by member: each call puts the comma itself, by what stands before it.
#ifndef TRP_SERVER_WEB_JSON_H
#define TRP_SERVER_WEB_JSON_H

#include <runtime/codec/json.h>

// What a member or an item begins with; `name` NULL: an item.
void web_name(trp_buffer *out, const char *name);
// '{', '['; and their ends.
void web_begin(trp_buffer *out, const char *name, char bracket);
void web_end(trp_buffer *out, char bracket);
void web_text(trp_buffer *out, const char *name, const char *text); // NULL: no member.
void web_number(trp_buffer *out, const char *name, double value);
void web_integer(trp_buffer *out, const char *name, int64_t value);
void web_flag(trp_buffer *out, const char *name, bool value);
// A value that has been parsed; empty: no member.
void web_json(trp_buffer *out, const char *name, trp_json value);
// A text that should be JSON: a member only where it is.
void web_json_text(trp_buffer *out, const char *name, const char *text);
// A Unix time; 0: no member.
void web_time(trp_buffer *out, const char *name, double at);

#endif
