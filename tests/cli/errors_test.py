"""Bad flags, bad models, bad files: the exit code, one line on stderr, nothing on stdout."""
import json
import os
import re
import resource
import subprocess

from cli import QUESTION, SLUICE, SOURCE, TINY, TOKEN_ROUTED, Pty, check, check_run, environment, run, temp_folder

work = temp_folder("sluice-errors-")
linked = subprocess.run(["ldd", SLUICE], capture_output=True, text=True).stdout


def one_line(what, code, pattern, *arguments, **more):
    result = run(*arguments, **more)
    check_run(what, result, code, b"", pattern)
    check(what + ": in one line", result.stderr.count(b"\n") == 1, result.stderr)


# ---- usage: exit 2 -------------------------------------------------------------------------------
one_line("no model", 2, "no model")
if "libasan" not in linked and "libtsan" not in linked:  # they want terabytes of addresses
    for limit in (24, 30, 80, 84):
        low = run(TINY, "-p", QUESTION, "--temp", "0", "--device", "cpu", "-t", "1",
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit << 20, limit << 20)))
        check(f"{limit} MiB of addresses: it runs, or says in one line that there is no memory",
              low.returncode == 0 or (low.returncode == 4 and b"memory" in low.stderr and low.stdout == b"" and
                                      low.stderr.count(b"\n") == 1), (low.returncode, low.stderr))
one_line("--verify that also takes the model", 2, "no model: it goes before --verify", "--verify", "x.json", TINY)
one_line("a mistyped command", 2, 'unknown command "inspct".*did you mean inspect\\?', "inspct", TINY)
one_line("a mistyped command with a flag of the intended one", 2, 'unknown command "inspct".*did you mean inspect\\?', "inspct", TINY, "--check")
one_line("an unknown word", 2, 'unknown command "zzzzz", and no such model .see sluice --help', "zzzzz", TINY)
one_line("a model, and a word too many", 2, 'unexpected "zzzzz" after the model', TINY, "zzzzz")
one_line("an unknown flag", 2, "--no-such-flag", TINY, "--no-such-flag")
for flag, values in {
        "--temp": ("-1", "nan", "inf", "hot", ""), "--top-p": ("0", "1.1", "nan"),
        "--top-k": ("-1", "2147483648", "1.5"), "--min-p": ("1", "-1"),
        "--repeat-penalty": ("0",), "-n": ("0", "-2", "1.5", "9223372036854775808"),
        "-c": ("0", "-5", "many"), "-t": ("0", "100000"), "--seed": ("-2", "x"),
        "--ram": ("0", "12 parsecs", "-1"), "--cache-slots": ("on", "-1"),
        "--cache-policy": ("mru",), "--io": ("aio",), "--cpu-isa": ("sse9",),
        "--device": ("toaster",), "--prefetch": ("1000",), "--chunk": ("0",),
        "--reasoning": ("perhaps",), "--reasoning-effort": ("0", "101", "huge"),
        "--index-keys": ("mine",), "--color": ("green",), "--log-level": ("loud",),
        "--stop": ("",), "--loop-guard": ("2",)}.items():
    for value in values:
        one_line(f"{flag} {value!r}", 2, ".", TINY, "-p", "x", flag, value)
one_line("late index keys of a model that has none", 2, "^sluice: --index-keys reference: has no meaning for DeepSeek-V4, "
         "whose index keys are never late; omit it$", TOKEN_ROUTED, "-p", "x", "--index-keys", "reference")
one_line("more context than the model has", 2, r"\b16384\b", TINY, "-p", "x", "-c", "16385")
one_line("a --top-k larger than the vocabulary", 2, "--top-k 4097: the vocabulary has 4096", TINY, "-p", "x", "--top-k", "4097")
one_line("seventeen stops", 2, "16", TINY, "-p", "x", *(["--stop", "a"] * 17))
one_line("a prompt file that is not there", 2, "-f", TINY, "-f", work + "/none")
one_line("a config file that is not there", 2, "--config", TINY, "--config", work + "/none")
with open(work + "/bad.toml", "w") as file:
    file.write("temp = 0.5\ntemperatur = 1\n")
