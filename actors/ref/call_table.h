// call_table.h: the table of this process's references: calls that are pending or done, and
// aliases.
//
//     CALL:   pending --resolve, exactly once--> done --last hold goes--> free
//     ALIAS:  of an object or of a CALL; borrowed ones belong to a running method
//
// A row's id has a count of the row's uses, which never comes again, and the row's place, so a
// stale id finds nothing. Rows are made in chunks that stay for the life of the program; each has
// its own lock. A row lives while anything holds it: its owner (until get or drop), aliases,
// callbacks, a promise.
#ifndef TRP_REF_CALL_TABLE_H
#define TRP_REF_CALL_TABLE_H

#include <actors/ref/body.h>
#include <runtime/base/cell_pool.h>
#include <stdatomic.h>

#define TRP_REF_OBJECT (UINT64_C(1) << 63)
#define TRP_REF_ALIAS (UINT64_C(1) << 62) // Of an alias's row.
enum { TRP_ENTRY_PLACES = 1 << 22 };
enum { TRP_REF_NO_MEMORY = 1 }; // The id of the reference that stands for a failed allocation.

// ---- how a call ended
typedef enum trp_result_kind {
    TRP_RESULT_FAILURE,
    TRP_RESULT_SMALL,  // A flat value without references, of at most TRP_RESULT_SMALL_MAX bytes.
    TRP_RESULT_VALUE,  // As a C value in memory of its own.
    TRP_RESULT_BODY,   // As it came from another process.
    TRP_RESULT_OBJECT, // Large, and in an object of the store of its own.
} trp_result_kind;

enum { TRP_RESULT_SMALL_MAX = 48 };

// A VALUE.
typedef struct trp_held_value {
    struct trp_held_value *next; // Of those that a thread has yet to free.
    trp_shape shape;             // Its type is NULL if it came as an image,
    size_t size;                 // of so many bytes.
    trp_arena arena;             // What it points to.
    _Alignas(16) unsigned char bytes[];
} trp_held_value;

typedef struct trp_result {
    uint8_t kind;    // trp_result_kind
    bool moved;      // The references in it belong to who got it.
    uint16_t size;   // Of a SMALL.
    uint64_t schema; // Of all but a FAILURE.
    union {
        troupe_error *failure; // NULL: there was no memory for it.
        trp_held_value *value;
        trp_body body;
        trp_object object; // With a hold of this process.
        _Alignas(16) unsigned char small[TRP_RESULT_SMALL_MAX];
    };
} trp_result;

// ---- who waits
typedef enum trp_waiter_word {
    TRP_WAITER_IDLE,
    TRP_WAITER_NOTIFIED,
    TRP_WAITER_ASLEEP,
} trp_waiter_word;

typedef struct trp_waiter {
    _Atomic uint32_t word;   // trp_waiter_word; the waker's exchange pairs with the sleeper's.
    _Atomic int32_t missing; // References that must still become ready before it is woken.
} trp_waiter;

typedef struct trp_wait_node {
    struct trp_wait_node *next, **link; // In the row's list, under its lock; link is NULL outside.
    trp_waiter *waiter;
    _Atomic bool ready; // Set (release) by the waker; pairs with the waiter's acquire.
} trp_wait_node;

typedef struct trp_when {
    struct trp_when *next;
    troupe_ref ref;
    trp_object object; // What is waited for, with a hold; 0: the row that this is in.
    void (*done)(void *user, troupe_ref ref);
    void *user;
} trp_when;

// Whoever sends a call again when an attempt has failed.
typedef struct trp_retry {
    // Whether that failure is not final. Under the row's lock: it takes no lock but its own.
    bool (*again)(struct trp_retry *retry, const troupe_error *failure);
    // Called after `again` said yes. Must not wait.
    void (*send)(struct trp_retry *retry);
    // Whether a call that its owner gives up is on its way to nobody, and so ends at once. Under
    // the row's lock. NULL: never.
    bool (*give_up)(struct trp_retry *retry);
} trp_retry;

// ---- rows
typedef struct trp_target {
    uint32_t process;
    uint64_t incarnation, actor;
    const char *class_name; // NULL: not known here.
    const char *method;     // Likewise.
} trp_target;

typedef enum trp_entry_kind { TRP_ENTRY_CALL, TRP_ENTRY_ALIAS } trp_entry_kind;

typedef struct trp_entry {
    _Atomic uint64_t id; // 0: free. Stored (release) when a row is whole, for the lockers' acquire.
    _Atomic uint32_t
        lock; // Of all that follows. 0: open; the release pairs with the taker's acquire.
    uint32_t holds;
    uint8_t kind;   // trp_entry_kind
    bool owned;     // Not consumed yet.
    bool borrowed;  // ALIAS: of a method's argument.
    bool started;   // CALL: the method may have begun to run.
    bool expired;   // CALL: its deadline has passed; it must not start any more.
    bool sending;   // CALL: its sender waits for room, and ends it if that takes too long.
    bool cancelled; // CALL: its owner has given it up.
    bool force;     // CALL: at its deadline, whatever runs it is killed.
    bool streams;   // CALL: of a streaming method: its wait may end and begin again.
    bool tried;     // CALL: it was sent before, and may have been executed then.
    bool apart; // CALL: its end needs no turn of its actor: who waits for it is no part of a ring.
    _Atomic bool
        done;         // CALL: `result` is set and will not change. Release, for looks without lock.
    uint32_t watched; // Threads that wait, or were woken and have not looked yet.
    trp_wait_node *waiters;
    trp_when *whens;
    trp_object promise;    // The object that carries the value to other processes; 0: none.
    uint64_t next_promise; // Of those that a thread has yet to fulfil: the next call; 0: none.
    union {
        trp_result result;    // CALL, if done.
        struct {              // CALL, if pending:
            trp_retry *retry; // who may send it again when it fails; NULL: nobody,
            uint64_t part_of; // and the reference that it is a part of (split.c); 0: it is none.
        };
        trp_cell cell; // Free.
        struct {
            uint64_t of; // ALIAS: the object or the CALL.
            uint64_t next_borrowed;
        };
    };
    uint64_t schema;     // Of the value; 0: any.
    int64_t deadline_ns; // 0: none.
    trp_target target;
    uint64_t next_id; // At its next use.
} trp_entry;

