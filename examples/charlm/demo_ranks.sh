#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demonstration with many ranks: train, kill, go on with other numbers of ranks, compare. Takes the
# build directory, and options of demo_ranks.py after it (sh demo_ranks.sh BUILD_DIR --help lists them).
set -eu
if [ $# -lt 1 ]; then
    echo "usage: sh demo_ranks.sh BUILD_DIR [OPTION]..." >&2
    exit 2
fi
build=$1
shift
exec python3 "$(dirname "$0")/demo_ranks.py" --charlm "$build/examples/charlm/charlm-mpi" \
    --pawl "$build/cli/pawl" --directory "$build/demo-ranks" "$@"
