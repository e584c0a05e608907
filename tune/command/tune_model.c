// tune_model.c: sweeps over a version of the repository of models, from a file of JSON.
#include <runtime/base/error.h>
#include <runtime/base/require.h>
#include <troupe/tune_program.h>
#include <tune/command/asked.h>
#include <tune/sweep/stored_tune.h>
#include <tune/sweep/sweep.h>

troupe_status troupe_tune_model_with(const char *json, const char *ref, troupe_sweep **sweep,
                                     const troupe_tune_options *how)
{
    trp_arena arena = {0}; // The sweep's, once it has begun.
    TRP_REQUIRE(sweep);
    *sweep = NULL;
    TRP_REQUIRE(json);
    TRP_REQUIRE(ref);
    trp_sweep_asked *asked = trp_arena_alloc(&arena, sizeof *asked);
    troupe_status status =
        asked == NULL ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep over %s", ref)
                      : trp_sweep_asked_read("troupe_tune_model", json, true, how, &arena, asked);
    if (status != TROUPE_OK) {
        troupe_error failure = *troupe_last_error();
        trp_sweep_consume(how);
        if (asked != NULL)
            trp_sweep_file_close(&asked->file);
        trp_arena_clear(&arena);
        return trp_error_set(&failure);
    }
    trp_sweep_asked_choose(asked);
    troupe_space *space = asked->file.space;
    asked->file.space = NULL;
    trp_sweep_file_close(&asked->file); // What the caller's stand for.
    return trp_stored_tune_begin(ref, NULL, space, sweep, &asked->how, &arena);
}
