"""curves.py: sweeps of trials that are learning curves (benchmarks/tune/curves.h), for peers: the loop of
benchmarks/quality_curves.c around another scheduler."""

import ctypes
import math
import os

WORKERS = 8
BUDGET = 30

library = ctypes.CDLL(os.environ["TUNE_FUNCTIONS"])
library.tune_curves_open.restype = ctypes.c_void_p
library.tune_curves_open.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
library.tune_curves_close.argtypes = [ctypes.c_void_p]
for name in ("epochs", "trials"):
    getattr(library, "tune_curves_" + name).argtypes = [ctypes.c_void_p]
for name, arguments in (("score", 2), ("pace", 1), ("regret", 1)):
    function = getattr(library, "tune_curves_" + name)
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_void_p] + [ctypes.c_int] * arguments


def sweep(family, seed, make):
    """The regret of the trial whose last report is the best. `make(epochs, trials)` is a scheduler: `next()` names a
    trial to run, a new one or one that was paused, or None; `decide(trial, epoch, score)` says "go", "pause" or "stop";
    `ended(trial, score)`: it went to its end by itself."""
    curves = library.tune_curves_open(family.encode(), seed)
    epochs = library.tune_curves_epochs(curves)
    scheduler = make(epochs, library.tune_curves_trials(curves))
    running, epoch, last = {}, {}, {}
    now, left = 0.0, BUDGET * epochs
    while True:
        while len(running) < WORKERS:
            trial = scheduler.next()
            if trial is None:
                break
            epoch.setdefault(trial, 0)
            running[trial] = now + library.tune_curves_pace(curves, trial)
        if left == 0 or not running:
            break
        trial = min(running, key=lambda number: (running[number], number))
        now = running[trial]
        left -= 1
        epoch[trial] += 1
        last[trial] = library.tune_curves_score(curves, trial, epoch[trial])
        act = scheduler.decide(trial, epoch[trial], last[trial])
        if act == "go" and epoch[trial] < epochs:
            running[trial] = now + library.tune_curves_pace(curves, trial)
            continue
        del running[trial]
        if act == "go":
            scheduler.ended(trial, last[trial])
    best = min(sorted(last), key=lambda number: last[number])
    regret = library.tune_curves_regret(curves, best)
    library.tune_curves_close(curves)
    return regret


def print_regrets(peer, family, seeds, make):
    print("peer", peer)
    for seed in range(1, int(seeds) + 1):
        print(f"value {sweep(family, seed, lambda epochs, trials: make(epochs, trials, seed)):.17g}", flush=True)
