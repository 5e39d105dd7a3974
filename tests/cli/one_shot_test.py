"""One answer: exact text, what standard input may be, what standard output gets, exit codes."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from cli import ANSWER, QUESTION, SLUICE, TINY, Pty, check, check_run, environment, run, temp_folder

GREEDY = ("--temp", "0")

# The line after every answer.
SPEED = r"\d+ tokens? · [\d.]+ tok/s · first token [\d.]+ s · context \d+/\d+\n$"

check_run("the demonstration answer, and one line on stderr: its speed",
          run(TINY, "-p", QUESTION, *GREEDY), 0, ANSWER, r"^[^\n]*" + SPEED)
whole = run(TINY, "-p", QUESTION, *GREEDY, "--no-stream")
check_run("the same with --no-stream", whole, 0, ANSWER)
check("no escape codes, though colour is on",
      b"\x1b" not in run(TINY, "-p", QUESTION, *GREEDY, "--color", "on").stdout)
long = ("-p", "Tell me about rivers.", "-n", "60", "--seed", "7")
check("sampled text is the same bytes streamed or not, seed by seed",
      run(TINY, *long).stdout == run(TINY, *long, "--no-stream").stdout)

# ---- standard input ----------------------------------------------------------------------------
question = QUESTION.encode()
check_run("prompt from a pipe", run(TINY, *GREEDY, stdin=question + b"\n"), 0, ANSWER)
check_run("prompt from -p -", run(TINY, "-p", "-", *GREEDY, stdin=question), 0, ANSWER)
with tempfile.NamedTemporaryFile() as file:
    file.write(question + b"\r\n\n")
    file.flush()
    with open(file.name, "rb") as stream:
        check_run("prompt from a file on stdin", run(TINY, *GREEDY, stdin=stream), 0, ANSWER)
    check_run("prompt from -f", run(TINY, "-f", file.name, *GREEDY), 0, ANSWER)
MARK = b"\xef\xbb\xbf"  # what editors on Windows write in front: no part of the text
with tempfile.NamedTemporaryFile() as file:
    file.write(MARK + question + b"\r\n")
    file.flush()
    marked = [run(TINY, *GREEDY, "--json", *more, stdin=stdin) for more, stdin in (
        (("-p", QUESTION), b""), (("-f", file.name), b""), ((), MARK + question), (("-p", "-"), MARK + question),
        (("-p", QUESTION), MARK), (("-p", MARK + question), b""), ((), question + MARK))]
    tokens = [json.loads(r.stdout)["usage"]["prompt_tokens"] for r in marked]
    check("a byte order mark at the front of a file or a pipe is not a token", len(set(tokens[:5])) == 1, tokens)
    check("elsewhere it stays", min(tokens[5:]) > tokens[0], tokens)
with open("/dev/null", "rb") as null:
    check_run("-p with /dev/null", run(TINY, "-p", QUESTION, *GREEDY, stdin=null), 0, ANSWER)
with open("/dev/null", "rb") as null:
    check_run("no prompt at all", run(TINY, stdin=null), 2, b"", "prompt is empty")
check_run("-p with stdin closed", run(TINY, "-p", QUESTION, *GREEDY, stdin=None), 0, ANSWER)
check_run("no prompt, stdin closed", run(TINY, stdin=None), 2, b"", "prompt is empty")
check_run("an empty prompt", run(TINY, "-p", ""), 2, b"", "prompt is empty")
joined = run(TINY, "-p", "one", "--json", "-n", "1", stdin=b"two\n")
both = run(TINY, "-p", "one\ntwo", "--json", "-n", "1")
tokens = [json.loads(r.stdout)["usage"]["prompt_tokens"] for r in (joined, both)]
check("-p and a pipe: the prompt, a line feed, the input", tokens[0] == tokens[1], tokens)
check_run("5 MB of input cannot fit; the error has both numbers",
          run(TINY, "-p", "Sum up:", stdin=b"river lake " * 470000), 2, b"",
          r"the prompt has \d+ tokens and the context 8192")
check_run("a small context too", run(TINY, "-p", QUESTION, "-c", "4"), 2, b"", r"context 4\b")

asked = json.loads(run(TINY, "-p", QUESTION, *GREEDY, "--json").stdout)["usage"]["prompt_tokens"]
fits = run(TINY, "-p", QUESTION, *GREEDY, "--ignore-eos", "-c", str(asked + 7), "-n", "7", "--json")
check("an answer that just fits is given in full", json.loads(fits.stdout)["usage"]["completion_tokens"] == 7, fits)
for command in ((), ("record", "-o", "/tmp/never")):
    check_run(f"one token too many is reported before the run {command}", run(*command, TINY, "-p", QUESTION, "-c", str(asked + 7), "-n", "8"),
              2, b"", rf"^sluice: the prompt has {asked} tokens and the context {asked + 7}: no room for 8 more \(-n\); "
              r"raise -c, or lower -n to 7 .*\n$")
    check_run(f"-n that no prompt leaves room for, before the load {command}", run(*command, "/nowhere", "-p", "x", "-c", "30", "-n", "40"),
              2, b"", r"-n 40: leaves no room for a prompt in the context of 30")
short = run(TINY, "-p", QUESTION, *GREEDY, "--ignore-eos", "-c", str(asked + 7), "--json")
check("without -n what there is room for is given", json.loads(short.stdout)["usage"]["completion_tokens"] == 7, short)

bad = "Was ist ein Schl".encode() + b"\xfcssel?"  # Latin-1
with tempfile.NamedTemporaryFile() as file:
    file.write(bad)
    file.flush()
    for what, named, *more in (("-p", "-p", "-p", bad), ("-f", "-f: " + file.name, "-f", file.name),
                               ("a system prompt", "--system-prompt", "-p", "x", "--system-prompt", bad),
                               ("a file of one", "--system-prompt-file: " + file.name, "-p", "x", "--system-prompt-file", file.name)):
        check_run(f"{what} that is not UTF-8", run(TINY, *more), 2, b"", f"^sluice: {named}.*byte 0xfc at offset 16\n$")
check_run("standard input that is not UTF-8, after -p", run(TINY, "-p", "x", stdin=bad), 2, b"",
          "^sluice: standard input: not UTF-8: byte 0xfc at offset 16\n$")
with tempfile.NamedTemporaryFile() as file:
    file.write(b'[{"role": "user",\n"content": "' + bad + b'"}]')
    file.flush()
    check_run("messages that are not UTF-8", run("record", TINY, "--messages", file.name, "-o", file.name + ".json"), 2, b"",
              f"^sluice: --messages: {file.name}: not UTF-8: byte 0xfc at offset 46\n$")

open_pipe = subprocess.Popen([SLUICE, TINY, "-p", QUESTION, *GREEDY], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
line = open_pipe.stderr.readline()
check("a pipe that stays open: says that it waits", b"waiting for standard input" in line, line)
out, _ = open_pipe.communicate(timeout=60)
check("and answers once it ends", open_pipe.returncode == 0 and out == ANSWER, out)

# ---- as scripts call it ------
with open("/dev/null", "wb") as null:
    check_run("stdin that cannot be read (nohup)", run(TINY, "-p", QUESTION, *GREEDY, stdin=null), 0, ANSWER)
    check_run("and no prompt", run(TINY, stdin=null), 2, b"", "prompt is empty")
loop = run(TINY, "-p", QUESTION, *GREEDY, "--quiet", "-n", "1", stdin=b"What else?\n")
check_run("what stdin added is said", loop, 0, None, r"^sluice: 10 bytes of standard input appended to the prompt\n$")
for names in ({"GOMP_CPU_AFFINITY": "900-901"}, {"OMP_STACKSIZE": "16"}, {"OMP_THREAD_LIMIT": "1"}):
    check_run(f"{names} changes nothing", run(TINY, "-p", QUESTION, *GREEDY, "--quiet", env=environment(**names)), 0, ANSWER, "^$")
recorded = run("record", TINY, "-p", QUESTION, "-n", "2", "-o", "-")
check("record -o -: the trace on stdout", json.loads(recorded.stdout)["format"] and b"2 tokens recorded" in recorded.stderr, recorded)
piped = subprocess.run(f"'{SLUICE}' record '{TINY}' -p '{QUESTION}' -n 2 -o /dev/stdout | cat", shell=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
check("record -o /dev/stdout, a pipe", piped.stdout == recorded.stdout, piped)
one = run(TINY, "-p", QUESTION, *GREEDY, "-n", "1")
check_run("1 token", one, 0, b"The\n", r"^1 token · first token")
check_run("a flag in front of the command", run("--json", "plan", TINY, "--drive", "1GB"), 0)
check_run("-n that ends the reasoning", run(TINY, "-p", QUESTION, *GREEDY, "--reasoning", "on", "-n", "3"), 0, None,
          "sluice: cut off after 3 tokens of reasoning.*raise -n")
trapped = subprocess.Popen(["bash", "-c", f"trap '' INT; exec '{SLUICE}' '{TINY}' -p '{QUESTION}' --temp 0 -n 60 --ignore-eos"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
trapped.stdout.read(1)
trapped.send_signal(signal.SIGINT)
trapped.communicate(timeout=60)
check("a SIGINT that the caller ignores stays ignored", trapped.returncode == 0, trapped.returncode)

# ---- standard output ---------------------------------------------------------------------------
with open("/dev/full", "wb") as full:
    check_run("a full disk", run(TINY, "-p", QUESTION, *GREEDY, stdout=full), 5, None,
              r"^sluice: standard output[^\n]*\n$")
closed = subprocess.run(f"'{SLUICE}' '{TINY}' -p x -n 3 </dev/null >&-", shell=True, timeout=60,
                        stderr=subprocess.PIPE, env=environment())
check("standard output closed: an error", closed.returncode == 5, closed)
quiet = subprocess.run(f"'{SLUICE}' '{TINY}' -p '{QUESTION}' --temp 0 </dev/null 2>&-", shell=True,
                       timeout=60, stdout=subprocess.PIPE, env=environment())
check("standard error closed: the answer all the same", quiet.stdout == ANSWER, quiet)
started = time.monotonic()
head = subprocess.run(
    ["bash", "-c", f"'{SLUICE}' '{TINY}' -p 'Tell me a story' -n 4000 --ignore-eos </dev/null | "
     "head -c 1 >/dev/null; echo ${PIPESTATUS[0]}"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, env=environment())
check("a reader that goes away ends it quietly, with 141",
      head.stdout.strip() == b"141" and head.stderr == b"", head)
gone = subprocess.run(
    ["bash", "-c", f"'{SLUICE}' '{TINY}' -p 'Tell me a story' -n 4000 --ignore-eos --no-stream "
     "</dev/null | true; echo ${PIPESTATUS[0]}"],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, env=environment())
check("also when nothing was written yet", gone.stdout.strip() == b"141", gone)

# ---- JSON and numbers --------------------------------------------------------------------------
result = run(TINY, "-p", QUESTION, *GREEDY, "--json")
check_run("--json", result, 0)
report = json.loads(result.stdout)
check("one object on one line", result.stdout.count(b"\n") == 1)
check("its text", report["text"] == ANSWER.decode().rstrip("\n") and report["reasoning"] == "")
check("its ends", report["finish_reason"] == "stop" and report["model"] == "dsv41-tiny")
usage = report["usage"]
check("its usage", usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
      and usage["reasoning_tokens"] == 0, usage)
check("its timings", all(report["timings"][k] > 0 for k in
      ("load_s", "prompt_s", "decode_s", "prompt_tok_s", "decode_tok_s")), report["timings"])
limit = report["limit"]
check("its limit", limit["tok_s"] > 0 and 0 < limit["share"] <= 1.05 and
      limit["binds"] in ("drive", "cpu"), limit)
cache = report["cache"]
check("its cache counts", cache["asked"] == cache["hits"] + cache["misses"], cache)
check("its drive", report["io"]["bytes"] > 0 and report["io"]["engine"], report["io"])
check_run("an error leaves stdout empty in JSON too", run(TINY, "-p", "", "--json"), 2, b"")

# An answer that the context cuts says so; one that -n ends does not.
full = run(TINY, "-p", QUESTION, "--temp", "0", "--ignore-eos", "--loop-guard", "0", "-c", "30")
check("a full context is reported", full.returncode == 0 and b"the context of 30 tokens is full" in full.stderr, full.stderr)
check("the end by -n is not a full context", b"is full" not in run(TINY, "-p", QUESTION, "--temp", "0", "-n", "3").stderr)

first = run(TINY, "-p", "Tell me about the sea.", "-n", "40", "--stats")
seed = re.search(rb"seed (\d+)", first.stderr).group(1).decode()
again = run(TINY, "-p", "Tell me about the sea.", "-n", "40", "--seed", seed)
check("the seed of --stats repeats the answer", first.stdout == again.stdout, first.stdout)
other = run(TINY, "-p", "Tell me about the sea.", "-n", "40", "--seed", "1", "--temp", "2")
check("another seed and temperature gives another", other.stdout != again.stdout)
check("--quiet: no line", run(TINY, "-p", QUESTION, *GREEDY, "--quiet").stderr == b"")
check_run("--quiet --show-timings: that line alone",
          run(TINY, "-p", QUESTION, *GREEDY, "--quiet", "--show-timings"), 0, ANSWER, "^[^\n]*" + SPEED)
stop = run(TINY, "-p", QUESTION, *GREEDY, "--stop", "ralia is", "--json")
check("--stop", json.loads(stop.stdout)["text"] == "The capital of Aust", stop.stdout)
cut = run(TINY, "-p", QUESTION, *GREEDY, "-n", "2", "--json")
check("-n", json.loads(cut.stdout)["finish_reason"] == "length" and
      json.loads(cut.stdout)["usage"]["completion_tokens"] == 2, cut.stdout)
thought = json.loads(run(TINY, "-p", QUESTION, *GREEDY, "--reasoning", "on", "-n", "20",
                         "--json").stdout)
plain = json.loads(run(TINY, "-p", QUESTION, *GREEDY, "-n", "20", "--json").stdout)
check("--reasoning on changes the prompt", thought["usage"]["prompt_tokens"] !=
      plain["usage"]["prompt_tokens"] or thought["text"] != plain["text"])

# ---- every setting that may change speed leaves the text alone -----------------------------------
for setting in (("--io", "threads"), ("--io", "uring"), ("--cache-slots", "off"),
                ("--cache-slots", "48"), ("--cache-policy", "lru"), ("--prefetch", "2"),
                ("--prefetch", "off"), ("--chunk", "1"), ("--chunk", "3"), ("-t", "1"),
                ("--cpu-isa", "scalar"), ("--ram", "256MiB"), ("--predictor", "repeat"),
                ("--io-depth", "1"), ("--experts-in-flight", "1", "--expert-parts", "1")):
    result = run(TINY, "-p", QUESTION, *GREEDY, *setting)
    if setting == ("--io", "uring") and result.returncode == 5:
        print("skip  --io uring: not on this machine")
        continue
    check_run(" ".join(setting), result, 0, ANSWER)
check_run("a cache below one token's needs is refused with the number",
          run(TINY, "-p", QUESTION, "--cache-slots", "47"), 2, b"", r"\b48\b")

# ---- a model that changes under the program ------------------------------------------------------
copy = os.path.join(temp_folder("sluice-copy-"), "dsv41-tiny")
shutil.copytree(TINY, copy)
shard = os.path.join(copy, "model-00003-of-00012.safetensors")
with subprocess.Popen([SLUICE, copy, *long, "--ignore-eos"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE, env=environment()) as running:
    running.stdout.read(1)
    os.utime(shard)
    output, errors = running.communicate(timeout=60)
check("a shard that changes while it is in use ends the answer with an error that names it",
      running.returncode == 3 and f"{shard}: the file changed while it was in use".encode() in errors, errors)

# A drive so slow that the whole answer would take minutes.
with subprocess.Popen([SLUICE, copy, "-p", QUESTION, "--ignore-eos", "-n", "4000", "--cache-slots", "off", "--io", "paced:10MB"],
                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as running:
    running.stdout.read(1)
    os.utime(shard)
    try:
        output, errors = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
        output, errors = running.communicate()
check("and ends it soon, in one line", running.returncode == 3 and
      errors.startswith(f"sluice: {shard}: the file changed while".encode()) and errors.count(b"\n") == 1, errors)

# ---- threads that wait sleep soon, whatever else runs -----------------------------------------------
shared = subprocess.run(["ldd", SLUICE], capture_output=True, text=True).stdout
if "libgomp" in shared:
    print("skip  waiting threads: libgomp is shared in this build, and read its settings before the program began")
else:
    for wanted, more in (("5000", {}), ("77", {"GOMP_SPINCOUNT": "77"})):
        env = environment(OMP_DISPLAY_ENV="verbose", OMP_WAIT_POLICY=None, GOMP_SPINCOUNT=None) | more
        shown = subprocess.run([SLUICE, "--version"], capture_output=True, text=True, env=env).stderr
        check(f"waiting threads spin {wanted} times", f"GOMP_SPINCOUNT = '{wanted}'" in shown, shown)

tuning = Pty(TINY, "-p", QUESTION, "-n", "1", "--tune")
if "page cache" in tuning.expect("measuring the fastest way to read experts|through the page cache"):
    print("skip  --tune: files are not read directly here")
else:
    tuning.interrupt()
    check("--tune says what it does, and can be interrupted", tuning.wait() == 130, tuning.text)
    logged = subprocess.Popen([SLUICE, TINY, "-p", QUESTION, "-n", "1", "--tune"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    line = logged.stderr.readline()
    logged.send_signal(signal.SIGINT)
    check("in a log it says so in a line when it begins, and for how long",
          re.fullmatch(rb"measuring the fastest way to read experts, for about \d+ s\n", line) is not None, line)
    check("and nothing else until its end", logged.stderr.read().count(b"\n") == 1 and logged.wait() == 130)

with tempfile.TemporaryDirectory(prefix="sluice-messages-") as folder:
    path = os.path.join(folder, "messages.json")
    conversation = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello."},
                    {"role": "user", "content": QUESTION}]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(conversation, file)
    greedy = (TINY, "--temp", "0", "--json")
    one = json.loads(run(*greedy, "--messages", path).stdout)
    check("--messages: the whole conversation is asked", one["usage"]["prompt_tokens"] > 11, one)
    piped = run(*greedy, "--messages", "-", stdin=json.dumps(conversation).encode())
    check("--messages -: from standard input", json.loads(piped.stdout)["text"] == one["text"], piped)
    told = json.loads(run(*greedy, "--messages", path, "--system-prompt", "Be kind.").stdout)
    check("--messages: with a system message", told["usage"]["prompt_tokens"] > one["usage"]["prompt_tokens"], told)
    check_run("--messages and -p", run(TINY, "--messages", path, "-p", "x"), 2, b"", "--messages contains the prompt")
    check_run("--messages and --session", run(TINY, "--messages", path, "--session", path), 2, b"", "--messages and --session")
    check_run("--messages: no file", run(TINY, "--messages", path + "x"), 2, b"", "--messages: .*messages.jsonx")
    check_run("--messages: no list", run(TINY, "--messages", "-", stdin=b"{}"), 2, b"", "expected a list of messages")
