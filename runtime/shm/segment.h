// segment.h: the node's one shared-memory segment (a memfd that every process of the node inherits)
// and its areas. Offsets, never pointers; no atomic wider than 8 bytes; every page is reserved with
// fallocate before it is touched.
#ifndef TRP_SHM_SEGMENT_H
#define TRP_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <troupe/status.h>

enum {
    TRP_PROCESSES_MAX = 2048, // Slots of the process table: 0 is the node process, 1 the driver.
    // Numbers from here up name processes of other nodes, in the process that talks to them alone.
    TRP_FAR_MAX = 2048,
    TRP_PEERS_MAX = TRP_PROCESSES_MAX + TRP_FAR_MAX,
    TRP_PROCESS_NODE = 0,
    TRP_PROCESS_DRIVER = 1,
};

typedef enum trp_process_state {
    TRP_PROCESS_FREE,
    TRP_PROCESS_STARTING,
    TRP_PROCESS_READY,
    TRP_PROCESS_DEAD, // `cause` is set; the slot is given to another process only with a new
                      // incarnation.
} trp_process_state;

typedef enum trp_process_end_kind {
    TRP_END_UNKNOWN,
    TRP_END_EXITED,
    TRP_END_SIGNALLED,
    TRP_END_KILLED, // By request.
    TRP_END_MEMORY, // At the limit of memory.
} trp_process_end_kind;

// One row of the process table, read by all. The node process writes it; besides, the driver writes
// its own and the node's before the first fork, a process says READY itself, and the driver says
// DEAD of all others when the node process is lost. `cause` is written before state becomes DEAD.
typedef struct trp_process_row {
    _Atomic uint32_t state; // trp_process_state
    _Atomic int32_t pid;
    _Atomic uint64_t incarnation;
    char cause[112]; // "was killed by signal 9 (Killed)", "exited with status 3", ...
    // Who works there, by the process itself: its actor, then what that does. Each is written once,
    // before `labelled` counts it; the last one counts.
    char labels[2][64];
    _Atomic uint32_t labelled;
    // How it ended, for programs: written before `state` becomes DEAD.
    _Atomic uint32_t end;       // trp_process_end_kind
    _Atomic int32_t end_number; // The signal, or the exit status.
    _Atomic uint64_t culprit;   // The actor whose method crashed it, by itself; 0: not known.
    // Of the one actor that has the process for itself, once it has ended: by the process itself.
    _Atomic uint32_t last_reason; // 0: it has not; set after the words.
    _Atomic uint32_t last_final;  // Nobody is to start it again; set before the reason.
    char last_words[100];
    _Atomic uint64_t registrar;  // Of the driver: not 0 once there are actors to be restarted.
    _Atomic uint32_t relocation; // Of the driver: changes when one of them has been, or is lost.
    _Atomic uint32_t isolated;   // 1: it was made for one actor alone.
} trp_process_row;

enum { TRP_LABEL_MAX = 64 };

// ---- other nodes (docs/internals/runtime/nodes.md)

enum { TRP_NODES_MAX = 64, TRP_NODE_ADDRESS_MAX = 64 };

typedef enum trp_node_state {
    TRP_NODE_FREE,
    TRP_NODE_OPEN, // Its frames are taken: it may begin before we know that it has heard us.
    TRP_NODE_LIVE, // And it may be sent to.
    TRP_NODE_GONE, // `cause` is set.
} trp_node_state;

// A node that this one has, or had, a session with. The node process writes it; the texts before
// the state that lets others read them. A row is kept for its node until there is no other left.
typedef struct trp_node_row {
    _Atomic uint32_t state;       // trp_node_state
    _Atomic uint32_t id;          // The node's.
    _Atomic uint64_t session;     // 0: none.
    _Atomic uint64_t incarnation; // Of its node process.
    _Atomic uint64_t joined;      // Rises with each session here: the order of joining.
    char address[TRP_NODE_ADDRESS_MAX];
    // Another that it was joined by, a host's name say; "": none. Set once, while it may be read.
    char asked[TRP_NODE_ADDRESS_MAX];
    char cause[112];
} trp_node_row;

typedef struct trp_node_table {
    _Atomic uint32_t id;                // This node's, not 0.
    _Atomic uint64_t strangers;         // Connections refused.
    _Atomic uint64_t refused;           // Frames that the node process has refused.
    char listen[TRP_NODE_ADDRESS_MAX];  // Where this node is to listen, in numbers.
    char address[TRP_NODE_ADDRESS_MAX]; // Of this node: set before its node process is READY.
    trp_node_row rows[TRP_NODES_MAX];
} trp_node_table;

trp_node_table *trp_segment_nodes(void);

// Makes the segment: the file is created, tables reserved, and everything mapped. Driver only,
// before fork.
troupe_status trp_segment_create(size_t capacity);
// Maps a segment that another process made (an executed worker); TROUPE_CORRUPT or TROUPE_VERSION
// if its header is not ours. Forked children need not call it.
troupe_status trp_segment_attach(int fd);
// Unmaps and closes. Harmless without a segment.
void trp_segment_close(void);
// The memfd, to be inherited; -1: none.
int trp_segment_fd(void);
trp_process_row *trp_segment_process(uint32_t slot);

#endif
