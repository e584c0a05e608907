// books.c: see server/books.h. Tables, and the statements that read and write them, are made of one
// list of columns.
#include <inttypes.h>
#include <limits.h>
#include <runtime/base/error.h>
#include <runtime/base/fault.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <server/books.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// "TrSv", so that another program's database is not taken for ours.
enum { VERSION = 2, APPLICATION = 0x54725376 };

typedef enum value_kind { INTEGER, LONG, REAL, BOOL, TEXT, BYTES, NEED } value_kind;
typedef enum table { JOBS, WISHES, ATTEMPTS, TABLES } table;

typedef struct column {
    table table;
    value_kind kind;
    const char *name, *more; // `more`: constraints.
    size_t offset;
} column;

#define COLUMN(table, kind, name, more, field)                                                     \
    {                                                                                              \
        table, kind, name, more, offsetof(trp_row, field)                                          \
    }
static const column columns[] = {
    COLUMN(JOBS, TEXT, "submission", " NOT NULL UNIQUE", submission),
    COLUMN(JOBS, TEXT, "key", " UNIQUE", key),
    COLUMN(JOBS, TEXT, "spec_hash", "", spec_hash),
    COLUMN(JOBS, TEXT, "name", "", name),
    COLUMN(JOBS, TEXT, "trainer", "", trainer),
    COLUMN(JOBS, TEXT, "program", "", program),
    COLUMN(JOBS, TEXT, "run", "", run),
    COLUMN(JOBS, NEED, "need", "", need),
    COLUMN(JOBS, BOOL, "beyond", "", beyond),
    COLUMN(JOBS, INTEGER, "state", "", state),
    COLUMN(JOBS, INTEGER, "attempt", "", attempt),
    COLUMN(JOBS, INTEGER, "counted", "", counted),
    COLUMN(JOBS, INTEGER, "restarts", "", restarts),
    COLUMN(JOBS, INTEGER, "uncounted", "", uncounted),
    COLUMN(JOBS, REAL, "submitted_at", "", submitted_at),
    COLUMN(JOBS, REAL, "ended_at", "", ended_at),
    COLUMN(JOBS, REAL, "elapsed_s", "", elapsed_s),
    COLUMN(JOBS, INTEGER, "status", "", status),
    COLUMN(JOBS, INTEGER, "reports", "", reports),
    COLUMN(JOBS, BOOL, "stopped", "", stopped),
    COLUMN(JOBS, TEXT, "error", "", error),
    COLUMN(JOBS, BOOL, "paused", "", paused),
    COLUMN(WISHES, LONG, "revision", "", revision),
    COLUMN(WISHES, BOOL, "stop", "", stop),
    COLUMN(WISHES, BOOL, "stop_next", "", stop_next),
    COLUMN(WISHES, BOOL, "pause", "", pause),
    COLUMN(WISHES, INTEGER, "ranks", "", ranks),
    COLUMN(WISHES, INTEGER, "resizes", "", resizes),
    COLUMN(WISHES, INTEGER, "kill", "", kill),
    COLUMN(WISHES, TEXT, "why", "", why),
    COLUMN(WISHES, INTEGER, "more", "", more),
    COLUMN(ATTEMPTS, INTEGER, "ranks", "", granted_ranks),
    COLUMN(ATTEMPTS, REAL, "cpus", "", cpus),
    COLUMN(ATTEMPTS, REAL, "gpus", "", gpus),
    COLUMN(ATTEMPTS, REAL, "granted_at", "", granted_at),
    COLUMN(ATTEMPTS, TEXT, "gpu_ids", "", gpu_ids),
    COLUMN(ATTEMPTS, BYTES, "devices", "", devices),
    COLUMN(ATTEMPTS, BOOL, "grown", "", grown),
    COLUMN(ATTEMPTS, BOOL, "greeted", "", greeted),
    COLUMN(ATTEMPTS, TEXT, "boot_id", "", boot_id),
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const struct {
    const char *name, *keys, *more; // `more` of the table's definition.
} tables[TABLES] = {
    [JOBS] = {"jobs", "id", "id INTEGER PRIMARY KEY AUTOINCREMENT"},
    [WISHES] = {"wishes", "job", "job INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE"},
    [ATTEMPTS] = {"attempts", "job, attempt",
                  "job INTEGER REFERENCES jobs ON DELETE CASCADE, attempt INTEGER"},
};

struct trp_books {
    sqlite3 *base;
    sqlite3_stmt *put[TABLES], *put_live, *remove, *keep, *gone;
    sqlite3_stmt *put_papers, *put_launch, *drop_papers, *drop_launch;
    bool lasts; // What the transaction is, or the last one was.
    char path[4200], name[40];
};

// ---- rows

troupe_status trp_row_set(char **text, const char *value)
{
    char *copy = NULL;
    if (value != NULL && (copy = trp_strdup(value)) == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    trp_free(*text);
    *text = copy;
    return TROUPE_OK;
}

void trp_row_clear(trp_row *row)
{
    for (int i = 0; i < COLUMNS; i++) {
        void *field = (char *)row + columns[i].offset;
        if (columns[i].kind == TEXT)
            trp_free(*(char **)field);
        else if (columns[i].kind == BYTES)
            trp_free((void *)((troupe_bytes *)field)->data);
        else if (columns[i].kind == NEED)
            trp_free((char *)((trp_wire_need *)field)->resources_per_rank);
    }
    for (int i = 0; i < row->live_count; i++) {
        trp_free(row->live[i].member);
        trp_free(row->live[i].value);
    }
    trp_free(row->live);
    *row = (trp_row){0};
}

// ---- failures

// What a result of SQLite's means here.
static troupe_status meaning(int result)
{
    switch (result & 0xff) {
    case SQLITE_FULL:
        return TROUPE_NO_SPACE;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return TROUPE_CORRUPT;
    case SQLITE_NOMEM:
        return TROUPE_NO_MEMORY;
    default:
        return TROUPE_IO;
    }
}

static troupe_status fail(trp_books *books, int result, const char *what)
{
    return troupe_fail(meaning(result), "%s: %s: %s", books->path, what,
                       books->base != NULL ? sqlite3_errmsg(books->base) : sqlite3_errstr(result));
}

static troupe_status run(trp_books *books, const char *sql)
{
    int result = sqlite3_exec(books->base, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? TROUPE_OK : fail(books, result, "it cannot be used");
}

static troupe_status prepare(trp_books *books, const char *sql, sqlite3_stmt **statement)
{
    int result =
        sqlite3_prepare_v3(books->base, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
    return result == SQLITE_OK ? TROUPE_OK : fail(books, result, sql);
}

// Runs a statement that gives no rows, and makes it ready for the next time.
static troupe_status finish(trp_books *books, sqlite3_stmt *statement, const char *what)
{
    int result = sqlite3_step(statement);
    troupe_status status = result == SQLITE_DONE ? TROUPE_OK : fail(books, result, what);
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return status;
}

// ---- statements

static const char *type_name(value_kind kind)
{
    switch (kind) {
    case REAL:
        return "REAL";
    case TEXT:
    case NEED:
        return "TEXT";
    case BYTES:
        return "BLOB";
    default:
        return "INTEGER";
    }
}

static void define(trp_buffer *sql, table of)
{
    trp_buffer_printf(sql, "CREATE TABLE IF NOT EXISTS %s (%s", tables[of].name, tables[of].more);
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].table == of)
            trp_buffer_printf(sql, ", \"%s\" %s%s", columns[i].name, type_name(columns[i].kind),
                              columns[i].more);
    trp_buffer_printf(sql, "%s);\n", of == ATTEMPTS ? ", PRIMARY KEY (job, attempt)" : "");
}

static troupe_status make_tables(trp_books *books)
{
    trp_buffer sql = {0};
    for (int i = 0; i < TABLES; i++)
        define(&sql, (table)i);
    trp_buffer_printf(&sql,
                      "CREATE TABLE IF NOT EXISTS live (job INTEGER REFERENCES jobs ON DELETE "
                      "CASCADE, member TEXT, value TEXT, revision INTEGER, PRIMARY KEY (job, "
                      "member));\n"
                      "CREATE TABLE IF NOT EXISTS gone (submission TEXT PRIMARY KEY, key TEXT, "
                      "spec_hash TEXT, job INTEGER, ended_at REAL) WITHOUT ROWID;\n"
                      "CREATE TABLE IF NOT EXISTS about (name TEXT);\n"
                      "INSERT INTO about SELECT hex(randomblob(16)) WHERE NOT EXISTS (SELECT * "
                      "FROM about);\n"
                      "CREATE INDEX IF NOT EXISTS gone_keys ON gone (key) WHERE key IS NOT NULL;\n"
                      "PRAGMA application_id = %d;",
                      (int)APPLICATION);
    trp_buffer_append(&sql, "", 1);
    troupe_status status = sql.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the books")
                                      : run(books, (const char *)sql.data);
    trp_buffer_free(&sql);
    return status;
}

// Beside the row of a job, since these are written once.
static troupe_status make_papers(trp_books *books)
{
    return run(books, "CREATE TABLE IF NOT EXISTS papers (job INTEGER PRIMARY KEY REFERENCES jobs "
                      "ON DELETE CASCADE, spec BLOB, json BLOB, claims INTEGER, boot_id TEXT);\n"
                      "CREATE TABLE IF NOT EXISTS launches (job INTEGER PRIMARY KEY REFERENCES "
                      "jobs ON DELETE CASCADE, launch BLOB);");
}

static int keys_of(table of)
{
    return of == ATTEMPTS ? 2 : 1;
}

static troupe_status prepare_put(trp_books *books, table of)
{
    trp_buffer sql = {0};
    int count = keys_of(of);
    trp_buffer_printf(&sql, "INSERT INTO %s (%s", tables[of].name, tables[of].keys);
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].table == of) {
            trp_buffer_printf(&sql, ", \"%s\"", columns[i].name);
            count++;
        }
    trp_buffer_printf(&sql, ") VALUES (?");
    for (int i = 1; i < count; i++)
        trp_buffer_printf(&sql, ", ?");
    trp_buffer_printf(&sql, ") ON CONFLICT (%s) DO UPDATE SET ", tables[of].keys);
    const char *between = "";
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].table == of) {
            trp_buffer_printf(&sql, "%s\"%s\" = excluded.\"%s\"", between, columns[i].name,
                              columns[i].name);
            between = ", ";
        }
    trp_buffer_append(&sql, "", 1);
    troupe_status status = sql.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the books")
                                      : prepare(books, (const char *)sql.data, &books->put[of]);
    trp_buffer_free(&sql);
    return status;
}

