// verdicts.h: the file `gate` in the folder of a train server's job: what the job's gate has
// answered, a JSON object a line. Clients add lines, each by one write; the runner and later
// clients read them. So an answer lasts, whoever dies behind it.
//
//     {"report": 9, "answer": "STOP", "ranks": 2, "revision": 0}
//
// `revision` is that of the wish at the server which the answer has made; 0: it made none.
#ifndef TRP_VERDICTS_H
#define TRP_VERDICTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <troupe/train.h>

typedef struct trp_verdict {
    int report;
    troupe_gate_answer answer;
    int ranks; // That the group had, or is to have.
    int64_t revision;
} trp_verdict;

// Adds a line. TROUPE_IO, TROUPE_NO_SPACE, TROUPE_NO_MEMORY.
troupe_status trp_verdicts_add(const char *folder, const trp_verdict *verdict);

// What has been read. Of one thread at a time.
typedef struct trp_verdicts {
    int fd, changes; // -1: not open; and an inotify.
    off_t at;
    int answered;     // The highest report that has an answer; 0: none.
    int64_t revision; // The highest.
    bool stop;        // Some answer was to stop.
} trp_verdicts;

// Begins to read, before there is a file too.
trp_verdicts trp_verdicts_begin(void);
// Reads on: what cannot be read is left out.
void trp_verdicts_read(trp_verdicts *verdicts, const char *folder);
// Waits until a line may have been added since the last call, at most so long. The file is made if
// need be.
void trp_verdicts_await(trp_verdicts *verdicts, const char *folder, int timeout_ms);
void trp_verdicts_close(trp_verdicts *verdicts);

#endif
