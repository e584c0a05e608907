// test_strangers_soak.attack.c: the attackers without a key, at every door of the node in turn.
#include "strangers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS = 4000,
    FEW = 160,
    // More than are taken, each as large as one may be: what a part of a message may have, and what
    // encryption may add to it.
    LARGE = STRANGERS * 5 / 4,
    LARGEST = 65536 + 4096,
};

typedef struct assault {
    siege *board;
    score *tally;
    stranger_budget *budget;
    uint64_t seed;
    int fds[CONNECTIONS];
    size_t unsaid[LARGE]; // What is left of a claim that is to stay one.
    int door;             // The others stay as they are; -1: each in turn.
    int most, next;       // So many are open at once; which comes next.
} assault;

// The connection of that place, made again; -1: it cannot be just now.
static int open_next(assault *it, int *place)
{
    const char *address = it->board->doors[it->door >= 0 ? it->door : it->next % DOORS].address;
    *place = it->next++ % it->most;
    int *fd = &it->fds[*place];
    if (*fd >= 0) {
        atomic_fetch_add(&it->tally->shut, stranger_is_shut(*fd));
        stranger_drop(*fd);
    }
    *fd = stranger_connect(address);
    atomic_fetch_add(&it->tally->opened, *fd >= 0);
    return *fd;
}

static void send_garbage(assault *it, int fd)
{
    unsigned char bytes[256];
    size_t size = 1 + stranger_roll(&it->seed) % sizeof bytes;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)stranger_roll(&it->seed);
    if (stranger_roll(&it->seed) % 4 == 0 && size > 10) // Likely at first sight.
        bytes[0] = 0xff, bytes[9] = 0x7f, bytes[10] = 3;
    (void)stranger_send(fd, bytes, size);
}

static void send_half(assault *it, int fd)
{
    static const char *const mechanisms[] = {"NULL", "PLAIN", "GSSAPI", "curve", ""};
    unsigned char some[64] = {0xff, [9] = 0x7f};
    uint64_t dice = stranger_roll(&it->seed);
    switch (dice % 6) {
    case 0: // A part of a greeting.
        (void)stranger_send(fd, some, 1 + dice / 8 % 10);
        break;
    case 1: // A whole one, and no more.
        (void)stranger_greet(fd, "CURVE");
        break;
    case 2:
        (void)(stranger_greet(fd, mechanisms[dice / 8 % 5]) &&
               stranger_command(fd, "\5READY\xbSocket-Type\0\0\0\6DEALER", 29));
        break;
    case 3:
        (void)(stranger_greet(fd, "CURVE") && stranger_hello(fd, &it->seed));
        break;
    case 4: // The handshake's last command first.
        (void)(stranger_greet(fd, "CURVE") && stranger_command(fd, "\10INITIATE", 9) &&
               stranger_hello(fd, &it->seed));
        break;
    default: // A message where a command should be.
        (void)(stranger_greet(fd, "CURVE") && stranger_claim(fd, 2, 5) &&
               stranger_send(fd, "hello", 5));
        break;
    }
}

// Claims to be as large as may be, and then is but for the last byte, or to be larger.
static void send_claim(assault *it)
{
    static const uint64_t sizes[] = {LARGEST + 1, 1u << 20,   32u << 20, 64u << 20,
                                     900 << 20,   1ull << 32, INT64_MAX, UINT64_MAX};
    static unsigned char some[LARGEST];
    uint64_t dice = stranger_roll(&it->seed);
    int place = it->next % it->most, fd = it->fds[place];
    if (fd >= 0 && !stranger_is_shut(fd)) {
        ssize_t sent = send(fd, some, it->unsaid[place], MSG_NOSIGNAL | MSG_DONTWAIT);
        it->unsaid[place] -= sent > 0 ? (size_t)sent : 0;
        it->next++;
    } else if ((fd = open_next(it, &place)) >= 0 && stranger_greet(fd, "CURVE")) {
        bool kept = dice % 8 != 0;
        it->unsaid[place] = kept ? LARGEST - 1 : 0;
        (void)stranger_claim(fd, dice / 8 % 4 == 0 ? 3 : 6, kept ? LARGEST : sizes[dice / 32 % 8]);
    }
}

// With so much to spare that closing all of them counts, too.
static void drop_all(assault *it)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        if (it->fds[i] < 0)
            continue;
        atomic_fetch_add(&it->tally->shut, stranger_is_shut(it->fds[i]));
        stranger_drop(it->fds[i]);
        stranger_pace(it->budget);
    }
}

void strangers_attack(siege *it, phase what, uint64_t seed, stranger_budget *budget)
{
    static assault attacker;
    attacker =
        (assault){.board = it,
                  .tally = &it->tallies[what],
                  .budget = budget,
                  .seed = seed,
                  .door = what == SILENT || what == CLAIMS ? (int)(seed / PHASES % DOORS) : -1,
                  .most = what == SILENT   ? CONNECTIONS
                          : what == CLAIMS ? LARGE
                                           : FEW};
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) { // As many as the system lets it have.
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_max < CONNECTIONS + 100 && what == SILENT)
            attacker.most = (int)limit.rlim_max - 100;
    }
    for (int i = 0; i < CONNECTIONS; i++)
        attacker.fds[i] = -1;
    while (atomic_load(&it->attack_over) == 0) {
        int place, fd = what == CLAIMS ? -1 : open_next(&attacker, &place);
        if (what == CLAIMS)
            send_claim(&attacker);
        else if (fd < 0)
            usleep(1000);
        else if (what == GARBAGE)
            send_garbage(&attacker, fd);
        else if (what == HALF)
            send_half(&attacker, fd);
        stranger_pace(budget);
    }
    drop_all(&attacker);
}
