// tpe_split.c: see tune/search/tpe_split.h.
#include <tune/search/tpe_split.h>

#include <math.h>
#include <runtime/base/memory.h>
#include <string.h>
#include <tune/search/fronts.h>

// ---- what is known

static size_t place_of(const trp_tpe_trials *trials, int number)
{
    size_t low = 0, high = trials->numbers;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (trials->rows[trials->by_number[middle]].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int trp_tpe_find(const trp_tpe_trials *trials, int number)
{
    size_t place = place_of(trials, number);
    if (place == trials->numbers || trials->rows[trials->by_number[place]].number != number)
        return -1;
    return trials->by_number[place];
}

troupe_status trp_tpe_reserve(trp_tpe_trials *trials)
{
    if (trials->count < trials->room)
        return TROUPE_OK;
    size_t room = trials->room == 0 ? 64 : trials->room * 2;
    trp_tpe_trial *rows = trp_realloc(trials->rows, room * sizeof *rows);
    if (rows != NULL)
        trials->rows = rows;
    double *scores = trp_realloc(trials->scores, room * trials->objectives * sizeof *scores);
    if (scores != NULL)
        trials->scores = scores;
    int *by_number = trp_realloc(trials->by_number, room * sizeof *by_number);
    if (by_number != NULL)
        trials->by_number = by_number;
    if (rows == NULL || scores == NULL || by_number == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu trials of a search", room);
    trials->room = room;
    return TROUPE_OK;
}

void trp_tpe_add(trp_tpe_trials *trials, int number)
{
    size_t row = trials->count++, place = place_of(trials, number);
    trials->rows[row] = (trp_tpe_trial){.number = number};
    for (size_t i = 0; i < trials->objectives; i++)
        trials->scores[row * trials->objectives + i] = (double)NAN;
    if (place < trials->numbers && trials->rows[trials->by_number[place]].number == number) {
        trials->rows[trials->by_number[place]].state = TRP_TPE_NOTHING;
    } else {
        memmove(trials->by_number + place + 1, trials->by_number + place,
                (trials->numbers - place) * sizeof *trials->by_number);
        trials->numbers++;
    }
    trials->by_number[place] = (int)row;
}

troupe_status trp_tpe_report_add(trp_tpe_trial *trial, int report, double score)
{
    if (trial->told_count > 0 && trial->told[trial->told_count - 1].report >= report)
        return TROUPE_OK; // They rise.
    if (trial->told_count == trial->told_room) {
        size_t room = trial->told_room == 0 ? 8 : trial->told_room * 2;
        trp_tpe_report *told = trp_realloc(trial->told, room * sizeof *told);
        if (told == NULL)
            return troupe_fail(TROUPE_NO_MEMORY, "no memory for a trial's reports");
        trial->told = told;
        trial->told_room = room;
    }
    trial->told[trial->told_count++] = (trp_tpe_report){.report = report, .score = score};
    return TROUPE_OK;
}

void trp_tpe_close(trp_tpe_trials *trials)
{
    for (size_t i = 0; i < trials->count; i++)
        trp_free(trials->rows[i].told);
    trp_free(trials->rows);
    trp_free(trials->scores);
    trp_free(trials->by_number);
    *trials = (trp_tpe_trials){0};
}

static int last_report(const trp_tpe_trial *trial)
{
    if (trial->told_count == 0 || trial->state == TRP_TPE_NOTHING)
        return 0;
    return trial->told[trial->told_count - 1].report;
}

// What it had reported by then.
static double score_at(const trp_tpe_trial *trial, int report)
{
    size_t at = trial->told_count;
    while (at > 1 && trial->told[at - 1].report > report)
        at--;
    return trial->told[at - 1].score;
}

int trp_tpe_budget(const trp_tpe_trials *trials, size_t enough)
{
    int low = 0, high = 0; // `low` was come to by enough.
    for (size_t i = 0; i < trials->count; i++)
        if (last_report(&trials->rows[i]) > high)
            high = last_report(&trials->rows[i]);
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        size_t reached = 0;
        for (size_t i = 0; i < trials->count; i++)
            reached += last_report(&trials->rows[i]) >= middle;
        if (reached >= enough)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// ---- the split

// Where a trial stands: those that ended by themselves before those that were stopped, before those
// that violate a constraint (Watanabe 2023, as Optuna orders them).
typedef struct rank_key {
    int class;
    double first, second;
    int row;
} rank_key;

enum { CLASS_COMPLETE, CLASS_STOPPED, CLASS_VIOLATES };

static bool is_before(const rank_key *a, const rank_key *b)
{
    if (a->class != b->class)
        return a->class < b->class;
    if (a->first != b->first)
        return a->first < b->first;
    return a->second != b->second ? a->second < b->second : a->row < b->row;
}

static double or_worst(double score)
{
    return isnan(score) ? INFINITY : score;
}

// Whether it has a key; one that has none runs or has come to nothing.
static bool key_of(const trp_tpe_trials *trials, int row, int budget, rank_key *key)
{
    const trp_tpe_trial *trial = &trials->rows[row];
    double score = or_worst(trials->scores[(size_t)row * trials->objectives]);
    *key = (rank_key){.row = row};
    if (trial->state == TRP_TPE_NOTHING)
        return false;
    if (budget > 0 && last_report(trial) < budget)
        return false;
    if (budget == 0 && trial->state == TRP_TPE_RUNS)
        return false;
    if (trial->violation > 0) {
        key->class = CLASS_VIOLATES;
        key->first = trial->violation;
    } else if (budget > 0) {
        key->first = or_worst(score_at(trial, budget));
    } else if (trial->state == TRP_TPE_STOPPED) { // Those that came far first.
        key->class = CLASS_STOPPED;
        key->first = -(double)trial->reports;
        key->second = score;
    } else {
        key->first = score;
    }
    return true;
}

size_t trp_tpe_good(size_t ended, size_t objectives)
{
    size_t tenth = (ended + 9) / 10;
    return objectives == 1 && tenth > 25 ? 25 : tenth;
}

// Makes the `wanted` first of the keys good. Those that were found so far are kept in order: a new
// one is compared with the last alone, unless it is better.
static void choose_first(rank_key *keys, size_t count, size_t wanted, uint8_t *roles)
{
    size_t kept = 0; // At the front of the keys themselves, as what was there was looked at.
    for (size_t i = 0; i < count && wanted > 0; i++) {
        rank_key key = keys[i];
        if (kept == wanted && !is_before(&key, &keys[kept - 1]))
            continue;
        size_t at = kept < wanted ? kept++ : kept - 1;
        for (; at > 0 && is_before(&key, &keys[at - 1]); at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
    for (size_t i = 0; i < kept; i++)
        roles[keys[i].row] = TRP_TPE_GOOD;
}

// The front that does not fit whole gives those that cover the most volume together.
static troupe_status cut_front(const double *scores, const int *ranks, size_t count,
                               size_t objectives, int front, size_t wanted, bool *good)
{
    size_t found = 0;
    double *part = trp_alloc(count * objectives * sizeof *part), *reference = NULL;
    int *index = trp_alloc(count * sizeof *index), *chosen = trp_alloc(count * sizeof *chosen);
    reference = trp_alloc(objectives * sizeof *reference);
    troupe_status status = TROUPE_OK;
    if (part == NULL || index == NULL || chosen == NULL || reference == NULL) {
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for a front of a search");
    } else {
        for (size_t i = 0; i < count; i++) {
            if (ranks[i] != front)
                continue;
            index[found] = (int)i;
            memcpy(part + found++ * objectives, scores + i * objectives,
                   objectives * sizeof *scores);
        }
        trp_hypervolume_reference(part, found, objectives, reference);
        status = trp_hypervolume_choose(part, found, objectives, reference, wanted, chosen);
        for (size_t i = 0; i < wanted && status == TROUPE_OK; i++)
            good[index[chosen[i]]] = true;
    }
    trp_free(part);
    trp_free(index);
    trp_free(chosen);
    trp_free(reference);
    return status;
}

static troupe_status choose_fronts(const double *scores, size_t count, size_t objectives,
                                   size_t wanted, int *ranks, bool *good)
{
    TROUPE_TRY(trp_fronts(scores, NULL, count, objectives, ranks));
    size_t chosen = 0;
    for (int front = 0; chosen < wanted; front++) {
        size_t members = 0;
        for (size_t i = 0; i < count; i++)
            members += ranks[i] == front;
        if (chosen + members > wanted)
            return cut_front(scores, ranks, count, objectives, front, wanted - chosen, good);
        for (size_t i = 0; i < count; i++)
            good[i] = good[i] || ranks[i] == front;
        chosen += members;
    }
    return TROUPE_OK;
}

// Takes the complete trials, which have several objectives, out of the keys, and makes up to
// *wanted of them good; *wanted: how many may still be.
static troupe_status choose_complete(const trp_tpe_trials *trials, rank_key *keys, size_t *count,
                                     size_t *wanted, uint8_t *roles)
{
    size_t found = 0, left = 0, objectives = trials->objectives;
    double *scores = trp_alloc((*count + 1) * objectives * sizeof *scores);
    int *rows = trp_alloc((*count + 1) * sizeof *rows);
    int *ranks = trp_alloc((*count + 1) * sizeof *ranks);
    bool *good = trp_alloc((*count + 1) * sizeof *good);
    troupe_status status = TROUPE_OK;
    if (scores == NULL || rows == NULL || ranks == NULL || good == NULL)
        status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the fronts of a search");
    for (size_t i = 0; i < *count && status == TROUPE_OK; i++) {
        if (keys[i].class != CLASS_COMPLETE) {
            keys[left++] = keys[i];
            continue;
        }
        rows[found] = keys[i].row;
        memcpy(scores + found++ * objectives, trials->scores + (size_t)keys[i].row * objectives,
               objectives * sizeof *scores);
    }
    size_t taken = *wanted < found ? *wanted : found;
    if (status == TROUPE_OK)
        status = choose_fronts(scores, found, objectives, taken, ranks, good);
    for (size_t i = 0; i < found && status == TROUPE_OK; i++)
        if (good[i])
            roles[rows[i]] = TRP_TPE_GOOD;
    *count = left;
    *wanted -= taken;
    trp_free(scores);
    trp_free(rows);
    trp_free(ranks);
    trp_free(good);
    return status;
}

troupe_status trp_tpe_split(const trp_tpe_trials *trials, int budget, bool liar, uint8_t *roles)
{
    rank_key *keys = trp_alloc((trials->count + 1) * sizeof *keys);
    if (keys == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory to sort %zu trials", trials->count);
    size_t count = 0;
    for (size_t i = 0; i < trials->count; i++) {
        bool runs = trials->rows[i].state == TRP_TPE_RUNS;
        roles[i] = TRP_TPE_LEFT_OUT;
        if (key_of(trials, (int)i, budget, &keys[count])) {
            count++;
            roles[i] = TRP_TPE_BAD;
        } else if (runs && liar) {
            roles[i] = TRP_TPE_BAD;
        }
    }
    size_t wanted = trp_tpe_good(count, trials->objectives);
    troupe_status status = TROUPE_OK;
    if (trials->objectives > 1)
        status = choose_complete(trials, keys, &count, &wanted, roles);
    if (status == TROUPE_OK)
        choose_first(keys, count, wanted, roles);
    trp_free(keys);
    return status;
}
