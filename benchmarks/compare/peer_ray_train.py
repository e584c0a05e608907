"""peer_ray_train.py: the rows of bench_train in Ray Train, as Ray's users write them.

    peer_ray_train <folder> <seconds> [ROW...]

Prints "peer <name>" and then "<row> <value> <p50> <p99> <p999>" for each of these rows, or for all;
bench_train.c says what the rows are. Times are read from the one monotonic clock of the machine, by workers and by the
callback of the controller, the process that takes the reports. Where PyTorch is installed, the
trainer is Ray's for it; elsewhere its plain data-parallel trainer, whose reports, checkpoints and
restarts are the same code, and which has no process group to set up.
"""

import os
import signal
import sys
import tempfile
import time

import numpy as np
import ray
import ray.train
from ray.train import (Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig,
                       UserCallback)
from ray.train.collective import barrier, broadcast_from_rank_zero

try:
    import torch  # noqa: F401
    from ray.train.torch import TorchTrainer as Trainer
    NAME = "with PyTorch"
except ImportError:
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer as Trainer
    NAME = "without PyTorch"

FOLDER = sys.argv[1]
SECONDS = float(sys.argv[2])
WANTED = sys.argv[3:]
MEGABYTE = 1024 * 1024
SLOW_S = 0.2
STEP_S = 0.02
KILLED_AFTER = 3


class Seen(UserCallback):
    """Writes when each report was seen, and the time that it carries, into a file."""

    def __init__(self, path, pause):
        self.path = path
        self.pause = pause

    def after_report(self, run_context, metrics, checkpoint):
        now = time.monotonic_ns()
        with open(self.path, "a") as file:
            file.write(f"{now} {metrics[0]['made']}\n")
        if self.pause:
            time.sleep(self.pause)


def train(loop, config, ranks=2, pause=0.0, failures=0):
    """Runs a loop; returns what the callback saw: (seen, made) in ns."""
    path = tempfile.mktemp(prefix="seen-", dir=FOLDER)
    config = dict(config, note=path + ".note")
    Trainer(
        loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(num_workers=ranks),
        run_config=RunConfig(storage_path=FOLDER, callbacks=[Seen(path, pause)],
                             checkpoint_config=CheckpointConfig(num_to_keep=1),
                             failure_config=FailureConfig(max_failures=failures)),
    ).fit()
    seen = [tuple(map(int, line.split())) for line in open(path)]
    notes = [float(line) for line in open(path + ".note")] if os.path.exists(path + ".note") else []
    return seen, notes


def note(config, value):
    with open(config["note"], "a") as file:
        file.write(f"{value}\n")


def made():
    return {"made": time.monotonic_ns()}


def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def is_first():
    return ray.train.get_context().get_world_rank() == 0


def report_once(config):
    ray.train.report(made())


def repeat_for(seconds, step):
    """Makes as many steps on all ranks; returns how many, and how long they took."""
    barrier()
    start, count, batch, going = time.monotonic(), 0, 1, True
    while going:
        for _ in range(batch):
            step()
        count += batch
        batch *= 2  # All agree to go on now and then, so that it costs nothing.
        going = broadcast_from_rank_zero(time.monotonic() - start < seconds)
    return count, time.monotonic() - start


def report_often(config):
    ray.train.report(made())
    count, passed = repeat_for(config["seconds"], lambda: ray.train.report(made()))
    if is_first():
        note(config, count / passed)


def report_now_and_then(config):
    for _ in range(config["count"]):
        compute(config["pause"])
        ray.train.report(made())


def report_steps(config):
    inside = 0.0

    def step():
        nonlocal inside
        compute(STEP_S)
        barrier()  # In place of an all-reduce: no share of the reports'.
        before = time.monotonic()
        ray.train.report(made())
        inside += time.monotonic() - before

    _, passed = repeat_for(config["seconds"], step)
    if is_first():
        note(config, inside / passed * 100)


def die_once(config):
    checkpoint = ray.train.get_checkpoint()
    first = 1
    if checkpoint:
        with checkpoint.as_directory() as folder, open(os.path.join(folder, "state")) as file:
            first = int(file.read()) + 1
    for number in range(first, KILLED_AFTER + 2):
        if number > KILLED_AFTER and not checkpoint:
            barrier()
            if is_first():
                note(config, time.monotonic_ns())
                os.kill(os.getpid(), signal.SIGKILL)
        if checkpoint:
            ray.train.report(made())
            return
        with tempfile.TemporaryDirectory() as folder:
            if is_first():
                with open(os.path.join(folder, "state"), "w") as file:
                    file.write(str(number))
            ray.train.report(made(), checkpoint=Checkpoint.from_directory(folder))


def write_plainly(path, data):
    start = time.monotonic()
    with open(path, "wb") as file:
        file.write(memoryview(data))
        file.flush()
        os.fsync(file.fileno())
    passed = time.monotonic() - start
    os.unlink(path)
    return passed


def save_often(config):
    data = np.arange(config["bytes"] // 8, dtype=np.int64)
    plain = os.path.join(config["folder"], "plain")
    for i in range(config["count"] + 1):
        plainly = write_plainly(plain, data)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(dir=config["folder"]) as folder:
            np.save(os.path.join(folder, "state.npy"), data)
            ray.train.report(made(), checkpoint=Checkpoint.from_directory(folder))
        if i > 0:
            note(config, (time.monotonic() - start) / plainly * 100)
        time.sleep(2 * plainly)


def show(row, values):
    ordered = sorted(values)

    def part(share):
        return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]

    print(f"{row} {part(0.5):.9g} {part(0.5):.9g} {part(0.99):.9g} {part(0.999):.9g}", flush=True)


def show_plain(row, value):
    print(f"{row} {value:.9g} nan nan nan", flush=True)


def measure_first_report():
    start = time.monotonic_ns()
    seen, _ = train(report_once, {})
    show_plain("train.first_report", (seen[0][0] - start) / 1e6)


def measure_follow():
    seen, _ = train(report_now_and_then, {"count": 4, "pause": 0.25})
    show("train.follow", [(at - then) / 1e3 for at, then in seen])


def measure_kill():
    seen, notes = train(die_once, {}, failures=1)
    again = min(at for at, then in seen if then > notes[0])
    show_plain("train.kill_to_report", (again - notes[0]) / 1e6)


def measure_checkpoint(size):
    count = 3
    _, notes = train(save_often, {"bytes": size, "count": count, "folder": FOLDER}, ranks=1)
    show_plain(f"train.checkpoint.{size}", sorted(notes)[len(notes) // 2])


ROWS = {
    "train.first_report": measure_first_report,
    "train.reports": lambda: show_plain(
        "train.reports", train(report_often, {"seconds": SECONDS})[1][0]),
    "train.reports.slow_subscriber": lambda: show_plain(
        "train.reports.slow_subscriber",
        train(report_often, {"seconds": SECONDS}, pause=SLOW_S)[1][0]),
    "train.follow": measure_follow,
    "train.kill_to_report": measure_kill,
    "train.overhead": lambda: show_plain(
        "train.overhead", train(report_steps, {"seconds": SECONDS})[1][0]),
    "train.checkpoint.1048576": lambda: measure_checkpoint(MEGABYTE),
    "train.checkpoint.104857600": lambda: measure_checkpoint(100 * MEGABYTE),
}


def main():
    print(f"peer Ray Train {ray.__version__} {NAME}", flush=True)
    ray.init(include_dashboard=False, logging_level="error", log_to_driver=False, num_cpus=2)
    for row, measure in ROWS.items():
        if not WANTED or row in WANTED:
            measure()


if __name__ == "__main__":
    main()
