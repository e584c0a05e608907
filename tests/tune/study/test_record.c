// test_record.c: a file of lines that is only added to: what of it is found again.
// label: faults
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tune/study/record.h>
#include <unistd.h>

static char *folder, *path;

static int open_folder(void **state)
{
    (void)state;
    folder = support_directory_make();
    path = support_path(folder, "record.jsonl");
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    free(path);
    support_directory_remove(folder);
    return 0;
}

static void ok(troupe_status status)
{
    if (status != TROUPE_OK)
        fail_msg("%s: %s", troupe_status_name(status), troupe_last_error()->text);
}

static trp_tune_record *opened(troupe_open how, trp_buffer *lines)
{
    trp_tune_record *record = NULL;
    ok(trp_tune_record_open(path, how, lines, &record));
    assert_non_null(record);
    return record;
}

static void add(trp_tune_record *record, int number)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"step\", \"number\": %d", number);
    trp_tune_record_add(record, &line);
    assert_null(line.data);
}

// The text of lines 0 .. count - 1.
static size_t text_of(int count, char *text)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += (size_t)sprintf(text + size, "{\"event\": \"step\", \"number\": %d}\n", i);
    return size;
}

static void assert_lines(const trp_buffer *lines, int count)
{
    static char text[1 << 16];
    size_t size = text_of(count, text);
    assert_int_equal(lines->size, size);
    if (size > 0)
        assert_memory_equal(lines->data, text, size);
}

static void assert_file(int count)
{
    static char text[1 << 16];
    text[text_of(count, text)] = '\0';
    support_assert_file(folder, "record.jsonl", text);
}

static void test_what_was_added_is_found_again(void **state)
{
    (void)state;
    trp_buffer lines;
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    assert_lines(&lines, 0);
    for (int i = 0; i < 3; i++)
        add(record, i);
    assert_file(3); // At once.
    ok(trp_tune_record_sync(record, true));
    assert_int_equal(trp_tune_record_lasts(record), trp_tune_record_added(record));
    trp_tune_record_close(&record);
    assert_null(record);
    trp_tune_record_close(&record);

    record = opened(TROUPE_OPEN_RESUME, &lines);
    assert_lines(&lines, 3);
    trp_buffer_free(&lines);
    add(record, 3);
    trp_tune_record_close(&record);
    record = opened(TROUPE_OPEN_RESUME_OR_NEW, &lines);
    assert_lines(&lines, 4);
    assert_string_equal(trp_tune_record_path(record), path);
    trp_buffer_free(&lines);
    trp_tune_record_close(&record);
}

// At each byte of its last line the file may end.
static void test_a_torn_last_line_is_cut_off_by_the_next(void **state)
{
    (void)state;
    char text[256];
    size_t two = text_of(2, text), three = text_of(3, text);
    for (size_t size = two; size < three; size++) {
        trp_buffer lines;
        support_write_file(path, text, size);
        trp_tune_record *record = opened(TROUPE_OPEN_RESUME, &lines);
        assert_lines(&lines, 2);
        trp_buffer_free(&lines);
        char *left = support_read_file(path);
        assert_int_equal(strlen(left), size); // Who only looks changes nothing.
        free(left);
        add(record, 2);
        assert_file(3);
        trp_tune_record_close(&record);
    }
}

static void test_a_torn_first_line_is_no_record(void **state)
{
    (void)state;
    char text[256];
    size_t one = text_of(1, text);
    for (size_t size = 0; size < one; size++) {
        for (int how = TROUPE_OPEN_NEW; how <= TROUPE_OPEN_RESUME_OR_NEW; how++) {
            trp_buffer lines;
            support_write_file(path, text, size);
            trp_tune_record *record = opened((troupe_open)how, &lines);
            assert_lines(&lines, 0);
            trp_buffer_free(&lines);
            add(record, 0);
            assert_file(1);
            trp_tune_record_close(&record);
        }
    }
}

static void refused(troupe_open how, troupe_status expected, const char *part)
{
    trp_buffer lines;
    trp_tune_record *record = NULL;
    assert_int_equal(trp_tune_record_open(path, how, &lines, &record), expected);
    assert_null(record);
    assert_null(lines.data);
    assert_non_null(strstr(troupe_last_error()->text, part));
}

