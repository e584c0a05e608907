// repository_folder.c: what is there: the folder of the repository, keys, versions, aliases. Reads
// only, but for making the repository's own folder.
#include <models/repository.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/host/folder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <train/checkpoint.h>
#include <unistd.h>

// ---- the repository

static const char *home_of(void)
{
    const char *home = getenv("HOME");
    return home && home[0] == '/' ? home : NULL;
}

static troupe_status choose(const char *option, trp_path *root)
{
    const char *home = home_of(), *given = option, *state = getenv("XDG_STATE_HOME");
    if (!given || !given[0])
        given = getenv("TROUPE_MODELS");
    if (given && given[0] == '~' && (given[1] == '/' || !given[1]) && home)
        return trp_path_make(root, "%s%s", home, given + 1);
    if (given && given[0])
        return trp_path_make(root, "%s", given);
    if (state && state[0] == '/')
        return trp_path_make(root, "%s/troupe/models", state);
    if (home)
        return trp_path_make(root, "%s/.local/state/troupe/models", home);
    return troupe_fail(TROUPE_INVALID, "there is no folder for models: neither the option "
                                       ".repository, nor TROUPE_MODELS, XDG_STATE_HOME or HOME "
                                       "says one");
}

// Each folder that is made is synced into the one above it.
static troupe_status make_folders(char *path)
{
    struct stat about;
    if (stat(path, &about) == 0)
        return TROUPE_OK;
    char *name = strrchr(path, '/');
    if (name && name != path) {
        *name = '\0';
        troupe_status status = make_folders(path);
        *name = '/';
        TROUPE_TRY(status);
    }
    troupe_status status = trp_folder_make_new(path);
    if (status != TROUPE_OK)
        return status == TROUPE_EXISTS ? TROUPE_OK : status;
    if (!name || name == path)
        return trp_folder_sync(name ? "/" : ".");
    *name = '\0';
    status = trp_folder_sync(path);
    *name = '/';
    return status;
}

static troupe_status check_own(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return trp_fail_errno(TROUPE_IO, "cannot use the repository %s", path);
    if (!S_ISDIR(about.st_mode))
        return troupe_fail(TROUPE_INVALID, "the repository %s is not a folder", path);
    if (about.st_uid != geteuid())
        return troupe_fail(TROUPE_INVALID,
                           "the repository %s belongs to user %u: only its owner may change it",
                           path, (unsigned)about.st_uid);
    if ((about.st_mode & 022) && trp_folder_mode() == 0700)
        return troupe_fail(TROUPE_INVALID,
                           "other users may write to the repository %s: expected mode 700 or 755",
                           path);
    return TROUPE_OK;
}

troupe_status trp_repository_root(const char *option, trp_access access, trp_path *root)
{
    struct stat about;
    trp_path whole;
    TROUPE_TRY(choose(option, root));
    if (access == TRP_TO_ADD) {
        for (size_t size = strlen(root->text); size > 1 && root->text[size - 1] == '/'; size--)
            root->text[size - 1] = '\0';
        TROUPE_TRY(make_folders(root->text));
    } else if (stat(root->text, &about) != 0) {
        return errno == ENOENT
                   ? troupe_fail(TROUPE_NOT_FOUND, "there is no repository of models at %s",
                                 root->text)
                   : trp_fail_errno(TROUPE_IO, "cannot use the repository %s", root->text);
    } else if (!S_ISDIR(about.st_mode)) {
        return troupe_fail(TROUPE_INVALID, "the repository %s is not a folder", root->text);
    }
    if (access != TRP_TO_READ)
        TROUPE_TRY(check_own(root->text));
    if (!realpath(root->text, whole.text)) // It is the same from every folder.
        return trp_fail_errno(TROUPE_IO, "cannot use the repository %s", root->text);
    *root = whole;
    return TROUPE_OK;
}

