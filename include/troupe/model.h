// model.h: models: what a run trains, and what is then asked. A model is a struct with functions of
// its own, its hooks; the library has the loop around them, the checkpoints, and the config.
//
//     // What a user says, what a checkpoint holds, and what computes:
//     TROUPE_STRUCT(net_config, (double, rate), (int64_t, hidden), (troupe_fitting, fitting));
//     TROUPE_STRUCT(net_state, (troupe_tensor, weights));
//     typedef struct net { int64_t hidden; float *weights; } net;
//
//     TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward,
//                  .train_step = net_train_step,
//                  .save = net_save, .load = net_load,
//                  .input = {TROUPE_FLOAT32, 1, {64}}, // Of a row.
//                  .defaults = {.hidden = 64, .fitting = {.epochs = 10, .batch = 32}});
//
//     // A model is a trainer:
//     net_config config = troupe_defaults(net);
//     config.rate = 0.01;
//     TROUPE_TRY(troupe_train(net, &config, &result, .ranks = 2, .data = ...));
//
//     // And outside a run:
//     troupe_instance *instance;
//     TROUPE_TRY(troupe_model_open(net, troupe_result_checkpoint(result), NULL, &instance));
//     TROUPE_TRY(troupe_model_forward(instance, &x, &y));
//     troupe_model_close(&instance);
#ifndef TROUPE_MODEL_H
#define TROUPE_MODEL_H

#include <troupe/data.h>
#include <troupe/tensor.h>
#include <troupe/train.h>

TROUPE_BEGIN_C

// How a model is trained: a member of its config, of any name. Beside the others of the config it
// is in a run's JSON, its spaces and its checkpoints.
TROUPE_STRUCT(troupe_fitting, (int64_t, epochs), // Passes over the set "train", 1 or more.
              (int64_t, batch), // Rows of a step, of all ranks together, 1 or more. A step has the
                                // same rows however many ranks there are: each has its part, equal
                                // within one row.
              (uint64_t, seed), // Of the order of rows, which is another one in each epoch.
              // Epochs from one validation to the next, the last one being validated always.
              // Default 1, where there are a hook .validate_step and a set "valid"; if it is given,
              // both must be there; TROUPE_NONE.
              (int64_t, validate_every),
              // Steps from one report to the next within an epoch, beside the one at its end.
              // Default: that one alone, so that a run's reports are its epochs.
              (int64_t, report_every));

// What an instance is for.
typedef enum troupe_purpose {
    TROUPE_FOR_TRAINING,
    TROUPE_FOR_INFERENCE, // troupe_model_open.
} troupe_purpose;

// What a model's setup knows of its instance. Owned by the library, valid during the call.
typedef struct troupe_use {
    troupe_purpose purpose;
    int rank, world; // In its run; 0 and 1 outside one.
    void *arena_;
} troupe_use;

// Zeroed memory that lives as long as the instance, aligned to 64 bytes; NULL when memory is short,
// with the error's text, so that a setup may return TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL void *troupe_use_alloc(troupe_use *use, size_t size);

// What a row of a model's input is: the batch's dimension is left out. A 0 in the shape: any.
typedef struct troupe_input {
    troupe_dtype dtype; // TROUPE_DTYPE_NONE: the model takes anything, and looks itself.
    uint32_t ndim;      // Less than TROUPE_DIMS_MAX.
    size_t shape[TROUPE_DIMS_MAX];
} troupe_input;

// A model's hooks, by number.
typedef enum troupe_hook {
    TROUPE_HOOK_BEFORE_SETUP,
    TROUPE_HOOK_SETUP,
    TROUPE_HOOK_PREPROCESS,
    TROUPE_HOOK_FORWARD,
    TROUPE_HOOK_POSTPROCESS,
    TROUPE_HOOK_TRAIN_STEP,
    TROUPE_HOOK_VALIDATE_STEP,
    TROUPE_HOOK_BEFORE_EPOCH,
    TROUPE_HOOK_AFTER_EPOCH,
    TROUPE_HOOK_BEFORE_BATCH,
    TROUPE_HOOK_AFTER_BATCH,
    TROUPE_HOOK_SAVE,
    TROUPE_HOOK_LOAD,
    TROUPE_HOOK_DEINIT,
    TROUPE_HOOKS
} troupe_hook;

// A model: static, made by TROUPE_MODEL, found in every process of the program by its name.
typedef struct troupe_model {
    uint32_t abi; // TROUPE_ABI
    const char *name;
    size_t size; // Of the struct.
    const troupe_type *config;
    const troupe_type *state;
    const void *defaults; // A config.
    const troupe_input *input;
    bool is_state; // The struct is its own state.
    // Calls a hook that there is, with what its signature has of these: `at` is the rank or the
    // use; and which hooks there are, a bit each.
    troupe_status (*call)(troupe_hook hook, void *self, void *at, const void *in, void *out);
    uint32_t (*hooks)(void);
    const troupe_trainer *trainer;
    const char *const *open_texts; // NULL: it has none.
    const void *reserved_[3];
} troupe_model;

