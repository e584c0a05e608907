// train.h: data-parallel training. A training loop is a plain function that n worker actors run,
// each in a process of its own, under a coordinator that takes their reports, commits checkpoints
// and restarts the group from the last one when a worker is lost.
//
//     static troupe_status fit(troupe_rank *me, const settings *config)
//     {
//         model m = {0};
//         TROUPE_TRY(troupe_restore(model, me, &m));          // untouched on a first run
//         while (m.epoch < config->epochs) {
//             ...                                             // this rank's share of the work
//             TROUPE_TRY(troupe_allreduce(me, gradient, n, TROUPE_SUM));
//             ...
//             TROUPE_TRY(troupe_save(model, me, &m));         // published with the next report
//             TROUPE_TRY(troupe_report(me, {"loss", loss}));  // TROUPE_STOPPED: return it
//         }
//         return TROUPE_OK;
//     }
//     TROUPE_TRAINER(fit, settings);
//
// Members of the config may change while it runs, on all ranks with the same report:
//
//     TROUPE_TRAINER(fit, settings, .live = "rate, epochs");
//     ... troupe_live(settings, me)->rate ...                     // in the loop
//     TROUPE_TRY(troupe_job_modify(fit, job, rate, 0.05));        // in the driver
//
// A trainer may also give what is done in each epoch and batch, and leave the loop to the library:
// see TROUPE_STEPS.
#ifndef TROUPE_TRAIN_H
#define TROUPE_TRAIN_H

#include <troupe/actor.h>
#include <troupe/server.h>
#include <troupe/storage.h>
#include <troupe/tensor.h>

TROUPE_BEGIN_C

// What a loop knows of its place in the group. Owned by the library, valid while the loop and the
// rank's hooks run, used by their thread only.
typedef struct troupe_rank {
    int rank;    // 0 to world - 1
    int world;   // workers in the group
    int attempt; // 0 at first; one more for each group after that
    // Where it runs. Ranks on one node follow each other, and the nodes are numbered by them.
    int local_rank;  // 0 to local_world - 1: among the ranks on its node
    int local_world; // ranks on its node
    int node_rank;   // 0 to nodes - 1
    int nodes;       // nodes that the group is on
    // Where the loop of a trainer with .step is, from 0; set before each hook, and in rank_teardown
    // where it ended. Else 0.
    int64_t epoch;
    int64_t batch; // before_epoch: the first one to come; after_epoch: how many there were.
    void *user;    // The rank's own: NULL at first, never read by the library.
} troupe_rank;

// Where the loop of a trainer with .step begins and ends. Zeroed when the hook .plan is called.
typedef struct troupe_plan {
    int64_t epochs;  // Of the whole training: the last one is epochs - 1.
    int64_t batches; // Of each epoch.
    int64_t epoch;   // The first one that is still to be done; `epochs`: none.
    int64_t batch;   // The first one of that epoch, at most `batches`; later ones begin with 0.
} troupe_plan;

// What a trainer's setup knows of the run. Owned by the library, valid during the call.
typedef struct troupe_setup {
    const char *path;     // Of the run's folder.
    const char *metadata; // The run's .metadata as canonical JSON; NULL: it has none.
    int ranks;            // Of each group of the run.
    bool resumed;         // The run goes on, after what an earlier opening did.
} troupe_setup;

// The processes of a group's ranks, seen from the driver. Owned by the library, valid during the
// call, used by its thread only.
typedef struct troupe_group {
    int world;   // Ranks of the group.
    int left;    // Those that troupe_execute runs on: in on_shutdown some may be gone.
    int attempt; // 0 for the first group, then the number of restarts so far.
    // In on_shutdown, how the group ended: TROUPE_OK, also after a stop, or why it failed.
    troupe_status ended;
} troupe_group;

// What a trainer does beside its loop, by where it is done, and what it can do. Made by
// TROUPE_TRAINER; a hook that is NULL is left out.
typedef struct troupe_stages {
    // In the driver, once an opening of the run, before its first group, on a thread of its own:
    // it may take its time, and delays no submission. A failure ends the run with its text. If the
    // run is ended by force meanwhile, the thread is left to itself.
    troupe_status (*setup)(troupe_setup *at, const void *config);
    // In the driver, on a thread of its own, for each group: when its processes are started, and
    // before their loops. A failure is one of the group, which is restarted if .restarts allow it.
    troupe_status (*on_start)(troupe_group *group, const void *config);
    // The same when the loops have ended, however they did: by themselves, by a failure, or by
    // force. After a failure the other ranks have 1 s to leave their loops (collectives and
    // reports return TROUPE_PEER_LOST); those that have not are ended. The group is ended 5 s after
    // the call began, if that has not returned. What it returns is said, and changes no result.
    troupe_status (*on_shutdown)(troupe_group *group, const void *config);
    // In each rank, before its loop and after it. They may do what the loop may. The second runs if
    // the first one has succeeded, also when the loop has failed; its own failure is the rank's if
    // the loop had none.
    troupe_status (*rank_setup)(troupe_rank *me, const void *config);
    troupe_status (*rank_teardown)(troupe_rank *me, const void *config);
    // In each rank, instead of a loop function (TROUPE_STEPS). The library's loop calls `plan`,
    // then for each epoch before_epoch, for each of its batches before_batch, step and after_batch,
    // and at the epoch's end after_epoch. `plan` and `step` are required. Each may do what a loop
    // function may. What is not TROUPE_OK ends the loop: TROUPE_STOPPED as it does a loop function,
    // everything else as a failure of the rank whose text begins with the hook, the epoch and the
    // batch. Texts and arrays that rank_setup and plan were given, or took by troupe_arena_alloc,
    // live as long as the loop; those of the other hooks until the hook returns. Their config is
    // that of troupe_live.
    troupe_status (*plan)(troupe_rank *me, const void *config, troupe_plan *plan);
    troupe_status (*before_epoch)(troupe_rank *me, const void *config);
    troupe_status (*before_batch)(troupe_rank *me, const void *config);
    // It may answer later: see troupe_step_later.
    troupe_status (*step)(troupe_rank *me, const void *config);
    troupe_status (*after_batch)(troupe_rank *me, const void *config);
    // TROUPE_STOPPED: the training is done before its last epoch, and the run ends well. All ranks
    // have to say so after the same epoch, so it is decided on what they have alike, as a loss
    // that was reduced: where one goes on, the group fails, and the text names who has left.
    troupe_status (*after_epoch)(troupe_rank *me, const void *config);
    // It can go on with another number of ranks where a rank has saved something of its own. What
    // all ranks have saved alike, or only rank 0, any trainer can go on from.
    bool reshards;
    // Its loop saves when troupe_checkpoint_due says so: its runs may have .checkpoint_every.
    bool saves_when_due;
    // Names of the options that a run of it may be given, as "ranks, restarts"; NULL: all. Those
    // that say where and how a run is kept, shown and begun (storage, name, open, force, from,
    // metadata, console, gate, rank_metrics, sync) always may.
    const char *allowed_options;
    // Names of the members of its config that troupe_job_modify may change while it runs, as
    // "rate, epochs"; NULL: none. Not those that hold references, actors or tensors.
    const char *live;
    const void *reserved_[3];
} troupe_stages;

