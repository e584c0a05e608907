// frame_rules.h: what each kind of frame may be.
#ifndef TRP_LINK_FRAME_RULES_H
#define TRP_LINK_FRAME_RULES_H

#include <runtime/link/frame.h>

// frame_rules.c: whether a valid frame may come from a process of this node, or of another one
// (`far`), in whose own numbers `from` is; `to_node`: to a node process.
bool trp_frame_allowed(const trp_frame *frame, bool far, bool to_node);

// Whether its body is a value, as ref/body.h says.
bool trp_frame_has_value(const trp_frame *frame);
bool trp_frame_kind_known(uint32_t kind);

#endif