static void test_what_is_refused(void **state)
{
    (void)state;
    unlink(path);
    refused(TROUPE_OPEN_RESUME, TROUPE_NOT_FOUND, "record.jsonl is not there");
    support_write_file(path, "{\"event\": \"step\"}\n", 18);
    refused(TROUPE_OPEN_NEW, TROUPE_EXISTS, "is there already");
    // Another's file stays as it is.
    support_write_file(path, "my diary", 8);
    refused(TROUPE_OPEN_NEW, TROUPE_EXISTS, "something else");
    refused(TROUPE_OPEN_RESUME, TROUPE_CORRUPT, "something else");
    refused(TROUPE_OPEN_RESUME_OR_NEW, TROUPE_CORRUPT, "something else");
    support_assert_file(folder, "record.jsonl", "my diary");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(TROUPE_OPEN_RESUME, TROUPE_INVALID, "no file of a kind");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refused(TROUPE_OPEN_NEW, TROUPE_IO, "cannot be opened");
    rmdir(path);

    char *kept = path;
    path = support_path(folder, "not/there.jsonl");
    refused(TROUPE_OPEN_NEW, TROUPE_NOT_FOUND, "its folder must be");
    free(path);
    path = kept;
}

// A path means what it meant when the record was opened.
static void test_a_program_may_go_elsewhere(void **state)
{
    (void)state;
    trp_buffer lines;
    trp_tune_record *record = NULL;
    unlink(path);
    char *here = getcwd(NULL, 0);
    assert_non_null(here);
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("within", 0700), 0);
    int descriptors = support_count_descriptors();
    ok(trp_tune_record_open("within/record.jsonl", TROUPE_OPEN_NEW, &lines, &record));
    assert_int_equal(chdir(here), 0);
    free(here);
    add(record, 0);
    ok(trp_tune_record_sync(record, true));
    add(record, 1);
    ok(trp_tune_record_sync(record, true));
    trp_tune_record_close(&record);
    assert_int_equal(support_count_descriptors(), descriptors);
    char *within = support_path(folder, "within");
    char text[256];
    text[text_of(2, text)] = '\0';
    support_assert_file(within, "record.jsonl", text);
    free(within);
}

static void test_one_process_has_it(void **state)
{
    (void)state;
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    add(record, 0);
    refused(TROUPE_OPEN_RESUME, TROUPE_BUSY, "open in another process");
    trp_tune_record_close(&record);
    record = opened(TROUPE_OPEN_RESUME, &lines);
    trp_buffer_free(&lines);
    trp_tune_record_close(&record);
}

static void test_what_was_opened_in_vain(void **state)
{
    (void)state;
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    trp_tune_record_abandon(&record);
    assert_null(record);
    assert_false(support_exists(path));
    trp_tune_record_abandon(&record);
    support_write_file(path, "{\"event\": \"step", 15); // Another life's.
    record = opened(TROUPE_OPEN_NEW, &lines);
    trp_tune_record_abandon(&record);
    assert_true(support_exists(path));
    record = opened(TROUPE_OPEN_NEW, &lines);
    add(record, 0);
    trp_tune_record_abandon(&record);
    assert_file(1);
}

static void test_a_beginning_can_be_cut(void **state)
{
    (void)state;
    trp_buffer lines;
    char text[256];
    size_t one = text_of(1, text), three = text_of(3, text);
    support_write_file(path, text, three);
    trp_tune_record *record = opened(TROUPE_OPEN_RESUME, &lines);
    trp_buffer_free(&lines);
    trp_tune_record_cut(record, one);
    assert_file(3);
    add(record, 1);
    assert_file(2);
    trp_tune_record_close(&record);
}

// ---- disks that are full

static void test_a_full_disk_is_said_and_the_file_stays_a_beginning(void **state)
{
    (void)state;
    struct rlimit before;
    trp_buffer lines;
    unlink(path);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    add(record, 0);
    // In the middle of line 1.
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){40, before.rlim_max}), 0);
    for (int i = 1; i < 5; i++)
        add(record, i);
    assert_int_equal(trp_tune_record_sync(record, true), TROUPE_IO);
    assert_non_null(strstr(troupe_last_error()->text, "record.jsonl lacks the end"));
    assert_true(trp_tune_record_lasts(record) < trp_tune_record_added(record));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    add(record, 5);
    assert_file(6);
    ok(trp_tune_record_sync(record, true));
    trp_tune_record_close(&record);
}

static void test_a_full_file_system_is_no_space(void **state)
{
    (void)state;
    char *mounted = support_path(folder, "small"), *kept = path;
    assert_int_equal(mkdir(mounted, 0700), 0);
    if (mount("tmpfs", mounted, "tmpfs", 0, "size=8k") != 0) {
        free(mounted);
        skip();
        return;
    }
    path = support_path(mounted, "record.jsonl");
    trp_buffer lines;
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    for (int i = 0; i < 1000; i++)
        add(record, i);
    assert_int_equal(trp_tune_record_sync(record, true), TROUPE_NO_SPACE);
    assert_int_equal(trp_tune_record_sync(record, false), TROUPE_OK); // Its thread tries.
    ok(mount("tmpfs", mounted, "tmpfs", MS_REMOUNT, "size=1m") == 0 ? TROUPE_OK : TROUPE_FAILED);
    ok(trp_tune_record_sync(record, true));
    trp_tune_record_close(&record);
    record = opened(TROUPE_OPEN_RESUME, &lines);
    assert_lines(&lines, 1000);
    trp_buffer_free(&lines);
    trp_tune_record_close(&record);
    free(path);
    path = kept;
    assert_int_equal(umount(mounted), 0);
    free(mounted);
}

