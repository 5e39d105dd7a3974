"""sluice plan: what the engine then does, with and without a model, and what it refuses."""
import json
import os
import re
import subprocess

from cli import QUESTION, SLUICE, TINY, TOKEN_ROUTED, check, check_run, environment, run

MACHINE = ("--ram", "1GiB", "--device", "cpu", "-c", "4096")


# Measuring takes its time; it goes on beside the rest.
measuring = {command: (limit, subprocess.Popen([SLUICE, *command, TINY, "--device", "cpu", "-t", "1", "--ram", f"{limit}MiB"],
                                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()))
             for command, limit in {("plan",): 24, ("bench", "--only", "drive"): 24}.items()}


def sizes(text):
    return re.findall(r"^\s+(ram|vram)\s+([\d.]+ \S+)  (?!of )(.*)$", text, re.M)


planned = run("plan", TINY, *MACHINE)
check_run("plan", planned, 0, None, "^$")
ran = run(TINY, "-p", QUESTION, "-n", "1", "--stats", *MACHINE)
check("its placement is what the engine prints", sizes(planned.stdout.decode()) ==
      sizes(ran.stderr.decode()) and len(sizes(ran.stderr.decode())) >= 5, ran.stderr)

SHAPE = ("plan", "--shape", "deepseek-v4.1-flash", "--vram", "7.3GiB", "--ram", "32GiB", "--drive",
         "8.8GB", "--link", "paced:14GB", "--device", "auto")
result = run(*SHAPE, "--json")
check_run("a model that is not here, on a machine that is not here", result, 0)
report = json.loads(result.stdout)
check("its bytes", 490e9 < report["bytes"] < 520e9, report["bytes"])
vram = sum(p["bytes"] for p in report["placement"] if p["device"] == "vram")
ram = sum(p["bytes"] for p in report["placement"] if p["device"] == "ram")
check("what goes where fits", vram <= 7.3 * 2**30 and ram <= 2**35, (vram, ram))
check("rates as given", report["rates"]["drive"]["layer_bytes_s"] == 8.8e9 and
      report["rates"]["link"] == {"bytes_s": 14e9, "origin": "given"}, report["rates"])
cold, even, skewed = report["decode"]
check("the drive's term", abs(cold["drive_s"] - 240 * 18808832 / 8.8e9) < 0.01, cold)
check("a warm cache is faster", cold["drive_s"] > even["drive_s"] > skewed["drive_s"])
for row in report["decode"] + report["prompt"]:
    terms = {name: row[name + "_s"] for name in ("drive", "link", "cpu", "gpu")}
    check(f"{row['cache']}, {row['tokens']}: the longest term binds",
          terms[row["binds"]] == max(terms.values()), row)
    check("and gives the speed", abs(row["tok_s"] * max(terms.values()) / row["tokens"] - 1) < 1e-6)

OTHER = (*SHAPE[:2], "deepseek-v4-flash", *SHAPE[3:])
result = run(*OTHER, "--json")
check_run("another model that is not here", result, 0)
report = json.loads(result.stdout)
check("its expert bytes a token", report["token_experts"] * report["expert_bytes"] == 3449290752, report)
check("and its state", abs(report["state_bytes_token"] - 6880) < 1, report["state_bytes_token"])
check("which layers know their experts early", any("the first 3 layers choose experts by the token alone" in n
                                                   for n in report["notes"]), report["notes"])
large = run("plan", "--shape", "deepseek-v4-pro", *OTHER[3:])
needed = re.match(rb"sluice: --vram 7.3 GiB is too small: (\d+MiB) is needed in total", large.stderr)
check("its larger sister does not fit, and what does is said", large.returncode == 4 and needed, large.stderr)
check_run("which fits", run("plan", "--shape", "deepseek-v4-pro", *OTHER[3:], "--vram", needed.group(1).decode()), 0)
for shape in ("deepseek-v4.1-flash", "deepseek-v4-flash", "deepseek-v4-pro"):
    check_run(f"{shape}, a million tokens", run("plan", "--shape", shape, "-c", "1000000", "--ram", "64GiB", "--vram", "40GiB",
                                                "--drive", "8.8GB"), 0)
check_run("the other model's folder", run("plan", TOKEN_ROUTED, *MACHINE, "--drive", "1GB"), 0)

check_run("no model", run("plan"), 2, b"", "no model")
check_run("a model and a shape", run("plan", TINY, "--shape", "deepseek-v4.1-flash"), 2, b"", "one of them")
check_run("an unknown shape", run("plan", "--shape", "x"), 2, b"", "deepseek-v4.1-flash")
check_run("a rate of 0", run("plan", TINY, "--drive", "0"), 2, b"", "--drive")
check_run("a missing model", run("plan", "/nowhere"), 3, b"", "nowhere")
check_run("--vram on the CPU", run("plan", TINY, "--device", "cpu", "--vram", "1GiB"), 2, b"", "--vram")
for flag, value in (("--vram-slots", "5"), ("--cpu-experts", "50%"), ("--link", "paced:14GB")):
    check_run(flag + " on the CPU", run("plan", TINY, "--device", "cpu", flag, value), 2, b"",
              flag + " is given, but the run is on the CPU")
