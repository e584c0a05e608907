// server.h: jobs that outlive their program: a train server of the user queues them, gives them
// what they need, and starts each in a process of its own, which is the submitter's program run
// once more. The same functions as for jobs of the program itself (train.h) follow, stop, pause,
// resize, modify and await them.
//
//     troupe server start                                          from the shell, once
//     TROUPE_TRY(troupe_submit(fit, &config, NULL, &job, .key = "night",
//                              .server = TROUPE_SERVER_AUTO));     in a program
//     TROUPE_TRY(troupe_job_leave(&job));                          it goes on
//     TROUPE_TRY(troupe_job_find("night", &job));                  later, in any program
//
// For such a job main runs again, with the arguments, folder and environment that the program had,
// up to its first troupe_start, which does the job and does not return. What main does before that
// is done once more for each job.
#ifndef TROUPE_SERVER_H
#define TROUPE_SERVER_H

#include <troupe/wire.h>

TROUPE_BEGIN_C

// Whose a job is: option .server of troupe_submit and troupe_train. A server takes jobs of
// trainers that are part of the program itself, submitted after its first troupe_start, without
// references in their config or data; runs are kept in local files. What it cannot take is refused
// with TROUPE_UNSUPPORTED, and a sentence that says why.
//
// A gate decides in the program that gave it. While no program with the gate is there, its reports
// are answered by nobody: of the first the run waits for the gate's time-out, of later ones not at
// all, until there is an answer again. A program that submits the same with the same .key and a
// gate is asked about all that has no answer yet. Its answers need no server that runs, but for
// TROUPE_GATE_PAUSE and _RESIZE.
typedef enum troupe_server_choice {
    // As the variable TROUPE_SERVER says: "none", "auto", or the state folder of a server that has
    // to run. Without it: of a train server of this user, if one runs and can take the job; else of
    // this program.
    TROUPE_SERVER_DEFAULT,
    TROUPE_SERVER_AUTO, // Of the train server of this user, which is started if none runs.
    TROUPE_SERVER_NONE, // Of this program: it ends with it.
} troupe_server_choice;

struct troupe_job;

// Gives up the handle on a job of a train server, which goes on; so does the death of the program.
// Its follower is not called any more when this returns (called by it: after that call). *job
// becomes NULL. TROUPE_UNSUPPORTED: it is a job of this program, which would end with its last
// handle; it stays open. troupe_job_close stops such a job as any other, where no other handle of
// this program is open on it.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_job_leave(struct troupe_job **job);

// Another handle on the job of this program that was submitted with that .key; else one on the job
// of the train server, running, waiting or ended, which may be another program's. Such a server is
// looked for as TROUPE_SERVER_DEFAULT says. What is asked of any handle is asked of the job, and
// troupe_job_close of one that is not the last one ends nothing. TROUPE_NOT_FOUND: there is none,
// or its last handle was closed; TROUPE_IO, TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_job_find(const char *key,
                                                                  struct troupe_job **job);
// The same with a follower (NULL: none), which is told all that the job has done, from its
// beginning. It is copied. Also TROUPE_INVALID.
struct troupe_follower;
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_job_follow(const char *key, const struct troupe_follower *follower, struct troupe_job **job);

// Where a job is looked for, and what hears of it.
typedef struct troupe_find_options {
    size_t size;                            // sizeof(troupe_find_options)
    const struct troupe_follower *follower; // As of troupe_job_follow.
    // Decides on reports of a train server's job: on those that have no answer yet, and on all that
    // come. NULL: none of this program does.
    const struct troupe_gate *gate;
    // TROUPE_SERVER_DEFAULT: as for troupe_job_find. TROUPE_SERVER_NONE: among the jobs of this
    // program alone. TROUPE_SERVER_AUTO: among those of the train server of this user alone, which
    // is started if none runs.
    troupe_server_choice server;
    int unused_;
} troupe_find_options;

// As troupe_job_find, with options (NULL: none): troupe_job_find_with("night", &job,
// TROUPE_OPTIONS(troupe_find_options, .gate = &gate)). TROUPE_NOT_FOUND: there is no such job where
// it was looked for; what keeps a train server from being asked has another status. TROUPE_INVALID;
// TROUPE_UNSUPPORTED also: a gate for a job of this program, which has the one that it was
// submitted with.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_job_find_with(const char *key, struct troupe_job **job, const troupe_find_options *how);

// Writes the state folder of the train server of this user, which need not run. Of that server are
// the jobs of TROUPE_SERVER_AUTO. TROUPE_INVALID: what names the folder is wrong; TROUPE_TOO_LARGE:
// `capacity` bytes are too few; errors as those of a submission to it.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_server_folder(char *folder,
                                                                       size_t capacity);

// The number of a job of a train server, as `troupe jobs` shows it; 0: it is one of this program.
TROUPE_EXPERIMENTAL int64_t troupe_job_number(const struct troupe_job *job);

TROUPE_END_C

#endif
