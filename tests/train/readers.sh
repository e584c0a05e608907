#!/bin/sh
# readers.sh TEST_DERIVED TEST_SAFETENSORS VENV: files of a run for other programs, read by those: TensorBoard's own
# reader, Python's safetensors and NumPy; and a file of Python's safetensors, read by the library. They are installed
# into VENV once, from the Python index. Where that cannot be reached the test fails and names what is missing;
# OFFLINE=1 in the environment has it skipped instead.
set -eu
derived=$1
safetensors=$2
venv=$3
packages="tensorboard safetensors==0.8.0 numpy"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-readers-XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! "$venv/bin/python" -c 'import tensorboard, safetensors, numpy' 2>"$work/why"; then
    # shellcheck disable=SC2086
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q $packages; } >"$work/why" 2>&1 || {
        echo "MISSING: $packages could not be installed, so no other program has read the files of a run:"
        tail -3 "$work/why"
        [ -z "${OFFLINE:-}" ] || exit 77
        echo "OFFLINE=1 has this test skipped"
        exit 1
    }
fi
"$derived" --leave "$work"
"$venv/bin/python" - "$work/tour" <<'END'
import csv, json, sys
import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = sys.argv[1]
events = EventAccumulator(run, size_guidance={"scalars": 0})
events.Reload()
assert sorted(events.Tags()["scalars"]) == ["epoch", "loss"], events.Tags()
loss = events.Scalars("loss")
assert [at.step for at in loss] == list(range(1, 9)), loss
assert all(abs(at.value - 1 / at.step) < 1e-6 for at in loss), loss

# The HParams page: what began, with which config, and how it ended.
from tensorboard.plugins.hparams import plugin_data_pb2


def told(tag):
    content = events.SummaryMetadata("_hparams_/" + tag).plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


config = json.load(open(run + "/params.json"))
assert config == {"reports": 8, "fails": False}, config
start = told("session_start_info").session_start_info
assert sorted(start.hparams) == ["fails", "reports"], start
assert start.hparams["reports"].number_value == 8 and not start.hparams["fails"].bool_value, start
assert told("session_end_info").session_end_info.status == 1

results = [json.loads(line) for line in open(run + "/result.json")]
assert all(result["config"] == config and result["trial_id"] == "tour" for result in results)
rows = list(csv.DictReader(open(run + "/progress.csv")))
assert len(results) == len(rows) == 8
for number, (result, row) in enumerate(zip(results, rows), 1):
    assert result["training_iteration"] == int(row["training_iteration"]) == number
    assert result["loss"] == float(row["loss"]) == 1 / number, (result, row)
    assert result["checkpoint_dir_name"] == row["checkpoint_dir_name"]
    assert row["checkpoint_dir_name"] == "checkpoint_%06d" % (number - 1), row
    assert abs(result["timestamp"] - loss[number - 1].wall_time) <= 1
table = numpy.genfromtxt(run + "/progress.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
assert (table["training_iteration"] == numpy.arange(1, 9)).all(), table
assert (table["loss"] == 1 / numpy.arange(1, 9)).all(), table
print("8 reports, read four ways")
END
"$safetensors" --leave "$work"
"$venv/bin/python" - "$work" <<'END'
import json, math, sys
import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from safetensors import TensorSpec, safe_open, serialize_file
from safetensors.numpy import load_file

work = sys.argv[1]


def expect(found, dtype, value):
    assert found.dtype == numpy.dtype(dtype), (found.dtype, dtype)
    value = numpy.array(value, dtype)
    assert found.shape == value.shape, (found.shape, value.shape)
    assert found.tobytes() == value.tobytes(), (found, value)


# What two ranks of a run have saved.
for rank in range(2):
    path = "%s/learned/checkpoints/checkpoint_000000/rank_%05d.safetensors" % (work, rank)
    state = load_file(path)
    assert sorted(state) == ["blob", "done", "epoch", "history", "layers.0.weights", "layers.1.weights",
                             "layers.width", "loss", "odd", "range"], sorted(state)
    expect(state["epoch"], "int32", 3)
    expect(state["loss"], "float64", 0.1)
    expect(state["done"], "bool", True)
    expect(state["range"], "float32", [-1, 1])
    expect(state["blob"], "uint8", [0, 1, 2])
    expect(state["history"], "float64", [0.1, 0.2, rank])
    expect(state["layers.width"], "int32", [2, 3])
    expect(state["layers.0.weights"], "float32", 10 * rank + numpy.arange(6).reshape(2, 3))
    expect(state["layers.1.weights"], "float16", [1, -2])
    assert state["odd"].view("uint32") == 0x7FC12345, state["odd"]
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()["troupe"])
    assert about["format"] == 1 and about["type"] == "learned", about
    assert about["values"] == {"tag": "tag", "note": 'a "note"\n', "none": False,
                               "layers": [{"name": "first \u00e4", "weights": True},
                                          {"name": None, "weights": True}]}, about

# Metrics that are no numbers stay readable.
events = EventAccumulator(work + "/learned")
events.Reload()
assert math.isnan(events.Scalars("nothing")[0].value) and events.Scalars("much")[0].value == -math.inf
table = numpy.genfromtxt(work + "/learned/progress.csv", delimiter=",", names=True)
assert math.isnan(table["nothing"]) and table["much"] == -math.inf, table
with open(work + "/learned/result.json") as lines:
    result = json.loads(lines.readline())
assert result["nothing"] == "NaN" and result["much"] == "-Infinity", result

# What a program has written by itself.
ours = load_file(work + "/ours.safetensors")
assert len(ours) == 5, sorted(ours)
expect(ours["flags"], "bool", [True, False, True])
expect(ours["layers.0.weight"], "float32", [[0.5, -1, 2], [3, 4, 5]])
expect(ours["bytes"], "uint8", [1, 2, 3, 4, 5])
expect(ours['step \u00e4 "x"'], "int64", -7)
expect(ours["none of it"], "float16", numpy.zeros((0, 4)))
with safe_open(work + "/ours.safetensors", framework="np") as file:
    assert file.metadata() == {"format": "np", "note": 'a "note"\n\u00e4'}, file.metadata()

# One of Python, with all types that there are: those that NumPy lacks as bytes.
arrays = {name: numpy.arange(6).reshape(2, 3).astype(name)
          for name in ("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
                       "complex64").split()}
arrays["bool"] = numpy.arange(6).reshape(2, 3) % 2 == 1
arrays["bfloat16"] = (arrays["float32"].view("uint32") >> 16).astype("uint16")
for name in "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split():
    arrays[name] = arrays["uint8"].copy()
specs = {name: TensorSpec(dtype=name, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
         for name, array in arrays.items()}
more = {"scalar": numpy.array(-7), "empty": numpy.zeros((0, 5), "uint8")}
for name, array in more.items():
    specs[name] = TensorSpec(dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data,
                             data_len=array.nbytes)
packed = numpy.zeros((2, 2), "uint8")
specs["float4"] = TensorSpec(dtype="float4_e2m1fn_x2", shape=packed.shape, data_ptr=packed.ctypes.data,
                             data_len=packed.nbytes)
serialize_file(specs, work + "/theirs.safetensors", metadata={"made by": "Python \u00e4"})
END
"$safetensors" --read "$work/theirs.safetensors"