// A trainer: static, made by TROUPE_TRAINER, found in worker processes by name and schema.
typedef struct troupe_trainer {
    uint32_t abi; // TROUPE_ABI
    const char *name;
    const troupe_type *config;
    // The loop function; NULL: it has .step among its stages.
    troupe_status (*run)(troupe_rank *me, const void *config);
    const troupe_stages *stages; // NULL: it has the loop alone.
    // A config: what a sweep begins with, before it sets the members of its space. NULL: zeros.
    const void *defaults;
    const void *reserved_[2];
} troupe_trainer;

// Makes a trainer known under its name; TROUPE_TRAINER does it before main. Errors as those of
// troupe_class_register; TROUPE_INVALID also: it has neither a loop nor .step and .plan, or both.
TROUPE_EXPERIMENTAL troupe_status troupe_trainer_register(const troupe_trainer *trainer);

// TROUPE_TRAINER(fit): a trainer of `troupe_status fit(troupe_rank *)`; it is run with NULL as its
// config. TROUPE_TRAINER(fit, settings): of `troupe_status fit(troupe_rank *, const settings *)`;
// then the members of troupe_stages may follow, with hooks that take the settings:
// TROUPE_TRAINER(fit, settings, .setup = prepare, .rank_teardown = close_files);
#define TROUPE_TRAINER(...) TROUPE_CAT(TROUPE_TRAINER_, TROUPE_COUNT(__VA_ARGS__))(__VA_ARGS__)

// TROUPE_STEPS(fit, settings, .plan = plan_fit, .step = step_fit): a trainer of that name without a
// loop function, with the members of troupe_stages that are needed; hooks take the settings.
#define TROUPE_STEPS(name, T, ...) TROUPE_TRAINER_TABLE_(name, NULL, T, __VA_ARGS__)

// A step that answers later. A plain value, valid in every process of the node.
typedef struct troupe_step {
    troupe_actor rank_;
    uint64_t number_; // 0: none.
} troupe_step;

// In the hook .step: it is over when troupe_step_done says so and not when the hook returns, and
// after_batch comes then. Meanwhile other ranks of the process go on. The hook then returns
// TROUPE_OK; with another status the step has failed, and what is said of it later counts for
// nothing. The loop may end before the step does, where the group does: rank_teardown sees to what
// is under way. Empty, with the last error set: TROUPE_INVALID (not called by .step, or twice),
// TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_step troupe_step_later(troupe_rank *me);

// Ends the step, from any thread or method: with TROUPE_OK, or as a failure, with the text of the
// thread's last error where that has this status. The first word counts; one that comes after the
// loop's end is ignored. TROUPE_INVALID: it is empty; TROUPE_NOT_EXECUTED: the rank's process has
// ended; TROUPE_NO_MEMORY: it was not said.
TROUPE_EXPERIMENTAL troupe_status troupe_step_done(troupe_step step, troupe_status status);

// As troupe_step_later; the step goes on, as a part of the hook .step, with `next` once troupe_get
// of the reference will not wait. What that returns ends the step, unless it has called this or
// troupe_step_later again. The reference is given away, to `next` in the end. Errors as those of
// troupe_step_later; TROUPE_INVALID also: the reference is empty.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_step_then(
    troupe_rank *me, troupe_ref ref, troupe_status (*next)(troupe_rank *me, troupe_ref ref));

// TROUPE_RANK_FUNCTION(f, A) makes a function for troupe_execute of `troupe_status f(troupe_rank *,
// const A *)`. It shares names with trainers.
#define TROUPE_RANK_FUNCTION(f, A) TROUPE_TRAINER(f, A)

// Runs a function with *argument in the process of each rank that is left, on the thread that runs
// its loop (with .ranks_per_process: on any), and waits for all. The function may change its
// process (setenv); reports, saves and collectives are for loops. If it fails, the first failure by
// rank is returned, and the text names the rank. Called by on_start and on_shutdown with their own
// group, else TROUPE_INVALID; TROUPE_UNSUPPORTED: the argument has references; TROUPE_PEER_LOST: a
// rank was lost meanwhile; TROUPE_DEADLINE_EXCEEDED: the time of on_shutdown is over.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_execute_as(const troupe_trainer *function,
                                                                    troupe_group *group,
                                                                    const void *argument);
#define troupe_execute(group, function, ...)                                                       \
    troupe_execute_as(&troupe_trainer_##function, (group),                                         \
                      TROUPE_POINTER(const troupe_config_##function, (__VA_ARGS__)))

// ---- Inside a loop ----

typedef struct troupe_metric {
    const char *name; // 1 to 63 bytes
    double value;
} troupe_metric;

// Publishes this rank's metrics (rank 0's are the run's) together with what troupe_save staged
// since the last report. Reports are numbered from 1 on every rank, so all ranks must report
// equally often; a checkpoint is committed once every rank has made the report with its number.
// Returns TROUPE_STOPPED on all ranks at the same report when the run is to end (that report still
// counts); the loop must then return it. At most 32 metrics. It does not wait until the driver has
// taken the report, but where a gate decides on it: what goes wrong there is returned by the next
// report, of a rank that is alone by one of the next, or ends the loop. TROUPE_PEER_LOST: the group
// is being torn down.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_report_metrics(troupe_rank *me, const troupe_metric *metrics, size_t count);
#define troupe_report(me, ...)                                                                     \
    troupe_report_metrics((me), (const troupe_metric[]){__VA_ARGS__},                              \
                          sizeof(const troupe_metric[]){__VA_ARGS__} / sizeof(troupe_metric))

// The same with where in the loop it comes from: troupe_report_tagged(me, "validate", {"loss", x}).
// Followers, the journal and the files made of it have that source beside the metrics; it has 1 to
// 63 bytes. All ranks give the same to the same report, or a rank's next report, or the end of its
// loop, is TROUPE_INVALID. troupe_report gives none.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_report_metrics_tagged(
    troupe_rank *me, const char *source, const troupe_metric *metrics, size_t count);
#define troupe_report_tagged(me, source, ...)                                                      \
    troupe_report_metrics_tagged((me), (source), (const troupe_metric[]){__VA_ARGS__},             \
                                 sizeof(const troupe_metric[]){__VA_ARGS__} /                      \
                                     sizeof(troupe_metric))

// Stages this rank's state for the next report: packs it and returns; a thread writes and syncs it
// to a file while training goes on. The file, rank_%05d.safetensors in the checkpoint, is one of
// safetensors, for other programs to read: numbers, arrays of numbers, bytes and tensors are
// tensors under the names of their members ("optimizer.rate"; in an array of records "layers.width"
// for the numbers of all, "layers.0.weights" for what differs in size); the text "troupe" in its
// metadata has the rest as JSON. One report's files are in flight at a time: the next save,
// troupe_checkpoint_folder or troupe_checkpoint_add after its report, and the end of the loop, wait
// until they are written. A second save before the report replaces the first. What cannot be
// written (a full disk) is logged with the file's name, and that report has no checkpoint; the last
// committed one is untouched, and training goes on. Checkpoints are numbered from 0 as they are
// committed, in folders checkpoint_%06d; the run's journal.jsonl says which report each belongs to.
// With .keep = TROUPE_NONE it does what troupe_commit does, and is logged where there is no room.
// TROUPE_NO_MEMORY: it could not be packed. TROUPE_INVALID names a member that has no value, as a
// text that is not UTF-8.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_save_as(const troupe_type *type,
                                                                 troupe_rank *me,
                                                                 const void *value);
