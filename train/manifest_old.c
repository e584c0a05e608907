// manifest_old.c: the table of an old manifest, and what a manifest of today has for it.
#include <runtime/host/file.h>
#include <stdio.h>
#include <train/manifest_old.h>
#include <train/sealed.h>

// The names of the fields are part of the format.
TROUPE_STRUCT(old_file, (int, rank), (uint64_t, schema), (uint64_t, size), (uint64_t, checksum));
TROUPE_STRUCT(old_manifest, (int64_t, id), (int, report), (int, world),
              (troupe_array_trp_metric, metrics), (troupe_array_old_file, files));

static troupe_status convert(const old_manifest *old, trp_arena *arena, trp_manifest *manifest)
{
    enum { NAME = 32 };
    trp_manifest_file *files =
        (trp_manifest_file *)trp_arena_alloc(arena, (old->files.count + 1) * sizeof(*files));
    for (size_t i = 0; files && i < old->files.count; i++) {
        const old_file *file = &old->files.items[i];
        char *name = (char *)trp_arena_alloc(arena, NAME);
        files[i] = (trp_manifest_file){.path = name,
                                       .rank = file->rank,
                                       .kind = TRP_FILE_SEALED,
                                       .size = file->size,
                                       .digest = file->checksum,
                                       .schema = file->schema};
        if (name)
            snprintf(name, NAME, "rank_%05d.state", file->rank);
        else
            files = NULL;
    }
    if (!files)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a manifest");
    *manifest = (trp_manifest){.id = old->id,
                               .report = old->report,
                               .world = old->world,
                               .created = "",
                               .trainer = "",
                               .metrics = old->metrics,
                               .files = {files, old->files.count}};
    return TROUPE_OK;
}

troupe_status trp_manifest_old_read(const char *folder, trp_arena *arena, trp_manifest *manifest)
{
    trp_path path;
    old_manifest old;
    TROUPE_TRY(trp_path_make(&path, "%s/" TRP_MANIFEST_OLD_NAME, folder));
    TROUPE_TRY(trp_sealed_read(path.text, &troupe_type_old_manifest, NULL, arena, &old));
    return convert(&old, arena, manifest);
}
