// columns.c: what trials differ in: their configs, which are JSON, as columns of numbers, and what
// mattered of these. A parameter is a number where the space says so or, where the record does not
// describe it, where all its values are numbers; else it is a choice of what was seen.
#include <math.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <stdio.h>
#include <string.h>
#include <tune/space/dims.h>
#include <tune/why/fanova.h>
#include <tune/why/pedanova.h>
#include <tune/why/trials.h>

enum { NAME_BYTES = 256, DEPTH_MAX = 8, FOREST_TRIALS_MAX = 2000 };
static const double log_ratio = 30; // From here on values that were seen are taken for a log's.

// A leaf of configs.
typedef struct leaf {
    const char *name;
    trp_json *values; // Of each trial; empty: it lacks it.
} leaf;

typedef struct gather {
    trp_trials *trials;
    leaf leaves[TRP_TRIALS_COLUMNS * 2];
    size_t count, left_out, hint;
    bool failed;
} gather;

// ---- leaves

static leaf *leaf_of(gather *it, const char *name)
{
    for (size_t i = 0; i < it->count; i++) { // Configs name them in the same order.
        size_t at = (it->hint + i) % it->count;
        if (strcmp(it->leaves[at].name, name) == 0) {
            it->hint = at + 1;
            return &it->leaves[at];
        }
    }
    if (it->count == sizeof it->leaves / sizeof *it->leaves) {
        it->left_out++;
        return NULL;
    }
    leaf *made = &it->leaves[it->count];
    char *copy = trp_arena_alloc(&it->trials->arena, strlen(name) + 1);
    made->values = trp_arena_alloc(&it->trials->arena, it->trials->count * sizeof *made->values);
    it->failed = it->failed || copy == NULL || made->values == NULL;
    if (it->failed)
        return NULL;
    strcpy(copy, name);
    made->name = copy;
    it->count++;
    return made;
}

// Takes an object's leaves; `before` is its own name with a dot at its end, or "".
static void take_object(gather *it, size_t trial, trp_json object, const char *before, int depth)
{
    trp_json at = {0}, name, value;
    while (trp_json_next_member(object, &at, &name, &value)) {
        char path[NAME_BYTES];
        trp_arena arena = {0};
        const char *text = NULL;
        troupe_status read = trp_json_read(&troupe_type_troupe_text, name, &arena, &text);
        it->failed = it->failed || read == TROUPE_NO_MEMORY;
        int length = read == TROUPE_OK ? snprintf(path, sizeof path, "%s%s", before, text) : -1;
        trp_arena_clear(&arena);
        if (length < 0 || length >= NAME_BYTES - 1)
            continue;
        if (trp_json_is_object(value) && depth < DEPTH_MAX) {
            strcpy(path + length, ".");
            take_object(it, trial, value, path, depth + 1);
            continue;
        }
        leaf *found = leaf_of(it, path);
        if (found != NULL)
            found->values[trial] = value;
    }
}

static bool is_same(trp_json one, trp_json other)
{
    return one.size == other.size && (one.size == 0 || memcmp(one.at, other.at, one.size) == 0);
}

static bool varies(const gather *it, const leaf *of)
{
    const trp_json *first = NULL;
    for (size_t i = 0; i < it->trials->count; i++) {
        if (it->trials->trials[i]->config.size == 0)
            continue;
        if (first == NULL)
            first = &of->values[i];
        else if (!is_same(*first, of->values[i]))
            return true;
    }
    return false;
}

static bool is_number(trp_json value, double *number)
{
    trp_arena arena = {0};
    char first = value.size > 0 ? value.at[0] : '\0';
    bool read = (first == '-' || (first >= '0' && first <= '9')) &&
                trp_json_read(&troupe_type_double, value, &arena, number) == TROUPE_OK;
    trp_arena_clear(&arena);
    return read && isfinite(*number);
}

// ---- the space

// What the record says of a parameter, in the form that a space is given in (troupe_space_parse),
// or as a list of dimensions. False: nothing.
static bool describe(const trp_trials *trials, const char *name, trp_json *about)
{
    trp_json item = {0}, value;
    if (trp_json_is_object(trials->space))
        return trp_json_member(trials->space, name, about) && trp_json_is_object(*about);
    if (trp_json_is_array(trials->space))
        while (trp_json_next_item(trials->space, &item))
            if (trp_json_member(item, "name", &value) && trp_json_equals(value, name)) {
                *about = item;
                return true;
            }
    return false;
}

