// fresh.h: for programs whose tests share a driver: a test that fails leaves its jobs behind, with
// the CPUs that they hold. After it the runtime is started anew, so that the next test is not
// blamed.
#ifndef FRESH_H
#define FRESH_H

#include "support.h"

#include <troupe.h>

static void (*fresh_start)(void); // Starts the runtime, as at first.

static bool fresh_is_free(void *unused)
{
    (void)unused;
    troupe_resources all;
    return troupe_resources_get(&all) == TROUPE_OK && all.cpus.free == all.cpus.total;
}

// A teardown of each test.
static int fresh_after(void **state)
{
    (void)state;
    if (support_wait_until(fresh_is_free, NULL, SUPPORT_SOON_MS / 2))
        return 0;
    print_message("its jobs are ended with the runtime\n");
    (void)troupe_stop();
    fresh_start();
    return 0;
}

#endif
