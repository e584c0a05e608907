// losses.h: records that outlive any process, for a mixed load while processes are killed and
// stopped.
//
// Whatever is asked for (a call, a tell, a task, the item of a map, a stream) has a row with a
// number of its own in memory that all processes of the test share, whichever runtime they belong
// to. The process that runs it says so there, and so does the one that is told its end. When all is
// quiet each row is compared with what is guaranteed.
#ifndef TROUPE_TEST_LOSSES_H
#define TROUPE_TEST_LOSSES_H

#include <stdatomic.h>
#include <support.h>
#include <troupe.h>

enum {
    ROWS = 1 << 22,        // Of one era, from a start of the runtime to its end.
    PROCESSES = 1 << 12,   // That lived in it.
    SENDERS = 4,           // Threads of load.
    ACTORS = 12,           // That live at a time, and may die.
    POSTS = 2,             // That nobody kills: what is told to them arrives.
    LOAD_MAX = 160 * 1024, // Beyond what travels inside a message.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    LOSSES_FACTOR = 4, // All takes longer.
#else
    LOSSES_FACTOR = 1,
#endif
    LOSSES_WAIT_MS = 20000 * LOSSES_FACTOR, // No wait is longer.
    KEPT_MAX = 3,                           // Retries.
};

typedef enum row_kind {
    CALL,
    CALL_AGAIN,
    TELL,
    TASK,
    TASK_ONCE,
    STREAM,
    OBJECT,
    MAP,
    KINDS
} row_kind;

typedef struct entry {
    _Atomic uint16_t begun, finished; // By whom it was for.
    _Atomic uint16_t ends;            // How often its end was told.
    _Atomic uint8_t kind, outcome, executed, status;
    _Atomic bool awaited; // Made by the driver, which is not killed,
    _Atomic bool silent;  // and told of its end, unless this is set.
} entry;

typedef struct books {
    _Atomic uint32_t rows, processes;
    _Atomic int pid[PROCESSES]; // Written after its group, which is compared before it is killed.
    _Atomic int group[PROCESSES];
    _Atomic uint32_t at[ACTORS]; // Which of `address` lives there; 0: none.
    _Atomic uint32_t addresses;
    troupe_actor address[1 << 14]; // Written before it is named in `at`.
    _Atomic uint64_t told[POSTS][SENDERS], arrived[POSTS][SENDERS];
    _Atomic int spared;      // The process of the second post.
    _Atomic uint32_t wrong;  // Contents, orders and numbers that were not as they should be.
    _Atomic bool over, lost; // The era ends; the runtime is being killed.
    entry row[ROWS];
} books;

extern books *book;
extern pid_t losses_driver;

uint64_t losses_roll(uint64_t *dice);
bool losses_chance(uint64_t *dice, uint32_t of);
// The number of a new row; 0: all are taken.
uint32_t losses_row(row_kind kind);
// Writes down how it ended: the status of a get, and the thread's last error.
void losses_end(uint32_t number, troupe_status status);
void losses_wrong(const char *what, uint64_t number);
// Compares all rows with what is guaranteed, and returns how many are not as they should be.
int losses_check(void);
void losses_print(void);
void losses_books_open(void); // Empties them.
void losses_enter(void);      // This process may be killed, unless it is a driver.
pid_t losses_parent(pid_t pid);

// ---- the load

// What a sender is doing, for whom finds that it hangs.
typedef struct sender {
    pthread_t thread;
    int number;
    uint64_t dice;
    _Atomic(const char *) doing;
    _Atomic uint32_t row;
    _Atomic int64_t since_ms;
    _Atomic bool ended;
} sender;

// Says which of them wait for what, and ends the process: they cannot be joined.
_Noreturn void losses_hung(const char *when, const sender *senders);

// Spawns the actors of an era; the runtime has been started.
void losses_people(uint64_t *dice);
void *losses_send(void *sender); // A thread of load, until book->over.
// Waits until all that was told to the posts has arrived; false: it does not.
bool losses_posts_have_all(void);

// ---- two nodes

void losses_far_open(void); // Before this process has threads.
void losses_far_close(void);
void losses_far(int seconds, uint64_t *dice);

#endif
