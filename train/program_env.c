// program_env.c: see program_env.h.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <runtime/base/buffer.h>
#include <runtime/base/error.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <train/program_env.h>
#include <unistd.h>

enum {
    JSON_MAX = 100000, // A variable has 128 KiB at most.
    GPU_ID_MAX = 64,   // "GPU-" and a UUID.
    // Below the ports that systems give to outgoing connections (32768 and up).
    PORT_FIRST = 20000,
    PORT_COUNT = 12000,
    PORT_TRIES = 100,
};

// ---- the program

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode) && access(path, X_OK) == 0;
}

static bool is_program(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

// In one of the folders of PATH: the config's, if it gives one.
static troupe_status find_in_path(const troupe_process_config *config, trp_path *path)
{
    const char *name = config->arguments.items[0], *folders = getenv("PATH");
    for (size_t i = 0; i < config->environment.count; i++)
        if (strncmp(config->environment.items[i], "PATH=", 5) == 0)
            folders = config->environment.items[i] + 5;
    if (!folders)
        folders = "/usr/bin:/bin";
    for (const char *at = folders; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        size_t size = strcspn(at, ":");
        if (size > 0 && size < PATH_MAX &&
            trp_path_make(path, "%.*s/%s", (int)size, at, name) == TROUPE_OK &&
            is_program(path->text))
            return TROUPE_OK;
    }
    return troupe_fail(TROUPE_NOT_FOUND, "there is no program '%.200s' in PATH", name);
}

troupe_status trp_program_find(const troupe_process_config *config, trp_path *path)
{
    const char *name = config->arguments.items[0];
    if (!strchr(name, '/'))
        return find_in_path(config, path);
    trp_path whole;
    if (config->folder && name[0] != '/')
        TROUPE_TRY(trp_path_make(&whole, "%s/%s", config->folder, name));
    else
        TROUPE_TRY(trp_path_make(&whole, "%s", name));
    if (!is_program(whole.text))
        return troupe_fail(TROUPE_NOT_FOUND, "%.300s is no program that may be executed",
                           whole.text);
    return trp_path_make(path, "%s", name);
}

// ---- the config

static troupe_status check_json(const char *json)
{
    trp_json value;
    size_t size = json ? strlen(json) : 0;
    if (!json)
        return TROUPE_OK;
    if (size > JSON_MAX)
        return troupe_fail(TROUPE_INVALID,
                           ".json of troupe_process has %zu bytes, expected at most %d", size,
                           JSON_MAX);
    if (trp_json_parse(json, size, &value) == TROUPE_OK)
        return TROUPE_OK;
    troupe_error said = *troupe_last_error();
    return troupe_fail(TROUPE_INVALID, ".json of troupe_process: %s", said.text);
}

static troupe_status check_texts(const troupe_process_config *config)
{
    if (config->arguments.count == 0)
        return troupe_fail(TROUPE_INVALID,
                           ".arguments of troupe_process are empty, expected a program");
    for (size_t i = 0; i < config->arguments.count; i++)
        if (!config->arguments.items[i])
            return troupe_fail(TROUPE_INVALID, ".arguments of troupe_process: argument %zu is NULL",
                               i);
    if (!*config->arguments.items[0])
        return troupe_fail(TROUPE_INVALID, ".arguments of troupe_process: the program is ''");
    for (size_t i = 0; i < config->environment.count; i++) {
        const char *line = config->environment.items[i];
        if (!line || !strchr(line, '=') || line[0] == '=')
            return troupe_fail(TROUPE_INVALID,
                               ".environment of troupe_process, '%.64s': expected KEY=VALUE",
                               line ? line : "NULL");
    }
    return TROUPE_OK;
}

troupe_status trp_program_check(const troupe_process_config *config)
{
    trp_path path;
    TROUPE_TRY(check_texts(config));
    TROUPE_TRY(check_json(config->json));
    if (!(config->grace_s >= 0) || isinf(config->grace_s))
        return troupe_fail(TROUPE_INVALID,
                           ".grace_s of troupe_process is %g, must be 0 or more seconds",
                           config->grace_s);
    if (config->folder && !is_folder(config->folder))
        return troupe_fail(TROUPE_NOT_FOUND, "the working folder %.300s cannot be entered",
                           config->folder);
    return trp_program_find(config, &path);
}

// ---- what ranks tell each other

// A port that nobody listens at. That it stays so cannot be had: the program is to bind it.
static int free_port(void)
{
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    for (int i = 0; i < PORT_TRIES; i++) {
        int port = PORT_FIRST + (int)((random + (uint32_t)i) % PORT_COUNT);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_ANY),
                                 .sin_port = htons((uint16_t)port)};
        bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
        if (fd >= 0)
            (void)close(fd);
        if (bound)
            return port;
    }
    return 0;
}

static troupe_status agree_on_port(troupe_rank *me, int *port)
{
    *port = me->rank == 0 ? free_port() : 0;
    TROUPE_TRY(troupe_broadcast(me, port, sizeof *port, 0));
    return *port > 0
               ? TROUPE_OK
               : troupe_fail(TROUPE_IO, "no port from %d on is free for MASTER_PORT", PORT_FIRST);
}

bool trp_program_gpus(const char *rows, int count, size_t width, char *all, size_t capacity)
{
    size_t used = 0;
    all[0] = '\0';
    for (int i = 0; i < count; i++) {
        const char *row = rows + (size_t)i * width;
        if (!*row || strchr(row, ','))
            return false;
        for (int k = 0; k < i; k++)
            if (strcmp(rows + (size_t)k * width, row) == 0)
                return false;
        int size = snprintf(all + used, capacity - used, "%s%s", i > 0 ? "," : "", row);
        if (size < 0 || (size_t)size >= capacity - used)
            return false;
        used += (size_t)size;
    }
    return count > 0;
}

