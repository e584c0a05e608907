#!/bin/sh
# peer_erlang: starts the Erlang programs with as many schedulers as the row has threads.
#
#     peer_erlang <benchmark> <threads> [seconds | count]
exec erl -noshell -noinput +S "$2:$2" +P 2000000 -pa "$(dirname "$0")" \
    -eval "savina:main([\"$1\", \"${3:-0.4}\"])"
