#!/usr/bin/env bash
# From a bare Debian 12 to every test that needs no GPU: the tests themselves, the same with the address and undefined
# behaviour sanitizers, the rings and the cache with the thread sanitizer, ids against Hugging Face tokenizers, and, where
# nvcc is installed, the CUDA build for every architecture.
#   run.sh [all|quick]      quick: the plain tests only
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
say() { printf '\n== %s\n' "$*"; }

say "build and tests"
bash tools/setup.sh build -DSLUICE_CUDA=OFF
temporary=$(mktemp -d)
chmod 1777 "$temporary" # as /tmp is: tests become other users
trap 'rm -rf "$temporary"' EXIT
TMPDIR=$temporary ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" | tee build/ctest.log
if [ -n "$(ls -A "$temporary")" ]; then
    echo "tests left these behind, which counts as a failure here: $(ls -A "$temporary" | tr '\n' ' ')" >&2
    exit 1
fi
if grep -q 'Skipped' build/ctest.log; then
    echo "a test was skipped: that counts as a failure here" >&2
    exit 1
fi
[ "$what" = quick ] && exit 0

say "address and undefined behaviour sanitizers"
cmake -S . -B build-asan -G Ninja -DSLUICE_CUDA=OFF -DSLUICE_SANITIZE=address -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >/dev/null
cmake --build build-asan
# The golden product is the plain build's: here it would take half an hour.
ctest --test-dir build-asan --output-on-failure --no-tests=error -j "$(nproc)" -E 'golden traces|^cli: |governed guessing'

say "thread sanitizer: rings and cache"
cmake -S . -B build-tsan -G Ninja -DSLUICE_CUDA=OFF -DSLUICE_SANITIZE=thread -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >/dev/null
cmake --build build-tsan --target tests_io tests_cache
# The governor's simulated worlds have one thread, and take minutes here.
ctest --test-dir build-tsan --output-on-failure --no-tests=error -R '^(io|cache):' -E 'guessing gains|governed guessing|every guess steals'

say "ids against Hugging Face tokenizers"
bash tests/dev/tokenizer_oracle.sh build

if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    say "CUDA build for every architecture"
    bash tools/dev/cuda_build.sh build-cuda
fi
