"""Kills a program that saves snapshots, at random moments: no complete file may be lost, none may be half there.

    SAVE_SNAPSHOTS=build/save_snapshots python3 tests/dev/kill_saves.py [TIMES [SEED]]

Each round starts the program on the folder that the rounds before left behind, waits until it saves, kills it
(SIGKILL), and restores every file in the folder. Every tenth round kills two of them that share the folder.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["SAVE_SNAPSHOTS"]
MODEL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models/dsv41-rand-a")
MOMENT = 0.08  # seconds in which several saves happen


def start(folder):
    process = subprocess.Popen([PROGRAM, MODEL, folder], stdout=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    if not first.startswith("one "):
        sys.exit(f"the program did not begin to save: {first!r}")
    return process, first


def check(folder):
    """What is complete in the folder; ends the script if a file is damaged."""
    result = subprocess.run([PROGRAM, MODEL, folder, "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"FAIL: {result.stderr}")
    return result.stdout.splitlines()


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1_000_000
    rng = random.Random(seed)
    saved = unfinished = half_saved = 0
    with tempfile.TemporaryDirectory(prefix="sluice-kills-") as folder:
        for number in range(times):
            together = [start(folder) for _ in range(2 if number % 10 == 9 else 1)]
            time.sleep(rng.random() * MOMENT)
            for process, _ in together:
                process.send_signal(signal.SIGKILL)
            announced = set()
            positions = []
            for process, first in together:
                lines = [first, *process.stdout.readlines()]  # the last one may be cut
                process.wait()
                lines = [line.strip() for line in lines if line.endswith("\n")]
                announced.update(line for line in lines if line.startswith("prompts "))
                positions.append([int(line[4:]) for line in lines if line.startswith("one ")])
            there = check(folder)
            missing = announced.difference(there)
            if missing:
                sys.exit(f"FAIL: round {number}, seed {seed}: complete files are lost: {missing}")
            ones = [int(line[4:]) for line in there if line.startswith("one ")]
            # The last one announced, or the one that was complete but not announced yet.
            allowed = {p for own in positions for p in (own[-1], own[-1] + 1)}
            if len(together) == 1 and (len(ones) != 1 or ones[0] not in allowed):
                sys.exit(f"FAIL: round {number}, seed {seed}: the file is of {ones}, announced {positions}")
            saved += len(announced)
            left = [line for line in there if line.startswith("unfinished ")]
            half_saved += len(left) > unfinished
            unfinished = len(left)
            if rng.random() < 0.2:  # begin again with an empty folder
                for at, _, names in os.walk(folder):
                    for name in names:
                        os.unlink(os.path.join(at, name))
                unfinished = 0
    print(f"{times} kills, seed {seed}: {saved} announced files, none lost, none damaged; {half_saved} kills left an "
          "unfinished one")
    if times >= 20 and half_saved == 0:
        sys.exit("FAIL: no kill came in the middle of a save")


main()
