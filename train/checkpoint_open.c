// checkpoint_open.c: checkpoints outside a loop: what they say of themselves, and what is in them.
#include <runtime/base/arena.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <string.h>
#include <train/checkpoint.h>
#include <troupe/train.h>

struct troupe_checkpoint {
    trp_arena arena; // Of all that follows.
    trp_path folder;
    troupe_checkpoint_info info;
};

static troupe_checkpoint_kind kind_of(int kind)
{
    switch (kind) {
    case TRP_FILE_PLAIN:
        return TROUPE_CHECKPOINT_FILE;
    case TRP_FILE_STATE:
    case TRP_FILE_SEALED:
        return TROUPE_CHECKPOINT_STATE;
    case TRP_FILE_LINK:
        return TROUPE_CHECKPOINT_LINK;
    case TRP_FILE_FOLDER:
        return TROUPE_CHECKPOINT_FOLDER;
    default:
        return TROUPE_CHECKPOINT_OTHER;
    }
}

static troupe_status describe(troupe_checkpoint *checkpoint, const trp_manifest *manifest)
{
    size_t file_count = manifest->files.count, metric_count = manifest->metrics.count;
    troupe_checkpoint_file *files = (troupe_checkpoint_file *)trp_arena_alloc(
        &checkpoint->arena, (file_count + 1) * sizeof(*files));
    troupe_metric *metrics =
        (troupe_metric *)trp_arena_alloc(&checkpoint->arena, (metric_count + 1) * sizeof(*metrics));
    if (!files || !metrics)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for what is in %s",
                           checkpoint->folder.text);
    for (size_t i = 0; i < file_count; i++) {
        const trp_manifest_file *file = &manifest->files.items[i];
        files[i] = (troupe_checkpoint_file){.path = file->path,
                                            .kind = kind_of(file->kind),
                                            .rank = file->rank,
                                            .size = file->size,
                                            .xxh64 = file->digest,
                                            .target = file->target};
    }
    for (size_t i = 0; i < metric_count; i++)
        metrics[i] =
            (troupe_metric){manifest->metrics.items[i].name, manifest->metrics.items[i].value};
    checkpoint->info = (troupe_checkpoint_info){
        .path = checkpoint->folder.text,
        .number = manifest->id,
        .report = manifest->report,
        .world = manifest->world,
        .created = manifest->created,
        .trainer = manifest->trainer,
        .config = manifest->config,
        .metadata = manifest->metadata,
        .metrics = metrics,
        .metric_count = metric_count,
        .files = files,
        .file_count = file_count,
    };
    return TROUPE_OK;
}

troupe_status troupe_checkpoint_open(const char *path, troupe_checkpoint **checkpoint)
{
    TRP_REQUIRE(path);
    TRP_REQUIRE(checkpoint);
    trp_manifest manifest;
    troupe_checkpoint *opened = (troupe_checkpoint *)trp_alloc(sizeof(*opened));
    if (!opened)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the checkpoint %s", path);
    troupe_status status = trp_checkpoint_find(path, &opened->folder);
    if (status == TROUPE_OK)
        status = trp_checkpoint_read(opened->folder.text, &opened->arena, &manifest);
    if (status == TROUPE_OK)
        status = describe(opened, &manifest);
    if (status == TROUPE_OK)
        *checkpoint = opened;
    else
        troupe_checkpoint_close(&opened);
    return status;
}

void troupe_checkpoint_close(troupe_checkpoint **checkpoint)
{
    if (!checkpoint || !*checkpoint)
        return;
    trp_arena_clear(&(*checkpoint)->arena);
    trp_free(*checkpoint);
    *checkpoint = NULL;
}

void(troupe_checkpoint_info_get)(const troupe_checkpoint *checkpoint, troupe_checkpoint_info *info,
                                 size_t size)
{
    if (TRP_IS_NULL(info))
        return;
    memset(info, 0, size);
    if (TRP_IS_NULL(checkpoint))
        return;
    trp_output_give(info, size, &checkpoint->info, sizeof(checkpoint->info));
}

troupe_status troupe_checkpoint_verify(const troupe_checkpoint *checkpoint)
{
    TRP_REQUIRE(checkpoint);
    trp_arena arena = {0};
    trp_manifest manifest;
    troupe_status status = trp_checkpoint_verify(checkpoint->folder.text, &arena, &manifest);
    trp_arena_clear(&arena);
    return status;
}

troupe_status troupe_checkpoint_load_as(const troupe_type *type, const char *folder, int rank,
                                        void *value)
{
    TRP_REQUIRE(type);
    TRP_REQUIRE(folder);
    TRP_REQUIRE(value);
    trp_path path;
    TROUPE_TRY(trp_checkpoint_find(folder, &path));
    return trp_checkpoint_load(path.text, rank, TRP_STATE_EXACTLY, type, trp_arena_current(),
                               value);
}
