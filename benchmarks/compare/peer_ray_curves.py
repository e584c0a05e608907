"""peer_ray_curves.py: schedulers of Ray Tune on learning curves: rows of bench_quality.

    peer_ray_curves <asha|hyperband> <family> <seeds>

Prints "peer <name>", then "value <regret>" for each of the seeds 1 to <seeds>. The schedulers are called as Ray's
controller calls them; no trial is run.
"""

import logging
import sys

import ray
from curves import print_regrets
from ray.tune.experiment import Trial
from ray.tune.schedulers import AsyncHyperBandScheduler, HyperBandScheduler, TrialScheduler

logging.disable(logging.CRITICAL)


PENDING = 200  # Trials that its controller has in store, where they are drawn at random.


class Run:
    """What a scheduler looks at of a trial."""

    is_saving = False

    def __init__(self, number):
        self.number = number
        self.trial_id = f"{number:05}"
        self.status = Trial.PENDING


class Scheduler:
    """The scheduler, and of the controller what it calls."""

    def __init__(self, scheduler, most):
        self.scheduler = scheduler
        self.most = most
        scheduler.set_search_properties("loss", "min")
        self.runs = []

    def stop_trial(self, run):
        self.scheduler.on_trial_remove(self, run)
        run.status = Trial.TERMINATED

    def get_trials(self):
        return self.runs

    def next(self):
        pending = sum(run.status == Trial.PENDING for run in self.runs)
        while pending < PENDING and len(self.runs) < self.most:
            self.runs.append(Run(len(self.runs)))
            self.scheduler.on_trial_add(self, self.runs[-1])
            pending += 1
        run = self.scheduler.choose_trial_to_run(self)
        if run is None:
            return None
        run.status = Trial.RUNNING
        return run.number

    def decide(self, number, epoch, score):
        run = self.runs[number]
        action = self.scheduler.on_trial_result(self, run, {"training_iteration": epoch, "loss": score})
        if action == TrialScheduler.CONTINUE:
            return "go"
        if action == TrialScheduler.PAUSE:
            run.status = Trial.PAUSED
            return "pause"
        self.scheduler.on_trial_complete(self, run, {"training_iteration": epoch, "loss": score})
        run.status = Trial.TERMINATED
        return "stop"

    def ended(self, number, score):
        sys.exit("peer_ray_curves: a trial went beyond max_t")


def make(name, epochs, trials):
    if name == "asha":
        return Scheduler(AsyncHyperBandScheduler(max_t=epochs, grace_period=1, reduction_factor=4), trials)
    return Scheduler(HyperBandScheduler(max_t=epochs, reduction_factor=3), trials)


if __name__ == "__main__":
    name, family, seeds = sys.argv[1:]
    kind = {"asha": "AsyncHyperBandScheduler", "hyperband": "HyperBandScheduler"}[name]
    print_regrets(f"Ray Tune {ray.__version__} {kind}", family, seeds,
                  lambda epochs, trials, seed: make(name, epochs, trials))
