// node.h: several nodes: drivers on one machine or on several, each with its workers, whose actors
// call each other.
//
// A node takes part if it was started with .listen and .keys:
//
//     troupe_must(troupe_start(argc, argv, .listen = "10.0.0.7:4500", .keys = "cluster.keys"));
//     troupe_must(troupe_node_join("10.0.0.8:4500")); // The other one has been started likewise.
//     counter_actor tally;
//     troupe_must(troupe_lookup(counter, "tally", &tally)); // Here, or else there.
//
// From then on an actor of the other node is called like any other: calls, tells, streams,
// deadlines, cancelling, troupe_monitor_start, troupe_actor_await_end, troupe_actor_end and
// troupe_actor_kill. Not between nodes, and refused with TROUPE_UNSUPPORTED: references in
// arguments and results, links, troupe_actor_retain, troupe_actor_restart; and actors are spawned
// on the own node only. The address of an actor that was started again elsewhere on its node is not
// followed from another one: look its name up again.
//
// A session between two nodes ends as a whole: when one of them says goodbye (troupe_stop,
// troupe_node_leave), is silent for .node_timeout_ms, or a message between them was lost. Every
// pending call between the two then ends as TROUPE_MAYBE_EXECUTED. troupe_node_join makes a new
// one.
//
// Join nodes over networks that you trust. Nobody without the keys is heard, but what comes before
// the keys is libzmq's, in every process of a listening node. What is left to whoever can reach its
// ports: up to 4,096 connections a socket (a quarter of the descriptors, if that is less; a process
// has one such socket, and another over TROUPE_TRANSPORT_TCP, on the loopback interface), each
// for at most 3 s and 100 KiB (68 KiB of what it claims to send, and what libzmq has for it), so
// some 400 MiB a socket at worst; what comes beyond is sent away, counted
// (.strangers_refused of troupe_stats), and meanwhile others wait those 3 s to get in. And libzmq
// ends the process where it meets what it does not expect: a firewall's answer "protocol
// unreachable" to a connection that this node makes is known to do that. The secret key is in the
// memory of each process of a listening node, workers included, for libzmq has copies of it: so it
// is in their core files, though not in what was made by troupe_keys_make or read from the file.
//
// All nodes of a cluster have the same keys: who has them is a node like any other. He cannot end a
// session of others by giving himself their number or address: it ends only when he is heard where
// that node was, since another has been started there. What is claimed without that is refused and
// counted (.frames_refused). Yet he may take any amount of memory of these processes,
// whatever .node_message_bytes_max says: a message of which the last part never comes is kept by
// libzmq, which knows no bound for that.
#ifndef TROUPE_NODE_H
#define TROUPE_NODE_H

#include <troupe/runtime.h>

TROUPE_BEGIN_C

// Makes a pair of keys in a new file that only this user may read. All nodes of a cluster have a
// copy of that one file; who has it may do anything in the cluster. It is refused unless it is
// a file (no link) of this user's or root's that nobody else may read. TROUPE_EXISTS, TROUPE_IO,
// TROUPE_UNSUPPORTED: libzmq is missing.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_keys_make(const char *path);

// Where this node listens, "127.0.0.1:40123": what other nodes join. Valid until troupe_stop; "" if
// it does not listen.
TROUPE_API const char *troupe_node_address(void);

// Makes a session with the node that listens at `address` ("host:port"), for all processes of both
// nodes; where there is one, it stays. Looking up the host's name and waiting for the answer take
// at most .node_timeout_ms each. Joining is not handed on: each pair of nodes joins.
// TROUPE_INVALID: no such address, this node's own, or this node was started without .listen;
// TROUPE_DEADLINE_EXCEEDED: the name was not found in time, or nobody answers there, or has other
// keys; TROUPE_NOT_FOUND: the host's name is not known; TROUPE_VERSION: nobody answers there, and
// somebody spoke another version of the protocol; TROUPE_BUSY: 64 nodes are joined, or too many
// names are being looked up; TROUPE_EXISTS: one that is joined has the same number, which is
// random. A node is known by the address that it gives itself
// (troupe_nodes_list) and by the one that it was first joined by, if that is another.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_node_join(const char *address);

// Says goodbye to that node: what is pending between the two ends. TROUPE_NOT_FOUND: not joined.
TROUPE_API troupe_status troupe_node_leave(const char *address);

typedef struct troupe_node_info {
    char address[64];
    bool joined;     // There is a session,
    char cause[112]; // or why there is none any more: "was silent for 10000 ms".
} troupe_node_info;

// Writes at most `most` nodes that this one has, or had, a session with, and returns how many there
// are.
TROUPE_API size_t troupe_nodes_list(troupe_node_info *nodes, size_t most, size_t size);
#define troupe_nodes_list(nodes, most) troupe_nodes_list((nodes), (most), sizeof(troupe_node_info))

TROUPE_END_C

#endif
