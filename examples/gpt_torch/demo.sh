#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demonstration with PyTorch: train, train again under SIGKILL, compare. Takes the build directory,
# the Python that has PyTorch, and options of demo.py after them.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: sh demo.sh BUILD_DIR PYTHON [OPTION]..." >&2
    exit 2
fi
build=$1
python=$2
shift 2
root=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH="$root/python" PAWL_LIBRARY="$root/$build/src/libpawl.so" OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
exec "$python" "$root/examples/gpt_torch/demo.py" --directory "$root/$build/demo-torch" "$@"
