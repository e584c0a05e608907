// stored_keep.c: the copy of a program in a version: how it gets there, and that it is still it.
#include <models/stored.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/codec/json.h>
#include <runtime/codec/type.h>
#include <runtime/shm/process_table.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/config.h>
#include <train/launch_record.h>
#include <train/spec.h>
#include <train/tree.h>
#include <unistd.h>

troupe_status trp_stored_check(const troupe_model *model)
{
    if (trp_stored_is_asked())
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "this process is a stored program that was asked for something, and "
                           "keeps no copy of itself: its main has to reach troupe_start first");
    if (trp_process_starts() != 1)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "option .keep_program is given after %u starts of this program, and the "
                           "copy runs up to the first troupe_start: expected a push after that one",
                           (unsigned)trp_process_starts());
    if (!model->trainer)
        return troupe_fail(TROUPE_UNSUPPORTED, "model '%s' has no trainer", model->name);
    return trp_launch_record_check(model->trainer, model->name);
}

// ---- keeping

static troupe_status say_source(const troupe_data_given *data, trp_arena *arena,
                                trp_push_program *record)
{
    trp_packed packed = {0};
    trp_buffer text = {0};
    if (!data->table || !data->source)
        return troupe_fail(TROUPE_INVALID, "option .data has no table or no source: expected "
                                           "troupe_data_with(name, &source)");
    TROUPE_TRY(
        trp_packed_take(&packed, data->table->source, "the source of the data", data->source));
    size_t references = packed.ref_count;
    trp_packed_free(&packed);
    if (references > 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "the source of data '%s' has references, which end with this program: "
                           "expected values alone",
                           data->table->name);
    trp_json_value(&text, data->table->source, data->source);
    record->data = data->table->name;
    record->share = data->share;
    record->source = trp_buffer_keep(&text, arena);
    return record->source ? TROUPE_OK
                          : troupe_fail(TROUPE_NO_MEMORY, "no memory for the source of the data");
}

// Made the owner's alone, and synced.
static troupe_status settle(const char *path, trp_push_program *record)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", path);
    troupe_status status = fchmod(fd, 0700) == 0
                               ? TROUPE_OK
                               : trp_fail_errno(TROUPE_IO, "cannot change the mode of %s", path);
    if (status == TROUPE_OK)
        status = trp_file_digest(fd, path, &record->size, &record->digest);
    if (status == TROUPE_OK)
        status = trp_file_sync(fd, path);
    close(fd);
    return status;
}

troupe_status trp_stored_keep(const char *folder, const troupe_data_given *data, trp_arena *arena,
                              trp_push_program *record)
{
    trp_path copy;
    trp_wire_launch launch;
    *record = (trp_push_program){0};
    TROUPE_TRY(trp_launch_record_make(arena, &launch));
    record->arguments = launch.arguments;
    record->folder = launch.folder;
    if (data)
        TROUPE_TRY(say_source(data, arena, record));
    TROUPE_TRY(trp_path_make(&copy, "%s/" TRP_STORED_PROGRAM, folder));
    TROUPE_TRY(trp_tree_copy(launch.program, copy.text));
    return settle(copy.text, record);
}

troupe_status trp_stored_copy(const char *from, const trp_push_program *record, const char *to)
{
    trp_path source, copy;
    trp_push_program copied;
    TROUPE_TRY(trp_stored_verify(from, from, record));
    TROUPE_TRY(trp_path_make(&source, "%s/" TRP_STORED_PROGRAM, from));
    TROUPE_TRY(trp_path_make(&copy, "%s/" TRP_STORED_PROGRAM, to));
    TROUPE_TRY(trp_tree_copy(source.text, copy.text));
    TROUPE_TRY(settle(copy.text, &copied));
    if (copied.size == record->size && copied.digest == record->digest)
        return TROUPE_OK;
    return troupe_fail(TROUPE_CORRUPT, "%s changed while it was copied", source.text);
}

// ---- looking

static troupe_status check_file(int fd, const char *path, const trp_push_program *record)
{
    struct stat about;
    uint64_t size, digest;
    if (fstat(fd, &about) != 0)
        return trp_fail_errno(TROUPE_IO, "cannot look at %s", path);
    if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 022))
        return troupe_fail(TROUPE_INVALID,
                           "%s is not run: expected a plain file of this user that nobody else may "
                           "write to",
                           path);
    TROUPE_TRY(trp_file_digest(fd, path, &size, &digest));
    if (size == record->size && digest == record->digest)
        return TROUPE_OK;
    return troupe_fail(TROUPE_CORRUPT,
                       "%s is damaged: it has %" PRIu64 " bytes with checksum %016" PRIx64
                       ", expected %" PRIu64 " with %016" PRIx64,
                       path, size, digest, record->size, record->digest);
}

troupe_status trp_stored_verify(const char *folder, const char *ref, const trp_push_program *record)
{
    trp_path path;
    if (record->size == 0)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s was pushed without its program: expected a push with .keep_program",
                           ref);
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_STORED_PROGRAM, folder));
    int fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "%s has no program any more: %s was removed, or left out by an import",
                           ref, path.text);
    if (fd < 0)
        return trp_fail_errno(TROUPE_IO, "cannot open %s", path.text);
    troupe_status status = check_file(fd, path.text, record);
    close(fd);
    return status;
}
