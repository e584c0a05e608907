// frame_rules.c: what each kind of frame may be: which processes may send it, and what it may
// carry. Checked where a frame comes in, also outside sessions, before it is acted on, and where
// one goes out to another node.
//
// What is in this node's memory (objects, holds, images of values) means nothing in another one: a
// frame from there carries packed bytes alone, and none of the kinds by which processes of a node
// count, make and restart each other's actors.
#include <runtime/link/frame_rules.h>

#include <runtime/link/frame.h>
#include <runtime/shm/segment.h>

typedef enum way {
    NEAR = 1,      // From a process of this node,
    FAR = 2,       // or of another one.
    FROM_NODE = 4, // Sent by a node process alone.
    TO_NODE = 8,   // Sent to a node process alone;
    TO_ALL = 16,   // to any: else never to a node process.
} way;

typedef enum carries {
    NOTHING,
    BYTES, // That name nothing: their reader copies what it wants.
    LIST,  // Bytes that may name objects, whose holds come along. Within a node.
    VALUE, // Likewise, as ref/body.h says; from another node without any.
} carries;

enum {
    FORMS = TRP_FRAME_STORED | TRP_FRAME_IMAGE | TRP_FRAME_OBJECT | TRP_FRAME_HELD, // One at most.
    RESULT = TRP_FRAME_STORED | TRP_FRAME_IMAGE | TRP_FRAME_OBJECT | TRP_FRAME_UNHELD,
    ARGUMENTS = RESULT | TRP_FRAME_HELD | TRP_FRAME_NAMED,
    INNER = FORMS | TRP_FRAME_UNHELD | TRP_FRAME_BOXED, // Within a node.
    WINDOW = TRP_FRAME_WINDOW_MAX << TRP_FRAME_WINDOW_SHIFT,
};

typedef struct rule {
    uint8_t ways, body;
    uint32_t flags;
} rule;

static const rule rules[] = {
    [TRP_FRAME_FLUSH] = {NEAR | FAR | TO_ALL, NOTHING, 0},
    [TRP_FRAME_ASK] = {NEAR | FAR | TO_NODE, BYTES, 0},
    [TRP_FRAME_ANSWER] = {NEAR | FAR | TO_ALL | FROM_NODE, BYTES, 0},
    [TRP_FRAME_DEATH] = {NEAR | FROM_NODE, NOTHING, 0},
    [TRP_FRAME_END] = {NEAR | FROM_NODE, NOTHING, 0},
    [TRP_FRAME_CREDIT] = {NEAR | FAR | TO_ALL, NOTHING, 0},
    [TRP_FRAME_PAUSE] = {NEAR | FAR | TO_ALL, NOTHING, 0},
    [TRP_FRAME_REACH] = {FAR | TO_ALL, BYTES, 0},
    [TRP_FRAME_BEAT] = {FAR | TO_ALL, NOTHING, 0},
    [TRP_FRAME_NODE] = {NEAR | FAR | TO_NODE, BYTES, 0},
    [TRP_FRAME_GONE] = {NEAR | FROM_NODE, BYTES, 0},
    [TRP_FRAME_CALL] = {NEAR | FAR, VALUE, ARGUMENTS | WINDOW},
    [TRP_FRAME_TELL] = {NEAR | FAR, VALUE, ARGUMENTS},
    [TRP_FRAME_REPLY] = {NEAR | FAR, VALUE, RESULT},
    [TRP_FRAME_SPAWN] = {NEAR, VALUE, TRP_FRAME_STORED | TRP_FRAME_UNHELD},
    [TRP_FRAME_KILL] = {NEAR | FAR, NOTHING, TRP_FRAME_FORCE},
    [TRP_FRAME_FINISH] = {NEAR | FAR, NOTHING, 0},
    [TRP_FRAME_WATCH] = {NEAR | FAR, NOTHING, 0},
    [TRP_FRAME_UNWATCH] = {NEAR | FAR, NOTHING, 0},
    [TRP_FRAME_DOWN] = {NEAR | FAR, BYTES, 0},
    [TRP_FRAME_COUNT] = {NEAR, NOTHING, 0},
    [TRP_FRAME_RESTART] = {NEAR, NOTHING, TRP_FRAME_FORCE},
    [TRP_FRAME_REGISTRAR] = {NEAR, LIST, TRP_FRAME_UNHELD},
    [TRP_FRAME_LINK] = {NEAR, NOTHING, TRP_FRAME_UNLINK | TRP_FRAME_OWNED},
    [TRP_FRAME_CANCEL] = {NEAR | FAR, NOTHING, TRP_FRAME_FORCE | TRP_FRAME_GENTLE},
    [TRP_FRAME_ITEM] = {NEAR | FAR, VALUE, RESULT},
    [TRP_FRAME_TAKEN] = {NEAR | FAR, NOTHING, 0},
    [TRP_FRAME_PROBE] = {NEAR | FAR, BYTES, 0},
};

static const rule *rule_of(uint32_t kind)
{
    enum { COUNT = sizeof rules / sizeof rules[0] };
    return kind < COUNT && rules[kind].ways != 0 ? &rules[kind] : NULL;
}

bool trp_frame_kind_known(uint32_t kind)
{
    return rule_of(kind) != NULL;
}

bool trp_frame_has_value(const trp_frame *frame)
{
    const rule *its = rule_of((uint32_t)frame->kind);
    bool failed = frame->kind == TRP_FRAME_REPLY && frame->status != TROUPE_OK;
    return its != NULL && its->body == VALUE && !failed;
}

// Whether a kind goes from there to there at all.
static bool goes(const rule *its, bool far, uint32_t from, bool to_node)
{
    if ((its->ways & (far ? FAR : NEAR)) == 0)
        return false;
    if ((its->ways & FROM_NODE) != 0 && from != TRP_PROCESS_NODE)
        return false;
    return to_node ? (its->ways & (TO_NODE | TO_ALL)) != 0 : (its->ways & TO_NODE) == 0;
}

bool trp_frame_allowed(const trp_frame *frame, bool far, bool to_node)
{
    const rule *its = rule_of((uint32_t)frame->kind);
    if (its == NULL || !goes(its, far, frame->from, to_node))
        return false;
    uint32_t forms = frame->flags & FORMS,
             allowed = far ? its->flags & ~(uint32_t)INNER : its->flags;
    if ((frame->flags & ~allowed) != 0 || (forms & (forms - 1)) != 0)
        return false;
    return frame->body_size == 0 || its->body != NOTHING;
}
