"""Files and folders that may not be read: one line with the path and the cause, exit 5, on the way anywhere."""
import os
import resource
import shutil
import tempfile

import cli
from cli import QUESTION, SOURCE, TINY, check, check_run, environment, run

if os.getuid() != 0:
    print("skip  only root can become somebody who may not read")
    raise SystemExit(0)
work = tempfile.TemporaryDirectory(prefix="sluice-closed-")
os.chmod(work.name, 0o755)
os.chmod(cli.HOME, 0o755)
SHARD = "model-00005-of-00012.safetensors"
ASK = ("-p", QUESTION, "-n", "1")


def nobody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def ask(*arguments, **more):
    return run(*arguments, preexec_fn=nobody, **more)


if ask("inspect", TINY).returncode != 0:
    print("skip  the source folder itself is closed to others")
    raise SystemExit(0)


def path(*parts):
    return os.path.join(work.name, *parts)


def closed(what, named, *arguments, **more):
    result = ask(*arguments, **more)
    check_run(what, result, 5, b"", r"Permission denied \(EACCES\)")
    text = result.stderr.decode()
    check(what + ": one line that names it and offers no download", text.count("\n") == 1 and named in text and
          "hf download" not in text and "not there" not in text, text)


shutil.copytree(TINY, path("model"))
for mode in (0, 0o444):
    os.chmod(path("model"), mode)
    for command, more in ((), ASK), (("inspect",), ()), (("plan",), ()):
        closed(f"{command}: a folder of mode {mode:o}", path("model"), *command, path("model"), *more)
    closed(f"a mirror of mode {mode:o}", path("model"), TINY, *ASK, "--mirror", path("model"))
    closed(f"a further folder of mode {mode:o}", path("model"), "-m", TINY, "-m", path("model"), *ASK)
os.chmod(path("model"), 0o111)
check_run("a folder that may be entered but not listed will do", ask(path("model"), *ASK), 0)
os.chmod(path("model"), 0o755)
os.mkdir(path("outer"))
os.symlink(path("model"), path("outer", "inner"))
os.chmod(path("outer"), 0o644)
closed("a folder inside a closed one", f"cannot enter the folder {path('outer')}", path("outer", "inner"), *ASK)
closed("the same as a mirror", path("outer"), TINY, *ASK, "--mirror", path("outer", "inner"))

for name in ("config.json", "tokenizer.json", "model.safetensors.index.json", SHARD):
    os.chmod(path("model", name), 0)
    closed(name, path("model", name), path("model"), *ASK)
    if name == SHARD:
        closed("the mirror's shard", path("model", name), TINY, *ASK, "--mirror", path("model"))
        closed("the shard, in inspect --check", path("model", name), "inspect", path("model"), "--check")
    os.chmod(path("model", name), 0o644)
os.mkdir(path("blobs"))
for name in ("config.json", SHARD):
    os.rename(path("model", name), path("blobs", name))
    os.symlink(path("blobs", name), path("model", name))
    os.chmod(path("blobs"), 0)
    closed(f"{name}: a link into a closed folder", f"cannot enter the folder {path('blobs')}", path("model"), *ASK)
    if name == SHARD:
        closed("such a link in a mirror", path("blobs"), TINY, *ASK, "--mirror", path("model"))
    os.chmod(path("blobs"), 0o755)
    os.unlink(path("model", name))
    os.rename(path("blobs", name), path("model", name))

HUB = ("hub", "models--org--tiny")
os.makedirs(path(*HUB, "snapshots"))
os.makedirs(path(*HUB, "refs"))
os.rename(path("model"), path(*HUB, "snapshots", "abc"))
with open(path(*HUB, "refs", "main"), "w") as file:
    file.write("abc")
hub = environment(HF_HUB_CACHE=path("hub"))
check_run("a Hugging Face id", ask("org/tiny", *ASK, env=hub), 0)
for parts in ((), ("snapshots",), ("snapshots", "abc"), ("refs",), ("refs", "main")):
    place = path(*HUB, *parts)
    mode = os.stat(place).st_mode
    os.chmod(place, 0)
    closed("a Hugging Face id whose " + "/".join(parts or HUB) + " is closed", place, "org/tiny", *ASK, env=hub)
    os.chmod(place, mode)
os.chmod(path("hub"), 0)
closed("a closed hub cache", path("hub"), "org/tiny", *ASK, env=hub)

with open(path("secret"), "w") as file:
    file.write("[]")
os.chmod(path("secret"), 0)
os.mkdir(path("traces"))
shutil.copy(os.path.join(SOURCE, "tests/golden/dsv41-tiny-00.json"), path("traces", "t.json"))
os.chmod(path("traces"), 0)
for what, *arguments in (("-f", TINY, "-f"), ("a system prompt", TINY, *ASK, "--system-prompt-file"),
                         ("messages", "record", TINY, "-o", path("o.json"), "--messages"),
                         ("a config file", TINY, *ASK, "--config"), ("routes", "simulate"),
                         ("a trace", TINY, "--verify")):
    output = arguments[:1] == ["record"]
    if output:
        os.chmod(work.name, 0o777)
    if what != "routes":
        closed(what, path("secret"), *arguments, path("secret"))
    else:
        check_run(what, ask(*arguments, path("secret")), 5, b"", "secret: Permission denied")
    os.chmod(work.name, 0o755)
closed("a hash file", path("secret"), "inspect", TINY, "--check", "--hashes", path("secret"))
closed("a hash file in a closed folder", path("traces"), "inspect", TINY, "--check", "--hashes", path("traces", "h"))
for flag, *arguments in (("--profile", TINY, *ASK), ("--record-routes", TINY, *ASK, "--io", "threads"), ("-o", "record", TINY, *ASK)):
    closed(flag + " in a closed folder", path("traces", "out"), *arguments, flag, path("traces", "out"))
    closed(flag + ", a closed file", path("secret"), *arguments, flag, path("secret"))
closed("a folder of traces", path("traces"), TINY, "--verify", path("traces"))
closed("a trace inside", path("traces"), TINY, "--verify", path("traces", "t.json"))
closed("a prompt inside", path("traces"), TINY, "-f", path("traces", "p"))
home = path("home")
os.makedirs(path("home", ".config", "sluice"))
with open(path("home", ".config", "sluice", "config.toml"), "w") as file:
    file.write("temp = 0\n")
os.chmod(path("home", ".config", "sluice", "config.toml"), 0)
closed("the user's config file", path("home"), TINY, *ASK, env=environment(HOME=home))
os.chmod(path("home", ".config", "sluice"), 0)
closed("the folder it is in", path("home", ".config", "sluice"), TINY, *ASK, env=environment(HOME=home))
os.chmod(path("home"), 0)
check_run("another's home has no settings for me", ask(TINY, *ASK, env=environment(HOME=home)), 0)


# ---- a limit on threads --------------------------------------------------------------------------
def alone(threads):
    """A user without other processes, who may have so many threads."""
    resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
    os.setgroups([])
    os.setgid(65534)
    os.setuid(100000 + os.getpid())


for threads, io in ((1, "uring"), (2, "threads"), (3, "threads"), (5, "threads")):
    few = run(TINY, *ASK, "-t", "2", "--device", "cpu", "--io", io, preexec_fn=lambda: alone(threads))
    check(f"{threads} threads and --io {io}: it runs, or it is the machine's fault, in one line",
          (few.returncode == 0 and threads > 3) or few.returncode == 4 and few.stdout == b"" and few.stderr.count(b"\n") == 1 and b"thread" in few.stderr,
          (few.returncode, few.stderr))
