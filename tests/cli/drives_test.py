"""What the report says of each drive: of a mirror, and of one that fails while the model is loaded."""
import json
import os
import re
import shutil
import tempfile

from cli import ANSWER, QUESTION, TINY, check, check_run, run, run_cutting

work = tempfile.TemporaryDirectory(prefix="sluice-drives-")
mirror = os.path.join(work.name, "mirror")
os.mkdir(mirror)
shards = sorted(name for name in os.listdir(TINY) if name.endswith(".safetensors"))
for name in shards:
    shutil.copy(os.path.join(TINY, name), mirror)
ASK = (TINY, "-p", QUESTION, "--temp", "0", "--cache-slots", "off")

one = json.loads(run(*ASK, "--json").stdout)["io"]
check("one drive: its folder and all bytes", [(d["folder"], d["bytes"], d["expert_share"], d["state"])
      for d in one["drives"]] == [(TINY, one["bytes"], 1, "in use")], one)

result = run(*ASK, "--mirror", mirror, "--io", "paced:400MB", "--json")
check_run("two drives", result, 0)
both = json.loads(result.stdout)["io"]
check("each by its folder", [d["folder"] for d in both["drives"]] == [TINY, mirror], both)
check("bytes are those of the run", sum(d["bytes"] for d in both["drives"]) == both["bytes"] and
      sum(d["reads"] for d in both["drives"]) == both["reads"], both)
check("shares are of all expert bytes", abs(sum(d["expert_share"] for d in both["drives"]) - 1) < 1e-9 and
      sum(d["expert_bytes"] for d in both["drives"]) >= both["expert_bytes"], both)
check("each at about its pace while busy", all(d["bytes"] == 0 or 0 < d["gb_s"] < 0.41 for d in both["drives"]), both)
text = run(*ASK, "--mirror", mirror, "--stats").stderr.decode()
check("--stats has a line for each", all(re.search(
    rf"drive +{re.escape(folder)}: .* GB/s while busy, (none|[\d.]+ %) of expert bytes; (in use|slow: )", text)
    for folder in (TINY, mirror)), text)

# A mirror on the same drive: a line says so, and it is no second drive, except where one is played.
here = os.path.join(work.name, "here")
shutil.copytree(TINY, here)
BESIDE = (here, "-p", "x", "-n", "1", "--mirror", mirror, "-v")
reported = f"mirror {mirror} is on a drive that already has these shards".encode()
same = run(*BESIDE)
check("a mirror on the same drive is reported once", same.stderr.count(reported) == 1, same.stderr)
check("and not counted", b"2 drives" not in same.stderr, same.stderr)
check("also without -v, and not with --quiet", reported in run(*BESIDE[:-1]).stderr and
      reported not in run(*BESIDE[:-1], "--quiet").stderr)
played = run(*BESIDE, "--io", "paced:400MB")
check("two simulated drives count as two", reported not in played.stderr and b"2 drives" in played.stderr, played.stderr)
shown = run("inspect", here, "--mirror", mirror).stdout
check("inspect notes it", f"{len(shards)} on a drive that has them already".encode() in shown, shown)

# A drive that fails: its files are cut while the dense weights are read.
result = run_cutting(mirror, *ASK, "--mirror", mirror, "--io", "paced:4MB", "--json")
check("a drive that fails takes nothing away", result.returncode == 0 and json.loads(result.stdout)["text"] + "\n" ==
      ANSWER.decode(), (result.returncode, result.stderr))
first, second = json.loads(result.stdout)["io"]["drives"]
check("it is left out, with the cause", second["state"] == "left out" and "ends early" in second["cause"] and
      mirror in second["cause"] and second["expert_bytes"] == 0, second)
check("the other has it all", first["state"] == "in use" and first["expert_share"] == 1, first)
