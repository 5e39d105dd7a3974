#!/usr/bin/env python3
"""--warm-start: the experts that a run kept are read by the next one, and it changes speed only."""
import glob
import json
import os
import re
import time

from cli import ANSWER, HOME, QUESTION, TINY, Pty, check, run

ASK = (TINY, "-p", QUESTION, "--temp", "0")


def kept():
    return glob.glob(os.path.join(HOME, ".cache/sluice/experts-*"))


def answer(*more):
    result = run(*ASK, "--json", "--io", "paced:20MB", *more)
    check("the answer is the same " + " ".join(more), result.returncode == 0 and
          json.loads(result.stdout)["text"] == ANSWER.decode().strip(), result)
    return json.loads(result.stdout)["cache"]


check("off: nothing is read", answer("--warm-start", "off")["warmed"] == 0)
check("off: nothing is remembered", not kept())
check("the first run reads nothing", answer()["warmed"] == 0)
check("and remembers what it kept", len(kept()) == 1, kept())
check("no other user can read it", os.stat(kept()[0]).st_mode & 0o77 == 0)
check("the second run reads some of it", answer()["warmed"] > 0)
check("off ignores it", answer("--warm-start", "off")["warmed"] == 0)
check("a run without a cache reads nothing", answer("--cache-slots", "off")["warmed"] == 0)
routes = os.path.join(HOME, "routes")
check("a run that records routes begins cold", answer("--record-routes", routes)["warmed"] == 0)


def prompt_hits(*more):
    """The share of the prompt's experts that were there when the first message came, after a second."""
    chat = Pty(TINY, "--temp", "0", "--prompt-cache", "off", *more)
    chat.expect(r"Type a\s+message")
    time.sleep(1)
    chat.send(QUESTION + "\r")
    chat.expect(r"context \d+/\d+")
    chat.send("/stats\r")
    found = re.search(r"prompt  \d+ requested, ([\d.]+) % hits", chat.expect(r"prompt  \d+ requested, [\d.]+ % hits"))
    chat.expect("> ")
    chat.send("\x04")
    chat.wait()
    return float(found.group(1))


cold = prompt_hits("--warm-start", "off")
warm = prompt_hits()
check("a chat reads while the user types", warm > 95 and cold < 50, (cold, warm))

whole = open(kept()[0], "rb").read()
for damage in (b"", whole[:-7], whole.replace(b" ", b" x", 1), whole.replace(b"\n", b"\n-1 ", 1), whole + b"99999999 ", b"\xff" * 5000,
               b"0" * (2 << 20)):
    with open(kept()[0], "wb") as file:
        file.write(damage)
    check(f"a damaged file of {len(damage)} bytes is ignored", answer()["warmed"] == 0)
check("and replaced", open(kept()[0], "rb").read().split(b"\n")[0] == whole.split(b"\n")[0])
