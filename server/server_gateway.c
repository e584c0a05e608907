// server_gateway.c: the gateway of a server: started, and started again when it has ended.
#include <errno.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <server/gateway.h>
#include <server/say.h>
#include <server/server_internal.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAUSE_MS = 200, PAUSE_MAX_MS = 30000, LONG_MS = 30000 };

int64_t trp_server_gateway_due(const trp_server *server)
{
    return server->how->gateway && server->gateway.fd < 0 && !server->stopping
               ? server->gateway_at_ms
               : INT64_MAX;
}

// The next one is started after a pause that doubles where they do not live for long.
static void plan(trp_server *server)
{
    int64_t now_ms = trp_clock_ms();
    bool lived = now_ms - server->gateway_at_ms > LONG_MS;
    int pause_ms = lived ? 0 : 2 * server->gateway_pause_ms;
    if (pause_ms < PAUSE_MS)
        pause_ms = PAUSE_MS;
    server->gateway_pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
    server->gateway_at_ms = now_ms + server->gateway_pause_ms;
}

void trp_server_gateway_turn(trp_server *server)
{
    if (trp_server_gateway_due(server) > trp_clock_ms())
        return;
    int end;
    troupe_status status =
        trp_gateway_start(server->how->folder, NULL, &server->gateway_process, &end);
    if (status == TROUPE_OK) {
        server->gateway = (trp_source){TRP_SOURCE_GATEWAY, end};
        status = trp_server_listen_to(server, &server->gateway, EPOLLIN);
    }
    if (status == TROUPE_OK) {
        server->gateway_at_ms = trp_clock_ms();
        return;
    }
    trp_say("%s", troupe_last_error()->text);
    trp_server_gateway_close(server);
    plan(server);
}

void trp_server_gateway_ready(trp_server *server)
{
    int how = 0;
    pid_t ended = waitpid(server->gateway_process, &how, WNOHANG); // Another server's is no child.
    if (ended == 0)
        return;
    (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, server->gateway.fd, NULL);
    trp_server_gateway_close(server);
    plan(server);
    trp_say("the gateway, process %d, has ended%s (gateway.log): the next one is started in %d ms",
            (int)server->gateway_process, ended > 0 && WIFSIGNALED(how) ? " by a signal" : "",
            server->gateway_pause_ms);
    server->gateway_process = 0;
}

void trp_server_gateway_close(trp_server *server)
{
    if (server->gateway.fd >= 0)
        close(server->gateway.fd);
    server->gateway.fd = -1;
}

void trp_server_gateway_end(trp_server *server)
{
    // By its descriptor, since it may not have its lock yet.
    if (server->gateway.fd >= 0)
        (void)pidfd_send_signal(server->gateway.fd, SIGTERM, NULL, 0);
}
