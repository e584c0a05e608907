"""peer_ray.py: rows of Ray's own microbenchmark, as Ray's users write them.

    peer_ray <seconds a row> [ROW...]

Prints "<row> <value>" for each of these rows, or for all; measure/ray.c prints the same rows of
Troupe, and says what those are that Ray's program has not. Ray as its makers measure it (ray_perf.py): one machine, ray.init(), methods that return
b"ok"; the rows with several actors have four, since there are two CPUs here and not 64. Ray's own
rows last 2 s each after a second to warm up; here a row warms up by one repetition. Ray's own
arrays are zeros that nobody has written, which the system reads from one page; those here have been
written.
"""

import sys
import time

import numpy as np
import ray

ACTORS = 4
BATCH = 1000
MEGABYTE = 1024 * 1024
CLIENTS = 10
PUT_SIZES = [65536, MEGABYTE, 64 * MEGABYTE, 256 * MEGABYTE]
VIEW_SIZES = [65536, MEGABYTE, 256 * MEGABYTE]
WANTED = set(sys.argv[2:])


def is_wanted(name):
    return not WANTED or name in WANTED


def measure(name, per_repetition, repeat, seconds):
    if not is_wanted(name):
        return
    repeat()
    repetitions, start = 0, time.perf_counter()
    while True:
        repeat()
        repetitions += 1
        passed = time.perf_counter() - start
        if passed >= seconds:
            break
    print(f"{name} {per_repetition * repetitions / passed:.9g}", flush=True)


@ray.remote(num_cpus=0)
class Actor:
    def small_value(self):
        return b"ok"

    def small_value_arg(self, x):
        return b"ok"


@ray.remote(num_cpus=0)
class Client:
    def __init__(self, servers):
        self.servers = servers if isinstance(servers, list) else [servers]

    def small_value_batch(self, n):
        ray.get([self.servers[i % len(self.servers)].small_value.remote() for i in range(n)])

    def small_value_batch_arg(self, n):
        x = ray.put(0)
        ray.get([self.servers[i % len(self.servers)].small_value_arg.remote(x) for i in range(n)])


@ray.remote
def small_value():
    return b"ok"


def written(size):
    return np.arange(size // 8, dtype=np.int64)


@ray.remote
def put_small():
    for _ in range(100):
        ray.put(0)


LARGE = {}


@ray.remote
def put_large():
    # The array is made once in each worker.
    if "array" not in LARGE:
        LARGE["array"] = written(80 * MEGABYTE)
    for _ in range(10):
        ray.put(LARGE["array"])


@ray.remote(num_cpus=0)
class Putter:
    def __init__(self):
        self.arrays = {size: written(size) for size in PUT_SIZES}

    def put(self, size, n):
        for _ in range(n):
            ray.put(self.arrays[size])


@ray.remote
def many_refs():
    return [ray.put(1) for _ in range(10000)]


def wait_1k():
    not_ready = [small_value.remote() for _ in range(1000)]
    for i in range(1000):
        # What is fetched once is fetched for all later waits.
        _ready, not_ready = ray.wait(not_ready, fetch_local=i == 0)


def create(n):
    actors = [Actor.remote() for _ in range(n)]
    ray.get([a.small_value.remote() for a in actors])
    for a in actors:
        ray.kill(a)


def measure_objects(seconds):
    value = ray.put(0)
    measure("single_client_get_calls", 1, lambda: ray.get(value), seconds)
    measure("single_client_put_calls", 1, lambda: ray.put(0), seconds)
    measure("multi_client_put_calls", CLIENTS * 100,
            lambda: ray.get([put_small.remote() for _ in range(CLIENTS)]), seconds)
    if is_wanted("single_client_put_gigabytes"):
        array = written(100 * MEGABYTE)
        measure("single_client_put_gigabytes", 0.1 * 1.048576, lambda: ray.put(array), seconds)
    measure("multi_client_put_gigabytes", CLIENTS * 0.8 * 1.048576,
            lambda: ray.get([put_large.remote() for _ in range(CLIENTS)]), seconds)
    if is_wanted("single_client_get_object_containing_10k_refs"):
        refs = many_refs.remote()
        ray.wait([refs])
        measure("single_client_get_object_containing_10k_refs", 1, lambda: ray.get(refs), seconds)


def view(ref, first, last):
    array = ray.get(ref)
    if array[0] != first or array[-1] != last:
        raise SystemExit("an array that nobody has put")


def measure_sizes(seconds):
    names = [f"put.{size}.{n}c" for size in PUT_SIZES for n in (1, 2)]
    putters = [Putter.remote() for _ in range(2)] if any(is_wanted(name) for name in names) else []
    for size in PUT_SIZES:
        for n in (1, 2):
            pile = min(256 * MEGABYTE // size, 200)
            measure(f"put.{size}.{n}c", size * pile * n / 1e9,
                    lambda: ray.get([p.put.remote(size, pile) for p in putters[:n]]), seconds)
    for size in VIEW_SIZES:
        if is_wanted(f"view.{size}"):
            array = written(size)
            ref = ray.put(array)
            measure(f"view.{size}", 1, lambda: view(ref, array[0], array[-1]), seconds)
            del ref


def measure_tasks(seconds):
    measure("single_client_tasks_sync", 1, lambda: ray.get(small_value.remote()), seconds)
    measure("single_client_tasks_async", BATCH,
            lambda: ray.get([small_value.remote() for _ in range(BATCH)]), seconds)
    measure("single_client_tasks_and_get_batch", 1,
            lambda: ray.get([small_value.remote() for _ in range(1000)]), seconds)
    measure("single_client_wait_1k_refs", 1, wait_1k, seconds)


def measure_actors(seconds):
    actor = Actor.remote()
    measure("1_1_actor_calls_sync", 1, lambda: ray.get(actor.small_value.remote()), seconds)
    measure("1_1_actor_calls_async", BATCH,
            lambda: ray.get([actor.small_value.remote() for _ in range(BATCH)]), seconds)
    servers = [Actor.remote() for _ in range(ACTORS)]
    client = Client.remote(servers)
    measure("1_n_actor_calls_async", BATCH * ACTORS,
            lambda: ray.get(client.small_value_batch.remote(BATCH * ACTORS)), seconds)
    clients = [Client.remote(s) for s in servers]
    everyone = [Client.remote(servers) for _ in range(ACTORS)]
    measure("n_n_actor_calls_async", BATCH * ACTORS,
            lambda: ray.get([c.small_value_batch.remote(BATCH) for c in everyone]), seconds)
    measure("n_n_actor_calls_with_arg_async", BATCH * ACTORS,
            lambda: ray.get([c.small_value_batch_arg.remote(BATCH) for c in clients]), seconds)
    measure("actor_creation", 4, lambda: create(4), seconds)


def main():
    seconds = float(sys.argv[1])
    ray.init(include_dashboard=False, logging_level="error", log_to_driver=False, num_cpus=2)
    measure_objects(seconds)
    measure_sizes(seconds)
    measure_tasks(seconds)
    if not WANTED or any("actor" in row for row in WANTED):
        measure_actors(seconds)


main()