one_line("an unknown key, with its line", 2, "line 2.*temperatur", TINY, "-p", "x", "--config",
         work + "/bad.toml")
one_line("a bad variable, by name", 2, "SLUICE_TEMP", TINY, "-p", "x",
         env=environment(SLUICE_TEMP="hot"))
one_line("a flag that nobody gave, with its variable", 4, r"--ram 900 TiB .* \(--ram is from SLUICE_RAM\)$", TINY, "-p", "x",
         env=environment(SLUICE_RAM="900TiB"))
one_line("record without a file", 2, "-o", "record", TINY, "-p", "x")
one_line("simulate without a file", 2, "ROUTES", "simulate")

# ---- checkpoint: exit 3 --------------------------------------------------------------------------
one_line("a model that is not there", 3, ".", work + "/no-model", "-p", "x")
one_line("a Hugging Face id that is not in the cache", 3, "hf download", "nobody/nothing", "-p", "x")
os.mkdir(work + "/empty")
one_line("an empty folder", 3, ".", work + "/empty", "-p", "x")


def damaged(name, change):
    folder = os.path.join(work, name)
    os.mkdir(folder)
    for file in os.listdir(TINY):
        os.symlink(os.path.join(TINY, file), os.path.join(folder, file))
    change(folder)
    return folder


def replace(folder, file, data):
    path = os.path.join(folder, file)
    if os.path.lexists(path):
        os.unlink(path)
    with open(path, "wb") as stream:
        stream.write(data)


def content(file):
    with open(os.path.join(TINY, file), "rb") as stream:
        return stream.read()


SHARD = "model-00005-of-00012.safetensors"
one_line("a shard cut short", 3, SHARD,
         damaged("cut", lambda f: replace(f, SHARD, content(SHARD)[:-1])), "-p", "x")
one_line("a shard that is missing", 3, SHARD,
         damaged("missing", lambda f: os.unlink(os.path.join(f, SHARD))), "-p", "x")


def edited(file, change):
    """The model with one of its JSON files changed: `change` is new bytes, or edits the parsed one."""
    def damage(folder):
        text = change
        if callable(change):
            parsed = json.loads(content(file))
            change(parsed)
            text = json.dumps(parsed).encode()
        replace(folder, file, text)
    return damage


INDEX = "model.safetensors.index.json"
FETCH = "; fetch (it|them): hf download REPO "
for number, (file, change, cure, said) in enumerate((
        ("config.json", b"{", FETCH, "not valid JSON"),
        ("config.json", b"[]", FETCH, "expected an object"),
        ("config.json", b"", FETCH, "empty"),
        ("config.json", b"<html>", FETCH, "an HTML page"),
        ("config.json", lambda c: c.pop("model_type"), FETCH, "model_type: missing"),
        ("config.json", lambda c: c["text_config"].update(vocab_size="x"), FETCH, "vocab_size"),
        ("config.json", lambda c: c["text_config"].update(zzz=1), "", "text_config.zzz"),
        ("config.json", lambda c: c.update(model_type="mystery"), "", "mystery.*known: "),
        ("config.json", lambda c: c.update(bos_token_id=7), "", "do not belong together"),
        ("generation_config.json", b"{", FETCH, "not valid JSON"),
        ("generation_config.json", b'{"temperature": -1}', FETCH, "temperature is -1, must be in"),
        ("generation_config.json", b'{"eos_token_id": 1000000}', FETCH, "outside the vocabulary"),
        ("tokenizer.json", b"{", FETCH, "not valid JSON"),
        ("tokenizer.json", b"[]", FETCH, "expected an object"),
        ("tokenizer.json", b"", FETCH, "empty"),
        ("tokenizer.json", lambda t: t["model"].update(type="WordPiece"), "", "'WordPiece' is not"),
        (INDEX, b"{", FETCH, "not valid JSON"),
        (INDEX, b"<html>", FETCH, "an HTML page"),
        (INDEX, lambda i: i["weight_map"].update({"head.weight": 5}), FETCH, "head.weight"))):
    folder = damaged(f"file-{number}", edited(file, change))
    wrong = run(folder, "-p", "x")
    check_run(f"{file} {said}: its path and the cure", wrong, 3, b"",
              rf"^sluice: {re.escape(folder)}/{re.escape(file)}: .*{said}[^;]*(;[^;]*)?{cure}")
    problem = wrong.stderr.decode().split("; fetch")[0]
    check("in one line, the path and the cure once", wrong.stderr.count(b"\n") == 1 and
          problem.count(folder) == 1 and "download" not in problem, wrong.stderr)
