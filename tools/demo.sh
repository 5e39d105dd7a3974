#!/usr/bin/env bash
# From a bare Debian 12 to an answer of the small model in tests/models.
set -euo pipefail
cd "$(dirname "$0")/.."
bash tools/setup.sh build -DSLUICE_TESTS=OFF -DSLUICE_CUDA=OFF
build/sluice tests/models/dsv41-tiny -p "What is the capital of Australia?" --temp 0
