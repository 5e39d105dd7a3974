"""--verify, record, simulate, inspect and what is printed about the program."""
import json
import os
import re
import shutil
import tempfile

from cli import QUESTION, RANDOM, SOURCE, TINY, check, check_run, run, temp_folder

work = temp_folder("sluice-verify-")
GOLDEN = os.path.join(SOURCE, "tests/golden")

one = run(TINY, "--verify", os.path.join(GOLDEN, "dsv41-tiny-00.json"))
check_run("a reference trace", one, 0, None)
check("one line for it and a summary", re.fullmatch(
    rb"ok    dsv41-tiny-00\.json: \d+ steps, \d+ tokens equal, 0 ties; logits relative error "
    rb"median [\d.e-]+, max [\d.e-]+ at position \d+\nverified: 1 traces, 0 different.*\n",
    one.stdout) is not None, one.stdout)
folder = run(RANDOM, "--verify", GOLDEN)
check_run("a folder: traces of other models are skipped and named", folder, 0, None,
          r"skipped .*dsv41-tiny-00\.json")
check("and those with other index keys", b"index keys" in folder.stderr, folder.stderr)
keys = run(RANDOM, "--index-keys", "reference", "--verify",
           os.path.join(GOLDEN, "dsv41-rand-a-03-refkeys.json"))
check_run("the reference's index keys", keys, 0)
check_run("a named trace with other keys is an error that names the flag",
          run(RANDOM, "--verify", os.path.join(GOLDEN, "dsv41-rand-a-03-refkeys.json")), 2, b"",
          "index-keys")

with open(os.path.join(GOLDEN, "dsv41-tiny-00.json")) as file:
    trace = json.load(file)
trace["tokens"][3] = trace["steps"][3]["token"] = 77
trace["steps"][3]["top_ids"][0] = 77
with open(work + "/wrong.json", "w") as file:
    json.dump(trace, file)
wrong = run(TINY, "--verify", work + "/wrong.json")
check("a trace that differs: exit 1", wrong.returncode == 1, wrong)
check("position, tokens, logits and margin are said",
      re.search(rb"position 13: expected 77 \([-\d.]+\), got \d+ \([-\d.]+\), recorded margin",
                wrong.stdout) is not None and b"DIFFERENT: 1 traces, 1 different" in wrong.stdout,
      wrong.stdout)
for what, spoil in (("reversed ids", lambda step: step["top_ids"].reverse()),
                    ("reversed logits", lambda step: step["top_logits"].reverse()),
                    ("an id twice", lambda step: step["top_ids"].__setitem__(5, step["top_ids"][2]))):
    with open(os.path.join(GOLDEN, "dsv41-tiny-00.json")) as file:
        trace = json.load(file)
    spoil(trace["steps"][3])
    with open(work + "/spoiled.json", "w") as file:
        json.dump(trace, file)
    spoiled = run(TINY, "--verify", work + "/spoiled.json")
    check_run(f"a trace with {what}: damaged, not different", spoiled, 3, b"",
              r"verify-\S+/spoiled\.json: steps\[3\]\.top_(ids|logits): .*the file is damaged")
os.mkdir(work + "/none")
check_run("a folder without traces", run(TINY, "--verify", work + "/none"), 3, b"")
shutil.copy(os.path.join(GOLDEN, "dsv41-rand-a-00.json"), work + "/none")
check_run("a folder with those of other models only", run(TINY, "--verify", work + "/none"), 2, b"",
          "no trace of dsv41-tiny")

# ---- our own traces ------------------------------------------------------------------------------
own = work + "/own.json"
check_run("record", run("record", TINY, "-p", QUESTION, "-n", "12", "-o", own), 0, b"", "recorded")
check_run("repeats bit by bit, whatever the settings",
          run(TINY, "--verify", own, "--cache-slots", "off", "-t", "1", "--chunk", "3"), 0)