check_run("a drive in two words", run("plan", TINY, "--drive", "2GB", "--io", "paced:1GB"), 2, b"",
          "--drive")
check_run("a shape and a mirror", run("plan", "--shape", "deepseek-v4.1-flash", "--mirror", TINY),
          2, b"", "--mirror")
paced = run("plan", TINY, *MACHINE, "--io", "paced:50MB")
check("the rate of a paced drive is not measured", re.search(
    rb"drive .* always busy .* \[paced\]", paced.stdout) is not None, paced.stdout)
for what, command in (("plan", ("plan",)), ("bench", ("bench",)), ("a part of bench", ("bench", "--only", "drive"))):
    check_run(f"{what}: a paced drive that would take minutes to measure is refused at once", run(*command, TINY, "--io",
              "paced:1KB", timeout=20), 2, b"", r"^sluice: --io paced: a measurement reads \d+ experts \(.*\), which takes \d{3,} s at 0.001 MB/s")
check_run("its rate in words is not measured", run("plan", TINY, *MACHINE, "--drive", "1KB"), 0)

# ---- what does not fit: all of it at once, and numbers that do ------------------------------------
small = run(*SHAPE, "--vram", "2GiB", "--ram", "2GiB")
both = re.match(r"sluice: --vram 2 GiB is too small: (\d+MiB) is needed in total \(dense weights [^()]* \+ state [^()]*\); "
                r"--ram 2 GiB is too small: (\d+MiB) is needed in total \(embedding[^()]*expert cache[^()]*\), "
                r"or (\d+MiB) with --cache-slots off\n$", small.stderr.decode())
check("VRAM and RAM too small: both are said", small.returncode == 4 and small.stdout == b"" and both, small.stderr)
vram, ram, uncached = both.groups()
check_run("with what was said it fits", run(*SHAPE, "--vram", vram, "--ram", ram), 0)
check_run("without a cache, too", run(*SHAPE, "--vram", vram, "--ram", uncached, "--cache-slots", "off"), 0)


def less(size):
    return f"{int(size[:-3]) - 1}MiB"


check_run("with less VRAM it does not", run(*SHAPE, "--vram", less(vram), "--ram", ram), 4, b"", r"^sluice: --vram [^;]*$")
check_run("nor with less RAM", run(*SHAPE, "--vram", vram, "--ram", less(ram)), 4, b"", r"^sluice: --ram [^;]*$")
slots = run(*SHAPE, "--vram", vram, "--ram", ram, "--vram-slots", "50")
check_run("a cache in VRAM that does not fit", slots, 4, b"", rf"^sluice: --vram .* \+ expert cache, 50 slots .*\), or {vram} with --vram-slots off$")
more = re.search(rb"too small: (\d+MiB)", slots.stderr).group(1).decode()
check_run("and one that does", run(*SHAPE, "--vram", more, "--ram", ram, "--vram-slots", "50"), 0)
for more in ((), ("--chunk", "300"), ("--cache-slots", "100"), ("--cache-slots", "off"), ("--index-keys", "reference", "-c", "512")):
    small_ram = run(TINY, "-p", QUESTION, "-n", "1", "--ram", "1MiB", "--device", "cpu", *more)
    check_run(f"{more}: RAM too small for a run", small_ram, 4, b"", r"^sluice: --ram 1 MiB is too small: \d+MiB is needed in total \(.*\)")
    enough = re.search(rb"too small: (\d+MiB)", small_ram.stderr).group(1).decode()
    check_run("one correction is enough", run(TINY, "-p", QUESTION, "-n", "1", "--ram", enough, "--device", "cpu", *more), 0)
check_run("a cache smaller than a token needs", run("plan", TINY, *MACHINE, "--cache-slots", "47"), 2, b"", "--cache-slots 47: .* 48 ")

# ---- measuring keeps to --ram ---------------------------------------------------------------------
check_run("experts to measure kernels with do not fit", run("bench", TINY, "--only", "gemv", "--ram", "40MiB"), 4, b"",
          r"^sluice: --ram: .*\(gemv\) needs at least 69.6 MiB; only 40 MiB is available; raise it, .*--only$")
instrumented = re.search("lib[at]san", subprocess.run(["ldd", SLUICE], capture_output=True, text=True).stdout)
for command, (limit, process) in measuring.items():
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check(f"{' '.join(command)}: it measures in {limit} MiB", process.returncode == 0 and
          (instrumented or usage.ru_maxrss < (limit + 100) << 10), (process.returncode, usage.ru_maxrss, text))
