// study.c: opening studies: their options, what must be the same in one that goes on, and its end.
#include <tune/study/lines.h>

#include <inttypes.h>
#include <math.h>
#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/base/memory.h>
#include <runtime/base/options_take.h>
#include <runtime/base/require.h>
#include <stdio.h>
#include <string.h>
#include <tune/schedule/scheduler.h>
#include <tune/search/searcher.h>

const char *trp_study_name(const troupe_study *study)
{
    return study->record != NULL ? trp_tune_record_path(study->record) : "the study";
}

trp_tune_record *trp_study_record(troupe_study *study)
{
    return study->record;
}

// ---- options

static troupe_status check_counts(const troupe_study_options *how)
{
    if (how->trials < 0)
        return troupe_fail(TROUPE_INVALID,
                           "option .trials is %d: expected 0, for no limit, or more", how->trials);
    if (how->first_count > 0 && how->first == NULL)
        return troupe_fail(TROUPE_INVALID, "option .first is NULL, but .first_count is %zu",
                           how->first_count);
    if (how->first_count > INT32_MAX / 2)
        return troupe_fail(TROUPE_INVALID, "option .first_count is %zu: expected at most %d",
                           how->first_count, INT32_MAX / 2);
    for (size_t i = 0; i < how->first_count; i++) {
        if (how->first[i] == NULL)
            return troupe_fail(TROUPE_INVALID, "option .first[%zu] is NULL", i);
    }
    if (how->warm_count > 0 && how->warm == NULL)
        return troupe_fail(TROUPE_INVALID, "option .warm is NULL, but .warm_count is %zu",
                           how->warm_count);
    for (size_t i = 0; i < how->warm_count; i++) {
        if (how->warm[i] == NULL)
            return troupe_fail(TROUPE_INVALID, "option .warm[%zu] is NULL", i);
    }
    return TROUPE_OK;
}

static troupe_status check_goal(const char *name, troupe_goal goal)
{
    if (goal != TROUPE_MINIMIZE && goal != TROUPE_MAXIMIZE)
        return troupe_fail(TROUPE_INVALID,
                           "option %s is %d: expected TROUPE_MINIMIZE or TROUPE_MAXIMIZE", name,
                           (int)goal);
    return TROUPE_OK;
}

static troupe_status take_goals(troupe_study *study, const troupe_study_options *how)
{
    char name[32];
    if (how->goal_count > 0 && how->goals == NULL)
        return troupe_fail(TROUPE_INVALID, "option .goals is NULL, but .goal_count is %zu",
                           how->goal_count);
    if (how->goals != NULL && how->goal_count == 0)
        return troupe_fail(TROUPE_INVALID, "option .goals is set, but .goal_count is 0");
    if (how->goals != NULL && how->goal != TROUPE_GOAL_NONE)
        return troupe_fail(TROUPE_INVALID, "options .goal and .goals are both set: expected one");
    if (how->goal_count > TRP_OBJECTIVES_MAX)
        return troupe_fail(TROUPE_INVALID, "option .goal_count is %zu: expected at most %d",
                           how->goal_count, TRP_OBJECTIVES_MAX);
    study->objectives = how->goals == NULL ? 1 : how->goal_count;
    study->goals[0] = how->goal == TROUPE_GOAL_NONE ? TROUPE_MINIMIZE : how->goal;
    for (size_t i = 0; i < how->goal_count; i++)
        study->goals[i] = how->goals[i];
    for (size_t i = 0; i < study->objectives; i++) {
        snprintf(name, sizeof name, how->goals == NULL ? ".goal" : ".goals[%zu]", i);
        TROUPE_TRY(check_goal(name, study->goals[i]));
    }
    return TROUPE_OK;
}

