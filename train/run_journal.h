// run_journal.h: journal.jsonl of a run: what happened, a JSON object a line.
//
//     {"event": "open", "epoch": 2, "at": "...", "process": 4711}
//     {"event": "state", "state": "RUNNING"}
//     {"event": "resize", "ranks": 4}
//     {"event": "attempt", "attempt": 3, "report": 40, "at": "...", "elapsed_s": 1.4,
//      "pids": [4720, 4721], "cause": {"rank": 1, "status": "PEER_LOST", "text": "..."},
//      "memory": false, "replaced": [1], "checkpoint": "checkpoint_000007"}
//     {"event": "report", "report": 41, "attempt": 3, "elapsed_s": 1.5, "metrics": {"loss": 0.5},
//      "checkpoint": null}
//     {"event": "report", "report": 42, ..., "source": "validate", "metrics": {"loss": 0.5},
//      "ranks": [{"loss": 0.5}, {"loss": 0.25}], ...}
//     {"event": "commit", "report": 41, "elapsed_s": 1.6, "metrics": {"loss": 0.5},
//      "checkpoint": "checkpoint_000008"}
//     {"event": "no_commit", "report": 42}
//     {"event": "modify", "revision": 1, "member": "rate", "value": 0.05, "wish": 7}
//     {"event": "live", "revision": 1, "report": 41}
//     {"event": "end", "status": "OK", "stopped": false}
//
// `cause` is why the attempt before ended, where the same driver began another; its rank is -1
// where it was none's. `replaced` are the ranks that got a new process; `memory`: it goes on from a
// commit in memory.
//
// A report has a source where the loop gave one, the metrics of each rank with .rank_metrics, and
// "saving": true where a line `commit` or `no_commit` of it follows, unless the attempt ends
// before.
//
// `modify` is a wish, put down before troupe_job_modify returns; its number at the train server,
// where it was wished there. `live` says with which report all
// that was wished up to that revision took effect, also when a group begins with it.
//
// One writer, the run's driver, any of whose threads may add a line. A line is one write(2); one
// that could not be written whole is taken away again. What cannot be written is told once, and
// ends no run.
#ifndef TRP_RUN_JOURNAL_H
#define TRP_RUN_JOURNAL_H

#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/base/buffer.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <train/run_file.h>
#include <troupe/train.h>

// The last wish of one member.
typedef struct trp_run_wish {
    struct trp_run_wish *next;
    int64_t revision;
    const char *member;
    const char *value; // JSON.
} trp_run_wish;

// What earlier openings of a run have left in its journal.
typedef struct trp_run_history {
    int64_t epoch;                // Of the last opening; 0: none.
    int attempts;                 // Numbers that attempts have used up.
    int reports;                  // The highest report.
    double elapsed_s;             // At it.
    int64_t next_id;              // Of checkpoints.
    const troupe_metric *metrics; // Of that report, in the arena given.
    size_t metric_count;
    int64_t revision;     // Of the newest wish; 0: none.
    int64_t wish;         // The highest number of one of the train server; 0: none.
    trp_run_wish *wishes; // In the arena given.
} trp_run_history;

typedef struct trp_run_journal {
    pthread_mutex_t lock; // Of who adds lines, or closes it.
    int fd;               // -1: not open. Under the lock, as are the next two.
    off_t size;
    bool torn; // The last line could not be taken away: the next begins a line of its own.
    bool told; // That it cannot be written.
    // Of a run elsewhere, else NULL: where its journal is, and how much of it.
    const char *stored_at;
    off_t stored;
} trp_run_journal;

// A line lies at [start, end) in the run's journal; none, since it could not be written: the two
// are equal.
typedef struct trp_lines {
    off_t start, end;
} trp_lines;

// A group that was started.
typedef struct trp_attempt_event {
    int attempt;
    int report;             // The last one that it need not make.
    const char *checkpoint; // That it goes on from; NULL: none.
    double elapsed_s;       // That the run has taken.
    bool memory;            // It goes on from a commit in memory instead.
    const int *pids;        // Of its ranks; NULL: not known.
    const bool *kept;       // Which of these were of the last attempt, too; NULL: not known.
    int ranks;
    const char *cause; // Why the one before ended; NULL: there was none in this opening.
    int cause_rank;
    troupe_status cause_status;
} trp_attempt_event;

// Opens the run's journal, made if need be, and reads what is there; a last line without its end is
// cut off. Of a run elsewhere a copy is made in its working folder `local`, and what is added to
// that is added there too. TROUPE_IO, TROUPE_NO_SPACE, TROUPE_NO_MEMORY.
troupe_status trp_run_journal_open(const char *run, const char *local, trp_arena *arena,
                                   trp_run_history *history, trp_run_journal *journal);
// One that is not open.
trp_run_journal trp_run_journal_none(void);
bool trp_run_journal_is_open(trp_run_journal *journal);
// Adds a line, with its newline at its end.
trp_lines trp_run_journal_add(trp_run_journal *journal, const trp_buffer *line);
// Where the next line will lie.
off_t trp_run_journal_end_at(trp_run_journal *journal);
void trp_run_journal_sync(trp_run_journal *journal);
void trp_run_journal_close(trp_run_journal *journal);

// The lines.
void trp_run_journal_opened(trp_run_journal *journal, int64_t epoch);
trp_lines trp_run_journal_state(trp_run_journal *journal, troupe_job_state state);
// The state of that name in a line; RUNNING, where it is not known.
troupe_job_state trp_run_journal_state_of(const char *name);
// That the next group is to have so many ranks.
void trp_run_journal_resize(trp_run_journal *journal, int ranks);
void trp_run_journal_attempt(trp_run_journal *journal, const trp_attempt_event *event);
// `saving`: files for its checkpoint are being written. A line `commit`, `no_commit`, of a later
// one's commit or of the end says what became of it.
trp_lines trp_run_journal_report(trp_run_journal *journal, const troupe_report_event *event,
                                 int attempt, bool saving);
trp_lines trp_run_journal_commit(trp_run_journal *journal, const troupe_checkpoint_event *event);
void trp_run_journal_no_commit(trp_run_journal *journal, int report);
// False: it could not be written. `value` is JSON; `wish` 0: it is not the train server's.
bool trp_run_journal_modify(trp_run_journal *journal, uint32_t revision, const char *member,
                            const trp_buffer *value, int64_t wish);
trp_lines trp_run_journal_live(trp_run_journal *journal, uint32_t revision, int report);
void trp_run_journal_end(trp_run_journal *journal, troupe_status status, bool stopped);
// The same with all that run_file.h's `end` says. False: it was not written.
bool trp_run_journal_end_whole(trp_run_journal *journal, const trp_end_file *end);
// The text of a report's line.
void trp_run_journal_report_line(const troupe_report_event *event, int attempt, bool saving,
                                 trp_buffer *out);

#endif
