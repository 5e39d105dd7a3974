"""make_routes: generated routes have the published figures, and the same seed gives the same file."""
import json
import os
import subprocess

from cli import check, run, temp_folder

MAKE = os.environ["MAKE_ROUTES"]
home = temp_folder("sluice-routes-")


def make(*arguments):
    return subprocess.run([MAKE, *arguments], capture_output=True, text=True, timeout=60)


def routes(name, *flags):
    path = os.path.join(home, name)
    done = make(path, "--layers", "3", "--tokens", "700", *flags)
    check(f"{name} is written", done.returncode == 0, done.stderr)
    with open(path, "rb") as file:
        return path, file.read()


# Eight of the 40 layers stand for all of them, within the tolerances of all.
checked = make("--check", "--layers", "8")
check("eight layers have the published figures", checked.returncode == 0, checked.stdout)
check("every row is printed", len(checked.stdout.splitlines()) == 1 + 8 * 4 + 2 + 3 * 8 + 2 + 1, checked.stdout)
checked = make("--check", "--layers", "1")
check("one layer alone does not stand for the others", checked.returncode == 1 and "OUTSIDE" in checked.stdout, checked.stdout)

path, prompts = routes("prompts", "--family", "prompts")
check("the same seed, the same routes", routes("again", "--family", "prompts")[1] == prompts)
check("another seed, others", routes("other", "--family", "prompts", "--seed", "2")[1] != prompts)
check("no family is like another", len({routes(name, "--family", name)[1][100:] for name in ("chat", "mixed", "short", "code")}) == 4)
replay = json.loads(run("simulate", path, "--cache-slots", "200", "--cache-policy", "lru", "--json").stdout)[0]
cache = replay["runs"][0]["cache"]
check("simulate reads them", replay["tokens"] == 700 and cache["hits"] > 0 and cache["sweep_asked"] > 0, replay)
check("an unknown family is refused", make(path, "--family", "poems").returncode != 0)
