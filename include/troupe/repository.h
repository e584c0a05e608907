// repository.h: a repository of models: weights by name, number and alias, in a folder that any
// number of programs use at once, without a server.
//
//     troupe_model_ref ref;
//     TROUPE_TRY(troupe_push(net, "digits", troupe_result_checkpoint(result), &ref,
//                            .metadata = "{\"by\": \"me\"}", .alias = "production"));
//     printf("%s\n", ref.text);                                        // digits@3
//
//     // In another program with the same code:
//     TROUPE_TRY(troupe_model_open_stored(net, "digits@production", NULL, &instance));
//
// A key is a model's name in the repository. A version of it is a number, which no other push ever
// gets; it never changes. An alias is a word for one version, and moves. A ref names a version:
// "digits@3", "digits@production", and the highest one: "digits" or "digits@latest". Keys and
// aliases have 1 to 100 bytes, all printable, without "/" and "@", and do not begin with a dot. An
// alias has another character than digits, and is not "latest".
//
// The folder is that of the option .repository, in which "~/" is the home, else of the environment
// variable TROUPE_MODELS, else $XDG_STATE_HOME/troupe/models, else ~/.local/state/troupe/models. It
// is made if need be, for its owner alone; who changes it must own it. The texts of all failures
// say what was wrong with which key, version or file: TROUPE_INVALID: a name that is none;
// TROUPE_NOT_FOUND lists the keys, versions and aliases that there are; TROUPE_CORRUPT: damaged
// files; TROUPE_BUSY: a process that is stopped keeps others from a change; TROUPE_NO_SPACE,
// TROUPE_IO, TROUPE_NO_MEMORY.
#ifndef TROUPE_REPOSITORY_H
#define TROUPE_REPOSITORY_H

#include <troupe/model.h>

TROUPE_BEGIN_C

enum { TROUPE_REPOSITORY_NAME_MAX = 100 };

// Names one version: "digits@3".
typedef struct troupe_model_ref {
    char text[TROUPE_REPOSITORY_NAME_MAX + 28];
} troupe_model_ref;

typedef struct troupe_push_options {
    size_t size;            // sizeof(troupe_push_options)
    const char *repository; // Its folder; NULL: see above.
    const char *metadata;   // A JSON object; NULL: the run's own.
    const char *alias;      // That names the version then, unless it names a higher one already.
    int unused_;
    // Keeps a copy of this program with the version, so that programs without the model's code can
    // train, tune and serve it (stored.h). The copy is run once by the push, with the arguments and
    // in the folder that this program was started with, up to its first troupe_start.
    bool keep_program;
    // With .keep_program: what the version is trained with later, as of troupe_submit; without
    // references. Default: nothing, so that it can be served alone.
    const troupe_data_given *data;
    void (*does_)(void); // Links what a kept program does beside training.
} troupe_push_options;
// Does nothing. A program that pushes is linked by it with what serves: a layer above this one.
TROUPE_EXPERIMENTAL void troupe_stored_serves_(void);

typedef struct troupe_repository_options {
    size_t size;            // sizeof(troupe_repository_options)
    const char *repository; // Its folder; NULL: see above.
    int unused_;
    // Of an import: also the program that the folder has (.keep_program of troupe_push), which is
    // started when the version is trained or served by its ref. Default: it is left out, since it
    // is anyone's.
    bool with_program;
} troupe_repository_options;

#define TROUPE_REPOSITORY_OPTIONS_(...)                                                            \
    (&(troupe_repository_options){.size = sizeof(troupe_repository_options), __VA_ARGS__})

// ---- Putting in and getting out

// Stores a checkpoint of the model's runs as a new version of the key, and sets *ref to it (NULL:
// not wanted). `checkpoint` is as of troupe_model_open. Before anything is stored the model is
// checked: an instance is made of the checkpoint, and forward is called with one row of zeros of
// the model's .input, dimensions of any size being 1; a model that has no .input is not asked, and
// one that has such dimensions may want other sizes (TROUPE_WRONG_TYPE). What else fails there is
// returned with its text. On TROUPE_OK the version is on disk. Errors also as those of
// troupe_model_open; TROUPE_INVALID: metadata that are no JSON object. TROUPE_UNSUPPORTED:
// .keep_program, and the program was not started exactly once, or the model is no part of it. If
// the alias alone cannot be set, the version is there nevertheless.
//     troupe_push(net, "digits", checkpoint, &ref, .alias = "production")
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_push_as(const troupe_model *model,
                                                                 const char *key,
                                                                 const char *checkpoint,
                                                                 troupe_model_ref *ref,
                                                                 const troupe_push_options *how);
