// test_given_back.c: a node that has held much is small again when it idles, and sleeps.
// label: alone
#include <places.h>
#include <support.h>

#include <dirent.h>
#include <inttypes.h>
#include <runtime/shm/segment.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe.h>
#include <unistd.h>

enum { MIB = 1 << 20, HELD = 256 * MIB, EACH = 2 * MIB, COUNT = HELD / EACH };

// What a node may have that idles: of the store this much beyond what it began with is in reserve.
enum { IDLE_BYTES_MAX = 15 * 1000 * 1000, RESERVE = 4 * MIB };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; // Their memory is counted, too.
#else
enum { SANITIZED = 0 };
#endif

typedef struct holder {
    troupe_ref refs[COUNT];
    int count;
} holder;

static troupe_status hold(holder *self, const int *count, int64_t *pid)
{
    char *data = malloc(EACH);
    if (data == NULL)
        return TROUPE_NO_MEMORY;
    for (; self->count < *count; self->count++) {
        memset(data, self->count + 1, EACH);
        self->refs[self->count] = troupe_put_bytes(data, EACH);
    }
    free(data);
    *pid = getpid();
    return TROUPE_OK;
}

static troupe_status let_go(holder *self, const troupe_none *none, int64_t *wrong)
{
    (void)none;
    *wrong = 0;
    while (self->count > 0) {
        troupe_view view;
        troupe_ref ref = self->refs[--self->count];
        TROUPE_TRY(troupe_view_bytes(ref, &view, 0));
        const unsigned char *bytes = view.data;
        *wrong +=
            bytes[0] != (unsigned char)(self->count + 1) || memcmp(bytes, bytes + 1, EACH - 1) != 0;
        troupe_view_end(&view);
        troupe_ref_drop(ref);
    }
    return TROUPE_OK;
}

TROUPE_ACTOR(holder, (hold, int, int64_t), (let_go, troupe_none, int64_t));

static uint64_t backed(void)
{
    troupe_store_usage now;
    troupe_must(troupe_store_usage_get(&now));
    return now.bytes_backed;
}

static bool is_at_most(void *limit)
{
    return backed() <= *(uint64_t *)limit;
}

// Of memory that the kernel counts for the node's processes, each page shared out among its users;
// -1: it does not say.
static int64_t bytes_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    char *text = support_read_file(path);
    char *line = text != NULL ? strstr(text, "\nPss:") : NULL;
    int64_t kib = line != NULL ? strtoll(line + 5, NULL, 10) : -1;
    free(text);
    return kib < 0 ? -1 : kib * 1024;
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    char *text = support_read_file(path);
    assert_non_null(text);
    pid_t parent = (pid_t)strtol(strstr(text, "\nPPid:") + 6, NULL, 10);
    free(text);
    return parent;
}

// How often the node process's thread that gives memory back has gone to sleep.
static int64_t sleeps(void)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)trp_segment_process(TRP_PROCESS_NODE)->pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int64_t times = -1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char file[320];
        snprintf(file, sizeof file, "%.60s/%.60s/status", path, entry->d_name);
        char *text = support_read_file(file);
        if (text != NULL && strstr(text, "troupe-drain") != NULL)
            times = strtoll(strstr(text, "\nvoluntary_ctxt_switches:") + 25, NULL, 10);
        free(text);
    }
    closedir(folder);
    assert_true(times >= 0);
    return times;
}

static bool never(void *unused)
{
    (void)unused;
    return false;
}

static void test_a_node_that_idles(void **state)
{
    (void)state;
    troupe_must(troupe_start(0, NULL, .workers = 1, .store_bytes_max = 2 * (size_t)HELD));
    holder_actor actor = troupe_spawn(holder, .place = TROUPE_PLACE_WORKER);
    int64_t worker, wrong;
    troupe_must(troupe_get(int64_t, troupe_call(actor, hold, 1), &worker));
    troupe_must(troupe_get(int64_t, troupe_call(actor, let_go, 0), &wrong));
    uint64_t least = backed() + RESERVE;
    for (int round = 0; round < 2; round++) {
        troupe_must(troupe_get(int64_t, troupe_call(actor, hold, COUNT), &worker));
        assert_true(backed() >= HELD);
        troupe_must(troupe_get(int64_t, troupe_call(actor, let_go, 0), &wrong));
        assert_int_equal(wrong, 0);
        int64_t begun = support_now_ms();
        assert_true(support_wait_until(is_at_most, &least, SUPPORT_SOON_MS));
        print_message("%d MiB back after %" PRId64 " ms, %" PRIu64 " KiB left\n", HELD / MIB,
                      support_now_ms() - begun, backed() / 1024);
    }
    pid_t node = trp_segment_process(TRP_PROCESS_NODE)->pid;
    const pid_t all[] = {getpid(), node, parent_of(node), (pid_t)worker}; // The keeper is third.
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sum += bytes_of(all[i]);
    if (sum > 0 && !SANITIZED) {
        print_message("the node takes %" PRId64 " KiB\n", sum / 1024);
        assert_true(sum <= IDLE_BYTES_MAX + RESERVE);
    }
    // And it wakes no more while nothing happens: what has a clock never sleeps for so long.
    bool slept = false;
    for (int i = 0; i < 4 && !slept; i++) {
        int64_t before = sleeps();
        (void)support_wait_until(never, NULL, 2500);
        slept = sleeps() == before;
    }
    assert_true(slept);
    troupe_must(troupe_stop());
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_node_that_idles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
