// run.h: runs by their folders, whoever runs them or ran them: what a run was and how it ended, a
// page of it, what a killed one left. All of it works without a runtime.
//
//     troupe_run_info info;
//     TROUPE_TRY(troupe_run_info_get("runs/digits", &info));
//     printf("%s: %s\n", info.trainer, info.ended ? troupe_status_name(info.status) : "no end");
#ifndef TROUPE_RUN_H
#define TROUPE_RUN_H

#include <troupe/wire.h>

TROUPE_BEGIN_C

// Whether `folder` is that of a run that TROUPE_OPEN_RESUME can open: it has a run.json that this
// library reads. Any other answer is false.
TROUPE_EXPERIMENTAL bool troupe_can_resume(const char *folder);

// What the files of a run say of it. What is not known is NULL, and 0.
typedef struct troupe_run_info {
    const char *trainer;           // Its name,
    const char *program;           // and that of the program's file.
    const char *created;           // UTC, as in 2026-01-31T12:00:00.000Z.
    const char *config;            // JSON, as the run was made with,
    const char *modified;          // and the members that were modified since, with their values.
    const char *metadata;          // JSON.
    bool ended;                    // Else it runs, waits or was cut off; what follows is not known.
    bool stopped;                  // As troupe_result_stopped, and so on.
    troupe_status status;          // How it ended,
    const char *error;             // and why, where it failed; "": it did not.
    const char *at;                // UTC.
    int reports, restarts;         // Of all openings.
    double elapsed_s;              // Those of earlier openings included.
    const char *checkpoint, *best; // Their folders.
} troupe_run_info;

// Sets *info, which has `size` bytes, to what the run in the folder, in which "~/" is the home, was
// asked for and came to. All that it points to belongs to the thread's arena. TROUPE_NOT_FOUND:
// that is no run's folder; TROUPE_CORRUPT, TROUPE_VERSION (made by a later library) and TROUPE_IO
// name the file; TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_run_info_get(const char *folder,
                                                                      troupe_run_info *info,
                                                                      size_t size);
#define troupe_run_info_get(folder, info)                                                          \
    troupe_run_info_get((folder), (info), sizeof(troupe_run_info))

struct troupe_follower;
struct troupe_result;

// What a run that nobody runs has left in its folder. What is not there is NULL, and 0.
typedef struct troupe_run_left {
    const char *config; // JSON, as the run was made with.
    const char *from;   // The last parts of the path of the checkpoint that it was begun with.
    bool ended;         // It has told how: that is the result.
    bool paused;        // It was, when its driver ended.
    bool saving;        // A checkpoint of its newest report was being written, and is not there.
    int reports;        // The highest that was made,
    int saved;          // and that of the newest checkpoint,
    const char *checkpoint;       // whose folder is this.
    struct troupe_result *result; // As far as it came, or how it ended. The caller's
                                  // (troupe_result_free).
} troupe_run_left;

// Sets *left, which has `size` bytes, to what the run in the folder, in local files, has left, for
// who is to open it next: nothing is changed, and no lock is taken. `follower` (NULL: none) is told
// of each report and each commit in the run's journal, in their order, with NULL for the job,
// before this returns. Of a run that has ended, and without a follower, the end of the journal is
// looked at alone: `saved` and `paused` are not known then. Texts belong to the thread's arena.
// TROUPE_NOT_FOUND: that is no run's folder; TROUPE_CORRUPT, TROUPE_VERSION and TROUPE_IO name the
// file; TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_run_left_get(
    const char *folder, const struct troupe_follower *follower, troupe_run_left *left, size_t size);
#define troupe_run_left_get(folder, follower, left)                                                \
    troupe_run_left_get((folder), (follower), (left), sizeof(troupe_run_left))

// Removes what a run, in local files, has left half done whose driver was killed: checkpoints that
// were not committed, files that were being made. What was committed stays. A run that is opened
// again, or made anew under the name, does so by itself. TROUPE_BUSY: the run has a driver, or
// ranks that still run; TROUPE_NOT_FOUND: there is no run; TROUPE_UNSUPPORTED, TROUPE_IO.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_run_clean(const char *folder);

// Writes an HTML page of what a run has done to `file` (NULL: report.html in its folder): its
// metrics as curves, its attempts, restarts and checkpoints, its settings, and how it ended. The
// page needs no other file and no network; its links to files of the run are relative. `folder` is
// the run's, in which "~/" is the home. The run may be running, in any process, or have been
// killed; lines of its journal that are damaged are left out and counted in the page.
// TROUPE_NOT_FOUND: that is no run's folder; TROUPE_IO and TROUPE_NO_SPACE name the file that could
// not be written; TROUPE_NO_MEMORY.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_run_report(const char *folder,
                                                                    const char *file);

TROUPE_END_C

#endif
