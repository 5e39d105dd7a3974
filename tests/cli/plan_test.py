"""sluice plan: what the engine then does, with and without a model, and what it refuses."""
import json
import re

from cli import QUESTION, TINY, check, check_run, run

MACHINE = ("--ram", "1GiB", "--device", "cpu", "-c", "4096")


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
check("the rate of a played drive is not measured", re.search(
    rb"drive .* kept busy \(paced\)", paced.stdout) is not None, paced.stdout)
for what, command in (("plan", ("plan",)), ("bench", ("bench",)), ("a part of bench", ("bench", "--only", "drive"))):
    check_run(f"{what}: a played drive that would take minutes to measure is refused at once", run(*command, TINY, "--io",
              "paced:1KB", timeout=20), 2, b"", r"^sluice: --io paced: to measure, \d+ experts \(.*\) are read, which takes \d{3,} s at 0.001 MB/s")
check_run("its rate in words is not measured", run("plan", TINY, *MACHINE, "--drive", "1KB"), 0)
check_run("a card too small", run(*SHAPE, "--vram", "2GiB"), 4, b"", "vram needed")
check_run("RAM too small", run(*SHAPE, "--ram", "2GiB"), 4, b"", "ram needed")
