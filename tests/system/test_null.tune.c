// test_null.tune.c: NULL in the public functions of searches, see test_null.c.
#include <null_calls.h>
#include <stdlib.h>

static size_t size;

void null_spaces(void **state)
{
    (void)state;
    const troupe_param rows[] = {TROUPE_INTEGER(pair, left, 1, 2)};
    const double x = 1;
    troupe_space *space = NULL;
    pair config;
    REFUSED(troupe_space_open_as, (NULL, rows, 1, NULL, &space), "config");
    REFUSED(troupe_space_open_as, (&troupe_type_pair, NULL, 1, NULL, &space), "rows");
    REFUSED(troupe_space_open_as, (&troupe_type_pair, rows, 1, NULL, NULL), "space");
    REFUSED(troupe_space_parse, (NULL, &space), "json");
    REFUSED(troupe_space_parse, ("{}", NULL), "space");
    UNABLE(troupe_space_dims, (NULL, &size), "space");
    UNABLE(troupe_space_json, (NULL, &x), "space");
    HARMLESS(troupe_space_config, (NULL, &x, &config));
    assert_int_equal(troupe_space_open(pair, rows, &space), TROUPE_OK);
    UNABLE(troupe_space_dims, (space, NULL), "count");
    UNABLE(troupe_space_json, (space, NULL), "x");
    HARMLESS(troupe_space_config, (space, NULL, &config));
    HARMLESS(troupe_space_config, (space, &x, NULL));
    troupe_space_free(&space);
    HARMLESS(troupe_space_register, (NULL));
    HARMLESS(troupe_space_free, (NULL));
    HARMLESS(troupe_space_free, (&space));
    assert_int_equal(null_faults, 0);
}

void null_studies(void **state)
{
    (void)state;
    const troupe_param rows[] = {TROUPE_INTEGER(pair, left, 1, 2)};
    troupe_space *space = NULL;
    troupe_study *study = NULL;
    troupe_asked asked;
    troupe_act act;
    double value = 1;
    assert_int_equal(troupe_space_open(pair, rows, &space), TROUPE_OK);
    REFUSED(troupe_study_open_with, (NULL, &study, NULL), "space");
    REFUSED(troupe_study_open_with, (space, NULL, NULL), "study");
    REFUSED(troupe_study_ask, (NULL, &asked), "study");
    REFUSED(troupe_study_report, (NULL, 0, 1, &act), "study");
    REFUSED(troupe_study_tell, (NULL, 0, 1), "study");
    REFUSED(troupe_study_tell_values, (NULL, 0, &value, 0), "study");
    REFUSED(troupe_study_tell_failed, (NULL, 0, NULL), "study");
    REFUSED(troupe_study_sync, (NULL), "study");
    SILENT(troupe_study_count, (NULL));
    SILENT(troupe_study_trial_at, (NULL, 0));
    SILENT(troupe_study_best, (NULL));
    SILENT(troupe_study_front, (NULL, &size));
    assert_int_equal(troupe_study_open_with(space, &study, NULL), TROUPE_OK);
    REFUSED(troupe_study_ask, (study, NULL), "asked");
    assert_int_equal(troupe_study_ask(study, &asked), TROUPE_OK);
    REFUSED(troupe_study_report, (study, 0, 1, NULL), "act");
    REFUSED(troupe_study_tell_values, (study, 0, NULL, 0), "values");
    SILENT(troupe_study_front, (study, NULL));
    assert_int_equal(troupe_study_tell_failed(study, 0, NULL), TROUPE_OK);
    HARMLESS(troupe_study_free, (&study));
    HARMLESS(troupe_study_free, (&study));
    HARMLESS(troupe_study_free, (NULL));
    troupe_space_free(&space);
    assert_int_equal(null_faults, 0);
}

// Schedulers are never NULL; whoever is given one that is refused says why.
static void made(const char *name, troupe_scheduler *scheduler, troupe_status refusal)
{
    null_note(name);
    assert_non_null(scheduler);
    assert_int_equal(scheduler->refusal, refusal);
    troupe_scheduler_free(&scheduler);
}

