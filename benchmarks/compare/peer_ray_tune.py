"""peer_ray_tune.py: the rows of sweeps of bench_tune in Ray Tune, as Ray's users write them.

    peer_ray_tune <folder> ROW...

Prints "<row> <value>" for each of these rows: measure/sweep.c does the same, with more reports and trials. Ray is
started before the first one, with the CPUs of the machine. Reports a second are counted from the first one that a
callback of the driver sees to the last one, trials from the call of fit to its return.
"""

import logging
import os
import sys
import tempfile
import time

ROWS = sys.argv[2:]
FOLDER = os.path.abspath(sys.argv[1])
# Of one run "files" are what Ray writes unless told otherwise (JSON, CSV and TensorBoard), of the other none.
REPORTS = 400
TRIALS = 20

import ray  # noqa: E402
from ray import tune  # noqa: E402


class Seen(tune.Callback):
    def __init__(self):
        self.first = self.last = None
        self.count = 0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.count += 1


def fit(config):
    for _ in range(config["reports"]):
        tune.report({"loss": config["x"]})


def run(trials, reports, files, row):
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "0" if files else "1"
    seen = Seen()
    tuner = tune.Tuner(
        fit,
        param_space={"x": tune.uniform(0, 1), "reports": reports},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=trials),
        run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(dir=FOLDER), callbacks=[seen], verbose=0),
    )
    start = time.monotonic()
    results = tuner.fit()
    passed = time.monotonic() - start
    if results.num_terminated != trials:
        sys.exit(f"peer_ray_tune: {results.num_terminated} of {trials} trials came to their end")
    value = trials / passed if reports == 1 else (seen.count - 1) / (seen.last - seen.first)
    print(f"{row} {value:.9g}", flush=True)


ray.init(num_cpus=os.cpu_count(), include_dashboard=False, logging_level=logging.ERROR)
for row in ROWS:
    if row.startswith("tune.results"):
        run(2, REPORTS, ".files" in row, row)
    elif row.startswith("tune.trials"):
        run(TRIALS, 1, True, row)
    else:
        sys.exit(f"peer_ray_tune: there is no row {row}")
