// test_shortage.c: every allocation fails once, in a process that holds its actors itself: each
// operation says so or works, nothing hangs, leaks or stays behind, and afterwards all is well.
#include <places.h>
#include <support.h>

#include <runtime/base/memory.h>
#include <string.h>
#include <troupe/actor.h>
#include <troupe/life.h>

TROUPE_STRUCT(list, (troupe_text, title), (troupe_array_double, numbers), (troupe_ref, source));

typedef struct adder {
    double total;
} adder;

static troupe_status adder_init(adder *self, const list *start)
{
    self->total = start->numbers.count > 0 ? start->numbers.items[0] : 0;
    return TROUPE_OK;
}

static void adder_deinit(adder *self)
{
    self->total = 0;
}

static troupe_status adder_add(adder *self, const list *in, list *out)
{
    double first = 0;
    if (in->source.id != 0)
        TROUPE_TRY(troupe_get(double, in->source, &first));
    double *sums = troupe_arena_alloc((in->numbers.count + 1) * sizeof *sums);
    if (sums == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu sums", in->numbers.count);
    sums[0] = first;
    for (size_t i = 0; i < in->numbers.count; i++)
        sums[i + 1] = self->total += in->numbers.items[i];
    *out = (list){.title = in->title,
                  .numbers = {sums, in->numbers.count + 1},
                  .source = troupe_put(double, &first)};
    return TROUPE_OK;
}

static troupe_status adder_total(adder *self, const troupe_none *nothing, double *total)
{
    (void)nothing;
    *total = self->total;
    return TROUPE_OK;
}

TROUPE_ACTOR_INIT(adder, (adder_init, list), adder_deinit, (adder_add, list, list),
                  (adder_total, troupe_none, double));

static int set_up(void **state)
{
    (void)state;
    return troupe_start(0, NULL, .workers = TROUPE_NONE, .threads = 1) == TROUPE_OK ? 0 : -1;
}

static void allow(troupe_status status)
{
    if (status != TROUPE_OK && status != TROUPE_NO_MEMORY)
        fail_msg("%s: %s", troupe_status_name(status), troupe_last_error()->text);
}

// One of each operation.
static void use_everything(void)
{
    double numbers[] = {1, 2, 3}, first = 5, total;
    list in = {"title", {numbers, 3}, {0}}, out;
    adder_actor actor = troupe_spawn_from(adder, &in, .place = TROUPE_PLACE_HERE);
    in.source = troupe_put(double, &first);
    troupe_ref ref = troupe_call_from(actor, adder_add, &in);
    troupe_ref kept = troupe_ref_keep(ref);
    bool ready;
    allow(troupe_wait(&ref, 1, 1, 10000, &ready, NULL));
    troupe_status status = troupe_get(list, ref, &out);
    allow(status);
    if (status == TROUPE_OK)
        troupe_ref_drop(out.source);
    if (kept.id != 0) {
        status = troupe_get(list, kept, &out);
        allow(status);
        if (status == TROUPE_OK)
            troupe_ref_drop(out.source);
    }
    allow(troupe_tell_from(actor, adder_add, &in));
    allow(troupe_get(double, troupe_call(troupe_with(actor, .deadline_ms = 10000), adder_total),
                     &total));
    double totals[2];
    troupe_ref both[2] = {troupe_call(actor, adder_total), troupe_call(actor, adder_total)};
    allow(troupe_get_all(double, both, 2, totals));
    troupe_ref_set *set;
    status = troupe_ref_set_open(&set);
    allow(status);
    if (status == TROUPE_OK) {
        troupe_ref one = troupe_call(actor, adder_total), same = one;
        status = troupe_ref_set_add(set, one, NULL);
        allow(status);
        if (status == TROUPE_OK)
            allow(troupe_ref_set_next(set, 10000, &same, NULL));
        allow(troupe_get(double, one, &total));
        troupe_ref_set_close(set);
    }
    troupe_view view;
    ref = troupe_put_bytes("bytes", 5);
    status = troupe_view_bytes(ref, &view, -1);
    allow(status);
    if (status == TROUPE_OK)
        troupe_view_end(&view);
    troupe_ref_drop(ref);
    troupe_ref_drop(in.source);
    allow(troupe_actor_status(actor.address));
    status = troupe_actor_end(actor);
    allow(status);
    if (status != TROUPE_OK && actor.address.id != 0)
        (void)troupe_actor_kill(actor);
    allow(troupe_actor_await_end(actor.address, 10000, NULL));
    troupe_arena_reset();
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    use_everything();
    for (long allowed = 0; allowed < 190; allowed++) {
        trp_memory_fail_after(allowed);
        use_everything();
        trp_memory_fail_after(-1);
    }
    use_everything();
    assert_store_empty();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_fails)};
    return cmocka_run_group_tests(tests, set_up, stop_runtime);
}