static bool number_at(trp_json about, const char *name, double *number)
{
    trp_json value;
    return trp_json_member(about, name, &value) && is_number(value, number);
}

static bool has(trp_json about, const char *name)
{
    trp_json value;
    return trp_json_member(about, name, &value);
}

static bool is_true(trp_json about, const char *name)
{
    trp_json value;
    return trp_json_member(about, name, &value) && value.size == 4 &&
           memcmp(value.at, "true", 4) == 0;
}

// The two numbers of {"uniform": [low, high]}.
static bool has_range(trp_json about, const char *kind, double *low, double *high)
{
    trp_json range, item = {0};
    return trp_json_member(about, kind, &range) && trp_json_is_array(range) &&
           trp_json_next_item(range, &item) && is_number(item, low) &&
           trp_json_next_item(range, &item) && is_number(item, high);
}

static bool is_choice(trp_json about)
{
    trp_json kind;
    return has(about, "choice") || has(about, "ordered") || has(about, "grid") ||
           has(about, "choices") ||
           (trp_json_member(about, "kind", &kind) && trp_json_equals(kind, "choice"));
}

// Lays what the space says of a number over what was seen of it.
static void lay_space(trp_json about, troupe_dim *dim)
{
    trp_json kind;
    double low, high;
    if (has_range(about, "integer", &low, &high))
        dim->kind = TROUPE_DIM_INTEGER;
    else if (has_range(about, "uniform", &low, &high) ||
             has_range(about, "log_uniform", &low, &high) ||
             (number_at(about, "low", &low) && number_at(about, "high", &high)))
        dim->kind = TROUPE_DIM_REAL;
    else
        return;
    if (trp_json_member(about, "kind", &kind))
        dim->kind = trp_json_equals(kind, "integer") ? TROUPE_DIM_INTEGER : TROUPE_DIM_REAL;
    dim->log = (is_true(about, "log") || has(about, "log_uniform")) && low > 0;
    if (low <= dim->low && high >= dim->high) { // Else a trial was given one from elsewhere.
        dim->low = low;
        dim->high = high;
    }
    if (number_at(about, "step", &low) && low > 0)
        dim->step = low;
}

// ---- columns

static void fill_number(gather *it, const leaf *of, size_t column, trp_column *made)
{
    troupe_dim *dim = &made->dim;
    bool whole = true, first = true;
    for (size_t i = 0; i < it->trials->count; i++) {
        double value;
        if (!is_number(of->values[i], &value))
            continue;
        it->trials->trials[i]->x[column] = value;
        whole = whole && value == rint(value);
        dim->low = first ? value : fmin(dim->low, value);
        dim->high = first ? value : fmax(dim->high, value);
        first = false;
    }
    dim->kind = whole ? TROUPE_DIM_INTEGER : TROUPE_DIM_REAL;
    dim->log = dim->low > 0 && dim->high / dim->low >= log_ratio;
    trp_json about;
    if (describe(it->trials, of->name, &about))
        lay_space(about, dim);
}

static const char *keep(gather *it, trp_json value)
{
    char *copy = trp_arena_alloc(&it->trials->arena, value.size + 1);
    it->failed = it->failed || copy == NULL;
    if (copy != NULL)
        memcpy(copy, value.at, value.size);
    return copy;
}

// Whether one value comes before another: numbers by their size, all else as text.
static bool comes_before(const char *one, const char *other)
{
    double left, right;
    if (is_number((trp_json){one, strlen(one)}, &left) &&
        is_number((trp_json){other, strlen(other)}, &right))
        return left < right;
    return strcmp(one, other) < 0;
}

