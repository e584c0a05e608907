// node.h: several nodes: drivers on one or several machines, each with its workers, whose actors
// call each other.
//
// A node takes part if it was started with .listen and .keys:
//
//     troupe_must(troupe_start(argc, argv, .listen = "10.0.0.7:4500", .keys = "cluster.keys"));
//     troupe_must(troupe_node_join("10.0.0.8:4500")); // Started in the same way.
//     counter_actor tally;
//     troupe_must(troupe_lookup(counter, "tally", &tally)); // On this node or the other.
//
// From then on an actor of the other node is called like any other: calls, tells, streams,
// deadlines, cancelling, troupe_monitor_start, troupe_actor_await_end, troupe_actor_end and
// troupe_actor_kill work. TROUPE_UNSUPPORTED between nodes: references in arguments and results,
// links, troupe_actor_retain, troupe_actor_restart. Actors are spawned on the own node only. If an
// actor of another node is restarted in another process there, its address is no longer valid here:
// look its name up again.
//
// A session between two nodes ends as a whole: when one of them ends it (troupe_stop,
// troupe_node_leave), is silent for .node_timeout_ms, or a message between them was lost. Every
// pending call between the two then ends as TROUPE_MAYBE_EXECUTED. troupe_node_join opens a new
// session.
//
// Join nodes over networks that you trust. A peer without the keys is not heard, but the handshake
// before that is libzmq's, in every process of a listening node. A peer that can reach the ports
// can still hold up to 4,096 connections per socket (a quarter of the descriptors, if that is less;
// a process has one such socket, and another one with TROUPE_TRANSPORT_TCP, on the loopback
// interface), each for at most 3 s and 100 KiB (68 KiB of what the peer claims to send, and
// libzmq's own memory for it): some 400 MiB per socket at worst. Connections beyond that are
// refused and counted (.strangers_refused of troupe_stats), and other peers then wait up to 3 s to
// connect. And libzmq aborts the process on errors that it does not expect: a firewall's answer
// "protocol unreachable" to a connection that this node makes is known to do that. The secret key
// is in the memory of each process of a listening node, workers included, because libzmq copies it:
// so it is in their core files, although the library's own copies are erased.
//
// All nodes of a cluster have the same keys: any peer that has them counts as a node. It cannot end
// sessions of other nodes by claiming their number or address: a session ends only if the new peer
// is reached at the address where that node was, because another node has been started there. Any
// other such claim is refused and counted (.frames_refused). But a peer with the keys can take any
// amount of memory of these processes, whatever .node_message_bytes_max says: libzmq keeps a
// message whose last part never comes, and has no limit for that.
#ifndef TROUPE_NODE_H
#define TROUPE_NODE_H

#include <troupe/runtime.h>

TROUPE_BEGIN_C

// Makes a pair of keys in a new file that only this user may read. All nodes of a cluster have a
// copy of that one file; anyone who has it may do anything in the cluster. A key file is refused
// unless it is a regular file (no link) of this user or root that no other user may read.
// TROUPE_EXISTS, TROUPE_IO, TROUPE_UNSUPPORTED: libzmq is missing.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_keys_make(const char *path);

// The address where this node listens, "127.0.0.1:40123", for troupe_node_join. Valid until
// troupe_stop; "" if it does not listen.
TROUPE_API const char *troupe_node_address(void);

// Opens a session with the node that listens at `address` ("host:port"), for all processes of both
// nodes; an existing session stays. Looking up the host's name and waiting for the answer take at
// most .node_timeout_ms each. Joining is not transitive: each pair of nodes joins. TROUPE_INVALID:
// no valid address, this node's own, or this node was started without .listen;
// TROUPE_DEADLINE_EXCEEDED: the name was not found in time, or no node answers there, or it has
// other keys; TROUPE_NOT_FOUND: the host's name is not known; TROUPE_VERSION: no node answers there
// that speaks this version of the protocol, but one that speaks another; TROUPE_BUSY: 64 nodes are
// joined, or too many names are being looked up; TROUPE_EXISTS: a joined node has the same number,
// which is random. A node is known by the address that it gives itself (troupe_nodes_list) and by
// the one that it was first joined by, if they differ.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_node_join(const char *address);

// Ends the session with that node; pending calls between the two end. TROUPE_NOT_FOUND: not joined.
TROUPE_API troupe_status troupe_node_leave(const char *address);

typedef struct troupe_node_info {
    char address[64];
    bool joined;     // There is a session,
    char cause[112]; // or why it has ended: "was silent for 10000 ms".
} troupe_node_info;

// Writes up to `most` nodes that this one has, or had, a session with, and returns how many there
// are.
TROUPE_API size_t troupe_nodes_list(troupe_node_info *nodes, size_t most, size_t size);
#define troupe_nodes_list(nodes, most) troupe_nodes_list((nodes), (most), sizeof(troupe_node_info))

TROUPE_END_C

#endif
