// caf_micro.cpp: Savina's micro benchmarks in CAF, with the messages of benchmarks/savina.
#include "caf_peer.hpp"

#include <atomic>
#include <cmath>
#include <vector>

using namespace caf;

namespace peer
{

// ---- One message under way

// What a handler returns goes to the sender of its message.
static behavior ponger(event_based_actor *)
{
    return {
        [](ping) { return pong::value; },
    };
}

static behavior pinger(stateful_actor<int> *self, actor peer, actor over)
{
    self->state = 40000 - 1;
    return {
        [=](go) { self->send(peer, ping::value); },
        [=](pong) {
            if (self->state-- > 0) {
                self->send(peer, ping::value);
            } else {
                self->send(over, done::value);
                self->quit();
            }
        },
    };
}

void play_pingpong(actor_system &system)
{
    table self{system};
    auto right = self->spawn(ponger);
    auto left = self->spawn(pinger, right, actor_cast<actor>(self));
    self->send(left, go::value);
    wait_until_over(self);
}

// ---- One way

static behavior counter(stateful_actor<int64_t> *self, int64_t wanted, actor over)
{
    self->state = 0;
    return {
        [=](add, int amount) {
            self->state += amount;
            if (self->state == wanted) {
                self->send(over, done::value);
                self->quit();
            }
        },
    };
}

static behavior producer(event_based_actor *self, actor to, int messages)
{
    return {
        [=](go) {
            for (int i = 0; i < messages; i++)
                self->send(to, add::value, 1);
        },
    };
}

void play_count(actor_system &system)
{
    table self{system};
    auto sink = self->spawn(counter, int64_t{1000000}, actor_cast<actor>(self));
    self->send(self->spawn(producer, sink, 1000000), go::value);
    wait_until_over(self);
}

void play_fanin(actor_system &system)
{
    table self{system};
    auto sink = self->spawn(counter, int64_t{1000000}, actor_cast<actor>(self));
    for (int i = 0; i < 8; i++)
        self->send(self->spawn(producer, sink, 125000), go::value);
    wait_until_over(self);
}

// ---- One to many

static std::atomic<int> finished;

struct worker_state {
    int got = 0;
    double last = 0;
};

static behavior worker(stateful_actor<worker_state> *self, int wanted, int actors, actor over)
{
    return {
        [=](work) {
            double value = std::sin(37.2);
            self->state.last = value * value + self->state.got;
            if (++self->state.got < wanted)
                return;
            if (++finished == actors)
                self->send(over, done::value);
            self->quit();
        },
    };
}

void play_forkjoin(actor_system &system)
{
    table self{system};
    finished = 0;
    auto source = [](event_based_actor *me, actor over) -> behavior {
        return {
            [=](go) {
                std::vector<actor> workers;
                for (int i = 0; i < 60; i++)
                    workers.push_back(me->spawn(worker, 10000, 60, over));
                for (int m = 0; m < 10000; m++) {
                    for (auto &to : workers)
                        me->send(to, work::value);
                }
            },
        };
    };
    self->send(self->spawn(source, actor_cast<actor>(self)), go::value);
    wait_until_over(self);
}

void play_forkjoin_create(actor_system &system)
{
    table self{system};
    finished = 0;
    auto parent = [](event_based_actor *me, actor over) -> behavior {
        return {
            [=](go) {
                for (int i = 0; i < 40000; i++)
                    me->send(me->spawn(worker, 1, 40000, over), work::value);
            },
        };
    };
    self->send(self->spawn(parent, actor_cast<actor>(self)), go::value);
    wait_until_over(self);
}

// ---- A ring

static behavior member(stateful_actor<actor> *self, actor over)
{
    return {
        [=](go, const actor &next) { self->state = next; },
        [=](token, int left) {
            if (left > 0)
                self->send(self->state, token::value, left - 1);
            else
                self->send(over, done::value);
        },
        [=](quit) {
            self->state = nullptr;
            self->quit();
        },
    };
}

void play_ring(actor_system &system)
{
    table self{system};
    std::vector<actor> ring;
    for (int i = 0; i < 100; i++)
        ring.push_back(self->spawn(member, actor_cast<actor>(self)));
    for (int i = 0; i < 100; i++)
        self->send(ring[i], go::value, ring[(i + 1) % 100]);
    self->send(ring[0], token::value, 100000);
    wait_until_over(self);
    for (auto &one : ring)
        self->send(one, quit::value);
}

// ---- Many to one

static const int creatures = 100, meetings = 200000, faded = 3;

struct mall_state {
    actor waiting;
    int colour = 0, left = meetings, faded = 0;
    int64_t met = 0;
};

static behavior mall(stateful_actor<mall_state> *self, actor over)
{
    return {
        [=](ping, int colour, const actor &visitor) {
            auto &state = self->state;
            if (state.left == 0) {
                self->send(visitor, quit::value);
            } else if (!state.waiting) {
                state.waiting = visitor;
                state.colour = colour;
            } else {
                state.left--;
                self->send(state.waiting, pong::value, colour, visitor);
                state.waiting = nullptr;
            }
        },
        [=](add, int64_t count) {
            auto &state = self->state;
            state.met += count;
            if (++state.faded < creatures)
                return;
            if (state.met != 2 * meetings)
                wrong("chameneos");
            self->send(over, done::value);
            self->quit();
        },
    };
}

struct creature_state {
    int colour = 0;
    int64_t meetings = 0;
};

static behavior creature(stateful_actor<creature_state> *self, actor place, int colour)
{
    self->state.colour = colour;
    self->send(place, ping::value, colour, actor_cast<actor>(self));
    auto again = [=] {
        self->state.meetings++;
        self->send(place, ping::value, self->state.colour, actor_cast<actor>(self));
    };
    return {
        [=](pong, int other, const actor &partner) {
            auto &mine = self->state.colour;
            mine = mine == other ? mine : 3 - mine - other;
            self->send(partner, answer::value, mine);
            again();
        },
        [=](answer, int mine) {
            self->state.colour = mine;
            again();
        },
        [=](quit) {
            self->state.colour = faded;
            self->send(place, add::value, self->state.meetings);
            self->quit();
        },
    };
}

void play_chameneos(actor_system &system)
{
    table self{system};
    auto place = self->spawn(mall, actor_cast<actor>(self));
    for (int i = 0; i < creatures; i++)
        self->spawn(creature, place, i % 3);
    wait_until_over(self);
}

// ---- Many to many

struct big_state {
    int left = 20000 - 1;
    uint32_t random = 0;
    std::vector<actor> all;
};

static behavior big(stateful_actor<big_state> *self, uint32_t seed, actor over)
{
    self->state.random = seed;
    auto ping_someone = [=] {
        auto &state = self->state;
        auto &to = state.all[next_random(state.random) % state.all.size()];
        self->send(to, ping::value);
    };
    return {
        [=](go, const std::vector<actor> &all) {
            self->state.all = all;
            ping_someone();
        },
        [](ping) { return pong::value; },
        [=](pong) {
            if (self->state.left-- > 0)
                ping_someone();
            else if (++finished == 120)
                self->send(over, done::value);
        },
        [=](quit) {
            self->state.all.clear();
            self->quit();
        },
    };
}

void play_big(actor_system &system)
{
    table self{system};
    finished = 0;
    std::vector<actor> all;
    for (uint32_t i = 0; i < 120; i++)
        all.push_back(self->spawn(big, i + 1, actor_cast<actor>(self)));
    for (auto &one : all)
        self->send(one, go::value, all);
    wait_until_over(self);
    for (auto &one : all)
        self->send(one, quit::value);
}

// ---- A tree

struct node_state {
    int answers = 0;
    int64_t sum = 0;
};

static behavior node(stateful_actor<node_state> *self, actor parent)
{
    return {
        [=](work, int n) {
            if (n <= 2) {
                self->send(parent, answer::value, int64_t{1});
                self->quit();
                return;
            }
            for (int i = 1; i <= 2; i++)
                self->send(self->spawn(node, actor_cast<actor>(self)), work::value, n - i);
        },
        [=](answer, int64_t value) {
            self->state.sum += value;
            if (++self->state.answers < 2)
                return;
            self->send(parent, answer::value, self->state.sum);
            self->quit();
        },
    };
}

void play_fib(actor_system &system)
{
    table self{system};
    self->send(self->spawn(node, actor_cast<actor>(self)), work::value, 25);
    self->receive([](answer, int64_t sum) {
        if (sum != 75025)
            wrong("fib");
    });
}

} // namespace peer
