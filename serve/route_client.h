// route_client.h: a connection to a service's socket, for a process that waits for many things with
// poll(2): nothing here waits. It belongs to one thread.
//
//     trp_route_client *client;
//     TROUPE_TRY(trp_route_client_open("/run/user/0/routes/digits.sock", &client));
//     TROUPE_TRY(trp_route_client_send(client, &x, on_answer, mine, &id));
//     struct pollfd it = {trp_route_client_fd(client), trp_route_client_events(client), 0};
//     (void)poll(&it, 1, -1);
//     if (trp_route_client_turn(client, it.revents) != TROUPE_OK) // Calls on_answer.
//         trp_route_client_close(&client); // It is over: connect anew.
#ifndef TRP_SERVE_ROUTE_CLIENT_H
#define TRP_SERVE_ROUTE_CLIENT_H

#include <troupe/tensor.h>

typedef struct trp_route_client trp_route_client;

// Told the answer of a request once. TROUPE_OK: `y`, whose elements are there during the call.
// Else the service's own status and text (as of troupe_predict), or TROUPE_PEER_LOST: the
// connection was lost with the request under way, it may have been computed. It may send and cancel
// on this connection, and not close it.
typedef void (*trp_route_answered)(void *user, troupe_status status, const char *text,
                                   const troupe_tensor *y);

// Connects. TROUPE_NOT_FOUND: nobody listens there; TROUPE_BUSY: too many wait to be let in;
// TROUPE_UNSUPPORTED: the service is another user's; TROUPE_INVALID: the path is too long.
troupe_status trp_route_client_open(const char *socket, trp_route_client **client);
int trp_route_client_fd(const trp_route_client *client);
// What to poll for: POLLIN, and POLLOUT where something could not be sent yet.
short trp_route_client_events(const trp_route_client *client);
// Requests without their answers, and bytes that could not be sent yet, for who bounds them.
size_t trp_route_client_under_way(const trp_route_client *client);
size_t trp_route_client_unsent(const trp_route_client *client);

// Sends a request, whose elements are copied; *id (NULL: not wanted) is for a cancel. Each request
// that was sent is answered once, later, in a turn or by the close. On failure it was not sent, and
// `answered` is not called: TROUPE_PEER_LOST: the connection is over; TROUPE_TOO_LARGE: it has more
// than 64 MiB; TROUPE_NO_MEMORY; as troupe_tensor_check.
troupe_status trp_route_client_send(trp_route_client *client, const troupe_tensor *x,
                                    trp_route_answered answered, void *user, uint64_t *id);
// Its answer is not wanted any more: it is thrown away when it comes, and nobody told. One that was
// answered is no request any more, and nothing is done.
void trp_route_client_cancel(trp_route_client *client, uint64_t id);

// Sends and receives what can be, and tells the answers that came. Anything but TROUPE_OK: the
// connection is over, the thread's last error says why, and all that was under way was told
// TROUPE_PEER_LOST; later turns return the same.
troupe_status trp_route_client_turn(trp_route_client *client, short events);
// Ends the connection and clears *client; what is under way is told TROUPE_PEER_LOST.
void trp_route_client_close(trp_route_client **client);

#endif
