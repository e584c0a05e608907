#!/bin/sh
# peer_gloo: runs peer_gloo.py with the system's Python, which Debian's python3-torch is for.
here=$(cd "$(dirname "$0")" && pwd)
exec env PYTHONWARNINGS=ignore /usr/bin/python3 "$here/../../../../benchmarks/compare/peer_gloo.py" 2>/dev/null
