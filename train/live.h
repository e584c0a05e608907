// live.h: the members of a config that may change while a run runs, and what is wished of them.
//
// Wishes are levels: of each member only the newest value counts. Pure but for memory; its user has
// a lock.
#ifndef TRP_LIVE_H
#define TRP_LIVE_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <troupe/train.h>

enum { TRP_LIVE_MEMBERS = 64 }; // As many as a struct has.

// Those that a trainer's .live names, in that order.
typedef struct trp_live_members {
    size_t count;
    const troupe_field *fields[TRP_LIVE_MEMBERS];
} trp_live_members;

// TROUPE_INVALID names what is wrong with the list.
troupe_status trp_live_members_of(const troupe_trainer *trainer, trp_live_members *members);

// What is wished of one member.
typedef struct trp_wish {
    void *value; // NULL: nothing.
    trp_arena arena;
} trp_wish;

typedef struct trp_live {
    const troupe_trainer *trainer;
    trp_live_members members;
    trp_wish *wishes;
    uint32_t revision; // Of the newest wish, over all openings of the run; 0: there is none.
    // Of the group that runs.
    bool running;  // Its ranks have been given values, and are told of newer ones.
    uint32_t told; // The revision that they have, or that is ordered.
    int from;      // The report with which an order takes effect that is in flight; 0: none is.
    trp_buffer ordered; // What that order says, as a JSON object,
    trp_buffer holds;   // and what its ranks have; empty: nothing but the config.
} trp_live;

// TROUPE_INVALID, TROUPE_NO_MEMORY. What failed needs no close.
troupe_status trp_live_open(trp_live *live, const troupe_trainer *trainer);
void trp_live_close(trp_live *live);
// The member of that name. TROUPE_NOT_FOUND lists all that there are, TROUPE_UNSUPPORTED those that
// are live.
troupe_status trp_live_find(const troupe_trainer *trainer, const trp_live_members *members,
                            const char *name, size_t *member);
// A value of a member, to be sent.
troupe_status trp_live_pack_value(const trp_live_members *members, size_t member, const void *value,
                                  trp_buffer *out);
// Makes a wish of a packed value. TROUPE_TOO_LARGE: with it, all together are; TROUPE_MALFORMED,
// TROUPE_NO_MEMORY.
troupe_status trp_live_make(trp_live *live, size_t member, troupe_bytes value, trp_wish *made);
// The same of a JSON value. TROUPE_WRONG_TYPE.
troupe_status trp_live_make_json(trp_live *live, size_t member, trp_json value, trp_wish *made);
// Puts a wish that was made in the place of the last one, as the newest, of that revision; or drops
// it.
void trp_live_take(trp_live *live, size_t member, trp_wish *made, uint32_t revision);
void trp_wish_drop(trp_wish *wish);
// A value of a member as JSON.
void trp_live_write_value(const trp_live *live, size_t member, const void *value, trp_buffer *out);
// All wishes as a JSON object; nothing where there are none.
void trp_live_write(const trp_live *live, trp_buffer *out);
// A config in which members have the values of `changes`, each a JSON object.
void trp_live_merge(trp_json config, trp_json changes, trp_buffer *out);
// All wishes, packed for trp_live_apply.
void trp_live_pack(const trp_live *live, trp_buffer *out);

// In a config: sets the members that were packed. Texts and arrays go to `arena`. TROUPE_MALFORMED,
// TROUPE_NO_MEMORY: some may have been set.
troupe_status trp_live_apply(const trp_live_members *members, const void *data, size_t size,
                             trp_arena *arena, void *config);

#endif