#define troupe_save(T, me, value)                                                                  \
    troupe_save_as(&troupe_type_##T, (me), TROUPE_POINTER(const T, value))

// Stages this rank's state for the next report in memory alone: packs it into shared memory of the
// node, which costs a copy, so it can be done in every step. It is committed once every rank has
// made that report and each has committed a state with it, or only rank 0, whose state then stands
// for all; a restart within this driver goes on from the newest of that commit and the checkpoints.
// Memory holds the last commit, and what belongs to reports that not every rank has made yet. A
// second one before the report replaces the first. Once there is a commit, a failure replaces only
// the processes of ranks that were lost: the others have 1 s to leave their loops (collectives and
// reports return TROUPE_PEER_LOST), and their loops are called anew in the same process, where
// static variables are as they were left. TROUPE_NO_MEMORY, TROUPE_TOO_LARGE: there is no
// room for it; that report has no commit, the one before stays, and training can go on.
// Another number of ranks can go on from a commit if all committed alike, or rank 0 alone: parts of
// ranks lie where no other rank can read them. TROUPE_INVALID: the state has references.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_commit_as(const troupe_type *type,
                                                                   troupe_rank *me,
                                                                   const void *value);
#define troupe_commit(T, me, value)                                                                \
    troupe_commit_as(&troupe_type_##T, (me), TROUPE_POINTER(const T, value))

// Whether the run is asked to save for the next report, by .checkpoint_every, or because it is the
// last one before a stop that troupe_job_stop or the time limit asked for. The same on all ranks.
TROUPE_EXPERIMENTAL bool troupe_checkpoint_due(troupe_rank *me);

// A folder of this rank's own for the next report, to be filled with any files, links and folders:
// what is in it when troupe_report is called is the rank's shard of the checkpoint. All ranks'
// shards become one folder, so a file of a rank's own has the rank in its name; ranks that have the
// same file at the same path must have the same bytes, else the checkpoint is not committed. The
// same folder is given until the report, and is not to be touched after it. *path lives until then.
// troupe_report refuses, as TROUPE_INVALID and before it has reported, links that lead out of the
// folder, pipes, and at the top the names manifest.json, manifest, rank_<n>.safetensors and
// rank_<n>.state.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_checkpoint_folder(troupe_rank *me,
                                                                           const char **path);

// What becomes of files that were added to a checkpoint.
typedef enum troupe_source {
    TROUPE_KEEP_SOURCE,
    TROUPE_REMOVE_SOURCE, // It is removed once it is copied, which is before the commit.
} troupe_source;

// Copies a file into that folder, or all that is in a folder, with links as they are; what is there
// already is replaced. File systems that can share blocks do. TROUPE_NOT_FOUND, TROUPE_IO and
// TROUPE_NO_SPACE name the file.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_checkpoint_add(troupe_rank *me,
                                                                        const char *source,
                                                                        troupe_source then);

// The folder of the checkpoint that this attempt continues from, to be read and not changed; NULL:
// there is none, or it continues from a commit in memory. It may be removed once the loop has made
// a report. Lives as long as the loop.
TROUPE_EXPERIMENTAL const char *troupe_restored_folder(troupe_rank *me);

// The config as it is now, with the members of the trainer's .live as troupe_job_modify has set
// them last. It is the same on all ranks: it changes within troupe_report alone, with the same
// report on each, and what it points to is valid until the next one. A group that is started, also
// anew, begins with the newest values, which are then in the config that its loop is given, too.
// NULL, with the error's text: T is not the type of the config, or this is no loop.
TROUPE_EXPERIMENTAL const void *troupe_live_as(const troupe_type *type, troupe_rank *me);
#define troupe_live(T, me) ((const T *)troupe_live_as(&troupe_type_##T, (me)))

// Reads this rank's state from the commit in memory or the checkpoint that the run continues from
// (rank 0's state where that has fewer ranks). Leaves *value untouched if there is none. Texts and
// arrays live as long as the loop runs. The texts of TROUPE_CORRUPT and TROUPE_WRONG_TYPE name the
// file and the fault.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_restore_as(const troupe_type *type,
                                                                    troupe_rank *me, void *value);
