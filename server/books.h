// books.h: what the server has promised, in a database: jobs, what is wished of them, what was
// granted to their attempts (docs/internals/server/server.md).
//
// Everything is read when the books are opened, and afterwards only written: the rows in memory are
// what answers are made of. A transaction has all that has changed in a turn of the server.
#ifndef TRP_SERVER_BOOKS_H
#define TRP_SERVER_BOOKS_H

#include <stdbool.h>
#include <train/wire.h>

typedef struct trp_books trp_books;

// What was wished of a live member, as JSON.
typedef struct trp_row_live {
    char *member, *value;
    int64_t revision;
} trp_row_live;

// A job. Texts are the row's own.
typedef struct trp_row {
    int64_t id;
    char *submission, *key, *spec_hash, *name, *trainer, *program, *run; // NULL: it has no key.
    trp_wire_need need;                                                  // Its text too.
    bool beyond;                      // Queued though it can never start.
    int state;                        // TRP_JOB_QUEUED, _STARTING (it has a grant), _ENDED.
    int attempt;                      // The last one that has had a grant; 0: none has.
    int counted, restarts, uncounted; // Attempts lost that count; what runners said of their own
                                      // restarts; attempts lost in a row that do not count.
    double submitted_at, ended_at;
    double elapsed_s;    // That attempts have taken which are over, of the time limit.
    int status, reports; // Of an ended one,
    bool stopped;
    char *error; // NULL: none.
    bool paused; // Waits until it is to go on.
    // What is wished.
    int64_t revision; // 0: nothing was yet.
    bool stop, stop_next, pause;
    int ranks, resizes, kill;
    int more;  // Ranks beyond the grant, which another attempt would have; 0: none.
    char *why; // Of a kill, or of a pause that the server made.
    trp_row_live *live;
    int live_count;
    // The attempt's grant.
    int granted_ranks;
    double cpus, gpus, granted_at;
    char *gpu_ids;        // NULL: none.
    troupe_bytes devices; // Of each rank the mask of its GPUs.
    bool grown;           // Of more ranks than the attempt has: they are the next one's.
    bool greeted;         // Its runner has been heard.
    char *boot_id;
} trp_row;

// Frees what the row has, and zeroes it.
void trp_row_clear(trp_row *row);
// Replaces a text of a row; NULL is none. TROUPE_NO_MEMORY.
troupe_status trp_row_set(char **text, const char *value);

// Opens the books in the state folder. *fresh: there were none, or none whole: what the folders of
// jobs say is to be put into them, with trp_books_settle in the same transaction. Books that are
// damaged are moved aside, and *moved (trp_free) is where to; else NULL. TROUPE_VERSION: made by a
// later library, or by another program; TROUPE_NO_SPACE, TROUPE_IO, TROUPE_NO_MEMORY.
troupe_status trp_books_open(const char *folder, trp_books **books, bool *fresh, char **moved);
void trp_books_close(trp_books *books);

// A random name of these books, which the folders of their jobs have too.
const char *trp_books_name(const trp_books *books);
// Calls `visit` for each job, by number; it owns the row. TROUPE_CORRUPT, TROUPE_IO,
// TROUPE_NO_MEMORY; or what `visit` returned.
troupe_status trp_books_load(trp_books *books, troupe_status (*visit)(void *user, trp_row *row),
                             void *user);
// The number for the next job: higher than all that were ever given.
troupe_status trp_books_next(trp_books *books, int64_t *id);

// What a submission, or a key (NULL: not asked), of a job that was removed was: its number; 0:
// there is none.
troupe_status trp_books_gone(trp_books *books, const char *submission, const char *key,
                             int64_t *id);

// What the folder of a job is made of, and whether that of its run was claimed for it.
typedef struct trp_papers {
    troupe_bytes spec, launch, json; // Files there.
    bool claims;
} trp_papers;
// Calls `visit` for each job whose papers were kept before this boot: what is in its folder may not
// have lasted. Of one that has ended there is no launch record. As trp_books_load.
troupe_status trp_books_each_papers(trp_books *books, const char *boot_id,
                                    troupe_status (*visit)(void *user, int64_t id,
                                                           const trp_papers *papers),
                                    void *user);

// A transaction. Each of the writes may fail with TROUPE_NO_SPACE, after which all of it is rolled
// back, and anything else, after which the server has to end: TROUPE_IO, TROUPE_CORRUPT.
// `lasts`: also over a failure of the power.
troupe_status trp_books_begin(trp_books *books, bool lasts);
troupe_status trp_books_put(trp_books *books, const trp_row *row);
// Keeps papers of a job, whose folder has them already, but may not over a failure of the power.
troupe_status trp_books_keep_papers(trp_books *books, int64_t id, const trp_papers *papers,
                                    const char *boot_id);
// Its folder has them for good.
troupe_status trp_books_drop_papers(trp_books *books, int64_t id);
// It has ended: the launch record, which has an environment, is wiped out.
troupe_status trp_books_drop_launch(trp_books *books, int64_t id);
// Removes a job; that it was there is kept.
troupe_status trp_books_remove(trp_books *books, const trp_row *row);
// Keys of jobs that were removed are free.
troupe_status trp_books_free_keys(trp_books *books);
troupe_status trp_books_settle(trp_books *books);
troupe_status trp_books_commit(trp_books *books);

// What was deleted is then in no file of the database. TROUPE_NO_SPACE: later.
troupe_status trp_books_wipe(trp_books *books);
void trp_books_undo(trp_books *books);

#endif