static troupe_status prepare_all(trp_books *books)
{
    for (int i = 0; i < TABLES; i++)
        TROUPE_TRY(prepare_put(books, (table)i));
    TROUPE_TRY(prepare(books,
                       "INSERT INTO live VALUES (?, ?, ?, ?) ON CONFLICT (job, member) DO UPDATE "
                       "SET value = excluded.value, revision = excluded.revision",
                       &books->put_live));
    TROUPE_TRY(prepare(books, "INSERT INTO papers VALUES (?, ?, ?, ?, ?)", &books->put_papers));
    TROUPE_TRY(prepare(books, "INSERT INTO launches VALUES (?, ?)", &books->put_launch));
    TROUPE_TRY(prepare(books, "DELETE FROM papers WHERE job = ?", &books->drop_papers));
    TROUPE_TRY(prepare(books, "DELETE FROM launches WHERE job = ?", &books->drop_launch));
    TROUPE_TRY(prepare(books, "DELETE FROM jobs WHERE id = ?", &books->remove));
    TROUPE_TRY(prepare(books, "INSERT OR REPLACE INTO gone VALUES (?, ?, ?, ?, ?)", &books->keep));
    return prepare(books, "SELECT job FROM gone WHERE submission = ?1 OR key = ?2", &books->gone);
}

