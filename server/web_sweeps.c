// web_sweeps.c: see web_sweeps.h.
#include <server/web_sweeps.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/codec/json.h>
#include <runtime/host/file.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };

TROUPE_STRUCT(line_fields, (troupe_text, event), (troupe_text, trainer), (troupe_text, metric),
              (troupe_text, goal), (int, trials), (uint64_t, seed), (troupe_text, scheduler),
              (troupe_text, searcher), (troupe_text, chosen), (int, number), (double, elapsed_s),
              (troupe_text, state), (int, reports), (double, best), (troupe_text, error),
              (troupe_text, act));

static const char *keep(web_sweep *sweep, const char *text, size_t size)
{
    if (text == NULL)
        return NULL;
    bool fits = size < WEB_SWEEP_TEXT_MAX - sweep->text_bytes;
    char *copy = fits ? trp_arena_alloc(&sweep->arena, size + 1) : NULL;
    if (copy == NULL) {
        sweep->texts_left_out++;
        return NULL;
    }
    sweep->text_bytes += size + 1;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return copy;
}

static const char *keep_text(web_sweep *sweep, const char *text)
{
    return text != NULL ? keep(sweep, text, strlen(text)) : NULL;
}

// ---- trials

static web_trial *trial_of(web_sweep *sweep, const char *name)
{
    for (size_t i = sweep->count; i-- > 0;) // The last ones are spoken of most.
        if (strcmp(sweep->trials[i]->name, name) == 0)
            return sweep->trials[i];
    if (sweep->count == WEB_TRIALS_MAX || strlen(name) >= WEB_TRIAL_NAME) {
        sweep->left_out++;
        return NULL;
    }
    if (sweep->count == sweep->room) {
        size_t room = sweep->room > 0 ? 2 * sweep->room : 32;
        web_trial **larger = trp_arena_alloc(&sweep->arena, room * sizeof *larger);
        if (larger == NULL)
            return NULL;
        if (sweep->count > 0)
            memcpy(larger, sweep->trials, sweep->count * sizeof *larger);
        sweep->trials = larger;
        sweep->room = room;
    }
    web_trial *made = trp_arena_alloc(&sweep->arena, sizeof *made);
    char *copy = trp_arena_alloc(&sweep->arena, strlen(name) + 1);
    if (made == NULL || copy == NULL)
        return NULL;
    strcpy(copy, name);
    *made = (web_trial){.name = copy, .state = "PENDING", .stride = 1};
    sweep->trials[sweep->count++] = made;
    return made;
}

static void add_point(web_trial *trial, int report, double value)
{
    size_t at = report > 0 ? (size_t)(report - 1) : 0;
    while (at / (size_t)trial->stride >= WEB_TRIAL_POINTS) {
        for (size_t i = 0; i < WEB_TRIAL_POINTS / 2; i++)
            trial->points[i] = trial->points[2 * i];
        trial->used = (trial->used + 1) / 2;
        trial->stride *= 2;
    }
    if (at % (size_t)trial->stride != 0)
        return;
    size_t slot = at / (size_t)trial->stride;
    while (trial->used < slot)
        trial->points[trial->used++] = NAN;
    trial->points[slot] = (float)value;
    if (slot >= trial->used)
        trial->used = slot + 1;
}

static void take_report(web_sweep *sweep, trp_json line, const line_fields *fields,
                        trp_arena *arena, web_trial *trial)
{
    trp_json metrics, value;
    double score;
    bool maximize = sweep->goal != NULL && strcmp(sweep->goal, "maximize") == 0;
    trial->state = fields->act != NULL && strcmp(fields->act, "pause") == 0 ? "PAUSED" : "RUNNING";
    if (fields->number > trial->reports)
        trial->reports = fields->number;
    trial->elapsed_s = fields->elapsed_s;
    if (!trp_json_member(line, "metrics", &metrics))
        return;
    trial->metrics[0] = '\0';
    if (metrics.size < sizeof trial->metrics) {
        memcpy(trial->metrics, metrics.at, metrics.size);
        trial->metrics[metrics.size] = '\0';
    }
    if (sweep->metric == NULL || !trp_json_member(metrics, sweep->metric, &value) ||
        trp_json_read(&troupe_type_double, value, arena, &score) != TROUPE_OK)
        return;
    add_point(trial, fields->number, score);
    if (isnan(score) ||
        (trial->has_best && (maximize ? score <= trial->best : score >= trial->best)))
        return;
    trial->best = score;
    trial->has_best = true;
}

