// chameneos.c: Savina's Chameneos: 100 creatures meet in pairs at a mall, 200,000 times, and take
// each other's complementary colour.
#include "savina.h"

enum { CREATURES = 100, MEETINGS = 200000 };

enum { BLUE, RED, YELLOW, FADED };

TROUPE_STRUCT(visit, (int, colour), (troupe_actor, visitor));

// The third colour, or the same if both are alike.
static int complement(int mine, int other)
{
    return mine == other ? mine : 3 - mine - other;
}

// The mall's methods come first: creatures know its type, and it knows them by a plain address.
typedef struct mall {
    visit waiting; // Without a visitor: nobody waits.
    int64_t left, met;
    int faded;
} mall;

static troupe_status mall_open(mall *self, const troupe_none *none)
{
    (void)none;
    self->left = MEETINGS;
    return TROUPE_OK;
}

static void mall_close(mall *self)
{
    (void)self;
}

static troupe_status mall_meet(mall *self, const visit *who, troupe_none *none);
static troupe_status mall_count(mall *self, const int64_t *meetings, troupe_none *none);

TROUPE_ACTOR_INIT(mall, (mall_open, troupe_none), mall_close, (mall_meet, visit, troupe_none),
                  (mall_count, int64_t, troupe_none));

typedef struct creature {
    mall_actor mall;
    int colour;
    int64_t meetings;
} creature;

TROUPE_STRUCT(birth, (mall_actor, mall), (int, colour));

static troupe_status creature_live(creature *self, const birth *how, troupe_none *none)
{
    (void)none;
    self->mall = how->mall;
    self->colour = how->colour;
    return troupe_tell(self->mall, mall_meet, self->colour, troupe_self());
}

static troupe_status creature_change(creature *self, const int *colour, troupe_none *none)
{
    (void)none;
    self->colour = *colour;
    self->meetings++;
    return troupe_tell(self->mall, mall_meet, self->colour, troupe_self());
}

static troupe_status creature_fade(creature *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    self->colour = FADED;
    return troupe_tell(self->mall, mall_count, self->meetings);
}

static troupe_status creature_partner(creature *self, const visit *other, troupe_none *none);

TROUPE_ACTOR(creature, (creature_live, birth, troupe_none), (creature_partner, visit, troupe_none),
             (creature_change, int, troupe_none), (creature_fade, troupe_none, troupe_none));

// Who waited at the mall hears of the second visitor, and tells it the new colour.
static troupe_status creature_partner(creature *self, const visit *other, troupe_none *none)
{
    (void)none;
    self->colour = complement(self->colour, other->colour);
    self->meetings++;
    troupe_tell((creature_actor){other->visitor}, creature_change, self->colour);
    return troupe_tell(self->mall, mall_meet, self->colour, troupe_self());
}

static troupe_status mall_meet(mall *self, const visit *who, troupe_none *none)
{
    (void)none;
    if (self->left == 0)
        return troupe_tell((creature_actor){who->visitor}, creature_fade, 0);
    if (self->waiting.visitor.id == 0) {
        self->waiting = *who;
        return TROUPE_OK;
    }
    self->left--;
    creature_actor first = {self->waiting.visitor};
    self->waiting = (visit){0};
    return troupe_tell_from(first, creature_partner, who);
}

// A creature that fades says how often it met; each meeting is counted by both.
static troupe_status mall_count(mall *self, const int64_t *meetings, troupe_none *none)
{
    (void)none;
    self->met += *meetings;
    if (++self->faded < CREATURES)
        return TROUPE_OK;
    if (self->met != 2 * MEETINGS)
        savina_wrong("the meetings", self->met, 2 * MEETINGS);
    savina_over();
    return TROUPE_OK;
}

static void play(void)
{
    mall_actor the_mall = savina_spawn(mall);
    creature_actor creatures[CREATURES];
    for (int i = 0; i < CREATURES; i++) {
        creatures[i] = savina_spawn(creature);
        troupe_tell(creatures[i], creature_live, the_mall, i % 3);
    }
    savina_wait();
    for (int i = 0; i < CREATURES; i++)
        troupe_actor_kill(creatures[i]);
    troupe_actor_kill(the_mall);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, MEETINGS, play);
}
