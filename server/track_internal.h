// track_internal.h: what the parts of the process that sends share.
#ifndef TRP_SERVER_TRACK_INTERNAL_H
#define TRP_SERVER_TRACK_INTERNAL_H

#include <runtime/base/buffer.h>
#include <runtime/codec/json.h>
#include <server/track.h>
#include <train/job_end.h>

enum {
    TRACK_GIVE_UP_S = 24 * 3600, // From a job's end.
    TRACK_PAUSE_MS = 1000,       // Before an address is tried again: doubles,
    TRACK_PAUSE_MAX_MS = 300000, // up to this.
    TRACK_ADDRESSES_MAX = 64,    // Whose pauses are known.
};

// ---- track_address.c: when what may be tried

// How an attempt went.
typedef enum track_result {
    TRACK_SENT,
    TRACK_LATER,   // It is to be tried again,
    TRACK_REFUSED, // or not: said.
} track_result;

// Asks an address, unless it is in its pause: TRACK_LATER. Of an answer of success the reply is
// given (to be freed; NULL: not wanted), of another one its text is in the thread's last error, and
// *code is HTTP's; 0: none came.
track_result track_ask(const char *url, const char *token, const char *header, const char *body,
                       int *code, trp_buffer *reply);
// An answer that was refused is to be tried again all the same; the last error says why.
void track_put_off(const char *url);
// It has taken what it is for: its next pause is the shortest again.
void track_is_good(const char *url);
// When the first pause ends that did not before then, as trp_clock_ms; INT64_MAX: there is none.
int64_t track_next_ms(int64_t from_ms);
// What is under way is given up from then on, as trp_clock_ms, and pauses do not count.
void track_end_at(int64_t ms);

// ---- track_job.c: a job that something may be sent of

TROUPE_STRUCT(track_file, (int64_t, id), (troupe_text, submission), (troupe_text, name),
              (troupe_text, trainer), (troupe_text, program), (troupe_text, folder),
              (double, submitted_at));
// `tracked` in the job's folder. Of each "sent", or why not.
TROUPE_STRUCT(track_note, (troupe_text, webhook), (troupe_text, mlflow));

typedef struct track_run track_run;

typedef struct track_job {
    struct track_job *next;
    int64_t id;
    bool seen;
    char folder[512];
    bool loaded;
    trp_arena arena; // Of what follows.
    track_file file;
    trp_json config;
    const char *webhook; // The job's own; NULL.
    bool ended, webhook_done, mlflow_done;
    trp_job_end end;
    track_note note;
    track_run *run; // Of MLflow; NULL: not yet.
} track_job;

// Reads what was asked, once, and whether it has ended. TROUPE_NOT_FOUND: its folder has gone;
// others: it is damaged.
troupe_status track_job_look(track_job *job);
// Whether a process has it.
bool track_job_runs(const track_job *job);
void track_job_free(track_job *job);
// Notes what was sent. A power failure may lose it, and then it is sent again.
void track_job_keep(const track_job *job);
const char *track_state_of(const track_job *job);

// ---- track_webhook.c, track_mlflow.c: true: there is nothing more to send for now

// The metrics of a run's last report, as JSON; "{}": none.
void track_last_metrics(const char *run, trp_buffer *out);
bool track_webhook(track_job *job, const char *url);
bool track_mlflow(track_job *job, const trp_track_mlflow *how);
void track_run_free(track_run **run);

#endif
