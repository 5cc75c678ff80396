#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demonstration: train, train again under SIGKILL, compare. Takes the build directory, and options
# of demo.py after it (sh demo.sh BUILD_DIR --help lists them).
set -eu
if [ $# -lt 1 ]; then
    echo "usage: sh demo.sh BUILD_DIR [OPTION]..." >&2
    exit 2
fi
build=$1
shift
exec python3 "$(dirname "$0")/demo.py" --charlm "$build/examples/charlm/charlm" --pawl "$build/cli/pawl" \
    --directory "$build/demo" "$@"