#define troupe_restore(T, me, value)                                                               \
    troupe_restore_as(&troupe_type_##T, (me), TROUPE_POINTER(T, value))

// Gives a value to the run's result: that of rank 0, of the attempt that ends well, is there for
// troupe_result_value, also when the run is opened again; those of other ranks go nowhere. The last
// one counts. At most 1 MiB packed (TROUPE_TOO_LARGE) and without references (TROUPE_INVALID).
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_return_as(const troupe_type *type,
                                                                   troupe_rank *me,
                                                                   const void *value);
#define troupe_return(T, me, value)                                                                \
    troupe_return_as(&troupe_type_##T, (me), TROUPE_POINTER(const T, value))

// The run's .metadata as canonical JSON (members sorted, no white space); NULL: it has none. Valid
// while the loop runs.
TROUPE_EXPERIMENTAL const char *troupe_metadata(troupe_rank *me);

// ---- Data of a run ----

// What the setup of a run's data knows of the run. Owned by the library, valid during the call.
typedef struct troupe_data {
    const char *path;     // Of the run's folder.
    const char *metadata; // The run's .metadata as canonical JSON; NULL: it has none.
    int ranks;            // Of the group that the data are for.
    int attempt;          // 0 for the first group, then the number of restarts so far.
    int rank;             // On which it runs; -1: in the driver.
} troupe_data;

// How the ranks share a set.
typedef enum troupe_sharing {
    TROUPE_SHARE_BY_NAME, // "train" is split, others are whole.
    TROUPE_SPLIT,         // Each rank has a part of its own.
    TROUPE_WHOLE,         // Each rank has all of it.
} troupe_sharing;

// Where a setup of data runs.
typedef enum troupe_where {
    TROUPE_IN_DRIVER, // Once for each group: what it names, all ranks are given.
    TROUPE_ON_RANKS,  // On each rank, of its own: what it names, that rank alone has.
} troupe_where;

// A source of data: static, made by TROUPE_DATA.
typedef struct troupe_data_table {
    uint32_t abi; // TROUPE_ABI
    const char *name;
    const troupe_type *source;
    troupe_status (*setup)(troupe_data *data, const void *source);
    troupe_where where;
    const void *reserved_[2];
} troupe_data_table;

// What troupe_data_with makes.
typedef struct troupe_data_given {
    const troupe_data_table *table;
    const void *source;
    // How ranks share some of the sets, whatever the setup says: "valid=split, test=whole"; NULL:
    // as that says.
    const char *share;
    int unused_;
} troupe_data_given;

// TROUPE_DATA(digits, digits_source, setup_digits): data of that name, which are made of a source
// of that type (a TROUPE_STRUCT) by `troupe_status setup_digits(troupe_data *, const digits_source
// *)`. The setup is called in the driver, on a thread of its own, once for each group of the run,
// before its processes are started. It names the sets by troupe_data_set, at least one; references
// in the source are lent to it. A failure ends the run with its text. If the run is ended by force
// meanwhile, the thread is left to itself.
//
// TROUPE_DATA(digits, digits_source, setup_digits, .where = TROUPE_ON_RANKS): the setup is called
// in each rank instead, before its rank_setup and its loop, and names the sets of that rank: of a
// split one it still has its part alone. A failure is one of the rank. What its sets are called is
// not known to the run, and not compared when that goes on.
#define TROUPE_DATA(...) TROUPE_DATA_(__VA_ARGS__, .reserved_ = {NULL})
#define TROUPE_DATA_(D, T, setup_, ...)                                                            \
    typedef T troupe_source_##D;                                                                   \
    static troupe_status troupe_data_setup_##D(troupe_data *troupe_data_,                          \
                                               const void *troupe_source_)                         \
    {                                                                                              \
        return setup_(troupe_data_, (const troupe_source_##D *)troupe_source_);                    \
    }                                                                                              \
    static const troupe_data_table troupe_data_table_##D = {.abi = TROUPE_ABI,                     \
                                                            .name = #D,                            \
                                                            .source = &troupe_type_##T,            \
                                                            .setup = troupe_data_setup_##D,        \
                                                            __VA_ARGS__};                          \
    __attribute__((constructor)) static void troupe_register_data_##D(void)                        \
    {                                                                                              \
        (void)troupe_data_register(&troupe_data_table_##D);                                        \
    }                                                                                              \
    _Static_assert(sizeof(troupe_source_##D) > 0, #T)

// For the option .data: data of that name, of *source, which is copied by the submission:
// troupe_data_with(digits, &source), or with .share.
#define troupe_data_with(...) TROUPE_DATA_WITH_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_DATA_WITH_(D, source_, ...)                                                         \
    (&(const troupe_data_given){.table = &troupe_data_table_##D,                                   \
                                .source = TROUPE_POINTER(const troupe_source_##D, source_),        \
                                __VA_ARGS__})

// Makes data known under their name; TROUPE_DATA does it before main. Errors as those of
// troupe_class_register.
TROUPE_EXPERIMENTAL troupe_status troupe_data_register(const troupe_data_table *table);

// In a setup of data: names a set of `rows` rows (0 or more; what a row is, the loop knows), in any
// object or the result of a call, as "train", ref, 60000, TROUPE_SHARE_BY_NAME. The key has 1 to 63
// bytes. Consumes the reference, whatever comes of it. The object lives as long as the group at
// least. TROUPE_INVALID names the key: the reference is empty or stale, or rows or `how` are out of
// range, or there is a set of that key; or it was not called by the setup with its `data`.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_data_set(troupe_data *data,
                                                                  const char *key, troupe_ref ref,
                                                                  int64_t rows, troupe_sharing how);

// A rank's part of a set: `rows` rows from `first` on. The parts of a split set follow each other
// in the order of ranks, and differ by at most one row. (Batches are divided otherwise: data.h.)
typedef struct troupe_shard {
    troupe_ref data; // The whole set; lent as long as the loop runs, however often it is read.
    int64_t first;
    int64_t rows;
    int64_t all;            // Rows of the whole set.
    troupe_sharing sharing; // TROUPE_SPLIT or TROUPE_WHOLE.
} troupe_shard;

// In a loop: sets *shard to this rank's part of the run's set with that key. TROUPE_NOT_FOUND lists
// the keys that there are.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_data_shard(troupe_rank *me,
                                                                    const char *key,
                                                                    troupe_shard *shard);

// ---- Running one ----

typedef enum troupe_goal {
    TROUPE_GOAL_NONE, // Not set: refused where there is a metric.
    TROUPE_MINIMIZE,
    TROUPE_MAXIMIZE,
} troupe_goal;

// Whether a run begins or goes on.
typedef enum troupe_open {
    // A new run; a number is appended to a name that is taken.
    TROUPE_OPEN_NEW,
    // The run of that name, which must be there, goes on after its newest checkpoint: after a stop,
    // a failure, or the death of its driver. Options that are left out are those that it was made
    // with; the config is the one given now, in which modified live members keep their values if it
    // says of them what it said before. A run that has ended well just gives its result.
    TROUPE_OPEN_RESUME,
    // The one if there is a run of that name, else the other: what a program says that is to be
    // started again until it is done.
    TROUPE_OPEN_RESUME_OR_NEW,
} troupe_open;

// Whether a run is shown on standard output while it runs: its processes, checkpoints and restarts
// as lines, its status and metrics as a block that is drawn over itself on a terminal (elsewhere a
// line every 5 s at most), and at the end where its files are and how long it took. What the
// program itself prints on that terminal meanwhile may be drawn over.
typedef enum troupe_console {
    TROUPE_CONSOLE_AUTO, // Where standard output is a terminal.
    TROUPE_CONSOLE_ON,
    TROUPE_CONSOLE_OFF,
} troupe_console;

// What a run syncs, so that it lasts a loss of power. The end of a process, however it ends, takes
// nothing that was written.
typedef enum troupe_sync {
    TROUPE_SYNC_AUTO, // ALL; CHECKPOINTS for trials of a sweep that are its own program's.
    // What the run is (run.json) before it starts, its journal at its end, and how it ended, too.
    TROUPE_SYNC_ALL,
    // Checkpoints, each with what a run needs to go on from it. A run that a loss of power meets
    // before its first one may leave nothing, and one that has ended may be as it was at its last
    // one: for runs that something else keeps account of. Other storages than local files sync all.
    TROUPE_SYNC_CHECKPOINTS,
} troupe_sync;

// What a gate answers.
typedef enum troupe_gate_answer {
    TROUPE_GATE_GO_ON,
    // As troupe_job_stop, before the report is answered; the next report is the last one for every
    // trainer.
    TROUPE_GATE_STOP,
    TROUPE_GATE_PAUSE,  // As troupe_job_pause, before the report is answered.
    TROUPE_GATE_RESIZE, // As troupe_job_resize, to *ranks, likewise. What is refused is warned of.
} troupe_gate_answer;

struct troupe_job;
struct troupe_report_event;

// Decides, before a report is answered, whether the run goes on: with a collective in each step a
// stop at report k takes effect at k + 1. It is asked at the reports that it names, on a thread of
// the library. After its time-out the run goes on, without more waits before a late answer counts.
// Where a run goes on (.open) and reports of an earlier opening are made again, it is asked at
// these too, once: what it had answered may have died with that driver.
typedef struct troupe_gate {
    size_t size;    // sizeof(troupe_gate): TROUPE_OPTIONS sets it.
    int first;      // The first report that it is asked at; default 1.
    int every;      // And at each so many later; default 1.
    int timeout_ms; // Default 1000.
    // *ranks is how many the group has; set with TROUPE_GATE_RESIZE.
    troupe_gate_answer (*decide)(void *user, struct troupe_job *job,
                                 const struct troupe_report_event *event, int *ranks);
    void *user;
    // These, at most 64, which rise; and those of .first and .every only where there is a .first.
    const int *reports;
    size_t report_count;
} troupe_gate;

typedef struct troupe_train_options {
    size_t size;
    int ranks; // Processes of the run; default 1.
    // Reserved while the job runs; default 1. A job that ends well and reserves nothing else gives
    // them back when its ranks' loops have ended: their processes may end a moment later.
    double cpus_per_rank;
    // Folder of all runs; default $TROUPE_RESULTS, else ~/troupe_results. "scheme:name" is of a
    // troupe_storage.
    const char *storage;
    // Name of the run's folder in `storage`, 1 to 128 of [A-Za-z0-9._-]; default: the trainer's
    // name. A number is appended to a name that is taken.
    const char *name;
    // Best checkpoints to keep; default: all. The latest is always kept too. TROUPE_NONE: no
    // checkpoint is written to disk; troupe_save keeps the newest state in memory.
    int keep;
    // Metric that ranks checkpoints, those without it last; default: the newest is the best.
    const char *keep_metric;
    troupe_goal keep_goal; // Required with keep_metric.
    // How often the group is restarted after it lost a worker; default 0; TROUPE_FOREVER: always.
    int restarts;
    const char *from; // Folder of a checkpoint that a new run starts from; default none.
    // Longest wait for another rank in a collective, or in a report for a rank that is far behind;
    // default 60000.
    int collective_timeout_ms;
    // What each rank holds beside its CPUs while the job runs, as `.gpus`, `.memory_bytes` and
    // `.resources` of troupe_spawn; default: nothing. A job gets all that its ranks need at once,
    // or waits. A rank's process has CUDA_VISIBLE_DEVICES set to its own GPUs. Ranks with less than
    // one GPU share one, or fill whole ones.
    double gpus_per_rank;
    size_t memory_per_rank_bytes;
    const char *resources_per_rank; // "license=1, accelerator=0.5".
    // Environment of the ranks' processes ("KEY=VALUE" lines, which override .worker_env of
    // troupe_start). Beside it, each has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and
    // NODE_RANK, as PyTorch's launchers set them, unless they are given here. It may hold secrets:
    // run.json does not have it, and a run that goes on needs it again.
    const char *env;
    double coordinator_cpus; // Reserved for the job beside those of its ranks; default 0.
    troupe_open open;        // Default: TROUPE_OPEN_NEW.
    bool force; // Go on with a run that another trainer has made, or that had other data.
    // A JSON object that the run keeps: in run.json, for its loops (troupe_metadata) and in its
    // checkpoints; default: none, or the one that the run was made with.
    const char *metadata;
    const troupe_gate *gate; // Copied; default: none.
    // How long the run may take from when it gets its resources, restarts included; default: any
    // time. Then it is stopped as by troupe_job_stop and, if it has not ended within the grace
    // (default 10 s), ended as by troupe_job_kill with TROUPE_DEADLINE_EXCEEDED. A job with a limit
    // may start before older ones that wait, if by the limits of all that runs it delays none.
    double time_limit_s;
    double time_limit_grace_s;
    troupe_console console; // Default: AUTO; OFF for the trials of a sweep.
    // Save for each report whose number is a multiple of it; default 1. Only for trainers that have
    // .saves_when_due, else TROUPE_UNSUPPORTED.
    int checkpoint_every;
    // Reports have the metrics of every rank, for followers, the gate and in the journal, and not
    // only rank 0's: `ranks` of a troupe_report_event. A line of the journal grows with the ranks.
    // A run that goes on needs it again.
    bool rank_metrics;
    // What the run learns from: troupe_data_with(digits, &source); default: nothing. A run that
    // goes on needs it again, with sets of the same keys, but for .force.
    const troupe_data_given *data;
    // Makes the submission one that can be repeated: while a handle is open on a job with this key
    // (1 to 128 bytes), submitting the same again gives another handle on it, and troupe_job_find
    // one; a submission that differs is refused. Default: none. A follower of a later submission
    // is told everything from the beginning, too; each is told until the run has ended or the last
    // handle is closed. A gate is given with the first submission, unless the job is a server's.
    const char *key;
    // Reports that the run is expected to make in all, earlier openings included; default: not
    // known. Only what is shown of it depends on it: how much is left.
    int expected_reports;
    // Ranks that share a process, as actors of it, 1 to 128; default 1. Only for trainers with
    // .step, else TROUPE_UNSUPPORTED. What each rank holds stays the same; the process has the
    // environment of its first rank, but the GPUs of all, and is lost with all of them. Hooks of
    // different ranks run at the same time, and static variables are theirs together.
    int ranks_per_process;
    // Makes the run elastic: where what .ranks need is not free, a group is formed at once of as
    // many ranks as there is room for, at least so many (where not even that is free, it waits for
    // so many); so at the start, and when it is formed after a pause or a resize. Of a run that
    // goes on with parts of ranks that the trainer does not divide anew, only groups of their
    // number are formed. Default: as many as .ranks.
    int min_ranks;
    troupe_server_choice server; // Whose the job is (troupe/server.h); default: DEFAULT.
    int priority;    // Of a server's job: a higher one goes first, -1000 to 1000; default 0.
    double start_at; // Of a server's job: Unix time before which it waits; default: none.
    // A JSON object that params.json and the other files for other programs (result.json,
    // progress.csv, TensorBoard's) have as what the run was configured with, and what a train
    // server shows and tells trackers of; default: its config.
    const char *params;
    // What lasts a loss of power; default: AUTO. A run that goes on needs it again.
    troupe_sync sync;
    int unused_;
} troupe_train_options;

typedef struct troupe_job troupe_job;
typedef struct troupe_result troupe_result;

// The metrics of one rank.
typedef struct troupe_rank_metrics {
    const troupe_metric *metrics;
    size_t count;
} troupe_rank_metrics;

// One report of a run, as rank 0 made it. Borrowed during the callback.
typedef struct troupe_report_event {
    int number; // From 1.
    const troupe_metric *metrics;
    size_t count;
    double elapsed_s; // That the run has taken, earlier openings included.
    // Folder of the checkpoint of this report where it is committed already; else NULL: the
    // follower's `checkpoint` is told once it is.
    const char *checkpoint;
    const char *source; // As given to troupe_report_tagged; "": none was.
    // What each rank has reported, by rank, with .rank_metrics; else there are none.
    const troupe_rank_metrics *ranks;
    size_t rank_count;
} troupe_report_event;

// A checkpoint that was committed. Borrowed during the callback.
typedef struct troupe_checkpoint_event {
    int64_t number;               // Of the checkpoint, from 0.
    int report;                   // That it belongs to; later ones may have been told of before.
    const char *folder;           // It lasts, until .keep has it removed.
    const troupe_metric *metrics; // Of that report.
    size_t count;
    double elapsed_s; // That the run has taken, earlier openings included.
} troupe_checkpoint_event;

// A line that a rank has printed, on standard output or error, or 16 KiB of a longer one. Borrowed
// during the callback.
typedef struct troupe_log_event {
    int rank;
    int attempt;      // Of the group.
    int pid;          // Of the process.
    const char *text; // Without its end, and terminated.
    size_t size;
    // Not 0: no line, but how many of this process are not told, here: they came faster than they
    // could be written, or could not be.
    uint64_t lost;
} troupe_log_event;

// Live values that have taken effect: all wishes (troupe_job_modify) up to that revision, which the
// lines `modify` of the run's journal have. Borrowed during the callback.
typedef struct troupe_live_event {
    int64_t revision;
    int report; // After which they count.
} troupe_live_event;

typedef enum troupe_job_state {
    TROUPE_JOB_QUEUED, // Waits for resources.
    TROUPE_JOB_RUNNING,
    TROUPE_JOB_RESTARTING,
    TROUPE_JOB_DONE,   // troupe_job_wait returns at once.
    TROUPE_JOB_PAUSED, // It holds nothing, until troupe_job_go_on.
} troupe_job_state;

// Callbacks of a job, called by a thread of the library, one at a time and in order. They hold up
// nothing but the job's closing: a slow one hears of everything later. `report` is called once for
// each report that every rank has made, in the order of their numbers; `state` at every change of
// state, TROUPE_JOB_DONE the last; `checkpoint` for each checkpoint that was committed, in the
// order of their numbers; `log` for each line in the log files of ranks, in the order of each
// stream of a rank; it is not called where workers print to the driver's own descriptors
// (TROUPE_OUTPUT_DIRECT). Where a rank's output lasts longer than the run (a process of its own has
// it), it is told of for 2 s more. `modified`: newer live values have taken effect, or a group has
// begun with some.
typedef struct troupe_follower {
    size_t size; // sizeof(troupe_follower): TROUPE_OPTIONS sets it.
    void (*report)(void *user, troupe_job *job, const troupe_report_event *event);
    void (*state)(void *user, troupe_job *job, troupe_job_state state);
    void *user;
    void (*checkpoint)(void *user, troupe_job *job, const troupe_checkpoint_event *event);
    void (*log)(void *user, troupe_job *job, const troupe_log_event *event);
    void (*modified)(void *user, troupe_job *job, const troupe_live_event *event);
} troupe_follower;

// Queues a run of `trainer` with a copy of *config (NULL: the loop takes none) and returns at once.
// The run starts when all that its ranks hold is free, in the order of submission but for
// .time_limit_s. The caller owns *job. `follower` may be NULL; it is copied, and gets all reports
// from the first one. Errors: TROUPE_INVALID (an option out of range), TROUPE_TOO_LARGE (more of a
// resource than the node has), TROUPE_IO or TROUPE_NO_SPACE (the run's folder cannot be made),
// TROUPE_NOT_FOUND or TROUPE_CORRUPT (the checkpoint of `.from`; its files are verified when the
// run begins, and damage found then fails the run), TROUPE_VERSION and TROUPE_EXISTS as
// troupe_trainer_register, TROUPE_UNSUPPORTED (not in the driver process), TROUPE_NO_MEMORY,
// TROUPE_NOT_STARTED, TROUPE_EXISTS (another job has that .key: the text names the first member in
// which they differ); where a run is to go on also TROUPE_NOT_FOUND (there is none), TROUPE_BUSY
// (another driver, or a rank of a dead one, has it: the text names the process), TROUPE_WRONG_TYPE
// (it is another trainer's), TROUPE_CORRUPT, TROUPE_VERSION, TROUPE_EXISTS (the folder is none of a
// run).
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_submit_as(const troupe_trainer *trainer,
                                                                   const void *config,
                                                                   const troupe_follower *follower,
                                                                   troupe_job **job,
                                                                   const troupe_train_options *how);
#define troupe_submit(...) TROUPE_SUBMIT_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SUBMIT_(loop, config, follower, job, ...)                                           \
    troupe_submit_as(&troupe_trainer_##loop, TROUPE_POINTER(const troupe_config_##loop, config),   \
                     (follower), (job),                                                            \
                     &(troupe_train_options){.size = sizeof(troupe_train_options), __VA_ARGS__})

// Waits up to `timeout_ms` for the end of the job and sets *result, which the caller owns
// (troupe_result_free). TROUPE_TIMED_OUT: the job has not ended; TROUPE_INVALID: called by the
// job's own gate, which the run waits for. A run that failed still gives TROUPE_OK here; its
// failure is in the result.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_job_wait(troupe_job *job, int timeout_ms,
                                                                  troupe_result **result);

// Asks the run to stop at the next report that no rank has passed yet; a queued job ends without
// having run. A run of a trainer with .saves_when_due makes one report more, for which
// troupe_checkpoint_due is true on all ranks, whatever .checkpoint_every says: so it ends with a
// checkpoint. Does not wait. Harmless on an ended job.
TROUPE_EXPERIMENTAL void troupe_job_stop(troupe_job *job);

// Changes a member of the config of a run of `trainer` while it waits or runs; the trainer names
// those that can change in .live. The new value is copied and written to the run's journal before
// this returns; it takes effect on all ranks with the first report that none of them has made (see
// troupe_live), or with the start of the next group. Of values that are set in quick succession
// only the last may do so. It holds when the run goes on in another driver, unless the config given
// there has another value of the member than the one given before. Does not wait. TROUPE_NOT_FOUND:
// no such member (the text lists all); TROUPE_UNSUPPORTED: it is not live (the text lists those
// that are); TROUPE_WRONG_TYPE: the run is another trainer's; TROUPE_STOPPED: it has ended;
// TROUPE_TOO_LARGE: the live values take more than 16 KiB packed; TROUPE_IO: the journal cannot be
// written; TROUPE_BUSY: its follower asks before troupe_submit has returned; TROUPE_NO_MEMORY.
// After a failure all is as it was.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_job_modify_as(
    const troupe_trainer *trainer, troupe_job *job, const char *member, const void *value);
// troupe_job_modify(fit, job, rate, 0.05): the member and the type of its value are checked by the
// compiler. The values of a fixed array are given in braces.
#define troupe_job_modify(loop, job, member, ...)                                                  \
    troupe_job_modify_as(                                                                          \
        &troupe_trainer_##loop, (job), #member,                                                    \
        (const __typeof__(((troupe_config_##loop *)NULL)->member)[]){__VA_ARGS__})

// Ends the run at once, for a loop that does not reach a report: its workers are killed and not
// restarted, and its result has `status` (TROUPE_OK stands for TROUPE_CANCELLED) and the error text
// `why` (copied, cut at 159 bytes); the first such call counts. Reports and checkpoints made so far
// stay. Does not wait. Harmless on an ended job. Repeat it if the job does not end: the request is
// lost when there is no memory for it.
TROUPE_EXPERIMENTAL void troupe_job_kill(troupe_job *job, troupe_status status, const char *why);

// Pauses the run: at the next report that no rank has passed its loops leave, as for a stop, with
// what they have saved; what the job holds is given back, and its state is TROUPE_JOB_PAUSED. A
// queued job leaves the queue. Does not wait. The newest of pauses, goings on and resizes counts;
// all are harmless on an ended job, and none is seen in a result. A pause costs no time of
// .time_limit_s and of elapsed_s. Stopped, killed or closed meanwhile, the job ends at once. A
// driver that opens the run again just goes on with it.
TROUPE_EXPERIMENTAL void troupe_job_pause(troupe_job *job);
// Queues a paused job again: when it has its resources, it goes on from its newest checkpoint or
// commit in memory; without any it begins anew.
TROUPE_EXPERIMENTAL void troupe_job_go_on(troupe_job *job);
// Has the run go on with so many ranks: its loops leave, as for a pause, what the job holds is
// given back, and the next group is formed when there is room for it, in the order of asking. A
// loop that ends first ends the run. Refused before anything is stopped, as far as that can be
// known then: TROUPE_INVALID (out of range, or the ranks have each saved a part of their own and
// the trainer does not reshard), TROUPE_TOO_LARGE. What comes to light later is warned of, and the
// run goes on with the ranks of before. Another opening has .ranks as given there, or as the run
// was made with.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_job_resize(troupe_job *job, int ranks);

// A snapshot of a job's progress.
typedef struct troupe_job_status {
    troupe_job_state state;
    int reports;      // Reports made by all ranks so far.
    int restarts;     // Restarts of the group so far.
    int pids[16];     // Process ids of the first running workers, by rank; 0: none.
    double elapsed_s; // That the run has taken, earlier openings included, pauses left out.
    int ranks;        // Of the group that runs, ran last, or is to be formed.
    int pid;          // Of rank 0's process, now or last; 0: there was none yet.
} troupe_job_status;
TROUPE_EXPERIMENTAL void troupe_job_status_get(troupe_job *job, troupe_job_status *status,
                                               size_t size);
#define troupe_job_status_get(job, status)                                                         \
    troupe_job_status_get((job), (status), sizeof(troupe_job_status))

// Reads the state that `rank` gave to the newest commit in memory (troupe_commit), while the run
// goes on and after its end: rank 0's where that alone committed. Texts and arrays belong to the
// thread's arena. TROUPE_NOT_FOUND: there is no commit, or no such rank; TROUPE_WRONG_TYPE: it is
// of another type; TROUPE_NOT_STARTED: the runtime that had it was stopped.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_job_committed_as(const troupe_type *type,
                                                                          troupe_job *job, int rank,
                                                                          void *value);
#define troupe_job_committed(T, job, rank, value)                                                  \
    troupe_job_committed_as(&troupe_type_##T, (job), (rank), TROUPE_POINTER(T, value))

typedef enum troupe_checkpoint_choice {
    TROUPE_NEWEST_CHECKPOINT,
    TROUPE_BEST_CHECKPOINT, // According to .keep_metric; without it: the newest.
} troupe_checkpoint_choice;

// Writes the folder of the checkpoint that is a run's newest or best at this moment, while it runs
// and when it has ended; *number becomes its number (NULL: it is not wanted). A run that goes on
// has those of earlier openings from when it begins. The folder may be removed as soon as a later
// checkpoint takes its place, also while it is read: .keep says how many stay. TROUPE_NOT_FOUND:
// there is none; TROUPE_TOO_LARGE: `capacity` bytes are too few; then neither is set.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_job_checkpoint(troupe_job *job, troupe_checkpoint_choice which, char *folder,
                      size_t capacity, int64_t *number);

// Path of the run's folder: valid until the job is closed.
TROUPE_EXPERIMENTAL const char *troupe_job_path(const troupe_job *job);

// Closes the handle and clears *job. If others are open on the job, nothing else happens; a
// follower belongs to the job. With the last one, a job that still runs is stopped and waited for,
// and so is a follower that has not been told of everything yet; it is not called after this has
// returned, nor is anything written to the run's folder, unless its disk hangs. Called by that
// follower or the job's gate, it stops the job and does not wait.
TROUPE_EXPERIMENTAL void troupe_job_close(troupe_job **job);

// Submits and waits. TROUPE_OK: the loop ended successfully (or was stopped) and *result is set;
// else the status and error text of the failure that ended the run, with *result set if the run had
// begun (else NULL). The caller frees *result.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_train_as(const troupe_trainer *trainer,
                                                                  const void *config,
                                                                  troupe_result **result,
                                                                  const troupe_train_options *how);
#define troupe_train(...) TROUPE_TRAIN_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TRAIN_(loop, config, result, ...)                                                   \
    troupe_train_as(&troupe_trainer_##loop, TROUPE_POINTER(const troupe_config_##loop, config),    \
                    (result),                                                                      \
                    &(troupe_train_options){.size = sizeof(troupe_train_options), __VA_ARGS__})

// Writes what a run is asked for, for people: the trainer's name and each option that is not its
// default, as in "<fit ranks=4 keep=TROUPE_NONE>"; of .env, .gate and .data only that they are
// there. TROUPE_TOO_LARGE: `capacity` bytes are too few.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_train_describe_as(
    const troupe_trainer *trainer, char *out, size_t capacity, const troupe_train_options *how);
#define troupe_train_describe(...) TROUPE_TRAIN_DESCRIBE_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TRAIN_DESCRIBE_(loop, out, capacity, ...)                                           \
    troupe_train_describe_as(                                                                      \
        &troupe_trainer_##loop, (out), (capacity),                                                 \
        &(troupe_train_options){.size = sizeof(troupe_train_options), __VA_ARGS__})

// ---- Results ----

// Frees a result and clears *result. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_result_free(troupe_result **result);

// TROUPE_OK: the loop ended by itself or was stopped; else why the run failed.
TROUPE_EXPERIMENTAL troupe_status troupe_result_status(const troupe_result *result);
// The error text of that failure; empty if there was none. Lives as long as the result, as do all
// texts below.
TROUPE_EXPERIMENTAL const char *troupe_result_error(const troupe_result *result);
// What was wrong alone, without where the run is and how it can be gone on with, which may follow
// it in the error text. Of a run that an earlier version wrote, the whole text.
TROUPE_EXPERIMENTAL const char *troupe_result_cause(const troupe_result *result);
// Whether the run was ended by troupe_job_stop or at its time limit.
TROUPE_EXPERIMENTAL bool troupe_result_stopped(const troupe_result *result);
// The last report's value of a metric of rank 0; NaN if it was never reported.
TROUPE_EXPERIMENTAL double troupe_result_metric(const troupe_result *result, const char *name);
// The last report's metrics of rank 0; *count says how many.
TROUPE_EXPERIMENTAL const troupe_metric *troupe_result_metrics(const troupe_result *result,
                                                               size_t *count);
// Reads what rank 0's loop gave to troupe_return. Texts and arrays belong to the thread's arena.
// TROUPE_NOT_FOUND: nothing, or the run failed; TROUPE_WRONG_TYPE: a value of another type.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_result_value_as(const troupe_type *type, const troupe_result *result, void *value);
#define troupe_result_value(T, result, value)                                                      \
    troupe_result_value_as(&troupe_type_##T, (result), TROUPE_POINTER(T, value))
// As troupe_job_committed, of the last commit in memory of this opening: it stays there until the
// result is freed, and so it can be read when the job is closed.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_result_committed_as(
    const troupe_type *type, const troupe_result *result, int rank, void *value);
#define troupe_result_committed(T, result, rank, value)                                            \
    troupe_result_committed_as(&troupe_type_##T, (result), (rank), TROUPE_POINTER(T, value))
// Reports made by all ranks.
TROUPE_EXPERIMENTAL int troupe_result_reports(const troupe_result *result);
// How often the group was restarted.
TROUPE_EXPERIMENTAL int troupe_result_restarts(const troupe_result *result);
// Folder of the newest checkpoint; NULL if there is none.
TROUPE_EXPERIMENTAL const char *troupe_result_checkpoint(const troupe_result *result);
// Folder of the best checkpoint according to .keep_metric (without it: the newest); NULL if there
// is none.
TROUPE_EXPERIMENTAL const char *troupe_result_best_checkpoint(const troupe_result *result);
// Folder of the run.
TROUPE_EXPERIMENTAL const char *troupe_result_path(const troupe_result *result);
// Seconds that the run has taken since its first group started, those of earlier openings included.
TROUPE_EXPERIMENTAL double troupe_result_elapsed_s(const troupe_result *result);

// ---- Checkpoints outside a loop ----

typedef struct troupe_checkpoint troupe_checkpoint;

typedef enum troupe_checkpoint_kind {
    TROUPE_CHECKPOINT_FILE,
    TROUPE_CHECKPOINT_STATE,  // A file of troupe_save.
    TROUPE_CHECKPOINT_LINK,   // To `target`.
    TROUPE_CHECKPOINT_FOLDER, // With nothing in it.
    TROUPE_CHECKPOINT_OTHER,  // Of a later library.
} troupe_checkpoint_kind;

typedef struct troupe_checkpoint_file {
    const char *path; // Relative to the checkpoint's folder.
    troupe_checkpoint_kind kind;
    int rank; // That put it there; the first one, where several did.
    uint64_t size;
    uint64_t xxh64;     // Of all bytes, seed 0; of one with an old manifest: of a state's payload.
    const char *target; // Of a link; else NULL.
} troupe_checkpoint_file;

// What a checkpoint says of itself. All that it points to lives as long as the handle.
typedef struct troupe_checkpoint_info {
    const char *path; // Its folder.
    int64_t number;
    int report;                   // That it was committed with.
    int world;                    // Ranks of the run.
    const char *created;          // UTC, as in 2026-01-31T12:00:00.000Z; "": not known.
    const char *trainer;          // Its name; "": not known.
    const char *config;           // JSON, with the live values of its report; NULL: not known.
    const char *metadata;         // JSON, the run's .metadata; NULL: it had none.
    const troupe_metric *metrics; // Of rank 0, of that report.
    size_t metric_count;
    const troupe_checkpoint_file *files; // In the order of paths.
    size_t file_count;
} troupe_checkpoint_info;

// Opens the checkpoint at `path`, in which "~/" is the home; the caller owns *checkpoint. Only its
// manifest is read. The texts of TROUPE_NOT_FOUND, TROUPE_CORRUPT, TROUPE_VERSION (made by a later
// library) and TROUPE_IO name the file.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_checkpoint_open(const char *path, troupe_checkpoint **checkpoint);
// Closes the handle and clears *checkpoint. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_checkpoint_close(troupe_checkpoint **checkpoint);

TROUPE_EXPERIMENTAL void troupe_checkpoint_info_get(const troupe_checkpoint *checkpoint,
                                                    troupe_checkpoint_info *info, size_t size);
#define troupe_checkpoint_info_get(checkpoint, info)                                               \
    troupe_checkpoint_info_get((checkpoint), (info), sizeof(troupe_checkpoint_info))

// Reads all its files: TROUPE_CORRUPT names the first that is missing or not as it was.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_checkpoint_verify(const troupe_checkpoint *checkpoint);

// Reads the state that `rank` saved in the checkpoint at `folder`, in which "~/" is the home,
// outside a loop. Texts and arrays belong to the thread's arena. The texts of TROUPE_NOT_FOUND,
// TROUPE_CORRUPT and TROUPE_WRONG_TYPE name the file and the fault.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_checkpoint_load_as(const troupe_type *type,
                                                                            const char *folder,
                                                                            int rank, void *value);
#define troupe_checkpoint_load(T, folder, rank, value)                                             \
    troupe_checkpoint_load_as(&troupe_type_##T, (folder), (rank), TROUPE_POINTER(T, value))

TROUPE_END_C

#include <troupe/collective.h>
#include <troupe/detail/trainer.h>
#include <troupe/gradients.h>
#include <troupe/run.h>

#endif
