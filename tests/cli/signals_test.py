"""Ctrl-C, SIGTERM and SIGHUP: in an answer, a prompt, a recording, and while the model is loaded."""
import glob
import json
import os
import signal
import subprocess
import time

from cli import QUESTION, SLUICE, TINY, Pty, check, check_run, environment, run, temp_folder

def interrupted(signal_number, *arguments, after):
    process = subprocess.Popen([SLUICE, TINY, *arguments], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    after(process)
    sent = time.monotonic()
    process.send_signal(signal_number)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err, time.monotonic() - sent

def wait_for_handlers(process):
    """Before they are there a signal ends it as it ends any program."""
    while True:
        with open(f"/proc/{process.pid}/status") as file:
            caught = next(line for line in file if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def wait_for_bytes(path, count):
    """Of the file that grows beside `path`."""
    while not any(os.path.getsize(name) >= count for name in glob.glob(path + ".*")):
        time.sleep(0.01)

endless = ("-p", "Tell me a story", "-n", "8000", "--ignore-eos")
code, out, err, took = interrupted(signal.SIGINT, *endless, after=lambda p: p.stdout.read(1))
check("Ctrl-C in an answer: flushed, a line, 130", code == 130 and b"interrupted" in err and
      out.endswith(b"\n"), (code, out[-50:], err))
code, out, err, took = interrupted(signal.SIGINT, *endless, "--json",
                                   after=lambda p: (wait_for_handlers(p), time.sleep(1)))
report = json.loads(out) if out else {}
check("in JSON the part so far", code == 130 and
      (not out or report["finish_reason"] == "interrupted"), (code, out, err))
code, out, err, took = interrupted(signal.SIGINT, "-p", "word " * 7000, "--chunk", "1",
                                   after=lambda p: (wait_for_handlers(p), time.sleep(0.6)))
check("Ctrl-C while the prompt is processed: nothing on stdout, 130, at once",
      code == 130 and out == b"" and b"interrupted" in err and took < 5, (code, out, err, took))
folder = temp_folder("sluice-ended-")
for number, name in ((signal.SIGTERM, b"SIGTERM"), (signal.SIGHUP, b"SIGHUP")):
    profile, routes = folder + "/profile.json", folder + "/routes"
    code, out, err, took = interrupted(number, *endless, "--json", "--profile", profile, "--record-routes", routes,
                                       after=lambda p: wait_for_bytes(routes, 20000))
    report = json.loads(out)
    check(f"{name.decode()}: the answer is stopped and reported completely, {128 + number}", code == 128 + number and
          name in err and report["finish_reason"] == "interrupted" and report["text"], (code, out, err))
    with open(profile) as file:
        check("with its profile", len(json.load(file)["traceEvents"]) > 100)
    check_run("and its routes", run("simulate", routes, "--cache-slots", "64", "--cache-policy", "lru"), 0)
    os.remove(profile), os.remove(routes)
    code, out, err, took = interrupted(number, *endless, after=lambda p: p.stdout.read(1))
    check("text ends with its line", code == 128 + number and out.endswith(b"\n"), (code, out[-50:], err))
kept = folder + "/kept.json"
check_run("a recording", run("record", TINY, "-p", QUESTION, "-n", "3", "-o", kept), 0)
with open(kept, "rb") as file:
    before = file.read()
process = subprocess.Popen([SLUICE, "record", TINY, "-p", "word " * 7000, "--chunk", "1", "-o", kept], stdin=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, env=environment())
wait_for_handlers(process)
time.sleep(0.5)
process.send_signal(signal.SIGTERM)
_, err = process.communicate(timeout=30)
with open(kept, "rb") as file:
    check("SIGTERM in a recording leaves the one that was there", process.returncode == 143 and file.read() == before,
          (process.returncode, err))
nohup = subprocess.Popen(["nohup", SLUICE, TINY, *endless[:2], "-n", "300", "--ignore-eos"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
nohup.stdout.read(1)
nohup.send_signal(signal.SIGHUP)
nohup.communicate(timeout=60)
check("with nohup a SIGHUP has no effect", nohup.returncode == 0, nohup)

# ---- interrupted while the model is loaded from a drive that would take minutes -----------------------
slow = ("--io", "paced:100KB")
for what, number, arguments in (
        ("an answer", signal.SIGINT, (TINY, "-p", "x", *slow, "--profile", folder + "/slow.json")),
        ("an answer", signal.SIGTERM, (TINY, "-p", "x", *slow)),
        ("a recording", signal.SIGTERM, ("record", TINY, "-p", "x", "-o", folder + "/new.json", *slow)),
        ("a comparison", signal.SIGINT, (TINY, "--verify", kept, *slow)),
        ("a measurement", signal.SIGHUP, ("bench", TINY, "--only", "decode", *slow))):
    process = subprocess.Popen([SLUICE, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    wait_for_handlers(process)
    time.sleep(0.3)
    sent = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    took = time.monotonic() - sent
    check(f"{what}, {number.name} in the load: {took:.1f} s", process.returncode == 128 + number and out == b"" and
          err.count(b"\n") == 1 and took < 3, (process.returncode, out, err, took))
with open(folder + "/slow.json") as file:
    json.load(file)
check("the profile is whole, no recording is there", not os.path.exists(folder + "/new.json") and
      sorted(os.listdir(folder)) == ["kept.json", "slow.json"], os.listdir(folder))
loading = Pty(TINY, *slow)
wait_for_handlers(loading.process)
time.sleep(0.3)
sent = time.monotonic()
loading.interrupt()
check("Ctrl-C while a chat is loaded", loading.wait() == 130 and loading.modes_kept() and time.monotonic() - sent < 3,
      loading.text)
