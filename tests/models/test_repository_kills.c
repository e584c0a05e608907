// test_repository_kills.c: a repository of models while processes are killed, disks are full, and
// many change it at once.
// cost: 5
#include "stored.h"

#include <errno.h>
#include <models/repository.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder, *repository, *run, *checkpoint, *exported;

static int set_up(void **state)
{
    (void)state;
    folder = support_directory_make();
    repository = support_path(folder, "models");
    run = support_path(folder, "run");
    exported = support_path(folder, "exported");
    checkpoint = stored_checkpoint(run, 0, 5);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atomic_store(&trp_file_probe, NULL);
    troupe_arena_reset();
    support_directory_remove(folder);
    free(repository);
    free(run);
    free(checkpoint);
    free(exported);
    return 0;
}

static troupe_status push(const char *alias, troupe_model_ref *ref)
{
    return troupe_push(line, "digits", checkpoint, ref, .repository = repository, .alias = alias);
}

// ---- what has to hold at any time

typedef struct seen {
    int64_t versions[64];
    size_t count;
} seen;

// All that is listed is whole; aliases name some of it.
static seen look(void)
{
    seen it = {0};
    troupe_versions versions;
    troupe_status status = troupe_repository_list("digits", &versions, .repository = repository);
    if (status == TROUPE_NOT_FOUND)
        return it;
    assert_int_equal(status, TROUPE_OK);
    size_t aliases = 0;
    for (size_t i = 0; i < versions.count; i++) {
        const troupe_version_info *info = versions.items[i];
        troupe_checkpoint *opened;
        if (info->problem)
            fail_msg("version %d: %s", (int)info->version, info->problem);
        troupe_must(troupe_checkpoint_open(info->path, &opened));
        troupe_must(troupe_checkpoint_verify(opened));
        troupe_checkpoint_close(&opened);
        aliases += info->alias_count;
        it.versions[it.count++] = info->version;
    }
    trp_path path;
    trp_names names;
    troupe_must(trp_path_make(&path, "%s/digits", repository));
    troupe_must(trp_key_aliases(path.text, trp_arena_current(), &names));
    assert_int_equal(aliases, names.count);
    troupe_arena_reset();
    return it;
}

static bool has(const seen *it, int64_t version)
{
    for (size_t i = 0; i < it->count; i++)
        if (it->versions[i] == version)
            return true;
    return false;
}

// ---- what is done

static troupe_status do_push(void)
{
    return push("production", NULL);
}

static troupe_status do_import(void)
{
    return troupe_repository_import(exported, "digits", NULL, .repository = repository);
}

static troupe_status do_export(void)
{
    char *to = support_path(folder, "out");
    troupe_status status = troupe_repository_export("digits", to, .repository = repository);
    free(to);
    return status;
}

static troupe_status do_alias(void)
{
    return troupe_repository_alias("digits@1", "production", .repository = repository);
}

static troupe_status do_delete(void)
{
    return troupe_repository_delete("digits@2", .repository = repository);
}

static troupe_status do_delete_key(void)
{
    return troupe_repository_delete_key("digits", .repository = repository);
}

