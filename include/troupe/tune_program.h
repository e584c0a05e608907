// tune_program.h: sweeps over a program that knows nothing of Troupe: `troupe tune` as a function.
//
// Each trial is a run of the program with the trial's values in its arguments; each line of its
// standard output that is a JSON object is a report of the numbers in it, as {"epoch": 3, "loss":
// 0.5}: print a line and flush it. A trial that is to end gets SIGTERM, and SIGKILL 2 s later.
#ifndef TROUPE_TUNE_PROGRAM_H
#define TROUPE_TUNE_PROGRAM_H

#include <troupe/tune.h>

TROUPE_BEGIN_C

// Begins a sweep over a program, as troupe_sweep_start does over a trainer; the same functions wait
// for it, show it and free it. A trial's config is JSON alone: troupe_sweep_best_json.
//
// `json`: what is searched and how, as {"space": {"lr": {"log_uniform": [1e-4, 1]}}, "metric":
// "loss", "goal": "minimize"}; a space is that of troupe_space_parse. It may have "objectives" (a
// list of {"metric", "goal"}) instead of metric and goal, and "trials", "concurrent", "retries",
// "seed", "time_budget_s", "trial_timeout_s", "target", "patience", "columns", "name", "storage",
// "resources" ({"cpus", "gpus"} of a trial), "server" (true: its trials are the train server's),
// "first" (a list of points to try first, as [{"lr": 0.1}]), "warm" (a list of files to learn
// from), "constraints" (a list of what must hold of each point, as ["width * depth <= 1024"]: sums
// and products of parameters and numbers, compared), "searcher" and "scheduler": a name ("tpe",
// "asha" ..) or {"asha": {"reduction": 3}}, with the fields of its constructor's options; beside a
// searcher "repeats", as of troupe_search_repeat, and beside a scheduler "stop", with the fields of
// troupe_stop_when.
//
// `arguments`: the program, which is looked for along PATH, and what it is given. In each,
// "{lr}" is replaced by that value of the trial, "{plan.steps}" by a nested one, "{params}" by all
// of them as JSON, "{trial}" by the trial's number; "{{" is a brace. The program has TROUPE_CONFIG
// (the params) and TROUPE_TRIAL in its environment too, beside what troupe/process.h lists. A value
// that does not count in a trial is an empty text.
//
// `how`: what it says holds over the file; NULL: nothing. Its metric and goal are the file's. What
// its .first points to, and what its .allowed is given, are texts: configs as JSON. Without a name
// the sweep has the program's, or that of the script which python3 and the like run.
//
// TROUPE_MALFORMED, TROUPE_WRONG_TYPE, TROUPE_INVALID: the file, by the member that is wrong, or an
// argument that names what the space lacks; TROUPE_NOT_FOUND: there is no such program; else as
// troupe_sweep_start.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status
troupe_tune_program_with(const char *json, const char *const *arguments, size_t count,
                         troupe_sweep **sweep, const troupe_tune_options *how);
#define troupe_tune_program(...) TROUPE_TUNE_PROGRAM_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TUNE_PROGRAM_(json, arguments, count, sweep, ...)                                   \
    troupe_tune_program_with(                                                                      \
        (json), (arguments), (count), (sweep),                                                     \
        &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})

// The same over a version of the repository of models, without any code of the model: each trial is
// a troupe_submit_stored of the version. `json` as above; a space names members of the version's
// config, as {"rate": {"log_uniform": [1e-4, 1]}, "fitting.epochs": 5}, and may be left out: then
// it is the one that the model brought along, as of troupe_tune_stored. Errors also as those of
// that.
TROUPE_EXPERIMENTAL TROUPE_MUST_USE troupe_status troupe_tune_model_with(
    const char *json, const char *ref, troupe_sweep **sweep, const troupe_tune_options *how);
#define troupe_tune_model(...) TROUPE_TUNE_MODEL_(__VA_ARGS__, .unused_ = 0)
#define TROUPE_TUNE_MODEL_(json, ref, sweep, ...)                                                  \
    troupe_tune_model_with(                                                                        \
        (json), (ref), (sweep),                                                                    \
        &(troupe_tune_options){.size = sizeof(troupe_tune_options), __VA_ARGS__})

TROUPE_END_C

#endif
