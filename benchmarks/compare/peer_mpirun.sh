#!/bin/sh
# peer_mpirun: runs peer_mpi with two ranks, each on a CPU of its own.
here=$(cd "$(dirname "$0")" && pwd)
command -v mpirun >/dev/null || { echo "mpirun is not installed" >&2; exit 1; }
root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
exec mpirun -n 2 $root --oversubscribe --bind-to core "$here/peer_mpi" 2>/dev/null
