// detached.h: jobs of another process as their handles have them, of a train server or of a child
// of this one: submitting, finding, what is asked of them, letting them go. The way of a job here
// is what `line` is to one of this process.
#ifndef TRP_DETACHED_H
#define TRP_DETACHED_H

#include <train/child.h>
#include <train/desk.h>

// What a handle has of its job there.
typedef struct trp_detached {
    trp_child *child;      // NULL: the job is a server's, of which the rest tells.
    pthread_rwlock_t lock; // To read where something is asked for, to write where the next two go.
    trp_desk *desk;        // Held; NULL: dropped, as is the next.
    trp_desk_job *watched;
    int64_t job;
    const char *folder;        // The job's, in the state folder.
    _Atomic(int64_t) revision; // Of the newest wish that is known to be stored; 0: none is.
} trp_detached;

// Whose the job is to be that the handle describes: *desk is the server's, held; NULL: this
// process's. TROUPE_UNSUPPORTED: a server is asked for, and cannot take the job; or something is
// asked for that only a server does; errors of trp_server_choose, _start and trp_desk_open.
troupe_status trp_detached_choose(const troupe_job *handle, const troupe_trainer *trainer,
                                  trp_desk **desk);
// The train server that a choice leads to, held and started if need be; *desk NULL: none, jobs are
// done here. Errors of trp_server_choose, _start and trp_desk_open.
troupe_status trp_detached_server(troupe_server_choice choice, trp_desk **desk);
// Submits it, and has the handle follow it. Errors as those of troupe_submit; TROUPE_TIMED_OUT: the
// server does not answer, and may have taken it.
troupe_status trp_detached_submit(troupe_job *handle, const troupe_trainer *trainer,
                                  const troupe_follower *follower, trp_desk *desk);
// The handle, which is new, becomes one on the job with that key. TROUPE_NOT_FOUND.
troupe_status trp_detached_find(troupe_job *handle, const char *key,
                                const troupe_follower *follower);
// The same of the job of that number, at the server of that state folder.
troupe_status trp_detached_attach(troupe_job *handle, const char *server, int64_t number,
                                  const troupe_follower *follower);
// The handle, which is new and has its spec's options, becomes one on the job that the process
// does, whose run is in that folder; it is taken over, on failure too. TROUPE_NO_MEMORY.
troupe_status trp_detached_adopt(troupe_job *handle, const trp_child_process *process,
                                 const char *run, off_t journal, const troupe_follower *follower);

// Asks for something, and waits for a moment that it is stored: it is asked for until then, also
// afterwards. `of` says what, but for the job. TROUPE_TIMED_OUT: there is no server now; or what it
// answers.
troupe_status trp_detached_wish(troupe_job *handle, const trp_wire_wish *of);
// The revision of the newest wish of this handle that is stored; 0: none is.
int64_t trp_detached_revision(const troupe_job *handle);
// The handle gives the job up. Whether no other handle of this process is on it: of those that give
// it up at once, exactly one is the last.
bool trp_detached_give_up(const troupe_job *handle);
// Tells the handle nothing more, and gives up what it has. Not twice.
void trp_detached_drop(troupe_job *handle);

#endif
