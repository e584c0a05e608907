// explore.h: runs a few threads of a few processes through every schedule with at most so many
// preemptions, one thread at a time, in the manner of CHESS (Musuvathi et al., "Finding and
// Reproducing Heisenbugs in Concurrent Programs", OSDI 2008): depth first, and each schedule from
// the start.
//
// All live in this one process: a thread is a stack, a process what the protocols' libraries have
// for variables, exchanged when another one goes on. The sources of the protocols are compiled
// anew with points.h, so that each access to a shared word comes here first. A switch is tried
// before each access to a word that several threads use and one writes; which words these are
// is learnt on the way, and when another one turns out to be one, the search begins anew. Between
// two such accesses nothing can be told apart, so nothing is lost by not switching there.
//
// Beside going on, a thread may die at each such point, with all threads of its process, which
// counts as a preemption; then the node process's thread goes about what it left, as interruptible
// as the others.
#ifndef TROUPE_TEST_EXPLORE_H
#define TROUPE_TEST_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timespec;

// ---- scenes

enum { EXPLORE_THREADS = 4, EXPLORE_PROCESSES = 2048 };

typedef struct explore_thread {
    uint32_t process;
    void (*run)(void);
    bool mortal; // Its process may die.
    bool daemon; // The scene ends without it, when it waits.
} explore_thread;

typedef struct explore_scene {
    const char *name;
    void (*set_up)(void); // Once; each schedule begins with what it left.
    explore_thread threads[EXPLORE_THREADS];
    void (*check)(void); // After each schedule.
} explore_scene;

typedef struct explore_options {
    int spends;           // Preemptions, of which one may be a death instead;
    long most;            // one fewer where that would make more schedules than about so many.
    const char *schedule; // Run this one alone, and tell each step. NULL: all.
    bool delayed;         // Stores that are not sequentially consistent come late: see delays.c.
    bool finds;           // A schedule that fails is what is wanted: tells it and ends the program.
} explore_options;

// What the world of the scenes is.
typedef struct explore_world {
    void (*make)(void);             // The segment, before the processes come,
    void (*enter)(uint32_t);        // what each process does first,
    void (*begin)(void);            // before each schedule,
    void (*bury)(uint32_t process); // what the node process does after a death,
    void (*end)(void);              // and when all is over.
    uint32_t self;                  // The process that sets up and checks.
    char *board;                    // Memory that is shared beside the segment.
    size_t board_size;
    // A word was changed; not in set_up.
    void (*changed)(const void *word, size_t size, uint64_t from, uint64_t to);
} explore_world;

void explore_play(const explore_world *world, const explore_scene *scene,
                  const explore_options *options);

// ---- for scenes

// Ends the schedule: it has failed.
_Noreturn void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define EXPLORE_EXPECT(condition)                                                                  \
    ((condition) ? (void)0 : explore_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition))
// Something else may happen here.
void explore_point(void);
// Waits until *word is not 0. False: the process that was to change it has died, and it still is.
bool explore_await(const volatile uint64_t *word, uint32_t from);
bool explore_died(uint32_t process);
bool explore_any_died(void);

// ---- what the protocols come to instead (points.h)

void explore_reach(const volatile void *word, size_t size, const char *where);
void explore_write(volatile void *word, size_t size);
// Before what makes all earlier stores of the thread seen.
void explore_drain(void);
// True: the store is kept back.
bool explore_delay(volatile void *word, size_t size, const void *value);
// *value is what is in memory: it becomes what the thread itself has stored there, if it has.
void explore_forward(const volatile void *word, size_t size, void *value);
long explore_syscall(long number, ...);
void explore_wait(const volatile void *word, uint32_t seen, bool timed);
void explore_wake(const volatile void *word, int count);
int explore_yield(void);
int explore_lock(void *mutex);
int explore_try_lock(void *mutex);
int explore_unlock(void *mutex);
int64_t explore_now_ns(void);
// Blocks of who dies, or whose schedule ends, are freed with the schedule.
void *explore_alloc(size_t size);
void *explore_realloc(void *block, size_t size);
void explore_free(void *block);
int explore_clock(struct timespec *now);

typedef struct explore_range {
    char *from, *to;
} explore_range;
typedef struct explore_variables {
    explore_range all, constant, thread, vast;
} explore_variables;
// Where a library's variables are: all of them, those that are never written, those of threads
// (the rest are a process's), and large ones that every schedule may find as it likes.
void explore_module(const explore_variables *its);

#endif
