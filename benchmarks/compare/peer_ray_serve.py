"""peer_ray_serve.py: the rows of bench_server in Ray Serve, as Ray's users write them.

    peer_ray_serve <seconds> ROW...

Prints "<row> <value> <p50> <p99> <p999>" for each: what measure/load has measured of one replica
behind Ray's proxy, both of them processes of this machine. Raw bytes come and go as Starlette's
requests and responses have them, JSON as its request reads it.
"""

import os
import subprocess
import sys

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

PORT = 8123


# Without a line of log for each request, which would cost Ray more than ours has to do.
@serve.deployment(num_replicas=1, max_ongoing_requests=256,
                  logging_config={"enable_access_log": False, "log_level": "WARNING"})
class Adder:
    async def __call__(self, request: Request):
        if request.headers["content-type"] == "application/json":
            rows = np.asarray((await request.json())["instances"], dtype=np.float32)
            return {"predictions": rows.sum(axis=1, keepdims=True).tolist()}
        rows = np.frombuffer(await request.body(), dtype=np.float32).reshape(-1, 64)
        return Response(rows.sum(axis=1, keepdims=True).tobytes(),
                        media_type="application/octet-stream")


def main():
    load = os.path.join(os.environ["LOAD_FOLDER"], "load")
    serve.start(http_options={"host": "127.0.0.1", "port": PORT},
                logging_config={"enable_access_log": False, "log_level": "WARNING"})
    serve.run(Adder.bind(), route_prefix="/sum")
    url = f"http://127.0.0.1:{PORT}/sum"
    subprocess.run([load, "serve.rate.16", url, "2"], stdout=subprocess.DEVNULL)  # To warm it up.
    for row in sys.argv[2:]:
        subprocess.run([load, row, url, sys.argv[1]])
    sys.stdout.flush()
    serve.shutdown()


main()
