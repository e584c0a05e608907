#!/bin/sh
# rows.sh BENCH_ACTORS BENCH_OBJECTS BENCH_CHANNEL BENCH_TENSOR BENCH_TRAIN BENCH_TUNE [BENCH_SERVER]: they
# measure the figures that they are asked for, and no others.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-rows-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

# expect NAMES ARGUMENT...: these figures and no others are printed, each with a value.
expect() {
    wanted="machine $1"
    shift
    "$program" quick "$@" >"$work/out" || { echo "$program quick $* failed"; status=1; }
    got=$(sed -n 's/^{"name": "\([^"]*\)".*/\1/p' "$work/out" | tr '\n' ' ')
    [ "$got" = "$wanted " ] || { echo "$*: expected $wanted; found $got"; status=1; }
    ! grep '"value": null' "$work/out" || { echo "$*: without a value"; status=1; }
}

program=$1
expect 'savina.pingpong.1t' savina.pingpong.1t
expect 'savina.ring.2t scale.ring' scale.ring savina.ring.2t
expect 'call.rtt.ipc.block.1cpu' call.rtt.ipc.block.1cpu
expect 'start.first_call' start
expect 'ray.1_1_actor_calls_sync' ray.1_1_actor_calls_sync
! "$program" quick savina.none >"$work/out" 2>&1 || { echo "savina.none did not fail"; status=1; }
program=$2
expect 'put.64.1c put.64.2c' put.64.
expect 'putdrop.64.2c view.1024' putdrop.64.2c view.1024
expect 'refs10k wait1k' refs wait
expect 'spill restore' spill restore
expect 'ray.multi_client_put_calls' ray.multi_client_put_calls
expect 'ray.single_client_get_object_containing_10k_refs ray.put.1048576.2c ray.view.65536' \
    ray.single_client_get_object ray.put.1048576.2c ray.view.65536
! "$program" quick none >"$work/out" 2>&1 || { echo "none did not fail"; status=1; }
program=$3
expect 'channel.rtt.64 channel.latest.1024' channel.rtt channel.latest.1024
program=$4
expect 'tensor.view.1048576 tensor.call.1048576' tensor.view.1048576 tensor.call.1048576
program=$5
expect 'train.first_report train.follow train.kill_to_report train.kill_to_report.memory' \
    train.first_report train.follow train.kill
expect 'train.commit' train.commit
expect 'train.reports train.reports.slow_subscriber train.overhead' train.reports train.overhead
expect 'train.checkpoint.1048576 train.checkpoint.104857600' train.checkpoint
program=$6
expect 'tune.suggest.random.5.100 tune.record.memory tune.results.files tune.results tune.trials.memory' \
    tune.suggest.random tune.record.memory tune.trials.memory tune.results
program=${7:-}
if [ -n "$program" ]; then
    expect 'server.submit server.submit.memory server.submit.rate server.submit.rate.memory'" \
server.first_report.cold server.first_report.cold.memory server.first_report.warm server.first_report.warm.memory" \
        server.submit server.first_report
    expect 'server.jobs.cold server.jobs.cold.memory server.jobs.warm server.jobs.warm.memory server.follow'" \
server.follow.memory" server.jobs server.follow
    expect 'repository.push.1000000 repository.open.1000000' repository.push.1000000 repository.open.1000000
fi
exit $status
