// options.c: see tune/space/options.h.
//
// A list of what may be drawn rather than of what may not: an option that is new is refused until
// somebody has thought about it.
#include <tune/space/options.h>

#include <string.h>
#include <troupe/train.h>
#include <tune/space/fields.h>

#define OPTION(member, T)                                                                          \
    {                                                                                              \
#member, offsetof(troupe_train_options, member), &troupe_type_##T, 0                       \
    }

static const troupe_field fields[] = {
    OPTION(ranks, int),
    OPTION(cpus_per_rank, double),
    OPTION(keep, int),
    OPTION(restarts, int),
    OPTION(collective_timeout_ms, int),
    OPTION(gpus_per_rank, double),
    OPTION(memory_per_rank_bytes, size_t),
    OPTION(coordinator_cpus, double),
    OPTION(time_limit_s, double),
    OPTION(time_limit_grace_s, double),
    OPTION(checkpoint_every, int),
    OPTION(expected_reports, int),
    OPTION(ranks_per_process, int),
    OPTION(min_ranks, int),
    OPTION(priority, int),
};
static uint64_t hash;
const troupe_type trp_space_options_type = {.abi = TROUPE_ABI,
                                            .kind = TROUPE_KIND_RECORD,
                                            .name = "troupe_train_options",
                                            .size = sizeof(troupe_train_options),
                                            .fields = fields,
                                            .field_count = sizeof fields / sizeof *fields,
                                            .hash = &hash};

bool trp_space_is_option(const troupe_param *param)
{
    return param->of != NULL && strcmp(param->of, trp_space_options_type.name) == 0;
}

troupe_status trp_space_check_option(const troupe_param *param)
{
    static const struct {
        const char *name, *why;
    } refused[] = {
        {"storage", "all trials of a sweep are stored in one place"},
        {"name", "the sweep names its trials"},
        {"key", "the sweep gives each trial its own"},
        {"env", "it is a text; what a trial needs to know belongs into its config"},
        {"from", "it is a text; a checkpoint to begin with belongs into the config"},
        {"metadata", "it is a text; what is to be kept of a trial belongs into its config"},
        {"params", "they are what is drawn"},
        {"resources_per_rank", "it is a text, and only numbers can be drawn"},
        {"keep_metric", "it is a text, and only numbers can be drawn"},
        {"keep_goal", "it goes with keep_metric, which is the same for all trials"},
        {"open", "all trials are opened alike"},
        {"force", "all trials are opened alike"},
        {"gate", "it is the scheduler's"},
        {"data", "it is a pointer; all trials have the data of the sweep"},
        {"server", "all trials of a sweep are one server's"},
        {"start_at", "the sweep decides when a trial starts"},
        {"console", "it changes only what is shown"},
        {"rank_metrics", "it changes only what is put down of a trial"},
    };
    for (size_t i = 0; i < trp_space_options_type.field_count; i++)
        if (fields[i].offset == param->offset)
            return TROUPE_OK;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(refused[i].name, param->name) == 0)
            return troupe_fail(TROUPE_INVALID, "this option of a run cannot be drawn: %s",
                               refused[i].why);
    return troupe_fail(TROUPE_INVALID, "no option of a run that can be drawn");
}
