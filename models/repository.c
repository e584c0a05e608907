// repository.c: looking at a repository, and changing what it has: the public functions.
#include <models/repository.h>
#include <models/stored.h>

#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/tree.h>
#include <unistd.h>

// ---- one version

static troupe_status no_memory(const trp_version *version)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for what %s@%" PRId64 " says of itself",
                       version->key, version->number);
}

static troupe_status take_aliases(const trp_version *version, trp_arena *arena,
                                  troupe_version_info *info)
{
    trp_names names;
    trp_path folder;
    TROUPE_TRY(trp_version_key(version, &folder));
    TROUPE_TRY(trp_key_aliases(folder.text, arena, &names));
    for (size_t i = 0; i < names.count; i++) {
        int64_t number;
        if (trp_alias_read(folder.text, names.items[i], &number) == TROUPE_OK &&
            number == version->number)
            names.items[info->alias_count++] = names.items[i];
    }
    info->aliases = names.items;
    return trp_error_settled(TROUPE_OK);
}

static troupe_status take_lists(const trp_version *version, const trp_manifest *manifest,
                                trp_arena *arena, troupe_version_info *info)
{
    size_t file_count = manifest->files.count, metric_count = manifest->metrics.count;
    troupe_version_file *files =
        (troupe_version_file *)trp_arena_alloc(arena, (file_count + 1) * sizeof *files);
    troupe_metric *metrics =
        (troupe_metric *)trp_arena_alloc(arena, (metric_count + 1) * sizeof *metrics);
    if (!files || !metrics)
        return no_memory(version);
    for (size_t i = 0; i < file_count; i++) {
        const trp_manifest_file *file = &manifest->files.items[i];
        files[i] = (troupe_version_file){file->path, file->size, file->digest};
    }
    for (size_t i = 0; i < metric_count; i++)
        metrics[i] =
            (troupe_metric){manifest->metrics.items[i].name, manifest->metrics.items[i].value};
    info->files = files;
    info->file_count = file_count;
    info->metrics = metrics;
    info->metric_count = metric_count;
    return TROUPE_OK;
}

static troupe_status take_notes(const trp_version *version, const trp_push_record *record,
                                trp_arena *arena, troupe_version_info *info)
{
    troupe_version_note *made = (troupe_version_note *)trp_arena_alloc(
        arena, (record->notes.count + 1) * sizeof(troupe_version_note));
    if (!made)
        return no_memory(version);
    info->notes = made;
    for (size_t i = 0; i < record->notes.count; i++) {
        const trp_push_note *note = &record->notes.items[i];
        if (note->name && note->text)
            made[info->note_count++] = (troupe_version_note){note->name, note->text};
    }
    return TROUPE_OK;
}

// An import may have left it out.
static uint64_t kept_bytes(const trp_version *version, const trp_push_record *record)
{
    trp_path path;
    struct stat about;
    bool there =
        record->kept.size > 0 &&
        trp_path_make(&path, "%s/" TRP_STORED_PROGRAM, version->folder.text) == TROUPE_OK &&
        lstat(path.text, &about) == 0;
    return there ? record->kept.size : 0;
}

static troupe_status take_manifest(const trp_version *version, trp_arena *arena,
                                   troupe_version_info *info)
{
    trp_manifest manifest;
    trp_push_record record;
    TROUPE_TRY(trp_manifest_read(version->folder.text, arena, &manifest));
    if (trp_push_record_read(&manifest, arena, &record) != TROUPE_OK)
        return troupe_fail(TROUPE_CORRUPT, "%s/" TRP_MANIFEST_NAME " is not of a version: %s",
                           version->folder.text, troupe_last_error()->text);
    TROUPE_TRY(take_lists(version, &manifest, arena, info));
    info->model = manifest.trainer;
    info->pushed = record.at;
    info->config_type = record.config.name;
    info->config_schema = trp_push_hash(record.config.hash);
    info->state_type = record.state.name;
    info->state_schema = trp_push_hash(record.state.hash);
    info->config = manifest.config;
    info->metadata = manifest.metadata;
    info->pushed_as = record.ref;
    info->program = record.program;
    info->build_id = record.build_id;
    info->run = record.run;
    info->checkpoint = manifest.id;
    info->committed = manifest.created;
    info->report = manifest.report;
    info->world = manifest.world;
    info->data = record.data;
    info->data_keys = record.data_keys.items;
    info->data_key_count = record.data_keys.count;
    info->kept_program_bytes = kept_bytes(version, &record);
    return take_notes(version, &record, arena, info);
}

// What is known of a version that cannot be read is told, too.
static troupe_status describe(const trp_version *version, trp_arena *arena,
                              troupe_version_info *info)
{
    troupe_version_info plain = {.version = version->number};
    plain.key = trp_arena_text(arena, version->key);
    plain.path = trp_arena_text(arena, version->folder.text);
    if (!plain.key || !plain.path)
        return no_memory(version);
    TROUPE_TRY(take_aliases(version, arena, &plain));
    *info = plain;
    troupe_status status = take_manifest(version, arena, info);
    if (status == TROUPE_OK || status == TROUPE_NO_MEMORY)
        return status;
    *info = plain;
    info->problem = trp_arena_text(arena, troupe_last_error()->text);
    return info->problem ? status : no_memory(version);
}