for change in (lambda t: t["model"]["vocab"].update(zzzzz=999999),
               lambda t: t.update(added_tokens=t["added_tokens"][:2])):
    folder = damaged(f"pair-{id(change)}", edited("tokenizer.json", change))
    one_line("a tokenizer of another model", 3, rf"^sluice: {re.escape(folder)}/config\.json: .*tokenizer\.json.*"
             "do not belong together$", folder, "-p", "x")
for name in ("tokenizer.json", INDEX):
    folder = damaged("without-" + name, lambda f: os.unlink(os.path.join(f, name)))
    one_line(f"no {name}", 3, rf"^sluice: {re.escape(folder)}: {name} is missing.*; fetch it: hf ", folder, "-p", "x")


def nowhere(file):
    def change(folder):
        if os.path.lexists(os.path.join(folder, file)):
            os.unlink(os.path.join(folder, file))
        os.symlink("/nowhere/at/all", os.path.join(folder, file))
    return change


for name in ("config.json", "tokenizer.json", "generation_config.json", INDEX, SHARD):
    one_line(f"{name} is a link to nowhere", 3, rf"{re.escape(name)}.*a link to (a missing file|/nowhere/at/all, which does not exist).*fetch it: hf download REPO {re.escape(name)}",
             damaged("nowhere-" + name, nowhere(name)), "-p", "x")


def pipe(file):
    def change(folder):
        os.unlink(os.path.join(folder, file))
        os.mkfifo(os.path.join(folder, file))
    return change


for name in ("config.json", "tokenizer.json"):
    one_line(f"a pipe as {name}", 3, "pipe", damaged("pipe-" + name, pipe(name)), "-p", "x")
one_line("a trace of other index keys, named itself, stops all at once", 2, "index-keys", TINY, "--verify",
         os.path.join(SOURCE, "tests/golden/dsv41-tiny-00.json"),
         os.path.join(SOURCE, "tests/golden/dsv41-tiny-10-refkeys.json"))
one_line("the split without a GPU", 2, "split needs a GPU", "bench", TINY, "--only", "split",
         "--device", "cpu")
one_line("a temperature of a comparison", 2, "--verify: --temp/--temperature cannot be combined with it", TINY, "--verify",
         os.path.join(SOURCE, "tests/golden/dsv41-tiny-00.json"), "--temp", "0")
one_line("a report in JSON of a comparison", 2, "--json", TINY, "--json", "--verify",
         os.path.join(SOURCE, "tests/golden/dsv41-tiny-00.json"))
other = damaged("copy", lambda f: None)
check_run("a copy given with -m is not read: a warning says what reads it",
          run("inspect", TINY, "-m", other), 0, None, "errors-.*/copy: not read.*--mirror")
one_line("a model given twice", 2, "twice", "-m", TINY, "-m", TINY + "/.", "-p", "x")
one_line("a mirror of the model's own folder", 2, "dsv41-tiny", TINY, "--mirror", TINY, "-p", "x")
one_line("a mirror with a link to nowhere", 3, "model-00002.*a link to a missing file; repair it", TINY, "--mirror",
         damaged("mirror", nowhere("model-00002-of-00012.safetensors")), "-p", "x")
os.mkfifo(work + "/prompt")
one_line("a pipe as a prompt's file", 2, "-f: .*/prompt: a pipe, not a file; give one, or pipe it to -p -", TINY, "-f", work + "/prompt")
one_line("a VRAM cache on the CPU", 2, "vram-slots", TINY, "-p", "x", "--device", "cpu", "--vram-slots", "5")


