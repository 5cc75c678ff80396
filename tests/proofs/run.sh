#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the proof programs of a build directory, each in as many processes as JOBS says [one per core].
# Prints a table that grows with each program: what was tried, how many, how many lost or undetected.
# With --full in their long form. Writes build/proofs.json.
set -u
build=${1:?usage: run.sh BUILD_DIR [--full]}
size=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
mutations=400
[ "$size" = --full ] && mutations=10000
hostile() {
    python3 "$here/../hostile/check_restores.py" --proof --mutations "$mutations" --pawl "$build/cli/pawl" \
        --make-base "$build/tests/hostile/hostile_base" --judge "$build/tests/hostile/hostile_judge"
}
programs() {
    for program in proofs/proof_crash proofs/proof_damage proofs/proof_faults proofs/proof_kill \
        proofs/proof_looks proofs/proof_objects proofs/proof_killed_ranks proofs/proof_reshard \
        simulation/proof_simulation simulation/proof_power_loss; do
        echo "$program ..." >&2
        (cd "$build/tests" && ./$program $size) || printf '{"failed": "%s"}\n' "$program"
    done
}
{
    programs
    echo "hostile/check_restores.py ..." >&2
    hostile || printf '{"failed": "hostile/check_restores.py"}\n'
} | python3 "$here/table.py" "$here/../../build/proofs.json"
