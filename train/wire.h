// wire.h: what clients, runners and the gateway say to the train server, and it to them: frames on
// a unix stream socket (docs/internals/server/server.md).
//
// A frame is a head {bytes that follow: u32, kind: u16, format: u16, number: u32}, in the order of
// bytes of the machine, and a packed struct. An answer has the number of its request; what is told
// without being asked has number 0. Both sides may have many under way.
#ifndef TRP_WIRE_H
#define TRP_WIRE_H

#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <troupe/wire.h>

enum {
    TRP_WIRE_FORMAT = 3,  // How all that is said is packed: changes with each struct below.
    TRP_WIRE_VERSION = 1, // What is said, and what it means: in greetings and their answers.
    TRP_WIRE_HEAD = 12,
    TRP_WIRE_BYTES_MAX = 64 << 20, // That follow a head.
};

typedef enum trp_wire_kind {
    // Asked of the server.
    TRP_WIRE_HELLO = 1, // trp_wire_hello, the first on each connection: answered with
                        // TRP_WIRE_ANSWER, whose revision is the server's version. Others may
                        // follow it at once.
    TRP_WIRE_SUBMIT,    // trp_wire_submit: answered with TRP_WIRE_JOB, once it is committed.
    TRP_WIRE_FIND,      // trp_wire_job_name: answered with TRP_WIRE_JOB.
    TRP_WIRE_LIST,      // trp_wire_list: answered with TRP_WIRE_JOBS.
    TRP_WIRE_WATCH,     // trp_wire_job_name: answered with TRP_WIRE_JOB, which is told at each
                        // change from then on.
    TRP_WIRE_WISH,      // trp_wire_wish: answered once it is committed.
    TRP_WIRE_SERVER,    // troupe_none: answered with TRP_WIRE_STATUS.
    TRP_WIRE_STOP,      // trp_wire_stop: the server ends; jobs go on, unless they are stopped too.
    TRP_WIRE_GC,        // trp_wire_gc: answered with TRP_WIRE_ANSWER, whose text says what went.
    // A runner's.
    TRP_WIRE_RUNNER = 32, // trp_wire_runner: answered with TRP_WIRE_WISHES.
    TRP_WIRE_PROGRESS,    // trp_wire_progress; not answered.
    // A warm runner's; none is answered.
    TRP_WIRE_WARM,  // trp_wire_warm: it waits for jobs.
    TRP_WIRE_TAKEN, // trp_wire_taken
    TRP_WIRE_GONE,  // trp_wire_gone
    // The server's.
    TRP_WIRE_ANSWER = 64, // trp_wire_answer: also of any request that has failed.
    TRP_WIRE_JOB,         // trp_wire_job
    TRP_WIRE_JOBS,        // trp_wire_jobs
    TRP_WIRE_STATUS,      // trp_wire_status
    TRP_WIRE_WISHES,      // trp_wire_wishes, told to the runner at each change.
    TRP_WIRE_HANDOVER,    // trp_wire_handover, told to a warm runner.
} trp_wire_kind;

typedef struct trp_wire_frame {
    trp_wire_kind kind;
    int format;
    uint32_t number;
    const unsigned char *data;
    size_t size;
} trp_wire_frame;

// Adds a frame. TROUPE_TOO_LARGE, TROUPE_NO_MEMORY: nothing is added.
troupe_status trp_wire_put(trp_buffer *out, trp_wire_kind kind, uint32_t number,
                           const troupe_type *type, const void *value);
// The first frame of `data`, which it points into; *used is what it takes, 0: it is not whole yet.
// TROUPE_MALFORMED: it can be none, or is larger than `most`.
troupe_status trp_wire_take(const void *data, size_t size, size_t most, trp_wire_frame *frame,
                            size_t *used);
// Whether this library can speak with another program, `who`, of that format and version: the
// format has to be the same, and the versions at most one apart. TROUPE_VERSION, with both.
troupe_status trp_wire_agree(const char *who, int format, int version);
// Reads what is in a frame, into the arena; *value is set only on success. TROUPE_MALFORMED,
// TROUPE_NO_MEMORY.
troupe_status trp_wire_read(const trp_wire_frame *frame, const troupe_type *type, trp_arena *arena,
                            void *value);

TROUPE_STRUCT(trp_wire_hello, (int, version), (troupe_text, boot_id), (uint64_t, pid_namespace),
              (int, pid), (troupe_text, program)); // For people.

