#!/bin/sh
# mlflow.sh TROUPE VENV: a job of a train server is a run of a real MLflow tracking server, whose own client then returns
# what the job has reported. MLflow is installed into VENV once, from the Python index. Where that cannot be reached the
# test fails and names what is missing; OFFLINE=1 in the environment has it skipped instead.
set -eu
troupe=$1
venv=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-mlflow-XXXXXX")
export TROUPE_STATE="$work/state" TROUPE_COMMAND="$troupe"
export HOME="$work" MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true
mlflow=
finish() {
    "$troupe" server stop --jobs >/dev/null 2>&1 || true
    [ -z "$mlflow" ] || kill "$mlflow" 2>/dev/null || true
    [ -z "$mlflow" ] || wait "$mlflow" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
if ! "$venv/bin/python" -c 'import mlflow' 2>"$work/why"; then
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q mlflow; } >"$work/why" 2>&1 || {
        echo "MISSING: mlflow could not be installed, so no tracking server has been told of a run:"
        tail -3 "$work/why"
        [ -z "${OFFLINE:-}" ] || exit 77
        echo "OFFLINE=1 has this test skipped"
        exit 1
    }
fi
cat >"$work/stand_up.py" <<'END'
import socket, sys
at = socket.socket()
at.bind(("127.0.0.1", 0))
print(at.getsockname()[1])
END
port=$("$venv/bin/python" "$work/stand_up.py")
(cd "$work" && exec "$venv/bin/mlflow" server --host 127.0.0.1 --port "$port" --workers 1 \
    --backend-store-uri "sqlite:///$work/mlflow.db" --default-artifact-root "$work/artifacts") >"$work/mlflow.log" 2>&1 &
mlflow=$!
cd "$work"
"$troupe" server start --cpus 1 --no-gateway --mlflow "http://127.0.0.1:$port" --experiment "curves of mine"
cat >program.sh <<'END'
i=1
while [ $i -le 300 ]; do
    echo "{\"metrics\": {\"loss\": $i.5, \"accuracy\": 0.25}}" >&3
    read -r answer <&3
    i=$((i + 1))
done
END
# It ends, also where MLflow has not started yet.
"$troupe" submit --follow --name night --storage runs -- sh program.sh >followed 2>&1 || { cat followed; exit 1; }
cat >ask.py <<'END'
import sys, time
from mlflow.tracking import MlflowClient

client = MlflowClient(sys.argv[1])
runs = []
for _ in range(600):
    try:
        experiment = client.get_experiment_by_name("curves of mine")
        runs = client.search_runs([experiment.experiment_id]) if experiment else []
        if runs and runs[0].info.status != "RUNNING":
            break
    except Exception as error:
        last = error
    time.sleep(0.2)
assert len(runs) == 1, runs
run = runs[0]
assert run.info.status == "FINISHED", run.info
assert run.info.run_name == "night", run.info
assert run.data.tags["troupe.job"] == "1", run.data.tags
loss = client.get_metric_history(run.info.run_id, "loss")
assert sorted((at.step, at.value) for at in loss) == [(i, i + 0.5) for i in range(1, 301)], loss
assert all(run.info.start_time <= at.timestamp <= run.info.end_time + 1000 for at in loss)
assert len(client.get_metric_history(run.info.run_id, "accuracy")) == 300
print("300 reports, read by MLflow's own client; parameters:", run.data.params)
END
"$venv/bin/python" ask.py "http://127.0.0.1:$port" || {
    tail -n 20 "$work/mlflow.log"
    cat "$work/state/track.log"
    exit 1
}
