// push_record.c: what is known of a push: the schemas, the program, the run and its data.
#include <models/push_record.h>

#include <elf.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <runtime/codec/json.h>
#include <runtime/codec/type.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <train/checkpoint.h>
#include <train/run_file.h>
#include <troupe/repository.h>
#include <unistd.h>

enum { HASH_DIGITS = 16, NOTES_MAX = 16 };

static struct {
    const char *name;
    troupe_push_says says;
} notes[NOTES_MAX];
static size_t note_count;

static const char *keep(trp_arena *arena, const char *text, size_t size)
{
    char *copy = (char *)trp_arena_alloc(arena, size + 1);
    return copy ? (const char *)memcpy(copy, text, size) : NULL;
}

// ---- the program

// Looks through the notes of the program itself, which is the first object.
static int find_build_id(struct dl_phdr_info *object, size_t size, void *user)
{
    (void)size;
    trp_buffer *id = (trp_buffer *)user;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_NOTE)
            continue;
        const unsigned char *at = (const unsigned char *)(object->dlpi_addr + part->p_vaddr);
        const unsigned char *end = at + part->p_memsz;
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            size_t name = (note.n_namesz + 3U) & ~(size_t)3,
                   text = (note.n_descsz + 3U) & ~(size_t)3;
            at += sizeof note;
            if ((size_t)(end - at) < name || (size_t)(end - at) - name < text)
                break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(at, "GNU", 4))
                for (size_t byte = 0; byte < note.n_descsz; byte++)
                    trp_buffer_printf(id, "%02x", at[name + byte]);
            at += name + text;
        }
    }
    return 1; // No other object.
}

static void say_program(trp_arena *arena, trp_push_record *record)
{
    char path[PATH_MAX];
    trp_buffer id = {0};
    ssize_t size = readlink("/proc/self/exe", path, sizeof path);
    if (size > 0)
        record->program = keep(arena, path, (size_t)size);
    (void)dl_iterate_phdr(find_build_id, &id);
    if (id.size > 0 && !id.failed)
        record->build_id = keep(arena, (const char *)id.data, id.size);
    trp_buffer_free(&id);
}

// ---- the run

// The folder of the run that the checkpoint lies in; false: it lies in none.
static bool run_of(const char *checkpoint, trp_path *run)
{
    trp_path folder;
    if (!trp_path_is_local(checkpoint) || trp_checkpoint_find(checkpoint, &folder) != TROUPE_OK ||
        !realpath(folder.text, run->text))
        return false;
    for (int up = 0; up < 2; up++) { // <run>/checkpoints/checkpoint_000003
        char *name = strrchr(run->text, '/');
        if (!name || name == run->text)
            return false;
        *name = '\0';
    }
    return trp_run_file_exists(run->text);
}

// A run whose file cannot be read is no reason not to push.
static void say_run(const char *checkpoint, trp_arena *arena, trp_push_record *record)
{
    trp_path run;
    trp_run_file file;
    if (!run_of(checkpoint, &run))
        return;
    record->run = keep(arena, run.text, strlen(run.text));
    if (trp_run_file_read(run.text, arena, &file) != TROUPE_OK || !file.data.name)
        return;
    record->data = file.data.name;
    record->data_keys = file.data.keys;
}

// ---- notes of layers above

troupe_status troupe_push_note_register(const char *name, troupe_push_says says)
{
    TRP_REQUIRE(name);
    TRP_REQUIRE(says);
    for (size_t i = 0; i < note_count; i++)
        if (strcmp(notes[i].name, name) == 0)
            return troupe_fail(TROUPE_EXISTS, "pushes have a note '%s' already", name);
    if (note_count == NOTES_MAX)
        return troupe_fail(TROUPE_TOO_LARGE, "pushes have %d notes, which is the most: no '%s'",
                           NOTES_MAX, name);
    notes[note_count].name = name;
    notes[note_count++].says = says;
    return TROUPE_OK;
}

static troupe_status say_notes(const troupe_model *model, trp_arena *arena, trp_push_record *record)
{
    trp_push_note *made = (trp_push_note *)trp_arena_alloc(arena, NOTES_MAX * sizeof *made);
    if (!made)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the record of a push");
    record->notes.items = made;
    for (size_t i = 0; i < note_count; i++) {
        const char *text = NULL;
        trp_arena *before = trp_arena_swap(arena);
        troupe_status status = notes[i].says(model, &text);
        (void)trp_arena_swap(before);
        TROUPE_TRY(status);
        if (text)
            made[record->notes.count++] = (trp_push_note){notes[i].name, text};
    }
    return TROUPE_OK;
}

// ---- the record

static trp_push_schema schema_of(const troupe_type *type, trp_arena *arena)
{
    char hash[HASH_DIGITS + 1];
    (void)snprintf(hash, sizeof hash, "%016" PRIx64, troupe_type_hash(type));
    return (trp_push_schema){type->name, keep(arena, hash, HASH_DIGITS)};
}

troupe_status trp_push_record_make(const troupe_model *model, const char *checkpoint,
                                   trp_arena *arena, trp_push_record *record)
{
    *record = (trp_push_record){0};
    trp_time_text now = trp_time_now();
    record->at = keep(arena, now.text, strlen(now.text));
    record->config = schema_of(model->config, arena);
    record->state = schema_of(model->state, arena);
    say_program(arena, record);
    say_run(checkpoint, arena, record);
    if (record->at && record->config.hash && record->state.hash)
        return trp_error_settled(say_notes(model, arena, record));
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for the record of a push");
}

troupe_status trp_push_record_read(const trp_manifest *manifest, trp_arena *arena,
                                   trp_push_record *record)
{
    trp_json object;
    *record = (trp_push_record){0};
    if (!manifest->push)
        return troupe_fail(TROUPE_NOT_FOUND, "it was never pushed");
    TROUPE_TRY(trp_json_parse(manifest->push, strlen(manifest->push), &object));
    troupe_status status = trp_json_read(&troupe_type_trp_push_record, object, arena, record);
    if (status == TROUPE_WRONG_TYPE)
        return troupe_fail(TROUPE_CORRUPT, "the record of its push is damaged: %s",
                           troupe_last_error()->text);
    return status;
}

uint64_t trp_push_hash(const char *text)
{
    if (!text || strlen(text) != HASH_DIGITS || strspn(text, "0123456789abcdef") != HASH_DIGITS)
        return 0;
    return strtoull(text, NULL, 16);
}
