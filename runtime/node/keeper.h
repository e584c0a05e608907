// keeper.h: the process that is parent, sub-reaper and janitor of the node process and all workers.
//
// It is forked by troupe_start before the library has made a thread, stays single-threaded and
// small, allocates nothing, and has its own process group, so that Ctrl-C reaches the driver only.
// It watches the driver by pidfd: when the driver ends, however it ends, everything is killed and
// removed. Its orders come from the node process, over a socket pair of sequenced packets.
#ifndef TRP_NODE_KEEPER_H
#define TRP_NODE_KEEPER_H

#include <runtime/host/worker_env.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <troupe/status.h>

typedef enum trp_order_kind {
    TRP_ORDER_START,   // node -> keeper: make worker `slot`, `incarnation`, `isolated`
    TRP_ORDER_KILL,    // node -> keeper: kill worker `slot` of that incarnation
    TRP_ORDER_QUIT,    // node -> keeper: kill what is left and end
    TRP_ORDER_STARTED, // keeper -> node: worker `slot` has process `pid`; 0: `status` is the errno
    TRP_ORDER_EXITED,  // keeper -> node: worker `slot` has ended with wait status `status`
} trp_order_kind;

typedef struct trp_order {
    uint32_t kind; // trp_order_kind
    uint32_t slot;
    uint64_t incarnation;
    int32_t pid;
    int32_t status;
    uint32_t isolated;
    uint32_t crowded; // In the keeper and the worker: many begin at once.
} trp_order;

// A START as it is sent: behind the order the environment, then the folder, each with its NUL.
typedef struct trp_start_order {
    trp_order order;
    char text[2 * TRP_WORKER_ENV_MAX + TRP_WORKER_FOLDER_MAX + 4];
} trp_start_order;

// What the keeper is given: everything was made by the driver before the fork.
typedef struct trp_keeper_setup {
    int driver_pidfd;
    int driver_socket;             // Closed by the keeper's end: how the driver learns of it.
    int lock_fd;                   // Its lock says that the run folder is in use.
    int output_socket;             // Where pipes of workers go (host/worker_output.h); -1: nowhere.
    const char *folder;            // The run folder, removed at the end;
    const char *spill_folder;      // and that of objects' files, which may never be made.
    const char *guard;             // A file to lock (node/takeover.h); NULL: none.
    bool execute;                  // Workers are executed afresh:
    const char *program;           // this program,
    char **argv;                   // with these arguments.
    sigset_t mask;                 // The signal mask that workers start with.
    struct sigaction child_action; // What the program did about SIGCHLD.
    void (*run_node)(int keeper_socket); // Does not return.
    void (*prepare_worker)(void);        // What a spare does before it has its order.
    void (*run_worker)(uint32_t slot, uint64_t incarnation, bool isolated); // Does not return.
} trp_keeper_setup;

// Runs the keeper in the calling process, and the node process and workers in its children. Does
// not return.
_Noreturn void trp_keeper_run(const trp_keeper_setup *setup);

// The variable by which an executed worker knows itself: its process id, slot, incarnation, whether
// isolated, the segment's descriptor, and the run folder, with colons between. Another program that
// it executes inherits the variable, and is not meant by it.
#define TRP_WORKER_VARIABLE "TROUPE_WORKER"

#endif