static troupe_status check_objects(const troupe_study *study)
{
    const troupe_searcher *searcher = study->searcher;
    const troupe_scheduler *scheduler = study->scheduler;
    if (searcher->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION, "the searcher has .abi %u: expected TROUPE_ABI, %u",
                           searcher->abi, (unsigned)TROUPE_ABI);
    if (scheduler->abi != TROUPE_ABI)
        return troupe_fail(TROUPE_VERSION, "the scheduler has .abi %u: expected TROUPE_ABI, %u",
                           scheduler->abi, (unsigned)TROUPE_ABI);
    if (searcher->name == NULL || searcher->suggest == NULL || searcher->destroy == NULL)
        return troupe_fail(TROUPE_INVALID, "the searcher's table lacks its %s",
                           searcher->name == NULL      ? "name"
                           : searcher->suggest == NULL ? "suggest"
                                                       : "destroy");
    if (scheduler->describe == NULL || scheduler->decide == NULL || scheduler->destroy == NULL)
        return troupe_fail(TROUPE_INVALID, "the scheduler's table lacks its %s",
                           scheduler->describe == NULL ? "describe"
                           : scheduler->decide == NULL ? "decide"
                                                       : "destroy");
    if (searcher->refusal != TROUPE_OK)
        return troupe_fail(searcher->refusal, "%s", searcher->name);
    if (scheduler->refusal != TROUPE_OK)
        return troupe_fail(scheduler->refusal, "%s", scheduler->describe);
    return TROUPE_OK;
}

static bool point_allowed(const void *user, const double *x)
{
    return trp_study_allows((troupe_study *)user, x);
}

static troupe_status take_space(troupe_study *study, const troupe_space *space, int trials)
{
    study->space = space;
    study->dims = troupe_space_dims(space, &study->dim_count);
    uint64_t combinations = study->searcher->covers_grids ? 1 : trp_space_combinations(space);
    if (combinations > INT32_MAX / 2 ||
        (uint64_t)trials * combinations > INT32_MAX - (uint64_t)study->first_count)
        return troupe_fail(TROUPE_INVALID,
                           "%d trials for each of the %" PRIu64
                           " combinations of the space's grids: expected at most %d in all",
                           trials, combinations, INT32_MAX);
    study->combinations = combinations > 1 ? (int)combinations : 1;
    study->only_grids = combinations > 1;
    for (size_t i = 0; i < study->dim_count; i++)
        study->only_grids = study->only_grids && study->dims[i].grid;
    return TROUPE_OK;
}

// What was given of a point to try first; NaN: it was left out, and drawn.
static double *given_of(const troupe_study *study, const double *first)
{
    return study->first + (size_t)study->first_count * study->dim_count + (first - study->first);
}

static troupe_status make_rooms(troupe_study *study)
{
    size_t dims = study->dim_count;
    study->point = trp_alloc((3 * dims + study->objectives) * sizeof(double));
    study->first = trp_alloc((2 * (size_t)study->first_count * dims + 1) * sizeof(double));
    if (study->allowed != NULL && study->space->type != NULL)
        study->config = trp_alloc(study->space->type->size);
    if (study->point == NULL || study->first == NULL ||
        (study->allowed != NULL && study->space->type != NULL && study->config == NULL))
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a study");
    study->searcher_name = trp_strdup(study->searcher->name);
    study->scheduler_name = trp_strdup(study->scheduler->describe);
    if (study->searcher_name == NULL || study->scheduler_name == NULL)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a study");
    study->cloned = study->point + dims;
    study->kept = study->cloned + dims;
    study->scores = study->kept + dims;
    return TROUPE_OK;
}

// A point to try first, and behind all of them what was given of it.
static troupe_status take_first(troupe_study *study, int index, const void *given)
{
    double *x = study->first + (size_t)index * study->dim_count;
    troupe_status status;
    trp_json object;
    if (study->space->type != NULL) {
        status = trp_space_point(study->space, given, x);
    } else {
        status = trp_json_parse(given, strlen(given), &object);
        if (status == TROUPE_OK)
            status = trp_space_read_point(study->space, object, false, x);
    }
    if (status != TROUPE_OK)
        return trp_error_prefix("option .first[%d]", index);
    memcpy(given_of(study, x), x, study->dim_count * sizeof *x);
    trp_random random;
    trp_random_seed(&random, study->problem.seed, ~(uint64_t)index);
    trp_space_complete(study->space, &random, x);
    trp_space_settle(study->space, x);
    return TROUPE_OK;
}

