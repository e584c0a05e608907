// test_books.c: the database of the train server: what is put is read back, a full disk, a damaged,
// newer or strange file.
#include <runtime/base/memory.h>
#include <server/books.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static trp_row make_row(int64_t id, const char *submission, const char *key)
{
    trp_row row = {.id = id, .state = TRP_JOB_QUEUED, .submitted_at = 1.5e9 + (double)id};
    row.need = (trp_wire_need){.ranks = 3, .cpus_per_rank = 0.5, .restarts = -1, .start_at = 1e9};
    assert_int_equal(trp_row_set(&row.submission, submission), TROUPE_OK);
    assert_int_equal(trp_row_set(&row.key, key), TROUPE_OK);
    assert_int_equal(trp_row_set((char **)&row.need.resources_per_rank, "license=1"), TROUPE_OK);
    assert_int_equal(trp_row_set(&row.run, "/tmp/\"odd\" 'name'\n"), TROUPE_OK);
    return row;
}

static trp_books *open_books(const char *folder, bool *fresh)
{
    trp_books *books = NULL;
    char *moved;
    if (trp_books_open(folder, &books, fresh, &moved) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    assert_null(moved);
    return books;
}

static void settle(trp_books *books)
{
    assert_int_equal(trp_books_begin(books, true), TROUPE_OK);
    assert_int_equal(trp_books_settle(books), TROUPE_OK);
    assert_int_equal(trp_books_commit(books), TROUPE_OK);
}

static void put(trp_books *books, const trp_row *row)
{
    assert_int_equal(trp_books_begin(books, true), TROUPE_OK);
    if (trp_books_put(books, row) != TROUPE_OK)
        fail_msg("%s", troupe_last_error()->text);
    assert_int_equal(trp_books_commit(books), TROUPE_OK);
}

typedef struct rows {
    trp_row items[8];
    int count;
} rows;

static troupe_status keep(void *user, trp_row *row)
{
    rows *it = (rows *)user;
    it->items[it->count++] = *row;
    return TROUPE_OK;
}

static void free_rows(rows *it)
{
    for (int i = 0; i < it->count; i++)
        trp_row_clear(&it->items[i]);
    it->count = 0;
}

static void test_what_is_put_is_read_back(void **state)
{
    char *folder = support_directory_make();
    bool fresh;
    rows found = {0};
    int64_t next, gone;
    (void)state;
    trp_books *books = open_books(folder, &fresh);
    assert_true(fresh);
    trp_books_close(books);
    books = open_books(folder, &fresh);
    assert_true(fresh); // Until it is settled.
    settle(books);
    trp_row row = make_row(1, "a", "night"), other = make_row(4, "b", NULL);
    put(books, &row);
    put(books, &other);
    row.state = TRP_JOB_STARTING;
    row.attempt = 2;
    row.granted_ranks = 3;
    row.devices = (troupe_bytes){trp_alloc(16), 16};
    row.revision = 9;
    row.kill = TROUPE_CANCELLED;
    row.live = (trp_row_live *)trp_alloc(sizeof *row.live);
    row.live_count = 1;
    assert_int_equal(trp_row_set(&row.live[0].member, "rate"), TROUPE_OK);
    assert_int_equal(trp_row_set(&row.live[0].value, "0.5"), TROUPE_OK);
    put(books, &row);
    trp_books_close(books);
    books = open_books(folder, &fresh);
    assert_false(fresh);
    assert_int_equal(trp_books_load(books, keep, &found), TROUPE_OK);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.items[0].run, row.run);
    assert_string_equal(found.items[0].key, "night");
    assert_int_equal(found.items[0].need.ranks, 3);
    assert_int_equal(found.items[0].need.restarts, -1);
    assert_string_equal(found.items[0].need.resources_per_rank, "license=1");
    assert_int_equal(found.items[0].attempt, 2);
    assert_int_equal(found.items[0].devices.size, 16);
    assert_int_equal(found.items[0].kill, TROUPE_CANCELLED);
    assert_int_equal(found.items[0].live_count, 1);
    assert_string_equal(found.items[0].live[0].value, "0.5");
    assert_int_equal(found.items[1].id, 4);
    assert_null(found.items[1].key);
    // Removed, it is remembered, and its number never comes again.
    assert_int_equal(trp_books_begin(books, true), TROUPE_OK);
    assert_int_equal(trp_books_remove(books, &found.items[1]), TROUPE_OK);
    assert_int_equal(trp_books_remove(books, &found.items[0]), TROUPE_OK);
    assert_int_equal(trp_books_commit(books), TROUPE_OK);
    assert_int_equal(trp_books_next(books, &next), TROUPE_OK);
    assert_int_equal(next, 5);
    assert_int_equal(trp_books_gone(books, "b", NULL, &gone), TROUPE_OK);
    assert_int_equal(gone, 4);
    assert_int_equal(trp_books_gone(books, "c", "night", &gone), TROUPE_OK);
    assert_int_equal(gone, 1);
    assert_int_equal(trp_books_gone(books, "c", NULL, &gone), TROUPE_OK);
    assert_int_equal(gone, 0);
    assert_int_equal(trp_books_begin(books, true), TROUPE_OK);
    assert_int_equal(trp_books_free_keys(books), TROUPE_OK);
    assert_int_equal(trp_books_commit(books), TROUPE_OK);
    assert_int_equal(trp_books_gone(books, "c", "night", &gone), TROUPE_OK);
    assert_int_equal(gone, 0);
    trp_books_close(books);
    free_rows(&found);
    trp_row_clear(&row);
    trp_row_clear(&other);
    support_directory_remove(folder);
}

