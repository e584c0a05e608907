// ask.h: what processes ask of their node process, and node processes of each other.
#ifndef TRP_LINK_ASK_H
#define TRP_LINK_ASK_H

// What is asked in an ASK frame's `method`.
typedef enum trp_ask {
    // target: isolated or not; body (if isolated): [env, folder] -> target: slot, schema:
    // incarnation
    TRP_ASK_WORKER = 1,
    TRP_ASK_KILL,       // target: slot, schema: incarnation, body: cause
    TRP_ASK_NAME_PUT,   // body: [name, value]
    TRP_ASK_NAME_GET,   // body: [name] -> body: value
    TRP_ASK_NAME_DROP,  // body: [name]; target: the `call` of the request that put it; 0: any
    TRP_ASK_STOP,       // no answer
    TRP_ASK_CLAIM,      // body: see admission.c -> target: the claim, body: ids of GPUs
    TRP_ASK_CLAIM_GIVE, // target: the claim, schema: incarnation, body: slot
    TRP_ASK_CLAIM_DROP, // target: the claim, or 0 and schema: the `call` that waits; no answer
    TRP_ASK_CLAIM_LIST, // -> body: see admission.c
    TRP_ASK_JOIN,       // body: the address of another node, a space, the same in numbers
    TRP_ASK_LEAVE,      // body: the address of another node
    TRP_ASK_PING,       // nothing
    TRP_ASK_WHERE,      // of a far process: target: slot, schema: incarnation -> body: its address
} trp_ask;

#endif
