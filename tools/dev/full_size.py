"""Measures a machine with a GPU at the released model's shapes, beside what its drive, link and memory allow.

    full_size.py BINARY MAKE_CHECKPOINT [--shape NAME] [--only STAGES] [--shm DIR] [--disk DIR] [--vram SIZE]
                 [--device NAME] [--keep] [--small] [--log DIR]

--shape: deepseek-v4.1-flash (default) or deepseek-v4-flash.
All stages take somewhat more than ten minutes. In two halves: cold,load,paced,resident,prompt,gemv and
ladder,drives,cache,cputier,soak. Needs a GPU, about 110 GiB of memory (checkpoints of up to 43 GiB on tmpfs, a cache
beside them) and 30 GiB on a real drive. Writes the checkpoints it needs with make_checkpoint, removes them at the end,
prints each row as it is measured, and all rows as one table at the end. --small uses shapes for a dry run on a CPU,
which takes about a minute.

The limit of a decode row is the drive's rate divided by the bytes that the run had to read: misses, and prefetched
experts that were used. Shares are of that limit. A paced drive (--io paced:RATE) plays a drive of a given rate; the
rate of the real drive is that of plain reads just before and just after a run.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = os.path.join(HERE, "../../tests/models/dsv41-tiny")
STAGES = ["cold", "load", "paced", "resident", "ladder", "prompt", "drives", "cache", "cputier", "gemv", "soak"]
ROUTES = ["--skew", "0.7", "--locality", "1"]


class Released:
    """What differs between released shapes: sizes, and flags for a small one. `deep`: layers of the checkpoint with every
    expert of a layer, enough of them that few are routed by token id alone."""

    def __init__(self, layers, experts, hidden, moe, deep, flags, small):
        self.layers, self.experts, self.hidden, self.moe, self.deep = layers, experts, hidden, moe, deep
        self.flags, self.small = flags, small.split()


RELEASED = {
    "deepseek-v4.1-flash": Released(40, 384, 5120, 2304, 5, ["--engram-vocab", "20000"],
                                    "--engram-vocab 2000 --head-dim 64 --rope-dim 16 --index-dim 32 --engram-heads 2 --engram-dim 32"),
    "deepseek-v4-flash": Released(43, 256, 4096, 2048, 10, [], "--head-dim 128 --rope-dim 64 --index-dim 64"),
}


class Scale:
    """Shapes and rates: those of the released model, or small ones with the same proportions."""

    def __init__(self, small, shape):
        released = RELEASED[shape]
        self.small = small
        self.rate, self.slow, self.link = (60e6, 30e6, 100e6) if small else (8.8e9, 4.4e9, 14e9)
        base = ["--shape", shape, *(released.small if small else released.flags)]
        if small:
            base += "--hidden 512 --moe 256 --heads 8 --q-rank 128 --o-rank 64 --o-groups 2 --index-heads 4".split()
        self.expert = (512 * 256 if small else released.hidden * released.moe) * 3 * 17 // 32
        layers = {"wide": 6 if small else released.layers, "disk": 6 if small else released.layers,
                  "deep": 2 if small else released.deep, "part": 3 if small else 10}
        experts = {"wide": 24 if small else 48, "disk": 12 if small else 24, "deep": 96 if small else released.experts,
                   "part": 24 if small else 48}
        self.layers, self.experts = layers, experts
        self.flags = {n: base + ROUTES + ["--layers", str(layers[n]), "--experts", str(experts[n])] for n in layers}
        self.tokens = 8 if small else 16
        self.prompts = [100, 400, 800] if small else [300, 4096, 8192]
        # The share of the released model's experts that the deep checkpoint has, and with it of 16, 32 and 64 GB.
        self.share = layers["deep"] * experts["deep"] / (released.layers * released.experts)
        self.cached = [(gb, int(gb * 1e9 / self.expert * self.share)) for gb in (16, 32, 64)]
        if small:
            self.cached = [(gb, 12 * i) for i, (gb, _) in enumerate(self.cached, 1)]


class Bench:
    def __init__(self, options):
        self.o = options
        self.scale = Scale(options.small, options.shape)
        self.rows = []
        self.made = {}
        self.log = options.log or os.path.join(options.shm, "sluice-full-size-log")
        os.makedirs(self.log, exist_ok=True)
        self.device = ["--device", options.device]
        if options.device.startswith("cuda"):
            self.device += ["--vram", options.vram, "--skip-selftest"]

    # ---- checkpoints

    def model(self, name):
        if name not in self.made:
            folder = os.path.join(self.o.disk if name == "disk" else self.o.shm, "sluice-full-size-" + name)
            shutil.rmtree(folder, ignore_errors=True)
            start = time.time()
            done = subprocess.run([self.o.make_checkpoint, folder, "--tokenizer", TOKENIZER, *self.scale.flags[name]],
                                  capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError("make_checkpoint: " + done.stderr.strip())
            print(f"# {done.stdout.strip()}, written in {time.time() - start:.1f} s", flush=True)
            self.made[name] = folder
        return self.made[name]

    def drop(self, *names):
        for name in names:
            if not self.o.keep and name in self.made:
                shutil.rmtree(self.made.pop(name), ignore_errors=True)

    # ---- runs

    def call(self, key, *arguments, limit=300):
        """Runs sluice and returns its JSON; raises RuntimeError with the last line of stderr."""
        start = time.time()
        command = [self.o.binary, *arguments]
        env = dict(os.environ, OMP_WAIT_POLICY="passive") if self.scale.small else os.environ
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=env, errors="replace")
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"more than {limit} s") from None
        with open(os.path.join(self.log, key + ".json"), "w") as out:
            out.write(done.stdout)
        with open(os.path.join(self.log, key + ".log"), "w") as out:
            out.write(" ".join(command) + f"\n{time.time() - start:.1f} s\n" + done.stderr)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:150])
        return json.loads(done.stdout)

    def answer(self, key, model, *flags, tokens=None, prompt="Tell me.", context=8192):
        models = [model] if isinstance(model, str) else [x for m in model for x in ("-m", m)]
        return self.call(key, *models, "-p", prompt, "-n", str(tokens or self.scale.tokens), "-c", str(context), "--ignore-eos",
                         "--temp", "1", "--top-p", "1", "--seed", "7", "--loop-guard", "0", "--json", *self.device, *flags)

    def bench(self, key, model, part, *flags):
        return self.call(key, "bench", model, "--only", part, "--json", *self.device, *flags)

    # ---- rows

    def row(self, name, reached, limit="", share=None, wanted="", note=""):
        text = "" if share is None else f"{100 * share:.1f} %"
        self.rows.append((name, reached, limit, text, wanted, note))
        print(f"{name:58} {reached:>16} {limit:>16} {text:>8} {wanted:>8}  {note}", flush=True)

    def failed(self, name, error):
        self.row(name, "FAILED", note=str(error))

    def decode(self, name, answer, rate, wanted="", note=""):
        cache = answer["cache"]
        tokens = answer["usage"]["completion_tokens"] - 1
        read = min(cache["asked"], cache["misses"] + cache["prefetch_used"] - cache["late_prefetches"]) * self.scale.expert / tokens
        limit = rate / read if read else float("inf")
        speed = answer["timings"]["decode_tok_s"]
        own = answer["limit"]
        parts = [note] if note else []
        if own["binds"]:
            parts.append(f"own limit {own['tok_s']:.2f}, {100 * own['share']:.0f} %, bottleneck {own['binds']}")
        if cache["prefetch_started"]:
            parts.append(f"prefetch {cache['prefetch_used']} used of {cache['prefetch_started']}")
        self.row(name, f"{speed:.3f} tok/s", f"{limit:.3f} tok/s", speed / limit, wanted, "; ".join(parts))
        return speed

    def gb(self, rate):
        return f"{rate / 1e9:.3g} GB/s" if rate >= 1e9 else f"{rate / 1e6:.3g} MB/s"

    def pace(self, *rates):
        return "paced:" + "+".join(f"{rate / 1e6:.0f}MB" for rate in rates)

    def dense_bytes(self, model):
        classes = self.call("inspect", "inspect", model, "--json")["classes"]
        return sum(c["bytes"] for c in classes if c["class"] not in ("routed experts", "Engram tables"))

    def plain_rate(self):
        """Bytes per second of plain io_uring reads from the real drive, at their best block size and depth: a median.
        Drives of shared machines change from one second to the next, so each run is measured between two of these."""
        return self.bench("disk-rate", self.model("disk"), "drive")["drive"]["best_bytes_s"]

    def around(self, runs):
        """For each of `runs`: its result, and the mean of the drive's rates just before and just after it."""
        rates, results = [self.plain_rate()], []
        for run in runs:
            results.append(run())
            rates.append(self.plain_rate())
        self.row("real drive meanwhile, plain reads", self.gb(statistics.median(rates)),
                 note=f"{self.gb(min(rates))} to {self.gb(max(rates))}")
        return [(result, (rates[i] + rates[i + 1]) / 2) for i, result in enumerate(results)]

    # ---- stages

    cold = ("--cache-slots", "off")

    def no_vram(self):
        return ("--vram-slots", "off") if self.o.device.startswith("cuda") else ()

    def stage_cold(self):
        cases = [("prefetch off", ("--prefetch", "off")), ("prefetch governed", ())]
        runs = [lambda name=name, flags=flags: self.answer("cold-" + name.split()[1], self.model("disk"), *self.cold,
                                                           *self.no_vram(), *flags, tokens=self.scale.tokens // 2)
                for name, flags in cases]
        for (name, _), (answer, rate) in zip(cases, self.around(runs)):
            self.decode(f"cold decode, real drive, {name}", answer, rate, "95 %",
                        f"the run's own reads {self.gb(answer['io']['gb_s'] * 1e9)}")

    def load_rows(self, name, answer, dense, rate):
        times, cache = answer["timings"], answer["cache"]
        load, first = times["load_read_s"], times["load_s"] + times["prompt_s"]
        all_bytes = dense + (cache["sweep_asked"] - cache["sweep_hits"]) * self.scale.expert
        self.row(f"dense load, {name}", f"{load:.2f} s", f"{dense / rate:.2f} s", dense / rate / load, "90 %",
                 f"{dense / 1e9:.2f} GB; device, tokenizer, memory, calibration take {times['load_s'] - load:.2f} s more")
        self.row(f"start to first token, {name}", f"{first:.2f} s", f"{all_bytes / rate:.2f} s", all_bytes / rate / first,
                 "", f"{answer['usage']['prompt_tokens']} prompt tokens, {cache['sweep_asked']} experts")
        return dense / rate / load

    def stage_load(self):
        def run(model, *flags):
            return self.answer("load-" + model, self.model(model), *self.cold, *self.no_vram(), *flags, tokens=1)

        paced = run("wide", "--io", self.pace(self.scale.rate))
        self.load_rows("paced " + self.gb(self.scale.rate), paced, self.dense_bytes(self.model("wide")), self.scale.rate)
        dense = self.dense_bytes(self.model("disk"))
        shares = [self.load_rows("real drive", answer, dense, rate) for answer, rate in self.around(3 * [lambda: run("disk")])]
        self.row("  dense load, real drive, the median", "", share=statistics.median(shares), wanted="90 %")

    def stage_paced(self):
        for name, flags, wanted in (("off", ("--prefetch", "off"), "90 %"), ("2", ("--prefetch", "2"), "95 %"),
                                    ("governed", (), "95 %")):
            answer = self.answer("paced-" + name, self.model("wide"), *self.cold, *self.no_vram(), "--io", self.pace(self.scale.rate),
                                 *flags)
            self.decode(f"cold decode, paced {self.gb(self.scale.rate)}, prefetch {name}", answer, self.scale.rate, wanted)

    def stage_resident(self):
        """Every expert in VRAM: the time of later tokens alone, from two lengths. And what --vram really takes."""
        lengths = (8, 24) if self.scale.small else (200, 600)
        large = ("--vram", "60GiB") if self.no_vram() else ("--cache-slots", str(self.scale.layers["wide"] * self.scale.experts["wide"]))
        runs = [self.answer(f"resident-{n}", self.model("wide"), *(self.cold if self.no_vram() else ()), *large, "--prefetch", "off",
                            tokens=n) for n in lengths]
        seconds = (runs[1]["timings"]["decode_s"] - runs[0]["timings"]["decode_s"]) / (lengths[1] - lengths[0])
        self.row("decode, every expert resident", f"{1e3 * seconds:.2f} ms", note=f"a token; {1 / seconds:.1f} tok/s")
        if self.no_vram():
            answer = self.answer("resident-peak", self.model("wide"), *self.cold, tokens=4)
            peak, budget = answer["gpu"]["memory_peak"] / 2**30, self.o.vram
            self.row(f"peak VRAM, --vram {budget} -c 8192", f"{peak:.3f} GiB", budget)

    def stage_ladder(self):
        report = self.call("ladder", "bench", self.model("wide"), "--only", "ladder", "--json", "-n", str(self.scale.tokens),
                           "--cache-slots", "off", *self.no_vram(), "--io", self.pace(self.scale.rate), *self.device)
        for step in report["ladder"]:
            limit = self.scale.rate / step["needed_bytes_token"]
            note = f"guesses {step['guesses_used']} used, {step['guesses_wasted']} wasted" if step["guesses_used"] else ""
            self.row("ladder: " + step["step"], f"{step['tok_s']:.3f} tok/s", f"{limit:.3f} tok/s", step["tok_s"] / limit,
                     note=note)

    def prompt_text(self, count):
        """`count` words that are one token each."""
        with open(os.path.join(TOKENIZER, "tokenizer.json")) as file:
            vocabulary = json.load(file)["model"]["vocab"]
        words = sorted(w[1:] for w in vocabulary if len(w) > 3 and w[0] == "\u0120" and w[1:].isascii() and w[1:].islower())
        draw = random.Random(count)
        return " " + " ".join(draw.choice(words) for _ in range(count))

    def stage_prompt(self):
        for model in ("wide", "deep"):
            # The experts of a token, and those of two layers, which chunks of a prompt share (14 GB with 384 per layer).
            slots = max(6 * self.scale.layers[model], 2 * self.scale.experts[model])
            for count in self.scale.prompts[1:2] if model == "wide" else self.scale.prompts:
                name = (f"prompt of {count}, paced {self.gb(self.scale.rate)}, {self.scale.layers[model]} layers x "
                        f"{self.scale.experts[model]}")
                try:
                    answer = self.answer(f"prompt-{model}-{count}", self.model(model), "--cache-slots", str(slots),
                                         *self.no_vram(), "--io", self.pace(self.scale.rate), tokens=2, prompt=self.prompt_text(count),
                                         context=count + 512)
                except RuntimeError as error:
                    self.failed(name, error)
                    continue
                cache, seconds = answer["cache"], answer["timings"]["prompt_s"]
                tokens = answer["usage"]["prompt_tokens"]
                # Every expert that any token chose, once, however many chunks the prompt has.
                distinct = min(cache["sweep_asked"], self.scale.layers[model] * self.scale.experts[model])
                limit = distinct * self.scale.expert / self.scale.rate
                own = answer.get("prompt_limit") or {}
                note = f"{tokens} tokens in {seconds:.2f} s; {cache['sweep_asked']} experts requested"
                if own.get("binds"):
                    note += f"; own limit {own['tok_s']:.0f} tok/s, {100 * own['share']:.0f} %, bottleneck {own['binds']}"
                self.row(name, f"{tokens / seconds:.1f} tok/s", f"{tokens / limit:.1f} tok/s", limit / seconds, "90 %", note)

    def linked(self, name, source, chosen):
        """A folder with links to those files of `source` that `chosen` picks."""
        folder = os.path.join(self.o.shm, "sluice-full-size-" + name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for i, file in enumerate(sorted(os.listdir(source))):
            if chosen(i, file):
                os.symlink(os.path.join(source, file), os.path.join(folder, file))
        self.made[name] = folder
        return folder

    def stage_drives(self):
        wide, slow, fast = self.model("wide"), self.scale.slow, self.scale.rate
        shard = lambda file: file.endswith(".safetensors")
        mirror = self.linked("mirror", wide, lambda i, file: shard(file))
        first = self.linked("first", wide, lambda i, file: not shard(file) or i % 2 == 0)
        second = self.linked("second", wide, lambda i, file: shard(file) and i % 2 == 1)
        cold, few = (*self.cold, *self.no_vram()), self.scale.tokens // 2
        off, governed, guess = ("--prefetch", "off"), (), ("--prefetch", "6")
        one = self.decode(f"one drive of {self.gb(slow)}",
                          self.answer("drive-one", wide, *cold, *off, "--io", self.pace(slow), tokens=few), slow)
        # A layer is one shard: with shards spread, only reads for a later layer keep the other drive busy.
        cases = (("two drives alike, full mirror", wide, ("--mirror", mirror, *off), (slow, slow), ""),
                 ("the same, 6 guesses", wide, ("--mirror", mirror, *guess), (slow, slow), "95 %"),
                 ("mirror, drives 2:1", wide, ("--mirror", mirror, *off), (fast, slow), ""),
                 ("the same, governed guesses", wide, ("--mirror", mirror, *governed), (fast, slow), "95 %"),
                 ("the same, 6 guesses", wide, ("--mirror", mirror, *guess), (fast, slow), "95 %"),
                 ("two drives alike, shards spread, no copy", [first, second], off, (slow, slow), ""),
                 ("the same, governed guesses", [first, second], governed, (slow, slow), ""),
                 ("the same, 6 guesses", [first, second], guess, (slow, slow), ""))
        for i, (name, model, flags, rates, wanted) in enumerate(cases):
            try:  # the governor settles within the first dozen tokens
                answer = self.answer(f"drives-{i}", model, *cold, *flags, "--io", self.pace(*rates),
                                     tokens=few if "--prefetch" in flags else 3 * few)
                speed = self.decode(name, answer, sum(rates), wanted)
                if rates == (slow, slow):
                    self.row(f"  {name}: times one drive", f"{speed / one:.2f} x", "2.00 x", speed / one / 2, "95 %")
            except RuntimeError as error:
                self.failed(name, error)
        try:
            text = self.prompt_text(self.scale.prompts[0])
            # Experts read ahead from the other drive wait in RAM: one layer of them.
            held = ("--cache-slots", str(2 * self.scale.experts["wide"] + 6 * self.scale.layers["wide"]), *self.no_vram(), "--prefetch", "off")
            times = [self.answer(f"drives-prompt-{i}", model, *held, "--io", self.pace(*rates), tokens=1, prompt=text)
                     ["timings"]["prompt_s"] for i, (model, rates) in enumerate(((wide, [slow]), ([first, second], [slow, slow])))]
            self.row("  prompt, shards spread: times one drive", f"{times[0] / times[1]:.2f} x", "2.00 x", times[0] / times[1] / 2,
                     "95 %")
        except RuntimeError as error:
            self.failed("  prompt, shards spread", error)
        self.drop("mirror", "first", "second")

    def stage_cache(self):
        deep = self.model("deep")
        routes = os.path.join(self.log, "deep.routes")
        share = self.scale.share
        for gb, slots in self.scale.cached:
            for prefetch in ("off", "governed"):
                name = f"RAM cache of {gb} GB (x {share:.3f}: {slots} slots), prefetch {prefetch}"
                flags = ("--prefetch", "off", "--record-routes", routes) if prefetch == "off" else ()
                answer = self.answer(f"cache-{gb}-{prefetch}", deep, "--cache-slots", str(slots), *self.no_vram(), "--io",
                                     self.pace(self.scale.rate), *flags, tokens=self.scale.tokens * 12)
                cache = answer["cache"]
                self.decode(name, answer, self.scale.rate, "", f"hits {100 * cache['hits'] / cache['asked']:.1f} %")
                if prefetch == "off":
                    self.replay(slots, routes, cache)

    def replay(self, slots, routes, live):
        runs = self.call(f"replay-{slots}", "simulate", routes, "--cache-slots", str(slots), "--json")[0]["runs"]
        same = all(live[c] == runs[0]["cache"][c] for c in ("asked", "hits", "misses", "evictions", "sweep_asked", "sweep_hits"))
        text = ", ".join(f"{r['policy']} {100 * r['cache']['hits'] / r['cache']['asked']:.1f}" for r in runs)
        self.row("  replay of its routes", "equal" if same else "DIFFERENT", note=text + " % hits")

    def stage_cputier(self):
        if not self.no_vram():
            return self.row("experts in RAM, CPU or GPU", "", note="needs a GPU")
        part = self.model("part")
        slots = self.scale.layers["part"] * self.scale.experts["part"]
        speeds = {}
        for pure in ("off", "100%", "auto"):
            flags = () if pure == "auto" else ("--cpu-experts", pure)
            try:
                answer = self.answer("cputier-" + pure.strip("%"), part, "--cache-slots", str(slots), *self.no_vram(), "--link",
                                     self.pace(self.scale.link), *flags, tokens=self.scale.tokens * 4,
                                     prompt=self.prompt_text(self.scale.prompts[0]))
            except RuntimeError as error:
                self.failed(f"experts in RAM, --cpu-experts {pure}", error)
                continue
            speeds[pure] = answer["timings"]["decode_tok_s"]
            cache, own = answer["cache"], answer["limit"]
            self.row(f"experts in RAM, link paced to {self.gb(self.scale.link)}, --cpu-experts {pure}", f"{speeds[pure]:.2f} tok/s",
                     note=f"hits {100 * cache['hits'] / max(1, cache['asked']):.1f} %; own limit {own['tok_s'] or 0:.2f}, "
                          f"bottleneck {own['binds']}; {json.dumps(answer.get('cpu_experts', answer.get('cpu', {})))}")
        if len(speeds) == 3:
            best = max(speeds["off"], speeds["100%"])
            self.row("split / the better of the two alone", f"{speeds['auto'] / best:.2f} x", "1.00 x", speeds["auto"] / best, "100 %")
            self.row("split / GPU alone", f"{speeds['auto'] / speeds['off']:.2f} x", "", None, "1.3 x")

    def stage_gemv(self):
        try:
            report = self.bench("gemv", self.model("part"), "gemv", "--cpu-isa", "avx512")
        except RuntimeError:
            report = self.bench("gemv", self.model("part"), "gemv", "--cpu-isa", "avx2")
        for rate in report["kernels"]:
            self.row(f"expert kernel, {rate['isa']}, {rate['threads']} threads", f"{rate['fp4_bytes_s'] / 1e9:.1f} GB/s",
                     f"{rate['copy_bytes_s'] / 1e9:.1f} GB/s", rate["share"], "70 %")

    def stage_soak(self):
        part = self.model("part")
        every = self.scale.layers["part"] * self.scale.experts["part"]
        # With every expert in RAM the cache is in the same state early and late, so the speeds are compared. With three
        # quarters of them they are compared only where the hits are alike.
        for slots in (every, every * 3 // 4):
            done = subprocess.run(["bash", os.path.join(HERE, "soak.sh"), self.o.binary, part, "300" if self.scale.small else "2000",
                                   *self.device, "--cache-slots", str(slots), *self.no_vram()], capture_output=True, text=True)
            for line in done.stdout.splitlines() + done.stderr.splitlines():
                print("  " + line, flush=True)
            lines = done.stdout.strip().splitlines() or ["?"]
            self.row(f"soak, {slots} of {every} experts in RAM", "ok" if done.returncode == 0 else "WRONG",
                     note=lines[-2 if len(lines) > 1 else -1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("make_checkpoint")
    parser.add_argument("--shape", default="deepseek-v4.1-flash", choices=list(RELEASED))
    parser.add_argument("--only", default=",".join(STAGES))
    parser.add_argument("--shm", default="/dev/shm")
    parser.add_argument("--disk", default="/tmp")
    parser.add_argument("--vram", default="7.3GiB")
    parser.add_argument("--device", default="")
    parser.add_argument("--log", default="")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    options.device = options.device or ("cpu" if options.small else "cuda")
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(STAGES):
        sys.exit(f"--only: {', '.join(unknown)}; known: {', '.join(STAGES)}")
    bench = Bench(options)
    # Stages that share a checkpoint run one after the other, so that two large ones rarely exist at the same time.
    last_use = {"disk": "load", "wide": "drives", "deep": "cache", "part": "soak"}
    try:
        for stage in [s for s in STAGES if s in wanted]:
            start = time.time()
            try:
                getattr(bench, "stage_" + stage)()
            except (RuntimeError, KeyError, OSError, ValueError) as error:
                bench.failed(stage, f"{type(error).__name__} {error}")
            print(f"# {stage}: {time.time() - start:.1f} s", flush=True)
            for name, last in last_use.items():
                if STAGES.index(stage) >= STAGES.index(last):
                    bench.drop(name)
    finally:
        bench.drop(*list(bench.made))
    print("\n| what | reached | limit | share | wanted | |\n|---|---|---|---|---|---|")
    for row in bench.rows:
        print("| " + " | ".join(row) + " |")
    return any(row[1] in ("FAILED", "DIFFERENT", "WRONG") for row in bench.rows)


if __name__ == "__main__":
    sys.exit(main())