// Of one that goes on it is the record's points that count: a larger space would draw others.
static troupe_status check_allowed(troupe_study *study)
{
    for (int i = 0; i < study->first_count; i++) {
        study->short_of_memory = false;
        if (trp_study_allows(study, study->first + (size_t)i * study->dim_count))
            continue;
        return study->short_of_memory
                   ? troupe_fail(TROUPE_NO_MEMORY, "no memory for a config to try first")
                   : troupe_fail(TROUPE_INVALID,
                                 "option .first[%d] is a config that .allowed does "
                                 "not allow",
                                 i);
    }
    return TROUPE_OK;
}

static troupe_status take_options(troupe_study *study, const troupe_space *space,
                                  const troupe_study_options *how)
{
    TROUPE_TRY(check_objects(study));
    TROUPE_TRY(check_counts(how));
    TROUPE_TRY(take_goals(study, how));
    study->first_count = (int)how->first_count;
    TROUPE_TRY(take_space(study, space, how->trials));
    study->allowed = how->allowed;
    study->user = how->user;
    study->best = -1;
    TROUPE_TRY(make_rooms(study));
    trp_study_take_total(study, how->trials);
    study->problem = (troupe_problem){.size = sizeof study->problem,
                                      .dims = study->dims,
                                      .dim_count = study->dim_count,
                                      .objectives = study->objectives,
                                      .seed = how->seed == 0 ? 1 : how->seed,
                                      .allowed = how->allowed != NULL ? point_allowed : NULL,
                                      .allowed_user = study};
    for (int i = 0; i < study->first_count; i++)
        TROUPE_TRY(take_first(study, i, how->first[i]));
    return TROUPE_OK;
}

static troupe_status begin_objects(troupe_study *study)
{
    troupe_searcher *searcher = study->searcher;
    troupe_scheduler *scheduler = study->scheduler;
    study->problem.trials = study->total; // As at first: what was decided hangs on it.
    if (study->earlier_count > 0 && !study->searcher->covers_grids)
        study->problem.trials =
            trp_study_total_of(study, study->trials, study->earlier[0].combinations);
    if (searcher->begin != NULL)
        TROUPE_TRY(searcher->begin(searcher, &study->problem));
    return scheduler->begin != NULL ? scheduler->begin(scheduler, &study->problem) : TROUPE_OK;
}

// ---- a study that begins

static troupe_status begin_study(troupe_study *study, const troupe_study_options *how)
{
    trp_buffer lines = {0}, line = {0};
    int warm = 0;
    TROUPE_TRY(check_allowed(study));
    TROUPE_TRY(begin_objects(study));
    troupe_status status = trp_study_warm(study, how->warm, how->warm_count, &lines, &warm);
    if (status == TROUPE_OK && study->record != NULL) {
        trp_line_study(study, warm, &line);
        // All in one: a beginning that lacks some of these lines is begun anew. The record adds the
        // last line's end.
        if (lines.size > 0) {
            trp_buffer_append(&line, "}\n", 2);
            trp_buffer_append(&line, lines.data, lines.size - 2);
        }
        if (lines.failed || !trp_line_reserve(study, &line))
            status = troupe_fail(TROUPE_NO_MEMORY, "no memory for the first line of %s",
                                 trp_study_name(study));
        else
            trp_tune_record_add(study->record, &line);
    }
    trp_buffer_free(&line);
    trp_buffer_free(&lines);
    return status;
}

// ---- a study that goes on

