// test_memory.c: what the node's store holds, as troupe_memory_get and the program `troupe memory`
// say: objects, their makers and their holders, over real processes.
#include <places.h>
#include <support.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { LARGE = 200000, STORE = 16 << 20 };

TROUPE_STRUCT(memory_point, (double, x), (double, y));

typedef struct keeper {
    troupe_ref kept;
    troupe_view view;
} keeper;

static troupe_status keep(keeper *self, const troupe_ref *ref, int *pid)
{
    self->kept = troupe_ref_keep(*ref);
    *pid = getpid();
    return TROUPE_OK;
}

// Reads it where it lies until it is let go.
static troupe_status look(keeper *self, const troupe_none *none, int *pid)
{
    (void)none;
    *pid = getpid();
    return troupe_view_bytes(self->kept, &self->view, -1);
}

static troupe_status let_go(keeper *self, const troupe_none *none, int *pid)
{
    (void)none;
    *pid = getpid();
    troupe_view_end(&self->view);
    troupe_ref_drop(self->kept);
    return TROUPE_OK;
}

static troupe_status make(keeper *self, const int *size, troupe_bytes *made)
{
    (void)self;
    void *data = troupe_arena_alloc((size_t)*size);
    if (data == NULL)
        return TROUPE_NO_MEMORY;
    memset(data, 1, (size_t)*size);
    *made = (troupe_bytes){data, (size_t)*size};
    return TROUPE_OK;
}

static troupe_status measure(keeper *self, const troupe_bytes *bytes, int *size)
{
    (void)self;
    *size = (int)bytes->size;
    while (!support_exists(getenv("TEST_MEMORY_GO"))) // The argument is there until then.
        usleep(1000);
    return TROUPE_OK;
}

TROUPE_ACTOR(keeper, (keep, troupe_ref, int), (look, troupe_none, int), (let_go, troupe_none, int),
             (make, int, troupe_bytes), (measure, troupe_bytes, int));

static int set_up(void **state)
{
    (void)state;
    // A full store says so at once.
    return troupe_start(0, NULL, .workers = 2, .store_bytes_max = STORE,
                        .spill_bytes_max = TROUPE_NONE, .store_wait_ms = TROUPE_NONE) == TROUPE_OK
               ? 0
               : -1;
}

static troupe_memory see(void)
{
    troupe_memory memory;
    assert_int_equal(troupe_memory_get(&memory), TROUPE_OK);
    return memory;
}

static const troupe_object_info *find(const troupe_memory *memory, troupe_object_kind kind)
{
    for (size_t i = 0; i < memory->items.count; i++)
        if (memory->items.items[i].kind == (int)kind)
            return &memory->items.items[i];
    return NULL;
}

static const troupe_object_holder *holder(const troupe_object_info *object, int pid)
{
    for (size_t i = 0; i < object->holders.count; i++)
        if (object->holders.items[i].pid == pid)
            return &object->holders.items[i];
    return NULL;
}

static const troupe_memory_process *process(const troupe_memory *memory, int pid)
{
    for (size_t i = 0; i < memory->processes.count; i++)
        if (memory->processes.items[i].pid == pid)
            return &memory->processes.items[i];
    return NULL;
}

