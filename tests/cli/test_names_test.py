#!/usr/bin/env python3
"""CTest runs what the test programs list: every doctest case once, by its whole name.

CTest's discovery passes names through CMake lists, which split at ';': such a case would match no filter.
"""
import json
import os
import re
import subprocess
import sys

BUILD = os.environ["SLUICE_BUILD_DIR"]


def listed(program):
    text = subprocess.run([program, "--list-test-cases"], capture_output=True, text=True, check=True).stdout
    return [line for line in text.splitlines() if line and not line.startswith(("[doctest]", "==="))]


def unmatched_filters(names):
    """What a preset leaves out must exist: a test that was renamed would run again where it takes minutes."""
    with open(os.path.join(os.environ["SLUICE_SOURCE_DIR"], "CMakePresets.json"), encoding="utf-8") as file:
        presets = json.load(file)["testPresets"]
    for preset in presets:
        excluded = preset.get("filter", {}).get("exclude", {}).get("name", "")
        for part in filter(None, excluded.split("|")):
            if not any(re.search(part, name) for name in names):
                yield f"CMakePresets.json: preset {preset['name']} leaves out \"{part}\", but no test has such a name"


def main():
    shown = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    registered = {}
    for test in json.loads(shown.stdout)["tests"]:
        command = test.get("command", [])
        if command and os.path.basename(command[0]).startswith("tests_"):
            name = next(a for a in command if a.startswith("--test-case="))[len("--test-case="):]
            registered.setdefault(command[0], []).append(re.sub(r"\\(.)", r"\1", name))
    problems = list(unmatched_filters([test["name"] for test in json.loads(shown.stdout)["tests"]]))
    for program, names in sorted(registered.items()):
        cases = listed(program)
        print(f"{os.path.basename(program)}: {len(cases)} cases listed, {len(names)} run by CTest")
        problems += [f"{program}: a ';' in the name: {name}" for name in cases if ";" in name]
        problems += [f"{program}: not run by CTest: {name}" for name in sorted(set(cases) - set(names))]
        problems += [f"{program}: run by CTest but unknown: {name}" for name in sorted(set(names) - set(cases))]
        problems += [f"{program}: the name occurs twice: {name}" for name in sorted({n for n in cases if cases.count(n) > 1})]
        none = subprocess.run([program, "--test-case=no case has this name"], capture_output=True, text=True)
        if none.returncode == 0:
            problems.append(f"{program}: a filter that matches nothing passes")
    if len(registered) < 5:
        problems.append(f"only {len(registered)} test programs found")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
