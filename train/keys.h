// keys.h: the jobs of this driver by their keys, and how many handles are open on each.
//
// A key is known from the submission until the last handle on its job is closed.
#ifndef TRP_KEYS_H
#define TRP_KEYS_H

#include <train/handle.h>

// Around a submission with a key: one at a time.
void trp_keys_begin_submission(void);
void trp_keys_end_submission(void);
// Another handle on the job that has the spec's key. TROUPE_NOT_FOUND: none has; TROUPE_EXISTS: it
// is of another spec, and the text names the first member that differs.
troupe_status trp_keys_find(const trp_job_spec *spec, const troupe_trainer *trainer,
                            troupe_job **handle);
// Makes the key of a job known.
void trp_keys_add(troupe_job *handle);
// One handle is closed. True: it was the last one, and the key is not known any more.
bool trp_keys_close(troupe_job *handle);

#endif
