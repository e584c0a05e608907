// test_handshake.honest.c: nodes that do as they are told, and say what they know of others.
#include "handshake.h"
#include <stats.h>
#include <support.h>

#include <runtime/remote/cluster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct order {
    enum { START, LOOK, JOIN, LEAVE } what;
    char address[TRP_NODE_ADDRESS_MAX];
} order;

// ---- in the process

static troupe_status start(const char *keys, const char *transport, const char *listen)
{
    int64_t until = support_now_ms() + HANDSHAKE_SOON_MS;
    troupe_status status;
    do // Who had the address before may have it for a moment.
        status = troupe_start(0, NULL, .listen = listen, .keys = keys,
                              .transport = strcmp(transport, "ipc") == 0 ? TROUPE_TRANSPORT_IPC : 0,
                              .workers = 1, .threads = 1, .store_bytes_max = 32 << 20,
                              .node_timeout_ms = HANDSHAKE_TIMEOUT_MS);
    while (status == TROUPE_IO && support_now_ms() < until);
    return status;
}

static void look(const char *address, honest_view *view)
{
    view->id = trp_process_node_id();
    view->incarnation = trp_segment_process(TRP_PROCESS_NODE)->incarnation;
    view->refused = support_stats().frames_refused;
    view->strangers = support_stats().strangers_refused;
    view->node_pid = (pid_t)trp_segment_process(TRP_PROCESS_NODE)->pid;
    snprintf(view->address, sizeof view->address, "%s", troupe_node_address());
    for (int i = 0; i < TRP_NODES_MAX; i++) {
        const trp_node_row *row = &trp_segment_nodes()->rows[i];
        bool live = row->state == TRP_NODE_LIVE, same = strcmp(row->address, address) == 0;
        view->joined += live;
        if (live && same)
            view->session = row->session;
        else if (row->state == TRP_NODE_GONE && same)
            snprintf(view->cause, sizeof view->cause, "%.111s", row->cause);
    }
}

static _Noreturn void serve(int fd, const char *keys, const char *transport)
{
    order what;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // A test that fails leaves none behind.
    while (recv(fd, &what, sizeof what, 0) == (ssize_t)sizeof what) {
        honest_view view = {.status = TROUPE_OK};
        if (what.what == START)
            view.status = start(keys, transport, what.address);
        else if (what.what == JOIN)
            view.status = troupe_node_join(what.address);
        else if (what.what == LEAVE)
            view.status = troupe_node_leave(what.address);
        snprintf(view.text, sizeof view.text, "%.255s", troupe_last_error()->text);
        look(what.address, &view);
        if (send(fd, &view, sizeof view, 0) != (ssize_t)sizeof view)
            break;
    }
    _exit(troupe_stop());
}

// ---- for the test

void honest_fork(honest *it, const char *keys, const char *transport)
{
    static int ours[16], count;
    int pair[2];
    assert_true(count < (int)(sizeof ours / sizeof ours[0]));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *it = (honest){.pid = fork(), .fd = pair[0]};
    assert_true(it->pid >= 0);
    ours[count++] = pair[0];
    if (it->pid == 0) {
        while (count > 0) // Whose end tells the others to end.
            close(ours[--count]);
        serve(pair[1], keys, transport);
    }
    close(pair[1]);
}

static void tell(honest *it, int what, const char *address)
{
    order told = {.what = what};
    snprintf(told.address, sizeof told.address, "%s", address);
    assert_int_equal(send(it->fd, &told, sizeof told, 0), sizeof told);
}

static honest_view hear(honest *it)
{
    honest_view view;
    assert_int_equal(recv(it->fd, &view, sizeof view, 0), sizeof view);
    return view;
}

static honest_view ask(honest *it, int what, const char *address)
{
    tell(it, what, address);
    return hear(it);
}

void honest_start(honest *it, const char *listen)
{
    honest_view view = ask(it, START, listen);
    if (view.status != TROUPE_OK)
        fail_msg("%s", view.text);
    it->id = view.id;
    it->incarnation = view.incarnation;
    it->node_pid = view.node_pid;
    snprintf(it->address, sizeof it->address, "%s", view.address);
}

void honest_end(honest *it)
{
    int status = -1;
    close(it->fd);
    if (!support_processes_end(&it->pid, 1, HANDSHAKE_SOON_MS))
        fail_msg("process %d does not end", (int)it->pid);
    assert_int_equal(waitpid(it->pid, &status, 0), it->pid);
    assert_true(status == 0 || support_was_killed(status));
    it->pid = 0;
}

honest_view honest_look(honest *it, const char *address)
{
    return ask(it, LOOK, address);
}

honest_view honest_join(honest *it, const char *address)
{
    return ask(it, JOIN, address);
}

void honest_join_begin(honest *it, const char *address)
{
    tell(it, JOIN, address);
}

honest_view honest_join_end(honest *it)
{
    return hear(it);
}

honest_view honest_leave(honest *it, const char *address)
{
    return ask(it, LEAVE, address);
}

typedef struct counting {
    honest *node;
    uint64_t least, last;
} counting;

static bool has_refused(void *context)
{
    counting *it = context;
    it->last = honest_look(it->node, "").refused;
    return it->last >= it->least;
}

void honest_await_refused(honest *it, uint64_t least)
{
    counting wanted = {.node = it, .least = least};
    if (!support_wait_until(has_refused, &wanted, HANDSHAKE_SOON_MS))
        fail_msg("%llu frames were refused, expected %llu", (unsigned long long)wanted.last,
                 (unsigned long long)least);
}
