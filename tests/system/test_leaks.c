// test_leaks.c: references, views and buffers that a program never gave up are told at its end with
// the lines that made them, and nothing is told of a program that gave all up. The program is this
// one, run with the name of what it is to do.
#include <places.h>
#include <support.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

TROUPE_STRUCT(leaky_pair, (troupe_ref, made), (int, number));

typedef struct leaky {
    troupe_ref kept;
} leaky;

static troupe_status twice(leaky *self, const int *number, int *result)
{
    (void)self;
    *result = 2 * *number;
    return TROUPE_OK;
}

static int line_of_keep(void)
{
    return __LINE__ + 5;
}

static troupe_status keep(leaky *self, const troupe_ref *ref, int *result)
{
    self->kept = troupe_ref_keep(*ref);
    *result = 1;
    return TROUPE_OK;
}

static troupe_status let_go(leaky *self, const troupe_none *none, int *result)
{
    (void)none;
    troupe_ref_drop(self->kept);
    *result = 1;
    return TROUPE_OK;
}

static troupe_status tell_at_length(leaky *self, const size_t *size, troupe_text *text)
{
    (void)self;
    char *long_one = troupe_arena_alloc(*size + 1);
    if (long_one == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory");
    memset(long_one, 'x', *size);
    *text = long_one;
    return TROUPE_OK;
}

// Gives the reference that it makes to its caller.
static troupe_status give(leaky *self, const int *number, leaky_pair *result)
{
    (void)self;
    *result = (leaky_pair){.made = troupe_put(int, number), .number = *number};
    return TROUPE_OK;
}

TROUPE_ACTOR(leaky, (twice, int, int), (keep, troupe_ref, int), (let_go, troupe_none, int),
             (give, int, leaky_pair), (tell_at_length, size_t, troupe_text));

// ---- what is run

// Each returns the line that the report must name; 0: nothing is left over.
static int leak_put(leaky_actor actor)
{
    (void)actor;
    troupe_ref ref = troupe_put(int, &(int){1});
    (void)ref;
    return __LINE__ - 2;
}

static int leak_puts(leaky_actor actor)
{
    (void)actor;
    troupe_ref refs[3];
    for (int i = 0; i < 3; i++)
        refs[i] = troupe_put(int, &i);
    (void)refs;
    return __LINE__ - 2;
}

static int leak_call(leaky_actor actor)
{
    troupe_ref ref = troupe_call(actor, twice, 3);
    int line = __LINE__ - 1;
    troupe_must(troupe_wait(&ref, 1, 1, -1, NULL, NULL));
    return line;
}

static int leak_view(leaky_actor actor)
{
    (void)actor;
    troupe_view view;
    troupe_ref ref = troupe_put_bytes("some", 4);
    troupe_must(troupe_view_bytes(ref, &view, -1));
    int line = __LINE__ - 1;
    troupe_ref_drop(ref);
    return line;
}

static int leak_kept(leaky_actor actor)
{
    int done;
    troupe_ref ref = troupe_put(int, &(int){1});
    troupe_must(troupe_get(int, troupe_call_from(actor, keep, &ref), &done));
    troupe_ref_drop(ref);
    return line_of_keep();
}

static int leak_sealed(leaky_actor actor)
{
    (void)actor;
    troupe_buffer buffer;
    troupe_ref ref;
    troupe_must(troupe_buffer_create(10, &buffer));
    troupe_must(troupe_buffer_seal(&buffer, &ref));
    return __LINE__ - 1;
}

static int leak_buffer(leaky_actor actor)
{
    (void)actor;
    troupe_buffer buffer;
    troupe_must(troupe_buffer_create(10, &buffer));
    return __LINE__ - 1;
}

static int leak_tensor(leaky_actor actor)
{
    (void)actor;
    troupe_tensor like = {.dtype = TROUPE_FLOAT32, .ndim = 1, .shape = {3}}, tensor;
    troupe_buffer buffer;
    troupe_ref ref;
    troupe_view view;
    troupe_must(troupe_tensor_create(&like, &buffer));
    troupe_must(troupe_buffer_seal(&buffer, &ref));
    troupe_must(troupe_view_tensor(ref, TROUPE_FLOAT32, 1, &tensor, &view, -1));
    int line = __LINE__ - 1;
    troupe_ref_drop(ref);
    return line;
}

static int leak_channel(leaky_actor actor)
{
    (void)actor;
    troupe_channel channel;
    troupe_must(troupe_channel_open(100, 1, 1, &channel));
    return __LINE__ - 1;
}

static int leak_part(leaky_actor actor)
{
    (void)actor;
    troupe_ref made, number, whole = troupe_call(actor, give, 4);
    troupe_ref_split(leaky_pair, whole, &made, &number);
    int line = __LINE__ - 1;
    troupe_ref_drop(made);
    troupe_must(troupe_wait(&number, 1, 1, -1, NULL, NULL));
    return line;
}

// All ways in which a reference ends in order.
static int leak_nothing(leaky_actor actor)
{
    int numbers[2], done;
    leaky_pair pair;
    troupe_bytes packed;
    troupe_view view;
    troupe_buffer buffer;
    troupe_ref ref = troupe_put(int, &(int){1}), bytes = troupe_put_bytes("some", 4);
    troupe_must(troupe_get(int, ref, numbers));
    troupe_must(troupe_view_bytes(bytes, &view, -1));
    troupe_view_end(&view);
    troupe_must(troupe_get_packed(bytes, &packed));
    troupe_ref both[] = {troupe_call(actor, twice, 1), troupe_put(int, &(int){2})};
    troupe_must(troupe_get_all(int, both, 2, numbers));
    troupe_ref_drop(troupe_call(actor, twice, 3));
    ref = troupe_put(int, &(int){1});
    troupe_ref kept = troupe_ref_keep(ref), row = troupe_call(actor, twice, 1),
               other = troupe_ref_keep(row);
    troupe_ref_drop(ref);
    troupe_ref_drop(kept);
    troupe_ref_drop(row);
    troupe_must(troupe_get(int, other, &done));
    ref = troupe_put(int, &(int){1});
    troupe_must(troupe_get(int, troupe_call_from(actor, keep, &ref), &done));
    troupe_ref_drop(ref);
    troupe_must(troupe_get(int, troupe_call(actor, let_go), &done));
    troupe_must(troupe_get(leaky_pair, troupe_call(actor, give, 5), &pair));
    troupe_must(troupe_get(int, pair.made, &done));
    troupe_must(troupe_buffer_create(10, &buffer));
    troupe_buffer_discard(&buffer);
    troupe_must(troupe_buffer_create(10, &buffer));
    troupe_must(troupe_buffer_seal(&buffer, &ref));
    troupe_ref_drop(ref);
    troupe_channel channel, second;
    troupe_must(troupe_channel_open(100, 1, 1, &channel));
    second = troupe_channel_keep(channel);
    troupe_channel_drop(channel);
    troupe_channel_drop(second);
    (void)!troupe_get(int, ref, &done); // Gone before.
    troupe_arena_reset();
    return 0;
}

// Texts of 71 MiB, which troupe_get gives to main.
static int take_texts(leaky_actor actor, size_t each_bytes, bool resets)
{
    troupe_text text;
    for (size_t taken = 0; taken < (size_t)71 << 20; taken += each_bytes) {
        troupe_must(troupe_get(troupe_text, troupe_call(actor, tell_at_length, each_bytes), &text));
        if (resets)
            troupe_arena_reset();
    }
    return 0;
}

static int leak_texts(leaky_actor actor)
{
    return take_texts(actor, 256 << 10, false);
}

static int leak_no_texts(leaky_actor actor)
{
    return take_texts(actor, 256 << 10, true);
}

static int have_one_text(leaky_actor actor)
{
    return take_texts(actor, 71 << 20, false);
}

typedef struct deed {
    const char *name;
    int (*run)(leaky_actor actor);
    const char *type, *by;
    int count;
    bool worker; // Left over in the worker process.
} deed;

static const deed deeds[] = {
    {"put", leak_put, "'int'", "troupe_put", 1, false},
    {"puts", leak_puts, "'int'", "troupe_put", 3, false},
    {"call", leak_call, "'int'", "troupe_call of twice", 1, false},
    {"view", leak_view, "'troupe_bytes'", "troupe_view_bytes", 1, false},
    {"kept", leak_kept, "'int'", "troupe_ref_keep", 1, true},
    {"sealed", leak_sealed, "'troupe_bytes'", "troupe_buffer_seal", 1, false},
    {"buffer", leak_buffer, "'troupe_bytes'", "troupe_buffer_create", 1, false},
    {"tensor", leak_tensor, "'troupe_tensor'", "troupe_view_tensor", 1, false},
    {"channel", leak_channel, "'troupe_channel'", "troupe_channel_open", 1, false},
    {"part", leak_part, "'int'", "troupe_ref_split", 1, false},
    {"nothing", leak_nothing, NULL, NULL, 0, false},
    {"no-texts", leak_no_texts, NULL, NULL, 0, false},
};
static const deed texts = {"texts", leak_texts, NULL, NULL, 0, false};
static const deed one_text = {"one-text", have_one_text, NULL, NULL, 0, false};
enum { DEEDS = sizeof deeds / sizeof *deeds };

static int be_the_program(int argc, char **argv, const deed *wanted)
{
    troupe_must(troupe_start(argc, argv, .workers = 1));
    leaky_actor actor = troupe_spawn(leaky, .place = TROUPE_PLACE_WORKER);
    printf("line %d pid %d\n", wanted->run(actor), (int)getpid());
    fflush(stdout);
    return troupe_stop();
}

// ---- the tests

static char self[4096], output[1 << 16];

static void run(const char *settings, const deed *it)
{
    char command[8192];
    snprintf(command, sizeof command, "%s '%s' %s 2>&1", settings, self, it->name);
    if (support_run(command, output, sizeof output) != 0)
        support_fail_output(output, "%s failed", it->name);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void expect_report(const deed *it, bool lines)
{
    char expected[256];
    int line = 0, pid = 0;
    const char *said = strstr(output, "line ");
    if (said == NULL || sscanf(said, "line %d pid %d", &line, &pid) != 2)
        support_fail_output(output, "%s did not say its line", it->name);
    snprintf(expected, sizeof expected, "leaks: %d of %s by %s at ", it->count, it->type, it->by);
    const char *found = strstr(output, expected);
    if (found == NULL || strstr(found + 1, "leaks: ") != NULL)
        support_fail_output(output, "%s: expected '%s', once", it->name, expected);
    snprintf(expected, sizeof expected, "%s:%d (", last_part(__FILE__), line);
    const char *end = strchr(found, '\n'), *place = strstr(found, expected);
    if (lines && (place == NULL || place > end))
        support_fail_output(output, "%s: expected '%s'", it->name, expected);
    snprintf(expected, sizeof expected, "(pid=%d)", pid);
    const char *driver = strstr(found, expected);
    assert_int_equal(driver != NULL && driver < end, !it->worker);
}

static void test_each_is_told_with_its_line(void **state)
{
    (void)state;
    char nothing[64];
    bool lines = support_run("command -v addr2line", nothing, sizeof nothing) == 0;
    for (int i = 0; i < DEEDS; i++) {
        run("TROUPE_LEAKS=1", &deeds[i]);
        if (deeds[i].count > 0)
            expect_report(&deeds[i], lines);
        else if (strstr(output, "leaks:") != NULL || strstr(output, "troupe_arena_reset") != NULL)
            support_fail_output(output, "%s: expected no leaks", deeds[i].name);
    }
}

// A thread outside actors that never calls troupe_arena_reset is told so once as its values grow,
// and again at the end where leaks are watched.
static void test_values_of_a_thread(void **state)
{
    (void)state;
    static const char growing[] = "troupe: warn: a thread keeps 64 MiB of texts and arrays";
    run("TROUPE_LEAKS=0", &texts);
    const char *told = strstr(output, growing);
    if (told == NULL || strstr(told, "troupe_arena_reset frees them") == NULL ||
        strstr(told + 1, growing) != NULL || strstr(output, "leaks:") != NULL)
        support_fail_output(output, "expected '%s', once", growing);
    run("TROUPE_LEAKS=1", &texts);
    if (strstr(output, "leaks: 70 MiB of texts and arrays that threads") == NULL)
        support_fail_output(output, "expected a line of leaks");
    run("TROUPE_LEAKS=1", &one_text); // One large value is no growth.
    if (strstr(output, growing) != NULL || strstr(output, "leaks:") != NULL)
        support_fail_output(output, "expected not '%s'", growing);
}

static void test_without_addr2line(void **state)
{
    (void)state;
    run("TROUPE_LEAKS=1 PATH=/nowhere", &deeds[0]);
    expect_report(&deeds[0], false);
    if (strstr(output, "test_leaks+0x") == NULL)
        support_fail_output(output, "expected the place in the program");
}

static void test_nothing_is_told_where_it_is_off(void **state)
{
    (void)state;
    run("TROUPE_LEAKS=0", &deeds[0]);
    assert_null(strstr(output, "leaks:"));
}

int main(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < DEEDS; i++)
        if (strcmp(argv[1], deeds[i].name) == 0)
            return be_the_program(argc, argv, &deeds[i]);
    if (argc > 1 && strcmp(argv[1], texts.name) == 0)
        return be_the_program(argc, argv, &texts);
    if (argc > 1 && strcmp(argv[1], one_text.name) == 0)
        return be_the_program(argc, argv, &one_text);
    self[readlink("/proc/self/exe", self, sizeof self - 1)] = '\0';
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_told_with_its_line),
        cmocka_unit_test(test_values_of_a_thread),
        cmocka_unit_test(test_without_addr2line),
        cmocka_unit_test(test_nothing_is_told_where_it_is_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
