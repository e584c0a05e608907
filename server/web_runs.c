// web_runs.c: see web_runs.h.
#include <server/web_runs.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/printable.h>
#include <runtime/host/file.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 << 10 };

TROUPE_STRUCT(sample, (double, t), (int, rank), (int, pid), (double, cpu_s), (double, rss_bytes));
TROUPE_STRUCT(gpu_sample, (double, t), (troupe_text, gpu), (troupe_text, name), (double, busy),
              (double, used_bytes), (double, total_bytes));

// ---- usage

// Two slots become one.
static void widen_means(double *values, unsigned *samples)
{
    for (size_t i = 0; i < WEB_USAGE_SLOTS; i++) {
        size_t from = 2 * i;
        bool there = from < WEB_USAGE_SLOTS;
        unsigned left = there ? samples[from] : 0, right = there ? samples[from + 1] : 0;
        if (left + right > 0)
            values[i] = (values[from] * left + values[from + 1] * right) / (left + right);
        samples[i] = left + right;
    }
}

static void widen(web_usage *usage)
{
    for (size_t i = 0; i < usage->gpu_count; i++) {
        web_usage_gpu *it = usage->gpus[i];
        widen_means(it->busy, it->busy_samples);
        widen_means(it->memory, it->memory_samples);
    }
    for (size_t r = 0; r < usage->count; r++) {
        web_usage_rank *it = usage->ranks[r];
        for (size_t i = 0; i < WEB_USAGE_SLOTS; i++)
            it->cpu_s[i] = 2 * i < WEB_USAGE_SLOTS ? it->cpu_s[2 * i] + it->cpu_s[2 * i + 1] : 0;
        widen_means(it->memory, it->samples);
    }
    usage->width_s *= 2;
    usage->used = (usage->used + 1) / 2;
}

static web_usage_rank *rank_of(web_usage *usage, int rank)
{
    for (size_t i = 0; i < usage->count; i++)
        if (usage->ranks[i]->rank == rank || i + 1 == WEB_USAGE_RANKS)
            return usage->ranks[i];
    web_usage_rank *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return NULL;
    *made = (web_usage_rank){.rank = rank};
    usage->ranks[usage->count++] = made;
    return made;
}

// What was used since the sample before is spread over the time between.
static void spread(const web_usage *usage, web_usage_rank *it, double from, double to, double cpu_s)
{
    double begin = (from - usage->from) / usage->width_s, end = (to - usage->from) / usage->width_s;
    if (begin < 0)
        begin = 0;
    for (size_t slot = (size_t)begin; slot < WEB_USAGE_SLOTS && (double)slot < end; slot++) {
        double low = fmax(begin, (double)slot), high = fmin(end, (double)slot + 1);
        it->cpu_s[slot] += cpu_s * (high - low) / (end - begin);
    }
}

// The slot of that time, from which on there are that many. False: it is no time of this run.
static bool find_slot(web_usage *usage, double t, size_t *slot)
{
    static const double longest_s = 1e9, end_of_times = 1e11;
    bool first = usage->width_s == 0;
    double since = first ? 0 : t - usage->from;
    if (!(t > 0 && t < end_of_times) || !(since >= 0 && since < longest_s))
        return false;
    if (first) {
        usage->from = t;
        usage->width_s = 1;
    }
    while (since >= usage->width_s * WEB_USAGE_SLOTS)
        widen(usage);
    *slot = (size_t)(since / usage->width_s);
    if (*slot >= usage->used)
        usage->used = *slot + 1;
    return true;
}

static void add_to_mean(double *mean, unsigned *samples, double value)
{
    *mean = (*mean * *samples + value) / (*samples + 1);
    ++*samples;
}

static bool is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

static bool take_sample(web_usage *usage, const sample *at)
{
    size_t slot;
    if (!is_amount(at->cpu_s) || !is_amount(at->rss_bytes) || !find_slot(usage, at->t, &slot)) {
        usage->bad_lines++;
        return true;
    }
    web_usage_rank *it = rank_of(usage, at->rank);
    if (it == NULL)
        return false;
    double used_s = at->cpu_s - it->last_cpu_s;
    if (it->pid == at->pid && at->t > it->last_at && used_s > 0)
        spread(usage, it, it->last_at, at->t, used_s);
    add_to_mean(&it->memory[slot], &it->samples[slot], at->rss_bytes);
    it->pid = at->pid;
    it->last_at = at->t;
    it->last_cpu_s = at->cpu_s;
    if (at->t > usage->last_at)
        usage->last_at = at->t;
    return true;
}

