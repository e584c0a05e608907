// test_serial.c: a thread that does tasks in their order, and those who help it.
// timeout: 30
#include "support.h"

#include <stdatomic.h>
#include <train/serial.h>

enum { MANY = 1000 };

typedef struct step {
    trp_serial_task task; // First.
    int number;
} step;

static trp_serial *serial;
static step steps[MANY];
static _Atomic int done, here; // Tasks; those of them that the serial's thread did.
static _Atomic int order_is_wrong;

static void run(trp_serial_task *task)
{
    const step *it = (const step *)task;
    if (it->number != atomic_load(&done))
        atomic_store(&order_is_wrong, 1);
    here += trp_serial_is_here(serial);
    atomic_fetch_add(&done, 1);
}

static int begin(void **state)
{
    (void)state;
    done = here = order_is_wrong = 0;
    for (int i = 0; i < MANY; i++)
        steps[i] = (step){.task.run = run, .number = i};
    return (int)trp_serial_start("test-serial", &serial);
}

// The last tasks still ask for it.
static void end(void)
{
    trp_serial *held = serial;
    trp_serial_end(&held);
}

static void test_tasks_are_done_in_their_order(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        trp_serial_add(serial, &steps[i].task);
    trp_serial_wait(serial);
    assert_int_equal(done, MANY);
    assert_int_equal(here, MANY);
    assert_int_equal(order_is_wrong, 0);
    assert_false(trp_serial_help(serial));
    end();
}

// Who adds them does some itself, in the order in which all are done.
static void test_who_helps_keeps_the_order(void **state)
{
    (void)state;
    int helped = 0;
    for (int i = 0; i < MANY; i++) {
        trp_serial_add(serial, &steps[i].task);
        helped += trp_serial_help(serial);
    }
    trp_serial_wait(serial);
    assert_int_equal(done, MANY);
    assert_int_equal(here, MANY - helped);
    assert_int_equal(order_is_wrong, 0);
    end();
}

// Those that were put are done by who helps, before a task that is added, at a wait, or in the end.
static void test_what_is_put_is_done(void **state)
{
    (void)state;
    trp_serial_add(serial, &steps[0].task);
    trp_serial_wait(serial);
    for (int i = 1; i < 4; i++)
        trp_serial_put(serial, &steps[i].task);
    while (done < 4)
        (void)trp_serial_help(serial);
    trp_serial_add(serial, &steps[4].task);
    trp_serial_wait(serial);
    assert_int_equal(done, 5);
    trp_serial_put(serial, &steps[5].task);
    trp_serial_wait(serial);
    assert_int_equal(done, 6);
    trp_serial_put(serial, &steps[6].task);
    end();
    assert_int_equal(done, 7);
    assert_int_equal(order_is_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_tasks_are_done_in_their_order, begin),
        cmocka_unit_test_setup(test_who_helps_keeps_the_order, begin),
        cmocka_unit_test_setup(test_what_is_put_is_done, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