with open(work + "/chat.json", "w") as file:
    json.dump([{"role": "system", "content": "Be brief."},
               {"role": "user", "content": QUESTION}], file)
check_run("record --messages", run("record", TINY, "--messages", work + "/chat.json", "-n", "4",
                                   "-o", work + "/two.json"), 0)
with open(work + "/chat.json", "rb") as file:
    messages = file.read()
with open(work + "/marked.json", "wb") as file:
    file.write(b"\xef\xbb\xbf" + messages)
check_run("record --messages that begin with a byte order mark", run(
    "record", TINY, "--messages", work + "/marked.json", "-n", "4", "-o", work + "/three.json"), 0)
with open(work + "/two.json") as two, open(work + "/three.json") as three:
    check("the mark is no part of them", json.load(two)["prompt"] == json.load(three)["prompt"])
with open(own) as file:
    text = file.read()
number = re.search(r'"(?:logits_)?checksum": ?"?([0-9a-f]+)', text)
check("an own trace has checksums of all logits", number is not None, text[:400])
changed = text.replace(number.group(1), "0123456789abcdef"[:len(number.group(1))], 1)
with open(own, "w") as file:
    file.write(changed)
check("one wrong checksum: exit 1", run(TINY, "--verify", own).returncode == 1)

# ---- routes --------------------------------------------------------------------------------------
routes = work + "/routes.bin"
live = json.loads(run(TINY, "-p", QUESTION, "--temp", "0", "--record-routes", routes, "--json",
                      "--cache-slots", "64", "--prefetch", "off").stdout)["cache"]
table = run("simulate", routes)
check_run("simulate", table, 0, None)
check("a row for each policy, Belady too", all(
    name in table.stdout for name in (b"aging-lru", b"lfu", b"slru", b"layer-lru", b"belady")),
    table.stdout)
runs = json.loads(run("simulate", routes, "--json", "--cache-slots", "64,512").stdout)[0]["runs"]
by = {(r["slots"], r["policy"]): r["cache"] for r in runs}
check("the simulator counts what the live cache counted",
      all(by[64, "aging-lru"][k] == live[k] for k in ("asked", "hits", "misses", "evictions")),
      (by[64, "aging-lru"], live))
check("no policy beats Belady", all(
    r["cache"]["hits"] <= by[r["slots"], "belady"]["hits"] for r in runs), by)

# ---- the rest ------------------------------------------------------------------------------------
check_run("inspect", run("inspect", TINY), 0)
check("inspect --json is JSON", json.loads(run("inspect", TINY, "--json").stdout))
check_run("--version", run("--version"), 0, None)
check("version, commit, compiler, cuda and cpu, a line each",
      [l.split()[0] for l in run("--version").stdout.decode().splitlines()] ==
      ["sluice", "commit", "compiler", "cuda", "cpu"])
check("--list-devices begins with the cpu", run("--list-devices").stdout.startswith(b"cpu "))
check("--help is on stdout", b"--ctx-size" in run("--help").stdout)
check("the documented environment works", run(
    "-p", QUESTION, "--temp", "0", env={**os.environ, "SLUICE_MODEL": TINY}).returncode == 0)

# A mirror whose file differs where no sample looks is found by reading everything.
with tempfile.TemporaryDirectory() as mirror:
    name = "model-00005-of-00012.safetensors"
    with open(os.path.join(TINY, name), "rb") as file:
        data = bytearray(file.read())
    copy = os.path.join(mirror, name)
    with open(copy, "wb") as file:
        file.write(data)
    check_run("a mirror in order", run("inspect", TINY, "--check", "--mirror", mirror), 0)
    with open(os.path.join(TINY, name), "rb") as file:
        header = 8 + int.from_bytes(file.read(8), "little")
    data[header + 4096 + 7] ^= 1  # behind the first sample, before the second
    with open(copy, "wb") as file:
        file.write(data)
    check_run("a mirror with one byte changed", run("inspect", TINY, "--check", "--mirror", mirror), 3, None, "model-00005.*the original has")