one_line("a trace that is not there", 3, ".", TINY, "--verify", work + "/none.json")
with open(work + "/routes", "wb") as file:
    file.write(b"no routes")
one_line("a file that holds no routes", 3, ".", "simulate", work + "/routes")
check_run("routes for a cut", run(TINY, "-p", QUESTION, "-n", "2", "--record-routes", work + "/whole"), 0)
with open(work + "/whole", "rb") as file:
    routes = file.read()
for length in range(8, len(routes), 8):
    with open(work + "/routes", "wb") as file:
        file.write(routes[:length])
    cut = run("simulate", work + "/routes")
    if b"no complete token" in cut.stderr:
        check_run("routes cut inside the first token: how to record them", cut, 3, None, "record again: sluice MODEL .*--record-routes .*routes\n$")
        break
else:
    check("a file of routes with no complete token is found", False, len(routes))

# ---- machine: exit 4 -----------------------------------------------------------------------------
one_line("a budget that would swap", 4, "swap", TINY, "-p", "x", "--ram", "900TiB")
one_line("a budget too small", 4, ".", TINY, "-p", "x", "--ram", "1MiB")
version = run("--version").stdout
if b"cuda     not built in" in version:
    one_line("a GPU that this build cannot use", 4, ".", TINY, "-p", "x", "--device", "cuda")

# ---- numerical: exit 6 ---------------------------------------------------------------------------
def not_numbers(layer, scale=255):
    """Every routed expert of the layer has a bad scale: found when it is used, not when the model is loaded."""
    def change(folder):
        name = json.loads(content(INDEX))["weight_map"][f"layers.{layer}.ffn.experts.0.w2.scale"]
        data = bytearray(content(name))
        begin = 8 + int.from_bytes(data[:8], "little")
        for tensor, entry in json.loads(data[8:begin]).items():
            if re.fullmatch(rf"layers\.{layer}\.ffn\.experts\.\d+\.w2\.scale", tensor):
                data[begin + entry["data_offsets"][0]] = scale
        replace(folder, name, data)
    return change


for layer, subject in ((3, "layer 4: the router's scores"), (7, "the logit of token")):
    folder = damaged(f"nan-{layer}", not_numbers(layer))
    for command in ("-p", "x"), ("--quiet", "--verify", os.path.join(SOURCE, "tests/golden/dsv41-tiny-00.json")):
        bad = run(folder, *command)
        check_run(f"{subject}: what looks for the cause", bad, 6, b"",
                  rf"^sluice: (\S+: )?{subject}.* position \d+ (is|are) not .*: sluice inspect {re.escape(folder)} --check\n$")
    cure = bad.stderr.decode().split(": sluice ")[1].split()
    check_run("and it does", run(*cure), 3, None, f"layers.{layer}.*NaN")
huge = damaged("huge-scales", not_numbers(7, 254))
bad = run(huge, "-p", "x")
check_run("scales of 2^127: what looks for the cause", bad, 6, b"", rf": sluice inspect {re.escape(huge)} --check\n$")
check_run("finds them, with the cure", run("inspect", huge, "--check"), 3, None,
          r"(?s)layers\.7\S*w2\.scale: element 0 is scale byte 254 \(2\^127\).*damaged: model-\S+; fetch it: hf download REPO model-")
check_run("a script that pipes its question in sees the failure", run(folder, stdin=b"Hello\n"), 6, b"", "not a finite number")
chat = Pty(folder)
chat.expect("> ")
chat.send("Hello\r")
chat.expect("is not a finite number.*> ")
chat.send("/exit\r")
check("on a terminal a failed answer is reported, and leaving is no failure", chat.wait() == 0, chat.text)

# ---- where nothing can be written: reported before the work, exit 2 --------------------------------
one_line("a trace that cannot be written", 2, "its folder does not exist", "record", TINY, "-p", QUESTION, "-n", "2", "-o",
         work + "/no/such/folder/t.json", "--quiet")

