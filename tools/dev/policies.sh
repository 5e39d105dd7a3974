#!/usr/bin/env bash
# Compares cache policies on recorded routes: writes small checkpoints with the released model's expert counts, records
# what their routers choose, replays every recording through every policy and Belady, and runs the engine itself with the
# same policies and sizes. Live counters and replay must agree to the last hit, and no cache may change a route. Routes
# that make_routes generated (routes-NAME) are only replayed.
#   policies.sh BINARY MAKE_CHECKPOINT [TOKENS] [WORK_FOLDER] [NAMES]
# TOKENS per recording (default 1000); WORK_FOLDER keeps the recordings (default or empty: a new folder in /dev/shm,
# removed at the end); NAMES is a pattern like 'tiny*' (default: all recordings). Exits with 1 on a difference.
set -euo pipefail
cd "$(dirname "$0")/../.."
sluice=$1 make=$2 make_routes=$(dirname "$2")/make_routes tokens=${3:-1000} work=${4:-} names=${5:-*}
[ -n "$work" ] || { work=$(mktemp -d /dev/shm/sluice-policies-XXXXXX) && trap 'rm -rf "$work"' EXIT; }
tiny=tests/models/dsv41-tiny
export OMP_WAIT_POLICY=passive SLUICE_DEVICE=cpu
policies=aging-lru,uses,slru,lru,drawn-lru,lfu,layer-lru
# A narrow model: its routes are cheap to compute, and their structure does not depend on the width.
narrow="--hidden 128 --moe 32 --heads 4 --head-dim 64 --rope-dim 16 --q-rank 64 --o-rank 32 --o-groups 2 --index-heads 2
    --index-dim 32 --index-topk 128 --engram-vocab 500 --engram-heads 2 --engram-dim 32"

run() { # MODEL ROUTES TOKENS FLAGS...: records one answer, prints its counters as JSON
    local model=$1 routes=$2 count=$3
    shift 3
    "$sluice" "$model" -p "$prompt" -n "$count" --ignore-eos --temp 1 --top-p 1 --seed 5 --prefetch off \
        --record-routes "$routes" --json --quiet "$@"
}

table() { # NAME WHAT SIZES: prints the replays, compared with the live runs
    python3 - "$work" "$@" "$policies" <<'PYTHON'
import json
import os
import sys

work, name, what, sizes, policies = sys.argv[1:]
sizes, policies = [int(s) for s in sizes.split(",")], policies.split(",")
replay = json.load(open(f"{work}/{name}.replay.json"))[0]
stats = {(r["policy"], r["slots"]): r["cache"] for r in replay["runs"]}
print(f"\n{name}: {what}; {replay['tokens']} tokens. Hit rate in %")
print(f"{'':12}" + "".join(f"{s:>8} slots" for s in sizes))
same, runs = True, 0
for policy in policies + ["belady"]:
    cells = ""
    for slots in sizes:
        one = stats[policy, slots]
        cells += f"{100 * one['hits'] / one['asked']:14.2f}"
        if policy == "belady":
            continue
        path = f"{work}/{name}.{policy}.{slots}.json"
        if not os.path.exists(path):
            continue
        live, runs = json.load(open(path))["cache"], runs + 1
        for counter in ("asked", "hits", "misses", "evictions", "sweep_asked", "sweep_hits", "bytes_demand"):
            if live[counter] != one[counter]:
                print(f"DIFFERENT: {policy}, {slots} slots: {counter} {live[counter]} live, {one[counter]} replayed")
                same = False
    print(f"{policy:12}{cells}")
print(f"live runs compared: {runs}")
for one in replay["runs"]:
    if one["report"]:
        print(f"{one['policy']}, {one['slots']} slots, followed for so many tokens: {one['report']}")
sys.exit(not same)
PYTHON
}

