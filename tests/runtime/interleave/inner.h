// inner.h: what the explorer's files share (see explore.h).
#ifndef TROUPE_TEST_INTERLEAVE_INNER_H
#define TROUPE_TEST_INTERLEAVE_INNER_H

#include <interleave/explore.h>

#include <setjmp.h>

enum {
    EXPLORE_NODE = EXPLORE_THREADS, // The node process's thread, which sees who has died.
    EXPLORE_CHECK,                  // What looks at what a schedule has left.
    EXPLORE_INNER_THREADS,
    EXPLORE_DIES = 0x80, // What a thread may do instead of letting one go on.
};

typedef enum explore_life {
    EXPLORE_ENDED,
    EXPLORE_READY,
    EXPLORE_BLOCKED,
    EXPLORE_DEAD,
} explore_life;

typedef struct explore_inner_thread {
    uint32_t process;
    void (*run)(void);
    bool mortal, daemon;
    bool only_mortal; // No other process may die.
    explore_life life;
    const volatile void *awaits; // While it is blocked.
    bool timed;                  // It wakes by itself, in time,
    bool timed_out;              // and has.
    bool yielded;                // It is ready, but waits for what others do.
    bool changes;                // It awaits a change of the word, not a wake-up.
    jmp_buf start, at;
    char *stack;
    char *state; // Its variables, while another one runs.
} explore_inner_thread;

typedef struct explore_run {
    int current; // Thread; -1: none.
    bool exploring, failed;
    long steps;
    int deaths, spent; // Of what the schedule may have of preemptions and deaths.
    uint32_t died;
    int64_t passed_ns;
    int passes;
    char failure[256];
} explore_run;

extern explore_run run;
extern explore_inner_thread threads[EXPLORE_INNER_THREADS];
extern int thread_count;
extern void (*explore_bury)(uint32_t process);

char explore_letter(int thread);
// The current thread waits: others go on until one makes it ready.
void explore_block(void);

// ---- a schedule as a text

void schedule_begin(void);
// Notes a choice; returns it.
int schedule_note(int option, bool usual);
void schedule_print(const char *scene);
// From now on this one is run; NULL: none.
void schedule_tell(const char *text);
bool schedule_is_told(void);
int schedule_choose(const uint8_t *options, int count);

// ---- stores that come late

extern bool explore_delaying;
void explore_begin_delays(void);
void explore_drain_dead(int thread);

// ---- waits

void explore_begin_waits(void);
void explore_wake_awaiting(const volatile void *word);
void explore_tell_death(void);
// Nobody can go on: lets time pass, for who waits with a limit. False: nobody does.
bool explore_pass_time(void);
void explore_expect_all_ended(void);
void explore_begin_node(void);
void explore_run_node(void);

#endif