static void test_what_was_put(void **state)
{
    (void)state;
    troupe_memory before = see();
    assert_int_equal(before.objects, 0);
    assert_int_equal(before.items.count, 0);
    assert_int_equal(before.processes.count, 0);
    assert_int_equal(before.bytes_max, STORE);
    assert_int_equal(before.driver_pid, getpid());

    troupe_ref point = troupe_put(memory_point, (&(memory_point){1, 2}));
    static char bytes[LARGE];
    troupe_ref large = troupe_put_bytes(bytes, sizeof bytes);
    troupe_buffer buffer;
    assert_int_equal(troupe_buffer_create(300000, &buffer), TROUPE_OK);

    troupe_memory now = see();
    troupe_store_usage usage;
    assert_int_equal(troupe_store_usage_get(&usage), TROUPE_OK);
    assert_int_equal(now.objects, 3);
    assert_int_equal(now.objects, usage.objects);
    assert_int_equal(now.bytes_used, usage.bytes_used);
    assert_int_equal(now.items.count, 3);
    assert_true(now.bytes_free < before.bytes_free);
    assert_true(now.bytes_free_longest <= now.bytes_free);
    assert_true(now.bytes_backed > 0);

    const troupe_object_info *items = now.items.items;
    assert_int_equal(items[0].kind, TROUPE_OBJECT_BUFFER);
    assert_int_equal(items[0].state, TROUPE_OBJECT_FILLING);
    assert_int_equal(items[1].kind, TROUPE_OBJECT_VALUE);
    assert_int_equal(items[1].state, TROUPE_OBJECT_SEALED);
    assert_int_equal(items[1].bytes, LARGE);
    assert_true(items[1].bytes_used >= LARGE);
    assert_true(items[1].id == large.id);
    assert_string_equal(items[1].type_name, "troupe_bytes");
    assert_string_equal(items[2].type_name, "memory_point");
    assert_int_equal(items[2].bytes, sizeof(memory_point));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(items[i].maker_pid, getpid());
        assert_string_equal(items[i].maker_label, "driver");
        assert_int_equal(items[i].holders.count, 1);
        assert_int_equal(items[i].holders.items[0].pid, getpid());
        assert_int_equal(items[i].holders.items[0].holds, 1);
        assert_true(items[i].age_s >= 0 && items[i].idle_s >= 0);
        assert_true(items[i].idle_s <= items[i].age_s);
    }
    assert_int_equal(now.processes.count, 1);
    assert_int_equal(now.processes.items[0].objects, 3);
    assert_int_equal(now.processes.items[0].bytes_used, now.bytes_used);
    assert_int_equal(now.kinds[TROUPE_OBJECT_VALUE].objects, 2);
    assert_int_equal(now.kinds[TROUPE_OBJECT_BUFFER].objects, 1);

    troupe_memory some;
    assert_int_equal(troupe_memory_get(&some, .most = 1), TROUPE_OK);
    assert_int_equal(some.items.count, 1);
    assert_int_equal(some.objects, 3);
    assert_int_equal(some.items.items[0].kind, TROUPE_OBJECT_BUFFER);
    troupe_ref_drop(point);
    troupe_ref_drop(large);
    troupe_buffer_discard(&buffer);
    assert_int_equal(see().objects, 0);
    troupe_arena_reset();
}

static void test_holders_of_objects(void **state)
{
    (void)state;
    int pid;
    static char bytes[LARGE];
    keeper_actor one = troupe_spawn(keeper, .place = TROUPE_PLACE_ISOLATED, .name = "one");
    troupe_ref large = troupe_put_bytes(bytes, sizeof bytes);
    assert_int_equal(troupe_get(int, troupe_call_from(one, keep, &large), &pid), TROUPE_OK);
    assert_int_equal(troupe_get(int, troupe_call(one, look), &pid), TROUPE_OK);

    troupe_memory now = see();
    const troupe_object_info *object = find(&now, TROUPE_OBJECT_VALUE);
    assert_non_null(object);
    assert_int_equal(object->holders.count, 2);
    const troupe_object_holder *there = holder(object, pid), *here = holder(object, getpid());
    assert_non_null(there);
    assert_non_null(here);
    assert_string_equal(there->label, "one");
    assert_int_equal(there->pins, 1);
    assert_true(there->holds >= 2);
    assert_int_equal(here->pins, 0);
    // It counts whole for both, and once in the total.
    const troupe_memory_process *holds = process(&now, pid);
    assert_non_null(holds);
    assert_int_equal(holds->bytes_used, object->bytes_used);
    assert_int_equal(holds->pinned, 1);
    assert_int_equal(holds->bytes_pinned, object->bytes_used);
    assert_int_equal(process(&now, getpid())->bytes_used, object->bytes_used);
    assert_int_equal(process(&now, getpid())->pinned, 0);
    assert_int_equal(now.bytes_used, object->bytes_used);

    troupe_ref_drop(large);
    now = see();
    assert_int_equal(now.objects, 1);
    assert_null(process(&now, getpid()));
    assert_int_equal(troupe_get(int, troupe_call(one, let_go), &pid), TROUPE_OK);
    assert_int_equal(see().objects, 0);
    assert_int_equal(troupe_actor_kill(one), TROUPE_OK);
    troupe_arena_reset();
}

static bool argument_is_there(void *unused)
{
    (void)unused;
    troupe_memory now = see();
    const troupe_object_info *it = find(&now, TROUPE_OBJECT_ARGUMENT);
    bool there = it != NULL && it->bytes == LARGE && it->holders.count == 1 &&
                 it->holders.items[0].pid != getpid() && it->maker_pid == getpid();
    troupe_arena_reset();
    return there;
}