// How something went. Its text is a sentence.
TROUPE_STRUCT(trp_wire_answer, (int, status), (troupe_text, text), (int64_t, job),
              (int64_t, revision));

// Of a file that makes up a program.
TROUPE_STRUCT(trp_wire_object, (troupe_text, path), (uint64_t, device), (uint64_t, inode),
              (int64_t, changed_ns), (uint64_t, bytes));
TROUPE_STRUCT(trp_wire_limit, (int, resource), (uint64_t, soft), (uint64_t, hard));
// How the program is started again for the job, as the client has it.
TROUPE_STRUCT(trp_wire_launch, (troupe_text, program), (troupe_array_troupe_text, arguments),
              (troupe_array_troupe_text, environment), (troupe_text, folder), (int, umask),
              (int, nice), (troupe_bytes, affinity),
              (troupe_array_trp_wire_limit, limits),    // RLIMIT_*.
              (troupe_array_trp_wire_object, objects)); // The executable first.

// What a job needs and when, beside its spec, of which the server reads nothing.
TROUPE_STRUCT(trp_wire_need, (int, ranks), (int, min_ranks), (double, cpus_per_rank),
              (double, gpus_per_rank), (uint64_t, memory_per_rank_bytes),
              (troupe_text, resources_per_rank), (double, coordinator_cpus), (double, time_limit_s),
              (double, time_limit_grace_s), (int, restarts), (int, priority),
              (double, start_at)); // Unix time; 0: as soon as it can.

TROUPE_STRUCT(trp_wire_submit, (troupe_text, submission), // Random, of the client: made once a job.
              (troupe_text, key), (troupe_text, name), (troupe_text, trainer), // NULL: no key.
              (troupe_bytes, spec), (troupe_bytes, launch), // Packed: trp_job_spec,
              (trp_wire_need, need),                        // trp_wire_launch.
              (troupe_text, run), // Its folder, on this machine, claimed by the client;
              (uint64_t, run_device), (uint64_t, run_inode), // which the server has to see, too.
              (bool, run_new),          // Claimed by this submission; else the server claims it,
              (int64_t, journal),       // with where the run's journal ends now.
              (troupe_text, spec_hash), // In hexadecimal, of all that makes two jobs the same.
              (troupe_text, config), (troupe_text, metadata), // JSON, for people.
              (bool, wait_if_impossible)); // Queued though this machine can never give that much.

// Which job: that of the number, or else that of the key.
TROUPE_STRUCT(trp_wire_job_name, (int64_t, job), (troupe_text, key));

TROUPE_STRUCT(trp_wire_list, (bool, ended), // Those that have ended, too:
              (int, most));                 // at most so many, the newest first; 0: all.

typedef enum trp_wire_state {
    TRP_JOB_QUEUED, // Waits for its turn, or its time.
    TRP_JOB_STARTING,
    TRP_JOB_RUNNING,
    TRP_JOB_PAUSED,
    TRP_JOB_ENDED,
} trp_wire_state;

// A job as the server knows it. What its run did is in the run's folder.
TROUPE_STRUCT(trp_wire_job, (int64_t, job), (troupe_text, submission), (troupe_text, key),
              (troupe_text, name), (troupe_text, trainer), (troupe_text, program),
              (troupe_text, run), (troupe_text, folder), // Of the job, in the state folder.
              (int, state), (troupe_text, why),          // Why it waits, or does not go on.
              (int, attempt), (int, runner),             // Its process; 0: none.
              (trp_wire_need, need), (int, ranks), (double, cpus), (double, gpus), // Granted.
              (troupe_text, gpu_ids), (int, reports), (int, restarts), (double, submitted_at),
              (double, granted_at), (double, ended_at),             // Unix time; 0.
              (double, expected_at),                                // Its start.
              (int, status), (troupe_text, error), (bool, stopped), // Once ended.
              (int64_t, revision), (int64_t, echo)); // Of its wishes, and what the runner has.
TROUPE_STRUCT(trp_wire_jobs, (troupe_array_trp_wire_job, jobs));

