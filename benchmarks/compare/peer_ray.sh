#!/bin/sh
# peer_ray, peer_ray_train, peer_ray_serve, peer_ray_server, peer_mlflow: runs the rows of that name with the Python that
# ./dev has put Ray or MLflow into.
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
venv=venv
[ "$(basename "$0")" != peer_ray_train ] || venv=venv-train # With PyTorch.
case $(basename "$0") in
peer_ray_serve | peer_ray_server) venv=venv-serve ;;
peer_mlflow) venv=venv-mlflow ;;
esac
exec env LOAD_FOLDER="$here/../measure" RAY_DEDUP_LOGS=0 RAY_USAGE_STATS_ENABLED=0 PYTHONWARNINGS=ignore \
    "$root/build/$venv/bin/python" "$root/benchmarks/compare/$(basename "$0").py" "$@" 2>/dev/null
