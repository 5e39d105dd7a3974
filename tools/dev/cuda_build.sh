#!/usr/bin/env bash
# Builds with the CUDA backend for every architecture and checks the compiler's report: no kernel may use more than
# 99 KB of static shared memory per block, and none may spill. The binary must also start without a driver.
#   cuda_build.sh [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build-cuda}
export PATH=$PATH:/usr/local/cuda/bin
cmake -S . -B "$build" -G Ninja -DSLUICE_CUDA=ON -DSLUICE_WARNINGS_ARE_ERRORS=ON -DSLUICE_PTXAS_REPORT=ON -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
    -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache >/dev/null
cmake --build "$build" --clean-first 2>&1 | tee "$build/build.log" | { grep -vE 'ptxas info|^ +[0-9]+ bytes stack|Compiling entry' || true; }
python3 tools/dev/ptxas_report.py "$build/build.log"
"$build/sluice" tests/models/dsv41-tiny --device cpu -p "What is the capital of Australia?" --temp 0
