// 8_two_nodes.c: two programs, each a node: one has a counter, the other calls it over the network.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <troupe.h>

typedef struct counter {
    int64_t count;
} counter;

static troupe_status counter_next(counter *self, const troupe_none *nothing, int64_t *count)
{
    (void)nothing;
    *count = ++self->count;
    return TROUPE_OK;
}

static troupe_status counter_leave(counter *self, const troupe_none *nothing, troupe_none *result)
{
    (void)self, (void)nothing, (void)result;
    return troupe_actor_exit();
}

TROUPE_ACTOR(counter, (counter_next, troupe_none, int64_t),
             (counter_leave, troupe_none, troupe_none));

// 8_two_nodes serve KEYS: makes the keys if there are none, listens, and serves until it is told.
static int serve(int argc, char **argv)
{
    troupe_status made = troupe_keys_make(argv[2]); // A file that only you may read.
    if (made != TROUPE_EXISTS)
        troupe_must(made);
    troupe_must(troupe_start(argc, argv, .listen = "127.0.0.1:0", .keys = argv[2]));
    counter_actor mine = troupe_spawn(counter, .name = "counter");
    printf("%s\n", troupe_node_address());
    fflush(stdout);
    troupe_must(troupe_actor_await_end(mine, TROUPE_FOREVER, NULL));
    return troupe_stop();
}

// 8_two_nodes ask KEYS ADDRESS: calls the other node's actor like any other.
static int ask(int argc, char **argv)
{
    troupe_must(troupe_start(argc, argv, .listen = "127.0.0.1:0", .keys = argv[2]));
    troupe_must(troupe_node_join(argv[3]));
    counter_actor theirs;
    troupe_must(troupe_lookup(counter, "counter", &theirs));

    int64_t count = 0;
    for (int i = 0; i < 3; i++)
        troupe_must(troupe_get(int64_t, troupe_call(theirs, counter_next), &count));
    printf("counted to %" PRId64 " over there\n", count);
    troupe_tell(theirs, counter_leave);
    troupe_must(troupe_actor_await_end(theirs, 10000, NULL));
    return troupe_stop();
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(argc, argv);
    if (argc == 4 && strcmp(argv[1], "ask") == 0)
        return ask(argc, argv);
    fprintf(stderr, "usage: 8_two_nodes serve KEYS | ask KEYS ADDRESS\n");
    return 2;
}