static troupe_status differs(const troupe_study *study, const char *what, const char *was,
                             const char *is)
{
    return troupe_fail(TROUPE_EXISTS, "%s has another study: its %s was %.150s, and is %.150s now",
                       trp_study_name(study), what, was, is);
}

// The text of a JSON text, for people; cut where it is long.
static const char *plain(trp_json value, char *text, size_t room)
{
    bool quoted = trp_json_is_text(value) && value.size >= 2;
    snprintf(text, room, "%.*s", (int)(value.size - (quoted ? 2 : 0)), value.at + (quoted ? 1 : 0));
    return text;
}

static troupe_status check_text(const troupe_study *study, trp_json line, const char *name,
                                const char *is)
{
    char was[160];
    trp_json value;
    if (!trp_json_member(line, name, &value))
        return troupe_fail(TROUPE_CORRUPT, "the first line of the study in %s lacks \"%s\"",
                           trp_study_name(study), name);
    return trp_json_equals(value, is) ? TROUPE_OK
                                      : differs(study, name, plain(value, was, sizeof was), is);
}

static troupe_status check_goals(const troupe_study *study, trp_json line)
{
    trp_json goals, item = {0};
    size_t count = 0;
    bool same = trp_json_member(line, "goals", &goals);
    for (; same && trp_json_next_item(goals, &item); count++)
        same =
            count < study->objectives &&
            trp_json_equals(item, study->goals[count] == TROUPE_MAXIMIZE ? "maximize" : "minimize");
    return same && count == study->objectives
               ? TROUPE_OK
               : troupe_fail(TROUPE_EXISTS, "%s has another study: it has other goals",
                             trp_study_name(study));
}

static troupe_status check_seed(const troupe_study *study, trp_json line)
{
    char was[32], is[32];
    uint64_t seed = 0;
    trp_json value;
    if (!trp_json_member(line, "seed", &value) ||
        trp_json_read(&troupe_type_uint64_t, value, NULL, &seed) != TROUPE_OK)
        return troupe_fail(TROUPE_CORRUPT, "the first line of the study in %s lacks its seed",
                           trp_study_name(study));
    snprintf(was, sizeof was, "%" PRIu64, seed);
    snprintf(is, sizeof is, "%" PRIu64, study->problem.seed);
    return seed == study->problem.seed ? TROUPE_OK : differs(study, "seed", was, is);
}

static troupe_status other_first(const troupe_study *study)
{
    return troupe_fail(TROUPE_EXISTS, "%s has another study: it has other points to try first",
                       trp_study_name(study));
}

// That a point to try first is the one that the record has, which is taken over where the space was
// another: rows that are new were something then, and what was left out was drawn from that space.
static troupe_status take_recorded(troupe_study *study, trp_json item, double *x)
{
    const trp_extension *was = study->earlier_count > 0 ? &study->earlier[0] : NULL;
    const double *given = given_of(study, x);
    size_t dims = study->dim_count;
    double *before = was != NULL ? study->cloned : study->point;
    if (trp_line_read_numbers(item, "first", before, was != NULL ? was->dims : dims) != TROUPE_OK)
        return other_first(study);
    if (was != NULL && trp_extension_map(study->space, was, before, study->point) != TROUPE_OK)
        return trp_error_prefix("%s has another study", trp_study_name(study));
    for (size_t i = 0; i < dims; i++) {
        // A config has all its fields, also those that had no row before.
        bool compared =
            was == NULL || (!isnan(given[i]) && (was->from[i] >= 0 || study->space->type == NULL));
        if (compared && study->point[i] != x[i] && !(isnan(study->point[i]) && isnan(x[i])))
            return other_first(study);
    }
    memcpy(x, study->point, dims * sizeof *x);
    return TROUPE_OK;
}

static troupe_status check_first(troupe_study *study, trp_json line)
{
    trp_json all, item = {0};
    size_t count = 0;
    if (trp_json_member(line, "first", &all))
        for (; trp_json_next_item(all, &item); count++) {
            if (count >= (size_t)study->first_count)
                return other_first(study);
            TROUPE_TRY(take_recorded(study, item, study->first + count * study->dim_count));
        }
    return count == (size_t)study->first_count ? check_allowed(study) : other_first(study);
}