// ---- usage of GPUs

static web_usage_gpu *gpu_of(web_usage *usage, const char *id)
{
    for (size_t i = 0; i < usage->gpu_count; i++)
        if (strcmp(usage->gpus[i]->id, id) == 0)
            return usage->gpus[i];
    web_usage_gpu *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return NULL;
    *made = (web_usage_gpu){.last_busy = -1, .last_used = -1};
    strcpy(made->id, id);
    usage->gpus[usage->gpu_count++] = made;
    return made;
}

static bool is_id(const char *text, size_t capacity)
{
    static const char may_have[] =
        "-_.:/0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t size = text != NULL ? strlen(text) : 0;
    return size > 0 && size < capacity && strspn(text, may_have) == size;
}

static bool is_name(const char *text, size_t capacity)
{
    return text != NULL && strlen(text) < capacity && trp_printable_is(text, strlen(text));
}

// Of what was measured each is there or not.
static bool take_gpu_sample(web_usage *usage, trp_json line, const gpu_sample *at)
{
    trp_json value;
    size_t slot;
    web_usage_gpu *it;
    bool has_busy = trp_json_member(line, "busy", &value) && !trp_json_is_null(value),
         has_used = trp_json_member(line, "used_bytes", &value) && !trp_json_is_null(value);
    if (!is_id(at->gpu, sizeof it->id) || !is_name(at->name, sizeof it->name) ||
        !is_amount(at->busy) || at->busy > 1 || !is_amount(at->used_bytes) ||
        !is_amount(at->total_bytes) || !find_slot(usage, at->t, &slot)) {
        usage->bad_lines++;
        return true;
    }
    if (usage->gpu_count == WEB_USAGE_GPUS)
        return true;
    it = gpu_of(usage, at->gpu);
    if (it == NULL)
        return false;
    strcpy(it->name, at->name);
    it->total_bytes = fmax(it->total_bytes, at->total_bytes);
    it->last_at = at->t;
    it->last_busy = has_busy ? at->busy : -1;
    it->last_used = has_used ? at->used_bytes : -1;
    if (has_busy)
        add_to_mean(&it->busy[slot], &it->busy_samples[slot], at->busy);
    if (has_used)
        add_to_mean(&it->memory[slot], &it->memory_samples[slot], at->used_bytes);
    return true;
}

// ---- lines

bool web_usage_take(web_usage *usage, const char *text, size_t size)
{
    trp_arena arena = {0};
    trp_json line, id;
    sample at = {.rank = -1, .t = NAN};
    gpu_sample of_gpu = {.t = NAN, .name = ""};
    bool good = true, whole = trp_json_parse(text, size, &line) == TROUPE_OK;
    if (whole && trp_json_member(line, "gpu", &id)) {
        whole = trp_json_read(&troupe_type_gpu_sample, line, &arena, &of_gpu) == TROUPE_OK;
        good = !whole || take_gpu_sample(usage, line, &of_gpu);
    } else if (whole) {
        whole = trp_json_read(&troupe_type_sample, line, &arena, &at) == TROUPE_OK;
        good = !whole || take_sample(usage, &at);
    }
    usage->bad_lines += !whole;
    trp_arena_clear(&arena);
    return good;
}

void web_usage_clear(web_usage *usage)
{
    for (size_t i = 0; i < usage->count; i++)
        trp_free(usage->ranks[i]);
    for (size_t i = 0; i < usage->gpu_count; i++)
        trp_free(usage->gpus[i]);
    *usage = (web_usage){0};
}

// Takes the whole lines of a piece; a line that fills all of it is left out.
static bool take_lines(web_usage *usage, const char *text, size_t size, size_t *taken)
{
    size_t at = 0;
    bool good = true;
    for (const char *end; good && at < size; at = (size_t)(end - text) + 1) {
        end = memchr(text + at, '\n', size - at);
        if (end == NULL)
            break;
        if (end > text + at)
            good = web_usage_take(usage, text + at, (size_t)(end - text) - at);
    }
    *taken = at == 0 && size == PIECE_BYTES ? size : at;
    return good;
}

