"""Prompts that are not read twice: by the next answer, by the next process, and by --session."""
import json
import os
import signal
import stat
import subprocess
import threading

from cli import QUESTION, SLUICE, TINY, Pty, check, check_run, environment, run, temp_folder

FOLDER = temp_folder("sluice-prompts-")
ONE = ("-t", "1")  # other programs may want the cores
GREEDY = (*ONE, "--temp", "0", "-n", "24")
TEXT = " ".join(f"Line {i} of the report says that the gate {'opens' if i % 3 else 'closes'}." for i in range(12))


def place(name):
    return os.path.join(FOLDER, name)


def answer(prompt, *more, code=0):
    result = run(TINY, "-p", prompt, "--json", *more)
    check(f"exit code {code}", result.returncode == code, result)
    return json.loads(result.stdout)


def kept(report):
    details = report["usage"]["prompt_tokens_details"]
    check("both members say the same", details["cached_tokens"] == report["usage"]["cached_tokens"])
    return details["cached_tokens"], details["cached_by"]


def files(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


# ---- answers of several processes ----------------------------------------------------------------
for sampling in (GREEDY, (*ONE, "--temp", "1", "--seed", "5", "-n", "24", "--top-k", "50")):
    folder = place(f"answers-{len(sampling)}")
    plain = answer(TEXT, *sampling)
    check("one answer keeps nothing unless asked", kept(plain) == (0, "nothing"))
    first = answer(TEXT, *sampling, "--prompt-cache", folder)
    second = answer(TEXT, *sampling, "--prompt-cache", folder)
    check("the first run has nothing to go by", kept(first) == (0, "nothing"))
    check("the second reads one token", kept(second) == (plain["usage"]["prompt_tokens"] - 1, "disk"),
          kept(second))
    check("all three say the same", plain["text"] == first["text"] == second["text"], (plain, first, second))
    edited = TEXT + " And what closes?"
    other = answer(edited, *sampling, "--prompt-cache", folder)
    check("another prompt is answered as without the cache",
          other["text"] == answer(edited, *sampling)["text"])
modes = {stat.S_IMODE(os.stat(path).st_mode) for path in files(folder)}
check("files are the user's own", modes == {0o600}, modes)
check("so is the folder", stat.S_IMODE(os.stat(folder).st_mode) == 0o700)

system = ("--system-prompt", TEXT)
folder = place("system")
answer("What opens?", *system, *GREEDY, "--prompt-cache", folder)
other = answer("Does it close?", *system, *GREEDY, "--prompt-cache", folder)
check("an edited last message costs only the tail", other["usage"]["prompt_tokens"] - kept(other)[0] < 20, other["usage"])
check("and is answered as without", other["text"] == answer("Does it close?", *system, *GREEDY)["text"])
different = answer("Does it close?", *system, *GREEDY, "--prompt-cache", folder, "--chunk", "16", "-t", "2")
check("other chunks and threads may use it", kept(different)[1] == "disk" and different["text"] == other["text"])
keys = answer("Does it close?", *system, *GREEDY, "--prompt-cache", folder, "--index-keys", "reference")
check("the reference's index keys have no cache", kept(keys) == (0, "nothing"))

# ---- what goes wrong ------------------------------------------------------------------------------
damaged = files(folder)
for path in damaged:
    with open(path, "r+b") as file:
        file.seek(-8, os.SEEK_END)
        last = file.read(1)
        file.seek(-8, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
result = run(TINY, "-p", "Does it close?", *system, *GREEDY, "--prompt-cache", folder, "--json")
check("a damaged file is warned of", result.returncode == 0 and b"removed" in result.stderr, result)
check("and not used", kept(json.loads(result.stdout))[0] == 0 and json.loads(result.stdout)["text"] == other["text"])
result = run(TINY, "-p", QUESTION, *GREEDY, "--prompt-cache", "/proc/prompts")
check_run("a folder that cannot be made is one warning", result, 0, stderr=r"^sluice: warning: --prompt-cache /proc/prompts")
check("not more", result.stderr.count(b"warning") == 1, result.stderr)
small = place("small")
result = run(TINY, "-p", QUESTION, *GREEDY, "--prompt-cache", small + ":1KiB")
check("a limit below one snapshot is a warning", result.returncode == 0 and b"smaller than a snapshot" in result.stderr)
check("and writes nothing", files(small) == [])
for i in range(6):
    answer(f"{i} {TEXT}", *GREEDY, "--prompt-cache", small + ":300KiB")
    check("the limit holds", sum(map(os.path.getsize, files(small))) <= 300 * 1024)
check("up to it files stay", len(files(small)) > 1)
colon = place("a:b:c")
answer(QUESTION, *GREEDY, "--prompt-cache", colon)
check("a colon may be part of a name", len(files(colon)) == 2)
for wrong in ("", "x:0GiB"):
    check_run(f"--prompt-cache {wrong!r} is wrong usage", run(TINY, "-p", "x", "--prompt-cache", wrong), 2, b"")

# Two processes at once on one folder.
folder = place("shared")
results = []
threads = [threading.Thread(target=lambda n=n: results.append(answer(TEXT, *GREEDY, "--prompt-cache", folder)["text"]))
           for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
check("several processes share a folder", len(results) == 4 and len(set(results)) == 1)
check("and leave complete files only", len(files(folder)) == 2 and all(f.endswith(".snapshot") for f in files(folder)))


def asked(chat):
    """The statistics of the answer that comes."""
    chat.expect(r"context \d+/\d+.*?> ")
    chat.send("/stats\r")
    return " ".join(chat.expect(r"read  .*?> ").split())


# ---- a chat ---------------------------------------------------------------------------------------
env = environment(XDG_CACHE_HOME=place("cache"))
chat = Pty(TINY, *GREEDY, env=env)
chat.expect("> ")
chat.send(QUESTION + "\r")
asked(chat)
chat.send("Why?\r")
seen = asked(chat)
check("a second turn goes on from the session", "more from the session)" in seen, seen)
chat.send("/clear\r")
chat.expect("> ")
chat.send(QUESTION + "\r")
seen = asked(chat)
check("after /clear, memory has it", "prompt 1 token (10 more from memory)" in seen.replace("\r\n", " "), seen)
chat.send("/bye\r")
check("the chat ends", chat.wait() == 0)
check("its states are in the cache folder", len(files(place("cache/sluice/prompts"))) >= 3)
chat = Pty(TINY, *GREEDY, env=env)
chat.expect("> ")
chat.send(QUESTION + "\r")
seen = asked(chat)
check("a new chat has it from disk", "from disk" in seen, seen)
chat.send("/bye\r")
chat.wait()
env = environment(XDG_CACHE_HOME=place("off"))
chat = Pty(TINY, *GREEDY, "--prompt-cache", "off", env=env)
chat.expect("> ")
chat.send(QUESTION + "\r")
asked(chat)
chat.send("/bye\r")
chat.wait()
check("off is off", not os.path.exists(place("off/sluice/prompts")))

# ---- --session ------------------------------------------------------------------------------------
talk = place("talk.json")
env = environment(XDG_CACHE_HOME=place("sessions"))
QUESTIONS = (QUESTION, "And of France?", "Why not?")


def turn(question, *more, path=talk):
    return run(TINY, "-p", question, "--session", path, "--json", *ONE, "--seed", "3", "-n", "30", *more, env=env)


texts = []
for number, question in enumerate(QUESTIONS):
    result = turn(question)
    check("a turn", result.returncode == 0, result)
    report = json.loads(result.stdout)
    texts.append(report["text"])
    check("only the new part is read", number == 0 or kept(report)[1] == "disk", report["usage"])
with open(talk) as file:
    messages = json.load(file)["messages"]
check("the file has every question and answer",
      [m["content"] for m in messages] == [t for pair in zip(QUESTIONS, texts) for t in pair], messages)
check("it is the user's own", stat.S_IMODE(os.stat(talk).st_mode) == 0o600)
without = [json.loads(turn(q, "--prompt-cache", "off", path=place("other.json")).stdout)["text"] for q in QUESTIONS]
check("without the cache the answers are the same", without == texts, (without, texts))
chat = Pty(TINY, *ONE, "--seed", "3", "-n", "30", "--prompt-cache", "off", "--quiet", env=env, stdout=subprocess.PIPE)
for question in QUESTIONS:
    chat.expect("> ")
    chat.send(question + "\r")
chat.expect("> ")
chat.send("/save " + place("chat.json") + "\r")
chat.expect("saved 6")
chat.send("/bye\r")
chat.wait()
with open(place("chat.json")) as file:
    check("a chat that never stopped says the same", json.load(file)["messages"] == messages)

before = open(talk, "rb").read()
check_run("a prompt that does not fit leaves the file", turn(TEXT * 40, "-c", "128"), 2, b"")
check("as it was", open(talk, "rb").read() == before)
process = subprocess.Popen([SLUICE, TINY, *ONE, "-p", "Go on", "--session", talk, "--ignore-eos", "-n", "5000"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=env)
process.stdout.read(1)
check_run("a second run on the file is refused", turn("Me too"), 5, b"", r"another run")
process.send_signal(signal.SIGKILL)
process.wait()
check("a killed run leaves the file as it was", open(talk, "rb").read() == before)
check("and does not lock it", turn("Me too").returncode == 0)
notes = place("notes")
with open(notes, "w") as file:
    file.write("my notes")
check_run("another file is refused", turn("Hello", path=notes), 2, b"", "stays as it is")
check("and kept", open(notes).read() == "my notes")
check_run("--session needs a prompt", run(TINY, "--session", talk), 2, b"", "prompt is empty")