// TROUPE_MODEL(net, net_config, net_state, net_setup, net_forward, ...): a model of the struct net.
// Its config and its state are each a TROUPE_STRUCT; the state may be the struct itself, if that is
// one: then what a checkpoint has is copied into the instance, and neither .save nor .load is
// needed. Each hook is checked by the compiler. Those with a status may fail: what a run says then
// begins with the hook's name. The first two are required:
//
//     troupe_status setup(net *self, const net_config *config, troupe_use *use);
//     troupe_status forward(net *self, const troupe_tensor *x, troupe_tensor *y);
//
// setup is given a struct of zeros, and takes the instance's memory from `use`; the config lives as
// long. The elements of forward's result are the model's own until it is asked again, or of
// troupe_arena_alloc. Members that may follow:
//
//     .defaults     the config's, for what a user leaves out: troupe_defaults(net)
//     .input        of a row: what forward is given has that type and shape
//     .train_step, .validate_step
//                   troupe_status (net *, troupe_rank *me, const troupe_batch *batch): one step
//                   with this rank's rows of the batch, which may be none, where others have some:
//                   all ranks make equally many steps. So ranks may meet in it. troupe_note says
//                   what is measured. Gradients are the model's: it averages them over the ranks,
//                   so that all hold the same weights: by troupe_allreduce, or by gradients.h,
//                   opened in the first before_epoch, since setup has no rank
//     .before_setup as setup, before it
//     .before_epoch, .after_epoch
//                   troupe_status (net *, troupe_rank *me): me->epoch is the epoch. The second
//                   comes after the epoch's validation, and before its report. If it returns
//                   TROUPE_STOPPED on all ranks, the training is done with that report
//     .before_batch, .after_batch
//                   as train_step: around each training step
//     .preprocess, .postprocess
//                   as forward: of its input and of its result
//     .save         troupe_status (net *, net_state *state): points to what is to be kept; nothing
//                   is copied. Called on rank 0 for each checkpoint, and before a load on each
//                   rank: the shapes of what it gives then are compared
//     .load         troupe_status (net *, const net_state *state): copies what was kept into an
//                   instance that setup has made. Called on all ranks
//     .deinit       void (net *): ends what setup has begun, if that succeeded
//     .on_start, .on_shutdown
//                   troupe_status (troupe_group *, const net_config *): as of troupe_stages, in the
//                   driver: what a library that computes beside the ranks needs
//     .live, .allowed_options
//                   as of troupe_stages
//     .open_texts   members of the config, as "schedule, optimizer.name", that are texts and may be
//                   set by who submits a stored version over HTTP (stored.h), as numbers and flags
//                   may. No others: a text may be a path
//
// Its trainer has the same name, so that troupe_train(net, ...), troupe_submit, troupe_tune and
// troupe_best take it; there it can be trained if it has .train_step, and its config a member of
// type troupe_fitting. Its runs need .data with a set "train". For each epoch the loop calls
// before_epoch; before_batch, train_step, after_batch for each batch; validate_step for each batch
// of "valid", where it is due; after_epoch; and then reports, with a checkpoint if
// troupe_checkpoint_due says so, and at the end of the last epoch. Memory of troupe_arena_alloc is
// freed at each batch's end. A run that goes on does so with the step after that of its newest
// checkpoint, to the bit, as long as what a step does depends on the state, the batch and the
// config alone; a new run with .from begins there too, and .epochs counts what the checkpoint has
// done. A report's metrics are those that were noted since the last one, "epoch" (how many
// are done, with a fraction within one) and "data_wait_s" (seconds that steps waited for their
// batches, on the rank that waited longest). Its source is "train_step", or "validate_step" where
// it has metrics of that, too: what it notes as "loss" is "val_loss". All ranks validate all rows
// of "valid", unless its setup says TROUPE_SPLIT: the means are the same.
#define TROUPE_MODEL(...) TROUPE_MODEL_(__VA_ARGS__, .unused_ = 0)

// The config that a model's .defaults say: a value, to be changed and given to a run.
#define troupe_defaults(M) (troupe_model_hooks_##M.defaults)

// Makes a model known under its name; TROUPE_MODEL does it before main. Errors as those of
// troupe_class_register; TROUPE_INVALID also: .save or .load is missing although the struct is not
// its state, or its input is none.
TROUPE_EXPERIMENTAL troupe_status troupe_model_register(const troupe_model *model);

// The model of that name. NULL, with the error's text, which lists those that there are.
TROUPE_EXPERIMENTAL const troupe_model *troupe_model_find(const char *name);

// Sets *config to the model's defaults with what a JSON object has in their place, by name, also in
// records within: "{\"hidden\": 128, \"fitting\": {\"epochs\": 5}}"; NULL: the defaults alone.
// Texts and arrays belong to the thread's arena. TROUPE_NOT_FOUND: a member that the config lacks
// (the text lists those that it has); TROUPE_WRONG_TYPE, TROUPE_MALFORMED: the text says where.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_model_config_as(const troupe_model *model,
                                                                         const char *json,
                                                                         void *config);