static void test_a_transaction_is_whole_or_not(void **state)
{
    char *folder = support_directory_make();
    bool fresh;
    rows found = {0};
    (void)state;
    trp_books *books = open_books(folder, &fresh);
    settle(books);
    trp_row row = make_row(1, "a", "night"), same = make_row(2, "b", "night");
    assert_int_equal(trp_books_begin(books, true), TROUPE_OK);
    assert_int_equal(trp_books_put(books, &row), TROUPE_OK);
    assert_int_not_equal(trp_books_put(books, &same), TROUPE_OK); // Two have one key.
    trp_books_undo(books);
    assert_int_equal(trp_books_load(books, keep, &found), TROUPE_OK);
    assert_int_equal(found.count, 0);
    put(books, &same);
    trp_books_close(books);
    trp_row_clear(&row);
    trp_row_clear(&same);
    support_directory_remove(folder);
}

static void run_sql(const char *folder, const char *sql)
{
    char *path = support_path(folder, "books.db");
    sqlite3 *base;
    assert_int_equal(sqlite3_open(path, &base), SQLITE_OK);
    assert_int_equal(sqlite3_exec(base, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(base), SQLITE_OK);
    free(path);
}

static void test_newer_and_strange_books_are_refused(void **state)
{
    char *folder = support_directory_make(), *other = support_directory_make(), *moved;
    bool fresh;
    trp_books *books = open_books(folder, &fresh);
    (void)state;
    settle(books);
    trp_books_close(books);
    run_sql(folder, "PRAGMA user_version = 99");
    assert_int_equal(trp_books_open(folder, &books, &fresh, &moved), TROUPE_VERSION);
    assert_non_null(strstr(troupe_last_error()->text, "version 99"));
    run_sql(other, "CREATE TABLE songs (title TEXT)");
    assert_int_equal(trp_books_open(other, &books, &fresh, &moved), TROUPE_VERSION);
    assert_non_null(strstr(troupe_last_error()->text, "another program"));
    support_directory_remove(folder);
    support_directory_remove(other);
}

static void test_older_books_are_read(void **state)
{
    char *folder = support_directory_make();
    bool fresh;
    rows found = {0};
    trp_books *books = open_books(folder, &fresh);
    (void)state;
    settle(books);
    trp_row row = make_row(1, "a", NULL);
    row.revision = row.attempt = 1;
    put(books, &row);
    trp_books_close(books);
    // As version 1 had them.
    run_sql(folder, "ALTER TABLE wishes DROP COLUMN more; ALTER TABLE attempts DROP COLUMN grown;"
                    "PRAGMA user_version = 1");
    books = open_books(folder, &fresh);
    assert_false(fresh);
    assert_int_equal(trp_books_load(books, keep, &found), TROUPE_OK);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items[0].submission, "a");
    assert_int_equal(found.items[0].more, 0);
    row.more = 4;
    row.grown = true;
    put(books, &row);
    trp_books_close(books);
    free_rows(&found);
    books = open_books(folder, &fresh);
    assert_int_equal(trp_books_load(books, keep, &found), TROUPE_OK);
    assert_int_equal(found.items[0].more, 4);
    assert_true(found.items[0].grown);
    trp_books_close(books);
    free_rows(&found);
    trp_row_clear(&row);
    support_directory_remove(folder);
}

