// strangers.h: what the parts of test_strangers_soak share: the board that all of its processes
// write on, the class that lives on the honest nodes, and what each process does.
#ifndef TROUPE_TEST_STRANGERS_H
#define TROUPE_TEST_STRANGERS_H

#include <runtime/shm/segment.h>
#include <stdatomic.h>
#include <stranger.h>
#include <sys/types.h>
#include <troupe.h>

enum {
    HUNG_MS = 20000, // Of any call: it has not come back.
    NODE_TIMEOUT_MS = 5000,
    DESCRIPTORS = 800,           // That each process of the attacked node may open.
    STRANGERS = DESCRIPTORS / 4, // As many connections from outside as it then takes.
    GUESTS = 2,
    BINS = 64 * 8,
};

// What goes on meanwhile: each phase with one kind of attacker.
typedef enum phase {
    QUIET,    // None.
    GARBAGE,  // Bytes that are no greeting.
    HALF,     // Handshakes that stop half way, or are wrong.
    SILENT,   // More connections than there may be, which say nothing.
    CLAIMS,   // Greetings, and then a command that claims to be very large.
    HOLDER,   // Somebody with the cluster's keys and every kind of frame.
    IMPOSTOR, // The same, who gives itself the numbers of others.
    PHASES,
} phase;

// The attacked node's processes: each listens for other nodes.
enum { NODE_DOOR, DRIVER_DOOR, WORKER_DOOR, ALONE_DOOR, DOORS };

typedef struct way_in {
    pid_t pid;
    uint32_t slot;
    uint64_t incarnation;
    char address[TRP_NODE_ADDRESS_MAX];
    _Atomic uint64_t refused; // Frames.
} way_in;

typedef struct node_facts {
    uint32_t id;
    uint64_t incarnation; // Of its node process.
    char address[TRP_NODE_ADDRESS_MAX];
} node_facts;

typedef struct score {
    _Atomic uint32_t bins[BINS]; // Of calls, by what they took.
    _Atomic uint64_t calls, slowest_ns;
    _Atomic uint64_t fresh, fresh_refused; // Processes that called for the first time.
    _Atomic uint64_t joined;               // Sessions ended and begun again by their own wish.
    _Atomic uint64_t opened, shut;         // The attackers' connections, and those shut by the node
    _Atomic uint64_t frames, sure;         // Their frames, and of how many at least one is refused.
    _Atomic uint64_t knocks;               // The connections over which those went.
    // The test's own look: what the attackers used of a CPU, and in how long; and of the attacked
    // node, the most of any process.
    uint64_t cpu_us, wall_us, turns;
    uint64_t memory_bytes, grown_bytes, descriptors;
} score;

typedef struct siege {
    const char *keys;
    char log[256];           // The attacked node's output.
    _Atomic int ready, over; // 1: the guests end, 2: the attacked node too.
    _Atomic int phase;
    _Atomic int attack_over;
    _Atomic int troubled;
    char trouble[600];
    way_in doors[DOORS];
    node_facts host, guests[GUESTS];
    uint64_t honest[4];         // Ids of the actors that nobody is to end, and of one
    uint64_t bait;              // that lives in the same worker, for everybody to do as they like.
    _Atomic uint64_t pending;   // The number of a call that another node has to answer.
    _Atomic uint64_t strangers; // As the attacked node counts them.
    score tallies[PHASES];
} siege;

// The first that goes wrong is what the test says.
void board_trouble(siege *it, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline score *board_tally(siege *it)
{
    return &it->tallies[atomic_load(&it->phase)];
}

// ---- test_strangers_soak.measure.c: how long calls took

// What the score has now, since the last time.
void measure_window(phase what, const score *tally);
double measure_percentile_us(const _Atomic uint32_t bins[BINS], double share);
// The ratio of the 99th percentile of a phase's windows to that of the quiet windows on both sides
// of each: the median of these, so that it does not matter what else the machine does. 0: none.
double measure_ratio(phase what, int *windows);

// Drivers of their own, which end when the board says so. Each in a process of its own.
void strangers_host(siege *it);
void strangers_guest(siege *it, int number);
// The attackers, until the board says that the attack is over.
void strangers_attack(siege *it, phase what, uint64_t seed, stranger_budget *budget);
void strangers_hold(siege *it, bool impostor, uint64_t seed, stranger_budget *budget);

#endif
