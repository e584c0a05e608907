// server_internal.h: what the parts of the server's process share.
#ifndef TRP_SERVER_INTERNAL_H
#define TRP_SERVER_INTERNAL_H

#include <server/fence.h>
#include <server/server.h>
#include <sys/epoll.h>
#include <time.h>

enum {
    TRP_CLIENTS_MAX = 1024,
    TRP_FRAMES_A_TURN = 64,        // Of a connection.
    TRP_OUT_ENOUGH = 1 << 20,      // What waits to be read by a client for it not to be heard.
    TRP_TOLD_ENOUGH = 256 << 10,   // For it not to be told of changes: of each, it gets the last.
    TRP_STRANGER_BYTES = 64 << 10, // Of a frame, before the greeting.
    TRP_IN_BYTES_MAX = 256 << 20,  // Of frames that are not whole, of all connections together.
};

typedef enum trp_source_kind {
    TRP_SOURCE_LISTENER,
    TRP_SOURCE_SIGNALS,
    TRP_SOURCE_CALENDAR,
    TRP_SOURCE_CLIENT,
    TRP_SOURCE_PROCESS,
    TRP_SOURCE_GATEWAY,
    TRP_SOURCE_TRACK,
} trp_source_kind;

// What epoll tells of.
typedef struct trp_source {
    trp_source_kind kind;
    int fd;
} trp_source;

typedef struct trp_client trp_client;
typedef struct trp_watch trp_watch;
typedef struct trp_process trp_process;
typedef struct trp_warm trp_warm;

// A client watches a job: in the lists of both.
struct trp_watch {
    trp_client *client;
    trp_entry *job;
    trp_watch *of_client, *of_job; // The next ones.
    bool changed;                  // Since it was told.
};

struct trp_client {
    trp_source source;
    trp_client *next, **before;
    pid_t process;
    trp_buffer in, out;
    size_t sent;     // Of `out`.
    uint32_t events; // That epoll is asked for.
    bool greeted;
    bool more;       // Has frames that were not handled.
    bool closing;    // Once `out` is sent.
    bool dead;       // To be freed at the end of the turn.
    trp_entry *runs; // It is the runner of that job,
    int64_t told;    // and has been told these wishes.
    trp_watch *watches;
    trp_warm *warm; // It is that warm runner; NULL: none.
};

struct trp_process {
    trp_source source; // A pidfd; -1: of a warm runner, which says of the end.
    pid_t process;
    bool own;
    trp_entry *job; // NULL: it is only waited for.
    trp_process *next_dead;
};

// What the server has of a job: its `user`.
typedef struct trp_job_link {
    trp_client *runner;
    trp_process *process;
    trp_watch *watches;
} trp_job_link;

// An answer that is owed, made once the turn's changes are stored.
typedef struct trp_owed {
    trp_client *client;
    uint32_t number;
    trp_wire_kind kind; // Of the answer.
    troupe_status status;
    char *text; // Of a failure; of a wish: that the job has ended.
    int64_t job;
    bool stores;        // It promises what the turn has changed, which has to be stored.
    bool hello;         // Of a greeting: it says the server's version.
    trp_wire_list list; // Of TRP_WIRE_JOBS.
} trp_owed;

typedef struct trp_server {
    const trp_server_how *how;
    trp_jobs *jobs;
    int epoll;
    trp_source listener, signals, calendar;
    trp_source gateway; // A pidfd; -1: none runs,
    pid_t gateway_process;
    int64_t gateway_at_ms; // and it is to be started then; else when it was.
    int gateway_pause_ms;  // Before the last start.
    trp_source track;      // Who sends to trackers, a pidfd; -1: none runs,
    pid_t track_process;
    bool track_wanted;   // and there may be something to send,
    int64_t track_at_ms; // not before that.
    int track_pause_ms;
    trp_client *clients;
    int client_count;
    trp_process *dead_processes;
    trp_warm *warm; // The newest first.
    size_t in_bytes;
    trp_owed *owed;
    size_t owed_count, owed_room;
    bool any_more;
    bool stopping, stop_jobs;
    double started_at, calendar_at;
    int64_t idle_ms; // Since when there is nothing to do; 0: there is.
    sigset_t mask;   // Of signals, as the server found it.
} trp_server;

