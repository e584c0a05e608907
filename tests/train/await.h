// await.h: for loops that go on once their run has a checkpoint: a report is answered before.
#ifndef AWAIT_H
#define AWAIT_H

#include "support.h"

#include <stdio.h>
#include <string.h>
#include <troupe.h>

static bool await_is_there(void *path)
{
    return support_exists((const char *)path);
}

// Waits, in a loop, until the run has that checkpoint.
static inline troupe_status await_checkpoint(troupe_rank *me, int number)
{
    char path[4096];
    const char *folder;
    TROUPE_TRY(troupe_checkpoint_folder(me, &folder));
    snprintf(path, sizeof path, "%.*s/checkpoint_%06d/manifest.json",
             (int)(strstr(folder, "/.staging_") - folder), folder, number);
    if (!support_wait_until(await_is_there, path, SUPPORT_SOON_MS))
        return troupe_fail(TROUPE_FAILED, "%s does not come", path);
    return TROUPE_OK;
}

#endif