troupe_status troupe_repository_describe_with(const char *ref, troupe_version_info *info,
                                              size_t size, const troupe_repository_options *how)
{
    TRP_REQUIRE(ref);
    TRP_REQUIRE(info);
    trp_version version;
    troupe_version_info found;
    TROUPE_TRY(trp_version_of(how, TRP_TO_READ, ref, &version));
    TROUPE_TRY(trp_version_failed(&version, describe(&version, trp_arena_current(), &found)));
    trp_output_give(info, size, &found, sizeof found);
    return TROUPE_OK;
}

// ---- lists

troupe_status troupe_repository_keys_with(troupe_array_troupe_text *keys,
                                          const troupe_repository_options *how)
{
    TRP_REQUIRE(keys);
    trp_path root;
    trp_names names = {0};
    troupe_status status = trp_repository_of(how, TRP_TO_READ, &root);
    if (status == TROUPE_OK)
        status = trp_repository_list_keys(root.text, trp_arena_current(), &names);
    if (status != TROUPE_OK && status != TROUPE_NOT_FOUND) // Nothing was pushed yet.
        return status;
    *keys = (troupe_array_troupe_text){names.items, names.count};
    return trp_error_settled(TROUPE_OK);
}

static troupe_status list(const char *folder, const char *key, trp_arena *arena,
                          troupe_versions *versions)
{
    trp_numbers numbers;
    size_t count = 0;
    TROUPE_TRY(trp_key_numbers(folder, arena, &numbers));
    troupe_version_info *infos =
        (troupe_version_info *)trp_arena_alloc(arena, (numbers.whole_count + 1) * sizeof *infos);
    const troupe_version_info **items = (const troupe_version_info **)trp_arena_alloc(
        arena, (numbers.whole_count + 1) * sizeof *items);
    if (!infos || !items)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the versions of '%s'", key);
    for (size_t i = 0; i < numbers.whole_count; i++) {
        trp_version version = {.number = numbers.whole[i]};
        memcpy(version.key, key, strlen(key) + 1);
        TROUPE_TRY(trp_version_path(folder, version.number, &version.folder));
        troupe_status status = describe(&version, arena, &infos[i]);
        if (status == TROUPE_NO_MEMORY)
            return status;
        if (status == TROUPE_OK || trp_version_is_whole(version.folder.text))
            items[count++] = &infos[i];
    }
    *versions = (troupe_versions){items, count};
    return trp_error_settled(TROUPE_OK);
}

troupe_status troupe_repository_list_with(const char *key, troupe_versions *versions,
                                          const troupe_repository_options *how)
{
    TRP_REQUIRE(key);
    TRP_REQUIRE(versions);
    trp_path root, folder;
    TROUPE_TRY(trp_repository_of(how, TRP_TO_READ, &root));
    TROUPE_TRY(trp_key_find(root.text, key, &folder));
    return list(folder.text, key, trp_arena_current(), versions);
}

// ---- changes

// Something that is done under byte 0 of a key.
typedef struct change {
    trp_path folder;
    trp_key_lock *lock;
} change;

// Of a key that is there.
static troupe_status begin(const troupe_repository_options *how, const char *key, change *it)
{
    trp_path root;
    TROUPE_TRY(trp_repository_of(how, TRP_TO_CHANGE, &root));
    TROUPE_TRY(trp_key_find(root.text, key, &it->folder));
    TROUPE_TRY(trp_key_open(it->folder.text, &it->lock));
    troupe_status status = trp_key_enter(it->lock, TRP_KEY_WAIT_MS);
    if (status != TROUPE_OK)
        trp_key_close(&it->lock);
    return status;
}

static troupe_status end(change *it, troupe_status status)
{
    trp_key_leave(it->lock);
    trp_key_close(&it->lock);
    return status;
}

troupe_status troupe_repository_alias_with(const char *ref, const char *alias,
                                           const troupe_repository_options *how)
{
    TRP_REQUIRE(ref);
    TRP_REQUIRE(alias);
    trp_version version;
    TROUPE_TRY(trp_alias_check(alias));
    TROUPE_TRY(trp_version_of(how, TRP_TO_CHANGE, ref, &version));
    return trp_alias_set(&version, alias, false);
}

static troupe_status remove_alias(const char *folder, const char *alias)
{
    trp_path path, above;
    TROUPE_TRY(trp_path_make(&above, "%s/" TRP_ALIASES, folder));
    TROUPE_TRY(trp_path_make(&path, "%s/%s", above.text, alias));
    if (trp_file_refuses("unlink") || unlink(path.text))
        return trp_fail_errno(TROUPE_IO, "cannot remove %s", path.text);
    return trp_folder_sync(above.text);
}