static const struct {
    const char *name;
    troupe_status (*run)(void);
    int more, less; // Versions that there may be beside those before, and that may be gone.
} operations[] = {
    {"push", do_push, 1, 0},   {"import", do_import, 1, 0}, {"export", do_export, 0, 0},
    {"alias", do_alias, 0, 0}, {"delete", do_delete, 0, 1}, {"delete key", do_delete_key, 0, 3},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

// ---- the steps of it

static atomic_int left; // Steps until the one that counts.
static bool kills;
static int more; // Steps after one that failed until a kill; 0: there is none.

static int at_step(const char *step)
{
    (void)step;
    int now = atomic_fetch_sub(&left, 1);
    if (more > 0 && now == 1 - more)
        (void)kill(getpid(), SIGKILL);
    if (now != 1)
        return 0;
    if (kills)
        (void)kill(getpid(), SIGKILL);
    return ENOSPC;
}

// Three versions, of which an alias names the last one.
static void fill(void)
{
    for (int i = 0; i < 3; i++)
        troupe_must(push("production", NULL));
    troupe_must(troupe_repository_alias("digits@1", "first", .repository = repository));
    troupe_must(troupe_repository_export("digits@1", exported, .repository = repository));
}

// Whether the operation came to its end, with that step killed or failing.
static bool disturb(int operation, int step, bool by_kill)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        atomic_store(&left, step);
        kills = by_kill;
        atomic_store(&trp_file_probe, at_step);
        troupe_status ended = operations[operation].run();
        if (ended != TROUPE_OK && !strstr(troupe_last_error()->text, "No space left")) {
            fprintf(stderr, "%s: %s\n", operations[operation].name, troupe_last_error()->text);
            _exit(1);
        }
        // It may have gone over a step that it can do without.
        _exit(atomic_load(&left) > 0 ? 3 : ended == TROUPE_OK || ended == TROUPE_NO_SPACE ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
        return true;
    bool killed = support_was_killed(status);
    assert_int_equal(killed, by_kill);
    return false;
}

static void assert_clean(void)
{
    trp_path path;
    trp_numbers numbers;
    size_t removed;
    troupe_must(troupe_repository_gc(&removed, .repository = repository));
    troupe_must(trp_path_make(&path, "%s/digits", repository));
    troupe_must(trp_key_numbers(path.text, trp_arena_current(), &numbers));
    // The highest folder keeps its number.
    assert_true(numbers.unfinished_count == 0 ||
                (numbers.unfinished_count == 1 && numbers.unfinished[0] == numbers.highest));
    if (numbers.unfinished_count > 0) {
        troupe_must(trp_version_path(path.text, numbers.highest, &path));
        assert_int_equal(support_count_files(path.text), 0);
    }
    troupe_must(troupe_repository_gc(&removed, .repository = repository));
    assert_int_equal(removed, 0);
}

static void disturb_all(bool by_kill)
{
    for (int i = 0; i < OPERATIONS; i++)
        for (int step = 1;; step++) {
            troupe_model_ref ref;
            tear_down(NULL);
            set_up(NULL);
            fill();
            seen before = look();
            bool whole = disturb(i, step, by_kill);
            seen after = look();
            size_t gone = 0;
            for (size_t at = 0; at < before.count; at++)
                gone += !has(&after, before.versions[at]);
            assert_true(gone <= (size_t)operations[i].less);
            assert_true(after.count <= before.count - gone + (size_t)operations[i].more);
            if (gone > 0 && i == 4)
                assert_false(has(&after, 2));
            assert_clean();
            troupe_must(push("production", &ref));
            seen at_last = look();
            assert_true(at_last.count == after.count + 1 &&
                        at_last.versions[after.count] > 3); // No number is used twice.
            if (whole) {
                assert_true(step > 2);
                break;
            }
        }
}

// G21: a kill before any step leaves all earlier versions, and the new one or none.
static void test_a_kill_at_any_step_leaves_whole_versions(void **state)
{
    (void)state;
    disturb_all(true);
}

static void test_a_full_disk_at_any_step_leaves_whole_versions(void **state)
{
    (void)state;
    disturb_all(false);
}

// A push that fails removes what it has written, and is killed meanwhile.
static void test_a_kill_after_a_failure_leaves_whole_versions(void **state)
{
    (void)state;
    int killed = 0;
    fill();
    for (int step = 1; step <= 16; step++)
        for (more = 1; more <= 4; more++) {
            int status;
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                atomic_store(&left, step);
                kills = false;
                atomic_store(&trp_file_probe, at_step);
                (void)do_push();
                _exit(0);
            }
            assert_int_equal(waitpid(child, &status, 0), child);
            killed += support_was_killed(status);
            (void)look();
            assert_clean();
        }
    more = 0;
    assert_true(killed > 10);
}

// The first push of all: the folders of the repository and of the key are made, too.
static void test_a_kill_of_the_first_push(void **state)
{
    (void)state;
    for (int step = 1;; step++) {
        troupe_model_ref ref;
        tear_down(NULL);
        set_up(NULL);
        bool whole = disturb(0, step, true);
        assert_true(look().count <= 1);
        troupe_must(push("production", &ref));
        (void)look();
        if (whole)
            break;
    }
}

// ---- what lasts

static atomic_int folder_syncs;

static int count_syncs(const char *step)
{
    if (strcmp(step, "fsync folder") == 0)
        atomic_fetch_add(&folder_syncs, 1);
    return 0;
}

static int syncs_of(const char *key)
{
    atomic_store(&folder_syncs, 0);
    atomic_store(&trp_file_probe, count_syncs);
    troupe_must(troupe_push(line, key, checkpoint, NULL, .repository = repository));
    atomic_store(&trp_file_probe, NULL);
    return atomic_load(&folder_syncs);
}

