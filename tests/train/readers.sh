#!/bin/sh
# readers.sh TEST_DERIVED VENV: a run's files for other programs, read by those: TensorBoard's own reader, and
# Python's json and csv. TensorBoard is installed into VENV once, from the Python index; where that cannot be
# reached, the test is skipped and says so.
set -eu
program=$1
venv=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-readers-XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! "$venv/bin/python" -c 'import tensorboard' 2>"$work/why"; then
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q tensorboard; } >"$work/why" 2>&1 || {
        echo "SKIPPED: TensorBoard could not be installed, so nothing has read the events of a run:"
        tail -3 "$work/why"
        exit 77
    }
fi
"$program" --leave "$work"
"$venv/bin/python" - "$work/tour" <<'END'
import csv, json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = sys.argv[1]
events = EventAccumulator(run, size_guidance={"scalars": 0})
events.Reload()
assert sorted(events.Tags()["scalars"]) == ["epoch", "loss"], events.Tags()
loss = events.Scalars("loss")
assert [at.step for at in loss] == list(range(1, 9)), loss
assert all(abs(at.value - 1 / at.step) < 1e-6 for at in loss), loss
results = [json.loads(line) for line in open(run + "/result.json")]
rows = list(csv.DictReader(open(run + "/progress.csv")))
assert len(results) == len(rows) == 8
for number, (result, row) in enumerate(zip(results, rows), 1):
    assert result["training_iteration"] == int(row["training_iteration"]) == number
    assert result["loss"] == float(row["loss"]) == 1 / number, (result, row)
    # Named where it was committed before the report was put down.
    assert (result["checkpoint_dir_name"] or "") == row["checkpoint_dir_name"]
    assert row["checkpoint_dir_name"] in ("", "checkpoint_%06d" % (number - 1)), row
    assert abs(result["timestamp"] - loss[number - 1].wall_time) <= 1
print("8 reports, read three ways")
END
