// sweep_file.c: see tune/command/sweep_file.h.
#include <tune/command/sweep_file.h>

#include <runtime/base/error.h>
#include <runtime/codec/json.h>
#include <stdio.h>
#include <string.h>
#include <tune/command/makers.h>

TROUPE_STRUCT(sweep_members, (troupe_text, metric), (troupe_text, goal), (int, trials),
              (int, concurrent), (int, retries), (uint64_t, seed), (double, time_budget_s),
              (double, trial_timeout_s), (double, target), (int, patience), (troupe_text, columns),
              (troupe_text, name), (troupe_text, storage), (bool, server));
TROUPE_STRUCT(sweep_resources, (double, cpus), (double, gpus));
TROUPE_STRUCT(sweep_objective, (troupe_text, metric), (troupe_text, goal));

// ---- members

// Names what the object has and the type and the other names have not: a slip of the pen would be
// passed over for good.
troupe_status trp_sweep_members_known(trp_json object, const troupe_type *type,
                                      const char *const *others, const char *where)
{
    trp_json at = {0}, name, value;
    while (trp_json_next_member(object, &at, &name, &value)) {
        bool known = false;
        for (size_t i = 0; type != NULL && i < type->field_count && !known; i++)
            known = trp_json_equals(name, type->fields[i].name);
        for (size_t i = 0; others != NULL && others[i] != NULL && !known; i++)
            known = trp_json_equals(name, others[i]);
        if (known)
            continue;
        trp_buffer list = {0};
        for (size_t i = 0; type != NULL && i < type->field_count; i++)
            trp_buffer_printf(&list, "%s%s", i > 0 ? ", " : "", type->fields[i].name);
        for (size_t i = 0; others != NULL && others[i] != NULL; i++)
            trp_buffer_printf(&list, "%s%s", list.size > 0 ? ", " : "", others[i]);
        troupe_status status = troupe_fail(
            TROUPE_INVALID, "%s has %.*s, which means nothing: expected one of %.*s", where,
            name.size < 80 ? (int)name.size : 80, name.at, list.failed ? 0 : (int)list.size,
            list.size > 0 ? (const char *)list.data : "");
        trp_buffer_free(&list);
        return status;
    }
    return TROUPE_OK;
}

static troupe_status read_goal(const char *text, const char *where, troupe_goal *goal)
{
    static const char *const names[] = {"minimize", "min", "maximize", "max"};
    for (int i = 0; text != NULL && i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            *goal = i < 2 ? TROUPE_MINIMIZE : TROUPE_MAXIMIZE;
            return TROUPE_OK;
        }
    if (text == NULL)
        return troupe_fail(TROUPE_INVALID,
                           "%s has no \"goal\": expected \"minimize\" or "
                           "\"maximize\"",
                           where);
    return troupe_fail(TROUPE_INVALID,
                       "\"goal\" of %s is \"%.80s\": expected \"minimize\" or \"maximize\"", where,
                       text);
}

static troupe_status read_objectives(trp_json list, trp_arena *arena, trp_sweep_file *file)
{
    trp_json item = {0};
    if (!trp_json_is_array(list))
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "\"objectives\" is no list, as in [{\"metric\": \"loss\", \"goal\": "
                           "\"minimize\"}]");
    while (trp_json_next_item(list, &item)) {
        sweep_objective one = {0};
        if (file->objective_count == TRP_FILE_OBJECTIVES_MAX)
            return troupe_fail(TROUPE_INVALID, "there are more than %d objectives",
                               (int)TRP_FILE_OBJECTIVES_MAX);
        TROUPE_TRY(
            trp_sweep_members_known(item, &troupe_type_sweep_objective, NULL, "an objective"));
        TROUPE_TRY(trp_json_read(&troupe_type_sweep_objective, item, arena, &one));
        if (one.metric == NULL)
            return troupe_fail(TROUPE_INVALID, "objective %zu has no \"metric\"",
                               file->objective_count);
        TROUPE_TRY(read_goal(one.goal, "an objective", &file->goals[file->objective_count]));
        file->metrics[file->objective_count++] = one.metric;
    }
    if (file->objective_count == 0)
        return troupe_fail(TROUPE_INVALID, "\"objectives\" is empty");
    file->metric = file->metrics[0];
    file->goal = file->goals[0];
    return TROUPE_OK;
}

static troupe_status read_target(trp_json whole, const sweep_members *members, trp_arena *arena,
                                 trp_sweep_file *file)
{
    trp_json list;
    if (trp_json_member(whole, "objectives", &list)) {
        if (members->metric != NULL || members->goal != NULL)
            return troupe_fail(TROUPE_INVALID, "the sweep has \"objectives\" and \"metric\" or "
                                               "\"goal\": expected either");
        return read_objectives(list, arena, file);
    }
    if (members->metric == NULL || members->metric[0] == '\0')
        return troupe_fail(TROUPE_INVALID, "the sweep has no \"metric\": expected the name of a "
                                           "number that each trial reports");
    file->metric = file->metrics[0] = members->metric;
    file->objective_count = 1;
    TROUPE_TRY(read_goal(members->goal, "the sweep", &file->goal));
    file->goals[0] = file->goal;
    return TROUPE_OK;
}

