#!/usr/bin/env python3
"""Style as a test: include direction, lengths of functions, files and lines, unfinished notes.

A file includes only its own room and rooms before it in ROOMS. README.md lists the top folders in the same order.
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.environ.get("SLUICE_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ["io", "kernels", "cache", "engine", "tools"]
# In this order. The single headers are words that every room of the engine shares.
ROOMS = ["io", "io/ring", "io/checkpoint",
         "kernels", "kernels/reference", "kernels/cpu", "kernels/cuda", "kernels/selftest",
         "cache",
         "engine/text", "engine/model", "engine/options.h", "engine/settings.h", "engine/stats.h", "engine/forward",
         "engine/model/deepseek", "engine/model/deepseek_v41", "engine/model/deepseek_v4",
         "engine/load", "engine/snapshot", "engine",
         "engine/prompt_cache", "engine/trace",
         "tools/terminal", "tools/options", "tools/answer", "tools/api", "tools/server", "tools/client", "tools/batch", "tools/bench", "tools/inspect", "tools/plan", "tools",
         "main.cpp", "tools/dev", "tests"]
TOP = set(FOLDERS) | {"tests", "CMakeLists.txt", "CMakePresets.json", "main.cpp", "README.md", "LICENSE"}
SOURCE = (".h", ".cpp", ".cu", ".cuh")
LINE_MAX, FUNCTION_MAX, FILE_MAX = 100, 70, 500
README_WORDS_MAX, README_LINE_MAX = 2000, 120
CONTROL = re.compile(r"^\s*(if|for|while|switch|catch|else|do|return|namespace|class|struct|enum|union|extern|using)\b")
# One way of saying it: ++i where the value is not used, no kNames (casts: -Wold-style-cast).
STYLE = [(re.compile(r"(^\s*|; )[\w.>\[\]-]+(\+\+|--)(;|\))"), "++i and --i, where the value is not used"),
         (re.compile(r"\bk[A-Z][a-z]\w*"), "names of constants are lower_snake")]
WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
problems = []


def files():
    for folder in FOLDERS + ["tests"]:
        for at, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders[:] = [f for f in folders if f not in ("models", "golden", "__pycache__")]
            for name in names:
                yield os.path.relpath(os.path.join(at, name), ROOT)
    yield "main.cpp"


def bare(text):
    """Comments and literals blanked, line breaks kept."""
    pattern = r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    text = re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n"), text, flags=re.M)


def functions(text):
    """(first line, lines) of every function body that is in no other function."""
    stack, begin, inside = [], 0, 0
    for i, c in enumerate(text):
        if c in ";{}":
            head = text[begin:i].strip()
            begin = i + 1
            if c == "{":
                is_function = "(" in head and not CONTROL.match(head) and not re.search(r"=\s*$", head)
                opens = is_function and inside == 0
                stack.append((opens, i))
                inside += opens
            elif c == "}" and stack:
                opened, at = stack.pop()
                if opened:
                    inside -= 1
                    first = text.count("\n", 0, at) + 1
                    yield first, text.count("\n", at, i) + 1


def room(path):
    """The place of a file in ROOMS; -1: it is in no room."""
    if path.startswith("tests/"):
        return ROOMS.index("tests")
    for name in (path, os.path.dirname(path)):
        if name in ROOMS:
            return ROOMS.index(name)
    return -1


def check_source(path, text):
    own = room(path)
    if own < 0:
        problems.append(f"{path}: its folder is not one of the rooms")
    for n, line in enumerate(text.split("\n"), 1):
        if len(line) > LINE_MAX:
            problems.append(f"{path}:{n}: {len(line)} columns, at most {LINE_MAX}")
        include = re.match(r'#include "([^"]+)"', line)
        if include and room(include.group(1)) > own:
            problems.append(f"{path}:{n}: {ROOMS[own]} may not include {include.group(1)}")
        if WORDS.search(line):
            problems.append(f"{path}:{n}: unfinished note")
    if text.count("\n") > FILE_MAX:
        problems.append(f"{path}: {text.count(chr(10))} lines, at most {FILE_MAX}")
    stem = os.path.splitext(os.path.join(ROOT, path))[0]
    paired = os.path.exists(stem + ".h") or os.path.exists(stem + ".cuh")
    stands_alone = path.startswith(("tests/", "tools/dev/")) or path == "main.cpp"
    if path.endswith((".cpp", ".cu")) and not (paired or stands_alone) and not re.search(r"\.(h|cuh)\b", text.split("\n")[0]):
        problems.append(f"{path}:1: no header has its name: the first line says whose source it is")
    code = bare(text)
    for n, line in enumerate(code.split("\n"), 1):
        problems.extend(f"{path}:{n}: {wanted}" for pattern, wanted in STYLE if pattern.search(line))
    for first, lines in functions(code):
        if lines > FUNCTION_MAX and "tests/" not in path:
            problems.append(f"{path}:{first}: function of {lines} lines, at most {FUNCTION_MAX}")


def top_level():
    """Names at the top: those that git tracks; without git (an archive), all but builds."""
    if shutil.which("git") and os.path.exists(os.path.join(ROOT, ".git")):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
        if listed.returncode == 0:
            return {line.split("/")[0] for line in listed.stdout.splitlines()}
    return {name for name in os.listdir(ROOT) if not name.startswith("build")}


def documents():
    """Every .md file of the project, relative to ROOT."""
    for at, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f == ".github" or not f.startswith((".", "build"))]
        for name in names:
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(at, name), ROOT)


def check_links(path):
    """Relative links lead to something in the project."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = re.sub(r"```.*?```|`[^`]*`", "", f.read(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
            problems.append(f"{path}: a link to {target}, which does not exist")


def check_readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        text = f.read()
    if len(text.split()) > README_WORDS_MAX:
        problems.append(f"README.md: {len(text.split())} words, at most {README_WORDS_MAX}")
    for n, line in enumerate(text.split("\n"), 1):
        if len(line) > README_LINE_MAX:
            problems.append(f"README.md:{n}: {len(line)} columns, at most {README_LINE_MAX}")


def main():
    count = 0
    for path in files():
        if path.endswith(SOURCE):
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                check_source(path, f.read())
            count += 1
    check_readme()
    for path in documents():
        check_links(path)
    for name in top_level():
        if name not in TOP and not name.startswith("."):
            problems.append(f"{name}: not one of the top-level names")
    print(f"{count} source files read")
    if count < 50:
        problems.append("too few source files found: is the path right?")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
