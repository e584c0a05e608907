// test_waits_and_losses.other.c: waits for training, jobs, sweeps, room in the store, and nodes.
#include "waits_and_losses.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <support.h>
#include <sys/socket.h>
#include <troupe.h>

TROUPE_STRUCT(waiting, (double, rate));

// Loses something in the middle. The reports after that cannot be made without the other ranks.
static troupe_status wait_loop(troupe_rank *me, const waiting *config)
{
    TROUPE_TRY(troupe_report(me, {"loss", config->rate}));
    atomic_store(&mine->waits, 1);
    TROUPE_TRY(waits_hold_on());
    for (int i = 0; i < 40; i++)
        TROUPE_TRY(troupe_report(me, {"loss", config->rate / 2}));
    return TROUPE_OK;
}
TROUPE_TRAINER(wait_loop, waiting);

troupe_status wait_train(void)
{
    troupe_result *result = NULL;
    waiting config = {.rate = 1};
    troupe_status status = troupe_train(wait_loop, &config, &result, .storage = storage, .ranks = 2,
                                        .cpus_per_rank = 0.5, .collective_timeout_ms = LIMIT_MS,
                                        .restarts = TROUPE_FOREVER);
    return status;
}

troupe_status wait_queued_job(void)
{
    troupe_result *result = NULL;
    troupe_job *job;
    waiting config = {.rate = 1};
    waits_take_all();
    troupe_must(troupe_submit(wait_loop, &config, NULL, &job, .storage = storage));
    waits_begin();
    troupe_status status = troupe_job_wait(job, mine->limit_ms > 0 ? mine->limit_ms : -1, &result);
    return status == TROUPE_OK ? troupe_result_status(result) : status;
}

// Two trials run at once, and two more follow where those are killed.
troupe_status wait_tune(void)
{
    int trials = mine->what == WORKER_K ? 4 : 2;
    troupe_sweep *sweep;
    static const troupe_param space[] = {TROUPE_UNIFORM(waiting, rate, 0, 1)};
    return troupe_tune(wait_loop, space, &sweep, .metric = "loss", .goal = TROUPE_MINIMIZE,
                       .trials = trials, .concurrent = 2,
                       .trial_timeout_s = mine->limit_ms / 1000.0,
                       .train = TROUPE_OPTIONS(troupe_train_options, .storage = storage));
}

static void *make_room_later(void *ref)
{
    (void)waits_hold_on();
    troupe_ref_drop(*(troupe_ref *)ref);
    return NULL;
}

// Half of the store is taken, so that there is no room for more than half of it.
troupe_status wait_room(void)
{
    static char data[ROOM_BYTES / 2 + 1];
    static troupe_ref most;
    pthread_t thread;
    most = troupe_put_bytes(data, sizeof data);
    waits_begin();
    assert_int_equal(pthread_create(&thread, NULL, make_room_later, &most), 0);
    (void)pthread_detach(thread);
    troupe_buffer buffer;
    TROUPE_TRY(troupe_buffer_create(sizeof data, &buffer));
    troupe_buffer_discard(&buffer);
    return TROUPE_OK;
}

// Somebody listens there and never says a word.
troupe_status wait_join_node(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof to;
    char address[32];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&to, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &size), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(to.sin_port));
    waits_begin();
    return troupe_node_join(address);
}
