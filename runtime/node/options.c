// options.c: the options of troupe_start: ranges, and defaults from what this process may use.
#include <runtime/node/options.h>

#include <limits.h>
#include <math.h>
#include <runtime/base/options_take.h>
#include <runtime/base/range.h>
#include <runtime/host/worker_env.h>
#include <runtime/link/resolve.h>
#include <runtime/node/admission.h>
#include <runtime/node/limits.h>
#include <runtime/shm/process_table.h>
#include <runtime/shm/segment.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STOP_TIMEOUT_DEFAULT_MS = 1000,
    NODE_TIMEOUT_DEFAULT_MS = 10000,
    REQUEST_TIMEOUT_DEFAULT_MS = 10000,
    STORE_WAIT_DEFAULT_MS = 2000,
    SPILL_DIR_MAX = 400, // What is left of a path is the names below it.
};

#define MIB ((int64_t)1 << 20)
#define TIB ((int64_t)1 << 40)

static const trp_range ranges[] = {
    TRP_RANGE_OR(troupe_options, workers, 1, 1024, TROUPE_NONE),
    TRP_RANGE(troupe_options, cpus, 0, 65536),
    TRP_RANGE(troupe_options, threads, 1, 256),
    TRP_RANGE(troupe_options, store_bytes_max, MIB, 16 * TIB),
    TRP_RANGE(troupe_options, message_bytes_max, MIB / 16, 16 * TIB),
    TRP_RANGE(troupe_options, node_message_bytes_max, MIB / 16, 4095 * MIB),
    TRP_RANGE(troupe_options, launch, TROUPE_LAUNCH_AUTO, TROUPE_LAUNCH_EXEC),
    TRP_RANGE(troupe_options, stop_timeout_ms, 0, INT_MAX),
    TRP_RANGE(troupe_options, worker_output, TROUPE_OUTPUT_NAMED, TROUPE_OUTPUT_LOGGED),
    TRP_RANGE_OR(troupe_options, gpus, 1, TRP_GPUS_MAX, TROUPE_NONE),
    TRP_RANGE(troupe_options, memory_bytes, 1, 1024 * TIB),
    TRP_RANGE(troupe_options, transport, TROUPE_TRANSPORT_DEFAULT, TROUPE_TRANSPORT_TCP),
    TRP_RANGE(troupe_options, node_timeout_ms, 200, 3600000),
    TRP_RANGE(troupe_options, request_timeout_ms, 50, 3600000),
    TRP_RANGE_OR(troupe_options, spill_bytes_max, 1, INT64_MAX, TROUPE_NONE),
    TRP_RANGE_OR(troupe_options, store_wait_ms, 1, INT_MAX, TROUPE_NONE),
};

static troupe_status check_listen(const troupe_options *how)
{
    const char *port = how->listen != NULL ? strrchr(how->listen, ':') : "";
    if (how->listen == NULL)
        return TROUPE_OK;
    if (port == NULL || port[1] == '\0' || strlen(how->listen) >= TRP_NODE_ADDRESS_MAX)
        return troupe_fail(
            TROUPE_INVALID,
            ".listen of troupe_start is '%.64s': expected \"host:port\" of at most %d "
            "characters",
            how->listen, TRP_NODE_ADDRESS_MAX - 1);
    if (how->keys == NULL && getenv("TROUPE_KEYS") == NULL)
        return troupe_fail(TROUPE_INVALID,
                           ".listen of troupe_start needs .keys, or the variable TROUPE_KEYS: a "
                           "file made by troupe_keys_make, which keeps strangers out");
    return TROUPE_OK;
}

troupe_status trp_options_listen(troupe_options *full)
{
    static char numeric[TRP_NODE_ADDRESS_MAX]; // The caller's text may not live long.
    if (full->listen == NULL)
        return TROUPE_OK;
    TROUPE_TRY(trp_address_resolve(".listen of troupe_start", full->listen, true,
                                   full->node_timeout_ms, numeric));
    full->listen = numeric;
    return TROUPE_OK;
}

static troupe_status check_spill(const troupe_options *how)
{
    bool named = how->spill_dir != NULL && how->spill_dir[0] != '\0';
    const char *given = named ? ".spill_dir of troupe_start" : "the variable TROUPE_SPILL_DIR";
    const char *folder = named ? how->spill_dir : getenv("TROUPE_SPILL_DIR");
    if (how->spill_bytes_max == TROUPE_NONE || folder == NULL || folder[0] == '\0')
        return TROUPE_OK;
    if (folder[0] != '/' || strlen(folder) > SPILL_DIR_MAX || access(folder, W_OK | X_OK) != 0)
        return troupe_fail(TROUPE_INVALID,
                           "%s is '%.100s': expected the whole path, of at most %d bytes, of a "
                           "folder in which this process may make files",
                           given, folder, SPILL_DIR_MAX);
    return TROUPE_OK;
}

static troupe_status check_library(const troupe_options *how)
{
    if (how->worker_library == NULL)
        return TROUPE_OK;
    if (how->worker_init != NULL)
        return troupe_fail(TROUPE_INVALID,
                           ".worker_init of troupe_start cannot be run by the workers of "
                           ".worker_library: let a constructor of the library do it");
    if (how->launch == TROUPE_LAUNCH_FORK)
        return troupe_fail(TROUPE_INVALID,
                           ".launch of troupe_start is TROUPE_LAUNCH_FORK: the workers of "
                           ".worker_library are executed");
    return TROUPE_OK;
}