// ---- opening

static int read_number(trp_books *books, const char *sql, int *result)
{
    sqlite3_stmt *statement = NULL;
    int number = 0;
    *result = sqlite3_prepare_v2(books->base, sql, -1, &statement, NULL);
    if (*result == SQLITE_OK) {
        *result = sqlite3_step(statement);
        if (*result == SQLITE_ROW) {
            number = sqlite3_column_int(statement, 0);
            *result = SQLITE_OK;
        }
    }
    (void)sqlite3_finalize(statement);
    return number;
}

static troupe_status add_column(trp_books *books, const column *it)
{
    char sql[160];
    int result;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM pragma_table_info('%s') WHERE name = '%s'",
             tables[it->table].name, it->name);
    int there = read_number(books, sql, &result);
    if (result != SQLITE_OK)
        return fail(books, result, "it cannot be read");
    snprintf(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN \"%s\" %s", tables[it->table].name,
             it->name, type_name(it->kind));
    return there > 0 ? TROUPE_OK : run(books, sql);
}

// Adds what books of an earlier version lack: all of it, or nothing.
static troupe_status renew(trp_books *books)
{
    TROUPE_TRY(run(books, "BEGIN IMMEDIATE"));
    troupe_status status = TROUPE_OK;
    for (int i = 0; i < COLUMNS && status == TROUPE_OK; i++)
        status = add_column(books, &columns[i]);
    if (status == TROUPE_OK)
        status = trp_books_settle(books);
    if (status == TROUPE_OK)
        status = trp_books_commit(books);
    if (status != TROUPE_OK) {
        troupe_error kept;
        trp_error_hold(&kept);
        trp_books_undo(books);
        trp_error_restore(&kept);
    }
    return status;
}

