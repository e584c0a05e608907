// trainer.c: the registry of trainers: filled by constructors before main, or by hand.
#include <inttypes.h>
#include <runtime/base/require.h>
#include <string.h>
#include <train/capability.h>
#include <train/job_mode.h>
#include <train/live.h>
#include <train/registry.h>
#include <train/steps.h>
#include <train/trainer.h>

enum { NAME_MAX_BYTES = 63 };

static trp_named_list trainers = TRP_NAMED_LIST_INIT;

static troupe_status check(const troupe_trainer *trainer)
{
    if (!trainer)
        return troupe_fail(TROUPE_INVALID, "no trainer was given");
    if (trainer->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION,
                           "a trainer was compiled for generation %u of the library, this is %u",
                           trainer->abi, TROUPE_ABI);
    if (!trainer->name || !*trainer->name || strlen(trainer->name) > NAME_MAX_BYTES)
        return troupe_fail(TROUPE_INVALID, "a trainer has no name of 1 to %d bytes",
                           NAME_MAX_BYTES);
    TROUPE_TRY(trp_steps_check(trainer));
    if (!trainer->config || trainer->config->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_INVALID, "trainer '%s' has no type of its config", trainer->name);
    trp_live_members live;
    TROUPE_TRY(trp_live_members_of(trainer, &live));
    return trp_capability_check(trainer);
}

static bool same(const troupe_trainer *a, const troupe_trainer *b)
{
    return a->run == b->run && (a->run != NULL || a->stages->step == b->stages->step) &&
           troupe_type_hash(a->config) == troupe_type_hash(b->config);
}

troupe_status troupe_trainer_register(const troupe_trainer *trainer)
{
    TRP_REQUIRE(trainer);
    trp_job_mode_find(); // Links it, where the library is static.
    TROUPE_TRY(check(trainer));
    const void *there;
    TROUPE_TRY(trp_named_add(&trainers, trainer->name, trainer, &there));
    if (!same((const troupe_trainer *)there, trainer))
        return troupe_fail(TROUPE_EXISTS, "another trainer has the name '%s'", trainer->name);
    return TROUPE_OK;
}

const troupe_trainer *trp_trainer_find(const char *name, uint64_t schema)
{
    const troupe_trainer *found = (const troupe_trainer *)trp_named_find(&trainers, name);
    if (!found) {
        (void)troupe_fail(TROUPE_NOT_FOUND, "trainer '%s' is not registered in this process", name);
    } else if (troupe_type_hash(found->config) != schema) {
        (void)troupe_fail(TROUPE_WRONG_TYPE,
                          "trainer '%s' has a config with schema %016" PRIx64
                          " in this process, and %016" PRIx64 " where it was submitted",
                          name, troupe_type_hash(found->config), schema);
        found = NULL;
    }
    return found;
}
