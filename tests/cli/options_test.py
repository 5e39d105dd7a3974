"""Help, its two parts, the list of options in tools/OPTIONS.md, and errors about mistyped words."""
import os

from cli import SOURCE, TINY, check, check_run, run

COMMANDS = ("record", "inspect", "simulate", "bench", "plan", "selftest")

usual = run("--help")
check_run("--help", usual, 0, None, "^$")
lines = usual.stdout.decode().splitlines()
check("it fits two screens of 50 lines and 100 columns", len(lines) <= 100 and max(map(len, lines)) <= 100, len(lines))
check("sluice help is the same", run("help").stdout == usual.stdout)
check("so is -h, whatever else is there", run(TINY, "--nosuch", "-h").stdout == usual.stdout)
for command in COMMANDS:
    shown = run("help", command)
    check_run(f"help {command}", shown, 0, None, "^$")
    check(f"{command} --help is the same", run(command, "--help").stdout == shown.stdout and
          shown.stdout.startswith(b"Usage: sluice " + command.encode()))
    check(f"--help lists {command}", f"sluice {command}" in usual.stdout.decode())
advanced = run("--help-advanced")
check_run("--help-advanced", advanced, 0, None, "^$")
check("has what --help has not", b"--io-depth" in advanced.stdout and b"--io-depth" not in usual.stdout)

check("help plan lists the known shapes", all(name in " ".join(run("help", "plan").stdout.decode().split()) for name in (
    "without its files: deepseek-v4.1-flash,", " deepseek-v4-flash,", " deepseek-v4-pro")))
with open(os.path.join(SOURCE, "tools/OPTIONS.md"), "rb") as file:
    check("tools/OPTIONS.md is current; else: sluice --help-markdown > tools/OPTIONS.md",
          file.read() == run("--help-markdown").stdout)

for what, arguments, said in (
        ("a mistyped flag", (TINY, "--temprature", "0"), "unknown flag --temprature; did you mean --temperature"),
        ("a flag of another program", (TINY, "-ngl", "99"), "unknown flag -ngl: --vram SIZE"),
        ("the former name of --profile", (TINY, "-p", "x", "--trace", "f"), "unknown flag --trace: --profile FILE"),
        ("a flag of another command", (TINY, "--only", "gemv"), "--only: sluice does not take it; sluice bench does"),
        ("a mistyped command", ("inspct",), 'unknown command "inspct".*did you mean inspect'),
        ("an unknown command", ("nosuch",), 'unknown command "nosuch", and no such model'),
        ("help for one", ("help", "nosuch"), 'unknown command "nosuch"'),
        ("a model where none is taken", ("selftest", TINY), "unexpected .*: sluice selftest takes no model")):
    for stdin in (b"", None):
        result = run(*arguments, stdin=stdin)
        check_run(what, result, 2, b"", f"^sluice: {said}.*\\(see sluice .*--help\\)\n$")
