// runtime.h: starting and stopping the runtime of this machine. It begins and ends with the program
// that starts it (the driver); there is no daemon, and nothing stays behind.
#ifndef TROUPE_RUNTIME_H
#define TROUPE_RUNTIME_H

#include <troupe/status.h>
#include <troupe/version.h>
#include <troupe/wire.h>

TROUPE_BEGIN_C

// How worker processes are made.
typedef enum troupe_launch {
    // Forked, unless the program had threads before troupe_start: then executed again, and a
    // warning on stderr says so, once.
    TROUPE_LAUNCH_AUTO,
    // Forked by the keeper: they have the state that the program had at troupe_start.
    TROUPE_LAUNCH_FORK,
    // Executed again: main runs up to troupe_start. If several threads call that there, the first
    // becomes the worker, and in the others it does not return: those that the program had by then,
    // and later ones that have the same name (pthread_setname_np) as the first had.
    TROUPE_LAUNCH_EXEC,
} troupe_launch;

// What happens to the lines that worker processes write to their standard output and standard
// error. Whole lines arrive at the driver's, even the last ones of a process that is killed. A
// worker's standard output is line-buffered; a worker that writes more than can be printed waits.
typedef enum troupe_output {
    // Prefixed with the writer, "(counter pid=123) text": an isolated actor's name, or else its
    // class; "fit rank=0" for a rank of a training run; "worker 3" for the pool. The variable
    // TROUPE_LOG_PREFIX=0 omits the prefix.
    TROUPE_OUTPUT_NAMED,
    TROUPE_OUTPUT_PLAIN,  // Without a prefix.
    TROUPE_OUTPUT_DIRECT, // Workers write to the driver's own descriptors.
    // As NAMED, but for the lines that a training run puts into its log files: they are there
    // alone.
    TROUPE_OUTPUT_LOGGED,
} troupe_output;

// How messages travel between processes.
typedef enum troupe_transport {
    // What the variable TROUPE_TRANSPORT says (ring, ipc or tcp), else RING.
    TROUPE_TRANSPORT_DEFAULT,
    TROUPE_TRANSPORT_RING, // Rings in shared memory.
    TROUPE_TRANSPORT_IPC,  // ZeroMQ over unix sockets: slower; for comparison.
    // ZeroMQ over tcp on the loopback interface, encrypted, with keys made for this run: slower
    // still.
    TROUPE_TRANSPORT_TCP,
} troupe_transport;

typedef struct troupe_options {
    size_t size; // Set by troupe_start.
    // Worker processes in the pool, started when first needed; default: one for each CPU.
    // TROUPE_NONE: no pool, actors live in the process that spawns them.
    int workers;
    double cpus; // CPUs that jobs may reserve; default: those this process may run on.
    int threads; // Scheduler threads per process; default: the CPUs this process may run on.
    // Limit of the object store; default: 30 % of the memory this process may use. Memory is taken
    // from the system as it is needed, and returned when it was not needed for some seconds.
    size_t store_bytes_max;
    size_t message_bytes_max; // Largest packed argument or result; default 1 GiB.
    // Folder for sockets, a path of at most 44 bytes; default $XDG_RUNTIME_DIR, if that is one, or
    // /tmp. Copied.
    const char *directory;
    troupe_launch launch;
    // Called first in each worker process; actors that are placed there wait until it has returned.
    void (*worker_init)(void);
    // How long troupe_stop lets methods finish, in all processes together; default 1000. A method
    // that has not returned by then is abandoned in the driver, and killed with its process in a
    // worker, which takes about 50 ms more. Methods that wait in a call of the library, whose wait
    // is ended then, get up to 1 s more to return.
    int stop_timeout_ms;
    troupe_output worker_output;
    // Identical lines of several workers are printed once, and 5 s later once more with a count;
    // this option, or the variable TROUPE_LOG_FOLD=0, prints each of them. Lines that only one
    // worker repeats are always printed. In the library's own lines ("troupe: warn: ...")
    // differences in numbers do not count, nor in any line with .worker_output_fold_numbers.
    bool worker_output_unfolded;
    // Lines of several workers that differ in numbers only: the first of them is printed, and 5 s
    // later the newest, with a count, whichever worker wrote it. The variable
    // TROUPE_LOG_FOLD=numbers does the same. For the progress of many workers, not for results.
    bool worker_output_fold_numbers;
    // GPUs that actors and jobs may ask for; default: those in CUDA_VISIBLE_DEVICES if that is set,
    // else one for each /dev/nvidia0, nvidia1, ...; TROUPE_NONE: none.
    int gpus;
    // Memory that they may ask for; default: 70 % of what this process may use.
    size_t memory_bytes;
    const char *resources; // Other resources, by name: "license=1,accelerator=2".
    // SIGINT and SIGTERM in the driver: the first stops the runtime as troupe_stop does and then
    // ends the process by that signal, the second ends it at once. Default: the library installs no
    // handlers. A signal that is ignored stays ignored. Workers end with the driver in any case.
    bool handle_signals;
    const char *worker_env;    // Environment of all worker processes: lines "KEY=VALUE".
    const char *worker_folder; // Their working folder; default: the driver's.
    troupe_transport transport;
    // Measures how long messages wait and methods run, for troupe_methods_list; so does the
    // variable TROUPE_MEASURE=1. Costs three clock reads per call.
    bool measure;
    // Files that outlive the run (checkpoints, reports, sweeps' journals, the trace) may be read by
    // other users as far as the umask allows; default: files are 0600 and folders 0700.
    bool shared_files;
    // A file that records when each method ran and in which process, for chrome://tracing or
    // Perfetto (ui.perfetto.dev); default: the file that the variable TROUPE_TRACE names. An
    // existing file is overwritten; if it is a link, another user's, a file with two names or a
    // pipe without a reader, troupe_start fails (TROUPE_IO). Complete when troupe_stop returns.
    // Each process buffers up to 65,536 events; those lost beyond that are counted in the file. A
    // process that is killed loses the events of its last 0.1 s.
    const char *trace;
    // Takes part in a cluster. `listen` is where other nodes can reach this one, "10.0.0.7:4500":
    // an IPv4 address, or the name of a network interface or of a host that has one (looked up for
    // at most .node_timeout_ms), and a port (0: any free one). `keys` is the file with the
    // cluster's keys (default: the variable TROUPE_KEYS). See node.h. Default: nothing listens.
    const char *listen;
    const char *keys;
    // The session with a node that is silent for this long is ended; default 10,000. While a
    // debugger has stopped processes of a node, that does not count as silence.
    int node_timeout_ms;
    // Folder for objects that are moved to disk when the store is full. A subfolder for this node
    // is made there when it is first needed, and removed in the end; default (NULL or empty): the
    // variable TROUPE_SPILL_DIR, else TMPDIR, else /var/tmp. A folder given here or by
    // TROUPE_SPILL_DIR that cannot be used is refused. `spill_bytes_max` limits the size of the
    // files; default: half of the free space there at the start; TROUPE_NONE: nothing is moved to
    // disk, and the folder is ignored.
    const char *spill_dir;
    int64_t spill_bytes_max;
    // How long a put waits for memory when the store is full and nothing can be moved to disk;
    // default 2,000; TROUPE_NONE: not at all. The loss of the runtime and troupe_stop end that
    // wait, as TROUPE_RUNTIME_LOST and TROUPE_NOT_STARTED. A read without a time-out waits as long
    // for a stopped process that was moving the object.
    int store_wait_ms;
    // Largest packed argument or result between nodes; default 64 MiB, at most .message_bytes_max
    // and 4095 MiB. All nodes of a cluster must have the same: a node that receives a larger one
    // refuses it and ends the session.
    size_t node_message_bytes_max;
    int unused_;
    // How long to wait for an answer of the node process (to a spawn that needs a process, a name,
    // a look at the resources), of the keeper (to make a process) and of an actor's process (to
    // troupe_actor_restart or troupe_actor_retain) before TROUPE_DEADLINE_EXCEEDED, whose text says
    // which of them did not answer; 50 to 3,600,000, default 10,000. A wait for resources continues
    // as long as the node process answers.
    int request_timeout_ms;
    // For a plug-in, or a script in an interpreter: a program that can neither be executed again as
    // a worker nor be forked, since it has threads. Workers execute the command `troupe worker
    // --load LIBRARY` instead of the program, with this shared library, which registers its classes
    // and tasks when it is loaded, as TROUPE_ACTOR and TROUPE_TASK do: a path, or a name that the
    // dynamic loader finds. Workers have the options given here, except .worker_init and
    // TROUPE_LAUNCH_FORK, which are refused (TROUPE_INVALID): the library can have a constructor
    // instead. The command is the one that the variable TROUPE_COMMAND names, else the one
    // installed with libtroupe, else the first in PATH; TROUPE_NOT_FOUND: there is none.
    const char *worker_library;
} troupe_options;

