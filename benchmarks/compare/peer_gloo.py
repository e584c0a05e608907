"""An allreduce of floats between two processes by PyTorch's distributed package over Gloo.

Each rewrites its tensor before every call, which is not timed, and meets the other at a barrier,
which is not timed either. Rank r runs on CPU r. Prints rows of rank 0's microseconds.
"""
import multiprocessing
import os
import socket
import time

import torch
import torch.distributed as dist

SIZES = [(1 << 10, 500), (64 << 10, 200), (1 << 20, 50), (25 << 20, 6), (100 << 20, 3)]


def run(rank, port):
    os.sched_setaffinity(0, {rank})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for size, repetitions in SIZES:
        values = torch.zeros(size // 4)
        times = []
        for i in range(repetitions + repetitions // 5 + 2):
            values.fill_(i % 16 + rank)
            dist.barrier()
            start = time.perf_counter_ns()
            dist.all_reduce(values)
            times.append((time.perf_counter_ns() - start) / 1e3)
            assert values[0].item() == values[-1].item() == 2 * (i % 16) + 1
        times = sorted(times[repetitions // 5 + 2:])
        if rank == 0:
            p99, p999 = (times[min(len(times) - 1, int(len(times) * share))] for share in (0.99, 0.999))
            print(size, times[len(times) // 2], times[len(times) // 2], p99, p999, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [multiprocessing.Process(target=run, args=(rank, port)) for rank in (0, 1)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
    raise SystemExit(max(abs(one.exitcode) for one in ranks))
