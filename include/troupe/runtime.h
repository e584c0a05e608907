// runtime.h: starting and stopping the runtime of this machine. It begins and ends with the program
// that starts it (the driver); there is no daemon, and nothing stays behind.
#ifndef TROUPE_RUNTIME_H
#define TROUPE_RUNTIME_H

#include <troupe/status.h>
#include <troupe/version.h>
#include <troupe/wire.h>

TROUPE_BEGIN_C

// How worker processes come to be.
typedef enum troupe_launch {
    // Forked, unless the program had started threads before troupe_start: then executed afresh, and
    // a warning on stderr says so, once.
    TROUPE_LAUNCH_AUTO,
    // Forked by the keeper: they have the state that the program had at troupe_start.
    TROUPE_LAUNCH_FORK,
    // Executed afresh: main runs again up to troupe_start. Of several threads that call it there
    // the first becomes the worker, and the others do not return from it: those that the program
    // had by then, and later ones of the same name (pthread_setname_np) as the first had.
    TROUPE_LAUNCH_EXEC,
} troupe_launch;

// What becomes of the lines that worker processes write to their standard output and errors. Whole
// lines arrive at the driver's, the last ones of a process that is killed included. A worker's
// standard output is line-buffered; one that writes more than can be printed waits.
typedef enum troupe_output {
    // With the writer before them: "(counter pid=123) text": the name or else the class of an
    // isolated actor, "worker 3" of the pool. The variable TROUPE_LOG_PREFIX=0 leaves that out.
    TROUPE_OUTPUT_NAMED,
    TROUPE_OUTPUT_PLAIN,  // Nothing before them.
    TROUPE_OUTPUT_DIRECT, // Workers write to the driver's own descriptors.
} troupe_output;

// How messages go from one process to another.
typedef enum troupe_transport {
    // What the variable TROUPE_TRANSPORT says (ring, ipc or tcp), else RING.
    TROUPE_TRANSPORT_DEFAULT,
    TROUPE_TRANSPORT_RING, // Rings in shared memory.
    TROUPE_TRANSPORT_IPC,  // ZeroMQ over unix sockets: slower; for comparing and for doubt.
    // ZeroMQ over tcp on the loopback interface, encrypted, with keys of the run: slower still.
    TROUPE_TRANSPORT_TCP,
} troupe_transport;

typedef struct troupe_options {
    size_t size; // Set by troupe_start.
    // Worker processes in the pool, started when first needed; default: one a CPU. TROUPE_NONE: no
    // pool, actors live in the process that spawns them.
    int workers;
    double cpus; // CPUs that jobs may reserve; default: those this process may run on.
    int threads; // Scheduler threads a process; default: the CPUs this process may run on.
    // Limit of the object store; default: 30 % of the memory this process may use. Memory is taken
    // from the system as it is needed, and goes back when nobody has needed it for some seconds.
    size_t store_bytes_max;
    size_t message_bytes_max; // Largest packed argument or result; default 1 GiB.
    // Where sockets live, a path of at most 44 bytes; default $XDG_RUNTIME_DIR, if that is one, or
    // /tmp. Copied.
    const char *directory;
    troupe_launch launch;
    // Run first in each worker process; the actors that are to live there wait for its end.
    void (*worker_init)(void);
    // How long troupe_stop lets methods finish, in all processes together; default 1000. One that
    // has not returned then is left behind in the driver, and killed in a worker: troupe_stop takes
    // about 50 ms longer. Only methods that wait by a call of the library, whose wait it ends then,
    // have up to 1 s more, to return.
    int stop_timeout_ms;
    troupe_output worker_output;
    // Identical lines of several workers are printed once, and 5 s later once more with how many
    // there were; this, or the variable TROUPE_LOG_FOLD=0, prints each. What one worker alone
    // repeats is printed. The library's own lines ("troupe: warn: ...") count as identical where
    // nothing but numbers in them differs, as all lines do with .worker_output_fold_numbers.
    bool worker_output_unfolded;
    // Lines of several workers in which nothing but numbers differs: the first of them is printed,
    // and 5 s later the newest, with how many there were, whoever wrote them. The variable
    // TROUPE_LOG_FOLD=numbers does the same. For progress of many workers, not for results.
    bool worker_output_fold_numbers;
    // GPUs that actors and jobs may ask for; default: those in CUDA_VISIBLE_DEVICES where that is
    // set, else one for each /dev/nvidia0, nvidia1, ...; TROUPE_NONE: none.
    int gpus;
    size_t
        memory_bytes; // Memory that they may ask for; default: 70 % of what this process may use.
    const char *resources; // More to ask for, by name: "license=1,accelerator=2".
    // SIGINT and SIGTERM in the driver: the first stops the runtime as troupe_stop does and then
    // ends the process by that signal, the second ends it at once. Default: the library installs no
    // handlers. A signal that is ignored stays so. However the driver ends, its workers do.
    bool handle_signals;
    const char *worker_env;    // Environment of all worker processes: lines "KEY=VALUE".
    const char *worker_folder; // Their working folder; default: the driver's.
    troupe_transport transport;
    // Measures how long messages wait and methods run, for troupe_methods_list; so does the
    // variable TROUPE_MEASURE=1. Costs three looks at the clock a call.
    bool measure;
    // What is left for later (checkpoints, reports, sweeps' journals, the trace) may be read by
    // others as far as the umask lets them; default: files are 0600 and folders 0700.
    bool shared_files;
    // A file that says when which method ran in which process, for chrome://tracing or Perfetto
    // (ui.perfetto.dev); default: what the variable TROUPE_TRACE names. What is there
    // of that name is written over; where it is a link, another user's, a file with two names or a
    // pipe that nobody reads, troupe_start fails (TROUPE_IO). Complete when troupe_stop returns.
    // Each process keeps up to 65,536 events that are not written yet; what comes beyond is counted
    // in the file. A process that is killed loses those of its last 0.1 s.
    const char *trace;
    // Takes part in a cluster: where other nodes can reach this one, "10.0.0.7:4500": an IPv4
    // address, or the name of a network interface or of a host that has one (looked up for at most
    // .node_timeout_ms), and a port (0: any that is free); and the file with the cluster's keys
    // (default: the variable TROUPE_KEYS). See node.h. Default: nothing listens.
    const char *listen;
    const char *keys;
    // Another node that is silent for so long is given up; default 10,000. A node's processes that
    // a debugger stops do not count as its silence.
    int node_timeout_ms;
    // Where objects go when the store is full and nobody reads them: a folder in which one is made
    // for this node, when it is first needed, and removed in the end; default (NULL or empty): the
    // variable TROUPE_SPILL_DIR, else TMPDIR, else /var/tmp. A folder that is named here, or else
    // by TROUPE_SPILL_DIR, and cannot be used is refused. Their files take at most so many bytes;
    // default: half of what is free there at the start; TROUPE_NONE: nothing goes to disk,
    // and the folder does not matter.
    const char *spill_dir;
    int64_t spill_bytes_max;
    // How long whoever finds the store full, and nothing that can go to disk, waits for others to
    // give something up; default 2,000; TROUPE_NONE: not at all. The loss of the runtime
    // and troupe_stop end that wait, as TROUPE_RUNTIME_LOST and TROUPE_NOT_STARTED. As long a
    // stopped process is waited for that was moving an object, by who reads it without a timeout.
    int store_wait_ms;
    // Largest packed argument or result between nodes; default 64 MiB, at most .message_bytes_max
    // and 4095 MiB. All nodes of a cluster have the same: who receives a larger one refuses it, and
    // the session ends.
    size_t node_message_bytes_max;
    int unused_;
    // How long the node process may take to answer (a spawn that needs a process, a name, a look at
    // the resources), the keeper to make a process, and an actor's process to take a
    // troupe_actor_restart or a troupe_actor_retain, before TROUPE_DEADLINE_EXCEEDED says which of
    // them does not; 50 to 3,600,000, default 10,000. What waits for resources waits on, while the
    // node process answers.
    int request_timeout_ms;
    // For a plug-in, or a script in an interpreter: a program that cannot be executed again as a
    // worker, nor be forked, since it has threads by then. Workers execute the command
    // `troupe worker --load LIBRARY` instead of the program: a shared library that registers its
    // classes and tasks when it is loaded, as TROUPE_ACTOR and TROUPE_TASK do; a path, or a name
    // that the dynamic loader finds. Workers have the options that troupe_start is given here, but
    // for .worker_init, which is refused (TROUPE_INVALID): what it would do is for a constructor of
    // the library. So is TROUPE_LAUNCH_FORK. The command is the one that the variable
    // TROUPE_COMMAND names, else the one that was installed with libtroupe, else the first in PATH;
    // TROUPE_NOT_FOUND: there is none.
    const char *worker_library;
} troupe_options;