troupe_status trp_repository_of(const troupe_repository_options *how, trp_access access,
                                trp_path *root)
{
    troupe_repository_options full;
    TROUPE_TRY(TRP_OPTIONS_TAKE("a repository", full, how));
    return trp_repository_root(full.repository, access, root);
}

// ---- listing

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int compare_numbers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

// The names in a folder of which `wanted` is true, sorted; none where there is no folder.
static troupe_status list(const char *folder, bool (*wanted)(const char *folder, const char *name),
                          trp_arena *arena, trp_names *names)
{
    trp_buffer found = {0};
    DIR *entries = opendir(folder);
    *names = (trp_names){0};
    if (!entries)
        return errno == ENOENT ? TROUPE_OK
                               : trp_fail_errno(TROUPE_IO, "cannot open the folder %s", folder);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!wanted(folder, entry->d_name))
            continue;
        size_t size = strlen(entry->d_name) + 1;
        char *name = (char *)trp_arena_alloc(arena, size);
        found.failed = found.failed || !name;
        if (!found.failed)
            memcpy(name, entry->d_name, size);
        trp_buffer_append(&found, &name, sizeof name);
    }
    closedir(entries);
    size_t count = found.size / sizeof *names->items;
    const char **items = (const char **)trp_arena_alloc(arena, found.size + 1);
    troupe_status status = TROUPE_OK;
    if (found.failed || !items) {
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for what is in %s", folder);
    } else if (count > 0) {
        memcpy(items, found.data, found.size);
        qsort(items, count, sizeof *items, compare_names);
        *names = (trp_names){items, count};
    }
    trp_buffer_free(&found);
    return status;
}

static bool is_name(const char *folder, const char *name)
{
    troupe_error kept;
    (void)folder;
    trp_error_hold(&kept);
    bool good = trp_name_check("key", name) == TROUPE_OK;
    trp_error_restore(&kept);
    return good;
}

static bool is_key(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%s/%s", folder, name);
    return is_name(folder, name) && size > 0 && size < PATH_MAX && is_folder(path);
}

static bool is_number(const char *folder, const char *name)
{
    char written[32];
    int64_t number = trp_version_number(name);
    (void)folder;
    (void)snprintf(written, sizeof written, "%06" PRId64, number);
    return number > 0 && strcmp(written, name) == 0;
}

troupe_status trp_repository_list_folders(const char *root, trp_arena *arena, trp_names *keys)
{
    return list(root, is_key, arena, keys);
}

troupe_status trp_repository_list_keys(const char *root, trp_arena *arena, trp_names *keys)
{
    trp_path folder;
    size_t count = 0;
    TROUPE_TRY(trp_repository_list_folders(root, arena, keys));
    for (size_t i = 0; i < keys->count; i++) {
        trp_numbers numbers;
        trp_arena scratch = {0};
        TROUPE_TRY(trp_path_make(&folder, "%s/%s", root, keys->items[i]));
        troupe_status status = trp_key_numbers(folder.text, &scratch, &numbers);
        trp_arena_clear(&scratch);
        TROUPE_TRY(status);
        if (numbers.whole_count > 0)
            keys->items[count++] = keys->items[i];
    }
    keys->count = count;
    return TROUPE_OK;
}

troupe_status trp_version_path(const char *key_folder, int64_t number, trp_path *folder)
{
    return trp_path_make(folder, "%s/%06" PRId64, key_folder, number);
}

bool trp_version_is_whole(const char *folder)
{
    char path[PATH_MAX];
    struct stat about;
    int size = snprintf(path, sizeof path, "%s/" TRP_MANIFEST_NAME, folder);
    return size > 0 && size < PATH_MAX && is_folder(folder) && lstat(path, &about) == 0;
}

