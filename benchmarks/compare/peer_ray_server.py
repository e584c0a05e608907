"""peer_ray_server.py: the rows of bench_server about jobs, in Ray, as Ray's users write them.

    peer_ray_server <folder> [ROW...]

Prints "<row> <value> <p50> <p99> <p999>" for each of these rows; bench_server.c says what they are.
One Ray with two CPUs, started before, takes all of it, through its job server (whose requests go
over HTTP, over connections that are kept) and, where there are reports, through Ray Train. Nothing
in Ray is cold or warm: it is measured once, and printed for both. Reports are seen by the callback
of Ray Train's controller, a process of its own; all read the machine's one monotonic clock.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import ray
import ray.train
from ray.job_submission import JobStatus, JobSubmissionClient
from ray.train import RunConfig, ScalingConfig, UserCallback
from ray.train.collective import barrier
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

FOLDER = sys.argv[1]
WANTED = sys.argv[2:]
CLIENTS = 8
SUBMISSIONS = 20  # Of one client.
JOBS = 6
STEPS = 3
STEP_S = 0.25


def percentile(values, share):
    values = sorted(values)
    return values[max(0, -int(-share * len(values) // 1) - 1)]


def show(row, value, values=None):
    parts = [percentile(values, share) for share in (0.5, 0.99, 0.999)] if values else ["nan"] * 3
    if row in WANTED:
        print(row, value, *parts, flush=True)


class Seen(UserCallback):
    """Writes when each report was seen, and the time that it carries, into a file."""

    def __init__(self, path):
        self.path = path

    def after_report(self, run_context, metrics, checkpoint):
        now = time.monotonic_ns()
        with open(self.path, "a") as file:
            file.write(f"{now} {metrics[0]['made']}\n")


def report_once(config):
    ray.train.report({"made": time.monotonic_ns()})


def report_steps(config):
    for _ in range(STEPS):
        end = time.monotonic() + STEP_S
        while time.monotonic() < end:
            pass
        barrier()
        ray.train.report({"made": time.monotonic_ns()})


def fit(loop, ranks):
    """Runs a loop; returns what the callback saw: (seen, made) in ns."""
    path = tempfile.mktemp(prefix="seen-", dir=FOLDER)
    DataParallelTrainer(
        loop, train_loop_config={}, scaling_config=ScalingConfig(num_workers=ranks),
        run_config=RunConfig(storage_path=FOLDER, callbacks=[Seen(path)])).fit()
    return [tuple(map(int, line.split())) for line in open(path)]


def measure_first():
    start = time.monotonic_ns()
    passed = (fit(report_once, 1)[0][0] - start) / 1e6
    for row in ("server.first_report.cold", "server.first_report.warm"):
        show(row, passed)


def measure_follow():
    times = [(seen - made) / 1e3 for seen, made in fit(report_steps, 2)]
    show("server.follow", percentile(times, 0.5), times)


def submit(client, cpus):
    return client.submit_job(entrypoint="true", entrypoint_num_cpus=cpus)


def await_end(client, jobs):
    while True:
        states = [client.get_job_status(job) for job in jobs]
        if all(state.is_terminal() for state in states):
            assert all(state == JobStatus.SUCCEEDED for state in states), states
            return
        time.sleep(0.02)


def measure_jobs(url):
    client = JobSubmissionClient(url)
    await_end(client, [submit(client, 0)])
    start = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        jobs = list(pool.map(lambda _: submit(client, 0), range(JOBS)))
    await_end(client, jobs)
    rate = JOBS / (time.monotonic() - start)
    for row in ("server.jobs.cold", "server.jobs.warm"):
        show(row, rate)


def submit_many(url):
    """Returns when each of this client's submissions began and was acknowledged."""
    client = JobSubmissionClient(url)
    times = []
    for _ in range(SUBMISSIONS):
        start = time.monotonic()
        submit(client, 1)
        times.append((start, time.monotonic()))
    return times


def measure_submissions(url):
    """Behind a job that has all CPUs, so that what is submitted waits."""
    client = JobSubmissionClient(url)
    holder = client.submit_job(entrypoint="sleep 1000", entrypoint_num_cpus=2)
    while client.get_job_status(holder) != JobStatus.RUNNING:
        time.sleep(0.02)
    if "server.submit" in WANTED:
        times = [(end - start) * 1e6 for start, end in submit_many(url)]
        show("server.submit", percentile(times, 0.5), times)
    if "server.submit.rate" in WANTED:
        with ThreadPoolExecutor(CLIENTS) as pool:
            times = sum(pool.map(lambda _: submit_many(url), range(CLIENTS)), [])
        passed = max(end for _, end in times) - min(start for start, _ in times)
        show("server.submit.rate", len(times) / passed)


def main():
    ray.init(num_cpus=2, include_dashboard=True, log_to_driver=False)
    url = "http://" + ray._private.worker._global_node.webui_url
    if any(row.startswith("server.first_report") for row in WANTED):
        measure_first()
    if "server.follow" in WANTED:
        measure_follow()
    if any(row.startswith("server.jobs") for row in WANTED):
        measure_jobs(url)
    if any(row.startswith("server.submit") for row in WANTED):
        measure_submissions(url)  # The last: its jobs never end.
    ray.shutdown()


main()
