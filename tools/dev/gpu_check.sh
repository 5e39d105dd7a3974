#!/usr/bin/env bash
# Everything that only a machine with a GPU can show, in one call and one table: self-test, golden traces on the device over
# cache sizes and chunk sizes, bits against the CPU's experts, restarts, the sanitizer, speed.
#   gpu_check.sh BINARY [TESTS_KERNELS] [quick]
# BINARY is a sluice with the CUDA backend, TESTS_KERNELS its tests_kernels. Exit 0 if all passed.
set -uo pipefail
cd "$(dirname "$0")/../.."
sluice=${1:-build-cuda/sluice}
kernels=${2:-}
models=tests/models
golden=tests/golden
failed=0
row() { printf '%-58s %s\n' "$1" "$2"; }
check() { # NAME COMMAND...: one row, the command's last line as its note
    local name=$1 note
    shift
    if note=$("$@" 2>&1); then
        row "$name" "ok    $(tail -n 1 <<<"$note" | cut -c1-100)"
    else
        row "$name" "WRONG $(tail -n 3 <<<"$note" | tr '\n' ' ' | cut -c1-300)"
        failed=1
    fi
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
check "self-test" "$sluice" selftest --device cuda
[ -n "$kernels" ] && check "kernel tests" "$kernels"

export SLUICE_VRAM=2GiB SLUICE_DEVICE=cuda
for model in dsv41-tiny dsv41-rand-a; do
    all=$([ $model = dsv41-tiny ] && echo 512 || echo 144)
    one=$([ $model = dsv41-tiny ] && echo 48 || echo 18)
    for slots in off $one $((all / 2)) $all; do
        for chunk in 1 64 4096; do
            check "golden $model, vram slots $slots, chunk $chunk" \
                "$sluice" $models/$model --verify $golden --vram-slots $slots --chunk $chunk
        done
    done
    check "golden $model, reference index keys" \
        "$sluice" $models/$model --verify $golden --index-keys reference
    for io in uring threads; do
        check "golden $model, ram cache off, --io $io" \
            "$sluice" $models/$model --verify $golden --vram-slots off --cache-slots off --io $io --prefetch off
    done
done

# Bits: a trace recorded on the device, verified (every logit) over restarts, caches and chunks.
prompt="What is the capital of Australia?"
trace=$(mktemp -d)/own.json
check "record on the device" "$sluice" record $models/dsv41-tiny -o "$trace" -p "$prompt" -n 40
for i in 1 2 3 4 5 6 7 8 9 10; do
    check "bits: restart $i" "$sluice" $models/dsv41-tiny --verify "$trace" --vram-slots $((48 * i)) --chunk $i
done
check "bits: cache off, prefetch 2" "$sluice" $models/dsv41-tiny --verify "$trace" --vram-slots off --cache-slots off --prefetch 2

if [ "${3:-}" != quick ] && command -v compute-sanitizer >/dev/null; then
    run=("$sluice" $models/dsv41-tiny -p "$prompt" --temp 0 -n 8 --skip-selftest --vram-slots 48 --chunk 4)
    for tool in memcheck racecheck; do
        check "compute-sanitizer $tool, 8 tokens" compute-sanitizer --error-exitcode 9 --tool $tool "${run[@]}"
    done
fi
[ $failed = 0 ] && echo "gpu_check: all passed" || echo "gpu_check: FAILED"
exit $failed
