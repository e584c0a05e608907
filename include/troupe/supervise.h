// supervise.h: supervision trees: an actor that starts other actors in order, restarts them when
// they end, and stops them in reverse order.
//
//     troupe_child children[] = {
//         TROUPE_CHILD(store, .name = "store"),
//         TROUPE_CHILD(front, .init_args = &port, .restart = TROUPE_TRANSIENT),
//     };
//     troupe_supervisor_actor top =
//         troupe_supervisor_start(children, 2, .strategy = TROUPE_REST_FOR_ONE);
//     ...
//     troupe_actor_stop(top); // first the front, then the store, then itself
//
// A restart by the supervisor gives a child a new address; ask the supervisor for it, or look the
// child's name up. A child that must keep its address has .restarts in its .spawn; the supervisor
// restarts it only when these are used up. An actor that needs no more than that needs no
// supervisor.
#ifndef TROUPE_SUPERVISE_H
#define TROUPE_SUPERVISE_H

#include <troupe/life.h>

TROUPE_BEGIN_C

// When a child that ended is restarted.
typedef enum troupe_child_restart {
    TROUPE_PERMANENT, // Always.
    TROUPE_TRANSIENT, // Unless it ended normally.
    TROUPE_TEMPORARY, // Never, nor together with others: the supervisor forgets it.
} troupe_child_restart;

// What happens to the other children when one is restarted.
typedef enum troupe_strategy {
    TROUPE_ONE_FOR_ONE,  // Nothing.
    TROUPE_ONE_FOR_ALL,  // All are stopped, in reverse order, and restarted, in order.
    TROUPE_REST_FOR_ONE, // The same for those that were started after it.
} troupe_strategy;

typedef struct troupe_supervisor_options {
    size_t size;
    const char *name;         // The supervisor's name. Copied.
    troupe_place place;       // TROUPE_PLACE_ANY: in the process that spawns it.
    troupe_strategy strategy; // Default TROUPE_ONE_FOR_ONE.
    // The supervisor gives up when more than `restarts` (default 3, at most 64, or TROUPE_NONE,
    // TROUPE_FOREVER) are needed within `window_ms` (default 5000): it stops all children and ends
    // with TROUPE_DOWN_ERROR, which its own supervisor handles. Each restart is logged as a
    // warning.
    int restarts;
    uint32_t window_ms;
    int unused_;
    // The pause before the second restart in a row, as in troupe_spawn_options. It doubles up to
    // `backoff_max_ms` (default 30,000), and starts over after `backoff_reset_ms` (default 60,000)
    // without a restart. Default 10 with TROUPE_FOREVER, else no pause. The latter two: 1 ms to a
    // day.
    uint32_t backoff_ms;
    uint32_t backoff_max_ms;
    uint32_t backoff_reset_ms;
} troupe_supervisor_options;

// What a child is made from: TROUPE_CHILD or TROUPE_CHILD_SUPERVISOR fills one. Everything is
// copied.
typedef struct troupe_child {
    size_t size;                // Of this struct.
    const troupe_class *class_; // &troupe_class_<name>; NULL: it is a supervisor, see below.
    const void *init_args; // For the class's init; NULL: zeros. Objects that its references name
                           // are held as long as the child may be restarted.
    const char *name;      // As for troupe_spawn; NULL: none.
    troupe_place place;
    troupe_child_restart restart;
    // How long the child may take to end (see troupe_actor_stop) before it is killed; default 5000.
    // TROUPE_FOREVER: it is never killed; TROUPE_NONE: it is killed at once.
    int shutdown_ms;
    // A child that is a supervisor itself, with children of its own.
    const troupe_supervisor_options *supervisor; // NULL: defaults.
    const struct troupe_child *children;
    size_t child_count;
    // Options for each spawn of the child (NULL: the defaults): its resources, its limits, and
    // .restarts, with which it comes back under the same address and with its saved state before
    // the supervisor is told. `name` and `place` above take precedence over those in here.
    // TROUPE_INVALID for a child that is a supervisor.
    const troupe_spawn_options *spawn;
    int unused_;
} troupe_child;

// clang-format off
// TROUPE_CHILD(C, ...): a child of class C; what follows are fields of troupe_child.
#define TROUPE_CHILD(...) TROUPE_CHILD_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_CHILD_(C, ...)                                                                      \
    {.size = sizeof(troupe_child), .class_ = &troupe_class_##C, __VA_ARGS__}
// TROUPE_CHILD_SUPERVISOR(rows, count, ...): a child that supervises `count` children of its own.
#define TROUPE_CHILD_SUPERVISOR(...) TROUPE_CHILD_SUPERVISOR_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_CHILD_SUPERVISOR_(rows, count, ...)                                                 \
    {.size = sizeof(troupe_child), .children = (rows), .child_count = (count), __VA_ARGS__}
// clang-format on

typedef struct troupe_supervisor_actor {
    troupe_actor address; // For troupe_actor_stop, troupe_actor_kill, troupe_actor_link, ...
} troupe_supervisor_actor;

// Starts a supervisor and its children, in order, and returns when all have started. If one fails,
// those before it are stopped and the spawn fails with the same error text (see
// troupe_actor_status). When the supervisor ends in order, it stops its children first, in reverse
// order. When it is killed or its process dies, each child ends after the method that it is
// running.
TROUPE_API troupe_supervisor_actor troupe_supervisor_start_with(
    const troupe_child *children, size_t child_count, const troupe_supervisor_options *how);
#define troupe_supervisor_start(...) TROUPE_SUPERVISOR_START_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_SUPERVISOR_START_(children, count, ...)                                             \
    troupe_supervisor_start_with(                                                                  \
        (children), (count),                                                                       \
        &(troupe_supervisor_options){.size = sizeof(troupe_supervisor_options), __VA_ARGS__})

// A child as it is now.
typedef struct troupe_child_state {
    troupe_actor address; // id 0: it has ended and is not restarted, or not yet.
    uint32_t starts;      // How often it was started.
} troupe_child_state;

// Reads the state of child number `index`, in the order of their start (a TROUPE_TEMPORARY child
// that ended keeps its number). TROUPE_NOT_FOUND: there are fewer children; else as a call to the
// supervisor, which answers when it is not busy with a restart.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_supervisor_child(troupe_supervisor_actor supervisor,
                                                                 size_t index,
                                                                 troupe_child_state *child,
                                                                 size_t size);
#define troupe_supervisor_child(supervisor, index, child)                                          \
    troupe_supervisor_child((supervisor), (index), (child), sizeof(troupe_child_state))

// Adds a child after the others and starts it. If it cannot be started, the failure is returned and
// the child is not added.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_supervisor_add(troupe_supervisor_actor supervisor,
                                                               const troupe_child *child,
                                                               troupe_actor *address);

TROUPE_END_C

#endif