static const char *choose_spill_dir(const char *given)
{
    if (given != NULL && given[0] != '\0')
        return given;
    const char *named = getenv("TROUPE_SPILL_DIR"), *temporary = getenv("TMPDIR");
    if (named != NULL && named[0] != '\0')
        return named;
    return temporary != NULL && temporary[0] == '/' && strlen(temporary) <= SPILL_DIR_MAX &&
                   access(temporary, W_OK | X_OK) == 0
               ? temporary
               : "/var/tmp";
}

static troupe_status check(const troupe_options *how)
{
    TROUPE_TRY(trp_ranges_check("troupe_start", ranges, sizeof ranges / sizeof *ranges, how));
    TROUPE_TRY(
        trp_worker_env_check(".worker_env of troupe_start", how->worker_env, how->worker_folder));
    TROUPE_TRY(check_listen(how));
    TROUPE_TRY(check_spill(how));
    TROUPE_TRY(check_library(how));
    return TROUPE_OK;
}

static troupe_status choose_transport(troupe_transport *transport)
{
    static const char *const names[] = {[TROUPE_TRANSPORT_RING] = "ring",
                                        [TROUPE_TRANSPORT_IPC] = "ipc",
                                        [TROUPE_TRANSPORT_TCP] = "tcp"};
    const char *wanted = getenv("TROUPE_TRANSPORT");
    if (*transport != TROUPE_TRANSPORT_DEFAULT)
        return TROUPE_OK;
    *transport = TROUPE_TRANSPORT_RING;
    if (wanted == NULL || wanted[0] == '\0')
        return TROUPE_OK;
    for (int i = TROUPE_TRANSPORT_RING; i <= TROUPE_TRANSPORT_TCP; i++)
        if (strcmp(wanted, names[i]) == 0) {
            *transport = (troupe_transport)i;
            return TROUPE_OK;
        }
    return troupe_fail(TROUPE_INVALID,
                       "the variable TROUPE_TRANSPORT is '%.40s': expected ring, ipc or tcp",
                       wanted);
}

// What follows from what the process may use of its machine.
static void fill_from_limits(troupe_options *how, const trp_limits *known)
{
    // Dozens of files are read for them.
    if (how->workers != 0 && how->cpus != 0 && how->threads != 0 && how->store_bytes_max != 0 &&
        how->gpus != 0 && how->memory_bytes != 0)
        return;
    trp_limits limits = known != NULL ? *known : trp_limits_read("");
    int cpus = (int)fmax(1, ceil(limits.cpus));
    if (how->workers == 0)
        how->workers = cpus;
    if (how->cpus == 0)
        how->cpus = cpus;
    if (how->threads == 0)
        how->threads = cpus;
    if (how->store_bytes_max == 0)
        how->store_bytes_max = (size_t)(limits.memory_bytes * 0.3);
    if (how->gpus == 0)
        how->gpus = limits.gpus < TRP_GPUS_MAX ? limits.gpus : TRP_GPUS_MAX;
    if (how->memory_bytes == 0)
        how->memory_bytes = (size_t)(limits.memory_bytes * 0.7);
}

troupe_status trp_options_complete(const troupe_options *given, const trp_limits *limits,
                                   troupe_options *full)
{
    troupe_options how;
    TROUPE_TRY(TRP_OPTIONS_TAKE("troupe_start", how, given));
    TROUPE_TRY(check(&how));
    TROUPE_TRY(choose_transport(&how.transport));
    if (how.worker_library != NULL)
        how.launch = TROUPE_LAUNCH_EXEC;
    fill_from_limits(&how, limits);
    trp_resources books;
    TROUPE_TRY(trp_admission_books(&how, &books));
    if (how.message_bytes_max == 0)
        how.message_bytes_max = (size_t)1 << 30;
    if (how.node_message_bytes_max == 0)
        how.node_message_bytes_max = (size_t)64 << 20;
    if (how.node_message_bytes_max > how.message_bytes_max)
        how.node_message_bytes_max = how.message_bytes_max;
    if (how.stop_timeout_ms == 0)
        how.stop_timeout_ms = STOP_TIMEOUT_DEFAULT_MS;
    const char *runtime_folder = getenv("XDG_RUNTIME_DIR");
    if (how.directory == NULL || how.directory[0] == '\0')
        how.directory = runtime_folder != NULL && runtime_folder[0] == '/' &&
                                strlen(runtime_folder) <= TRP_DIRECTORY_MAX &&
                                access(runtime_folder, W_OK | X_OK) == 0
                            ? runtime_folder
                            : "/tmp";
    how.spill_dir = choose_spill_dir(how.spill_dir);
    if (how.store_wait_ms == 0)
        how.store_wait_ms = STORE_WAIT_DEFAULT_MS;
    const char *measure = getenv("TROUPE_MEASURE");
    how.measure = how.measure || (measure != NULL && strcmp(measure, "1") == 0);
    if (how.keys == NULL)
        how.keys = getenv("TROUPE_KEYS");
    if (how.request_timeout_ms == 0)
        how.request_timeout_ms = REQUEST_TIMEOUT_DEFAULT_MS;
    if (how.node_timeout_ms == 0)
        how.node_timeout_ms = NODE_TIMEOUT_DEFAULT_MS;
    if (how.trace == NULL)
        how.trace = getenv("TROUPE_TRACE");
    *full = how;
    return TROUPE_OK;
}