// A push that was killed has made the folder of the key, and may not have synced the one above: the
// first that gets through does.
static void test_folders_of_others_are_synced_too(void **state)
{
    (void)state;
    char *left_behind = support_path(repository, "left");
    (void)syncs_of("digits");
    int usual = syncs_of("digits");
    troupe_must(trp_folder_make(left_behind));
    assert_int_equal(syncs_of("left"), usual + 2);
    assert_int_equal(syncs_of("left"), usual);
    free(left_behind);
}

// ---- who is alive

static _Atomic int *reached;

// Waits until it is killed, also where the test has ended before.
static void stand(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_store(reached, 1);
    for (;;)
        pause();
}

// Stands at the first file that is written.
static int stand_at_sync(const char *step)
{
    if (strcmp(step, "fsync") == 0)
        stand();
    return 0;
}

static void test_what_is_being_pushed_is_not_removed(void **state)
{
    (void)state;
    size_t removed;
    reached = support_zeros((void *)reached, sizeof *reached);
    troupe_must(push(NULL, NULL));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        atomic_store(&trp_file_probe, stand_at_sync);
        _exit((int)push(NULL, NULL));
    }
    support_await_counter(reached, 1);
    char *weights = support_path(repository, "digits/000002/" TRP_WEIGHTS);
    troupe_must(troupe_repository_gc(&removed, .repository = repository));
    assert_int_equal(removed, 0);
    troupe_model_ref ref;
    troupe_must(push(NULL, &ref)); // Nor do pushes wait for each other.
    assert_string_equal(ref.text, "digits@3");
    troupe_must(troupe_repository_delete("digits@1", .repository = repository));
    assert_true(support_exists(weights));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    troupe_must(troupe_repository_gc(&removed, .repository = repository));
    assert_int_equal(removed, 1);
    assert_false(support_exists(weights));
    free(weights);
}

static atomic_bool go;

static int await_go(const char *step)
{
    if (strcmp(step, "fsync") == 0 && atomic_fetch_add(reached, 1) == 0)
        while (!atomic_load(&go))
            usleep(100);
    return 0;
}

static void *push_beside(void *result)
{
    *(troupe_status *)result = push("production", NULL);
    return NULL;
}

// A thread of the same process, which has the process's locks.
static void test_what_a_thread_pushes_is_not_removed(void **state)
{
    (void)state;
    size_t removed;
    troupe_status status = TROUPE_FAILED;
    pthread_t thread;
    reached = support_zeros((void *)reached, sizeof *reached);
    atomic_store(&go, false);
    atomic_store(&trp_file_probe, await_go);
    assert_int_equal(pthread_create(&thread, NULL, push_beside, &status), 0);
    support_await_counter(reached, 1);
    troupe_must(troupe_repository_gc(&removed, .repository = repository));
    assert_int_equal(removed, 0);
    atomic_store(&go, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, TROUPE_OK);
    assert_int_equal(look().count, 1);
}

static void test_who_keeps_others_waiting_is_named(void **state)
{
    (void)state;
    trp_key_lock *lock, *again;
    trp_path path;
    char text[64];
    reached = support_zeros((void *)reached, sizeof *reached);
    troupe_must(push(NULL, NULL));
    troupe_must(trp_path_make(&path, "%s/digits", repository));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        troupe_must(trp_key_open(path.text, &lock));
        troupe_must(trp_key_enter(lock, 0));
        stand();
    }
    support_await_counter(reached, 1);
    troupe_must(trp_key_open(path.text, &lock));
    (void)snprintf(text, sizeof text, "process %d keeps others from changing", (int)child);
    stored_said(trp_key_enter(lock, 20), TROUPE_BUSY, text);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    troupe_must(trp_key_enter(lock, SUPPORT_SOON_MS));
    troupe_must(trp_key_open(path.text, &again)); // As another thread does.
    assert_ptr_equal(again, lock);
    stored_said(trp_key_enter(again, 20), TROUPE_BUSY, "another thread or machine");
    trp_key_leave(lock);
    troupe_must(trp_key_enter(again, 0));
    trp_key_leave(again);
    trp_key_close(&again);
    trp_key_close(&lock);
}

