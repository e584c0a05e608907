#!/bin/sh
# performance.sh page|short RESULTS: the figures of docs/performance.md (page), or of the README's
# table (short), from the saved runs in the folder RESULTS. Which runs, rows and words: below.
set -eu
form=$1
cd "$2"
actors="actors-21b635f"
objects="objects-21b635f"
channel="channel-57d7961"
tensor="tensor-57d7961"
train="train-97c2f28"
transformer="transformer-97c2f28"
server="server-cbb5d8e"
jobs="server-fe6c4709"
repository="server-fe6c4709"
tune="tune-b1d2b8d2"

# What is said of each row: file, name, words. A line that begins with "#" is a heading.
page_rows() {
    cat <<EOF
# Messages inside a process
$actors savina.pingpong.1t Ping-pong, one thread
$actors savina.pingpong.2t Ping-pong, two threads
$actors savina.count.1t Counting (one sender, one receiver), one thread
$actors savina.count.2t Counting, two threads
$actors savina.fanin.2t Eight senders, one receiver, two threads
$actors savina.forkjoin.2t Fork-join throughput, two threads
$actors savina.ring.2t A ring of 100 actors, two threads
$actors savina.chameneos.2t Chameneos, two threads
$actors savina.big.2t Big (many to many), two threads
$actors savina.dictionary.2t Concurrent dictionary, two threads
$actors savina.banking.2t Banking transactions, two threads
$actors savina.nqueens.2t N-queens, two threads (computing)
$actors savina.matmul.2t Recursive matrix multiplication, two threads (computing)
$actors call.rtt.inproc.actor.1t A call and its answer between two actors
$actors call.rtt.inproc.spin.2cpu A call from a thread outside, two CPUs
# Making actors
$actors savina.forkjoin_create.2t Fork-join creation, two threads
$actors savina.fib.2t Fibonacci: an actor a call, two threads
$actors spawn.light Light actors made
$actors idle_bytes Memory of an idle light actor, of 100,000
$actors scale.million The same, of 1,000,000
$actors spawn.process An actor with a process of its own, to its first answer
$actors spawn.process.100 100 of them at once, after an earlier 100
$actors spawn.process.100.cold The first 100 of a program
$actors scale.process.1000 1,000 at once
$actors scale.process.1000.bytes Memory (PSS) of each of them
$actors scale.process.1000.end To end all 1,000
$actors start.first_call From troupe_start to the first answer
# Calls between processes
$actors call.rtt.ring.spin.2cpu Round trip over rings, a CPU each, no pause
$actors call.rtt.ring.block.1cpu Round trip over rings, one CPU for both
$actors call.rtt.ring.block.2cpu Round trip over rings, a CPU each, both ends sleep
$actors call.rtt.ipc.block.2cpu Round trip over ZeroMQ, unix sockets, both ends sleep
$actors call.rtt.tcp.block.2cpu Round trip over ZeroMQ, tcp with CURVE, both ends sleep
$actors call.rate.ring.1_1 1,000 calls in flight over rings, one to one
$actors call.rate.ring.n_n The same, four to four
$actors call.rate.ring.1_1_1k The same with 1 KiB each way, one to one
$actors call.rate.ring.1_1_ref The same with a reference as argument
$actors call.rate.ipc.1_1 1,000 in flight over unix sockets
$actors call.rate.tcp.1_1 1,000 in flight over tcp with CURVE
# Objects
$objects putdrop.64.1c Put and drop of 64 bytes, one client
$objects put.64.1c Put of 64 bytes
$objects put.1024.1c Put of 1 KiB
$objects put.65536.1c Put of 64 KiB
$objects put.1048576.1c Put of 1 MiB
$objects put.1048576.2c Put of 1 MiB, two clients
$objects put.268435456.1c Put of 256 MiB
$objects get.65536 A view of 64 KiB, copied out
$objects get.268435456 A view of 256 MiB, copied out
$objects view.268435456 A view of 256 MiB, first and last byte read
$objects refs10k A list of 10,000 references, read and dropped
$objects spill Put into a full store: another object goes to disk
$objects restore Read of objects that are on disk
$objects plasma.put.1048576.1c Put of 1 MiB beside Plasma
$objects plasma.view.1048576 View of 1 MiB beside Plasma
# Beside Ray
$actors ray.1_1_actor_calls_sync Actor calls, one at a time
$actors ray.1_1_actor_calls_async Actor calls, many in flight
$actors ray.n_n_actor_calls_async The same, four to four
$actors ray.single_client_tasks_sync Tasks, one at a time
$actors ray.single_client_tasks_async Tasks, many in flight
$actors ray.actor_creation Actors with processes made
$objects ray.single_client_get_calls Gets
$objects ray.single_client_put_calls Puts
$objects ray.multi_client_put_calls Puts, several clients
$objects ray.single_client_put_gigabytes Large puts
$objects ray.single_client_get_object_containing_10k_refs Get of a list of 10,000 references
$objects ray.single_client_wait_1k_refs Wait for one of 1,000, then of those left, ...
# Channels and tensors
$channel channel.64 A value of 64 bytes through a channel
$channel channel.1048576 A value of 1 MiB through a channel
$tensor tensor.view.268435456 View of a tensor of 256 MiB
$tensor tensor.call.67108864 Call with a tensor of 64 MiB
# Training
$train train.first_report From a submission to the first report seen
$train train.reports Reports of two ranks
$train train.reports.slow_subscriber The same with a follower that sleeps 200 ms a report
$train train.follow From a report to its follower
$train train.kill_to_report From kill -9 of a rank to the next report
$train train.overhead Share of a step of 20 ms that its report takes
$train train.checkpoint.1048576 A save of 1 MiB, as a share of write and fsync
$train train.checkpoint.104857600 A save of 100 MiB, as a share of write and fsync
$train train.commit Share of a step of 1 ms that its commit in memory takes
$train train.kill_to_report.memory From kill -9 of a rank to the next report, from a commit in memory
$transformer train.transformer A small transformer, two ranks
# Sums over two ranks
$train train.allreduce.staged.1024 1 KiB, in private memory
$train train.allreduce.staged.65536 64 KiB, in private memory
$train train.allreduce.staged.1048576 1 MiB, in private memory
$train train.allreduce.staged.26214400 25 MiB, in private memory
$train train.allreduce.staged.104857600 100 MiB, in private memory
$train train.allreduce.inplace.1024 1 KiB, in shared memory
$train train.allreduce.inplace.65536 64 KiB, in shared memory
$train train.allreduce.inplace.1048576 1 MiB, in shared memory
$train train.allreduce.inplace.26214400 25 MiB, in shared memory
$train train.allreduce.inplace.104857600 100 MiB, in shared memory
# Batches
$train train.data.tensor Shuffled rows of a tensor (3136 bytes each)
$train train.data.safetensors The same of a mapped safetensors file
$train train.data.tokens Shuffled windows of a mapped file of tokens (2048 bytes)
$train train.data.idx Shuffled images of a mapped IDX file (784 bytes)
$train train.data.csv Shuffled rows of a CSV file (64 bytes)
$train train.data.windows Windows of a mapped file in its order, copied
$train train.data.unaligned Rows at odd addresses of a mapped file in its order, copied
# Serving
$server serve.p50 An answer over HTTP, one connection
$server serve.rate.1 Answers over HTTP, one connection
$server serve.rate.16 The same, 16 connections
$server serve.rate.64 The same, 64 connections
$server serve.json The same, 16 connections, as JSON
# The train server, its files on a disk
$jobs server.submit A submission, until it is acknowledged
$jobs server.submit.rate Submissions, of 8 clients
$jobs server.first_report.cold From a submission to the first report, a process a job
$jobs server.first_report.warm The same by a warm runner
$jobs server.jobs.cold Jobs that do nothing, a process each
$jobs server.jobs.warm The same by warm runners
$jobs server.follow From a report to a follower in another process
# The same with its files in memory
$jobs server.submit.memory A submission, until it is acknowledged
$jobs server.submit.rate.memory Submissions, of 8 clients
$jobs server.first_report.cold.memory From a submission to the first report, a process a job
$jobs server.first_report.warm.memory The same by a warm runner
$jobs server.jobs.cold.memory Jobs that do nothing, a process each
$jobs server.jobs.warm.memory The same by warm runners
# Searching: a suggestion and its answer, with 1,000 trials before it (5 dimensions)
$tune tune.suggest.random.5.1000 At random
$tune tune.suggest.sobol.5.1000 Sobol's sequence
$tune tune.suggest.tpe.5.1000 TPE
$tune tune.suggest.cmaes.5.1000 CMA-ES
$tune tune.suggest.gp.5.1000 A Gaussian process
$tune tune.suggest.nsga2.5.1000 NSGA-II, two objectives
$tune tune.suggest.tpe.5.10000 TPE, with 10,000 trials before it
$tune tune.suggest.tpe.20.1000 TPE, 20 dimensions
# Studies and sweeps
$tune tune.record A trial told, and its line on a disk
$tune tune.record.memory The same, its file in memory
$tune tune.reopen.80000 A study of 80,000 trials, opened again
$tune tune.results.files Reports that a sweep takes in, its files on a disk
$tune tune.results The same with its files in memory
$tune tune.trials Trials that report once, a process each, files on a disk
$tune tune.trials.10000 The same, 10,000 of them
$tune tune.trials.memory Trials that report once, files in memory
# The repository of models (ours syncs and verifies checksums, the peer does neither)
$repository repository.push.1000000 A push of 1 MB
$repository repository.push.10000000 A push of 10 MB
$repository repository.push.100000000 A push of 100 MB
$repository repository.open.1000000 A version of 1 MB, opened
$repository repository.open.10000000 A version of 10 MB, opened
$repository repository.open.100000000 A version of 100 MB, opened
EOF
}

