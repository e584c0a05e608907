// gang.h: what the ranks of a job hold together of their node: asked for at once, given all or not
// at all.
#ifndef TRP_GANG_H
#define TRP_GANG_H

#include <runtime/node/resource_ledger.h>
#include <troupe/train.h>

// Bytes of the text for all named resources.
enum { TRP_GANG_TEXT = (TRP_RESOURCES_MAX - TRP_CUSTOM) * (TRP_RESOURCE_NAME_MAX + 24) };

typedef struct trp_gang {
    // Of the whole job, in ten-thousandths and bytes.
    int64_t cpus, gpus, memory_bytes;
    int64_t gpus_each;             // Of one rank.
    char resources[TRP_GANG_TEXT]; // "license=2.0000,...", likewise of the whole job.
} trp_gang;

// Adds up what the options ask for on a node that has `there`. TROUPE_INVALID: an option's amount
// is none that can be reserved; TROUPE_TOO_LARGE: more than the node has in all. Either names the
// option, what was asked for and what is there.
troupe_status trp_gang_of(const troupe_train_options *options, const trp_resources *there,
                          trp_gang *gang);
// That so many ranks with such parts of GPUs can have them. TROUPE_INVALID.
troupe_status trp_gang_check_parts(const troupe_train_options *options);

#endif
