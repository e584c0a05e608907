// server.h: the train server: one process of one thread, whose loop reads what has come, has the
// jobs decide (server/jobs.h), and answers.
#ifndef TRP_SERVER_H
#define TRP_SERVER_H

#include <server/jobs.h>

typedef struct trp_server_how {
    const char *folder;        // The state folder, which was checked.
    double cpus;               // What it gives away; 0: what the machine has.
    int gpus;                  // TROUPE_NONE: none.
    uint64_t memory_bytes;     // 0: seven tenths of the machine's.
    const char *resources;     // "license=2"; NULL: none.
    int clients_max;           // 0: 1024.
    bool gateway;              // It starts one, and ends it with itself.
    int warm_s;                // So long warm runners wait for jobs; 0: there are none.
    int idle_s;                // It ends after so long without clients and jobs; 0: never.
    void (*ready)(void *user); // Called when its socket can be connected to; NULL.
    void *user;
    // For tests: in place of trp_launcher_start. NULL: that.
    troupe_status (*launch)(const trp_wire_launch *launch, const trp_wire_order *order,
                            const char *folder, pid_t *pid, int *pidfd);
} trp_server_how;

// Takes the state folder for this process, for as long as *fd is open. TROUPE_BUSY: a server has
// it; TROUPE_IO.
troupe_status trp_server_lock(const char *folder, int *fd);
// Runs until it is told to stop, by a client or SIGTERM: TROUPE_OK. TROUPE_IO and others: why it
// had to end, or could not begin. With the lock.
troupe_status trp_server_run(const trp_server_how *how);

#endif
