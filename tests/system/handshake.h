// handshake.h: what the parts of test_handshake share: honest nodes, which do as they are told, and
// a node made by hand: this program itself, which has the cluster's keys and no runtime.
#ifndef TROUPE_TEST_HANDSHAKE_H
#define TROUPE_TEST_HANDSHAKE_H

#include <runtime/remote/remote_carrier.h>
#include <runtime/remote/session.h>
#include <sys/types.h>
#include <troupe.h>

// Sessions that end sooner have not ended by silence.
enum { HANDSHAKE_TIMEOUT_MS = 60000, HANDSHAKE_SOON_MS = 20000 };

// ---- honest nodes: processes that have been forked, and start Troupe when they are told

typedef struct honest {
    pid_t pid, node_pid; // Its driver, and its node process.
    int fd;
    uint32_t id;
    uint64_t incarnation; // Of its node process.
    char address[TRP_NODE_ADDRESS_MAX];
} honest;

typedef struct honest_view {
    troupe_status status;
    char text[256];
    uint32_t id;
    uint64_t incarnation;
    char address[TRP_NODE_ADDRESS_MAX];
    uint64_t refused, strangers; // Frames, and connections.
    pid_t node_pid;
    uint64_t session; // With the node that was asked about; 0: none.
    size_t joined;    // How many there are.
    char cause[112];  // Why there is none with it any more.
} honest_view;

// Forks one; before this process has threads.
void honest_fork(honest *it, const char *keys, const char *transport);
// Starts it, at an address that it may have to wait for.
void honest_start(honest *it, const char *listen);
void honest_end(honest *it);
// What it knows of the node at an address.
honest_view honest_look(honest *it, const char *address);
honest_view honest_join(honest *it, const char *address);
// In two steps.
void honest_join_begin(honest *it, const char *address);
honest_view honest_join_end(honest *it);
honest_view honest_leave(honest *it, const char *address);
// Waits until it has refused so many more frames.
void honest_await_refused(honest *it, uint64_t least);

// ---- the node made by hand

typedef struct claim {
    uint32_t id;
    uint64_t incarnation;
    const char *address;
} claim;

typedef struct heard {
    trp_envelope envelope;
    trp_frame frame; // Its body is `text`.
    char text[256];
} heard;

extern char hand_address[TRP_ENDPOINT_MAX]; // Where it listens.

void hand_open(const char *keys);
void hand_close(void);
// Says something outside of sessions, with `who` as its sender and its address as the body.
void hand_say(const honest *to, const claim *who, const trp_frame *frame);
void hand_say_text(const honest *to, const claim *who, const trp_frame *frame, const void *body,
                   size_t size);
// Waits for that word from there, not for what was read before; fails the test where none comes.
heard hand_await(trp_node_word method, const honest *from);
// The same, of those that answer the HELLO of that number: what was repeated is answered again.
heard hand_await_answer(trp_node_word method, const honest *from, uint64_t number);
// Whether it has come yet, of what can be read now. Leaves others unread.
bool hand_has_heard(trp_node_word method, const honest *from, heard *what);
// Forgets what has been heard so far.
void hand_forget(void);
// Is heard in a session: says where it is, and that it is there.
void hand_beat(const honest *to, const claim *who, uint64_t session);

// Makes a session as a node would that joins, and returns its number.
uint64_t hand_join(const honest *to, const claim *who);

// ---- test_handshake.odd.c

extern honest handshake_nodes[4]; // The last one's processes talk over unix sockets.

void test_handshake_no_addresses(void **state);
void test_handshake_no_words(void **state);
void test_handshake_no_messages(void **state);
void test_handshake_no_processes(void **state);
void test_handshake_answers_without_end(void **state);
void test_handshake_flood_beside_ipc(void **state);

#endif
