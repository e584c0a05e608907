// plugin.c: a plugin as a host program would load it: it links to the library, the program does
// not. See program.c.
#include <stdio.h>
#include <sys/types.h>
#include <troupe/actor.h>
#include <unistd.h>

int plugin_run(int argc, char **argv, int executed);

typedef struct tally {
    int64_t total;
} tally;

static troupe_status tally_add(tally *self, const int64_t *amount, int64_t *total)
{
    *total = self->total += *amount;
    return TROUPE_OK;
}

static troupe_status tally_pid(tally *self, const troupe_none *none, int64_t *pid)
{
    (void)self;
    (void)none;
    *pid = getpid();
    return TROUPE_OK;
}

TROUPE_ACTOR(tally, (tally_add, int64_t, int64_t), (tally_pid, troupe_none, int64_t));

static int check(troupe_place place, int elsewhere)
{
    int64_t total = 0, pid = 0;
    tally_actor actor = troupe_spawn(tally, .place = place);
    for (int64_t i = 1; i < 10; i++)
        (void)troupe_tell(actor, tally_add, i);
    if (troupe_get(int64_t, troupe_call(actor, tally_add, 10), &total) != TROUPE_OK ||
        troupe_get(int64_t, troupe_call(actor, tally_pid), &pid) != TROUPE_OK)
        fprintf(stderr, "%s\n", troupe_last_error()->text);
    return total == 55 && (pid != getpid()) == elsewhere ? 0 : 1;
}

// In an executed worker it does not return.
int plugin_run(int argc, char **argv, int executed)
{
    if (troupe_start(argc, argv, .workers = 1,
                     .launch = executed ? TROUPE_LAUNCH_EXEC : TROUPE_LAUNCH_AUTO) != TROUPE_OK) {
        fprintf(stderr, "%s\n", troupe_last_error()->text);
        return 1;
    }
    int failures = check(TROUPE_PLACE_HERE, 0) + check(TROUPE_PLACE_WORKER, 1) +
                   check(TROUPE_PLACE_ISOLATED, 1);
    return failures + troupe_stop();
}