// The choices that the record has of a parameter, in their order; how many, 0: it says nothing.
static int described_choices(gather *it, const leaf *of, const char **texts, bool *ordered)
{
    static const char *const kinds[] = {"choice", "grid", "ordered"};
    trp_json about, list, item = {0};
    int used = 0;
    for (int kind = 0; describe(it->trials, of->name, &about) && kind < 3; kind++) {
        if (!trp_json_member(about, kinds[kind], &list))
            continue;
        *ordered = kind == 2;
        while (used < TROUPE_CHOICES_MAX && trp_json_next_item(list, &item))
            texts[used++] = keep(it, item);
    }
    return used;
}

static int choice_of(trp_json value, const char *const *texts, int used)
{
    int at = 0;
    while (at < used && !is_same(value, (trp_json){texts[at], strlen(texts[at])}))
        at++;
    return at;
}

// False: it has more values than a choice can have.
static bool fill_choice(gather *it, const leaf *of, size_t column, trp_column *made)
{
    const char **texts = trp_arena_alloc(&it->trials->arena, TROUPE_CHOICES_MAX * sizeof *texts);
    it->failed = it->failed || texts == NULL;
    int used = it->failed ? 0 : described_choices(it, of, texts, &made->dim.ordered), known = used;
    for (size_t i = 0; !it->failed && i < it->trials->count; i++) {
        trp_json value = of->values[i];
        if (value.size == 0 || choice_of(value, texts, used) < used)
            continue;
        if (used == TROUPE_CHOICES_MAX)
            return false;
        const char *text = keep(it, value);
        int at = used++; // Those that the record does not have are sorted, behind the others.
        for (; text != NULL && at > known && comes_before(text, texts[at - 1]); at--)
            texts[at] = texts[at - 1];
        texts[at] = text;
    }
    for (size_t i = 0; !it->failed && i < it->trials->count; i++)
        if (of->values[i].size > 0)
            it->trials->trials[i]->x[column] = choice_of(of->values[i], texts, used);
    made->texts = texts;
    made->dim.kind = TROUPE_DIM_CHOICE;
    made->dim.choices = used;
    made->dim.high = used - 1;
    return true;
}

static bool all_numbers(const gather *it, const leaf *of)
{
    double value;
    for (size_t i = 0; i < it->trials->count; i++)
        if (of->values[i].size > 0 && !is_number(of->values[i], &value))
            return false;
    return true;
}

static void add_column(gather *it, const leaf *of)
{
    trp_trials *trials = it->trials;
    trp_json about;
    size_t column = trials->column_count;
    trp_column made = {.name = of->name, .dim = {.name = of->name, .parent = -1}};
    bool numbers = all_numbers(it, of);
    bool choice = describe(trials, of->name, &about) && is_choice(about);
    if (column == TRP_TRIALS_COLUMNS) {
        it->left_out++;
        return;
    }
    if ((numbers && !choice) || !fill_choice(it, of, column, &made)) {
        if (!numbers) { // A text with more values than a choice can have.
            it->left_out++;
            return;
        }
        made = (trp_column){.name = of->name, .dim = {.name = of->name, .parent = -1}};
        fill_number(it, of, column, &made);
    }
    trials->columns[trials->column_count++] = made;
}

// Room for the coordinates of every trial.
static bool make_points(gather *it, size_t columns)
{
    trp_trials *trials = it->trials;
    for (size_t i = 0; i < trials->count; i++) {
        double *x = trp_arena_alloc(&trials->arena, (columns + 1) * sizeof *x);
        if (x == NULL)
            return false;
        for (size_t at = 0; at < columns; at++)
            x[at] = (double)NAN;
        trials->trials[i]->x = x;
    }
    return true;
}

static bool make_columns(gather *it)
{
    trp_trials *trials = it->trials;
    const leaf *varied[sizeof it->leaves / sizeof *it->leaves];
    size_t count = 0;
    for (size_t i = 0; i < trials->count; i++)
        take_object(it, i, trials->trials[i]->config, "", 0);
    for (size_t i = 0; i < it->count && !it->failed; i++)
        if (varies(it, &it->leaves[i]))
            varied[count++] = &it->leaves[i];
    if (it->failed || !make_points(it, count < TRP_TRIALS_COLUMNS ? count : TRP_TRIALS_COLUMNS))
        return false;
    for (size_t i = 0; i < count && !it->failed; i++)
        add_column(it, varied[i]);
    trials->columns_left_out = it->left_out;
    return !it->failed;
}