// What is zero for a default in C is a slip of the pen where it is written down.
static troupe_status check_numbers(trp_json whole)
{
    static const struct {
        const char *name;
        bool may_be_zero;
    } rows[] = {{"trials", false},
                {"concurrent", false},
                {"retries", true},
                {"time_budget_s", false},
                {"trial_timeout_s", false},
                {"patience", true},
                {"cpus", false},
                {"gpus", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trp_json given;
        double value;
        if (!trp_json_member(whole, rows[i].name, &given))
            continue;
        TROUPE_TRY(trp_json_read(&troupe_type_double, given, NULL, &value));
        if (!(value > 0) && !(value == 0 && rows[i].may_be_zero))
            return troupe_fail(TROUPE_INVALID, "\"%s\" is %g: expected a number %s", rows[i].name,
                               value, rows[i].may_be_zero ? "that is not negative" : "above 0");
    }
    return TROUPE_OK;
}

static troupe_status read_resources(trp_json whole, trp_arena *arena, trp_sweep_file *file)
{
    trp_json value;
    sweep_resources resources = {0};
    if (!trp_json_member(whole, "resources", &value))
        return TROUPE_OK;
    if (!trp_json_is_object(value))
        return troupe_fail(TROUPE_WRONG_TYPE,
                           "\"resources\" is no object, as in {\"cpus\": 1, \"gpus\": 0.5}");
    TROUPE_TRY(trp_sweep_members_known(value, &troupe_type_sweep_resources, NULL, "\"resources\""));
    TROUPE_TRY(trp_json_read(&troupe_type_sweep_resources, value, arena, &resources));
    TROUPE_TRY(check_numbers(value));
    file->cpus = resources.cpus;
    file->gpus = resources.gpus;
    return TROUPE_OK;
}

static char *copy_text(trp_json value, trp_arena *arena)
{
    char *text = trp_arena_alloc(arena, value.size + 1);
    if (text == NULL)
        return NULL;
    memcpy(text, value.at, value.size);
    text[value.size] = '\0';
    return text;
}

static troupe_status no_memory(void)
{
    return troupe_fail(TROUPE_NO_MEMORY, "no memory for a sweep");
}

// A list, where there is one, and room for what is in it; else *room stays as it is.
static troupe_status read_list(trp_json whole, const char *name, const char *as, trp_arena *arena,
                               trp_json *list, const void ***room)
{
    trp_json item = {0};
    size_t count = 0;
    *list = (trp_json){0};
    if (!trp_json_member(whole, name, list))
        return TROUPE_OK;
    if (!trp_json_is_array(*list))
        return troupe_fail(TROUPE_WRONG_TYPE, "\"%s\" is no list, as in %s", name, as);
    while (trp_json_next_item(*list, &item))
        count++;
    *room = (const void **)trp_arena_alloc(arena, (count + 1) * sizeof **room);
    return *room == NULL ? no_memory() : TROUPE_OK;
}

// The points to try first, which the study looks at.
static troupe_status read_first(trp_json whole, trp_arena *arena, trp_sweep_file *file)
{
    trp_json list, item = {0};
    TROUPE_TRY(read_list(whole, "first", "[{\"lr\": 0.1}]", arena, &list, &file->first));
    while (file->first != NULL && trp_json_next_item(list, &item)) {
        if (!trp_json_is_object(item))
            return troupe_fail(TROUPE_WRONG_TYPE,
                               "\"first\" has %.*s: expected an object, as in {\"lr\": 0.1}",
                               item.size < 80 ? (int)item.size : 80, item.at);
        if ((file->first[file->first_count++] = copy_text(item, arena)) == NULL)
            return no_memory();
    }
    return TROUPE_OK;
}

static troupe_status read_warm(trp_json whole, trp_arena *arena, trp_sweep_file *file)
{
    trp_json list, item = {0};
    const void **room = NULL;
    TROUPE_TRY(read_list(whole, "warm", "[\"runs/before/trials.jsonl\"]", arena, &list, &room));
    file->warm = (const char **)room;
    while (room != NULL && trp_json_next_item(list, &item)) {
        troupe_text path = NULL;
        if (trp_json_is_text(item))
            TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, item, arena, &path));
        if (path == NULL)
            return troupe_fail(TROUPE_WRONG_TYPE,
                               "\"warm\" has %.*s: expected the path of a trials.jsonl or of a "
                               "study's file",
                               item.size < 80 ? (int)item.size : 80, item.at);
        room[file->warm_count++] = path;
    }
    return TROUPE_OK;
}

