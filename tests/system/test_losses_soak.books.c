// test_losses_soak.books.c: the rows, and what must hold for each.
#include "losses.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

books *book;
pid_t losses_driver;

uint64_t losses_roll(uint64_t *dice) // Steele, Lea, Flood: SplitMix64.
{
    uint64_t z = *dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

bool losses_chance(uint64_t *dice, uint32_t of)
{
    return losses_roll(dice) % of == 0;
}

void losses_books_open(void)
{
    uint32_t used = book->rows < ROWS ? book->rows + 1 : ROWS;
    memset(book, 0, offsetof(books, row) + used * sizeof book->row[0]);
}

void losses_enter(void)
{
    if (getpid() == losses_driver)
        return;
    for (uint32_t i = 0; i < book->processes && i < PROCESSES; i++)
        if (book->pid[i] == getpid())
            return;
    uint32_t place = atomic_fetch_add(&book->processes, 1);
    if (place < PROCESSES) {
        book->group[place] = getpgrp();
        book->pid[place] = getpid();
    }
}

pid_t losses_parent(pid_t pid)
{
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    char *text = support_read_file(path);
    assert_non_null(text);
    assert_int_equal(sscanf(strrchr(text, ')'), ") %*c %d", &parent), 1);
    free(text);
    return parent;
}

void losses_hung(const char *when, const sender *senders)
{
    fprintf(stderr, "%s: what waits still:\n", when);
    for (int i = 0; i < SENDERS; i++)
        if (!senders[i].ended)
            fprintf(stderr, "  sender %d: %s (row %u) for %lld ms\n", i, senders[i].doing,
                    senders[i].row, (long long)(support_now_ms() - senders[i].since_ms));
    losses_print();
    if (getenv("TROUPE_HOLD") != NULL) // For a look by a debugger.
        for (;;)
            (void)pause();
    _exit(1); // All of Troupe ends with its driver.
}

uint32_t losses_row(row_kind kind)
{
    uint32_t number = atomic_fetch_add(&book->rows, 1) + 1;
    if (number >= ROWS)
        return 0;
    book->row[number].kind = (uint8_t)kind;
    book->row[number].awaited = getpid() == losses_driver;
    return number;
}

void losses_end(uint32_t number, troupe_status status)
{
    entry *it = &book->row[number];
    const troupe_error *error = troupe_last_error();
    it->status = (uint8_t)status;
    it->outcome = status == TROUPE_OK ? TROUPE_OUTCOME_VALUE : (uint8_t)error->outcome;
    it->executed = status == TROUPE_OK ? TROUPE_EXECUTED_YES : (uint8_t)error->executed;
    atomic_fetch_add(&it->ends, 1);
}

void losses_wrong(const char *what, uint64_t number)
{
    if (atomic_fetch_add(&book->wrong, 1) < 20)
        fprintf(stderr, "%llu: %s\n", (unsigned long long)number, what);
}

static const char *const kinds[KINDS] = {
    "call", "call sent again", "tell", "task", "task that is run once", "stream", "object", "map"};

static int complaints;

static void complain(uint32_t number, const char *what)
{
    entry *it = &book->row[number];
    if (complaints++ < 20)
        fprintf(stderr,
                "row %u (%s): %s: begun %u, finished %u, ends %u, outcome %u, executed %u, %s\n",
                number, kinds[it->kind], what, it->begun, it->finished, it->ends, it->outcome,
                it->executed, troupe_status_name((troupe_status)it->status));
}

static void check(uint32_t number)
{
    entry *it = &book->row[number];
    bool again = it->kind == CALL_AGAIN || it->kind == TASK || it->kind == MAP;
    if (it->begun > (again ? 1 + KEPT_MAX : 1))
        complain(number, "it was run too often");
    if (it->ends > 1)
        complain(number, "it ended twice");
    if (it->ends == 0 && it->awaited && !it->silent)
        complain(number, "it never ended");
    if (it->ends == 0)
        return;
    if (it->outcome == TROUPE_OUTCOME_NONE || it->status == TROUPE_NO_MEMORY ||
        it->status == TROUPE_INVALID || it->status == TROUPE_MALFORMED)
        complain(number, "its end is none that a loss has");
    if (it->outcome == TROUPE_OUTCOME_VALUE && it->finished == 0)
        complain(number, "it has a value and was not run to its end");
    if (it->executed == TROUPE_EXECUTED_YES && it->begun == 0)
        complain(number, "it is said to have been run and was not");
    if (it->executed == TROUPE_EXECUTED_NO && it->begun != 0)
        complain(number, "it is said not to have been run and was");
    if (it->status == TROUPE_NOT_EXECUTED && it->executed != TROUPE_EXECUTED_NO)
        complain(number, "NOT_EXECUTED does not say so");
}

int losses_check(void)
{
    complaints = 0;
    if (book->rows >= ROWS)
        complain(0, "the books are full: what came then was not sent");
    for (uint32_t i = 1; i <= book->rows && i < ROWS; i++)
        check(i);
    return complaints;
}

void losses_print(void)
{
    uint32_t by_status[TROUPE_STATUS_COUNT] = {0}, by_kind[KINDS] = {0};
    for (uint32_t i = 1; i <= book->rows && i < ROWS; i++) {
        by_kind[book->row[i].kind]++;
        if (book->row[i].ends > 0)
            by_status[book->row[i].status]++;
    }
    for (int i = 0; i < KINDS; i++)
        printf("%s%u %s", i > 0 ? ", " : "", by_kind[i], kinds[i]);
    for (int i = 0; i < TROUPE_STATUS_COUNT; i++)
        if (by_status[i] > 0)
            printf("%s%u %s", i > 0 ? ", " : "; ", by_status[i],
                   troupe_status_name((troupe_status)i));
    printf("; %u processes\n", book->processes);
    fflush(stdout);
}
