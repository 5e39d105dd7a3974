"""--profile: spans whose sum is the answer's time, and a valid file whatever became of the run."""
import json
import os
import signal
import subprocess
import time

from cli import QUESTION, SLUICE, TINY, check, check_run, environment, run, temp_folder

FOLDER = temp_folder("sluice-profile-")
FILE = os.path.join(FOLDER, "profile.json")
RUN = ("-n", "30", "--temp", "0.5", "--seed", "1", "--ignore-eos", "--device", "cpu", "-t", "1", "--ram", "1GiB")


def spans(path):
    with open(path) as file:
        profile = json.load(file)
    return [e for e in profile["traceEvents"] if e["ph"] == "X"], profile


def within(event, outer):
    return event["ts"] >= outer["ts"] - 0.01 and \
        event["ts"] + event["dur"] <= outer["ts"] + outer["dur"] + 0.01


def share(events):
    answer = next(e for e in events if e["name"] == "answer")
    leaves = [e for e in events if e["cat"] == "leaf" and e["tid"] == answer["tid"] and
              within(e, answer)]
    return sum(e["dur"] for e in leaves) / answer["dur"], leaves


for name, more in (("cached", ()), ("no cache", ("--cache-slots", "off"))):
    result = run(TINY, "-p", QUESTION, *RUN, *more, "--json", "--profile", FILE)
    check_run(f"{name}: a profiled answer", result, 0)
    report = json.loads(result.stdout)
    events, profile = spans(FILE)
    got, leaves = share(events)
    check(f"{name}: the leaves make up the answer's wall time", 0.97 <= got <= 1.001, got)
    wall = 1e6 * (report["timings"]["prompt_s"] + report["timings"]["decode_s"])
    check(f"{name}: and that of the report's own clock",
          abs(sum(e["dur"] for e in leaves) - wall) <= 0.03 * wall, (got, wall))
    names = {e["name"] for e in leaves}
    check(f"{name}: every stage is there", names >= {"embedding", "attention", "route", "experts",
          "expert", "shared expert", "head", "sample", "text"}, names)
    passes = [e for e in events if e["name"] == "pass"]
    check(f"{name}: one pass a token", len(passes) == 30, len(passes))
    reads = [e for e in events if e["name"] == "read"]
    check(f"{name}: reads name layer, expert and bytes",
          reads and all({"layer", "expert", "bytes"} <= set(e["args"]) for e in reads), reads[:1])
    check(f"{name}: none dropped", profile["otherData"]["dropped"] == 0)
check("one profile replaces the other, nothing else is left", os.listdir(FOLDER) == ["profile.json"])
plain = run(TINY, "-p", QUESTION, *RUN, "--cache-slots", "off", "--json")
check("profiling changes no byte of the answer",
      json.loads(plain.stdout)["text"] == report["text"])

os.remove(FILE)
process = subprocess.Popen([SLUICE, TINY, "-p", "Tell me.", *RUN, "-n", "8000", "--profile", FILE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env=environment())
process.stdout.read(1)
time.sleep(0.2)
process.send_signal(signal.SIGINT)
process.communicate()
check("Ctrl-C ends it", process.returncode == 130, process.returncode)
got, _ = share(spans(FILE)[0])
check("after Ctrl-C the file is valid, and its leaves are the answer's time", got >= 0.97, got)

check_run("a run that fails", run("/nowhere", "-p", "x", "--profile", FILE), 3, b"", "nowhere")
check("leaves a valid file too", spans(FILE)[1]["otherData"]["dropped"] == 0)
check_run("a folder", run(TINY, "-p", "x", "--profile", FOLDER), 2, b"", "--profile .*is a folder")
held = os.path.join(FOLDER, "config.json")
with open(held, "w") as file:
    file.write('{"model_type": "x"}')
check_run("a file of another kind", run(TINY, "-p", "x", "--profile", held), 2, b"", "another kind of file")
check_run("routes over it", run(TINY, "-p", "x", "-n", "1", "--record-routes", held), 2, b"", "another kind of file")
check_run("a recording over it", run("record", TINY, "-p", "x", "-n", "1", "-o", held), 2, b"", "another kind of file")
with open(held) as file:
    check("is left alone", file.read() == '{"model_type": "x"}')
check_run("a device", run(TINY, "-p", "x", "--profile", "/dev/full"), 2, b"", "not a regular file")
check_run("a missing folder", run(TINY, "-p", "x", "--profile", FOLDER + "/no/t"), 2, b"", "does not exist")
