// pingpong.c: Savina's PingPong: one message is under way between two actors, 40,000 pings and as
// many pongs. What one hop costs.
#include "savina.h"

enum { PINGS = 40000 };

typedef struct player {
    troupe_actor peer;
    int left;
} player;

static troupe_status player_serve(player *self, const troupe_actor *peer, troupe_none *none);
static troupe_status player_ping(player *self, const troupe_none *from, troupe_none *none);
static troupe_status player_pong(player *self, const troupe_none *from, troupe_none *none);
static troupe_status player_meet(player *self, const troupe_actor *peer, troupe_none *none);

TROUPE_ACTOR(player, (player_serve, troupe_actor, troupe_none),
             (player_meet, troupe_actor, troupe_none), (player_ping, troupe_none, troupe_none),
             (player_pong, troupe_none, troupe_none));

static troupe_status player_meet(player *self, const troupe_actor *peer, troupe_none *none)
{
    (void)none;
    self->peer = *peer;
    return TROUPE_OK;
}

static troupe_status player_serve(player *self, const troupe_actor *peer, troupe_none *none)
{
    (void)none;
    self->peer = *peer;
    self->left = PINGS - 1;
    return troupe_tell((player_actor){self->peer}, player_ping, 0);
}

static troupe_status player_ping(player *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    return troupe_tell((player_actor){self->peer}, player_pong, 0);
}

static troupe_status player_pong(player *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    if (self->left-- > 0)
        return troupe_tell((player_actor){self->peer}, player_ping, 0);
    savina_over();
    return TROUPE_OK;
}

static void play(void)
{
    player_actor left = savina_spawn(player), right = savina_spawn(player);
    troupe_tell_from(right, player_meet, &left.address);
    troupe_tell_from(left, player_serve, &right.address);
    savina_wait();
    troupe_actor_kill(left);
    troupe_actor_kill(right);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, 2.0 * PINGS, play);
}
