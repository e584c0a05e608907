#!/bin/sh
# peer_ray, peer_ray_train, peer_ray_tune, peer_ray_curves, peer_ray_serve, peer_ray_server, peer_mlflow, peer_optuna: runs the rows of
# that name with the Python that ./dev has put Ray, MLflow or Optuna into.
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../../.." && pwd)
venv=venv
[ "$(basename "$0")" != peer_ray_train ] || venv=venv-train # With PyTorch.
case $(basename "$0") in
peer_ray_serve | peer_ray_server) venv=venv-serve ;;
peer_mlflow) venv=venv-mlflow ;;
peer_optuna) venv=venv-optuna ;;
peer_ray_tune | peer_ray_curves) venv=venv-tune ;;
esac
exec env LOAD_FOLDER="$here/../measure" TUNE_FUNCTIONS="$here/libtune_functions.so" RAY_DEDUP_LOGS=0 RAY_USAGE_STATS_ENABLED=0 PYTHONWARNINGS=ignore \
    "$root/build/$venv/bin/python" "$root/benchmarks/compare/$(basename "$0").py" "$@" 2>/dev/null