void null_schedulers(void **state)
{
    (void)state;
    made("troupe_asha_with", troupe_asha_with(NULL), TROUPE_OK); // All defaults.
    made("troupe_hyperband_with", troupe_hyperband_with(NULL), TROUPE_OK);
    made("troupe_median_with", troupe_median_with(NULL), TROUPE_OK);
    made("troupe_pbt_with", troupe_pbt_with(NULL), TROUPE_OK);
    made("troupe_pbt_replay", troupe_pbt_replay(NULL, 0), TROUPE_INVALID);
    made("troupe_resizing_with", troupe_resizing_with(NULL, NULL), TROUPE_INVALID); // No cpus.
    made("troupe_stopping", troupe_stopping(NULL, NULL), TROUPE_INVALID);           // No condition.
}

void null_results(void **state)
{
    (void)state;
    troupe_results *results = NULL;
    const troupe_trial_results *best;
    const troupe_trial *trial;
    double value;
    char *folder = support_directory_make(), *path = support_path(folder, "trials.jsonl");
    support_write_file(path, "{\"event\": \"sweep\"}\n", 19);
    REFUSED(troupe_results_open, (NULL, &results), "path");
    REFUSED(troupe_results_open, ("none", NULL), "results");
    REFUSED(troupe_sweep_results, (NULL, &results), "sweep");
    SILENT(troupe_results_count, (NULL));
    SILENT(troupe_results_trial, (NULL, 0));
    REFUSED(troupe_results_value_with, (NULL, 0, &value, NULL), "results");
    REFUSED(troupe_results_best_with, (NULL, &best, &value, NULL), "results");
    REFUSED(troupe_sweep_best_by_with, (NULL, &trial, &value, NULL), "sweep");
    REFUSED(troupe_results_export_with, (NULL, stdout, NULL), "results");
    assert_int_equal(troupe_results_open(folder, &results), TROUPE_OK);
    REFUSED(troupe_results_value_with, (results, 0, NULL, NULL), "value");
    REFUSED(troupe_results_best_with, (results, NULL, &value, NULL), "trial");
    REFUSED(troupe_results_export_with, (results, NULL, NULL), "out");
    HARMLESS(troupe_results_free, (&results));
    HARMLESS(troupe_results_free, (&results));
    HARMLESS(troupe_results_free, (NULL));
    free(path);
    support_directory_remove(folder);
    assert_int_equal(null_faults, 0);
}

void null_why(void **state)
{
    (void)state;
    const troupe_dim dim = {.name = "x", .high = 1, .parent = -1};
    const troupe_param_importance *params;
    double x = 0, found;
    size_t count;
    troupe_best_trial best;
    REFUSED(troupe_importance_with, (NULL, 1, &x, &x, 1, &found, NULL), "dims");
    REFUSED(troupe_importance_with, (&dim, 1, NULL, &x, 1, &found, NULL), "points");
    REFUSED(troupe_importance_with, (&dim, 1, &x, NULL, 1, &found, NULL), "scores");
    REFUSED(troupe_importance_with, (&dim, 1, &x, &x, 1, NULL, NULL), "importance");
    SILENT(troupe_importance_with, (&dim, 1, &x, &x, 1, &found, NULL));
    REFUSED(troupe_importance_of_with, (NULL, &params, &count, NULL), "path");
    REFUSED(troupe_importance_of_with, ("none", NULL, &count, NULL), "params");
    REFUSED(troupe_importance_of_with, ("none", &params, NULL, NULL), "count");
    SILENT(troupe_importance_of_with, ("none", &params, &count, NULL));
    REFUSED(troupe_sweep_report, (NULL, "report.html"), "path");
    SILENT(troupe_sweep_report, ("none", NULL));
    REFUSED(troupe_best_trial_get, (NULL, &best, sizeof best), "path");
    REFUSED(troupe_best_trial_get, ("none", NULL, sizeof best), "best");
    REFUSED(troupe_best_trial_exec, (NULL), "path");
    REFUSED(troupe_best_trial_get_by_with, (NULL, &best, sizeof best, NULL), "path");
    REFUSED(troupe_best_trial_get_by_with, ("none", NULL, sizeof best, NULL), "best");
    REFUSED(troupe_best_trial_exec_by_with, (NULL, NULL), "path");
    assert_int_equal(null_faults, 0);
}