// Sets *gpus to those of all ranks of the machine, where LOCAL_RANK is then the number of this
// rank's own; NULL: it sees what it has.
static troupe_status share_gpus(troupe_rank *me, char **gpus)
{
    const char *own = getenv("CUDA_VISIBLE_DEVICES");
    int64_t one = own && *own && !strchr(own, ',') && strlen(own) < GPU_ID_MAX;
    *gpus = NULL;
    TROUPE_TRY(troupe_allreduce(me, &one, 1, TROUPE_MIN));
    if (!one || me->local_world != me->world)
        return TROUPE_OK;
    size_t capacity = (size_t)me->world * (GPU_ID_MAX + 1);
    char *rows = (char *)troupe_arena_alloc((size_t)me->world * GPU_ID_MAX);
    char *all = (char *)troupe_arena_alloc(capacity);
    if (!rows || !all)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the GPUs of %d ranks", me->world);
    snprintf(rows + (size_t)me->rank * GPU_ID_MAX, GPU_ID_MAX, "%s", own ? own : "");
    for (int rank = 0; rank < me->world; rank++)
        TROUPE_TRY(troupe_broadcast(me, rows + (size_t)rank * GPU_ID_MAX, GPU_ID_MAX, rank));
    if (trp_program_gpus(rows, me->world, GPU_ID_MAX, all, capacity))
        *gpus = all;
    return TROUPE_OK;
}

// ---- the environment

typedef struct variables {
    char **rows;
    size_t count, room;
    bool failed;
} variables;

static void put(variables *all, const char *line)
{
    size_t key = strcspn(line, "="), i = 0;
    while (i < all->count && (strncmp(all->rows[i], line, key) != 0 || all->rows[i][key] != '='))
        i++;
    char *copy = i < all->room ? troupe_arena_text(line) : NULL;
    if (!copy) {
        all->failed = true;
        return;
    }
    all->rows[i] = copy;
    all->count += i == all->count;
}

static void set_text(variables *all, const char *key, const char *text)
{
    trp_buffer line = {0};
    trp_buffer_printf(&line, "%s=%s", key, text);
    trp_buffer_append(&line, "", 1);
    if (line.failed)
        all->failed = true;
    else
        put(all, (const char *)line.data);
    trp_buffer_free(&line);
}

static void set_number(variables *all, const char *key, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    set_text(all, key, text);
}

static void put_place(variables *all, const troupe_rank *me, int port)
{
    set_number(all, "RANK", me->rank);
    set_number(all, "WORLD_SIZE", me->world);
    set_number(all, "LOCAL_RANK", me->local_rank);
    set_number(all, "LOCAL_WORLD_SIZE", me->local_world);
    set_number(all, "GROUP_RANK", me->node_rank);
    set_number(all, "GROUP_WORLD_SIZE", me->nodes);
    set_number(all, "ROLE_RANK", me->rank);
    set_number(all, "ROLE_WORLD_SIZE", me->world);
    set_text(all, "ROLE_NAME", "default");
    set_text(all, "MASTER_ADDR", "127.0.0.1");
    set_number(all, "MASTER_PORT", port);
}

static void put_facts(variables *all, const troupe_rank *me, const trp_program_facts *facts)
{
    const char *name = strrchr(facts->run, '/');
    set_number(all, "TORCHELASTIC_RESTART_COUNT", me->attempt);
    set_number(all, "TORCHELASTIC_MAX_RESTARTS", facts->restarts < 0 ? INT_MAX : facts->restarts);
    set_text(all, "TORCHELASTIC_RUN_ID", name ? name + 1 : facts->run);
    set_text(all, "TROUPE_REPORT_FD", "3");
    set_number(all, "TROUPE_SAVE_DUE", facts->save_due);
    set_text(all, "TROUPE_CHECKPOINT_DIR", facts->checkpoint);
    if (facts->restored)
        set_text(all, "TROUPE_RESTORE_DIR", facts->restored);
}

// What a program in a program must not take for its own.
static bool is_inherited(const char *line)
{
    static const char *const ours[] = {"TROUPE_RESTORE_DIR=", "TROUPE_CONFIG=", "TROUPE_WORKER="};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strncmp(line, ours[i], strlen(ours[i])) == 0)
            return false;
    return true;
}

troupe_status trp_program_env(troupe_rank *me, const troupe_process_config *config,
                              const trp_program_facts *facts, char ***environment)
{
    enum { OURS = 32 };
    variables all = {.room = config->environment.count + OURS};
    char *gpus;
    int port;
    TROUPE_TRY(agree_on_port(me, &port));
    TROUPE_TRY(share_gpus(me, &gpus));
    for (char **line = environ; *line; line++)
        all.room++;
    all.rows = (char **)troupe_arena_alloc((all.room + 1) * sizeof *all.rows);
    if (!all.rows)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the environment of a program");
    // What a program's user may set otherwise.
    set_text(&all, "PYTHONUNBUFFERED", "1");
    set_number(&all, "OMP_NUM_THREADS", facts->cpus > 1 ? (int)facts->cpus : 1);
    for (char **line = environ; *line; line++)
        if (is_inherited(*line) && strchr(*line, '='))
            put(&all, *line);
    put_place(&all, me, port);
    put_facts(&all, me, facts);
    if (gpus)
        set_text(&all, "CUDA_VISIBLE_DEVICES", gpus);
    if (config->json)
        set_text(&all, "TROUPE_CONFIG", config->json);
    for (size_t i = 0; i < config->environment.count; i++)
        put(&all, config->environment.items[i]);
    if (all.failed)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the environment of a program");
    *environment = all.rows; // Zeroed behind the last one.
    return TROUPE_OK;
}
