#!/usr/bin/env bash
# The measuring scripts work on any machine: a short soak, and rows of full_size with small shapes on the CPU.
set -euo pipefail
cd "$SLUICE_SOURCE_DIR"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_WAIT_POLICY=passive SLUICE_THREADS=1 XDG_CONFIG_HOME=$work XDG_STATE_HOME=$work SOAK_SPEED=off
bash tools/dev/soak.sh "$SLUICE" tests/models/dsv41-tiny 120 --device cpu --cache-slots 100 | tee "$work/soak"
grep -q '^soak: flat$' "$work/soak"
[ "$(grep -c '%.*[0-9]' "$work/soak")" -ge 3 ]
bash tools/dev/full_size.sh "$SLUICE" "$MAKE_CHECKPOINT" --small --only paced --shm "$work" --disk "$work" --log "$work/log" |
    tee "$work/table"
[ "$(grep -c '^| cold decode, paced' "$work/table")" = 3 ]
[ -z "$(ls -d "$work"/sluice-full-size-* 2>/dev/null)" ] # checkpoints are removed
