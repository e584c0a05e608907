#!/bin/sh
# peer_erlang: starts the Erlang programs with as many schedulers as the row has threads.
#
#     peer_erlang <benchmark> <threads> [seconds | count]
#
# remote_call* need a distributed node, and so a port mapper: one of its own, on this machine alone,
# that ends with it. In remote_call_apart and remote_call_paused the nodes are on CPUs 0 and 1.
here=$(dirname "$0")
export ERL_CRASH_DUMP=/dev/null
code="savina:main([\"$1\", \"${3:-0.4}\"])"
if [ "${1#remote_call}" != "$1" ]; then
    export ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((20000 + $$ % 20000))
    apart=
    [ "$1" = remote_call ] || apart="taskset -c 0"
    $apart erl -noshell -noinput +S "$2:$2" -name "bench$$@127.0.0.1" -pa "$here" -eval "$code"
    status=$?
    tries=0 # It stays while it knows of the second node, which is just ending.
    until epmd -kill 2>/dev/null | grep -q Killed || [ $tries -eq 50 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    exit $status
fi
exec erl -noshell -noinput +S "$2:$2" +P 2000000 -pa "$here" -eval "$code"
