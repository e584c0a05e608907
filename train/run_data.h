// run_data.h: which data a run had, and has now, by what run.json says of it.
#ifndef TRP_RUN_DATA_H
#define TRP_RUN_DATA_H

#include <train/data.h>
#include <train/job.h>

// Whether a run that goes on, whose run.json has `found`, is given data if it had some; its keys
// are in the opening from then on. TROUPE_INVALID: it is not, or had none.
troupe_status trp_run_check_data(trp_job *job, const trp_run_data *found);
// What run.json is to say of the job's data, beside the keys in the opening.
typedef struct trp_run_data_text {
    char schema[20];
} trp_run_data_text;
trp_run_data trp_run_data_of(const trp_job *job, trp_run_data_text *text);
// The sets of this attempt were named: they have to be those that the run had, and their keys are
// put down where it had none. TROUPE_INVALID: they are others.
troupe_status trp_run_put_data(trp_job *job, const trp_data_sets *sets);

#endif