static troupe_status check_version(const troupe_study *study, trp_json line)
{
    int version = 0;
    trp_json value;
    if (!trp_json_member(line, "version", &value) ||
        trp_line_read_int(value, "version", &version) != TROUPE_OK || version < 1)
        return troupe_fail(TROUPE_CORRUPT, "the first line of the study in %s has no version",
                           trp_study_name(study));
    return version <= TRP_STUDY_VERSION
               ? TROUPE_OK
               : troupe_fail(TROUPE_VERSION,
                             "%s is of version %d of studies, and this library knows up to %d: it "
                             "needs a newer library",
                             trp_study_name(study), version, TRP_STUDY_VERSION);
}

// That the study is this one. Its number of trials is taken over.
static troupe_status check_same(troupe_study *study, const trp_study_past *past, size_t behind,
                                trp_json line, int *warm)
{
    trp_json value;
    int trials = 0;
    TROUPE_TRY(check_version(study, line));
    if (!trp_json_member(line, "space", &value))
        return troupe_fail(TROUPE_CORRUPT, "the first line of the study in %s has no space",
                           trp_study_name(study));
    TROUPE_TRY(trp_study_find_spaces(study, past, behind, value));
    TROUPE_TRY(check_goals(study, line));
    TROUPE_TRY(check_text(study, line, "searcher", study->searcher_name));
    TROUPE_TRY(check_text(study, line, "scheduler", study->scheduler_name));
    TROUPE_TRY(check_seed(study, line));
    TROUPE_TRY(check_first(study, line));
    *warm = 0;
    if (trp_json_member(line, "warm", &value))
        TROUPE_TRY(trp_line_read_int(value, "warm", warm));
    if (!trp_json_member(line, "trials", &value) ||
        trp_line_read_int(value, "trials", &trials) != TROUPE_OK || trials < 0 ||
        trials > trp_study_most(study, study->earlier_count > 0 ? &study->earlier[0] : NULL))
        return troupe_fail(TROUPE_CORRUPT, "the first line of the study in %s has no trials",
                           trp_study_name(study));
    trp_study_take_total(study, trials);
    return TROUPE_OK;
}

// Behind the next line, or the end of all.
static size_t next_line(const trp_study_past *past, size_t at)
{
    const char *end = memchr(past->lines + at, '\n', past->size - at);
    return end != NULL ? (size_t)(end + 1 - past->lines) : past->size;
}

// Whether so many trials of earlier studies follow.
static bool has_warm(const trp_study_past *past, size_t at, int count)
{
    for (; count > 0 && at < past->size; count--) {
        size_t next = next_line(past, at);
        if (trp_line_kind_of(past->lines + at, next - at) != TRP_LINE_WARM)
            return true; // It is damaged, and is told of then.
        at = next;
    }
    return count == 0;
}

static troupe_status visit_other(const trp_study_past *past, size_t at, size_t next)
{
    return past->visit == NULL ? TROUPE_OK
                               : past->visit(past->user, past->lines + at, next - at - 1, -1);
}

// As many trials as are wanted now. A sweep that asks for as many as at first has those that were
// added to it meanwhile; a grid may have become too large for these.
static troupe_status take_wanted(troupe_study *study, int wanted, int first)
{
    if (study->own || wanted != first)
        return trp_study_extend(study, wanted);
    if (study->trials <= trp_study_most(study, NULL))
        return TROUPE_OK;
    return troupe_fail(TROUPE_EXISTS,
                       "%s has %d trials for each combination of grids, of which there are %d now: "
                       "expected at most %d",
                       trp_study_name(study), study->trials, study->combinations,
                       trp_study_most(study, NULL));
}