// ---- server.c

troupe_status trp_server_listen_to(trp_server *server, trp_source *source, uint32_t events);

// ---- server_gateway.c

// Starts the gateway where that is due.
void trp_server_gateway_turn(trp_server *server);
// When it is to be started; INT64_MAX: never.
int64_t trp_server_gateway_due(const trp_server *server);
// It has ended, as its pidfd says.
void trp_server_gateway_ready(trp_server *server);
void trp_server_gateway_close(trp_server *server);
// Asks it to end.
void trp_server_gateway_end(trp_server *server);

// ---- server_track.c: who sends to trackers (docs/internals/server/trackers.md)

// A job has ended, or a runner says that it runs; other states (train/wire.h) are passed over.
void trp_server_track_changed(trp_server *server, int state);
// Starts it where there is something to send, or may be since an earlier server.
void trp_server_track_begin(trp_server *server);
void trp_server_track_turn(trp_server *server);
int64_t trp_server_track_due(const trp_server *server);
void trp_server_track_ready(trp_server *server);
void trp_server_track_close(trp_server *server);
void trp_server_track_end(trp_server *server);
// ---- server_warm.c

// Starts an attempt by a warm runner. Else false, and *order says whether a copy of its runner is
// to become one.
bool trp_server_launch_warm(trp_server *server, trp_entry *job, const trp_wire_launch *launch,
                            trp_wire_order *order, pid_t *process);
// What a client that is one says.
void trp_server_warm_comes(trp_server *server, trp_client *client, uint64_t token);
void trp_server_warm_taken(trp_client *client, const trp_wire_taken *what);
void trp_server_warm_gone(trp_server *server, trp_client *client, const trp_wire_gone *what);
// Of a runner that has ended: whether a warm one, which made it, will say how. It is waited for.
bool trp_server_warm_tells(trp_server *server, trp_entry *job);
void trp_server_forget_warm(trp_server *server, trp_client *client);
void trp_server_close_warm(trp_server *server);
// Ends those whose time is over; when the next one's is, INT64_MAX: never.
void trp_server_warm_turn(trp_server *server);
int64_t trp_server_warm_due(const trp_server *server);

// ---- server_clients.c

void trp_client_accept(trp_server *server);
// What epoll says of it.
void trp_client_ready(trp_server *server, trp_client *client, uint32_t events);
// Handles the frames that have come, as far as it is their turn.
void trp_client_read_frames(trp_server *server, trp_client *client);
// Adds a frame to what is sent. A client for which there is no memory is closed.
void trp_client_put(trp_server *server, trp_client *client, trp_wire_kind kind, uint32_t number,
                    const troupe_type *type, const void *value);
void trp_client_flush(trp_server *server, trp_client *client);
void trp_client_fail(trp_server *server, trp_client *client, troupe_status status,
                     const char *text);
void trp_client_free_dead(trp_server *server);
void trp_client_free(trp_server *server, trp_client *client);

// ---- server_requests.c

// Handles a frame; what it answers is owed.
void trp_request_handle(trp_server *server, trp_client *client, const trp_wire_frame *frame);
// Makes the answers that are owed; `stored`: how the turn's changes were stored.
void trp_server_answer_all(trp_server *server, troupe_status stored);

// ---- server_acts.c

trp_jobs_acts trp_server_acts(trp_server *server);
void trp_server_process_ready(trp_server *server, trp_process *process);
void trp_server_free_dead_processes(trp_server *server);
// The job's link, made if need be; NULL: no memory.
trp_job_link *trp_server_link(trp_entry *job);
// Tells a client of what it watches, as far as it reads.
void trp_server_tell_watches(trp_server *server, trp_client *client);
// Ends what a client watches and runs.
void trp_server_forget_client(trp_server *server, trp_client *client);

#endif
