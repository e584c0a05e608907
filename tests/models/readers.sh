#!/bin/sh
# readers.sh TEST_REPOSITORY VENV: a version of a repository, read by Python's safetensors. That is installed into VENV
# once, from the Python index. Where that cannot be reached the test fails and names what is missing; OFFLINE=1 in the
# environment has it skipped instead.
set -eu
repository=$1
venv=$2
packages="safetensors==0.8.0 numpy"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-readers-XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! "$venv/bin/python" -c 'import safetensors, numpy' 2>"$work/why"; then
    # shellcheck disable=SC2086
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q $packages; } >"$work/why" 2>&1 || {
        echo "MISSING: $packages could not be installed, so no other program has read a version of a model:"
        tail -3 "$work/why"
        [ -z "${OFFLINE:-}" ] || exit 77
        echo "OFFLINE=1 has this test skipped"
        exit 1
    }
fi
"$repository" --leave "$work"
"$venv/bin/python" - "$work/models/digits/000001" <<'END_OF_PYTHON'
import json, os, sys
from safetensors import safe_open
from safetensors.numpy import load_file

version = sys.argv[1]
with open(version + "/manifest.json") as file:
    manifest = json.load(file)
assert manifest["trainer"] == "line" and manifest["push"]["ref"] == "digits@1", manifest
assert manifest["metrics"] == [{"name": "loss", "value": 0.25}], manifest["metrics"]
(weights,) = manifest["files"]
path = version + "/" + weights["path"]
assert os.path.getsize(path) == weights["size"], weights
state = load_file(path)
assert state["slope"].dtype == "float64" and state["slope"] == 4, state
with safe_open(path, framework="np") as file:
    about = json.loads(file.metadata()["troupe"])
assert about["format"] == 1 and about["type"] == "line", about
print("a version, read by Python:", sorted(state))
END_OF_PYTHON
