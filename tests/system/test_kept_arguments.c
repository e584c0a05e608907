// test_kept_arguments.c: a pointer into its arguments that a method keeps beyond its return leads
// to memory that is no longer its own: under AddressSanitizer its use is reported, whatever way the
// arguments came, and also where the program alone has it and not the library. The program is this
// one, run with a number.
// label: watched
#include <support.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#endif
#ifndef WATCHED
#define WATCHED 0
#endif

typedef struct keeper {
    const unsigned char *kept;
    troupe_deferred later;
} keeper;

static troupe_status keep_number(keeper *self, const int *in, troupe_none *out)
{
    (void)out;
    self->kept = (const unsigned char *)in;
    return TROUPE_OK;
}

static troupe_status keep_text(keeper *self, const troupe_text *in, troupe_none *out)
{
    (void)out;
    self->kept = (const unsigned char *)*in;
    return TROUPE_OK;
}

static troupe_status keep_bytes(keeper *self, const troupe_bytes *in, troupe_none *out)
{
    (void)out;
    self->kept = in->data;
    return TROUPE_OK;
}

static troupe_status keep_numbers(keeper *self, const troupe_array_double *in, troupe_none *out)
{
    (void)out;
    self->kept = (const unsigned char *)in->items;
    return TROUPE_OK;
}

static troupe_status keep_and_defer(keeper *self, const troupe_text *in, troupe_none *out)
{
    (void)out;
    self->later = troupe_defer();
    self->kept = (const unsigned char *)*in;
    return TROUPE_OK;
}

static troupe_status look(keeper *self, const troupe_none *in, int *value)
{
    (void)in;
    *value = *self->kept;
    return self->later.id_ != 0
               ? troupe_deferred_fulfil(troupe_none, &self->later, &(troupe_none){0})
               : TROUPE_OK;
}

TROUPE_ACTOR(keeper, (keep_number, int, troupe_none), (keep_text, troupe_text, troupe_none),
             (keep_bytes, troupe_bytes, troupe_none),
             (keep_numbers, troupe_array_double, troupe_none),
             (keep_and_defer, troupe_text, troupe_none), (look, troupe_none, int));

// ---- what is run

static char text[2000001];

static troupe_ref send_number(keeper_actor actor, size_t size)
{
    return troupe_call(actor, keep_number, (int)size);
}

static troupe_ref send_text(keeper_actor actor, size_t size)
{
    memset(text, 'x', size);
    return troupe_call(actor, keep_text, text);
}

static troupe_ref send_bytes(keeper_actor actor, size_t size)
{
    return troupe_call(actor, keep_bytes, text, size);
}

static troupe_ref send_numbers(keeper_actor actor, size_t size)
{
    static double numbers[250000];
    return troupe_call(actor, keep_numbers, numbers, size / 8);
}

static troupe_ref send_and_wait(keeper_actor actor, size_t size)
{
    memset(text, 'x', size);
    return troupe_call(actor, keep_and_defer, text);
}

enum { SMALL = 100, MIDDLE = 20000, LARGE = 2000000 };

static const struct {
    const char *name;
    troupe_ref (*send)(keeper_actor actor, size_t size);
    size_t size;
    troupe_place place;
} deeds[] = {
    {"a number here", send_number, 1, TROUPE_PLACE_HERE},
    {"a number in a worker", send_number, 1, TROUPE_PLACE_WORKER},
    {"a text here", send_text, SMALL, TROUPE_PLACE_HERE},
    {"a text in an isolated actor", send_text, SMALL, TROUPE_PLACE_ISOLATED},
    {"a large text in a worker", send_text, LARGE, TROUPE_PLACE_WORKER},
    {"bytes in a worker", send_bytes, MIDDLE, TROUPE_PLACE_WORKER},
    {"many bytes in a worker", send_bytes, LARGE, TROUPE_PLACE_WORKER},
    {"numbers in a worker", send_numbers, MIDDLE, TROUPE_PLACE_WORKER},
    {"many numbers in a worker", send_numbers, LARGE, TROUPE_PLACE_WORKER},
    {"a text that waits", send_and_wait, SMALL, TROUPE_PLACE_WORKER},
};
enum { DEEDS = sizeof deeds / sizeof *deeds };

static int be_the_program(int which)
{
    int value;
    troupe_none none;
    troupe_must(troupe_start(0, NULL, .workers = 1, .threads = 1));
    keeper_actor actor = troupe_spawn(keeper, .place = deeds[which].place);
    troupe_ref done = deeds[which].send(actor, deeds[which].size);
    if (deeds[which].send != send_and_wait)
        troupe_must(troupe_get(troupe_none, done, &none));
    troupe_status status = troupe_get(int, troupe_call(actor, look), &value);
    printf("the look ended as %s\n", troupe_status_name(status));
    return troupe_stop();
}

// ---- the tests

static char self_path[4096];

static void test_uses_are_reported(void **state)
{
    (void)state;
    static char output[1 << 16];
    int faults = 0;
    for (int i = 0; i < DEEDS; i++) {
        char command[8192];
        snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0:symbolize=0 '%s' %d 2>&1",
                 self_path, i);
        (void)support_run(command, output, sizeof output);
        if (strstr(output, "ERROR: AddressSanitizer: heap-use-after-free") != NULL)
            continue;
        print_error("%s: its use was not reported:\n%s\n", deeds[i].name, output);
        faults++;
    }
    assert_int_equal(faults, 0);
}

static void test_without_it(void **state)
{
    (void)state;
    print_message("SKIPPED: this build has no AddressSanitizer, which reports such uses\n");
    skip();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return be_the_program(atoi(argv[1]));
    self_path[readlink("/proc/self/exe", self_path, sizeof self_path - 1)] = '\0';
    const struct CMUnitTest tests[] = {
        WATCHED ? (struct CMUnitTest)cmocka_unit_test(test_uses_are_reported)
                : (struct CMUnitTest)cmocka_unit_test(test_without_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
