// server_track.c: who sends to trackers, for a server: started where there may be something to
// send.
#include <errno.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <server/child.h>
#include <server/say.h>
#include <server/server_internal.h>
#include <server/track.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAUSE_MS = 1000, PAUSE_MAX_MS = 60000 };

void trp_server_track_changed(trp_server *server, int state)
{
    bool runs;
    if (state != TRP_JOB_RUNNING && state != TRP_JOB_ENDED)
        return;
    if (server->track.fd >= 0)
        (void)pidfd_send_signal(server->track.fd, SIGURG, NULL, 0);
    // Also where one is there, which may be about to end.
    if (!server->track_wanted && trp_track_is_wanted(server->how->folder, &runs))
        server->track_wanted = runs || state == TRP_JOB_ENDED;
}

void trp_server_track_begin(trp_server *server)
{
    bool runs;
    server->track_wanted = trp_track_is_wanted(server->how->folder, &runs);
    trp_server_track_turn(server);
}

int64_t trp_server_track_due(const trp_server *server)
{
    return server->track_wanted && server->track.fd < 0 && !server->stopping ? server->track_at_ms
                                                                             : INT64_MAX;
}

static void put_off(trp_server *server)
{
    int pause_ms = 2 * server->track_pause_ms;
    server->track_pause_ms = pause_ms < PAUSE_MS       ? PAUSE_MS
                             : pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS
                                                       : pause_ms;
    server->track_at_ms = trp_clock_ms() + server->track_pause_ms;
    server->track_wanted = true;
}

void trp_server_track_turn(trp_server *server)
{
    int end = -1;
    if (trp_server_track_due(server) > trp_clock_ms())
        return;
    server->track_wanted = false;
    troupe_status status =
        trp_child_start(server->how->folder, NULL, "track", &server->track_process, &end);
    if (status == TROUPE_OK) {
        server->track = (trp_source){TRP_SOURCE_TRACK, end};
        status = trp_server_listen_to(server, &server->track, EPOLLIN);
    }
    if (status == TROUPE_OK)
        return;
    trp_say("%s", troupe_last_error()->text);
    trp_server_track_close(server);
    put_off(server);
}

void trp_server_track_ready(trp_server *server)
{
    int how = 0;
    if (waitpid(server->track_process, &how, WNOHANG) == 0)
        return;
    (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, server->track.fd, NULL);
    trp_server_track_close(server);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) {
        server->track_pause_ms = 0;
        server->track_at_ms = 0;
        return;
    }
    put_off(server);
    trp_say("who sends to trackers, process %d, has failed (track.log): the next one is started in "
            "%d ms",
            (int)server->track_process, server->track_pause_ms);
}

void trp_server_track_close(trp_server *server)
{
    if (server->track.fd >= 0)
        close(server->track.fd);
    server->track.fd = -1;
}

void trp_server_track_end(trp_server *server)
{
    if (server->track.fd >= 0)
        (void)pidfd_send_signal(server->track.fd, SIGTERM, NULL, 0);
}
