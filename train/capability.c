// capability.c: what a trainer can do (see train/capability.h).
#include <runtime/base/arena.h>
#include <string.h>
#include <train/capability.h>
#include <train/checkpoint.h>
#include <train/job.h>
#include <train/steps.h>

static const char separators[] = ", ";

// Whether the list has that word.
static bool names(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, separators)) {
        at += strspn(at, separators);
        if (strcspn(at, separators) == length && strncmp(at, word, length) == 0)
            return true;
    }
    return false;
}

troupe_status trp_capability_check(const troupe_trainer *trainer)
{
    const char *list = trainer->stages ? trainer->stages->allowed_options : NULL;
    for (const char *at = list; at && *at;) {
        at += strspn(at, separators);
        size_t length = strcspn(at, separators);
        if (length > 0 && !trp_option_is_known(at, length))
            return troupe_fail(TROUPE_INVALID,
                               "trainer '%s' has '%.*s' in .allowed_options: expected names of "
                               "members of troupe_train_options",
                               trainer->name, (int)length, at);
        at += length;
    }
    return TROUPE_OK;
}

bool trp_capability_saves_when_due(const troupe_trainer *trainer)
{
    return trainer->stages && trainer->stages->saves_when_due;
}

troupe_status trp_capability_options(const troupe_trainer *trainer,
                                     const troupe_train_options *given)
{
    const char *list = trainer->stages ? trainer->stages->allowed_options : NULL;
    size_t row = 0;
    for (const char *option; list && (option = trp_option_given(given, &row)) != NULL;)
        if (!names(list, option))
            return troupe_fail(TROUPE_INVALID,
                               "option .%s is given, and trainer '%s' does not allow it: it allows "
                               "%s",
                               option, trainer->name, *list ? list : "none");
    if (given->checkpoint_every != 0 && !trp_capability_saves_when_due(trainer))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "option .checkpoint_every is %d, and trainer '%s' saves as it likes: "
                           "expected 0, or a trainer with .saves_when_due",
                           given->checkpoint_every, trainer->name);
    if (given->ranks_per_process > 1 && !trp_steps_are_there(trainer))
        return troupe_fail(TROUPE_UNSUPPORTED,
                           "option .ranks_per_process is %d, and trainer '%s' has a loop function: "
                           "expected 1, or a trainer with .step",
                           given->ranks_per_process, trainer->name);
    return TROUPE_OK;
}

// Whether a rank has put something there that rank 0 has not. States are compared: those of ranks
// that saved the same have the same bytes.
static bool is_sharded(const trp_manifest *manifest)
{
    const trp_manifest_file *state = NULL;
    for (size_t i = 0; i < manifest->files.count; i++) {
        const trp_manifest_file *file = &manifest->files.items[i];
        if (file->kind != TRP_FILE_STATE && file->kind != TRP_FILE_SEALED) {
            if (file->rank > 0)
                return true;
        } else if (!state) {
            state = file;
            if (file->rank > 0)
                return true;
        } else if (file->size != state->size || file->digest != state->digest ||
                   file->schema != state->schema) {
            return true;
        }
    }
    return false;
}

static bool reshards(const troupe_trainer *trainer)
{
    return trainer->stages && trainer->stages->reshards;
}

int trp_capability_only_world(const troupe_trainer *trainer, const trp_manifest *manifest)
{
    return !reshards(trainer) && is_sharded(manifest) ? manifest->world : 0;
}

troupe_status trp_capability_match(int only, const char *folder, int world)
{
    return only == 0 || only == world
               ? TROUPE_OK
               : troupe_fail(TROUPE_INVALID,
                             "option .ranks is %d, and each of the %d ranks of %s saved a part of "
                             "its own: expected %d, or a trainer with .reshards",
                             world, only, folder, only);
}

troupe_status trp_capability_world(const troupe_trainer *trainer, const char *folder, int world)
{
    trp_arena arena = {0};
    trp_manifest manifest;
    if (reshards(trainer))
        return TROUPE_OK;
    troupe_status status = trp_checkpoint_read(folder, &arena, &manifest);
    if (status == TROUPE_OK)
        status = trp_capability_match(trp_capability_only_world(trainer, &manifest), folder, world);
    trp_arena_clear(&arena);
    return status;
}
