#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz with clang (Debian: clang libclang-rt-14-dev libomp-14-dev) and runs each for SECONDS, from the
# inputs in tests/fuzz/NAME. New inputs go to build-fuzz/corpus/NAME, what crashes to build-fuzz/NAME-*. Prints a row for each;
# exit code 1 if one found something.
#   fuzz.sh [SECONDS [NAME...]]      SECONDS: 60 by default; NAME: such as snapshot
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift || true
names=${*:-$(ls tests/fuzz/*_fuzz.cpp | xargs -n 1 basename | sed 's/_fuzz.cpp//')}
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz >&2
failed=0
for name in $names; do
    corpus=build-fuzz/corpus/$name
    mkdir -p "$corpus"
    seeds=(); [ ! -d "tests/fuzz/$name" ] || seeds=("tests/fuzz/$name")
    words=(); [ ! -e "tests/fuzz/$name.dict" ] || words=("-dict=tests/fuzz/$name.dict")
    log=build-fuzz/$name.log
    if SLUICE_FUZZ_TOKENIZER=tests/models/dsv41-rand-a/tokenizer.json OMP_NUM_THREADS=1 \
        "build-fuzz/tests/${name}_fuzz" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="build-fuzz/$name-" "${words[@]}" "$corpus" "${seeds[@]}" >"$log" 2>&1; then
        result=ok
    else
        result=FOUND failed=1
    fi
    printf '%-16s %-6s %12s runs  %6s features  (%s)\n' "$name" "$result" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(grep -o 'ft: [0-9]*' "$log" | tail -n 1 | cut -c5-)" "$log"
done
exit $failed
