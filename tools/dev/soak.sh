#!/usr/bin/env bash
# Checks that a long answer neither slows down nor grows: generates TOKENS tokens past every end token, and compares the
# last 200 with 200 early ones after the cache is warm. The route file (routes.* until it is complete) grows by one record
# per token, so its size tells how far the run is.
#   soak.sh BINARY MODEL [TOKENS] [sluice flags...]      (default: 2000 tokens; flags such as --device cuda pass through)
# Prints one table, early and late: speed, hits (replayed; they need --cache-slots N, and on a GPU --vram-slots off),
# resident memory, and VRAM on a GPU. Exits with 1 when the late speed is more than SOAK_SPEED % (default 5; "off" ignores
# speed) below the early one although the hits are alike, or when memory grew by more than 1 % + 4 MiB.
set -euo pipefail
sluice=$1 model=$2 tokens=${3:-2000}
shift $(($# < 3 ? $# : 3))
work=$(mktemp -d "${TMPDIR:-/tmp}/sluice-soak-XXXXXX")
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT

gpu() { # MiB in use on the GPU, or nothing
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -n 1
}
has_gpu=
[[ " $* " == *" cuda"* ]] && [ -n "$(gpu)" ] && has_gpu=1

"$sluice" "$model" -p "Tell me about rivers, locks and mills." -n "$tokens" -c $((tokens + 256)) --ignore-eos --loop-guard 0 \
    --temp 1 --top-p 1 --seed 7 --record-routes "$work/routes" --json "$@" >"$work/answer.json" 2>"$work/log" &
pid=$!
beat=0 vram=0
while kill -0 "$pid" 2>/dev/null; do
    size=$(stat -c %s "$work"/routes* 2>/dev/null || echo 0)
    rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status" 2>/dev/null || echo 0)
    [ -n "$has_gpu" ] && [ $((beat % 20)) = 0 ] && vram=$(gpu)
    [ "$size" = 0 ] || [ -z "$rss" ] || echo "$EPOCHREALTIME $size $rss $vram" >>"$work/samples"
    beat=$((beat + 1))
    sleep 0.05
done
rc=0
wait "$pid" || rc=$?
pid=
[ $rc = 0 ] || { cat "$work/log" >&2; exit "$rc"; }

python3 - "$work" "$sluice" "${SOAK_SPEED:-5}" "$@" <<'PYTHON'
import json
import struct
import subprocess
import sys

work, sluice, tolerance, *flags = sys.argv[1:]
data = open(f"{work}/routes", "rb").read()
layers, experts, top_k, name = struct.unpack_from("<4I", data, 8)
start, record = 32 + name, 4 + 4 * layers * top_k
total = (len(data) - start) // record
prompt = sum(data[start + i * record] & 1 for i in range(total))
samples = [[float(x) for x in line.split()] for line in open(f"{work}/samples")]
answer = json.load(open(f"{work}/answer.json"))


def when(token):  # seconds, interpolated between the two samples around it
    before = None
    for time, size, *_ in samples:
        done = (size - start) / record
        if done >= token:
            return time if before is None or done == before[1] else \
                before[0] + (time - before[0]) * (token - before[1]) / (done - before[1])
        before = (time, done)
    return samples[-1][0]


def flag(name, otherwise):
    return flags[flags.index(name) + 1] if name in flags else otherwise


slots, policy = flag("--cache-slots", "off"), flag("--cache-policy", "aging-lru")
if any("cuda" in f for f in flags) and flag("--vram-slots", "") != "off":
    slots = "off"  # the requests to the cache in RAM depend on the one in VRAM


def hits_until(token):  # hits and requests in a replay of the first tokens
    if slots == "off":
        return 0, token
    cut = f"{work}/cut"
    open(cut, "wb").write(data[:start + token * record])
    out = subprocess.run([sluice, "simulate", cut, "--cache-slots", slots, "--cache-policy", policy, "--json"],
                         capture_output=True, check=True)
    cache = json.loads(out.stdout)[0]["runs"][0]["cache"]
    return cache["hits"], cache["asked"]


window = min(200, (total - prompt) // 4)
early, late = prompt + max(window, min(400, (total - prompt) // 4)), total - window
cache = answer["cache"]
rows = []
for first in (early, late):
    seconds = when(first + window) - when(first)
    a, b = hits_until(first), hits_until(first + window)
    at = [s for s in samples if first <= (s[1] - start) / record <= first + window] or samples[-1:]
    rows.append((first, window / seconds, (b[0] - a[0]) / (b[1] - a[1]), max(s[2] for s in at) / 1024, max(s[3] for s in at)))
print(f"{total} tokens of {layers} layers x {experts} experts; cache slots {slots}, hits over all "
      f"{100 * cache['hits'] / max(1, cache['asked']):.1f} %")
print(f"{'tokens':>14} {'tok/s':>9} {'hits':>8} {'RSS MiB':>10} {'VRAM MiB':>9}")
for first, speed, hits, rss, vram in rows:
    print(f"{first:>6} .. {first + window:<5} {speed:9.2f} {100 * hits:7.2f}% {rss:10.1f} {vram:9.0f}")
(_, speed, hits, rss, vram), (_, speed2, hits2, rss2, vram2) = rows
wrong = []
alike = abs(hits2 - hits) < 0.02
print(f"late / early: speed {100 * speed2 / speed:.1f} %, RSS {100 * rss2 / rss:.2f} %" + (
    f", VRAM {100 * vram2 / vram:.2f} %" if vram else ""))
if tolerance != "off" and alike and speed2 < speed * (1 - float(tolerance) / 100):
    wrong.append("slower")
if rss2 > rss * 1.01 + 4 or vram2 > vram * 1.01 + 4:
    wrong.append("grown")
print("soak: " + (", ".join(wrong) if wrong else "flat"))
sys.exit(bool(wrong))
PYTHON
