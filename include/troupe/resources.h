// resources.h: the resources that actors, tasks and jobs hold, and what waits for them.
//
// troupe_start says how many CPUs and GPUs, how much memory and what else there is (`.cpus`,
// `.gpus`, `.memory_bytes`, `.resources`); troupe_spawn says what an actor holds of that as long as
// it lives, troupe_run_from what a task holds while it runs. This is admission, not enforcement: an
// actor that holds one CPU may use more.
#ifndef TROUPE_RESOURCES_H
#define TROUPE_RESOURCES_H

#include <troupe/runtime.h>

TROUPE_BEGIN_C

enum { TROUPE_RESOURCES_NAMED_MAX = 16, TROUPE_RESOURCES_WAITS_MAX = 32 };

typedef struct troupe_resource {
    char name[32];
    double total, free;
} troupe_resource;

// A spawn, a task or a job that waits.
typedef struct troupe_resource_wait {
    char actor[96]; // Its class and name; for a task, the function's name.
    char why[160];  // "2 CPUs (0.5 of 4 are free)"
    int pid;        // The process that asked.
    double waited_s;
} troupe_resource_wait;

typedef struct troupe_resources {
    troupe_resource cpus, gpus, memory_bytes;
    troupe_resource named[TROUPE_RESOURCES_NAMED_MAX];
    size_t named_count;
    troupe_resource_wait waits[TROUPE_RESOURCES_WAITS_MAX]; // The oldest first.
    size_t waiting; // All that wait, also those beyond `waits`.
} troupe_resources;

// Reads the present state, from any process of the node. Errors: TROUPE_NOT_STARTED,
// TROUPE_RUNTIME_LOST, TROUPE_NO_MEMORY.
TROUPE_API TROUPE_MUST_USE troupe_status troupe_resources_get(troupe_resources *all, size_t size);
#define troupe_resources_get(all) troupe_resources_get((all), sizeof(troupe_resources))

TROUPE_END_C

#endif