// As where /home is a link; one in place of the file is refused.
static void test_a_link_above_the_folder_is_followed(void **state)
{
    char *folder = support_directory_make();
    char real[600], link[600], file[700], *moved;
    bool fresh;
    trp_books *books = NULL;
    (void)state;
    (void)snprintf(real, sizeof real, "%s/real/state", folder);
    (void)snprintf(file, sizeof file, "%s/real", folder);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_int_equal(mkdir(real, 0700), 0);
    (void)snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(file, link), 0);
    (void)snprintf(link, sizeof link, "%s/link/state", folder);
    books = open_books(link, &fresh);
    assert_true(fresh);
    settle(books);
    trp_books_close(books);
    trp_books_close(open_books(real, &fresh));
    assert_false(fresh);
    (void)snprintf(file, sizeof file, "%s/books.db", real);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink("/dev/null", file), 0);
    assert_int_equal(trp_books_open(link, &books, &fresh, &moved), TROUPE_IO);
    support_directory_remove(folder);
}

static void test_damaged_books_are_moved_aside(void **state)
{
    char *folder = support_directory_make(), *moved, *path = support_path(folder, "books.db");
    bool fresh;
    (void)state;
    support_write_file(path, "this is no database, whatever it was", 36);
    trp_books *books = NULL;
    assert_int_equal(trp_books_open(folder, &books, &fresh, &moved), TROUPE_OK);
    assert_true(fresh);
    assert_non_null(moved);
    assert_true(support_exists(moved));
    settle(books);
    trp_row row = make_row(1, "a", NULL);
    put(books, &row);
    trp_row_clear(&row);
    trp_books_close(books);
    trp_free(moved);
    // Damage within.
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    for (long at = 4096 + 8; at < about.st_size; at += 64) {
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fwrite("damagedamagedamage", 1, 18, file), 18);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(trp_books_open(folder, &books, &fresh, &moved), TROUPE_OK);
    assert_true(fresh);
    assert_non_null(moved);
    trp_books_close(books);
    trp_free(moved);
    free(path);
    support_directory_remove(folder);
}

static void test_a_full_disk_loses_nothing(void **state)
{
    char *folder = support_directory_make();
    bool fresh;
    rows found = {0};
    (void)state;
    if (mount("tmpfs", folder, "tmpfs", 0, "size=256k") != 0) {
        support_directory_remove(folder);
        skip(); // Not allowed here.
    }
    trp_books *books = open_books(folder, &fresh);
    settle(books);
    trp_row row = make_row(1, "a", NULL);
    put(books, &row);
    char *filler = support_path(folder, "filler"), *error = (char *)calloc(1, 100001);
    FILE *file = fopen(filler, "we");
    while (fputc('x', file) != EOF && fflush(file) == 0)
        continue;
    (void)fclose(file);
    memset(error, 'e', 100000);
    assert_int_equal(trp_row_set(&row.error, error), TROUPE_OK);
    assert_int_equal(trp_books_begin(books, true), TROUPE_OK);
    troupe_status status = trp_books_put(books, &row);
    if (status == TROUPE_OK)
        status = trp_books_commit(books);
    assert_int_equal(status, TROUPE_NO_SPACE);
    trp_books_undo(books);
    assert_int_equal(unlink(filler), 0);
    put(books, &row); // Once there is space.
    trp_books_close(books);
    books = open_books(folder, &fresh);
    assert_int_equal(trp_books_load(books, keep, &found), TROUPE_OK);
    assert_int_equal(found.count, 1);
    assert_int_equal(strlen(found.items[0].error), 100000);
    trp_books_close(books);
    free_rows(&found);
    trp_row_clear(&row);
    free(error);
    free(filler);
    assert_int_equal(umount(folder), 0);
    support_directory_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_put_is_read_back),
        cmocka_unit_test(test_a_transaction_is_whole_or_not),
        cmocka_unit_test(test_newer_and_strange_books_are_refused),
        cmocka_unit_test(test_older_books_are_read),
        cmocka_unit_test(test_a_link_above_the_folder_is_followed),
        cmocka_unit_test(test_damaged_books_are_moved_aside),
        cmocka_unit_test(test_a_full_disk_loses_nothing),
    };
    support_allow_mounts();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
