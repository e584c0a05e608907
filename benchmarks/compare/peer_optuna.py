"""peer_optuna.py: the rows of bench_quality and bench_tune in Optuna, as its users write them.

    peer_optuna quality <searcher> <function> <trials> <seeds>

Searches a function of benchmarks/tune with the seeds 1 to <seeds>. Prints "peer <name>", then "value <value>" for each
seed: the best score, or for two objectives the volume that all points dominate.

    peer_optuna curves <asha|hyperband> <family> <seeds>

The same for its pruners on learning curves, of which a value is the regret.

    peer_optuna tune <folder> ROW...

Prints "<row> <value>" for each of these rows of bench_tune: measure/tune.c does the same work.
"""

import ctypes
import json
import logging
import math
import os
import random
import sys
import time
import warnings

import optuna
from optuna.distributions import FloatDistribution

warnings.filterwarnings("ignore")
optuna.logging.set_verbosity(logging.ERROR)

SAMPLERS = {
    "default": lambda seed, objectives: default(seed, objectives),
    "random": lambda seed, objectives: optuna.samplers.RandomSampler(seed=seed),
    "sobol": lambda seed, objectives: optuna.samplers.QMCSampler(seed=seed, scramble=True),
    "tpe": lambda seed, objectives: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, constant_liar=True),
    "cmaes": lambda seed, objectives: optuna.samplers.CmaEsSampler(seed=seed),
    "gp": lambda seed, objectives: optuna.samplers.GPSampler(seed=seed),
    "nsga2": lambda seed, objectives: optuna.samplers.NSGAIISampler(seed=seed),
}


def default(seed, objectives):
    """What a study takes that is not given a sampler, seeded."""
    study = optuna.create_study(directions=["minimize"] * objectives)
    return type(study.sampler)(seed=seed)


