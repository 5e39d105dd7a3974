#!/usr/bin/env bash
# Runs every test that needs no GPU, on a bare Debian 12: the tests themselves, the same with the address and undefined
# behaviour sanitizers, the rings and the cache with the thread sanitizer, token ids compared with Hugging Face
# tokenizers, JSON grammars with jsonschema, the server with the clients of OpenAI and Anthropic, and, where nvcc is
# installed, the CUDA build for every architecture.
#   run.sh [all|quick]      quick: the plain tests only
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
say() { printf '\n== %s\n' "$*"; }

say "build and tests"
bash tools/setup.sh build -DSLUICE_CUDA=OFF -DSLUICE_WARNINGS_ARE_ERRORS=ON
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

# Presets (CMakePresets.json) name the build folders and leave out what takes minutes under a sanitizer: the product of
# golden settings, which is the plain build's, and the governor's simulated worlds, which have one thread.
say "address and undefined behaviour sanitizers"
cmake --preset asan >/dev/null
cmake --build --preset asan
ctest --preset asan

say "thread sanitizer: rings and cache"
cmake --preset tsan >/dev/null
cmake --build --preset tsan --target tests_io tests_cache
ctest --preset tsan

say "ids against Hugging Face tokenizers"
bash tests/dev/tokenizer_oracle.sh build

say "JSON grammars against jsonschema"
bash tests/dev/json_schema_oracle.sh build

say "clients of the server"
bash tests/dev/api_clients.sh build

if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    say "CUDA build for every architecture"
    bash tools/dev/cuda_build.sh build-cuda
fi