static void test_results_and_arguments(void **state)
{
    (void)state;
    int size;
    static char bytes[LARGE];
    char *folder = support_directory_make(), *go = support_path(folder, "go");
    setenv("TEST_MEMORY_GO", go, 1);
    assert_int_equal(set_up(NULL), 0);
    keeper_actor one = troupe_spawn(keeper, .place = TROUPE_PLACE_WORKER);
    troupe_ref result = troupe_call(one, make, LARGE);
    assert_int_equal(troupe_wait(&result, 1, 1, -1, NULL, NULL), TROUPE_OK);
    troupe_memory now = see();
    const troupe_object_info *object = find(&now, TROUPE_OBJECT_RESULT);
    assert_non_null(object);
    assert_int_equal(object->bytes, LARGE);
    assert_int_not_equal(object->maker_pid, getpid());
    assert_true(strncmp(object->maker_label, "worker ", 7) == 0);
    troupe_ref_drop(result);

    troupe_ref measured = troupe_call(one, measure, bytes, sizeof bytes);
    assert_true(support_wait_until(argument_is_there, NULL, SUPPORT_SOON_MS));
    support_write_file(go, "", 0);
    assert_int_equal(troupe_get(int, measured, &size), TROUPE_OK);
    assert_int_equal(size, LARGE);
    free(go);
    support_directory_remove(folder);
    troupe_arena_reset();
}

static void test_the_runtimes_own(void **state)
{
    (void)state;
    int pid;
    keeper_actor one = troupe_spawn(keeper, .place = TROUPE_PLACE_WORKER);
    troupe_ref ref = troupe_put(int, &(int){5});
    assert_int_equal(troupe_get(int, troupe_call_from(one, keep, &ref), &pid), TROUPE_OK);
    troupe_memory memory = see(), all;
    assert_int_equal(troupe_memory_get(&all, .inner = true), TROUPE_OK);
    assert_true(all.bytes_inner > 0); // The rings between driver and worker.
    assert_null(find(&memory, TROUPE_OBJECT_INNER));
    const troupe_object_info *ring = find(&all, TROUPE_OBJECT_INNER);
    assert_non_null(ring);
    assert_int_equal(ring->state, TROUPE_OBJECT_SHARED);
    assert_int_equal(all.objects, memory.objects);
    troupe_ref_drop(ref);
    troupe_arena_reset();
}

static void test_a_channel(void **state)
{
    (void)state;
    troupe_channel channel;
    assert_int_equal(troupe_channel_open(LARGE, 2, 1, &channel), TROUPE_OK);
    troupe_memory now = see();
    const troupe_object_info *object = find(&now, TROUPE_OBJECT_CHANNEL);
    assert_non_null(object);
    assert_true(object->bytes >= 2 * LARGE);
    assert_int_equal(object->state, TROUPE_OBJECT_SHARED);
    troupe_channel_drop(channel);
    assert_int_equal(see().objects, 0);
    troupe_arena_reset();
}

static void test_a_full_store_names_its_holders(void **state)
{
    (void)state;
    enum { PIECE = 3 << 20, MOST = STORE / PIECE + 1 };
    static char bytes[PIECE];
    troupe_ref refs[MOST];
    troupe_bytes out;
    char expected[64];
    int count = 0;
    troupe_buffer buffer;
    for (; count < MOST; count++) {
        refs[count] = troupe_put_bytes(bytes, sizeof bytes);
        if ((refs[count].id & (UINT64_C(1) << 63)) == 0)
            break;
    }
    assert_true(count < MOST);
    snprintf(expected, sizeof expected, "it is held by driver (pid %d) ", (int)getpid());
    assert_int_equal(troupe_get(troupe_bytes, refs[count], &out), TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, expected));
    assert_int_equal(troupe_buffer_create(PIECE, &buffer), TROUPE_NO_MEMORY);
    assert_non_null(strstr(troupe_last_error()->text, expected));
    while (count-- > 0)
        troupe_ref_drop(refs[count]);
    troupe_arena_reset();
}

// ---- the program, from outside

static char output[1 << 16];

static int run_tool(const char *arguments)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' memory %s 2>&1", support_setting("TROUPE_TOOL"),
             arguments);
    return support_run(command, output, sizeof output);
}

static void expect_output(const char *text)
{
    if (strstr(output, text) == NULL)
        support_fail_output(output, "expected '%s'", text);
}

