// track.h: what tells others of jobs, a webhook and an MLflow tracking server, as the train server
// and its commands see it (docs/internals/server/trackers.md).
#ifndef TRP_SERVER_TRACK_H
#define TRP_SERVER_TRACK_H

#include <runtime/base/arena.h>
#include <troupe/status.h>
#include <troupe/wire.h>

// The file trackers.json of the state folder. `since`: jobs that had ended before are not sent.
TROUPE_STRUCT(trp_track_webhook, (troupe_text, url), (double, since));
TROUPE_STRUCT(trp_track_mlflow, (troupe_text, url), (troupe_text, experiment), (troupe_text, token),
              (double, since));
TROUPE_STRUCT(trp_track_how, (trp_track_webhook, webhook), (trp_track_mlflow, mlflow));

// Reads it; where there is none, nothing is configured: TROUPE_OK, with URLs that are NULL. Texts
// are the arena's. TROUPE_MALFORMED, TROUPE_WRONG_TYPE, TROUPE_INVALID: a URL that is none;
// TROUPE_IO.
troupe_status trp_track_read(const char *state, trp_arena *arena, trp_track_how *how);
// Changes what is given, and writes it: NULL: as it was, "none": not any more. As trp_track_read.
troupe_status trp_track_change(const char *state, const char *webhook, const char *mlflow,
                               const char *experiment);

// A job that has a webhook of its own was taken on: a file in the state folder says so, for the
// next server.
void trp_track_note_own(const char *state);
// Whether there may be something to send: jobs that end, and (*runs) such that run.
bool trp_track_is_wanted(const char *state, bool *runs);

#endif
