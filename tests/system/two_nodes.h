// two_nodes.h: what the two parts of test_two_nodes share: the class that lives on both nodes, and
// how other nodes are started.
#ifndef TROUPE_TEST_TWO_NODES_H
#define TROUPE_TEST_TWO_NODES_H

#include <sys/types.h>
#include <troupe.h>

enum { TIMEOUT_MS = 2000, SLACK_MS = 10000, TWO_NODES_LARGEST = 6 << 20 };

TROUPE_STRUCT(letter, (troupe_text, from), (int32_t, number), (troupe_text, text));
TROUPE_STRUCT(pids, (int, own), (int, keeper));
TROUPE_STRUCT(errand, (troupe_actor, to), (int64_t, amount));
TROUPE_STRUCT(round_trip, (troupe_actor, there), (troupe_actor, back));

TROUPE_STRUCT(waits, (uint64_t, call), (uint64_t, stream), (uint64_t, monitor));

typedef struct clerk {
    int64_t total, next, wrong;
    troupe_ref kept, nap; // What it holds, and waits for: see test_two_nodes.hostile.c.
    troupe_stream stream;
    int ends;
} clerk;

troupe_status clerk_add(clerk *self, const int64_t *amount, int64_t *total);
troupe_status clerk_reply(clerk *self, const letter *question, letter *answer);
troupe_status clerk_mirror(clerk *self, const troupe_bytes *data, troupe_bytes *back);
troupe_status clerk_swell(clerk *self, const int *size, troupe_bytes *made);
troupe_status clerk_note(clerk *self, const int64_t *number, troupe_none *none);
troupe_status clerk_wrong(clerk *self, const troupe_none *none, int64_t *wrong);
troupe_status clerk_nap(clerk *self, const int *ms, int *slept);
troupe_status clerk_run(clerk *self, const errand *what, int64_t *total);
troupe_status clerk_go_round(clerk *self, const round_trip *way, int64_t *total);
troupe_status clerk_where(clerk *self, const troupe_none *none, troupe_actor *address);
troupe_status clerk_pids(clerk *self, const troupe_none *none, pids *all);
troupe_status clerk_fail(clerk *self, const troupe_text *text, int *none);
troupe_status clerk_refused(clerk *self, const troupe_none *none, uint64_t *count);
troupe_status clerk_hold(clerk *self, const troupe_ref *ref, int *none);
troupe_status clerk_count(clerk *self, const int *last, int *none);
troupe_status clerk_keep(clerk *self, const troupe_none *none, uint64_t *object);
troupe_status clerk_kept_is_whole(clerk *self, const troupe_none *none, bool *whole);
troupe_status clerk_wait(clerk *self, const troupe_none *none, waits *all);
troupe_status clerk_waits_still(clerk *self, const troupe_none *none, bool *untouched);
troupe_status clerk_told(clerk *self, const troupe_down *down, troupe_none *none);

TROUPE_ACTOR(clerk, (clerk_add, int64_t, int64_t), (clerk_reply, letter, letter),
             (clerk_mirror, troupe_bytes, troupe_bytes), (clerk_swell, int, troupe_bytes),
             (clerk_note, int64_t, troupe_none), (clerk_wrong, troupe_none, int64_t),
             (clerk_nap, int, int), (clerk_run, errand, int64_t),
             (clerk_go_round, round_trip, int64_t), (clerk_where, troupe_none, troupe_actor),
             (clerk_pids, troupe_none, pids), (clerk_fail, troupe_text, int),
             (clerk_hold, troupe_ref, int),
             (clerk_refused, troupe_none, uint64_t, .options = TROUPE_METHOD_URGENT),
             (clerk_keep, troupe_none, uint64_t), (clerk_kept_is_whole, troupe_none, bool),
             (clerk_wait, troupe_none, waits), (clerk_waits_still, troupe_none, bool),
             (clerk_told, troupe_down, troupe_none),
             (clerk_count, int, int, .options = TROUPE_METHOD_STREAM));

typedef struct order {
    bool stranger; // With other keys.
    char join[64]; // It joins this one itself; "": none.
} order;

typedef struct other {
    pid_t pid;
    char address[64];
    troupe_status joined; // How its own joining went.
} other;

extern char *two_nodes_keys, *two_nodes_strange_keys;
// Forks the process that starts other nodes; before this one starts Troupe. Returns the socket by
// which it is asked: an `order`, answered by an `other`.
int two_nodes_launch(void);
// All of its processes, and not for long, or it is given up.
void two_nodes_stop(const other *it, const pids *all);
void two_nodes_continue(const other *it, const pids *all);

// What test_two_nodes.c has for the other parts.
other two_nodes_start(void); // Another node.
other two_nodes_order(const order *what);
void two_nodes_end(other *it);
clerk_actor two_nodes_find(const char *name, const char *address);
bool two_nodes_joined(const char *address);

// test_two_nodes.odd.c
void test_two_nodes_envelopes(void **state);
void test_two_nodes_kinds_from_there(void **state);
void test_two_nodes_odd_messages(void **state);
void test_two_nodes_values_above_the_limit(void **state);
void test_two_nodes_other_versions(void **state);
void test_two_nodes_long_answers(void **state);
void test_two_nodes_a_late_hello(void **state);
void test_two_nodes_deaths_before_numbers(void **state);
void test_two_nodes_a_gap(void **state);
void test_two_nodes_a_repeated_frame(void **state);
void test_two_nodes_a_cut_connection(void **state);
void test_two_nodes_a_late_answer_to_a_kill(void **state);

// test_two_nodes.hostile.c
void test_two_nodes_holds_of_others(void **state);
void test_two_nodes_answers_of_others(void **state);
void test_two_nodes_too_many_processes(void **state);
void test_two_nodes_beyond_the_window(void **state);
void test_two_nodes_long_lists(void **state);

#endif
