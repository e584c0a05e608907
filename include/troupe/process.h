// process.h: a trainer whose ranks run any executable, as PyTorch's torchrun does.
//
//     static const troupe_text arguments[] = {"python3", "train.py", "--epochs", "5"};
//     troupe_process_config what = {.arguments = {arguments, 4}};
//     troupe_must(troupe_train(troupe_process, &what, &result, .ranks = 2, .restarts = 3));
//
// It is a trainer like any other: troupe_submit takes it, and it has restarts, checkpoints, time
// limits and log files. Each rank's program finds in its environment what torchrun would set (RANK,
// WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RESTART_COUNT and the others), and
//
//     TROUPE_REPORT_FD       3: the descriptor where it reports and is answered,
//     TROUPE_CHECKPOINT_DIR  an empty folder for its part of the next checkpoint,
//     TROUPE_RESTORE_DIR     the folder of the checkpoint to go on from, if there is one,
//     TROUPE_SAVE_DUE        1: its first report is asked to have a checkpoint; else 0,
//     TROUPE_CONFIG          .json of its config, if that is given.
//
// A report is a line of JSON, with metrics, a folder whose files become this rank's part of the
// checkpoint, both or neither:
//
//     {"metrics": {"loss": 0.5, "accuracy": 0.9}, "checkpoint": "/the/folder"}
//
// It is answered by a line, which is to be read before the next report:
//
//     {"report": 3, "stop": false, "save": true}
//
// "stop": the program is to end; "save": its next report is asked to have a checkpoint. What is no
// report is answered by {"error": "why"}. What was in TROUPE_CHECKPOINT_DIR is moved, so that it is
// empty again when the answer comes; any other folder is copied. A program that cannot write to a
// descriptor prints the line behind "TROUPE_REPORT " on its standard output. It gets no answers, is
// told to stop by SIGTERM, and gives each checkpoint a folder of its own.
//
// All ranks report equally often, or none does; with .rank_0_reports only rank 0 does. As every
// rank, a program that is to stop makes one report more, which is asked to have a checkpoint; if
// none has reported yet, the stop is a SIGTERM to its process group. One that gets no answers and
// is alone in its run gets that behind the report which it has made, or at once where its reports
// are .json_lines alone. Its standard output and errors go to its rank's log. When its rank ends,
// however it does, the program and all processes that it has started are ended.
#ifndef TROUPE_PROCESS_H
#define TROUPE_PROCESS_H

#include <troupe/train.h>

TROUPE_BEGIN_C

// What the ranks run. run.json has it: secrets belong into .env of the run.
TROUPE_STRUCT(
    troupe_process_config,
    // The program and its arguments: a path, or a name that is looked for in PATH. At least one.
    (troupe_array_troupe_text, arguments),
    // "KEY=VALUE" each, added to what each rank's process has; it overrides all of the above.
    (troupe_array_troupe_text, environment),
    // Its working folder; NULL: that of the rank's process.
    (troupe_text, folder),
    // A JSON value for the program, of at most 100,000 bytes; NULL: none.
    (troupe_text, json),
    // The programs of other ranks than 0 do not report, as that of rank 0 does for all: only its
    // checkpoints are the run's.
    (bool, rank_0_reports),
    // How long it may go on once it was told to stop, until it gets SIGTERM, and after that until
    // it is killed; 0: 10 s.
    (double, grace_s),
    // Each line of its standard output that is a JSON object is a report of the numbers in it, as
    // {"epoch": 3, "loss": 0.5}: for programs that know nothing of Troupe. The line is passed on,
    // too.
    (bool, json_lines));

typedef troupe_process_config troupe_config_troupe_process;
// The trainer, for troupe_train(troupe_process, ...) and the like. Before its first group it checks
// the config: TROUPE_INVALID, or TROUPE_NOT_FOUND (there is no such program or folder). A rank
// whose program ends otherwise than with status 0 has failed as TROUPE_FAILED; the text has the end
// of what the program wrote to its standard errors.
extern TROUPE_EXPERIMENTAL const troupe_trainer troupe_trainer_troupe_process;

TROUPE_END_C

#endif