static void test_a_version_that_is_deleted_meanwhile_is_told(void **state)
{
    (void)state;
    trp_version version;
    fill();
    troupe_must(trp_version_find(repository, "digits@2", &version));
    assert_int_equal(trp_version_failed(&version, TROUPE_CORRUPT), TROUPE_CORRUPT);
    troupe_must(troupe_repository_delete("digits@2", .repository = repository));
    stored_said(trp_version_failed(&version, TROUPE_CORRUPT), TROUPE_NOT_FOUND,
                "digits@2 was deleted while it was read");
    stored_said(trp_alias_set(&version, "late", false), TROUPE_NOT_FOUND,
                "digits@2 was deleted before it had the alias 'late'");
}

// ---- many at once

enum { PUSHERS = 8, PUSHES = 10 };

static void push_many(void)
{
    int64_t last = 0;
    for (int i = 0; i < PUSHES; i++) {
        troupe_model_ref ref;
        troupe_must(push("production", &ref));
        int64_t number = trp_version_number(strchr(ref.text, '@') + 1);
        if (number <= last)
            _exit(1);
        last = number;
    }
    _exit(0);
}

// Lists, opens and sweeps until all pushes are done.
static void watch(void)
{
    while (atomic_load(reached) == 0) {
        troupe_versions versions;
        troupe_instance *instance;
        size_t removed;
        troupe_status status =
            troupe_repository_list("digits", &versions, .repository = repository);
        if (status == TROUPE_NOT_FOUND)
            continue;
        troupe_must(status);
        for (size_t i = 0; i < versions.count; i++)
            if (versions.items[i]->problem)
                _exit(1);
        troupe_must(
            troupe_model_open_stored(line, "digits", NULL, &instance, .repository = repository));
        troupe_model_close(&instance);
        troupe_must(troupe_repository_gc(&removed, .repository = repository));
        if (removed > 0)
            _exit(2);
        troupe_arena_reset();
    }
    _exit(0);
}

// G17: concurrent pushes get numbers without a gap, each its own.
static void test_many_processes_push_the_same_key(void **state)
{
    (void)state;
    pid_t children[PUSHERS + 1];
    int status;
    reached = support_zeros((void *)reached, sizeof *reached);
    for (int i = 0; i <= PUSHERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (i < PUSHERS)
                push_many();
            watch();
        }
    }
    for (int i = 0; i <= PUSHERS; i++) {
        if (i == PUSHERS)
            atomic_store(reached, 1);
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_false(support_was_killed(status));
    }
    troupe_versions versions;
    troupe_version_info info;
    troupe_must(troupe_repository_list("digits", &versions, .repository = repository));
    assert_int_equal(versions.count, PUSHERS * PUSHES);
    for (int i = 0; i < PUSHERS * PUSHES; i++)
        assert_int_equal(versions.items[i]->version, i + 1);
    troupe_must(troupe_repository_describe("digits", &info, .repository = repository));
    assert_int_equal(info.version, PUSHERS * PUSHES);
    troupe_must(troupe_repository_describe("digits@production", &info, .repository = repository));
    assert_int_equal(info.version, PUSHERS * PUSHES);
}

static void *push_some(void *result)
{
    troupe_status *status = (troupe_status *)result;
    *status = TROUPE_OK;
    for (int i = 0; i < 5 && *status == TROUPE_OK; i++)
        *status = push("production", NULL);
    return NULL;
}

static void test_many_threads_push_the_same_key(void **state)
{
    (void)state;
    pthread_t threads[4];
    troupe_status statuses[4];
    troupe_version_info info;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, push_some, &statuses[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(statuses[i], TROUPE_OK);
    }
    seen all = look();
    assert_int_equal(all.count, 20);
    assert_int_equal(all.versions[19], 20);
    troupe_must(troupe_repository_describe("digits@production", &info, .repository = repository));
    assert_int_equal(info.version, 20);
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0) // Files there cost no disk.
        (void)setenv("TMPDIR", "/dev/shm", 0);
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_a_kill_at_any_step_leaves_whole_versions),
        TEST(test_a_full_disk_at_any_step_leaves_whole_versions),
        TEST(test_a_kill_after_a_failure_leaves_whole_versions),
        TEST(test_a_kill_of_the_first_push),
        TEST(test_folders_of_others_are_synced_too),
        TEST(test_what_is_being_pushed_is_not_removed),
        TEST(test_what_a_thread_pushes_is_not_removed),
        TEST(test_who_keeps_others_waiting_is_named),
        TEST(test_a_version_that_is_deleted_meanwhile_is_told),
        TEST(test_many_processes_push_the_same_key),
        TEST(test_many_threads_push_the_same_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