troupe_status trp_key_numbers(const char *folder, trp_arena *arena, trp_numbers *numbers)
{
    trp_names names;
    *numbers = (trp_numbers){0};
    TROUPE_TRY(list(folder, is_number, arena, &names));
    int64_t *all = (int64_t *)trp_arena_alloc(arena, 2 * (names.count + 1) * sizeof *all);
    if (!all)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the versions in %s", folder);
    *numbers = (trp_numbers){.whole = all, .unfinished = all + names.count};
    for (size_t i = 0; i < names.count; i++) {
        trp_path path;
        int64_t number = trp_version_number(names.items[i]);
        TROUPE_TRY(trp_version_path(folder, number, &path));
        if (number > numbers->highest)
            numbers->highest = number;
        if (trp_version_is_whole(path.text))
            numbers->whole[numbers->whole_count++] = number;
        else
            numbers->unfinished[numbers->unfinished_count++] = number;
    }
    if (names.count > 0) {
        qsort(numbers->whole, numbers->whole_count, sizeof *all, compare_numbers);
        qsort(numbers->unfinished, numbers->unfinished_count, sizeof *all, compare_numbers);
    }
    return TROUPE_OK;
}

troupe_status trp_key_aliases(const char *folder, trp_arena *arena, trp_names *aliases)
{
    trp_path path;
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_ALIASES, folder));
    return list(path.text, is_name, arena, aliases);
}

troupe_status trp_alias_read(const char *folder, const char *alias, int64_t *number)
{
    trp_path path;
    unsigned char *data;
    size_t size;
    char text[32] = "";
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_ALIASES "/%s", folder, alias));
    TROUPE_TRY(trp_file_read(path.text, &data, &size));
    if (size > 1 && size < sizeof text && data[size - 1] == '\n' && !memchr(data, '\0', size))
        memcpy(text, data, size - 1);
    trp_free(data);
    *number = trp_version_number(text);
    return *number > 0 ? TROUPE_OK
                       : troupe_fail(TROUPE_CORRUPT, "%s is damaged: it has no version", path.text);
}

// ---- finding

troupe_status trp_key_folder(const char *root, const char *key, bool *there, trp_path *folder)
{
    struct stat about;
    TROUPE_TRY(trp_name_check("key", key));
    TROUPE_TRY(trp_path_make(folder, "%s/%s", root, key));
    *there = lstat(folder->text, &about) == 0;
    if (!*there && errno != ENOENT)
        return trp_fail_errno(TROUPE_IO, "cannot use the folder %s", folder->text);
    if (*there && !S_ISDIR(about.st_mode))
        return troupe_fail(TROUPE_IO, "%s is %s: the folder of a key was expected", folder->text,
                           S_ISLNK(about.st_mode) ? "a link" : "a file");
    return TROUPE_OK;
}

static troupe_status no_key(const char *root, const char *key)
{
    trp_arena arena = {0};
    trp_buffer text = {0};
    trp_names keys;
    troupe_status status = trp_repository_list_keys(root, &arena, &keys);
    for (size_t i = 0; status == TROUPE_OK && i < keys.count; i++)
        trp_buffer_printf(&text, "%s%s", i > 0 ? ", " : "", keys.items[i]);
    if (status == TROUPE_OK)
        status = troupe_fail(
            TROUPE_NOT_FOUND, "there is no model '%s' in %s: those that there are: %.*s", key, root,
            text.size ? (int)text.size : 4, text.size ? (const char *)text.data : "none");
    trp_buffer_free(&text);
    trp_arena_clear(&arena);
    return status;
}

static troupe_status no_version(const char *folder, const trp_ref *ref, const trp_numbers *numbers,
                                trp_arena *arena)
{
    trp_names aliases;
    trp_buffer text = {0};
    char wanted[TRP_NAME_SIZE + 24];
    TROUPE_TRY(trp_key_aliases(folder, arena, &aliases));
    trp_numbers_write(numbers->whole, numbers->whole_count, &text);
    for (size_t i = 0; i < aliases.count; i++)
        trp_buffer_printf(&text, "%s%s", i > 0 ? ", " : ", and the aliases ", aliases.items[i]);
    if (ref->number)
        (void)snprintf(wanted, sizeof wanted, "version %" PRId64, ref->number);
    else
        (void)snprintf(wanted, sizeof wanted, "alias '%s'", ref->alias);
    troupe_status status =
        troupe_fail(TROUPE_NOT_FOUND, "'%s' has no %s: there are the versions %.*s", ref->key,
                    wanted, (int)text.size, text.data ? (const char *)text.data : "");
    trp_buffer_free(&text);
    return status;
}