// Goes on from the lines, if they have a study. *found: they have.
static troupe_status go_on(troupe_study *study, const trp_study_past *past, bool *found)
{
    size_t at = 0, line_number = 1;
    *found = false;
    for (; at < past->size; at = next_line(past, at), line_number++) {
        size_t next = next_line(past, at);
        if (trp_line_kind_of(past->lines + at, next - at) == TRP_LINE_STUDY)
            break;
        if (study->own)
            return troupe_fail(TROUPE_CORRUPT,
                               "%s is not the file of a study: its line %zu is none of one",
                               trp_study_name(study), line_number);
        TROUPE_TRY(visit_other(past, at, next));
    }
    if (at >= past->size)
        return TROUPE_OK;
    trp_json line;
    int warm;
    size_t behind = next_line(past, at);
    if (trp_json_parse(past->lines + at, behind - at, &line) != TROUPE_OK)
        return troupe_fail(TROUPE_CORRUPT, "%s: the first line of its study is damaged",
                           trp_study_name(study));
    int wanted = study->trials;
    TROUPE_TRY(check_same(study, past, behind, line, &warm));
    int first = study->trials;
    if (!has_warm(past, behind, warm)) { // Nobody has heard of it yet.
        trp_tune_record_cut(study->record, at);
        trp_study_free_spaces(study);
        trp_study_take_total(study, wanted);
        return TROUPE_OK;
    }
    *found = true;
    TROUPE_TRY(begin_objects(study));
    TROUPE_TRY(visit_other(past, at, behind));
    TROUPE_TRY(trp_study_repeat(study, past, behind, line_number));
    study->opens = true;
    TROUPE_TRY(trp_study_settle_space(study));
    TROUPE_TRY(take_wanted(study, wanted, first));
    trp_study_settle_exhausted(study);
    return TROUPE_OK;
}

// ---- opening and closing

static void destroy_objects(troupe_searcher *searcher, troupe_scheduler *scheduler)
{
    if (searcher != NULL && searcher->destroy != NULL)
        searcher->destroy(searcher);
    if (scheduler != NULL && scheduler->destroy != NULL)
        scheduler->destroy(scheduler);
}

void troupe_study_free(troupe_study **study)
{
    if (study == NULL || *study == NULL)
        return;
    troupe_study *freed = *study;
    *study = NULL;
    trp_study_free_trials(freed);
    trp_study_free_spaces(freed);
    trp_buffer_free(&freed->held);
    destroy_objects(freed->searcher, freed->scheduler);
    if (freed->own)
        trp_tune_record_close(&freed->record);
    trp_buffer_free(&freed->text);
    trp_free(freed->config);
    trp_free(freed->searcher_name);
    trp_free(freed->scheduler_name);
    trp_free(freed->first);
    trp_free(freed->point);
    trp_free(freed);
}

static troupe_status open_made(troupe_study *study, const troupe_space *space,
                               const troupe_study_options *how, const trp_study_past *past)
{
    bool found = false;
    TROUPE_TRY(take_options(study, space, how));
    if (past != NULL)
        TROUPE_TRY(go_on(study, past, &found));
    return found ? TROUPE_OK : begin_study(study, how);
}

// Consumes the objects.
static troupe_status open_with(const troupe_space *space, const troupe_study_options *how,
                               trp_tune_record *record, bool own, const trp_study_past *past,
                               troupe_study **study)
{
    troupe_searcher *searcher = how->searcher != NULL ? how->searcher : troupe_search_auto();
    troupe_scheduler *scheduler = how->scheduler != NULL ? how->scheduler : trp_fifo();
    troupe_study *made = trp_alloc(sizeof *made);
    if (made == NULL) {
        destroy_objects(searcher, scheduler);
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for a study");
    }
    made->searcher = searcher;
    made->scheduler = scheduler;
    made->record = record;
    made->own = own;
    made->now_s = trp_clock_s;
    troupe_status status = open_made(made, space, how, past);
    if (status != TROUPE_OK) {
        made->own = false; // The record is the caller's still.
        troupe_study_free(&made);
        return status;
    }
    *study = made;
    return TROUPE_OK;
}

