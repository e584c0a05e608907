// repository.h: the folder of a repository: its keys, their versions and aliases, and a new version
// from its claim to its manifest. See docs/internals/models/repository.md.
#ifndef TRP_MODELS_REPOSITORY_H
#define TRP_MODELS_REPOSITORY_H

#include <models/key_lock.h>
#include <models/push_record.h>
#include <runtime/host/file.h>
#include <troupe/repository.h>

// ---- repository_names.c

enum { TRP_NAME_SIZE = TROUPE_REPOSITORY_NAME_MAX + 1 };
#define TRP_LATEST "latest"
#define TRP_WEIGHTS "weights.safetensors"
#define TRP_ALIASES "aliases"

// What a ref says: a key and, if it has one, a number, or else an alias.
typedef struct trp_ref {
    char key[TRP_NAME_SIZE];
    int64_t number; // 0: it says none.
    char alias[TRP_NAME_SIZE];
} trp_ref;

// Whether that may be the name of a key, an alias or a version: TROUPE_INVALID says what `what` is.
troupe_status trp_name_check(const char *what, const char *name);
// Also: it could not be taken for a version.
troupe_status trp_alias_check(const char *alias);
troupe_status trp_ref_parse(const char *text, trp_ref *ref);
// The number that a text of nothing but digits is; 0: it is none, or none that a version can have.
int64_t trp_version_number(const char *text);
// Appends "1, 2, 5 to 8" for numbers that rise.
void trp_numbers_write(const int64_t *numbers, size_t count, trp_buffer *out);

// ---- repository_folder.c

typedef enum trp_access {
    TRP_TO_READ,
    TRP_TO_CHANGE, // Refused where others could change it, too.
    TRP_TO_ADD,    // And made if need be.
} trp_access;
// The folder of the repository that is meant. TROUPE_NOT_FOUND, TROUPE_INVALID.
troupe_status trp_repository_root(const char *option, trp_access access, trp_path *root);
// The same of what a program gives.
troupe_status trp_repository_of(const troupe_repository_options *how, trp_access access,
                                trp_path *root);

// Names and numbers, sorted, of an arena.
typedef struct trp_names {
    const char **items;
    size_t count;
} trp_names;
typedef struct trp_numbers {
    int64_t *whole; // Those with a manifest.
    size_t whole_count;
    int64_t *unfinished;
    size_t unfinished_count;
    int64_t highest; // Of all.
} trp_numbers;

// Whether there is a folder of the key, which need have no version. TROUPE_IO: something else.
troupe_status trp_key_folder(const char *root, const char *key, bool *there, trp_path *folder);
troupe_status trp_key_numbers(const char *folder, trp_arena *arena, trp_numbers *numbers);
troupe_status trp_key_aliases(const char *folder, trp_arena *arena, trp_names *aliases);
// The number that an alias names. TROUPE_NOT_FOUND, without a text; TROUPE_CORRUPT.
troupe_status trp_alias_read(const char *folder, const char *alias, int64_t *number);
// Keys that have a version.
troupe_status trp_repository_list_keys(const char *root, trp_arena *arena, trp_names *keys);
// All folders that may be keys'.
troupe_status trp_repository_list_folders(const char *root, trp_arena *arena, trp_names *keys);

// A version that is there.
typedef struct trp_version {
    char key[TRP_NAME_SIZE];
    int64_t number;
    trp_path folder;
} trp_version;
// The folder of its key.
troupe_status trp_version_key(const trp_version *version, trp_path *folder);
// Whether the folder of a version is one: no link, and with a manifest.
bool trp_version_is_whole(const char *folder);
troupe_status trp_version_path(const char *key_folder, int64_t number, trp_path *folder);
// TROUPE_NOT_FOUND lists what there is.
troupe_status trp_version_find(const char *root, const char *text, trp_version *version);
// The same in the repository that a program gives.
troupe_status trp_version_of(const troupe_repository_options *how, trp_access access,
                             const char *text, trp_version *version);
// The same of a key alone.
troupe_status trp_key_find(const char *root, const char *key, trp_path *folder);
// What a failure to read the version is, if it was deleted meanwhile.
troupe_status trp_version_failed(const trp_version *version, troupe_status status);

// ---- push.c

// Whether the version is of that model, with that state; *model NULL: it is set to the model of the
// version's name. The text of a failure names the version.
troupe_status trp_version_check(const trp_version *version, const troupe_model **model);

// ---- repository_change.c

// A version in the making. Zeroed: none.
typedef struct trp_draft {
    trp_version at;
    trp_path key_folder;
    trp_key_lock *lock;
    trp_arena arena;
} trp_draft;

// Claims the next number of the key and makes its folder, synced, in the repository that the option
// says.
troupe_status trp_draft_begin(const char *option, const char *key, trp_draft *draft);
// Syncs the folder, in which all files are, and publishes the version with that manifest.
troupe_status trp_draft_publish(trp_draft *draft, const void *manifest, size_t size);
// Lets go of the version; unless it was published, it is removed. Leaves the last error alone.
void trp_draft_end(trp_draft *draft, bool published);

// Has the alias name a version that is there; `forward`: unless it names a higher one.
troupe_status trp_alias_set(const trp_version *version, const char *alias, bool forward);

// Removes what killed pushes and deletions have left; under byte 0. *removed grows.
troupe_status trp_key_sweep(const char *folder, trp_key_lock *lock, size_t *removed);

#endif