// A pending call's row, owned by the caller; TRP_REF_NO_MEMORY if there is none left.
uint64_t trp_entry_call(uint64_t schema, const trp_target *target, int64_t deadline_ns);
// An alias of the object or row that the reference names, which it holds. `borrowed`: for a
// method's argument, chained before the alias `next` (0: none). TROUPE_INVALID: the reference is
// stale; TROUPE_NO_MEMORY also: this process holds the object too often.
troupe_status trp_entry_alias(troupe_ref ref, bool borrowed, uint64_t next, uint64_t *alias);
// A borrowed one of an object, whose hold becomes the alias's; 0: no memory.
uint64_t trp_entry_adopt(troupe_ref ref, uint64_t next);
// Releases a borrowed alias and returns the next one of its chain.
uint64_t trp_entry_return(uint64_t id);
// Where in the table the row of that id is: below TRP_ENTRY_PLACES.
uint32_t trp_entry_place(uint64_t id);
// The row, locked; NULL if the id is stale.
trp_entry *trp_entry_lock(uint64_t id);
void trp_entry_unlock(trp_entry *entry);
// Adds a hold to a CALL / gives one back, and frees the row after the last one.
bool trp_entry_hold(uint64_t id);
void trp_entry_release(uint64_t id);
// Takes the result of a call that is done out of its row, and frees the row, if `id` is its owner's
// and nothing else holds it (`pinned`: but the caller's own wait, which ends with it). False: not
// so.
bool trp_entry_take(uint64_t id, bool pinned, trp_result *result);
// Whether a row's value can be read without waiting: its call is done, or the id is stale. Takes no
// lock where the id is a CALL's.
bool trp_entry_ready(uint64_t id);
// The same for many, of which those that are no CALLs are shown to `other`. Says which (ready may
// be NULL), and how many.
size_t trp_entries_ready(const troupe_ref *refs, size_t count, bool *ready,
                         bool (*other)(troupe_ref ref));
// The object that the result of a call that is done is; 0: it is none. The row must be held.
trp_object trp_entry_object(uint64_t id);
// Ends a pending call: takes the result over, wakes who waits. False if it had ended, or nobody
// wants it.
bool trp_entry_resolve(uint64_t id, trp_result *result);
bool trp_entry_fail(uint64_t id, const troupe_error *failure);
// The same by a frame of that incarnation, which must be who was asked last: nobody else ends a
// call.
typedef enum trp_answered {
    TRP_ANSWERED,
    TRP_ANSWERED_BEFORE,  // It had ended, or nobody wants it: a late answer.
    TRP_ANSWERED_UNASKED, // By somebody else.
} trp_answered;
trp_answered trp_entry_answer(uint64_t id, uint64_t incarnation, trp_result *result);
// From now on the call's failures are shown to `retry` first, which stays until the call has ended.
void trp_entry_retry(uint64_t id, trp_retry *retry);
// Says that a row will be ended by what becomes of the reference with that id.
void trp_entry_part(uint64_t id, uint64_t of);
// Gives a pending call a new target. False: it has ended, or was cancelled.
bool trp_entry_aim(uint64_t id, const trp_target *target);
// A pending call has no target until it gets one: nobody has it, so that the end of the process
// that had it ends it no more, and a cancellation ends it at once. So it is between two attempts.
// False: it has ended, or was cancelled before: then the caller ends it.
bool trp_entry_leave(uint64_t id);
bool trp_target_is_none(const trp_target *target);
// Says that a call with a deadline begins to run. False: it has timed out.
bool trp_entry_start(uint64_t id);
// Says that a call will be answered apart from its actor's turns / that its deadline kills.
void trp_entry_apart(uint64_t id);
void trp_entry_force(uint64_t id);
// Says that it is a stream's.
void trp_entry_streams(uint64_t id);
// Brackets the sending of a call to another process: meanwhile its timer leaves it to the sender.
// False: it has ended already, and must not be sent. Then, true: the deadline has passed; the
// sender ends the call.
bool trp_entry_sending(uint64_t id);
bool trp_entry_sent(uint64_t id, bool success);

enum { TRP_WAIT_UNCOUNTED = INT32_MAX / 2 }; // More than can be missing: nobody is woken yet.

// What a reference names: 0 (stale, or consumed), an object, or the id of a CALL.
uint64_t trp_entry_behind(troupe_ref ref);
// Ends the owner's claim on a reference. False: it was stale or borrowed; then nothing changes.
bool trp_entry_disown(uint64_t id);
// Takes that back.
void trp_entry_own(uint64_t id);

// Ends every pending call to a process (NULL: every one), with a failure that `describe` makes.
typedef void trp_entry_describe(const trp_entry *entry, const void *user, troupe_error *failure);
void trp_entries_fail(const uint64_t *incarnation, trp_entry_describe *describe, const void *user);
// Frees every row that nobody waits for. Only when all calls have ended.
void trp_entries_clear(void);

#endif