static troupe_status find_number(const char *root, const trp_ref *ref, const char *folder,
                                 trp_arena *arena, int64_t *number)
{
    trp_numbers numbers;
    TROUPE_TRY(trp_key_numbers(folder, arena, &numbers));
    if (numbers.whole_count == 0)
        return no_key(root, ref->key);
    if (!ref->number && !ref->alias[0]) {
        *number = numbers.whole[numbers.whole_count - 1];
        return TROUPE_OK;
    }
    *number = ref->number;
    if (ref->alias[0]) {
        troupe_status status = trp_alias_read(folder, ref->alias, number);
        if (status == TROUPE_NOT_FOUND)
            return no_version(folder, ref, &numbers, arena);
        TROUPE_TRY(status);
        // The alias may have been moved to a version since the listing.
        TROUPE_TRY(trp_key_numbers(folder, arena, &numbers));
    }
    for (size_t i = 0; i < numbers.whole_count; i++)
        if (numbers.whole[i] == *number)
            return TROUPE_OK;
    if (!ref->alias[0])
        return no_version(folder, ref, &numbers, arena);
    return troupe_fail(TROUPE_CORRUPT,
                       "the alias '%s' of '%s' names version %" PRId64 ", which is not there",
                       ref->alias, ref->key, *number);
}

troupe_status trp_key_find(const char *root, const char *key, trp_path *folder)
{
    bool there;
    trp_numbers numbers = {0};
    trp_arena arena = {0};
    TROUPE_TRY(trp_key_folder(root, key, &there, folder));
    troupe_status status = there ? trp_key_numbers(folder->text, &arena, &numbers) : TROUPE_OK;
    trp_arena_clear(&arena);
    TROUPE_TRY(status);
    return numbers.whole_count > 0 ? TROUPE_OK : no_key(root, key);
}

troupe_status trp_version_find(const char *root, const char *text, trp_version *version)
{
    trp_ref ref;
    bool there;
    trp_arena arena = {0};
    int64_t number;
    trp_path folder;
    TROUPE_TRY(trp_ref_parse(text, &ref));
    TROUPE_TRY(trp_key_folder(root, ref.key, &there, &folder));
    if (!there)
        return no_key(root, ref.key);
    troupe_status status = find_number(root, &ref, folder.text, &arena, &number);
    trp_arena_clear(&arena);
    TROUPE_TRY(status);
    TROUPE_TRY(trp_version_path(folder.text, number, &version->folder));
    memcpy(version->key, ref.key, sizeof version->key);
    version->number = number;
    return TROUPE_OK;
}

troupe_status trp_version_of(const troupe_repository_options *how, trp_access access,
                             const char *text, trp_version *version)
{
    trp_path root;
    TROUPE_TRY(trp_repository_of(how, access, &root));
    return trp_version_find(root.text, text, version);
}

troupe_status trp_version_key(const trp_version *version, trp_path *folder)
{
    const char *name = strrchr(version->folder.text, '/');
    return trp_path_make(folder, "%.*s", name ? (int)(name - version->folder.text) : 0,
                         version->folder.text);
}

troupe_status trp_version_failed(const trp_version *version, troupe_status status)
{
    if (status == TROUPE_OK || trp_version_is_whole(version->folder.text))
        return status;
    return troupe_fail(TROUPE_NOT_FOUND, "%s@%" PRId64 " was deleted while it was read",
                       version->key, version->number);
}