short_rows() {
    cat <<EOF
$actors savina.count.2t One sender, one receiver
$actors savina.fanin.2t Eight senders, one receiver
$actors savina.banking.2t Banking
$actors savina.nqueens.2t N-queens (computing)
$actors spawn.light Actors made
$actors idle_bytes Memory of an idle actor
$actors ray.actor_creation Actors with a process of their own made
$actors ray.1_1_actor_calls_async Calls between processes, many in flight
$actors ray.single_client_tasks_async Tasks, many in flight
$actors ray.single_client_put_gigabytes Large objects put
EOF
}

"${form}_rows" | awk -v form="$form" '
function field(text, key,    at, rest) {
    at = index(text, "\"" key "\": ")
    if (!at) return ""
    rest = substr(text, at + length(key) + 4)
    if (rest ~ /^"/) { rest = substr(rest, 2); sub(/".*/, "", rest) }
    else sub(/[,}].*/, "", rest)
    return rest == "null" ? "" : rest
}
# Three digits are all that a virtual machine says.
function short(text, unit,    value) {
    if (text == "") return "missing"
    value = text + 0
    gsub(/^1\/s$/, "/s", unit)
    unit = unit == "/s" ? unit : " " unit
    if (unit == " %") return sprintf(value >= 1000 ? "%.0f %%" : "%.3g %%", value)
    if (unit == " us" && value >= 1e6) return sprintf("%.3g s", value / 1e6)
    if (unit == " ms" && value >= 1000) return sprintf("%.3g s", value / 1000)
    if (unit == " us" && value >= 1000) return sprintf("%.3g ms", value / 1000)
    if (unit == " us" || unit == " GB/s") return sprintf("%.3g%s", value, unit)
    if (unit == " B") return value >= 1e4 ? sprintf("%.3g kB", value / 1e3) : sprintf("%.0f B", value)
    if (value >= 1e9) return sprintf("%.3g G%s", value / 1e9, unit)
    if (value >= 1e6) return sprintf("%.3g M%s", value / 1e6, unit)
    if (value >= 1e3) return sprintf("%.3g k%s", value / 1e3, unit)
    return sprintf("%.3g%s", value, unit)
}
function ratio(text) { return text == "" ? "" : sprintf(text + 0 >= 1000 ? "%.0f" : "%.3g", text + 0) }
function load(file,    line, name) {
    if (file in loaded) return
    loaded[file] = 1
    while ((getline line < (file ".jsonl")) > 0) {
        name = field(line, "name")
        if (name == "machine") {
            where[file] = field(line, "machine") ", " field(line, "cpus") " CPUs, Linux " \
                field(line, "kernel") ", commit " field(line, "commit")
        } else row[file, name] = line
    }
}
function beside(line, who,    unit) {
    unit = field(line, "unit")
    if (index(field(line, "peer"), who) == 1) return short(field(line, "peer_value"), unit)
    if (index(field(line, "other"), who) == 1) return short(field(line, "other_value"), unit)
    return ""
}
/^#/ {
    print "\n## " substr($0, 3) "\n"
    print "| | Troupe | peer or limit | ratio | other peer | ratio |"
    print "|---|---|---|---|---|---|"
    next
}
{
    file = $1; name = $2
    words = $0
    sub(/^[^ ]* [^ ]* /, "", words)
    load(file)
    if (!((file, name) in row)) {
        print "performance.sh: " file ".jsonl has no row " name > "/dev/stderr"
        failed = 1
        next
    }
    line = row[file, name]
    unit = field(line, "unit")
    if (form == "short") {
        if (!titled++) {
            print "| | Troupe | CAF 0.17 | Erlang/OTP 25 | Ray |"
            print "|---|---|---|---|---|"
        }
        print "| " words " | " short(field(line, "value"), unit) " | " beside(line, "CAF") " | " \
            beside(line, "Erlang") " | " beside(line, "Ray") " |"
        next
    }
    peer = field(line, "peer")
    other = field(line, "other")
    print "| " words " | " short(field(line, "value"), unit) " | " \
        (peer == "" ? "" : short(field(line, "peer_value"), unit) ", " peer) " | " \
        ratio(field(line, "ratio")) " | " \
        (other == "" ? "" : short(field(line, "other_value"), unit) ", " other) " | " \
        ratio(field(line, "other_ratio")) " |"
}
END {
    if (form == "page") {
        print "\n## The runs\n"
        for (file in where) lines[++count] = "- `benchmarks/results/" file ".jsonl`: " where[file]
        for (i = 2; i <= count; i++)
            for (j = i; j > 1 && lines[j] < lines[j - 1]; j--) {
                swap = lines[j]; lines[j] = lines[j - 1]; lines[j - 1] = swap
            }
        for (i = 1; i <= count; i++) print lines[i]
    }
    exit failed
}'