static troupe_status check_whole(trp_books *books)
{
    sqlite3_stmt *statement = NULL;
    TROUPE_TRY(prepare(books, "PRAGMA quick_check(1)", &statement));
    int result = sqlite3_step(statement);
    const unsigned char *text = result == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;
    troupe_status status = TROUPE_OK;
    if (result != SQLITE_ROW)
        status = fail(books, result, "it cannot be checked");
    else if (text == NULL || strcmp((const char *)text, "ok") != 0)
        status = troupe_fail(TROUPE_CORRUPT, "%s: %s", books->path,
                             text != NULL ? (const char *)text : "?");
    (void)sqlite3_finalize(statement);
    return status;
}

static troupe_status read_name(trp_books *books)
{
    sqlite3_stmt *statement = NULL;
    TROUPE_TRY(prepare(books, "SELECT name FROM about", &statement));
    int result = sqlite3_step(statement);
    const char *text =
        result == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    snprintf(books->name, sizeof books->name, "%s", text != NULL ? text : "");
    troupe_status status = result == SQLITE_ROW || result == SQLITE_DONE
                               ? TROUPE_OK
                               : fail(books, result, "it cannot be read");
    (void)sqlite3_finalize(statement);
    return status;
}

const char *trp_books_name(const trp_books *books)
{
    return books->name;
}

static troupe_status open_base(trp_books *books, bool *fresh)
{
    int result = sqlite3_open_v2(books->path, &books->base,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                     SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
                                 NULL);
    if (result != SQLITE_OK)
        return fail(books, result, "it cannot be opened");
    // One process has it, which the server's lock sees to: so there is no file of shared memory.
    TROUPE_TRY(run(
        books, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA foreign_keys = ON;"
               "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -512;"));
    int application = read_number(books, "PRAGMA application_id", &result);
    if (result != SQLITE_OK)
        return fail(books, result, "it cannot be read");
    int version = read_number(books, "PRAGMA user_version", &result);
    int objects = read_number(books, "SELECT count(*) FROM sqlite_master", &result);
    if (result != SQLITE_OK)
        return fail(books, result, "it cannot be read");
    if (version > VERSION && application == APPLICATION)
        return troupe_fail(TROUPE_VERSION,
                           "%s is of version %d, and this server reads up to %d: use the newer "
                           "troupe, or move the file away, for the jobs to be read from their "
                           "folders",
                           books->path, version, VERSION);
    if (application != APPLICATION && (version != 0 || objects != 0))
        return troupe_fail(TROUPE_VERSION,
                           "%s is another program's database: move it away, or set TROUPE_STATE to "
                           "another folder",
                           books->path);
    TROUPE_TRY(run(books, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"));
    books->lasts = true;
    TROUPE_TRY(check_whole(books));
    *fresh = version == 0;
    if (*fresh)
        TROUPE_TRY(make_tables(books));
    else if (version < VERSION)
        TROUPE_TRY(renew(books));
    TROUPE_TRY(make_papers(books));
    TROUPE_TRY(read_name(books));
    return prepare_all(books);
}

// Moves a damaged database aside. *moved is where to.
static troupe_status move_aside(trp_books *books, char **moved)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    trp_path from, to;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        TROUPE_TRY(trp_path_make(&from, "%s%s", books->path, parts[i]));
        TROUPE_TRY(
            trp_path_make(&to, "%s.damaged-%lld%s", books->path, (long long)time(NULL), parts[i]));
        if (i > 0 && access(from.text, F_OK) != 0)
            continue;
        TROUPE_TRY(trp_folder_rename(from.text, to.text));
        if (i == 0)
            TROUPE_TRY(trp_row_set(moved, to.text));
    }
    return TROUPE_OK;
}

