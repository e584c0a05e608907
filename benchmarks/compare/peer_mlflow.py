"""peer_mlflow.py: the rows "repository.*" of bench_server in MLflow, as its users write them.

    peer_mlflow <folder> sqlite|file ROW...

Prints "<row> <value> <p50> <p99> <p999>" in milliseconds. A push logs a file of weights, which is
on disk, as an artifact of a run, and registers it as a model's next version; an open asks where
that version is and reads its weights into memory. Books are kept by SQLite or in files, artifacts
in local files; this process uses both itself, without a server between.
"""

import os
import sys
import time

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

import mlflow  # noqa: E402
import numpy as np  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402

KIND = sys.argv[2]
FOLDER = os.path.join(sys.argv[1], "mlflow-" + KIND)
ROWS = sys.argv[3:]


def percentile(values, share):
    values = sorted(values)
    return values[max(0, -int(-share * len(values) // 1) - 1)]


def push(client, experiment, path):
    start = time.monotonic()
    run = client.create_run(experiment)
    client.log_artifact(run.info.run_id, path)
    version = client.create_model_version("net", source=run.info.artifact_uri,
                                          run_id=run.info.run_id)
    return (time.monotonic() - start) * 1e3, version


def load(client, version):
    start = time.monotonic()
    where = client.get_model_version_download_uri("net", version.version)
    path = mlflow.artifacts.download_artifacts(artifact_uri=where + "/weights.bin")
    weights = np.fromfile(path, np.float32)
    passed = (time.monotonic() - start) * 1e3
    assert weights[-1] == len(weights) - 1
    return passed, path


def measure(client, experiment, size):
    path = os.path.join(FOLDER, "weights.bin")
    np.arange(size // 4, dtype=np.float32).tofile(path)
    pushes, opens = [], []
    for i in range((20 if size < 5e6 else 10 if size < 5e7 else 3) + 1):
        pushed, version = push(client, experiment, path)
        opened, copy = load(client, version)
        os.unlink(copy)
        if i > 0:
            pushes.append(pushed)
            opens.append(opened)
    for what, times in (("push", pushes), ("open", opens)):
        if f"repository.{what}.{size}" in ROWS:
            print(f"repository.{what}.{size}", percentile(times, 0.5),
                  *[percentile(times, share) for share in (0.5, 0.99, 0.999)], flush=True)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    where = f"sqlite:///{FOLDER}/books.db" if KIND == "sqlite" else f"file://{FOLDER}/books"
    mlflow.set_tracking_uri(where)  # Of downloads; else it makes books in the working folder.
    client = MlflowClient(tracking_uri=where, registry_uri=where)
    name = str(time.monotonic_ns())
    experiment = client.create_experiment(name, artifact_location=f"file://{FOLDER}/artifacts")
    try:
        client.create_registered_model("net")
    except mlflow.exceptions.MlflowException:
        pass  # A round before has made it.
    for size in sorted({int(row.split(".")[2]) for row in ROWS}):
        measure(client, experiment, size)


main()
