#!/bin/sh
# peer_mpi_transformer BIND [ARGUMENT...]: runs mpi_transformer as two processes under Open MPI, bound to what --bind-to
# says: core, which is mpirun's default for two, or none.
here=$(cd "$(dirname "$0")" && pwd)
bind=$1
shift
exec mpirun -np 2 --allow-run-as-root --oversubscribe --bind-to "$bind" "$here/mpi_transformer" "$@"