troupe_status troupe_repository_alias_remove_with(const char *key, const char *alias,
                                                  const troupe_repository_options *how)
{
    TRP_REQUIRE(key);
    TRP_REQUIRE(alias);
    change it;
    trp_version version;
    char text[2 * TRP_NAME_SIZE];
    TROUPE_TRY(trp_name_check("key", key));
    TROUPE_TRY(trp_alias_check(alias));
    (void)snprintf(text, sizeof text, "%s@%s", key, alias);
    TROUPE_TRY(begin(how, key, &it));
    troupe_status status = trp_version_of(how, TRP_TO_READ, text, &version);
    if (status == TROUPE_OK || status == TROUPE_CORRUPT) // Damaged ones can be removed.
        status = remove_alias(it.folder.text, alias);
    return end(&it, trp_error_settled(status));
}

// Takes the manifest away, which lasts: then there is no such version. What is left is swept.
static troupe_status unpublish(const char *folder, int64_t number)
{
    trp_path path, manifest;
    TROUPE_TRY(trp_version_path(folder, number, &path));
    TROUPE_TRY(trp_path_make(&manifest, "%s/" TRP_MANIFEST_NAME, path.text));
    if (trp_file_refuses("unlink") || unlink(manifest.text))
        return trp_fail_errno(TROUPE_IO, "cannot remove %s", manifest.text);
    return trp_folder_sync(path.text);
}

static troupe_status delete_version(const change *it, const trp_version *version)
{
    size_t removed = 0;
    trp_arena arena = {0};
    troupe_version_info info = {0};
    troupe_status status = take_aliases(version, &arena, &info);
    if (status == TROUPE_OK && info.alias_count > 0)
        status = troupe_fail(TROUPE_INVALID,
                             "%s@%" PRId64 " has the alias '%s'%s: move or remove it first",
                             version->key, version->number, info.aliases[0],
                             info.alias_count > 1 ? " and others" : "");
    trp_arena_clear(&arena);
    TROUPE_TRY(status);
    TROUPE_TRY(unpublish(it->folder.text, version->number));
    return trp_key_sweep(it->folder.text, it->lock, &removed);
}

troupe_status troupe_repository_delete_with(const char *ref, const troupe_repository_options *how)
{
    TRP_REQUIRE(ref);
    trp_ref said;
    trp_version version;
    change it;
    TROUPE_TRY(trp_ref_parse(ref, &said));
    TROUPE_TRY(trp_version_of(how, TRP_TO_READ, ref, &version));
    if (!said.number)
        return troupe_fail(TROUPE_INVALID,
                           "a version is deleted by its number: '%s' is %s@%" PRId64 " now", ref,
                           version.key, version.number);
    TROUPE_TRY(begin(how, said.key, &it));
    // Another one may have deleted it meanwhile.
    troupe_status status = trp_version_of(how, TRP_TO_READ, ref, &version);
    if (status == TROUPE_OK)
        status = delete_version(&it, &version);
    return end(&it, status);
}

// Aliases first, so that none names what is not there.
static troupe_status delete_all(const change *it, trp_arena *arena)
{
    trp_names aliases;
    trp_numbers numbers;
    size_t removed = 0;
    TROUPE_TRY(trp_key_aliases(it->folder.text, arena, &aliases));
    for (size_t i = 0; i < aliases.count; i++)
        TROUPE_TRY(remove_alias(it->folder.text, aliases.items[i]));
    TROUPE_TRY(trp_key_numbers(it->folder.text, arena, &numbers));
    for (size_t i = 0; i < numbers.whole_count; i++)
        TROUPE_TRY(unpublish(it->folder.text, numbers.whole[i]));
    return trp_key_sweep(it->folder.text, it->lock, &removed);
}

troupe_status troupe_repository_delete_key_with(const char *key,
                                                const troupe_repository_options *how)
{
    TRP_REQUIRE(key);
    change it;
    trp_arena arena = {0};
    TROUPE_TRY(begin(how, key, &it));
    troupe_status status = delete_all(&it, &arena);
    trp_arena_clear(&arena);
    return end(&it, status);
}

static troupe_status sweep(const char *root, const char *key, size_t *removed)
{
    change it;
    TROUPE_TRY(trp_path_make(&it.folder, "%s/%s", root, key));
    TROUPE_TRY(trp_key_open(it.folder.text, &it.lock));
    troupe_status status = trp_key_enter(it.lock, TRP_KEY_WAIT_MS);
    if (status == TROUPE_OK)
        return end(&it, trp_key_sweep(it.folder.text, it.lock, removed));
    trp_key_close(&it.lock);
    return status;
}

troupe_status troupe_repository_gc_with(size_t *removed, const troupe_repository_options *how)
{
    TRP_REQUIRE(removed);
    trp_path root;
    trp_names keys;
    trp_arena arena = {0};
    size_t count = 0;
    TROUPE_TRY(trp_repository_of(how, TRP_TO_CHANGE, &root));
    troupe_status status = trp_repository_list_folders(root.text, &arena, &keys);
    for (size_t i = 0; status == TROUPE_OK && i < keys.count; i++)
        status = sweep(root.text, keys.items[i], &count);
    trp_arena_clear(&arena);
    if (status == TROUPE_OK)
        *removed = count;
    return status;
}
