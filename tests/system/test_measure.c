// test_measure.c: how long messages wait and methods run, over several processes.
#include "sleeper.h"

#include <places.h>
#include <support.h>

#include <stdlib.h>
#include <string.h>
#include <troupe/observe.h>
#include <troupe/task.h>
#include <unistd.h>

static const troupe_method_info *find(const troupe_method_list *list, const char *class_name,
                                      const char *method)
{
    for (size_t i = 0; i < list->methods.count; i++)
        if (strcmp(list->methods.items[i].class_name, class_name) == 0 &&
            strcmp(list->methods.items[i].method, method) == 0)
            return &list->methods.items[i];
    return NULL;
}

typedef struct expected {
    const char *class_name, *method;
    uint64_t count;
    troupe_method_info seen;
} expected;

// An answer may be faster than the count.
static bool is_counted(void *context)
{
    expected *it = context;
    troupe_method_list list;
    assert_int_equal(troupe_methods_list(&list), TROUPE_OK);
    assert_int_equal(list.silent, 0);
    const troupe_method_info *found = find(&list, it->class_name, it->method);
    if (found != NULL)
        it->seen = *found;
    return found != NULL && found->count == it->count;
}

enum { NAP_MS = 20 };

// Two calls at once for each of three actors, in the driver and in workers: one of the two waits
// as long as the other sleeps.
static void call_all(int pids[3])
{
    sleeper_actor actors[3];
    for (int i = 0; i < 3; i++)
        actors[i] = troupe_spawn(sleeper, .place = places[i]);
    for (int i = 0; i < 3; i++) {
        troupe_ref first = troupe_call(actors[i], nap, NAP_MS),
                   second = troupe_call(actors[i], nap, NAP_MS);
        assert_int_equal(troupe_get(int, first, &pids[i]), TROUPE_OK);
        assert_int_equal(troupe_get(int, second, &pids[i]), TROUPE_OK);
    }
}

static void test_methods_of_all_processes(void **state)
{
    (void)state;
    int pids[3], pid;
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .measure = true), TROUPE_OK);
    call_all(pids);
    assert_int_equal(troupe_get(int, troupe_run(doze, NAP_MS), &pid), TROUPE_OK);
    expected it = {"sleeper", "nap", 6, {0}}, task = {"doze", "doze", 1, {0}};
    assert_true(support_wait_until(is_counted, &it, SUPPORT_SOON_MS));
    assert_true(support_wait_until(is_counted, &task, SUPPORT_SOON_MS));
    // At least what was slept; the upper bounds are for machines that are very busy.
    assert_true(it.seen.ran.p50_s >= NAP_MS * 1e-3 && it.seen.ran.max_s < 5);
    assert_true(it.seen.ran.p50_s <= it.seen.ran.p99_s && it.seen.ran.p99_s <= it.seen.ran.p999_s &&
                it.seen.ran.p999_s <= it.seen.ran.max_s);
    // Three of six were pushed while another slept; 'most of it', since it may have begun before.
    assert_true(it.seen.waited.max_s > NAP_MS * 1e-3 / 2 && it.seen.waited.max_s < 5);
    assert_true(task.seen.ran.max_s >= NAP_MS * 1e-3);
    troupe_method_list list;
    assert_int_equal(troupe_methods_list(&list), TROUPE_OK);
    for (size_t i = 0; i < list.methods.count; i++) // The library's own are not the program's.
        assert_int_not_equal(strncmp(list.methods.items[i].class_name, "trp_", 4), 0);
    troupe_arena_reset();
    assert_int_equal(troupe_stop(), 0);
}

static void test_a_new_start_counts_anew(void **state)
{
    (void)state;
    int pid;
    assert_int_equal(setenv("TROUPE_MEASURE", "1", 1), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 1), TROUPE_OK);
    assert_int_equal(unsetenv("TROUPE_MEASURE"), 0);
    sleeper_actor one = troupe_spawn(sleeper, .place = TROUPE_PLACE_HERE);
    assert_int_equal(troupe_get(int, troupe_call(one, nap, 0), &pid), TROUPE_OK);
    expected it = {"sleeper", "nap", 1, {0}};
    assert_true(support_wait_until(is_counted, &it, SUPPORT_SOON_MS));
    troupe_arena_reset();
    assert_int_equal(troupe_stop(), 0);
}

static void test_nothing_is_measured_unless_asked_for(void **state)
{
    (void)state;
    troupe_method_list list;
    assert_int_equal(troupe_methods_list(&list), TROUPE_NOT_STARTED);
    assert_int_equal(troupe_start(0, NULL, .workers = 1), TROUPE_OK);
    assert_int_equal(troupe_methods_list(&list), TROUPE_UNSUPPORTED);
    assert_int_equal(troupe_stop(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods_of_all_processes),
        cmocka_unit_test(test_a_new_start_counts_anew),
        cmocka_unit_test(test_nothing_is_measured_unless_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