// A live value, as JSON, that was wished.
TROUPE_STRUCT(trp_wire_live, (int64_t, revision), (troupe_text, member), (troupe_text, value));
// All that is wished of a job: the newest counts. As trp_wishes (train/port.h).
TROUPE_STRUCT(trp_wire_wishes, (int64_t, revision), (bool, stop), (bool, stop_next), (bool, pause),
              (int, ranks), (int, resizes), (int, kill), (troupe_text, why),
              (troupe_array_trp_wire_live, live),
              (bool, grown),  // So many ranks are granted to the next attempt: this one ends at its
                              // next report, or says why the run cannot have them.
              (bool, leave)); // This runner is not the job's any more, and ends at once.

typedef enum trp_wire_wish_kind {
    TRP_WISH_STOP,
    TRP_WISH_STOP_NEXT,
    TRP_WISH_PAUSE,
    TRP_WISH_GO_ON,
    TRP_WISH_RANKS,
    TRP_WISH_KILL,
    TRP_WISH_LIVE,
    TRP_WISH_PRIORITY, // Of one that waits.
    TRP_WISH_FORGET,   // The key of one that has ended is free for another job.
} trp_wire_wish_kind;
TROUPE_STRUCT(trp_wire_wish, (trp_wire_job_name, of), (int, wish),
              (int, number),       // Ranks, priority, or the status of a kill,
              (troupe_text, text), // and why it is killed;
              (troupe_text, member), (troupe_text, value)); // a live value, as JSON.

// Its process is the one that SO_PEERCRED names.
TROUPE_STRUCT(trp_wire_runner, (int64_t, job), (int, attempt), (troupe_text, submission));
TROUPE_STRUCT(trp_wire_progress, (int, state), (int, ranks), (int, reports), (int, restarts),
              (int64_t, echo), (troupe_text, refused), // Why a wish could not be met; NULL.
              (bool, not_more)); // It goes on with the ranks that it has: it is not made larger.

// What an attempt begins with: packed in a sealed memory file, whose number the runner finds in the
// variable TROUPE_JOB (what it starts has TROUPE_IN_JOB). Committed before the runner is started,
// so that it needs no server.
TROUPE_STRUCT(trp_wire_order, (int64_t, job), (int, attempt), (troupe_text, submission),
              (troupe_text, run), (trp_wire_need, need), (int, ranks), (double, cpus),
              (double, gpus), (troupe_text, gpu_ids), // As of CUDA_VISIBLE_DEVICES;
              (troupe_text, rank_gpus), // those of each rank in turn: a shared one for each; NULL.
              (uint64_t, memory_bytes), (troupe_text, resources),
              (int, restarts_left), // Of `.restarts`, for the runner itself; -1: always.
              (int,
               restarts_before),   // That the job has used before: progress and `end` begin there.
              (double, elapsed_s), // That earlier attempts took, of the time limit.
              (trp_wire_wishes, wishes),
              (uint64_t, warm), // By which a copy of the runner is known that waits for other jobs,
              (int, warm_s));   // so long; 0: there is to be none.

// So many runners a warm one has at a time.
enum { TRP_WARM_RUNNERS_MAX = 256 };
// A job that a warm runner is to make a runner of: its folder, and its order, packed.
TROUPE_STRUCT(trp_wire_handover, (int64_t, job), (int, attempt), (troupe_text, folder),
              (troupe_bytes, order));
TROUPE_STRUCT(trp_wire_warm, (uint64_t, token));
// There is a process for it; it has ended, with that status as of waitpid; below 0: not known.
TROUPE_STRUCT(trp_wire_taken, (int64_t, job), (int, attempt));
TROUPE_STRUCT(trp_wire_gone, (int64_t, job), (int, attempt), (int, status));

TROUPE_STRUCT(trp_wire_stop, (bool, jobs)); // They are killed first.
// 0: no such bound. `keys`: those of jobs that are gone are free for others.
TROUPE_STRUCT(trp_wire_gc, (int, keep), (double, older_s), (int64_t, bytes), (bool, keys));

TROUPE_STRUCT(trp_wire_status, (troupe_text, folder), (int, pid), (double, started_at),
              (int, waiting), (int, running), (int, ended), (double, cpus), (double, cpus_free),
              (double, gpus), (double, gpus_free), (uint64_t, memory_bytes),
              (uint64_t, memory_free_bytes), (int, clients), (troupe_text, gateway));

// How a job ended: the file `end` in its folder. Written by its runner, or by the server for one
// that has none. The result itself is in the run's folder.
TROUPE_STRUCT(trp_job_end, (int, version), (int, attempt), (int, status), (troupe_text, error),
              (bool, stopped), (int, reports), (int, restarts), (double, ended_at));

#endif