#define troupe_push(...) TROUPE_PUSH_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_PUSH_(M, key, checkpoint, ref, ...)                                                 \
    troupe_push_as(&troupe_model_##M, (key), (checkpoint), (ref),                                  \
                   &(troupe_push_options){.size = sizeof(troupe_push_options),                     \
                                          .does_ = troupe_stored_serves_,                          \
                                          __VA_ARGS__})

// As troupe_model_open, of a version. A function of its own, since a ref is a name and not a path:
// a folder of that name changes nothing. TROUPE_WRONG_TYPE also: the version is of another model,
// or of a model whose state has other members. `model` NULL, of the function: the model of the
// version's own name, which the program must have: TROUPE_NOT_FOUND lists those that it has.
//     troupe_model_open_stored(net, "digits@3", NULL, &instance, .repository = folder)
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_model_open_stored_as(const troupe_model *model, const char *ref, const char *json,
                            troupe_instance **instance, const troupe_repository_options *how);
#define troupe_model_open_stored(...) TROUPE_OPEN_STORED_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_OPEN_STORED_(M, ref, json, instance, ...)                                           \
    troupe_model_open_stored_as(&troupe_model_##M, (ref), (json), (instance),                      \
                                TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// Has each push of this program ask for a note, which is kept with the version under that name as
// it is: where a model comes from, what may be done with it. `says` gives a text of the thread's
// arena (troupe_arena_text), or leaves *text NULL where there is nothing to say of that model; what
// fails fails the push. Before the first push, as in a constructor; the name stays as it is. At
// most 16. TROUPE_INVALID, TROUPE_EXISTS, TROUPE_TOO_LARGE: there are as many already.
typedef troupe_status (*troupe_push_says)(const troupe_model *model, const char **text);
TROUPE_EXPERIMENTAL troupe_status troupe_push_note_register(const char *name,
                                                            troupe_push_says says);

// ---- Looking

// A file of a version.
typedef struct troupe_version_file {
    const char *name;
    uint64_t size;
    uint64_t xxh64; // Of all bytes, seed 0.
} troupe_version_file;

// What is said of a model beside it (troupe_push_note_register).
typedef struct troupe_version_note {
    const char *name, *text;
} troupe_version_note;

// What a version says of itself. What is not known is NULL, and 0.
typedef struct troupe_version_info {
    const char *key;
    int64_t version;
    const char *path;    // Its folder, which is a checkpoint too (troupe_checkpoint_open).
    const char *problem; // Why it cannot be read: then the rest is not known, but for its aliases.
    const char *model;
    const char *pushed; // UTC, as in 2026-01-31T12:00:00.000Z.
    const char *config_type, *state_type;
    uint64_t config_schema, state_schema;
    const char *config, *metadata; // JSON.
    const troupe_metric *metrics;  // Of rank 0, of the checkpoint's report.
    size_t metric_count;
    const char *const *aliases; // Sorted.
    size_t alias_count;
    const troupe_version_file *files;
    size_t file_count;
    // Where it comes from.
    const char *pushed_as; // Its ref when it was pushed, which an import leaves as it was.
    const char *program;   // That pushed it, and its build-id in hexadecimal.
    const char *build_id;
    const char *run;              // The folder of the run, as it was then.
    int64_t checkpoint;           // The number of the checkpoint in it,
    const char *committed;        // and when that was made.
    int report, world;            // The report that it was committed with; the run's ranks.
    const char *data;             // The name of the run's data,
    const char *const *data_keys; // and of their sets.
    size_t data_key_count;
    const troupe_version_note *notes;
    size_t note_count;
    uint64_t kept_program_bytes; // Of the program that does its work by its ref; 0: there is none.
} troupe_version_info;

// Sets *keys to those that have a version, sorted. The texts belong to the thread's arena.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_repository_keys_with(troupe_array_troupe_text *keys, const troupe_repository_options *how);
#define troupe_repository_keys(...) TROUPE_REPOSITORY_KEYS_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_KEYS_(keys, ...)                                                         \
    troupe_repository_keys_with((keys), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

typedef struct troupe_versions {
    const troupe_version_info *const *items; // The oldest first.
    size_t count;
} troupe_versions;

// Sets *versions to all of the key, damaged ones included. All that it points to belongs to the
// thread's arena.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_repository_list_with(
    const char *key, troupe_versions *versions, const troupe_repository_options *how);
#define troupe_repository_list(...) TROUPE_REPOSITORY_LIST_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_LIST_(key, versions, ...)                                                \
    troupe_repository_list_with((key), (versions), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// Sets *info, which has `size` bytes, to what the version says of itself; the model's code is not
// needed. All that it points to belongs to the thread's arena.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_repository_describe_with(
    const char *ref, troupe_version_info *info, size_t size, const troupe_repository_options *how);
#define troupe_repository_describe(...) TROUPE_REPOSITORY_DESCRIBE_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_DESCRIBE_(ref, info, ...)                                                \
    troupe_repository_describe_with((ref), (info), sizeof(troupe_version_info),                    \
                                    TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// ---- Changing

// Has the alias name the version of the ref, whatever it named before.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_repository_alias_with(
    const char *ref, const char *alias, const troupe_repository_options *how);
#define troupe_repository_alias(...) TROUPE_REPOSITORY_ALIAS_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_ALIAS_(ref, alias, ...)                                                  \
    troupe_repository_alias_with((ref), (alias), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// Removes the alias; what it named stays.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_repository_alias_remove_with(
    const char *key, const char *alias, const troupe_repository_options *how);
#define troupe_repository_alias_remove(...)                                                        \
    TROUPE_REPOSITORY_ALIAS_REMOVE_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_ALIAS_REMOVE_(key, alias, ...)                                           \
    troupe_repository_alias_remove_with((key), (alias), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// Deletes one version, which the ref says by its number. Its number is not used again.
// TROUPE_INVALID: the ref is no number, or an alias names the version (the text has it).
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_repository_delete_with(const char *ref, const troupe_repository_options *how);
#define troupe_repository_delete(...) TROUPE_REPOSITORY_DELETE_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_DELETE_(ref, ...)                                                        \
    troupe_repository_delete_with((ref), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// Deletes all versions and aliases of the key, which is not listed then. Later pushes go on with
// the numbers.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_repository_delete_key_with(const char *key, const troupe_repository_options *how);
#define troupe_repository_delete_key(...) TROUPE_REPOSITORY_DELETE_KEY_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_DELETE_KEY_(key, ...)                                                    \
    troupe_repository_delete_key_with((key), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// Removes what pushes and deletions have left that were killed, and sets *removed to how many
// versions were begun so. What a living process is about to push stays.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_repository_gc_with(size_t *removed, const troupe_repository_options *how);
#define troupe_repository_gc(...) TROUPE_REPOSITORY_GC_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_GC_(removed, ...)                                                        \
    troupe_repository_gc_with((removed), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// ---- From one repository to another

// Copies a version into the new folder, which is then a checkpoint too, with its program if it has
// one. TROUPE_EXISTS: something is
// there. On failure nothing is.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_repository_export_with(
    const char *ref, const char *folder, const troupe_repository_options *how);
#define troupe_repository_export(...) TROUPE_REPOSITORY_EXPORT_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_EXPORT_(ref, folder, ...)                                                \
    troupe_repository_export_with((ref), (folder), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

// Makes what was exported a new version of the key, with all that it says of itself, and sets *ref
// to it (NULL: not wanted). The model's code is not needed, nor is the model checked again.
// TROUPE_WRONG_TYPE: the folder is a checkpoint that was never pushed, or has more than plain
// files.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_repository_import_with(const char *folder, const char *key, troupe_model_ref *ref,
                              const troupe_repository_options *how);
#define troupe_repository_import(...) TROUPE_REPOSITORY_IMPORT_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_REPOSITORY_IMPORT_(folder, key, ref, ...)                                           \
    troupe_repository_import_with((folder), (key), (ref), TROUPE_REPOSITORY_OPTIONS_(__VA_ARGS__))

TROUPE_END_C

#endif
