"""What a program that `troupe train` runs says, and what it is told. Without Troupe it prints it."""
import json
import os

config = json.loads(os.environ.get("TROUPE_CONFIG", "{}"))
restore_dir = os.environ.get("TROUPE_RESTORE_DIR")  # The checkpoint to go on from; None: none.
checkpoint_dir = os.environ.get("TROUPE_CHECKPOINT_DIR")  # An empty folder for the next one.
save_due = os.environ.get("TROUPE_SAVE_DUE") == "1"  # Whether the next report is to have one.
_channel = int(os.environ.get("TROUPE_REPORT_FD", -1))
if _channel >= 0:
    _reports, _answers = open(_channel, "w", closefd=False), open(_channel, closefd=False)


def report(metrics, checkpoint=None):
    """Reports, as all ranks do equally often. True: the run stops with this report."""
    global save_due
    if _channel < 0:
        print(metrics)
        return False
    print(json.dumps({"metrics": metrics, "checkpoint": checkpoint}), file=_reports, flush=True)
    answer = json.loads(_answers.readline())
    if "error" in answer:
        raise ValueError(answer["error"])
    save_due = answer["save"]
    return answer["stop"]