static void take_sweep(web_sweep *sweep, const line_fields *fields)
{
    sweep->trainer = keep_text(sweep, fields->trainer);
    sweep->metric = keep_text(sweep, fields->metric);
    sweep->goal = keep_text(sweep, fields->goal);
    sweep->scheduler = keep_text(sweep, fields->scheduler);
    sweep->wanted = fields->trials;
    snprintf(sweep->seed, sizeof sweep->seed, "%" PRIu64, fields->seed);
}

// Of its study: what it goes by, or what has been chosen, where the line says so.
static void take_searcher(web_sweep *sweep, const line_fields *fields)
{
    const char *name = fields->chosen != NULL ? fields->chosen : fields->searcher;
    if (name != NULL)
        sweep->searcher = keep_text(sweep, name);
}

static const char *state_named(const char *name)
{
    static const char *const known[] = {"PENDING", "RUNNING", "RESTARTING", "TERMINATED",
                                        "STOPPED", "ERROR",   "PAUSED"};
    for (size_t i = 0; name != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    return "TERMINATED";
}

// Lines of the sweep have its trial's name as "trial"; those of its study the number, and the name
// where there is something to be shown.
static const char *name_in(trp_json line, trp_arena *arena)
{
    static const char *const members[] = {"trial", "name"};
    for (size_t i = 0; i < 2; i++) {
        trp_json value;
        const char *name = NULL;
        if (trp_json_member(line, members[i], &value) && value.at[0] == '"' &&
            trp_json_read(&troupe_type_troupe_text, value, arena, &name) == TROUPE_OK)
            return name;
    }
    return NULL;
}

static bool take_value(web_sweep *sweep, trp_json line, trp_arena *arena)
{
    line_fields fields = {.best = NAN};
    trp_json config;
    if (trp_json_read(&troupe_type_line_fields, line, arena, &fields) != TROUPE_OK ||
        fields.event == NULL)
        return false;
    const char *event = fields.event, *name = name_in(line, arena);
    if (strcmp(event, "sweep") == 0)
        take_sweep(sweep, &fields);
    if (strcmp(event, "study") == 0 || strcmp(event, "space") == 0)
        take_searcher(sweep, &fields);
    if (strcmp(event, "extend") == 0)
        sweep->wanted = fields.trials;
    if (name == NULL)
        return true;
    web_trial *trial = trial_of(sweep, name);
    if (trial == NULL)
        return true;
    if (strcmp(event, "submitted") == 0) {
        if (trp_json_member(line, "config", &config))
            trial->config = keep(sweep, config.at, config.size);
    } else if (strcmp(event, "report") == 0 || strcmp(event, "reported") == 0) {
        take_report(sweep, line, &fields, arena, trial);
    } else if (strcmp(event, "end") == 0 || strcmp(event, "ended") == 0) {
        trial->state = state_named(fields.state);
        trial->error = keep_text(sweep, fields.error);
        trial->elapsed_s = fields.elapsed_s;
    }
    return true;
}

static void take_line(web_sweep *sweep, const char *text, size_t size)
{
    trp_arena arena = {0};
    trp_json line;
    if (trp_json_parse(text, size, &line) != TROUPE_OK || !take_value(sweep, line, &arena))
        sweep->bad_lines++;
    trp_arena_clear(&arena);
}

static size_t take_lines(web_sweep *sweep, const char *text, size_t size)
{
    size_t at = 0;
    for (const char *end; at < size; at = (size_t)(end - text) + 1) {
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        if (!sweep->skipping && end > text + at)
            take_line(sweep, text + at, (size_t)(end - text) - at);
        sweep->skipping = false;
    }
    if (at > 0 || size < PIECE_BYTES)
        return at;
    sweep->skipping = true; // A longer line is left out.
    return size;
}

// ---- what is kept

static void free_sweep(web_sweep *sweep)
{
    trp_arena_clear(&sweep->arena);
    trp_free(sweep->folder);
    trp_free(sweep);
}

static web_sweep *take_out(web_sweeps *sweeps, const char *folder, const struct stat *about)
{
    for (web_sweep **at = &sweeps->first; *at != NULL; at = &(*at)->next) {
        web_sweep *it = *at;
        if (strcmp(it->folder, folder) != 0)
            continue;
        *at = it->next;
        sweeps->count--;
        if (it->inode == about->st_ino && it->read <= (uint64_t)about->st_size)
            return it;
        free_sweep(it);
        return NULL;
    }
    return NULL;
}

static web_sweep *begin(const char *folder, const struct stat *about)
{
    web_sweep *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return NULL;
    *made = (web_sweep){.folder = trp_strdup(folder), .inode = about->st_ino};
    if (made->folder != NULL)
        return made;
    trp_free(made);
    return NULL;
}

static size_t bytes_of(const web_sweeps *sweeps)
{
    size_t bytes = 0;
    for (const web_sweep *it = sweeps->first; it != NULL; it = it->next)
        bytes += trp_arena_size(&it->arena);
    return bytes;
}

// The one that was asked for last stays.
static void make_room(web_sweeps *sweeps)
{
    while (sweeps->count > WEB_SWEEPS_KEPT ||
           (sweeps->count > 1 && bytes_of(sweeps) > WEB_SWEEPS_BYTES_MAX)) {
        web_sweep **oldest = &sweeps->first;
        for (web_sweep **at = &sweeps->first; *at != NULL; at = &(*at)->next)
            if ((*at)->asked < (*oldest)->asked)
                oldest = at;
        web_sweep *gone = *oldest;
        if (gone == NULL)
            return;
        *oldest = gone->next;
        sweeps->count--;
        free_sweep(gone);
    }
}

static bool read_on(web_sweep *sweep, int fd, const struct stat *about, size_t *budget)
{
    char *piece = trp_alloc(PIECE_BYTES);
    size_t taken = 1;
    while (piece != NULL && taken > 0 && *budget > 0) {
        ssize_t got = pread(fd, piece, PIECE_BYTES, (off_t)sweep->read);
        taken = got > 0 ? take_lines(sweep, piece, (size_t)got) : 0;
        sweep->read += taken;
        *budget -= taken < *budget ? taken : *budget;
    }
    sweep->whole = taken == 0 || sweep->read >= (uint64_t)about->st_size;
    trp_free(piece);
    return piece != NULL;
}

troupe_status web_sweeps_find(web_sweeps *sweeps, const char *folder, size_t *budget,
                              web_sweep **sweep)
{
    trp_path path;
    struct stat about;
    TROUPE_TRY(trp_path_make(&path, "%s/trials.jsonl", folder));
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        if (fd >= 0)
            close(fd);
        return troupe_fail(TROUPE_NOT_FOUND, "%s is not a sweep's folder: it has no trials.jsonl",
                           folder);
    }
    web_sweep *it = take_out(sweeps, folder, &about);
    if (it == NULL)
        it = begin(folder, &about);
    bool good = it != NULL && read_on(it, fd, &about, budget);
    close(fd);
    if (!good) {
        if (it != NULL)
            free_sweep(it);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep");
    }
    it->asked = ++sweeps->requests;
    it->next = sweeps->first;
    sweeps->first = it;
    sweeps->count++;
    make_room(sweeps);
    *sweep = it;
    return TROUPE_OK;
}

void web_sweeps_clear(web_sweeps *sweeps)
{
    while (sweeps->first != NULL) {
        web_sweep *gone = sweeps->first;
        sweeps->first = gone->next;
        free_sweep(gone);
    }
    *sweeps = (web_sweeps){0};
}
