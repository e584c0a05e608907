// fuzz_spawn.c: any bytes, read as a request for an actor; then its concurrency, as the class there
// would understand it.
#include <actors/async/concurrency_group.h>
#include <actors/spawn/spawn.h>
#include <actors/spawn/spawn_frame.h>
#include <runtime/shm/segment.h>
#include <stdlib.h>
#include <string.h>

typedef struct guest {
    int calls;
} guest;

static troupe_status guest_read(guest *self, const troupe_none *none, int *out)
{
    (void)none;
    *out = self->calls;
    return TROUPE_OK;
}

TROUPE_ACTOR(guest, (guest_read, troupe_none, int, .group = "io"));

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trp_reader in = trp_reader_of(data, size);
    trp_spawn_request wanted;
    troupe_status status = trp_spawn_read(&in, &wanted);
    if (status != TROUPE_OK) {
        require(status == TROUPE_MALFORMED && troupe_last_error()->text[0] != '\0');
        return 0;
    }
    require(in.at > data && in.at <= data + size && wanted.classed);
    require(strlen(wanted.class_name) <= TRP_SPAWN_TEXT && strlen(wanted.name) <= TRP_SPAWN_TEXT);
    require(!wanted.policy.given || wanted.policy.origin.process < TRP_PROCESSES_MAX);
    if (wanted.policy.given)
        require(wanted.policy.image.size <= size);
    if (wanted.has_lanes)
        trp_lanes_free(trp_lanes_make(trp_class_of(&troupe_class_guest), wanted.lanes));
    return 0;
}
