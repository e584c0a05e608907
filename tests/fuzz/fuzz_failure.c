// fuzz_failure.c: any bytes, read as a failure, and as a restart budget. A failure is always one,
// with an error text, and what was read is written and read back as the same.
#include <actors/actor/restart_in_place.h>
#include <actors/class/call_error.h>
#include <actors/class/restart_budget.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool same(const troupe_error *a, const troupe_error *b)
{
    return a->status == b->status && a->outcome == b->outcome && a->executed == b->executed &&
           a->process == b->process && strcmp(a->text, b->text) == 0 &&
           strcmp(a->actor, b->actor) == 0 && strcmp(a->node, b->node) == 0;
}

static void check_failure(const uint8_t *data, size_t size)
{
    troupe_error failure, back, last;
    trp_failure_read(data, size, &failure);
    require(failure.status > TROUPE_OK && failure.status < TROUPE_STATUS_COUNT);
    require(memchr(failure.text, 0, sizeof failure.text) != NULL);
    trp_buffer out = {0};
    trp_failure_write(&failure, &out);
    trp_failure_read(out.data, out.size, &back);
    trp_buffer_free(&out);
    // What was cut within a character is without the rest of that from then on.
    require(back.status == failure.status && back.process == failure.process);
    require(strncmp(back.text, failure.text, strlen(back.text)) == 0);
    require(strlen(back.text) + 4 > strlen(failure.text));
    trp_failure_write(&back, &out);
    trp_failure_read(out.data, out.size, &last);
    require(same(&back, &last));
    trp_buffer_free(&out);
}

static void check_budget(const uint8_t *data, size_t size)
{
    trp_reader in = trp_reader_of(data, size);
    trp_budget budget, back;
    int64_t delay_ms = 0;
    if (trp_budget_read(&in, &budget) != TROUPE_OK)
        return;
    trp_buffer out = {0};
    trp_budget_write(&budget, &out);
    trp_reader again = trp_reader_of(out.data, out.size);
    require(trp_budget_read(&again, &back) == TROUPE_OK && trp_read_end(&again) == TROUPE_OK);
    require(memcmp(&back, &budget, sizeof back) == 0);
    trp_buffer_free(&out);
    for (int i = 0; i < 3 && trp_budget_take(&budget, 1000, &delay_ms); i++)
        require(delay_ms >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_failure(data, size);
    check_budget(data, size);
    return 0;
}
