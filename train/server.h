// server.h: the job server: an actor in the driver that queues jobs and admits them as CPUs get
// free.
//
// Made at the first submission after each start of the runtime. A job travels to it as the address
// of its record, which is why it and the coordinators live where jobs are submitted.
#ifndef TRP_SERVER_H
#define TRP_SERVER_H

#include <train/job.h>

// Queues a job, which the server holds until it is done with it.
troupe_status trp_server_submit(trp_job *job);
// Something that the server looks at has changed: what is wished of a job, or whether it rests.
void trp_server_look(trp_job *job);
// A coordinator is done: all that the job used is free again.
void trp_server_job_done(trp_job *job);

#endif
