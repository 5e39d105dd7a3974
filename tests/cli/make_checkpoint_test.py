"""make_checkpoint: the release's layout, the same bytes from the same seed, damage found, and routes as skewed as asked for."""
import json
import os
import struct
import subprocess
import tempfile

from cli import TINY, TOKEN_ROUTED, check, run

MAKE = os.environ["MAKE_CHECKPOINT"]
SMALL = ("--layers 4 --experts 48 --hidden 128 --moe 32 --heads 4 --head-dim 64 --rope-dim 16 --q-rank 64 --o-rank 32 "
         "--o-groups 2 --window 64 --index-heads 2 --index-dim 32 --index-topk 64 --engram-vocab 500 --engram-heads 2 "
         "--engram-dim 32").split()
home = tempfile.TemporaryDirectory(prefix="sluice-make-")
ORDER = ["I64", "F32", "BF16", "F8_E8M0", "F8_E4M3", "I8"]


def make(name, *flags, tokenizer=TINY):
    path = os.path.join(home.name, name)
    sizes = [part for i in range(0, len(SMALL), 2) if SMALL[i] not in flags for part in SMALL[i:i + 2]]
    done = subprocess.run([MAKE, path, "--tokenizer", tokenizer, *sizes, *flags], capture_output=True, text=True, timeout=60)
    return path, done


def made(name, *flags, **more):
    path, done = make(name, *flags, **more)
    check(f"{name} is written", done.returncode == 0, done.stderr)
    return path


def contents(path):
    return {name: open(os.path.join(path, name), "rb").read() for name in sorted(os.listdir(path))}


def header(data):
    length = struct.unpack_from("<Q", data)[0]
    tensors = json.loads(data[8:8 + length])
    tensors.pop("__metadata__", None)
    return 8 + length, tensors


def routes(model, tokens):
    """[token][layer] -> set of experts, of the decoded tokens."""
    path = os.path.join(home.name, "routes")
    result = run(model, "-p", "Tell me.", "-n", str(tokens), "--ignore-eos", "--temp", "1", "--top-p", "1", "--seed", "1",
                 "--device", "cpu", "-t", "1", "--record-routes", path)
    check(f"{os.path.basename(model)}: {tokens} tokens, all finite", result.returncode == 0, result.stderr)
    data = open(path, "rb").read()
    layers, experts, top_k, name = struct.unpack_from("<4I", data, 8)
    at, size, out = 32 + name, 4 + 4 * layers * top_k, []
    while at + size <= len(data):
        if not data[at] & 1:
            ids = struct.unpack_from(f"<{layers * top_k}H", data, at + 4)
            out.append([set(ids[i * top_k:(i + 1) * top_k]) for i in range(layers)])
        at += size
    return out


def top_share(tokens, count):
    """Of all choices, how many fall on a layer's `count` most wanted experts."""
    share = 0
    for layer in range(len(tokens[0])):
        uses = {}
        for token in tokens:
            for expert in token[layer]:
                uses[expert] = uses.get(expert, 0) + 1
        share += sum(sorted(uses.values())[-count:]) / sum(uses.values())
    return share / len(tokens[0])


def repeats(tokens):
    """Of a token's experts, how many its predecessor had chosen, too."""
    pairs = [len(a & b) / len(a) for x, y in zip(tokens, tokens[1:]) for a, b in zip(x, y)]
    return sum(pairs) / len(pairs)


even = made("even")
files = contents(even)
shards = [name for name in files if name.endswith(".safetensors")]
check("embedding, 4 layers, head, Engram: one shard each", len(shards) == 7, shards)
for number, name in enumerate(shards):
    start, tensors = header(files[name])
    names = list(tensors)
    keys = [(ORDER.index(tensors[n]["dtype"]), n) for n in names]
    check(f"{name}: by dtype, then by name", keys == sorted(keys), names[:5])
    ends = [tensors[n]["data_offsets"] for n in names]
    check(f"{name}: no gaps, right size", ends[0][0] == 0 and all(a[1] == b[0] for a, b in zip(ends, ends[1:]))
          and start + ends[-1][1] == len(files[name]))
    if 1 <= number <= 4:
        check(f"{name}: layer {number - 1} alone", all(n.startswith(f"layers.{number - 1}.") and ".engram." not in n
                                                       for n in names))
check("the Engram is the last shard", all(".engram." in n for n in header(files[shards[-1]])[1]))
index = json.loads(files["model.safetensors.index.json"])["weight_map"]
check("the index names every tensor", index == {n: f for f in shards for n in header(files[f])[1]})

mixed = make("even", "--seed", "5")[1]
check("a checkpoint is not overwritten", mixed.returncode == 1 and "already holds a checkpoint" in mixed.stderr and
      contents(even) == files, mixed.stderr)
