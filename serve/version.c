// version.c: see version.h.
#include <serve/version.h>

#include <runtime/base/memory.h>
#include <stdio.h>

void trp_service_version_free(trp_service_version *version)
{
    if (!version)
        return;
    trp_free((void *)(uintptr_t)version->how.model);
    trp_free((void *)(uintptr_t)version->how.checkpoint);
    trp_free((void *)(uintptr_t)version->how.config);
    trp_free(version->replicas);
    trp_free(version);
}

trp_service_version *trp_service_version_make(const trp_service_shared *shared,
                                              const char *checkpoint, const char *name,
                                              const char *config)
{
    trp_service_version *made = (trp_service_version *)trp_alloc(sizeof *made);
    if (made) {
        made->replicas =
            (trp_service_replica *)trp_alloc(shared->replicas * sizeof *made->replicas);
        made->how = (trp_replica_how){trp_strdup(shared->model->name),
                                      checkpoint ? trp_strdup(checkpoint) : NULL,
                                      config ? trp_strdup(config) : NULL};
    }
    if (!made || !made->replicas || !made->how.model || (checkpoint && !made->how.checkpoint) ||
        (config && !made->how.config)) {
        trp_service_version_free(made);
        (void)troupe_fail(TROUPE_NO_MEMORY, "no memory for a version of service '%s'",
                          shared->route);
        return NULL;
    }
    (void)snprintf(made->stats.name, sizeof made->stats.name, "%s", name ? name : "");
    trp_inferences_begin(&made->queue);
    for (uint32_t i = 0; i < shared->replicas; i++) {
        made->replicas[i].of = made;
        trp_inferences_begin(&made->replicas[i].batch);
    }
    return made;
}
