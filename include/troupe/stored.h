// stored.h: models by their refs alone: training, tuning and serving a version of the repository in
// a program that lacks the model's code. The program that pushed the version, of which it keeps a
// copy (.keep_program of troupe_push), is started and does the work.
//
//     troupe_job *job;
//     TROUPE_TRY(troupe_submit_stored("digits@production", "{\"rate\": 0.05}", NULL, &job,
//                                     .train = TROUPE_OPTIONS(troupe_train_options, .ranks = 2)));
//     TROUPE_TRY(troupe_job_wait(job, -1, &result)); // As of any job.
//     troupe_job_close(&job);
//
// The stored program runs with the arguments and in the folder that it had when it pushed, and with
// the environment of this process, up to its first troupe_start, which does not return. Settings
// are JSON: they are laid over the version's config, which lies over the model's defaults. Texts of
// failures are of one sentence that names the version. TROUPE_NOT_FOUND: no such version, the text
// lists those that there are; or a member that the config lacks, the text lists its members;
// TROUPE_WRONG_TYPE, TROUPE_MALFORMED: the JSON; TROUPE_UNSUPPORTED: the version has no program;
// TROUPE_CORRUPT: its program is damaged; TROUPE_INVALID: others may change it, or the repository;
// TROUPE_IO, TROUPE_TIMED_OUT: it ends before its troupe_start, or does not come there in 30 s; or
// it ends or hangs later, and the text says that a train server may have taken the job, as one with
// a .key that is submitted again would show; TROUPE_VERSION: its library is too old to be asked.
#ifndef TROUPE_STORED_H
#define TROUPE_STORED_H

#include <troupe/repository.h>
#include <troupe/train.h>

TROUPE_BEGIN_C

typedef struct troupe_stored_options {
    size_t size;            // sizeof(troupe_stored_options)
    const char *repository; // Its folder; NULL: as of repository.h.
    // As of troupe_submit, but for .data and .gate, which are the stored program's and nobody's.
    // .from is another checkpoint to begin with. NULL: the defaults.
    const troupe_train_options *train;
    // The run begins with the weights of the version, and where that was: of its epochs those that
    // are done count. Default: it begins anew, as setup leaves the model.
    bool from_version;
    // JSON, laid over the source of the data that the version was pushed with. NULL: nothing.
    const char *data;
    int unused_;
} troupe_stored_options;

// Submits a training of the version, with the settings in `json` (NULL: its own). It is a job of
// the train server that option .train's .server leads to, as of troupe_submit; without one, of a
// child process, which ends with this one. The follower (NULL: none) and the handle are as of
// troupe_submit; what was committed in memory is not to be had, and .key needs a server. Errors
// also as those of troupe_submit.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_submit_stored_with(const char *ref, const char *json, const troupe_follower *follower,
                          troupe_job **job, const troupe_stored_options *how);
#define troupe_submit_stored(...) TROUPE_SUBMIT_STORED_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SUBMIT_STORED_(ref, json, follower, job, ...)                                       \
    troupe_submit_stored_with(                                                                     \
        (ref), (json), (follower), (job),                                                          \
        &(troupe_stored_options){.size = sizeof(troupe_stored_options), __VA_ARGS__})

TROUPE_END_C

#endif
