#!/usr/bin/env python3
"""Plants likely mistakes of a DeepSeek-V4 port, one at a time, in a copy of this tree, and says which tests notice.

  v4_mistakes.py FOLDER [NAME...]     FOLDER: for the copy and its build; NAME: only mistakes with this in their name

Every mistake must be noticed by the layers of dsv4-rand-a (from the dump's own streams) or by its golden traces. The
copy computes without instruction sets, so that a mistake in a kernel compiles once. ccache makes it bearable.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENGINE, CPU = "engine/forward/", "kernels/cpu/"
CONFIG = "engine/model/deepseek_v4/config.cpp"
TESTS = ("tests/engine/forward/layers_test.cpp", "tests/engine/trace/golden_test.cpp")

QUANTISED = "a.window_keys = a.compressed_rows = Requant::fp8_64;"
YARN = "yarn_frequencies(rt.config.compressed_rope_base, rt.config.rope_dim, rt.config.yarn)"
POOLS = "        keep_open(op, kv, gate, d);\n        if (op.overlap) keep_open(op, kv, gate, own);\n"

# Name, then file, text, replacement; each text is replaced wherever it is.
MISTAKES = [
    ("shared expert not clamped", (ENGINE + "layer_moe.cpp", "c.moe_hidden, c.swiglu_limit,", "c.moe_hidden, 1e30f,")),
    ("gate clamped on both sides", (CPU + "moe.h", "g = select(g > splat(limit), splat(limit), g);", "g = clamp(g, limit);")),
    ("weight after w2",
     (CPU + "moe.h", "round_bf16(weight ? splat(*weight) * a : a)", "round_bf16(weight ? a : a)"),
     (CPU + "moe.h", "bf16* out = pass.op->out;",
      "bf16* out = pass.op->out;\n        const float* weights = pass.op->weights + pass.first;"),
     (CPU + "moe.h", "out[slots[c] * dim + r] = y;", "out[slots[c] * dim + r] = to_bf16(to_float(y) * weights[c]);")),
    ("weights not normalised", (CPU + "route.h", "bool divide = op.k > 1 || op.normalise_one;", "bool divide = false;")),
    ("q head norm missing", (CONFIG, "a.head_norm = true;", "a.head_norm = false;")),
    ("q head norm's factor in fp32", (CPU + "norm.h", "splat(sluice::round_bf16(rho))", "splat(rho)")),
    ("window KV not quantised", (CONFIG, QUANTISED, "a.window_keys = Requant::none;\n    a.compressed_rows = Requant::fp8_64;")),
    ("all dims in groups of 32", (CONFIG, QUANTISED, "a.window_keys = a.compressed_rows = Requant::fp8_32;"),
     (CONFIG, "a.keys_keep_rope = true;", "a.keys_keep_rope = false;")),
    ("wo_a's input quantised",
     (ENGINE + "layer_attention.cpp", "    device.run(GroupedOutputQuant{",
      "    RopeRequant spoilt = rotation(in, scratch.o, first, n, c.heads);\n    spoilt.rope = {};\n"
      "    spoilt.requant = Requant::fp8_32;\n    device.run(spoilt);\n    device.run(GroupedOutputQuant{")),
    ("RMSNorm rounded twice",
     (CPU + "norm.h", "load(op.w + k) * (load(x + k) * r)", "load(op.w + k) * round_bf16(load(x + k) * r)"),
     (CPU + "norm.h", "(load_tail(x + k, left) * r)", "round_bf16(load_tail(x + k, left) * r)")),
    ("comb transposed",
     (CPU + "hyper.h", "splat(comb[j * hc + k]) * old[j]", "splat(comb[k * hc + j]) * old[j]"),
     (CPU + "hyper.h", "splat(comb[k]) * old[0]", "splat(comb[k * hc]) * old[0]")),
    ("P not bf16", (CPU + "attention.h", "store(p + t * 16, round_bf16(e));", "store(p + t * 16, e);")),
    ("not un-rotated", (ENGINE + "layer_attention.cpp", "rotated.back.inverse = true;", "rotated.back.rope = {};")),
    ("compressed KV not quantised",
     (CONFIG, QUANTISED, "a.window_keys = Requant::fp8_64;\n    a.compressed_rows = Requant::none;")),
    ("halves exchanged",
     (CPU + "compressor.h", "int64_t own = op.overlap ? dim + d : d;", "int64_t own = d;"),
     (CPU + "compressor.h", "(g - 1) * ratio, g * ratio, d);", "(g - 1) * ratio, g * ratio, dim + d);"),
     (CPU + "compressor.h", POOLS, POOLS.replace("gate, own", "gate, dim + d"))),
    ("no overlap", (CPU + "compressor.h", "if (op.overlap && (g > 0 || op.previous))", "if (op.ratio < 0)")),
    ("ape left out", (ENGINE + "layer_compress.cpp", ".place = in.weights.place", ".place = nullptr")),
    ("row rotated at its last token",
     (ENGINE + "layer_compress.cpp", "in.first_group() * in.ratio(),", "in.first_group() * in.ratio() + in.ratio() - 1,")),
    ("YaRN left out", ("engine/load/load.cpp", YARN,
                       "rope_frequencies(rt.config.compressed_rope_base, rt.config.rope_dim)")),
    ("base 10000 for compressed layers", ("engine/load/load.cpp", YARN, YARN.replace("compressed_rope", "rope"))),
    ("no Hadamard",
     (ENGINE + "layer_compress.cpp", "device.run(Hadamard{keys, in.groups(), c.index_dim});", ""),
     (ENGINE + "layer_index.cpp", "device.run(Hadamard{scratch.q, n * c.index_heads, c.index_dim});", "")),
    ("index head weights rounded once",
     (ENGINE + "layer_index.cpp", "LinearBf16{scratch.w, nullptr, w.weights_proj,",
      "LinearBf16{nullptr, wide.data(), w.weights_proj,"),
     (ENGINE + "layer_index.cpp", "    device.run(LinearBf16{",
      "    std::vector<float> wide(static_cast<size_t>(n * c.index_heads));\n    device.run(LinearBf16{"),
     (ENGINE + "layer_index.cpp", "device.run(ScaleBf16{scratch.w, n * c.index_heads, static_cast<float>(scale)});",
      "for (size_t i = 0; i < wide.size(); ++i) scratch.w[i] = to_bf16(wide[i] * static_cast<float>(scale));")),
    ("index scores in fp32",
     (CPU + "indexer.h", "round_bf16(load(s.dots + h * 16))", "load(s.dots + h * 16)"),
     (CPU + "indexer.h", "sum + round_bf16(dot * splat(to_float(op.w[i * heads + h])))",
      "sum + dot * splat(to_float(op.w[i * heads + h]))"),
     (CPU + "indexer.h", "store(scores, round_bf16(sum));", "store(scores, sum);")),
    ("hash layers by the gate",
     (ENGINE + "token_routes.h", "return layer < config_->token_routed_layers;", "return layer < 0;"),
     (ENGINE + "layer_moe.cpp", ".bias = in.weights.gate_bias,",
      ".bias = in.weights.gate_bias ? in.weights.gate_bias : std::vector<float>(4096).data(),")),
    ("shared expert added after rounding",
     (CPU + "moe.h", "sum = sum + (left < 16 ? load_tail(shared, left) : load(shared));",
      "sum = round_bf16(sum) + (left < 16 ? load_tail(shared, left) : load(shared));")),
    ("activation groups of 32", (CONFIG, "a.activation_group = 128;", "a.activation_group = 32;")),
]


def sources():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith(("tests/models/", "tests/golden/")) and os.path.isfile(os.path.join(ROOT, name)):
            yield name


def refresh(copy):
    """Makes the copy the tree again; files that are equal keep their times, so that nothing of them is built."""
    for name in sources():
        to = os.path.join(copy, name)
        with open(os.path.join(ROOT, name), "rb") as file:
            data = file.read()
        if re.fullmatch(r"kernels/cpu/isa_(avx2|avx512|amx)\.cpp", name):
            data = stub(name)
        if name.startswith("tests/") and name.endswith("_test.cpp") and name not in TESTS:
            data = b""  # known to CMake, and built in no time
        if os.path.exists(to):
            with open(to, "rb") as file:
                if file.read() == data:
                    continue
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with open(to, "wb") as file:
            file.write(data)
    for folder in ("models", "golden"):
        link = os.path.join(copy, "tests", folder)
        if not os.path.islink(link):
            os.symlink(os.path.join(ROOT, "tests", folder), link)


def stub(name):
    table = "table_" + name[len("kernels/cpu/isa_"):-len(".cpp")]
    return (f'#include "kernels/cpu/table.h"\nnamespace sluice::cpu {{\n'
            f"const Table& {table}() {{\n    return table_scalar();\n}}\n}}\n").encode()


def plant(copy, changes):
    for name, text, replacement in changes:
        path = os.path.join(copy, name)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        if text not in before:
            sys.exit(f"{name} has no such text any more: {text}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(before.replace(text, replacement))


def build(copy, out):
    if not os.path.exists(out + "/build.ninja"):
        subprocess.run(["cmake", "-S", copy, "-B", out, "-G", "Ninja", "-DSLUICE_CUDA=OFF",
                        "-DCMAKE_CXX_COMPILER_LAUNCHER=" + (shutil.which("ccache") or "")],
                       check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["ninja", "-C", out, "tests/tests_engine"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout[-3000:])


def noticed(program, both):
    """The tensors that differ, those of layers first, and whether a trace does (None: not tried)."""
    env = {**os.environ, "OMP_WAIT_POLICY": "passive"}

    def run(pattern, *flags):
        return subprocess.run([program, "-tc=" + pattern, *flags], capture_output=True, text=True, env=env)

    layers = run("layers of dsv4-rand-a*")
    failed = re.split(r"\n(?=\S+layers_test\.cpp:\d+: )", layers.stdout)
    wrong = set()
    for part in failed:
        if ": ERROR:" not in part:
            continue
        name = re.search(r"name := (\S+)", part)
        layer = re.search(r"layer := (\d+)", part)
        wrong.add(name.group(1) if name else f"layer.{layer.group(1)}.route_ids" if layer else "other")
    if layers.returncode != 0 and not wrong:
        wrong.add("other")
    traces = None
    if both or not wrong:
        traces = run("golden traces of dsv4-rand-a*", "--abort-after=1").returncode != 0
    return sorted(wrong, key=lambda name: (not name.startswith("layer."), name)), traces


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder")
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--traces", action="store_true", help="also run the traces where the layers have noticed")
    options = arguments.parse_args()
    copy = os.path.abspath(options.folder)
    out = copy + "/build"  # in its usual place, so that ccache finds what is equal
    missed = []
    print("| mistake | layers: first tensors | tensors | traces |\n|---|---|---|---|", flush=True)
    for name, *changes in [("none",)] + MISTAKES:
        if options.names and not any(part in name for part in options.names):
            continue
        refresh(copy)
        plant(copy, changes)
        build(copy, out)
        wrong, traces = noticed(out + "/tests/tests_engine", options.traces)
        said = {None: "", True: "differ", False: "equal"}[traces]
        print(f"| {name} | {', '.join(wrong[:2])} | {len(wrong)} | {said} |", flush=True)
        if (name == "none") == bool(wrong or traces):
            missed.append(name)
    if missed:
        sys.exit("not as it should be: " + ", ".join(missed))


if __name__ == "__main__":
    main()