static troupe_status read_usage(web_run *run, size_t *budget)
{
    trp_path path;
    struct stat about;
    TROUPE_TRY(trp_path_make(&path, "%s/usage.jsonl", run->facts.folder));
    int fd = open(path.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return TROUPE_OK; // It has none.
    bool good = true, more = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    if (more && (uint64_t)about.st_size < run->usage.read) // Another one.
        web_usage_clear(&run->usage);
    char *piece = trp_alloc(PIECE_BYTES);
    good = piece != NULL;
    while (good && more && *budget > 0) {
        ssize_t got = pread(fd, piece, PIECE_BYTES, (off_t)run->usage.read);
        size_t taken = 0;
        good = got <= 0 || take_lines(&run->usage, piece, (size_t)got, &taken);
        run->usage.read += taken;
        *budget -= taken < *budget ? taken : *budget;
        more = taken > 0;
    }
    trp_free(piece);
    close(fd);
    return good ? TROUPE_OK : troupe_fail(TROUPE_NO_MEMORY, "no memory for what a run uses");
}

// ---- runs

static void free_run(web_run *run)
{
    trp_facts_free(&run->facts);
    web_usage_clear(&run->usage);
    trp_free(run->folder);
    trp_free(run);
}

static size_t bytes_of(const web_run *run)
{
    return sizeof *run + trp_arena_size(&run->facts.arena) +
           run->usage.count * sizeof(web_usage_rank) + run->usage.gpu_count * sizeof(web_usage_gpu);
}

// Lets go of those that were not asked for the longest, but never of the last one asked for.
static void make_room(web_runs *runs)
{
    for (;;) {
        size_t bytes = 0;
        web_run **oldest = &runs->first;
        for (web_run **at = &runs->first; *at != NULL; at = &(*at)->next) {
            bytes += bytes_of(*at);
            if ((*at)->asked < (*oldest)->asked)
                oldest = at;
        }
        if (runs->count <= 1 || (runs->count <= WEB_RUNS_KEPT && bytes <= WEB_RUNS_BYTES))
            return;
        web_run *gone = *oldest;
        if (gone == NULL)
            return;
        *oldest = gone->next;
        runs->count--;
        free_run(gone);
    }
}

static uint64_t journal_inode(const char *folder)
{
    trp_path path;
    struct stat about;
    if (trp_path_make(&path, "%s/journal.jsonl", folder) != TROUPE_OK ||
        lstat(path.text, &about) != 0)
        return 0;
    return about.st_ino;
}

static troupe_status begin(const char *folder, web_run **run)
{
    web_run *made = trp_alloc(sizeof *made);
    if (made == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a run");
    *made = (web_run){.folder = trp_strdup(folder), .inode = journal_inode(folder)};
    troupe_status status = made->folder != NULL
                               ? trp_facts_begin(folder, &made->facts)
                               : troupe_fail(TROUPE_NO_MEMORY, "no memory for a run's path");
    if (status != TROUPE_OK) {
        free_run(made);
        return status;
    }
    *run = made;
    return TROUPE_OK;
}

// Takes a run out of what is kept; NULL: it is not there.
static web_run *take_out(web_runs *runs, const char *folder)
{
    for (web_run **at = &runs->first; *at != NULL; at = &(*at)->next) {
        web_run *it = *at;
        if (strcmp(it->folder, folder) != 0)
            continue;
        *at = it->next;
        runs->count--;
        return it;
    }
    return NULL;
}

troupe_status web_runs_find(web_runs *runs, const char *folder, size_t *budget, web_run **run)
{
    web_run *it = take_out(runs, folder);
    uint64_t size, before;
    // Where another journal is there now, it is another run.
    if (it != NULL && it->inode != journal_inode(folder)) {
        free_run(it);
        it = NULL;
    }
    if (it == NULL)
        TROUPE_TRY(begin(folder, &it));
    before = it->facts.journal_size;
    troupe_status status = trp_facts_more(&it->facts, *budget, &size);
    if (status == TROUPE_OK && size < it->facts.journal_size) { // It was cut: so begin again.
        free_run(it);
        TROUPE_TRY(begin(folder, &it));
        before = 0;
        status = trp_facts_more(&it->facts, *budget, &size);
    }
    uint64_t done = it->facts.journal_size - before;
    it->whole = done < *budget;
    *budget -= done < *budget ? (size_t)done : *budget;
    if (status == TROUPE_OK)
        status = read_usage(it, budget);
    if (status != TROUPE_OK) {
        free_run(it);
        return status;
    }
    it->asked = ++runs->requests;
    it->next = runs->first;
    runs->first = it;
    runs->count++;
    make_room(runs);
    *run = it;
    return TROUPE_OK;
}

void web_runs_clear(web_runs *runs)
{
    while (runs->first != NULL) {
        web_run *gone = runs->first;
        runs->first = gone->next;
        free_run(gone);
    }
    *runs = (web_runs){0};
}