class Functions:
    """benchmarks/tune/functions.h."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["TUNE_FUNCTIONS"])
        self.library.tune_function_named.restype = ctypes.c_void_p
        self.library.tune_function_named.argtypes = [ctypes.c_char_p]
        self.library.tune_describe.restype = ctypes.c_size_t
        self.library.tune_describe.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        self.library.tune_open.restype = ctypes.c_void_p
        self.library.tune_open.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.library.tune_close.argtypes = [ctypes.c_void_p]
        doubles = ctypes.POINTER(ctypes.c_double)
        self.library.tune_evaluate.argtypes = [ctypes.c_void_p, doubles, doubles]
        self.library.tune_volume.restype = ctypes.c_double
        self.library.tune_volume.argtypes = [doubles, ctypes.c_size_t]

    def named(self, name):
        function = self.library.tune_function_named(name.encode())
        if not function:
            sys.exit(f"peer_optuna: there is no function {name}")
        text = ctypes.create_string_buffer(16384)
        self.library.tune_describe(function, text, len(text))
        return function, json.loads(text.value)


def suggest(trial, dims):
    """Asks for each coordinate that counts, in the order of the space."""
    x = []
    for dim in dims:
        parent = dim["parent"]
        if parent >= 0 and not (not math.isnan(x[parent]) and dim["when"] >> int(x[parent]) & 1):
            x.append(math.nan)
        elif dim["kind"] == "choice":
            # Optuna has no ordered choices: a whole number is the next best.
            x.append(trial.suggest_int(dim["name"], 0, dim["choices"] - 1) if dim["ordered"] else
                     trial.suggest_categorical(dim["name"], list(range(dim["choices"]))))
        elif dim["kind"] == "integer":
            x.append(trial.suggest_int(dim["name"], int(dim["low"]), int(dim["high"]),
                                       step=max(int(dim["step"]), 1), log=dim["log"]))
        else:
            x.append(trial.suggest_float(dim["name"], dim["low"], dim["high"],
                                         step=dim["step"] or None, log=dim["log"]))
    return x


def search(functions, sampler, name, trials, seed):
    function, space = functions.named(name)
    objectives = space["objectives"]
    instance = functions.library.tune_open(function, seed)
    study = optuna.create_study(directions=["minimize"] * objectives,
                                sampler=SAMPLERS[sampler](seed, objectives))
    scores = (ctypes.c_double * (trials * objectives))()

    def evaluate(trial):
        x = suggest(trial, space["dims"])
        point = (ctypes.c_double * len(x))(*x)
        out = (ctypes.c_double * objectives)()
        functions.library.tune_evaluate(instance, point, out)
        scores[trial.number * objectives:(trial.number + 1) * objectives] = list(out)
        return tuple(out)

    study.optimize(evaluate, n_trials=trials)
    functions.library.tune_close(instance)
    if objectives > 1:
        return functions.library.tune_volume(scores, trials)
    return min(scores)


def quality(sampler, name, trials, seeds):
    functions = Functions()
    kind = type(SAMPLERS[sampler](1, functions.named(name)[1]["objectives"])).__name__
    print(f"peer Optuna {optuna.__version__} {kind}")
    for seed in range(1, int(seeds) + 1):
        print(f"value {search(functions, sampler, name, int(trials), seed):.17g}", flush=True)


class Pruned:
    """A study whose pruner is the scheduler of curves.py."""

    def __init__(self, pruner, name, seed, most):
        self.most = most
        self.study = optuna.create_study(study_name=f"{name}-{seed}", pruner=pruner,
                                         sampler=optuna.samplers.RandomSampler(seed=seed))
        self.trials = []

    def next(self):
        if len(self.trials) == self.most:
            return None
        self.trials.append(self.study.ask())
        return len(self.trials) - 1

    def decide(self, number, epoch, score):
        trial = self.trials[number]
        trial.report(score, epoch)
        if not trial.should_prune():
            return "go"
        self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return "stop"

    def ended(self, number, score):
        self.study.tell(self.trials[number], score)


def curves(name, family, seeds):
    from curves import print_regrets
    pruners = optuna.pruners
    make = {"asha": lambda epochs: pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=4),
            "hyperband": lambda epochs: pruners.HyperbandPruner(min_resource=1, max_resource=epochs,
                                                                reduction_factor=3)}[name]
    print_regrets(f"Optuna {optuna.__version__} {type(make(81)).__name__}", family, seeds,
                  lambda epochs, trials, seed: Pruned(make(epochs), family, seed, trials))


# Samplers that keep what they know in trials that they have suggested are measured from the first trial on; the others
# learn from random points that are added, which takes less time. How many trials count; None: the last tenth.
COUNTED = {"random": None, "sobol": None, "cmaes": None, "nsga2": None, "tpe": 50, "gp": 3}
SLOW = 5000  # With so many trials fewer of TPE's count, and one of the Gaussian process's with a tenth of them.
RECORDS = 100
REOPENED = 80000


def space(dims):
    return {f"x{i}": FloatDistribution(-5, 5) for i in range(dims)}


def step(study, distributions, objectives=1):
    trial = study.ask(distributions)
    x = trial.params.values()
    first = sum(a * a for a in x)
    study.tell(trial, first if objectives == 1 else [first, sum((a - 1) * (a - 1) for a in x)])


def add_points(study, distributions, count):
    draw = random.Random(1)
    trials = []
    for _ in range(count):
        x = {name: draw.uniform(-5, 5) for name in distributions}
        trials.append(optuna.trial.create_trial(params=x, distributions=distributions,
                                                value=sum(a * a for a in x.values())))
    study.add_trials(trials)


def warm_up(sampler, dims, objectives):
    """What the first suggestion loads (PyTorch) is not what suggestions cost."""
    study = optuna.create_study(directions=["minimize"] * objectives,
                                sampler=SAMPLERS[sampler](1, objectives))
    for _ in range(12):
        step(study, space(dims), objectives)


def suggestions(sampler, dims, trials):
    """Microseconds from a question to the answer being known, with so many trials."""
    objectives = 2 if sampler == "nsga2" else 1
    warm_up(sampler, dims, objectives)
    study = optuna.create_study(directions=["minimize"] * objectives,
                                sampler=SAMPLERS[sampler](1, objectives))
    distributions = space(dims)
    counted = COUNTED[sampler] or trials // 10
    if COUNTED[sampler]:
        if sampler == "gp" and trials * 10 >= SLOW:
            counted = 1
        if trials >= SLOW:
            counted = 20
        add_points(study, distributions, trials - counted)
    else:
        for _ in range(trials - counted):
            step(study, distributions, objectives)
    start = time.perf_counter()
    for _ in range(counted):
        step(study, distributions, objectives)
    return (time.perf_counter() - start) * 1e6 / counted


def journal(path):
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))


def records(folder):
    path = os.path.join(folder, "journal.log")
    study = optuna.create_study(storage=journal(path),
                                sampler=optuna.samplers.RandomSampler(seed=1))
    start = time.perf_counter()
    for _ in range(RECORDS):
        step(study, space(5))
    os.unlink(path)
    return (time.perf_counter() - start) * 1e6 / RECORDS


def reopening(folder):
    """Milliseconds from a file with so many trials to one more. The file is made of copies of one trial's lines."""
    path = os.path.join(folder, "reopen.log")
    study = optuna.create_study(storage=journal(path), study_name="reopened",
                                sampler=optuna.samplers.RandomSampler(seed=1))
    head = open(path).read()
    step(study, space(5))
    lines = [json.loads(line) for line in open(path).read()[len(head):].splitlines()]
    with open(path, "w") as file:
        file.write(head)
        for number in range(REOPENED):
            for line in lines:
                if "trial_id" in line:
                    line["trial_id"] = number
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
    start = time.perf_counter()
    study = optuna.load_study(storage=journal(path), study_name="reopened",
                              sampler=optuna.samplers.RandomSampler(seed=2))
    step(study, space(5))
    passed = time.perf_counter() - start
    if len(study.trials) != REOPENED + 1:
        sys.exit(f"peer_optuna: {len(study.trials)} trials in the journal")
    os.unlink(path)
    return passed * 1e3


def tune(folder, *rows):
    for row in rows:
        if row.startswith("tune.suggest."):
            sampler, dims, trials = row.split(".")[2:]
            value = suggestions(sampler, int(dims), int(trials))
        elif row.startswith("tune.record"):
            value = records(folder)
        elif row.startswith("tune.reopen"):
            value = reopening(folder)
        else:
            sys.exit(f"peer_optuna: there is no row {row}")
        print(f"{row} {value:.9g}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "quality":
        quality(*sys.argv[2:])
    elif sys.argv[1] == "curves":
        curves(*sys.argv[2:])
    elif sys.argv[1] == "tune":
        tune(*sys.argv[2:])
    else:
        sys.exit(__doc__)
