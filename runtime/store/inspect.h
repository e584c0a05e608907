// inspect.h: looking at the objects of a store without taking part in it: of this process's node,
// or of any node of this machine, whose tables are mapped to be read. Takes no lock, writes
// nothing, and needs no answer: a node that hangs can be looked at.
#ifndef TRP_STORE_INSPECT_H
#define TRP_STORE_INSPECT_H

#include <runtime/shm/layout.h>
#include <runtime/store/residency.h>
#include <runtime/store/row.h>
#include <runtime/store/store.h>

typedef struct trp_store_view {
    const char *base;         // Of the tables.
    const trp_header *header; // Others may write any word of it, and of the tables, at any time:
                              // each is read once, and checked.
    trp_plan plan;            // What the header said of places and sizes when that was checked.
    int fd;
    size_t mapped; // 0: this process's own segment.
} trp_store_view;

// Opens the store of the node that process `pid` belongs to (0: this one's). NOT_FOUND: it belongs
// to none, or may not be looked at; NOT_STARTED; VERSION.
troupe_status trp_view_open(int pid, trp_store_view *view);
void trp_view_close(trp_store_view *view);

// One object, as it was at one moment.
typedef struct trp_object_seen {
    trp_object id;
    trp_row_state state;
    trp_object_kind kind;
    uint64_t size, bytes, schema; // `bytes`: as allocated.
    uint32_t made_ms, used_ms, maker;
    trp_where where;
} trp_object_seen;

// False: no object is there, or it is being made, or it changed each time that it was read.
bool trp_view_object(const trp_store_view *view, uint32_t slot, trp_object_seen *seen);
uint32_t trp_view_objects(const trp_store_view *view); // Slots to look at.

// What one process that is not dead holds of an object: the holds include the pins.
typedef struct trp_hold_seen {
    uint32_t process, object, holds, pins;
} trp_hold_seen;
// Shows all of them, process by process.
void trp_view_holds(const trp_store_view *view, void (*show)(const trp_hold_seen *hold, void *user),
                    void *user);

// A process of the node: "driver", "node", "worker 3", or the name of its isolated actor. All texts
// end, and can be printed.
typedef struct trp_process_seen {
    int pid;
    char label[TRP_LABEL_MAX];
} trp_process_seen;
trp_process_seen trp_view_process(const trp_store_view *view, uint32_t process);

// The name of a type; false: no object of it was made by a process that knew its name.
bool trp_view_type(const trp_store_view *view, uint64_t schema, char name[TRP_TYPE_NAME]);

// Bytes that are neither objects nor parts of pages cut up for small ones, and the longest run.
void trp_view_room(const trp_store_view *view, uint64_t *left, uint64_t *longest);
// Of memory that the segment has taken from the system.
troupe_status trp_view_backed(const trp_store_view *view, uint64_t *bytes);

// Says what an object that this process has just made is for, where that is not a put value, a
// promised result, a shared region, or what the runtime needs.
void trp_store_kind(trp_object id, trp_object_kind kind);

// Shows all the name of the type that goes with a schema.
void trp_store_name_type(uint64_t schema, const char *name);

// Who holds most of the store, at most three processes, as a part of a sentence: "held by driver
// (pid 7) 6.0 MiB, worker 2 (pid 9) 1.5 MiB". Empty: nobody holds anything.
void trp_store_holders(char *text, size_t size);

#endif