# ---- a drive that is full: exit 5, one line, nothing half-written, and what was there stays --------
for flag, kind, *arguments in (("--record-routes", b"SLROUTE1", TINY, "-p", QUESTION, "-n", "20"),
                               ("--profile", b'{"displayTimeUnit":"ms","traceEvents":[', TINY, "-p", QUESTION, "-n", "5"),
                               ("-o", b'{"format":"sluice-trace-1"', "record", TINY, "-p", QUESTION, "-n", "20"),
                               ("--hashes", b"", "inspect", TINY, "--check")):
    place = os.path.join(work, "full" + flag)
    os.mkdir(place)
    path = os.path.join(place, "out")
    for before in (None, kind):
        if before is not None:
            with open(path, "wb") as file:
                file.write(before)
        full = run(*arguments, *(("--quiet",) if flag != "--hashes" else ()), flag, path,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)))
        check_run(f"{flag} on a full drive, {before!r} there", full, 5, None,
                  rf"^sluice: {flag} {re.escape(path)}: File too large \(EFBIG\)\n$")
        left = [(name, open(os.path.join(place, name), "rb").read()) for name in os.listdir(place)]
        check("nothing half-written is left, what was there is", left == ([] if before is None else [("out", before)]), left)

# ---- settings that would have no effect -----------------------------------------------------------
ASK = (TINY, "-p", QUESTION, "-n", "1", "--temp", "0")
for home, make, said in (
        ("link", lambda at: os.symlink("/nowhere/at/all", at + "/config.toml"), r"config\.toml: a link to a missing file; repair"),
        ("folder-link", lambda at: (os.rmdir(at), os.symlink("/nowhere/at/all", at)), "sluice: a link to a missing file; repair"),
        ("folder", lambda at: os.mkdir(at + "/config.toml"), r"config\.toml is not a file"),
        ("typo", lambda at: open(at + "/config.toml", "w").write("tepm = 1\n"), r"config\.toml line 1: tepm: .*\"temp\""),
        ("flag", lambda at: open(at + "/config.toml", "w").write("json = true\n"), r"config\.toml line 1: json: .*--json can only be given on the command line")):
    place = os.path.join(work, "home-" + home, "sluice")
    os.makedirs(place)
    make(place)
    one_line(f"settings: a {home}", 2, re.escape(os.path.dirname(place)) + ".*" + said, *ASK,
             env=environment(XDG_CONFIG_HOME=os.path.dirname(place)))
stray = dict(SLUICE_VRMA="3GiB", SLUICE_PROFILE="x", sluice_ram="1GiB", SLUICE_QUITE_ELSE="1", SLUICE_SOURCE_DIR=SOURCE,
             SLUICE_TEST_FULL="1", SLUICE_EMPTY="", SLUICE_TEMP="0", SLUICE="x")
unused = run(*ASK, env=environment(**stray))
check_run("variables without effect: one line", unused, 0)
lines = [line for line in unused.stderr.decode().splitlines() if "effect" in line]
check("each with a suggestion, and no others", len(lines) == 1 and lines[0].startswith("sluice: warning: ") and sorted(
    re.findall(r"(\w+) has no effect \(([^)]*)\)", lines[0])) == sorted([
        ("SLUICE_VRMA", "did you mean SLUICE_VRAM?"), ("SLUICE_PROFILE", "--profile can only be given on the command line"),
        ("sluice_ram", "did you mean SLUICE_RAM?"), ("SLUICE_QUITE_ELSE", "sluice --help lists the options")]), unused.stderr)
quiet = run(*ASK, "--quiet", env=environment(**stray))
check("not with --quiet", quiet.returncode == 0 and quiet.stderr == b"", quiet.stderr)
structured = run(*ASK, "--json", env=environment(**stray))
check("beside --json, not in it", json.loads(structured.stdout) and b"SLUICE_VRMA" in structured.stderr, structured)
check("nor with --version", run("--version", env=environment(**stray)).stderr == b"")
known = run(*ASK, env=environment(SLUICE_RAM="1GiB", SLUICE_MAX_TOKENS="1", SLUICE_SHOW_TIMINGS="on", SLUICE_ONLY=None))
check("variables of settings are not reported", known.returncode == 0 and b"effect" not in known.stderr, known.stderr)