// What cannot wait for lack of memory would be a gap: nothing is written behind it.
static void test_no_memory_leaves_no_gap(void **state)
{
    (void)state;
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    add(record, 0);
    trp_buffer failed = {.failed = true};
    trp_tune_record_add(record, &failed);
    add(record, 2);
    assert_int_equal(trp_tune_record_sync(record, true), TROUPE_NO_MEMORY);
    assert_file(1);
    trp_tune_record_close(&record);

    for (long n = 0;; n++) {
        unlink(path);
        trp_memory_fail_after(n);
        troupe_status status = trp_tune_record_open(path, TROUPE_OPEN_NEW, &lines, &record);
        trp_memory_fail_after(-1);
        if (status == TROUPE_OK)
            break;
        assert_int_equal(status, TROUPE_NO_MEMORY);
        assert_true(n < 10);
    }
    trp_tune_record_close(&record);
}

// ---- syncing

static int descriptor_of_path(void)
{
    char name[64], to[4096];
    for (int fd = 3; fd < 1000; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(name, to, sizeof to - 1);
        if (size > 0 && (to[size] = '\0', strcmp(to, path) == 0))
            return fd;
    }
    fail_msg("%s is not open", path);
    return -1;
}

static void add_soon(trp_tune_record *record, int number)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"step\", \"number\": %d", number);
    trp_tune_record_add_soon(record, &line);
    assert_null(line.data);
}

static void assert_in_file(int count)
{
    char *expected = calloc((size_t)count + 1, 64), *text = support_read_file(path);
    (void)text_of(count, expected);
    assert_string_equal(text, expected);
    free(text);
    free(expected);
}

static void test_gathered_lines_are_written_before_any_other(void **state)
{
    (void)state;
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    add_soon(record, 0);
    assert_in_file(1); // Nothing is gathered.
    trp_tune_record_gather(record, true);
    add_soon(record, 1);
    add_soon(record, 2);
    assert_in_file(1);
    assert_true(trp_tune_record_added(record) > trp_tune_record_lasts(record));
    add(record, 3);
    assert_in_file(4);
    add_soon(record, 4);
    trp_tune_record_write(record);
    assert_in_file(5);
    add_soon(record, 5);
    ok(trp_tune_record_sync(record, true));
    assert_in_file(6);
    assert_int_equal(trp_tune_record_lasts(record), trp_tune_record_added(record));
    add_soon(record, 6);
    trp_tune_record_gather(record, false);
    assert_in_file(7);
    trp_tune_record_gather(record, true);
    enum { MANY = 5000 }; // More than are gathered.
    for (int i = 7; i < MANY; i++)
        add_soon(record, i);
    trp_tune_record_close(&record);
    assert_in_file(MANY);
}

static void test_what_there_is_no_memory_to_gather_is_written(void **state)
{
    (void)state;
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    trp_tune_record_gather(record, true);
    trp_buffer line = {0};
    trp_buffer_printf(&line, "{\"event\": \"step\", \"number\": 0");
    trp_memory_fail_after(0);
    trp_tune_record_add_soon(record, &line);
    trp_memory_fail_after(-1);
    add_soon(record, 1);
    trp_tune_record_close(&record);
    assert_in_file(2);
}

#ifdef TROUPE_FAULTS
static int spoilt, kept_fd;

// A pipe cannot be synced.
static void spoil(void)
{
    int ends[2];
    spoilt = descriptor_of_path();
    kept_fd = dup(spoilt);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], spoilt);
    close(ends[0]);
    close(ends[1]);
}

// After a sync that failed, the kernel may have forgotten what was not written.
static void test_a_sync_that_failed_is_not_forgotten(void **state)
{
    (void)state;
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    add(record, 0);
    trp_fault_call_at("record sync", 1, spoil);
    assert_int_equal(trp_tune_record_sync(record, true), TROUPE_IO);
    dup2(kept_fd, spoilt);
    close(kept_fd);
    assert_int_equal(trp_tune_record_sync(record, true), TROUPE_IO);
    assert_int_equal(trp_tune_record_sync(record, false), TROUPE_IO);
    trp_tune_record_close(&record);
}

static atomic_int syncs;
static void slow_sync(void)
{
    usleep(30000);
}

static void *wait_for_sync(void *user)
{
    ok(trp_tune_record_sync(user, true));
    return NULL;
}