repeated() { # ROUTES OUT: the first 60 decoded tokens four times, like one request asked again and again
    python3 - "$@" <<'PYTHON'
import struct
import sys

data = open(sys.argv[1], "rb").read()
layers, experts, top_k, name = struct.unpack_from("<4I", data, 8)
start, size = 32 + name, 4 + 4 * layers * top_k
tokens = [data[i:i + size] for i in range(start, len(data) - size + 1, size)]
open(sys.argv[2], "wb").write(data[:start] + 4 * b"".join([t for t in tokens if not t[0] & 1][:60]))
PYTHON
}

# NAME, tokens, sizes, description, flags of make_checkpoint. 16, 32 and 64 GB hold 5.5, 11 and 22 % of V4.1-Flash's experts.
recordings=(
    "popular|$tokens|170,340,681|8 layers, skew 1: fixed favourites|--layers 8 --experts 384 --skew 1"
    "steady|$tokens|170,340,681|8 layers, skew 0.7, locality 1: favourites and moods|--layers 8 --experts 384 --skew 0.7 --locality 1"
    "drifting|$tokens|170,340,681|8 layers, skew 0.3, locality 2: favourites drift|--layers 8 --experts 384 --skew 0.3 --locality 2"
    "flash|$((tokens / 3))|851,1702,3404|V4.1-Flash's 40 layers, skew 0.5, locality 1|--shape deepseek-v4.1-flash --skew 0.5 --locality 1"
    "tiny-capitals|$tokens|64,128,256|the trained small model, 64 experts a layer|"
    "tiny-terms|$tokens|64,128,256|the same, asked for computing terms|"
    "tiny-words|$tokens|64,128,256|the same, asked for words|"
)
failed=0
for recording in "${recordings[@]}"; do
    IFS='|' read -r name count sizes what flags <<<"$recording"
    # shellcheck disable=SC2053
    [[ $name == $names ]] || continue
    model=$work/$name prompt="Tell me about rivers, locks and mills."
    case $name in
        tiny-capitals) prompt="What is the capital of Peru, of Kenya, of Japan, of Norway?" ;;
        tiny-terms) prompt="Explain the words cache, compiler, kernel, queue and stack." ;;
        tiny-words) prompt="What does the word river mean? The word mill? The word gate?" ;;
    esac
    if [[ $name == tiny-* ]]; then
        model=$tiny
    else
        # shellcheck disable=SC2086
        "$make" "$model" --tokenizer $tiny $narrow $flags >/dev/null
    fi
    run "$model" "$work/$name.routes" "$count" >"$work/$name.first.json"
    "$sluice" simulate "$work/$name.routes" --cache-slots "$sizes" --cache-policy $policies,belady --json >"$work/$name.replay.json"
    for policy in ${policies//,/ }; do
        for slots in ${sizes//,/ }; do
            run "$model" "$work/again.routes" "$count" --cache-policy "$policy" --cache-slots "$slots" \
                >"$work/$name.$policy.$slots.json"
            cmp "$work/$name.routes" "$work/again.routes" || failed=1
        done
    done
    [ "$model" = $tiny ] || rm -rf "$model"
    table "$name" "$what" "$sizes" || failed=1
done
if [ -f "$work/steady.routes" ]; then
    repeated "$work/steady.routes" "$work/repeated.routes"
    "$sluice" simulate "$work/repeated.routes" --cache-slots 340,681,1000 --cache-policy $policies,belady --json >"$work/repeated.replay.json"
    table repeated "60 tokens of steady, four times, replayed alone" 340,681,1000 || failed=1
fi
# 8, 16, 32, 64 and 128 GB of V4.1-Flash's experts. The policies were tuned with seeds 1 and 2.
for family in corpus chat mixed short drifting code prompts repeated; do
    # shellcheck disable=SC2053
    [[ routes-$family == $names ]] || continue
    "$make_routes" "$work/$family.routes" --family $family --seed 3
    "$sluice" simulate "$work/$family.routes" --cache-slots 425,851,1702,3404,6800 --cache-policy $policies,belady --json \
        >"$work/routes-$family.replay.json"
    table "routes-$family" "generated, like V4.1-Flash's" 425,851,1702,3404,6800 || failed=1
done
[ $failed = 0 ] && printf '\npolicies: every live run equals its replay\n' || printf '\npolicies: DIFFERENT\n'
exit $failed
