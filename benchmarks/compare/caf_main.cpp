// caf_main.cpp: chooses the benchmark, plays it and prints a round; see caf_peer.hpp.
#include "caf_peer.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace peer
{

[[noreturn]] void wrong(const char *what)
{
    std::fprintf(stderr, "peer_caf: %s came out wrong\n", what);
    std::_Exit(EXIT_FAILURE);
}

static const game games[] = {
    {"pingpong", 2.0 * 40000, play_pingpong},
    {"count", 1e6, play_count},
    {"fanin", 1e6, play_fanin},
    {"forkjoin", 60.0 * 10000, play_forkjoin},
    {"forkjoin_create", 40000, play_forkjoin_create},
    {"ring", 100000, play_ring},
    {"chameneos", 200000, play_chameneos},
    {"big", 2.0 * 120 * 20000, play_big},
    {"fib", 150049, play_fib},
    {"dictionary", 20.0 * 10000, play_dictionary},
    {"banking", 50000, play_banking},
    {"nqueens", 14200, play_nqueens},
    {"matmul", 2.0 * 1024 * 1024 * 1024, play_matmul},
};

static int measure(const game &what, caf::actor_system &system, double wanted)
{
    using clock = std::chrono::steady_clock;
    if (wanted > 0)
        what.play(system);
    int played = 0;
    double passed = 0;
    auto start = clock::now();
    do {
        what.play(system);
        played++;
        passed = std::chrono::duration<double>(clock::now() - start).count();
    } while (passed < wanted);
    std::printf("%.9g nan nan nan\n", what.units * played / passed);
    return EXIT_SUCCESS;
}

} // namespace peer

int main(int argc, char **argv)
{
    if (argc < 3) {
        std::fprintf(stderr,
                     "usage: peer_caf <benchmark> <threads> [seconds | count] [pause us]\n");
        return EXIT_FAILURE;
    }
    caf::actor_system_config config;
    config.set("scheduler.max-threads", static_cast<size_t>(std::atoi(argv[2])));
    caf::actor_system system{config};
    double number = argc > 3 ? std::atof(argv[3]) : 0.4;
    bool idle = std::strcmp(argv[1], "idle") == 0;
    if (idle || std::strcmp(argv[1], "spawn") == 0) {
        peer::measure_idle(system, static_cast<int>(number), idle);
        return EXIT_SUCCESS;
    }
    if (std::strcmp(argv[1], "call") == 0) {
        peer::measure_call(system, static_cast<int>(number), argc > 4 ? std::atoi(argv[4]) : 0);
        return EXIT_SUCCESS;
    }
    for (const auto &what : peer::games) {
        if (std::strcmp(what.name, argv[1]) == 0)
            return peer::measure(what, system, number);
    }
    std::fprintf(stderr, "peer_caf: no benchmark %s\n", argv[1]);
    return EXIT_FAILURE;
}
