// repository_change.c: what changes a key: new versions, aliases, deletion. See
// docs/internals/models/repository.md for the order of the steps, and what a kill leaves of each.
#include <models/repository.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/log.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <train/tree.h>
#include <unistd.h>

static const int64_t number_max = INT64_C(999999999999999999);

static troupe_status remove_file(const char *path)
{
    if ((trp_file_refuses("unlink") || unlink(path)) && errno != ENOENT)
        return trp_fail_errno(TROUPE_IO, "cannot remove %s", path);
    return TROUPE_OK;
}

// ---- folders of versions

// Removes all that is in the folder of a version; its manifest first, which lasts. *had: there was
// something.
static troupe_status empty(const char *folder, bool *had)
{
    trp_path path;
    troupe_status status = TROUPE_OK;
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_MANIFEST_NAME, folder));
    if (trp_version_is_whole(folder)) {
        TROUPE_TRY(remove_file(path.text));
        TROUPE_TRY(trp_folder_sync(folder));
    }
    DIR *entries = opendir(folder);
    if (!entries)
        return trp_fail_errno(TROUPE_IO, "cannot open the folder %s", folder);
    *had = false;
    for (struct dirent *entry; status == TROUPE_OK && (entry = readdir(entries));) {
        struct stat about;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *had = true;
        status = trp_path_make(&path, "%s/%s", folder, entry->d_name);
        if (status == TROUPE_OK && lstat(path.text, &about) == 0)
            status =
                S_ISDIR(about.st_mode) ? trp_folder_discard(path.text) : remove_file(path.text);
    }
    closedir(entries);
    return status;
}

// What has a version's number and is none: the rest of one, or a file or link, which stays.
static troupe_status sweep_one(const char *folder, int64_t number, bool highest, size_t *removed)
{
    trp_path path;
    struct stat about;
    bool had;
    TROUPE_TRY(trp_version_path(folder, number, &path));
    if (lstat(path.text, &about) != 0 || !S_ISDIR(about.st_mode))
        return TROUPE_OK;
    TROUPE_TRY(empty(path.text, &had));
    *removed += had;
    if (!highest && (trp_file_refuses("rmdir") || rmdir(path.text)))
        return trp_fail_errno(TROUPE_IO, "cannot remove the folder %s", path.text);
    return TROUPE_OK;
}

troupe_status trp_key_sweep(const char *folder, trp_key_lock *lock, size_t *removed)
{
    trp_arena arena = {0};
    trp_numbers numbers;
    troupe_status status = trp_key_numbers(folder, &arena, &numbers);
    for (size_t i = 0; status == TROUPE_OK && i < numbers.unfinished_count; i++) {
        int64_t number = numbers.unfinished[i];
        trp_path path;
        if (!trp_key_claim(lock, number))
            continue;
        // Its push may have ended since the listing.
        status = trp_version_path(folder, number, &path);
        if (status == TROUPE_OK && !trp_version_is_whole(path.text))
            status = sweep_one(folder, number, number == numbers.highest, removed);
        trp_key_release(lock, number);
    }
    trp_arena_clear(&arena);
    return status;
}

// ---- a new version

static troupe_status make_key(const char *root, const char *key, trp_path *folder)
{
    bool there;
    TROUPE_TRY(trp_key_folder(root, key, &there, folder));
    if (there)
        return TROUPE_OK;
    troupe_status status = trp_folder_make_new(folder->text);
    return status == TROUPE_EXISTS ? trp_key_folder(root, key, &there, folder) : status;
}

// Under byte 0. *fresh: the key has no version yet.
static troupe_status claim_next(trp_draft *draft, bool *fresh)
{
    trp_version *at = &draft->at;
    trp_numbers numbers;
    TROUPE_TRY(trp_key_numbers(draft->key_folder.text, &draft->arena, &numbers));
    *fresh = numbers.whole_count == 0;
    for (int64_t number = numbers.highest + 1; number <= number_max; number++) {
        if (!trp_key_claim(draft->lock, number))
            continue;
        TROUPE_TRY(trp_version_path(draft->key_folder.text, number, &at->folder));
        troupe_status status = trp_folder_make_new(at->folder.text);
        if (status == TROUPE_OK)
            at->number = number;
        else
            trp_key_release(draft->lock, number);
        if (status != TROUPE_EXISTS)
            return status;
    }
    return troupe_fail(TROUPE_NO_SPACE, "'%s' has no number left for a version", at->key);
}

