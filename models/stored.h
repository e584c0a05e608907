// stored.h: the programs that the repository keeps: kept by a push, started by who asks for
// something, and what they do then. See docs/internals/models/stored.md.
#ifndef TRP_MODELS_STORED_H
#define TRP_MODELS_STORED_H

#include <models/repository.h>
#include <train/child.h>
#include <train/option_table.h>

#define TRP_STORED_PROGRAM "program" // In the folder of a version.
// Until its main has come to troupe_start; and until it has done then what it was asked for: it may
// wait for the train server.
enum { TRP_STORED_START_MS = 30000, TRP_STORED_DO_MS = 90000 };
// Of requests. 2: what is asked says first that it has begun.
enum { TRP_STORED_VERSION = 2 };

// ---- said

TROUPE_STRUCT(trp_stored_request, (int, version), (troupe_text, action),
              (troupe_text, ref),        // "digits@3"; NULL: of none yet.
              (troupe_text, folder),     // Of the version; of a check: the checkpoint.
              (troupe_text, arguments)); // JSON, of the action.
TROUPE_STRUCT(trp_stored_answer, (int, status), (troupe_text, text), (int64_t, job),
              (troupe_text, path), (int64_t, journal), // Of a run, or a socket.
              (troupe_text, url), (troupe_text, token),
              (bool, begun)); // It has come to troupe_start, and answers later. Since version 2.

// Of the action "submit".
TROUPE_STRUCT(trp_stored_submission, (troupe_text, config), (troupe_text, data),
              (bool, from_version),
              (bool, open_alone), // Only what may be set by anyone, over HTTP.
              (trp_packed_options, options));

// ---- stored_keep.c

// What is asked of a push beside its model: a copy of the program, and what it trains with.
// TROUPE_UNSUPPORTED: this program could not be started again; TROUPE_INVALID: `data`.
troupe_status trp_stored_check(const troupe_model *model);
// Copies this program into the folder of a version, synced, and says in the record what it is.
troupe_status trp_stored_keep(const char *folder, const troupe_data_given *data, trp_arena *arena,
                              trp_push_program *record);
// Copies the program of a version that is exported, or imported with it. TROUPE_CORRUPT.
troupe_status trp_stored_copy(const char *from, const trp_push_program *record, const char *to);
// That the folder of a version has the program that its record says. TROUPE_UNSUPPORTED: none was
// kept, or it was left out; TROUPE_CORRUPT; TROUPE_INVALID: others may change it.
troupe_status trp_stored_verify(const char *folder, const char *ref,
                                const trp_push_program *record);

// ---- stored_ask.c

// A version whose program is to be started.
typedef struct trp_stored_of {
    char ref[TRP_NAME_SIZE + 32]; // As it is named in texts.
    const char *folder;           // Of the version.
    const trp_push_program *record;
    const char *server; // The state folder of the train server that it has to use; NULL: none.
} trp_stored_of;

// Starts the program and has it do what is asked. On TROUPE_OK it may still run: trp_child_end, or
// trp_child_open. What it answers, a failure too, is returned with its text. TROUPE_IO: it has
// ended without an answer; TROUPE_TIMED_OUT. Then the train server may have taken a job.
troupe_status trp_stored_ask(const trp_stored_of *of, const trp_stored_request *request,
                             trp_arena *arena, trp_stored_answer *answer,
                             trp_child_process *process);

// A version and its record.
typedef struct trp_stored_version {
    trp_version version;
    trp_manifest manifest;
    trp_push_record record;
    trp_stored_of of;
} trp_stored_version;
// Finds a version, whose program is whole.
troupe_status trp_stored_find(const char *repository, const char *ref, trp_arena *arena,
                              trp_stored_version *found);

// ---- stored_mode.c

// What a stored program can be asked to do, by the name of the action. It may stay: then it answers
// by trp_stored_answer_now first, and what it returns is not told.
typedef troupe_status (*trp_stored_action)(int fd, const trp_stored_request *request,
                                           trp_arena *arena, trp_stored_answer *answer);
// By constructors, before main. The name stays.
void trp_stored_can(const char *action, trp_stored_action does);
troupe_status trp_stored_answer_now(int fd, const trp_stored_answer *answer);
// Whether this process was started to be asked.
bool trp_stored_is_asked(void);
// Reads the arguments of an action.
troupe_status trp_stored_arguments(const trp_stored_request *request, const troupe_type *type,
                                   trp_arena *arena, void *arguments);

// ---- push.c

// That the checkpoint can be opened by the model, and asked.
troupe_status trp_push_check(const troupe_model *model, const char *checkpoint);

// ---- stored_submit.c

// Has the program of a version submit a job; what it answered, and the process, which goes on where
// the answer names no job. With a server it names one. TROUPE_UNSUPPORTED: the program has done it
// itself all the same, and was killed.
troupe_status trp_stored_submit(const trp_stored_version *version,
                                const trp_stored_submission *submission, trp_arena *arena,
                                trp_stored_answer *answer, trp_child_process *process);

// ---- stored_train.c

// What is below a stored version's settings, for other actions: its model, and its config below
// what is asked.
troupe_status trp_stored_config(const trp_stored_request *request, const char *json,
                                bool open_alone, trp_arena *arena, const troupe_model **model,
                                void **config);
// The data that its runs are trained with, in the arena; *data NULL: none was kept.
troupe_status trp_stored_data(const trp_stored_request *request, const char *json, trp_arena *arena,
                              troupe_data_given **data);

#endif