// Starts the runtime. Call it first in main, before threads are made: in a worker process it does
// not return. May be called again while the runtime is running: starts are counted, and the options
// of the first apply. Errors: TROUPE_INVALID (an option out of range; the error text names it),
// TROUPE_NO_MEMORY, TROUPE_IO (a socket, folder or process could not be made), TROUPE_UNSUPPORTED
// (in a child of a running program; or where processes cannot be started, as under valgrind: run
// with TROUPE_LOCAL=1), TROUPE_VERSION (compiled with the headers of a newer version of the
// library).
TROUPE_API TROUPE_MUST_USE troupe_status troupe_start_with(int argc, char **argv,
                                                           const troupe_options *how);
#define troupe_start(...) TROUPE_START_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_START_(argc, argv, ...)                                                             \
    troupe_start_with((argc), (argv),                                                              \
                      &(troupe_options){.size = sizeof(troupe_options), __VA_ARGS__})

// Undoes one troupe_start; the last stop ends all actors, worker processes and shared memory and
// returns when they are gone. Returns 0, so that main can end with `return troupe_stop();`. The
// runtime can be started again afterwards. Without a start it does nothing. Calls that other
// threads make meanwhile fail, but copies into or out of the store that they have begun are waited
// for; views of objects and shared arrays must not be used any more.
TROUPE_API int troupe_stop(void);

// What was refused since troupe_start.
typedef struct troupe_stats {
    // Frames from other processes that were refused by this process and by the node process, which
    // opens and ends sessions with other nodes: malformed, cut off, of a version that they cannot
    // read, repeated, or for another process. A ring with invalid contents, which is not read any
    // more, counts as one, and so does a gap in what a process sent over a socket: ZeroMQ itself
    // refuses a message above .message_bytes_max. 0, unless something damages memory or other
    // programs write to the node's sockets.
    uint64_t frames_refused;
    // Connections to this node that were refused: they had no keys or other ones, sent nothing for
    // 3 s, claimed to send too much, or were too many. Each counts once, at most some seconds
    // later.
    uint64_t strangers_refused;
} troupe_stats;
TROUPE_API troupe_status troupe_stats_get(troupe_stats *stats, size_t size);
#define troupe_stats_get(stats) troupe_stats_get((stats), sizeof(troupe_stats))

// The version of the running library, as TROUPE_VERSION_NUMBER (major * 10000 + minor * 100 +
// patch).
TROUPE_API int troupe_version(void);

TROUPE_END_C

#endif
