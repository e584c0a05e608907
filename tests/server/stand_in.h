// stand_in.h: a train server for tests of runners: it takes their connections, says what is wished,
// and keeps what they tell.
#ifndef STAND_IN_H
#define STAND_IN_H

#include "support.h"

#include <poll.h>
#include <pthread.h>
#include <runtime/base/buffer.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <train/state_folder.h>
#include <train/wire.h>
#include <troupe.h>
#include <unistd.h>

typedef struct stand_in {
    pthread_t thread;
    int listener, line; // -1: no runner is connected.
    int stop_fds[2];
    pthread_mutex_t lock;
    trp_wire_wishes wishes;
    int hellos;
    pid_t peer;
    trp_wire_runner runner; // Its texts are gone.
    char submission[64];
    trp_wire_progress progress; // The last one,
    char refused[512];
    int64_t paused; // and how many said PAUSED.
} stand_in;

static inline void stand_in_send(int to, trp_wire_kind kind, uint32_t number,
                                 const troupe_type *type, const void *value)
{
    trp_buffer out = {0};
    assert_int_equal(trp_wire_put(&out, kind, number, type, value), TROUPE_OK);
    (void)send(to, out.data, out.size, MSG_NOSIGNAL);
    trp_buffer_free(&out);
}

static inline void stand_in_take(stand_in *self, int line, const trp_wire_frame *frame)
{
    trp_arena arena = {0};
    trp_wire_answer welcome = {0};
    pthread_mutex_lock(&self->lock);
    if (frame->kind == TRP_WIRE_HELLO) {
        stand_in_send(line, TRP_WIRE_ANSWER, frame->number, &troupe_type_trp_wire_answer, &welcome);
    } else if (frame->kind == TRP_WIRE_RUNNER) {
        struct ucred peer;
        socklen_t size = sizeof peer;
        troupe_must(trp_wire_read(frame, &troupe_type_trp_wire_runner, &arena, &self->runner));
        snprintf(self->submission, sizeof self->submission, "%s", self->runner.submission);
        assert_int_equal(getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
        self->peer = peer.pid;
        self->hellos++;
        self->line = line;
        stand_in_send(line, TRP_WIRE_WISHES, frame->number, &troupe_type_trp_wire_wishes,
                      &self->wishes);
    } else if (frame->kind == TRP_WIRE_PROGRESS) {
        troupe_must(trp_wire_read(frame, &troupe_type_trp_wire_progress, &arena, &self->progress));
        snprintf(self->refused, sizeof self->refused, "%s",
                 self->progress.refused != NULL ? self->progress.refused : "");
        self->paused += self->progress.state == TRP_JOB_PAUSED;
    }
    pthread_mutex_unlock(&self->lock);
    trp_arena_clear(&arena);
}

// One connection at a time, until it ends. False: the server is to stop.
static inline bool stand_in_serve(stand_in *self, int line)
{
    trp_buffer in = {0};
    bool going = true, open = true;
    while (going && open) {
        struct pollfd waits[] = {{.fd = line, .events = POLLIN},
                                 {.fd = self->stop_fds[0], .events = POLLIN}};
        (void)poll(waits, 2, -1);
        going = waits[1].revents == 0;
        if (waits[0].revents == 0)
            continue;
        assert_true(trp_buffer_reserve(&in, 65536));
        ssize_t got = recv(line, in.data + in.size, 65536, 0);
        open = got > 0;
        in.size += open ? (size_t)got : 0;
        trp_wire_frame frame;
        for (size_t used = 1; used > 0;) {
            troupe_must(trp_wire_take(in.data, in.size, TRP_WIRE_BYTES_MAX, &frame, &used));
            if (used > 0)
                stand_in_take(self, line, &frame);
            memmove(in.data, in.data + used, in.size - used);
            in.size -= used;
        }
    }
    trp_buffer_free(&in);
    return going;
}

static inline void *stand_in_run(void *user)
{
    stand_in *self = user;
    for (bool going = true; going;) {
        struct pollfd waits[] = {{.fd = self->listener, .events = POLLIN},
                                 {.fd = self->stop_fds[0], .events = POLLIN}};
        (void)poll(waits, 2, -1);
        going = waits[1].revents == 0;
        if (!going)
            break;
        int line = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC);
        if (line < 0)
            continue;
        going = stand_in_serve(self, line);
        pthread_mutex_lock(&self->lock);
        self->line = -1;
        pthread_mutex_unlock(&self->lock);
        close(line);
    }
    return NULL;
}

// What was told to an earlier one is forgotten; what is wished stays.
static inline void stand_in_start(stand_in *self, const char *state_folder)
{
    struct sockaddr_un address;
    trp_wire_wishes wishes = self->wishes;
    *self = (stand_in){.line = -1, .wishes = wishes};
    pthread_mutex_init(&self->lock, NULL);
    troupe_must(trp_state_folder_socket(state_folder, &address));
    (void)unlink(address.sun_path);
    self->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(self->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(self->listener, 16), 0);
    assert_int_equal(pipe(self->stop_fds), 0);
    assert_int_equal(pthread_create(&self->thread, NULL, stand_in_run, self), 0);
}

static inline void stand_in_stop(stand_in *self)
{
    assert_int_equal(write(self->stop_fds[1], "x", 1), 1);
    pthread_join(self->thread, NULL);
    close(self->listener);
    close(self->stop_fds[0]);
    close(self->stop_fds[1]);
    pthread_mutex_destroy(&self->lock);
}

// Wishes from now on, and tells the runner. The texts stay.
static inline void stand_in_wish(stand_in *self, trp_wire_wishes wishes)
{
    pthread_mutex_lock(&self->lock);
    wishes.revision = self->wishes.revision + 1;
    self->wishes = wishes;
    if (self->line >= 0)
        stand_in_send(self->line, TRP_WIRE_WISHES, 0, &troupe_type_trp_wire_wishes, &wishes);
    pthread_mutex_unlock(&self->lock);
}

static inline bool stand_in_is_echoed(void *user)
{
    stand_in *self = user;
    pthread_mutex_lock(&self->lock);
    bool echoed = self->progress.echo == self->wishes.revision;
    pthread_mutex_unlock(&self->lock);
    return echoed;
}

// Whether the runner has refused a wish with such a sentence.
static inline bool stand_in_was_told_why(stand_in *self, const char *part)
{
    pthread_mutex_lock(&self->lock);
    bool told = strstr(self->refused, part) != NULL;
    pthread_mutex_unlock(&self->lock);
    return told;
}

static inline bool stand_in_is_paused(void *user)
{
    stand_in *self = user;
    pthread_mutex_lock(&self->lock);
    bool paused = self->paused > 0;
    pthread_mutex_unlock(&self->lock);
    return paused;
}

static inline bool stand_in_has_runner(void *user)
{
    stand_in *self = user;
    pthread_mutex_lock(&self->lock);
    bool has = self->hellos > 0 && self->progress.state == TRP_JOB_RUNNING;
    pthread_mutex_unlock(&self->lock);
    return has;
}

#endif
