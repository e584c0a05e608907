// test_trace.c: the file that says when which method ran: read as JSON, with events of several
// processes.
#include "sleeper.h"

#include <places.h>
#include <support.h>

#include <runtime/base/clock.h>
#include <runtime/host/trace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <troupe/task.h>
#include <unistd.h>

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

// ---- reading it: strictly as JSON, and then line by line, since each event has its own

static const char *past_space(const char *at)
{
    return at + strspn(at, " \n");
}

// The end of the JSON value that begins there; NULL: it is none.
static const char *value_end(const char *at, int depth);

static const char *string_end(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++)
        if (*at < ' ' || *at > '~' || *at == '\\') // The writer makes none that need more.
            return NULL;
    return at + 1;
}

// Of an object or array, behind its bracket.
static const char *items_end(const char *at, char close, int depth)
{
    at = past_space(at);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (close == '}') {
            at = string_end(past_space(at));
            at = at != NULL ? past_space(at) : NULL;
            if (at == NULL || *at++ != ':')
                return NULL;
        }
        at = value_end(at, depth + 1);
        if (at == NULL)
            return NULL;
        at = past_space(at);
        if (*at != ',')
            return *at == close ? at + 1 : NULL;
        at++;
    }
}

static const char *value_end(const char *at, int depth)
{
    char *end;
    at = past_space(at);
    if (depth > 8)
        return NULL;
    if (*at == '{' || *at == '[')
        return items_end(at + 1, *at == '{' ? '}' : ']', depth);
    if (*at == '"')
        return string_end(at);
    (void)strtod(at, &end);
    return end != at ? end : NULL;
}

static char *load(const char *path)
{
    char *all = support_read_file(path);
    assert_non_null(all);
    const char *end = value_end(all, 0);
    if (all[0] != '[' || end == NULL || *past_space(end) != '\0')
        fail_msg("the trace is no JSON array: %.2000s", all);
    return all;
}

// The next line at or behind `at` that holds all three; NULL: there is none.
static const char *next(const char *at, const char *kind, const char *name, int pid)
{
    char all[3][128];
    snprintf(all[0], sizeof all[0], "\"ph\":\"%s\"", kind);
    snprintf(all[1], sizeof all[1], "\"name\":\"%s\"", name);
    snprintf(all[2], sizeof all[2], "\"pid\":%d,", pid);
    while (at != NULL && *at != '\0') {
        char line[1024];
        size_t size = strcspn(at, "\n");
        assert_true(size < sizeof line);
        memcpy(line, at, size);
        line[size] = '\0';
        if (strstr(line, all[0]) && strstr(line, all[1]) && strstr(line, all[2]))
            return at;
        at += size + (at[size] == '\n');
    }
    return NULL;
}

// How many events of that kind and name the process has.
static size_t count(const char *events, const char *kind, const char *name, int pid)
{
    size_t found = 0;
    for (const char *at = events; (at = next(at, kind, name, pid)) != NULL; found++)
        at += strcspn(at, "\n");
    return found;
}

static double number(const char *event, const char *key)
{
    char mark[64];
    snprintf(mark, sizeof mark, "\"%s\":", key);
    const char *at = strstr(event, mark);
    assert_non_null(at);
    return strtod(at + strlen(mark), NULL);
}

// All that ran there ran between the two times, and slept as long as it should.
static void check_times(const char *events, int pid, double from_us, double to_us)
{
    const char *at = events;
    while ((at = next(at, "X", "sleeper.nap", pid)) != NULL) {
        double ts = number(at, "ts"), dur = number(at, "dur");
        assert_true(ts >= from_us && dur >= NAP_MS * 1e3 && ts + dur <= to_us);
        assert_true(number(at, "tid") > 0);
        assert_int_equal((int)number(at, "caller"), getpid());
        at += strcspn(at, "\n");
    }
}

static void test_trace_of_several_processes(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "trace.json");
    int pids[3], pid;
    double from_us = (double)trp_clock_ns() * 1e-3;
    assert_int_equal(troupe_start(0, NULL, .workers = 2, .trace = path), TROUPE_OK);
    call_all(pids);
    assert_int_equal(troupe_get(int, troupe_run(doze, NAP_MS), &pid), TROUPE_OK);
    troupe_arena_reset();
    assert_int_equal(troupe_stop(), 0);
    double to_us = (double)trp_clock_ns() * 1e-3;
    char *events = load(path);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count(events, "X", "sleeper.nap", pids[i]), 2);
        assert_int_equal(count(events, "i", "spawn sleeper", pids[i]), 1);
        assert_int_equal(count(events, "i", "end sleeper", pids[i]), 1);
        assert_int_equal(count(events, "M", "process_name", pids[i]), 1);
        check_times(events, pids[i], from_us, to_us);
    }
    assert_int_equal(count(events, "X", "doze", pid), 1);
    free(events);
    free(path);
    support_directory_remove(folder);
}