static void close_base(trp_books *books)
{
    sqlite3_stmt *all[] = {books->put[JOBS],   books->put[WISHES], books->put[ATTEMPTS],
                           books->put_live,    books->remove,      books->keep,
                           books->gone,        books->put_papers,  books->put_launch,
                           books->drop_papers, books->drop_launch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        (void)sqlite3_finalize(all[i]);
    (void)sqlite3_close(books->base);
    char path[sizeof books->path];
    memcpy(path, books->path, sizeof path);
    *books = (trp_books){0};
    memcpy(books->path, path, sizeof path);
}

troupe_status trp_books_open(const char *folder, trp_books **books, bool *fresh, char **moved)
{
    char real[PATH_MAX];
    trp_books *it = (trp_books *)trp_alloc(sizeof *it);
    *moved = NULL;
    if (it == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the books");
    // Told to follow no link, SQLite refuses one above the folder too, as a home may be behind one.
    if (realpath(folder, real) != NULL)
        folder = real;
    snprintf(it->path, sizeof it->path, "%s/books.db", folder);
    troupe_status status = open_base(it, fresh);
    if (status == TROUPE_CORRUPT) {
        close_base(it);
        status = move_aside(it, moved);
        if (status == TROUPE_OK)
            status = open_base(it, fresh);
    }
    if (status != TROUPE_OK) {
        trp_books_close(it);
        trp_free(*moved);
        *moved = NULL;
        return status;
    }
    *books = it;
    return TROUPE_OK;
}

void trp_books_close(trp_books *books)
{
    if (books == NULL)
        return;
    close_base(books);
    trp_free(books);
}

// ---- reading

static troupe_status read_text(sqlite3_stmt *from, int at, char **text)
{
    return trp_row_set(text, (const char *)sqlite3_column_text(from, at));
}

static troupe_status read_need(sqlite3_stmt *from, int at, trp_wire_need *need)
{
    const char *text = (const char *)sqlite3_column_text(from, at);
    trp_arena arena = {0};
    trp_json json;
    if (text == NULL)
        return TROUPE_OK;
    troupe_status status = trp_json_parse(text, strlen(text), &json);
    if (status == TROUPE_OK)
        status = trp_json_read(&troupe_type_trp_wire_need, json, &arena, need);
    char *resources = NULL;
    if (status == TROUPE_OK)
        status = trp_row_set(&resources, need->resources_per_rank);
    need->resources_per_rank = resources;
    trp_arena_clear(&arena);
    return status == TROUPE_NO_MEMORY ? status : status == TROUPE_OK ? status : TROUPE_CORRUPT;
}

static troupe_status read_bytes(sqlite3_stmt *from, int at, troupe_bytes *bytes)
{
    size_t size = (size_t)sqlite3_column_bytes(from, at);
    void *copy = size > 0 ? trp_alloc(size) : NULL;
    if (size > 0 && copy == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
    if (size > 0)
        memcpy(copy, sqlite3_column_blob(from, at), size);
    *bytes = (troupe_bytes){copy, size};
    return TROUPE_OK;
}

static troupe_status read_column(sqlite3_stmt *from, int at, const column *it, trp_row *row)
{
    void *field = (char *)row + it->offset;
    switch (it->kind) {
    case INTEGER:
        *(int *)field = sqlite3_column_int(from, at);
        break;
    case LONG:
        *(int64_t *)field = sqlite3_column_int64(from, at);
        break;
    case REAL:
        *(double *)field = sqlite3_column_double(from, at);
        break;
    case BOOL:
        *(bool *)field = sqlite3_column_int(from, at) != 0;
        break;
    case TEXT:
        return read_text(from, at, (char **)field);
    case BYTES:
        return read_bytes(from, at, (troupe_bytes *)field);
    case NEED:
        return read_need(from, at, (trp_wire_need *)field);
    }
    return TROUPE_OK;
}

static troupe_status read_live(trp_books *books, sqlite3_stmt *from, trp_row *row)
{
    int result;
    troupe_status status = TROUPE_OK;
    (void)sqlite3_bind_int64(from, 1, row->id);
    while (status == TROUPE_OK && (result = sqlite3_step(from)) == SQLITE_ROW) {
        trp_row_live *more =
            (trp_row_live *)trp_realloc(row->live, ((size_t)row->live_count + 1) * sizeof *more);
        if (more == NULL) {
            status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a job");
            break;
        }
        row->live = more;
        trp_row_live *live = &more[row->live_count++];
        *live = (trp_row_live){.revision = sqlite3_column_int64(from, 2)};
        status = read_text(from, 0, &live->member);
        if (status == TROUPE_OK)
            status = read_text(from, 1, &live->value);
    }
    if (status == TROUPE_OK && result != SQLITE_DONE)
        status = fail(books, result, "it cannot be read");
    (void)sqlite3_reset(from);
    return status;
}

static troupe_status read_row(trp_books *books, sqlite3_stmt *from, sqlite3_stmt *live,
                              trp_row *row)
{
    *row = (trp_row){.id = sqlite3_column_int64(from, 0)};
    for (int i = 0; i < COLUMNS; i++)
        TROUPE_TRY(read_column(from, 1 + i, &columns[i], row));
    return read_live(books, live, row);
}

static troupe_status select_rows(trp_books *books, sqlite3_stmt **rows)
{
    trp_buffer sql = {0};
    trp_buffer_printf(&sql, "SELECT jobs.id");
    for (int i = 0; i < COLUMNS; i++)
        trp_buffer_printf(&sql, ", %s.\"%s\"", tables[columns[i].table].name, columns[i].name);
    trp_buffer_printf(&sql,
                      " FROM jobs LEFT JOIN wishes ON wishes.job = jobs.id LEFT JOIN attempts "
                      "ON attempts.job = jobs.id AND attempts.attempt = jobs.attempt ORDER BY "
                      "jobs.id");
    trp_buffer_append(&sql, "", 1);
    troupe_status status = sql.failed ? troupe_fail(TROUPE_NO_MEMORY, "no memory for the books")
                                      : prepare(books, (const char *)sql.data, rows);
    trp_buffer_free(&sql);
    return status;
}

troupe_status trp_books_load(trp_books *books, troupe_status (*visit)(void *user, trp_row *row),
                             void *user)
{
    sqlite3_stmt *rows = NULL, *live = NULL;
    int result = SQLITE_DONE;
    troupe_status status = select_rows(books, &rows);
    if (status == TROUPE_OK)
        status = prepare(books,
                         "SELECT member, value, revision FROM live WHERE job = ? ORDER BY "
                         "revision",
                         &live);
    while (status == TROUPE_OK && (result = sqlite3_step(rows)) == SQLITE_ROW) {
        trp_row row;
        status = read_row(books, rows, live, &row);
        if (status == TROUPE_OK)
            status = visit(user, &row);
        else
            trp_row_clear(&row);
    }
    if (status == TROUPE_OK && result != SQLITE_DONE)
        status = fail(books, result, "it cannot be read");
    (void)sqlite3_finalize(rows);
    (void)sqlite3_finalize(live);
    return status;
}

static troupe_bytes bytes_of(sqlite3_stmt *from, int at)
{
    const void *data = sqlite3_column_blob(from, at);
    return (troupe_bytes){(void *)data, (size_t)sqlite3_column_bytes(from, at)};
}

troupe_status trp_books_each_papers(trp_books *books, const char *boot_id,
                                    troupe_status (*visit)(void *user, int64_t id,
                                                           const trp_papers *papers),
                                    void *user)
{
    sqlite3_stmt *rows = NULL;
    int result = SQLITE_DONE;
    troupe_status status = prepare(books,
                                   "SELECT papers.job, spec, launch, json, claims FROM papers LEFT "
                                   "JOIN launches ON launches.job = papers.job WHERE boot_id <> ?",
                                   &rows);
    if (status == TROUPE_OK)
        (void)sqlite3_bind_text(rows, 1, boot_id, -1, SQLITE_STATIC);
    while (status == TROUPE_OK && (result = sqlite3_step(rows)) == SQLITE_ROW) {
        trp_papers papers = {.spec = bytes_of(rows, 1),
                             .launch = bytes_of(rows, 2),
                             .json = bytes_of(rows, 3),
                             .claims = sqlite3_column_int(rows, 4) != 0};
        status = visit(user, sqlite3_column_int64(rows, 0), &papers);
    }
    if (status == TROUPE_OK && result != SQLITE_DONE)
        status = fail(books, result, "it cannot be read");
    (void)sqlite3_finalize(rows);
    return status;
}

troupe_status trp_books_next(trp_books *books, int64_t *id)
{
    sqlite3_stmt *statement = NULL;
    TROUPE_TRY(prepare(books,
                       "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = "
                       "'jobs'), 0), coalesce((SELECT max(job) FROM gone), 0)) + 1",
                       &statement));
    int result = sqlite3_step(statement);
    troupe_status status = TROUPE_OK;
    if (result == SQLITE_ROW)
        *id = sqlite3_column_int64(statement, 0);
    else
        status = fail(books, result, "it cannot be read");
    (void)sqlite3_finalize(statement);
    return status;
}

troupe_status trp_books_gone(trp_books *books, const char *submission, const char *key, int64_t *id)
{
    *id = 0;
    (void)sqlite3_bind_text(books->gone, 1, submission, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(books->gone, 2, key, -1, SQLITE_STATIC); // NULL equals nothing.
    int result = sqlite3_step(books->gone);
    troupe_status status = TROUPE_OK;
    if (result == SQLITE_ROW)
        *id = sqlite3_column_int64(books->gone, 0);
    else if (result != SQLITE_DONE)
        status = fail(books, result, "it cannot be read");
    (void)sqlite3_reset(books->gone);
    (void)sqlite3_clear_bindings(books->gone);
    return status;
}

// ---- writing

troupe_status trp_books_begin(trp_books *books, bool lasts)
{
    if (lasts != books->lasts)
        TROUPE_TRY(run(books, lasts ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL"));
    books->lasts = lasts;
    return run(books, "BEGIN IMMEDIATE");
}

static int bind_need(sqlite3_stmt *to, int at, const trp_wire_need *need)
{
    trp_buffer json = {0};
    trp_json_value(&json, &troupe_type_trp_wire_need, need);
    int result = json.failed ? SQLITE_NOMEM
                             : sqlite3_bind_text(to, at, (const char *)json.data, (int)json.size,
                                                 SQLITE_TRANSIENT);
    trp_buffer_free(&json);
    return result;
}

static int bind_column(sqlite3_stmt *to, int at, const column *it, const trp_row *row)
{
    const void *field = (const char *)row + it->offset;
    switch (it->kind) {
    case INTEGER:
        return sqlite3_bind_int(to, at, *(const int *)field);
    case LONG:
        return sqlite3_bind_int64(to, at, *(const int64_t *)field);
    case REAL:
        return sqlite3_bind_double(to, at, *(const double *)field);
    case BOOL:
        return sqlite3_bind_int(to, at, *(const bool *)field);
    case TEXT:
        return sqlite3_bind_text(to, at, *(char *const *)field, -1, SQLITE_STATIC);
    case NEED:
        return bind_need(to, at, (const trp_wire_need *)field);
    case BYTES:
        return sqlite3_bind_blob(to, at, ((const troupe_bytes *)field)->data,
                                 (int)((const troupe_bytes *)field)->size, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

static troupe_status put_table(trp_books *books, table of, const trp_row *row)
{
    sqlite3_stmt *to = books->put[of];
    int at = 1, result = sqlite3_bind_int64(to, at++, row->id);
    if (of == ATTEMPTS && result == SQLITE_OK)
        result = sqlite3_bind_int(to, at++, row->attempt);
    for (int i = 0; i < COLUMNS && result == SQLITE_OK; i++)
        if (columns[i].table == of)
            result = bind_column(to, at++, &columns[i], row);
    if (result != SQLITE_OK)
        return fail(books, result, tables[of].name);
    return finish(books, to, tables[of].name);
}

static troupe_status put_live(trp_books *books, int64_t job, const trp_row_live *live)
{
    sqlite3_stmt *to = books->put_live;
    (void)sqlite3_bind_int64(to, 1, job);
    (void)sqlite3_bind_text(to, 2, live->member, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(to, 3, live->value, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(to, 4, live->revision);
    return finish(books, to, "live");
}

troupe_status trp_books_put(trp_books *books, const trp_row *row)
{
    TROUPE_TRY(put_table(books, JOBS, row));
    if (row->revision > 0)
        TROUPE_TRY(put_table(books, WISHES, row));
    for (int i = 0; i < row->live_count; i++)
        TROUPE_TRY(put_live(books, row->id, &row->live[i]));
    return row->attempt > 0 ? put_table(books, ATTEMPTS, row) : TROUPE_OK;
}

static int bind_bytes(sqlite3_stmt *to, int at, troupe_bytes bytes)
{
    return sqlite3_bind_blob64(to, at, bytes.data, bytes.size, SQLITE_STATIC);
}

troupe_status trp_books_keep_papers(trp_books *books, int64_t id, const trp_papers *papers,
                                    const char *boot_id)
{
    sqlite3_stmt *to = books->put_papers;
    (void)sqlite3_bind_int64(to, 1, id);
    (void)bind_bytes(to, 2, papers->spec);
    (void)bind_bytes(to, 3, papers->json);
    (void)sqlite3_bind_int(to, 4, papers->claims);
    (void)sqlite3_bind_text(to, 5, boot_id, -1, SQLITE_STATIC);
    TROUPE_TRY(finish(books, to, "papers"));
    (void)sqlite3_bind_int64(books->put_launch, 1, id);
    (void)bind_bytes(books->put_launch, 2, papers->launch);
    return finish(books, books->put_launch, "launches");
}

troupe_status trp_books_drop_launch(trp_books *books, int64_t id)
{
    (void)sqlite3_bind_int64(books->drop_launch, 1, id);
    return finish(books, books->drop_launch, "launches");
}

troupe_status trp_books_drop_papers(trp_books *books, int64_t id)
{
    (void)sqlite3_bind_int64(books->drop_papers, 1, id);
    TROUPE_TRY(finish(books, books->drop_papers, "papers"));
    return trp_books_drop_launch(books, id);
}

troupe_status trp_books_remove(trp_books *books, const trp_row *row)
{
    (void)sqlite3_bind_text(books->keep, 1, row->submission, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(books->keep, 2, row->key, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(books->keep, 3, row->spec_hash, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(books->keep, 4, row->id);
    (void)sqlite3_bind_double(books->keep, 5, row->ended_at);
    TROUPE_TRY(finish(books, books->keep, "gone"));
    (void)sqlite3_bind_int64(books->remove, 1, row->id);
    return finish(books, books->remove, "jobs");
}

troupe_status trp_books_free_keys(trp_books *books)
{
    return run(books, "UPDATE gone SET key = NULL");
}

troupe_status trp_books_settle(trp_books *books)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", (int)VERSION);
    return run(books, sql);
}

troupe_status trp_books_commit(trp_books *books)
{
    TRP_FAULT("before commit");
    TROUPE_TRY(run(books, "COMMIT"));
    TRP_FAULT("after commit");
    return TROUPE_OK;
}

troupe_status trp_books_wipe(trp_books *books)
{
    int result =
        sqlite3_wal_checkpoint_v2(books->base, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return result == SQLITE_OK ? TROUPE_OK : fail(books, result, "its log cannot be emptied");
}

void trp_books_undo(trp_books *books)
{
    if (sqlite3_get_autocommit(books->base) == 0)
        (void)sqlite3_exec(books->base, "ROLLBACK", NULL, NULL, NULL);
}
