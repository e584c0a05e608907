// caf_more.cpp: Savina's Concurrent Dictionary, Banking, N-Queens and Recursive Matrix
// Multiplication in CAF, with the messages of benchmarks/savina; idle actors and requests.
#include "caf_peer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

using namespace caf;

// Messages of our own types, which never leave the process and so need no serialization.
struct small {
    std::array<uint8_t, 64> bytes;
};
struct board {
    int depth;
    std::array<uint8_t, 12> rows;
};

struct product {
    int row, column, inner, size;
};

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(small)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(board)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(product)

namespace peer
{

// ---- Concurrent Dictionary

struct dictionary_state {
    std::unordered_map<int, int> entries;
    int finished = 0;
};

static behavior dictionary(stateful_actor<dictionary_state> *self, actor over)
{
    self->state.entries.reserve(1024);
    return {
        [=](ping, int key, int value, const actor &from) {
            self->state.entries[key] = value;
            self->send(from, answer::value, value);
        },
        [=](ping, int key, const actor &from) {
            auto found = self->state.entries.find(key);
            self->send(from, answer::value, found == self->state.entries.end() ? 0 : found->second);
        },
        [=](done) {
            if (++self->state.finished < 20)
                return;
            self->send(over, done::value);
            self->quit();
        },
    };
}

struct asker_state {
    int left = 10000;
    uint32_t random = 0;
};

static behavior asker(stateful_actor<asker_state> *self, actor server, uint32_t seed)
{
    self->state.random = seed;
    auto ask = [=] {
        auto &state = self->state;
        if (state.left-- == 0) {
            self->send(server, done::value);
            self->quit();
            return;
        }
        int key = 1 + static_cast<int>(next_random(state.random) % 512);
        auto me = actor_cast<actor>(self);
        if (next_random(state.random) % 100 < 10)
            self->send(server, ping::value, key, key * 2, me);
        else
            self->send(server, ping::value, key, me);
    };
    ask();
    return {
        [=](answer, int) { ask(); },
    };
}

void play_dictionary(actor_system &system)
{
    table self{system};
    auto server = self->spawn(dictionary, actor_cast<actor>(self));
    for (uint32_t i = 0; i < 20; i++)
        self->spawn(asker, server, i + 1);
    wait_until_over(self);
}

// ---- Banking: an account that pays awaits the receiver, and looks at nothing else meanwhile.

static behavior account(stateful_actor<double> *self)
{
    self->state = 1000;
    return {
        [=](work, double amount, const actor &to) -> result<done> {
            auto promise = self->make_response_promise<done>();
            self->state -= amount;
            self->request(to, infinite, add::value, amount).await([=](done) mutable {
                promise.deliver(done::value);
            });
            return promise;
        },
        [=](add, double amount) {
            self->state += amount;
            return done::value;
        },
    };
}

static behavior teller(stateful_actor<int> *self, std::vector<actor> accounts, actor over)
{
    self->state = 0;
    return {
        [=](go) {
            uint32_t random = 123456;
            for (int i = 0; i < 50000; i++) {
                uint32_t payer = next_random(random) % 800;
                uint32_t receiver = payer + 1 + next_random(random) % (1000 - payer - 1);
                double amount = next_random(random) % 1000;
                self->send(accounts[payer], work::value, amount, accounts[receiver]);
            }
        },
        [=](done) {
            if (++self->state < 50000)
                return;
            self->send(over, done::value);
            self->quit();
        },
    };
}

void play_banking(actor_system &system)
{
    table self{system};
    std::vector<actor> accounts;
    for (int i = 0; i < 1000; i++)
        accounts.push_back(self->spawn(account));
    self->send(self->spawn(teller, accounts, actor_cast<actor>(self)), go::value);
    wait_until_over(self);
}

// ---- N-Queens

static bool is_valid(const std::array<uint8_t, 12> &rows, int count)
{
    int last = rows[count - 1];
    for (int i = 0; i < count - 1; i++) {
        int distance = count - 1 - i;
        if (rows[i] == last || rows[i] == last - distance || rows[i] == last + distance)
            return false;
    }
    return true;
}

static void solve(event_based_actor *self, const actor &master, board &at)
{
    if (at.depth == 12) {
        self->send(master, answer::value);
        return;
    }
    at.depth++;
    for (int row = 0; row < 12; row++) {
        at.rows[at.depth - 1] = static_cast<uint8_t>(row);
        if (is_valid(at.rows, at.depth))
            solve(self, master, at);
    }
    at.depth--;
}

static behavior queens_worker(event_based_actor *self, actor master)
{
    return {
        [=](work, board mine) {
            if (mine.depth >= 4) {
                solve(self, master, mine);
            } else {
                mine.depth++;
                for (int row = 0; row < 12; row++) {
                    mine.rows[mine.depth - 1] = static_cast<uint8_t>(row);
                    if (is_valid(mine.rows, mine.depth))
                        self->send(master, work::value, mine);
                }
            }
            self->send(master, done::value);
        },
        [=](quit) { self->quit(); },
    };
}

struct master_state {
    std::vector<actor> workers;
    size_t next = 0;
    int64_t sent = 0, finished = 0, solutions = 0;
};

static behavior queens_master(stateful_actor<master_state> *self, actor over)
{
    for (int i = 0; i < 20; i++)
        self->state.workers.push_back(self->spawn(queens_worker, actor_cast<actor>(self)));
    return {
        [=](work, const board &what) {
            auto &state = self->state;
            state.sent++;
            self->send(state.workers[state.next], work::value, what);
            state.next = (state.next + 1) % state.workers.size();
        },
        [=](answer) { self->state.solutions++; },
        [=](done) {
            auto &state = self->state;
            if (++state.finished < state.sent)
                return;
            if (state.solutions != 14200)
                wrong("nqueens");
            for (auto &worker : state.workers)
                self->send(worker, quit::value);
            state.workers.clear();
            self->send(over, done::value);
            self->quit();
        },
    };
}

void play_nqueens(actor_system &system)
{
    table self{system};
    auto master = self->spawn(queens_master, actor_cast<actor>(self));
    self->send(master, work::value, board{});
    wait_until_over(self);
}

// ---- Recursive Matrix Multiplication: a block of the result belongs to one worker.

static const int size = 1024;
using matrix = double (*)[size];
static matrix left_matrix, right_matrix, result_matrix;

static void multiply(const product &what)
{
    for (int i = what.row; i < what.row + what.size; i++) {
        for (int k = what.inner; k < what.inner + what.size; k++) {
            double factor = left_matrix[i][k];
            for (int j = what.column; j < what.column + what.size; j++)
                result_matrix[i][j] += factor * right_matrix[k][j];
        }
    }
}

static behavior matrix_worker(event_based_actor *self, actor master)
{
    return {
        [=](work, const product &what) {
            if (what.size * what.size <= 16384) {
                multiply(what);
            } else {
                int half = what.size / 2;
                for (int i = 0; i < 8; i++) {
                    product part{what.row + (i & 1) * half, what.column + (i >> 1 & 1) * half,
                                 what.inner + (i >> 2) * half, half};
                    self->send(master, work::value, part);
                }
            }
            self->send(master, done::value);
        },
        [=](quit) { self->quit(); },
    };
}

static behavior matrix_master(stateful_actor<master_state> *self, actor over)
{
    for (int i = 0; i < 20; i++)
        self->state.workers.push_back(self->spawn(matrix_worker, actor_cast<actor>(self)));
    return {
        [=](work, const product &what) {
            auto &state = self->state;
            state.sent++;
            size_t block = what.row / what.size * (size / what.size) + what.column / what.size;
            self->send(state.workers[block % state.workers.size()], work::value, what);
        },
        [=](done) {
            auto &state = self->state;
            if (++state.finished < state.sent)
                return;
            for (auto &worker : state.workers)
                self->send(worker, quit::value);
            state.workers.clear();
            self->send(over, done::value);
            self->quit();
        },
    };
}

void play_matmul(actor_system &system)
{
    if (!left_matrix) {
        left_matrix = new double[size][size];
        right_matrix = new double[size][size];
        result_matrix = new double[size][size];
        for (int i = 0; i < size * size; i++) {
            left_matrix[i / size][i % size] = 1;
            right_matrix[i / size][i % size] = 2;
        }
    }
    std::memset(result_matrix, 0, sizeof(double[size][size]));
    table self{system};
    auto master = self->spawn(matrix_master, actor_cast<actor>(self));
    self->send(master, work::value, product{0, 0, 0, size});
    wait_until_over(self);
    if (result_matrix[size - 1][size - 1] != 2.0 * size)
        wrong("matmul");
}

// ---- Memory and requests

static double resident_bytes()
{
    long pages = 0, resident = 0;
    FILE *file = std::fopen("/proc/self/statm", "r");
    if (!file || std::fscanf(file, "%ld %ld", &pages, &resident) != 2)
        wrong("statm");
    std::fclose(file);
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// An actor that answers, and then waits for more.
static behavior idler(event_based_actor *self)
{
    return {
        [=](ping, int n) { return n + 1; },
        [=](quit) { self->quit(); },
    };
}

void measure_idle(actor_system &system, int actors, bool bytes)
{
    table self{system};
    std::vector<actor> all;
    all.reserve(actors);
    double before = resident_bytes();
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < actors; i++)
        all.push_back(self->spawn(idler));
    double made = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (auto &one : all) {
        self->request(one, infinite, ping::value, 1)
            .receive([](int) {}, [](const error &) { wrong("idle"); });
    }
    std::printf("%.9g nan nan nan\n", bytes ? (resident_bytes() - before) / actors : actors / made);
    std::fflush(stdout);
    std::_Exit(EXIT_SUCCESS); // Ending a million actors is not what is measured.
}

static behavior echoer(event_based_actor *self)
{
    return {
        [](ping, const small &question) { return question; },
        [=](quit) { self->quit(); },
    };
}

// A request of 64 bytes from the main thread and its answer, one at a time, after a pause that lets
// both ends fall asleep.
void measure_call(actor_system &system, int calls, int pause_us)
{
    table self{system};
    auto server = self->spawn(echoer);
    small question{{1, 2, 3}};
    auto check = [&](const small &answer) {
        if (answer.bytes != question.bytes)
            wrong("call");
    };
    std::vector<double> samples;
    samples.reserve(calls);
    for (int i = 0; i < calls + calls / 5; i++) {
        if (pause_us > 0)
            std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        auto start = std::chrono::steady_clock::now();
        self->request(server, infinite, ping::value, question).receive(check, [](const error &) {
            wrong("call");
        });
        auto passed = std::chrono::steady_clock::now() - start;
        if (i >= calls / 5)
            samples.push_back(std::chrono::duration<double, std::micro>(passed).count());
    }
    std::sort(samples.begin(), samples.end());
    auto at = [&](double share) { return samples[static_cast<size_t>(share * (calls - 1))]; };
    std::printf("%.9g %.9g %.9g %.9g\n", at(0.5), at(0.5), at(0.99), at(0.999));
    self->send(server, quit::value);
}

} // namespace peer
