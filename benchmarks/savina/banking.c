// banking.c: Savina's Banking: a teller orders 50,000 transfers between 1,000 accounts. An account
// that pays waits for the receiver's word before it looks at its next order; those that come
// meanwhile are set aside. Chains of requests and answers.
#include "savina.h"

#include <stdlib.h>

enum { ACCOUNTS = 1000, TRANSFERS = 50000 };

static troupe_actor accounts[ACCOUNTS];

TROUPE_STRUCT(transfer, (troupe_actor, teller), (troupe_actor, to), (double, amount));
TROUPE_STRUCT(deposit, (troupe_actor, from), (double, amount));

typedef struct teller {
    int done;
} teller;

static troupe_status teller_open(teller *self, const troupe_none *from, troupe_none *none);
static troupe_status teller_done(teller *self, const troupe_none *from, troupe_none *none);

TROUPE_ACTOR(teller, (teller_open, troupe_none, troupe_none),
             (teller_done, troupe_none, troupe_none));

typedef struct account {
    double balance;
    bool waiting;     // For the receiver of `current`.
    transfer current; // The order that is carried out.
    transfer *aside;  // Orders that came meanwhile, the oldest at `first`.
    size_t first, count, capacity;
} account;

static void account_close(account *self)
{
    free(self->aside);
}

static troupe_status account_open(account *self, const troupe_none *none)
{
    (void)none;
    self->balance = 1000;
    return TROUPE_OK;
}

static troupe_status account_pay(account *self, const transfer *order, troupe_none *none);
static troupe_status account_take(account *self, const deposit *what, troupe_none *none);
static troupe_status account_taken(account *self, const troupe_none *from, troupe_none *none);

TROUPE_ACTOR_INIT(account, (account_open, troupe_none), account_close,
                  (account_pay, transfer, troupe_none), (account_take, deposit, troupe_none),
                  (account_taken, troupe_none, troupe_none));

static troupe_status carry_out(account *self, const transfer *order)
{
    self->waiting = true;
    self->current = *order;
    self->balance -= order->amount;
    return troupe_tell((account_actor){order->to}, account_take, troupe_self(), order->amount);
}

static troupe_status set_aside(account *self, const transfer *order)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity ? 2 * self->capacity : 8;
        transfer *larger = malloc(capacity * sizeof *larger);
        if (!larger)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu orders", capacity);
        for (size_t i = 0; i < self->count; i++)
            larger[i] = self->aside[(self->first + i) % self->capacity];
        free(self->aside);
        self->aside = larger;
        self->capacity = capacity;
        self->first = 0;
    }
    self->aside[(self->first + self->count++) % self->capacity] = *order;
    return TROUPE_OK;
}

static troupe_status account_pay(account *self, const transfer *order, troupe_none *none)
{
    (void)none;
    return self->waiting ? set_aside(self, order) : carry_out(self, order);
}

static troupe_status account_take(account *self, const deposit *what, troupe_none *none)
{
    (void)none;
    self->balance += what->amount;
    return troupe_tell((account_actor){what->from}, account_taken, 0);
}

static troupe_status account_taken(account *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    self->waiting = false;
    troupe_tell((teller_actor){self->current.teller}, teller_done, 0);
    if (self->count == 0)
        return TROUPE_OK;
    transfer next = self->aside[self->first];
    self->first = (self->first + 1) % self->capacity;
    self->count--;
    return carry_out(self, &next);
}

// The receiver always comes after the payer, so that no two wait for each other.
static troupe_status teller_open(teller *self, const troupe_none *from, troupe_none *none)
{
    (void)self, (void)from, (void)none;
    uint32_t random = 123456;
    for (int i = 0; i < TRANSFERS; i++) {
        uint32_t payer = savina_random(&random) % (ACCOUNTS / 10 * 8);
        uint32_t receiver = payer + 1 + savina_random(&random) % (ACCOUNTS - payer - 1);
        double amount = savina_random(&random) % 1000;
        troupe_tell((account_actor){accounts[payer]}, account_pay, troupe_self(),
                    accounts[receiver], amount);
    }
    return TROUPE_OK;
}

static troupe_status teller_done(teller *self, const troupe_none *from, troupe_none *none)
{
    (void)from, (void)none;
    if (++self->done == TRANSFERS)
        savina_over();
    return TROUPE_OK;
}

static void play(void)
{
    for (int i = 0; i < ACCOUNTS; i++)
        accounts[i] = savina_spawn(account).address;
    teller_actor the_teller = savina_spawn(teller);
    troupe_tell(the_teller, teller_open, 0);
    savina_wait();
    troupe_actor_kill(the_teller);
    for (int i = 0; i < ACCOUNTS; i++)
        troupe_actor_kill(accounts[i]);
}

int main(int argc, char **argv)
{
    return savina_main(argc, argv, TRANSFERS, play);
}