// Starts the runtime. Comes first in main, before threads are made: in a worker process it does not
// return. May be called again while running: starts are counted, the options of the first hold.
// Errors: TROUPE_INVALID (an option out of range; the sentence names it), TROUPE_NO_MEMORY,
// TROUPE_IO (a socket, directory or process could not be made), TROUPE_UNSUPPORTED (in a child of a
// running program; or where processes cannot be kept, as under valgrind: run with TROUPE_LOCAL=1),
// TROUPE_VERSION (compiled with the headers of a newer version of the library).
TROUPE_API TROUPE_MUST_USE troupe_status troupe_start_with(int argc, char **argv,
                                                           const troupe_options *how);
#define troupe_start(...) TROUPE_START_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_START_(argc, argv, ...)                                                             \
    troupe_start_with((argc), (argv),                                                              \
                      &(troupe_options){.size = sizeof(troupe_options), __VA_ARGS__})

// Ends what this start began; the last stop ends all actors, worker processes and shared memory and
// returns when they are gone. Returns 0, so that main can end with `return troupe_stop();`. The
// runtime can be started again afterwards. Without a start it does nothing. Other threads that call
// meanwhile get an error, but what they are copying into the store or out of it is waited for;
// views of objects and shared arrays must not be used any more.
TROUPE_API int troupe_stop(void);

// What was refused since troupe_start.
typedef struct troupe_stats {
    // Frames from other processes, by this one and by its node's node process, where sessions with
    // other nodes begin and end: malformed, cut off, of a version that they cannot read, repeated,
    // or for another process; a ring that made no sense and is not read any more counts as one, and
    // so does a gap in what a process sent over a socket: ZeroMQ refuses a message above
    // .message_bytes_max itself. 0, unless something damages memory or other programs write to the
    // node's sockets.
    uint64_t frames_refused;
    // Connections to this node: they came with other keys than its own or none, said nothing for
    // 3 s, claimed to send too much, or were too many. Each counts once, some seconds later at the
    // latest.
    uint64_t strangers_refused;
} troupe_stats;
TROUPE_API troupe_status troupe_stats_get(troupe_stats *stats, size_t size);
#define troupe_stats_get(stats) troupe_stats_get((stats), sizeof(troupe_stats))

// The version of the library that runs, as TROUPE_VERSION_NUMBER (major * 10000 + minor * 100 +
// patch).
TROUPE_API int troupe_version(void);

TROUPE_END_C

#endif
