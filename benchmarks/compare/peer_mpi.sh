#!/bin/sh
# peer_mpi BIND PROGRAM [ARGUMENT...]: runs a program of this folder as two processes under Open MPI, bound to what
# --bind-to says: core, which is mpirun's default for two, or none.
here=$(cd "$(dirname "$0")" && pwd)
bind=$1 program=$2
shift 2
exec mpirun -np 2 --allow-run-as-root --oversubscribe --bind-to "$bind" "$here/$program" "$@"