static void test_trace_of_one_process_for_all(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "trace.json");
    int pids[3];
    assert_int_equal(setenv("TROUPE_LOCAL", "1", 1), 0);
    assert_int_equal(setenv("TROUPE_TRACE", path, 1), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 2), TROUPE_OK);
    assert_int_equal(unsetenv("TROUPE_LOCAL"), 0);
    assert_int_equal(unsetenv("TROUPE_TRACE"), 0);
    call_all(pids);
    troupe_arena_reset();
    assert_int_equal(troupe_stop(), 0);
    char *events = load(path);
    assert_int_equal(count(events, "X", "sleeper.nap", getpid()), 6);
    free(events);
    free(path);
    support_directory_remove(folder);
}

// Whether the file has an event of that process by now.
typedef struct wanted {
    const char *path;
    char mark[64];
} wanted;

static bool is_written(void *context)
{
    const wanted *it = context;
    char *all = support_read_file(it->path);
    bool found = all != NULL && strstr(all, it->mark) != NULL;
    free(all);
    return found;
}

static void test_a_killed_process_leaves_what_it_had_written(void **state)
{
    (void)state;
    char *folder = support_directory_make();
    wanted it = {.path = support_path(folder, "trace.json")};
    int pid;
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .trace = it.path), TROUPE_OK);
    sleeper_actor one = troupe_spawn(sleeper, .place = TROUPE_PLACE_ISOLATED);
    assert_int_equal(troupe_get(int, troupe_call(one, nap, NAP_MS), &pid), TROUPE_OK);
    snprintf(it.mark, sizeof it.mark, "\"name\":\"sleeper.nap\",\"cat\":\"method\",\"pid\":%d,",
             pid);
    assert_true(support_wait_until(is_written, &it, SUPPORT_SOON_MS));
    assert_int_equal(kill(pid, SIGKILL), 0);
    troupe_arena_reset();
    assert_int_equal(troupe_stop(), 0);
    char *events = load(it.path);
    assert_int_equal(count(events, "X", "sleeper.nap", pid), 1);
    free(events);
    free((char *)it.path);
    support_directory_remove(folder);
}

static void test_what_does_not_fit_is_counted(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "trace.json");
    enum { MOST = TRP_TRACE_ROWS * 4 };
    const trp_trace_event event = {
        .begun_ns = 1000, .lasted_ns = 1000, .class_name = "odd\"name", .method = "m\n"};
    assert_int_equal(trp_trace_create(path, ""), TROUPE_OK);
    trp_trace_join(1, "");
    for (int i = 0; i < MOST; i++)
        trp_trace_add(&event);
    trp_trace_finish();
    char *events = load(path);
    size_t there = count(events, "X", "odd_name.m_", getpid());
    const char *lost_at = next(events, "M", "events_lost", getpid());
    size_t lost = lost_at != NULL ? (size_t)number(lost_at, "count") : 0;
    assert_in_range(there, TRP_TRACE_ROWS, MOST);
    assert_int_equal(there + lost, MOST);
    free(events);
    free(path);
    support_directory_remove(folder);
}

static void test_a_file_that_cannot_be_made(void **state)
{
    (void)state;
    assert_int_equal(troupe_start(0, NULL, .trace = "/nowhere/at/all.json"), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "/nowhere/at/all.json"));
    assert_int_equal(troupe_start(0, NULL, .workers = 1), TROUPE_OK);
    assert_int_equal(troupe_stop(), 0);
}

// Nothing of others is written over, and nobody else reads what ran.
static void test_a_file_that_is_not_its_own(void **state)
{
    (void)state;
    char *folder = support_directory_make(), *path = support_path(folder, "trace.json");
    char *mine = support_path(folder, "mine");
    struct stat about;
    support_write_file(mine, "kept", 4);
    assert_int_equal(symlink(mine, path), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .trace = path), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "it is a link"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(mine, path), 0);
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .trace = path), TROUPE_IO);
    assert_int_equal(stat(mine, &about), 0);
    assert_int_equal(about.st_size, 4);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); // Nobody waits for who would read it.
    assert_int_equal(troupe_start(0, NULL, .workers = 1, .trace = path), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "a pipe without a reader"));
    assert_int_equal(unlink(path), 0);
    mode_t before = umask(0);
    for (int shared = 0; shared < 2; shared++) {
        assert_int_equal(
            troupe_start(0, NULL, .workers = 1, .trace = path, .shared_files = shared != 0),
            TROUPE_OK);
        assert_int_equal(troupe_stop(), 0);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_mode & 07777, shared ? 0666 : 0600);
        assert_int_equal(unlink(path), 0);
    }
    umask(before);
    free(mine);
    free(path);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_of_several_processes),
        cmocka_unit_test(test_trace_of_one_process_for_all),
        cmocka_unit_test(test_a_killed_process_leaves_what_it_had_written),
        cmocka_unit_test(test_what_does_not_fit_is_counted),
        cmocka_unit_test(test_a_file_that_cannot_be_made),
        cmocka_unit_test(test_a_file_that_is_not_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