#define troupe_model_config(M, json, config_)                                                      \
    troupe_model_config_as(&troupe_model_##M, (json), TROUPE_POINTER(troupe_config_##M, (config_)))

// What TROUPE_MODEL makes its trainer of: the stages of the library's loop, all but the two that
// are told which model it is, and these: .setup and .rank_setup.
TROUPE_EXPERIMENTAL void troupe_fit_stages(troupe_stages *stages);
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_fit_check(const troupe_model *model,
                                                                   troupe_setup *at,
                                                                   const void *config);
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_fit_begin(const troupe_model *model,
                                                                   troupe_rank *me,
                                                                   const void *config);

// ---- In a model's run ----

// Notes what a step has measured: `sum` over the rows of its batch that this rank has. The report
// has the mean over all rows of all ranks since the last one, however they were divided. In hooks
// around an epoch it is a single value. The name has 1 to 59 bytes, at most 28 of them are noted.
// Every name is noted by rank 0, too. The step fails if the value is no finite number: weights that
// are lost do not get into a checkpoint.
TROUPE_EXPERIMENTAL void troupe_note(troupe_rank *me, const char *name, double sum);
// The same where a row is not what is counted: `sum` over `count` tokens, say; the report has the
// sum of all sums by that of all counts.
TROUPE_EXPERIMENTAL void troupe_note_over(troupe_rank *me, const char *name, double sum,
                                          double count);

// Sets *mean to what the next report would have under that name ("loss", "val_loss"): a collective,
// which all ranks call alike, with the same result. In .after_epoch, for early stopping, say.
// TROUPE_NOT_FOUND: no rank has noted it since the last report; errors as those of
// troupe_allreduce.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_noted(troupe_rank *me, const char *name,
                                                               double *mean);

// ---- Outside a run ----

// A model that computes, with its weights. Used by one thread at a time.
typedef struct troupe_instance troupe_instance;

// Makes an instance from a checkpoint of the model's runs, and from nothing else: the checkpoint
// has the config, over which the JSON object is laid as by troupe_model_config (NULL: nothing).
// `checkpoint` is its folder, in which "~/" is the home; NULL: none, so that the instance is as
// setup leaves it, of the defaults. The caller owns *instance. Hooks are called in the order
// before_setup, setup, load. TROUPE_WRONG_TYPE: the checkpoint is another model's, or the config
// asks for weights of another shape (the text has the member of the config, the weights, and both
// shapes); what the hooks, troupe_model_config and troupe_checkpoint_load return.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_model_open_as(const troupe_model *model,
                                                                       const char *checkpoint,
                                                                       const char *json,
                                                                       troupe_instance **instance);
#define troupe_model_open(M, checkpoint, json, instance)                                           \
    troupe_model_open_as(&troupe_model_##M, (checkpoint), (json), (instance))

typedef struct troupe_forward_options {
    size_t size;         // sizeof(troupe_forward_options)
    bool no_postprocess; // The result is that of forward itself.
    int unused_;
} troupe_forward_options;

// *y becomes postprocess(forward(preprocess(x))), hooks that are missing left out; its first
// dimension is x's, as a rule. `x` is checked against the model's .input. The elements of *y are
// borrowed: from the instance until it is asked again, or from the thread's arena.
// TROUPE_WRONG_TYPE: the text has both shapes; what the hooks return.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_model_forward_with(troupe_instance *instance, const troupe_tensor *x, troupe_tensor *y,
                          const troupe_forward_options *how);
#define troupe_model_forward(...) TROUPE_MODEL_FORWARD_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_MODEL_FORWARD_(instance, x, y, ...)                                                 \
    troupe_model_forward_with(                                                                     \
        (instance), (x), (y),                                                                      \
        &(troupe_forward_options){.size = sizeof(troupe_forward_options), __VA_ARGS__})

// The model's own struct, and the config that it was made of: for what the hooks do not offer. Both
// live as long as the instance; NULL, with the error's text: it is of another model.
#define troupe_model_self(M, instance) ((M *)troupe_model_self_as(&troupe_model_##M, (instance)))
#define troupe_model_config_of(M, instance)                                                        \
    ((const troupe_config_##M *)troupe_model_config_of_as(&troupe_model_##M, (instance)))
TROUPE_EXPERIMENTAL void *troupe_model_self_as(const troupe_model *model,
                                               troupe_instance *instance);
TROUPE_EXPERIMENTAL const void *troupe_model_config_of_as(const troupe_model *model,
                                                          const troupe_instance *instance);

// Ends the instance, and clears *instance. Harmless on NULL.
TROUPE_EXPERIMENTAL void troupe_model_close(troupe_instance **instance);

TROUPE_END_C

#include <troupe/detail/model.h>

#endif