static void test_the_program(void **state)
{
    (void)state;
    int pid;
    char arguments[64], expected[128];
    static char bytes[LARGE];
    keeper_actor one = troupe_spawn(keeper, .place = TROUPE_PLACE_ISOLATED, .name = "one");
    troupe_ref large = troupe_put_bytes(bytes, sizeof bytes);
    assert_int_equal(troupe_get(int, troupe_call_from(one, keep, &large), &pid), TROUPE_OK);
    // Its argument is let go after the answer, but before the next call.
    troupe_bytes made;
    assert_int_equal(troupe_get(troupe_bytes, troupe_call(one, make, 1), &made), TROUPE_OK);

    snprintf(arguments, sizeof arguments, "%d", (int)getpid());
    assert_int_equal(run_tool(arguments), 0);
    snprintf(expected, sizeof expected, "node of driver %d: 1 object, 256.0 KiB of 16.0 MiB",
             (int)getpid());
    expect_output(expected);
    expect_output("troupe_bytes");
    snprintf(expected, sizeof expected, "driver (%d), one (%d)\n", (int)getpid(), pid);
    expect_output(expected);

    // Any process of the node names it, also one that does not answer.
    assert_int_equal(kill(pid, SIGSTOP), 0);
    snprintf(arguments, sizeof arguments, "--json -n 5 %d", pid);
    int status = run_tool(arguments);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(status, 0);
    snprintf(expected, sizeof expected, "{\"driver_pid\": %d, \"objects\": 1,", (int)getpid());
    expect_output(expected);
    snprintf(expected, sizeof expected, "\"id\": \"%016" PRIx64 "\", \"bytes\": %d,", large.id,
             LARGE);
    expect_output(expected);
    expect_output("\"state\": \"sealed\", \"kind\": \"value\", \"type\": \"troupe_bytes\"");
    troupe_ref_drop(large);
    troupe_arena_reset();
}

// Six objects of 3 MiB where five have room.
static void test_what_is_on_disk(void **state)
{
    (void)state;
    enum { PIECE = 3 << 20, COUNT = 6 };
    static char bytes[PIECE];
    char arguments[64], expected[64];
    troupe_ref refs[COUNT];
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .store_bytes_max = STORE), TROUPE_OK);
    assert_int_equal(see().objects_on_disk, 0);
    for (int i = 0; i < COUNT; i++)
        refs[i] = troupe_put_bytes(bytes, sizeof bytes);
    troupe_memory now = see();
    assert_int_equal(now.objects, COUNT);
    assert_in_range(now.objects_on_disk, 1, COUNT - 1);
    assert_int_equal(now.bytes_on_disk, now.objects_on_disk * PIECE);
    uint64_t listed = 0;
    for (size_t i = 0; i < now.items.count; i++)
        listed += now.items.items[i].state == TROUPE_OBJECT_ON_DISK;
    assert_int_equal(listed, now.objects_on_disk);

    snprintf(arguments, sizeof arguments, "%d", (int)getpid());
    assert_int_equal(run_tool(arguments), 0);
    snprintf(expected, sizeof expected, "\non disk: %d object%s, %d.0 MiB\n",
             (int)now.objects_on_disk, now.objects_on_disk == 1 ? "" : "s",
             (int)now.objects_on_disk * (PIECE >> 20));
    expect_output(expected);
    for (int i = 0; i < COUNT; i++)
        troupe_ref_drop(refs[i]);
    assert_int_equal(see().objects_on_disk, 0);
    troupe_arena_reset();
}

static void test_misuse_of_the_program(void **state)
{
    (void)state;
    assert_int_equal(run_tool("--help"), 0);
    expect_output("usage: troupe memory");
    assert_int_equal(run_tool("-n 0"), 2);
    assert_int_equal(run_tool("-n many"), 2);
    assert_int_equal(run_tool("--odd"), 2);
    assert_int_equal(run_tool("1x"), 2);
    assert_int_equal(run_tool("1 2"), 2);
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%d", (int)getpid()); // No node.
    assert_int_equal(run_tool(arguments), 1);
    expect_output("belongs to no node");
}

static void test_without_a_runtime(void **state)
{
    (void)state;
    troupe_memory memory;
    assert_int_equal(troupe_memory_get(&memory), TROUPE_NOT_STARTED);
    assert_int_equal(troupe_memory_get(&memory, .pid = getpid()), TROUPE_NOT_FOUND);
    assert_string_equal(troupe_object_kind_name(TROUPE_OBJECT_REGION), "region");
    assert_string_equal(troupe_object_kind_name(TROUPE_OBJECT_INNER), "runtime");
    assert_string_equal(troupe_object_kind_name(-1), "unknown");
    assert_string_equal(troupe_object_state_name(TROUPE_OBJECT_SHARED), "shared");
    assert_string_equal(troupe_object_state_name(9), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_put, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_holders_of_objects, set_up, stop_runtime),
        cmocka_unit_test_teardown(test_results_and_arguments, stop_runtime),
        cmocka_unit_test_setup_teardown(test_the_runtimes_own, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_a_channel, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_a_full_store_names_its_holders, set_up, stop_runtime),
        cmocka_unit_test_setup_teardown(test_the_program, set_up, stop_runtime),
        cmocka_unit_test_teardown(test_what_is_on_disk, stop_runtime),
        cmocka_unit_test(test_misuse_of_the_program),
        cmocka_unit_test(test_without_a_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