static void count_sync(void)
{
    atomic_fetch_add(&syncs, 1);
}

// While one sync runs, others gather for the next.
static void test_many_wait_for_one_sync(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    add(record, 0);
    trp_fault_call_at("record sync", 1, slow_sync);
    ok(trp_tune_record_sync(record, false));
    usleep(5000); // It has begun, most likely; else all is one sync.
    add(record, 1);
    trp_fault_call_at("record sync", 3, count_sync);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, wait_for_sync, record);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(trp_tune_record_lasts(record), trp_tune_record_added(record));
    assert_int_equal(atomic_load(&syncs), 0); // A third would have been one too many.
    trp_tune_record_close(&record);
    trp_fault_call_at("record sync", 0, NULL);
}

static void test_a_thread_syncs_what_nobody_waits_for(void **state)
{
    (void)state;
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    int threads = support_count_threads();
    for (int i = 0; i < 100; i++) {
        add(record, i);
        ok(trp_tune_record_sync(record, false));
    }
    assert_int_equal(support_count_threads(), threads + 1);
    for (int i = 0;
         i < SUPPORT_SOON_MS && trp_tune_record_lasts(record) < trp_tune_record_added(record); i++)
        usleep(1000);
    assert_int_equal(trp_tune_record_lasts(record), trp_tune_record_added(record));
    trp_tune_record_close(&record);
    assert_int_equal(support_count_threads(), threads);
}

// A file system that commits all the time makes files more slowly: such syncs keep a distance, and
// one that somebody waits for does not wait for that.
static void test_syncs_that_nobody_waits_for_keep_a_distance(void **state)
{
    (void)state;
    enum { DISTANCE_MS = 10, FOR_MS = 100 };
    trp_buffer lines;
    unlink(path);
    trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
    uint64_t before = 0;
    int seen = 0, number = 0;
    int64_t start = support_now_ms(), passed;
    do {
        add(record, number++);
        ok(trp_tune_record_sync(record, false));
        uint64_t lasts = trp_tune_record_lasts(record);
        seen += lasts != before;
        before = lasts;
        passed = support_now_ms() - start;
    } while (passed < FOR_MS || (seen == 0 && passed < SUPPORT_SOON_MS)); // A disk may be slow.
    assert_in_range(seen, 1, passed / DISTANCE_MS + 2);
    add(record, number);
    ok(trp_tune_record_sync(record, true));
    assert_int_equal(trp_tune_record_lasts(record), trp_tune_record_added(record));
    trp_tune_record_close(&record);
}

// A process that is killed leaves whole lines, of all that it was told is there.
static void test_kills_leave_whole_lines(void **state)
{
    (void)state;
    for (int kill_at = 1; kill_at <= 6; kill_at++) {
        for (int behind = 0; behind < 2; behind++) {
            trp_buffer lines;
            unlink(path);
            pid_t child = fork();
            if (child == 0) {
                trp_tune_record *record = opened(TROUPE_OPEN_NEW, &lines);
                trp_fault_kill_at(behind ? "record written" : "record write", kill_at);
                for (int i = 0; i < 10; i++)
                    add(record, i);
                _exit(1);
            }
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            assert_true(support_was_killed(status));
            trp_tune_record *record = opened(TROUPE_OPEN_RESUME, &lines);
            assert_lines(&lines, kill_at - 1 + behind);
            trp_buffer_free(&lines);
            trp_tune_record_close(&record);
        }
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_added_is_found_again),
        cmocka_unit_test(test_a_torn_last_line_is_cut_off_by_the_next),
        cmocka_unit_test(test_a_torn_first_line_is_no_record),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_a_program_may_go_elsewhere),
        cmocka_unit_test(test_one_process_has_it),
        cmocka_unit_test(test_what_was_opened_in_vain),
        cmocka_unit_test(test_a_beginning_can_be_cut),
        cmocka_unit_test(test_a_full_disk_is_said_and_the_file_stays_a_beginning),
        cmocka_unit_test(test_a_full_file_system_is_no_space),
        cmocka_unit_test(test_no_memory_leaves_no_gap),
        cmocka_unit_test(test_gathered_lines_are_written_before_any_other),
        cmocka_unit_test(test_what_there_is_no_memory_to_gather_is_written),
#ifdef TROUPE_FAULTS
        cmocka_unit_test(test_a_sync_that_failed_is_not_forgotten),
        cmocka_unit_test(test_many_wait_for_one_sync),
        cmocka_unit_test(test_a_thread_syncs_what_nobody_waits_for),
        cmocka_unit_test(test_syncs_that_nobody_waits_for_keep_a_distance),
        cmocka_unit_test(test_kills_leave_whole_lines),
#endif
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