troupe_status trp_trials_columns(trp_trials *trials)
{
    gather *it = trp_alloc(sizeof *it);
    trials->columns = trp_arena_alloc(&trials->arena, TRP_TRIALS_COLUMNS * sizeof(trp_column));
    bool made = it != NULL && trials->columns != NULL;
    if (made) {
        it->trials = trials;
        made = make_columns(it);
    }
    trp_free(it);
    return made ? TROUPE_OK
                : troupe_fail(TROUPE_NO_MEMORY, "no memory for the trials of %s", trials->file);
}

// ---- what is known of them

bool trp_trials_counts(const trp_seen_trial *trial)
{
    return trial->state != TRP_TRIALS_ERROR && !(trial->violation > 0);
}

const trp_seen_trial *trp_trials_best(const trp_trials *trials)
{
    const trp_seen_trial *best = NULL;
    for (size_t i = 0; i < trials->count; i++) {
        const trp_seen_trial *it = trials->trials[i];
        if (!isnan(it->values[0]) && trp_trials_counts(it) &&
            (best == NULL || trp_trials_better(trials, 0, it->values[0], best->values[0])))
            best = it;
    }
    return best;
}

static bool dominates(const trp_trials *trials, const trp_seen_trial *one,
                      const trp_seen_trial *other)
{
    bool better = false;
    for (size_t i = 0; i < trials->objectives; i++) {
        if (trp_trials_better(trials, i, other->values[i], one->values[i]))
            return false;
        better = better || trp_trials_better(trials, i, one->values[i], other->values[i]);
    }
    return better;
}

static bool has_all(const trp_trials *trials, const trp_seen_trial *it)
{
    bool all = trp_trials_counts(it);
    for (size_t i = 0; i < trials->objectives; i++)
        all = all && isfinite(it->values[i]);
    return all;
}

troupe_status trp_trials_front(const trp_trials *trials, bool *front)
{
    size_t *found = trp_alloc((trials->count + 1) * sizeof *found), used = 0;
    if (found == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for the front of %zu trials",
                           trials->count);
    for (size_t i = 0; i < trials->count; i++) { // Beside those that are the front so far.
        const trp_seen_trial *it = trials->trials[i];
        bool stays = has_all(trials, it);
        for (size_t k = 0; stays && k < used; k++)
            stays = !dominates(trials, trials->trials[found[k]], it);
        front[i] = stays;
        if (!stays)
            continue;
        size_t kept = 0;
        for (size_t k = 0; k < used; k++)
            if (dominates(trials, it, trials->trials[found[k]]))
                front[found[k]] = false;
            else
                found[kept++] = found[k];
        found[kept] = i;
        used = kept + 1;
    }
    trp_free(found);
    return TROUPE_OK;
}

// The trials that importance is asked of: a forest sees at most so many, evenly spread.
troupe_status trp_trials_importance(const trp_trials *trials, const troupe_importance_options *how,
                                    double *importance)
{
    size_t columns = trials->column_count, every = 1, used = 0;
    if (how->method == TROUPE_IMPORTANCE_FANOVA)
        every = trials->count / FOREST_TRIALS_MAX + 1;
    double *points = trp_alloc((trials->count * (columns + 1) + 1) * sizeof *points);
    troupe_dim *dims = trp_alloc((columns + 1) * sizeof *dims);
    double *scores = points != NULL ? points + trials->count * columns : NULL;
    size_t objective = (size_t)how->objective;
    for (size_t i = 0; i < columns && dims != NULL; i++)
        dims[i] = trials->columns[i].dim;
    for (size_t i = 0; i < trials->count && points != NULL; i += every) {
        const trp_seen_trial *it = trials->trials[i];
        double value = trp_trials_counts(it) ? it->values[objective] : (double)NAN;
        memcpy(points + used * columns, it->x, columns * sizeof *points);
        scores[used++] = trials->goals[objective] == TROUPE_MAXIMIZE ? -value : value;
    }
    troupe_status status;
    if (points == NULL || dims == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the importance of %zu trials",
                             trials->count);
    else
        status = troupe_importance_with(dims, columns, points, scores, used, importance, how);
    trp_free(points);
    trp_free(dims);
    return status;
}
