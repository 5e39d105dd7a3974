"""Recorded routes: what `sluice simulate` says of a cache is what the run with that cache counts, to the last hit."""
import json
import os
import tempfile

from cli import TINY, check, run

home = tempfile.TemporaryDirectory(prefix="sluice-simulate-")
COUNTERS = ("asked", "hits", "misses", "evictions", "sweep_asked", "sweep_hits", "bytes_demand")


def recorded(name, *flags):
    """The route file's bytes and the counters of one run."""
    path = os.path.join(home.name, name)
    result = run(TINY, "-p", "What is a canal lock?", "-n", "60", "--ignore-eos", "--temp", "1", "--seed", "3", "--prefetch", "off",
                 "--device", "cpu", "-t", "1", "--record-routes", path, "--json", "--quiet", *flags)
    check(f"{name}: recorded", result.returncode == 0, result.stderr)
    return open(path, "rb").read(), json.loads(result.stdout)["cache"]


routes, _ = recorded("first", "--cache-slots", "off")
runs = json.loads(run("simulate", os.path.join(home.name, "first"), "--cache-slots", "48", "--json").stdout)[0]["runs"]
policies = [r["policy"] for r in runs if r["policy"] != "belady"]
check("simulate knows the policies", "aging-lru" in policies and len(policies) + 1 == len(runs), policies)
for policy in policies:
    for slots in ("48", "200"):
        again, live = recorded(f"{policy}-{slots}", "--cache-policy", policy, "--cache-slots", slots, "--chunk", "4")
        check("the cache changes no route", again[-5000:] == routes[-5000:] and len(again) == len(routes))
        result = run("simulate", os.path.join(home.name, f"{policy}-{slots}"), "--cache-policy", policy + ",belady",
                     "--cache-slots", slots, "--json")
        replay, best = [r["cache"] for r in json.loads(result.stdout)[0]["runs"]]
        check("replay and run agree to the last hit", all(live[c] == replay[c] for c in COUNTERS), (live, replay))
        check("and belady is never beaten", 0 < replay["hits"] <= best["hits"], (replay, best))