check("the same seed gives the same bytes", contents(made("again")) == files)
other = contents(made("other seed", "--seed", "2"))
check("another seed gives others", all(other[f] != files[f] for f in shards))

check("--verify agrees with what was written", make("even", "--verify")[1].returncode == 0)
check("--verify sees another seed", make("even", "--verify", "--seed", "2")[1].returncode == 1)
expert = "layers.2.ffn.experts.31.w2.weight"
path = os.path.join(even, index[expert])
start, tensors = header(files[index[expert]])
place = start + tensors[expert]["data_offsets"][1] - 1
for what, at, byte in (("the last byte of an expert", place, files[index[expert]][place] ^ 1), ("a header", 20, 0)):
    with open(path, "r+b") as file:
        file.seek(at), file.write(bytes([byte]))
    done = make("even", "--verify")[1]
    named = expert if at == place else "header"
    check(f"--verify finds {what} changed", done.returncode == 1 and named in done.stderr
          and f"byte {at} " in done.stderr and index[expert] in done.stderr, done.stderr)
    with open(path, "r+b") as file:
        file.seek(at), file.write(files[index[expert]][at:at + 1])
os.truncate(path, len(files[index[expert]]) - 1)
done = make("even", "--verify")[1]
check("--verify finds a shard cut short", done.returncode == 1 and "bytes, expected" in done.stderr, done.stderr)

plain = routes(made("plain"), 100)
skewed = routes(made("skewed", "--skew", "1"), 100)
local = routes(made("local", "--locality", "3"), 100)
check("skew 0: no six of 48 experts are a layer's favourites", top_share(plain, 6) < 0.3, top_share(plain, 6))
check("skew 1: six of them take half", 0.4 < top_share(skewed, 6) < 0.7, top_share(skewed, 6))
check("locality: consecutive tokens choose alike", repeats(local) > repeats(plain) + 0.15, (repeats(local), repeats(plain)))

# ---- another model: experts by token id, scales of tiles of 128 ------------------------------------
OTHER = "--shape deepseek-v4-flash --hidden 256 --moe 128 --heads 8 --head-dim 96 --rope-dim 32 --q-rank 128 --o-rank 64".split()
outputs = []
for tokenizer in TOKEN_ROUTED, TINY:
    path = made("v4 " + os.path.basename(tokenizer), *OTHER, tokenizer=tokenizer)
    check("--verify agrees", make("v4 " + os.path.basename(tokenizer), *OTHER, "--verify", tokenizer=tokenizer)[1].returncode == 0)
    found = {}
    files = contents(path)
    for name in files:
        if name.endswith(".safetensors"):
            start, tensors = header(files[name])
            keys = [(ORDER.index(tensors[n]["dtype"]), n) for n in tensors]
            check(f"{name}: by dtype, then by name", keys == sorted(keys))
            found.update({n: (name, start, t) for n, t in tensors.items()})
    check("the last shard holds what follows the last layer", {n for n, (f, _, _) in found.items() if f == max(
        n for n in files if n.endswith(".safetensors"))} == {"head.weight", "norm.weight", "hc_head_fn", "hc_head_base", "hc_head_scale"})
    for name, shape in (("layers.0.attn.wq_b.scale", [6, 1]), ("layers.2.attn.compressor.ape", [4, 192]),
                        ("layers.3.attn.compressor.ape", [128, 96]), ("layers.1.ffn.experts.0.w1.scale", [128, 8])):
        check(f"{name} has its shape", found[name][2]["shape"] == shape, found[name])
    check("hash layers have a table, the others a bias", [f"layers.{i}.ffn.gate.tid2eid" in found for i in range(4)] ==
          [f"layers.{i}.ffn.gate.bias" not in found for i in range(4)] == [True, True, True, False])
    name, start, tensor = found["layers.1.ffn.gate.tid2eid"]
    begin, end = tensor["data_offsets"]
    ids = struct.unpack(f"<{(end - begin) // 8}q", files[name][start + begin:start + end])
    rows = [set(ids[i:i + 6]) for i in range(0, len(ids), 6)]
    check("six different experts for every token", all(len(row) == 6 for row in rows) and set(ids) == set(range(48)))
    check("chosen for each token anew", len({tuple(sorted(row)) for row in rows}) > len(rows) * 0.99)
    results = [run(path, "-p", "Tell me.", "-n", "8", "--temp", "0", "--ignore-eos", "--device", "cpu", "-t", "1") for _ in range(2)]
    check("it answers, always alike", results[0].returncode == 0 and results[0].stdout == results[1].stdout, results[0].stderr)