troupe_status trp_study_open(const troupe_space *space, const troupe_study_options *how,
                             trp_tune_record *record, const trp_study_past *past,
                             troupe_study **study)
{
    return trp_error_settled(open_with(space, how, record, false, past, study));
}

// What a trial of one's own was to do when its process ended. One that the scheduler has ended is
// over; all others are to be given out again.
static troupe_status settle_own(troupe_study *study)
{
    for (int i = 0; i < study->count; i++) {
        trp_study_trial *trial = trp_study_at(study, i);
        if (trial->view.state != TROUPE_STUDY_RUNNING)
            continue;
        TROUPE_TRY(trp_study_settle(study, i));
        if (trial->view.state != TROUPE_STUDY_RUNNING)
            continue;
        trial->left = true;
        trial->repeats = trial->view.reports - trial->from;
        study->left++;
    }
    return TROUPE_OK;
}

static troupe_status open_own(const troupe_space *space, troupe_study **study,
                              const troupe_study_options *how)
{
    trp_tune_record *record = NULL;
    trp_buffer lines = {0};
    troupe_study *made = NULL;
    troupe_status status = TROUPE_OK;
    if (how->file != NULL)
        status = trp_tune_record_open(how->file, how->open, &lines, &record);
    if (status != TROUPE_OK) {
        destroy_objects(how->searcher, how->scheduler);
        return status;
    }
    const trp_study_past past = {.lines = (const char *)lines.data, .size = lines.size};
    status = open_with(space, how, record, true, record != NULL ? &past : NULL, &made);
    trp_buffer_free(&lines);
    if (status != TROUPE_OK) {
        trp_tune_record_abandon(&record);
        return status;
    }
    made->sync = how->sync;
    status = settle_own(made);
    if (status == TROUPE_OK)
        trp_study_opened(made);
    if (status == TROUPE_OK && made->sync)
        status = trp_tune_record_sync(record, true);
    if (status != TROUPE_OK) {
        troupe_study_free(&made);
        return status;
    }
    *study = made;
    return TROUPE_OK;
}

static troupe_status check_own(const troupe_study_options *how)
{
    if (how->file == NULL && (how->open != TROUPE_OPEN_NEW || how->sync))
        return troupe_fail(TROUPE_INVALID, "option .%s is set, and .file is not: expected both",
                           how->sync ? "sync" : "open");
    if ((int)how->open < 0 || how->open > TROUPE_OPEN_RESUME_OR_NEW)
        return troupe_fail(TROUPE_INVALID, "option .open is %d: expected a TROUPE_OPEN_",
                           how->open);
    return TROUPE_OK;
}

// A member of options of any version; the zero of it where they lack it.
#define MEMBER(how, member)                                                                        \
    ((how) != NULL && (how)->size >= offsetof(troupe_study_options, member) + sizeof(how)->member  \
         ? (how)->member                                                                           \
         : NULL)

troupe_status troupe_study_open_with(const troupe_space *space, troupe_study **study,
                                     const troupe_study_options *how)
{
    troupe_study_options options;
    troupe_status status = TROUPE_OK;
    if (TRP_IS_NULL(study))
        status = troupe_failed_(TRP_NULL(study));
    else
        *study = NULL;
    if (status == TROUPE_OK && TRP_IS_NULL(space))
        status = troupe_failed_(TRP_NULL(space));
    if (status == TROUPE_OK)
        status = TRP_OPTIONS_TAKE("troupe_study_open", options, how);
    if (status == TROUPE_OK)
        status = check_own(&options);
    if (status != TROUPE_OK) { // They are consumed, whatever happens.
        destroy_objects(MEMBER(how, searcher), MEMBER(how, scheduler));
        return status;
    }
    return trp_error_settled(open_own(space, study, &options));
}