// Behind the space, whose names they have.
static troupe_status read_constraints(trp_json whole, trp_arena *arena, trp_sweep_file *file)
{
    trp_json list, item = {0}, space;
    const void **room = NULL;
    bool known = trp_json_member(whole, "space", &space);
    TROUPE_TRY(read_list(whole, "constraints", "[\"width * depth <= 1024\"]", arena, &list, &room));
    while (room != NULL && trp_json_next_item(list, &item)) {
        troupe_text text = NULL;
        if (trp_json_is_text(item))
            TROUPE_TRY(trp_json_read(&troupe_type_troupe_text, item, arena, &text));
        if (text == NULL)
            return troupe_fail(TROUPE_WRONG_TYPE,
                               "\"constraints\" has %.*s: expected a text, as \"width * depth <= "
                               "1024\"",
                               item.size < 80 ? (int)item.size : 80, item.at);
        TROUPE_TRY(trp_constraint_check(text, known ? &space : NULL));
        room[file->constraints.count++] = text;
    }
    file->constraints.texts = (const char *const *)room;
    return TROUPE_OK;
}

static troupe_status read_goal_value(trp_json whole, double target, trp_arena *arena,
                                     trp_sweep_file *file)
{
    trp_json value;
    if (!trp_json_member(whole, "target", &value))
        return TROUPE_OK;
    double *kept = trp_arena_alloc(arena, sizeof *kept);
    if (kept == NULL)
        return no_memory();
    *kept = target;
    file->target = kept;
    return TROUPE_OK;
}

static troupe_status read_space(trp_json whole, bool own_space, trp_arena *arena,
                                trp_sweep_file *file)
{
    trp_json value;
    bool has = trp_json_member(whole, "space", &value);
    if (!has && own_space)
        return TROUPE_OK;
    if (!has)
        return troupe_fail(TROUPE_INVALID, "the sweep has no \"space\": expected an object, as in "
                                           "{\"lr\": {\"log_uniform\": [1e-4, 1]}}");
    file->space_text = copy_text(value, arena);
    return file->space_text == NULL ? no_memory()
                                    : troupe_space_parse(file->space_text, &file->space);
}

static troupe_status read_whole(trp_json whole, bool own_space, trp_arena *arena,
                                trp_sweep_file *file)
{
    static const char *const others[] = {"space",     "objectives",  "searcher",
                                         "scheduler", "resources",   "first",
                                         "warm",      "constraints", NULL};
    sweep_members members = {0};
    trp_json value;
    if (!trp_json_is_object(whole))
        return troupe_fail(TROUPE_WRONG_TYPE, "the sweep is no object of JSON");
    TROUPE_TRY(trp_sweep_members_known(whole, &troupe_type_sweep_members, others, "the sweep"));
    TROUPE_TRY(trp_json_read(&troupe_type_sweep_members, whole, arena, &members));
    file->trials = members.trials;
    file->concurrent = members.concurrent;
    file->retries = members.retries;
    file->seed = members.seed;
    file->time_budget_s = members.time_budget_s;
    file->trial_timeout_s = members.trial_timeout_s;
    file->patience = members.patience;
    file->columns = members.columns;
    file->name = members.name;
    file->storage = members.storage;
    file->server = members.server;
    TROUPE_TRY(read_target(whole, &members, arena, file));
    TROUPE_TRY(read_resources(whole, arena, file));
    TROUPE_TRY(check_numbers(whole));
    TROUPE_TRY(read_goal_value(whole, members.target, arena, file));
    TROUPE_TRY(read_first(whole, arena, file));
    TROUPE_TRY(read_warm(whole, arena, file));
    TROUPE_TRY(read_space(whole, own_space, arena, file));
    TROUPE_TRY(read_constraints(whole, arena, file));
    if (trp_json_member(whole, "searcher", &value))
        TROUPE_TRY(trp_make_searcher(value, arena, &file->searcher));
    if (trp_json_member(whole, "scheduler", &value))
        TROUPE_TRY(trp_make_scheduler(value, arena, &file->scheduler));
    return TROUPE_OK;
}

troupe_status trp_sweep_file_read(const char *text, size_t size, bool own_space, trp_arena *arena,
                                  trp_sweep_file *file)
{
    trp_json whole;
    *file = (trp_sweep_file){0};
    TROUPE_TRY(trp_json_parse(text, size, &whole));
    troupe_status status = read_whole(whole, own_space, arena, file);
    if (status != TROUPE_OK) {
        troupe_error failure = *troupe_last_error();
        trp_sweep_file_close(file);
        trp_error_set(&failure);
    }
    return status;
}

void trp_sweep_file_close(trp_sweep_file *file)
{
    troupe_space_free(&file->space);
    troupe_searcher_free(&file->searcher);
    troupe_scheduler_free(&file->scheduler);
}