// Whoever made the folders above may have been killed before they were synced.
static troupe_status sync_above(const char *root)
{
    trp_path path;
    TROUPE_TRY(trp_folder_sync(root));
    TROUPE_TRY(trp_path_make(&path, "%s/..", root));
    return trp_folder_sync(path.text);
}

troupe_status trp_draft_begin(const char *option, const char *key, trp_draft *draft)
{
    bool fresh = false;
    trp_path root;
    *draft = (trp_draft){0};
    TROUPE_TRY(trp_repository_root(option, TRP_TO_ADD, &root));
    TROUPE_TRY(make_key(root.text, key, &draft->key_folder));
    memcpy(draft->at.key, key, strlen(key) + 1);
    TROUPE_TRY(trp_key_open(draft->key_folder.text, &draft->lock));
    troupe_status status = trp_key_enter(draft->lock, TRP_KEY_WAIT_MS);
    if (status == TROUPE_OK) {
        status = claim_next(draft, &fresh);
        trp_key_leave(draft->lock);
    }
    if (status == TROUPE_OK)
        status = trp_folder_sync(draft->key_folder.text);
    if (status == TROUPE_OK && fresh)
        status = sync_above(root.text);
    if (status != TROUPE_OK)
        trp_draft_end(draft, false);
    return status;
}

troupe_status trp_draft_publish(trp_draft *draft, const void *manifest, size_t size)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_MANIFEST_NAME, draft->at.folder.text));
    TROUPE_TRY(trp_folder_sync(draft->at.folder.text));
    return trp_file_replace(path.text, manifest, size);
}

void trp_draft_end(trp_draft *draft, bool published)
{
    troupe_error said;
    bool had;
    trp_error_hold(&said);
    if (!published && draft->at.number && empty(draft->at.folder.text, &had) != TROUPE_OK)
        trp_log(TRP_WARN, "a version that was not pushed is left in part: %s",
                troupe_last_error()->text);
    if (draft->at.number)
        trp_key_release(draft->lock, draft->at.number);
    trp_key_close(&draft->lock);
    trp_arena_clear(&draft->arena);
    trp_error_restore(&said);
}

// ---- aliases

// A name that is no alias is used meanwhile, by one at a time.
static troupe_status write_alias(const char *key_folder, const char *alias, int64_t number)
{
    trp_path made, path;
    char text[32];
    int size = snprintf(text, sizeof text, "%" PRId64 "\n", number);
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_ALIASES, key_folder));
    troupe_status status = trp_folder_make_new(path.text);
    if (status != TROUPE_OK && status != TROUPE_EXISTS)
        return status;
    TROUPE_TRY(trp_folder_sync(key_folder)); // Also where another one made it, and was killed.
    TROUPE_TRY(trp_path_make(&made, "%s/" TRP_ALIASES "/.new", key_folder));
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_ALIASES "/%s", key_folder, alias));
    TROUPE_TRY(trp_file_write(made.text, &(trp_piece){text, (size_t)size}, 1));
    TROUPE_TRY(trp_folder_rename(made.text, path.text));
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_ALIASES, key_folder));
    return trp_folder_sync(path.text);
}

static troupe_status set_alias(const trp_version *version, const char *key_folder,
                               const char *alias, bool forward)
{
    int64_t now = 0;
    if (!trp_version_is_whole(version->folder.text))
        return troupe_fail(TROUPE_NOT_FOUND,
                           "%s@%" PRId64 " was deleted before it had the alias "
                           "'%s'",
                           version->key, version->number, alias);
    if (forward && trp_alias_read(key_folder, alias, &now) == TROUPE_OK && now >= version->number)
        return TROUPE_OK;
    return trp_error_settled(write_alias(key_folder, alias, version->number));
}

troupe_status trp_alias_set(const trp_version *version, const char *alias, bool forward)
{
    trp_key_lock *lock;
    trp_path folder;
    TROUPE_TRY(trp_version_key(version, &folder));
    TROUPE_TRY(trp_key_open(folder.text, &lock));
    troupe_status status = trp_key_enter(lock, TRP_KEY_WAIT_MS);
    if (status == TROUPE_OK) {
        status = set_alias(version, folder.text, alias, forward);
        trp_key_leave(lock);
    }
    trp_key_close(&lock);
    return status;
}
