"""A model of another family than the demonstration's, with random weights: every command answers, keeps and repeats as with that one."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess

from cli import QUESTION, SLUICE, TOKEN_ROUTED, Pty, check, check_run, environment, run, temp_folder

work = temp_folder("sluice-family-")
CPU = ("--device", "cpu", "-t", "1")
GREEDY = (*CPU, "--temp", "0", "-n", "8", "--ignore-eos", "--loop-guard", "0")


def path(name):
    return os.path.join(work, name)


def answer(*arguments, model=TOKEN_ROUTED, question=QUESTION):
    result = run(model, "-p", question, *GREEDY, "--json", *arguments)
    check(f"{' '.join(map(os.path.basename, arguments)) or 'a question'}: it answers", result.returncode == 0, result.stderr)
    return json.loads(result.stdout)


def prompt_tokens(*arguments, **more):
    return answer(*arguments, **more)["usage"]["prompt_tokens"]


plain = answer()
check("always alike", answer()["text"] == plain["text"] == answer("--chunk", "1", "--cache-slots", "18", "--prefetch", "2")["text"])

# ---- efforts: the words that the encoder in its folder knows, each with its text -------------------
THINKS = ("--reasoning", "on")
usual, low, high, most = (prompt_tokens(*THINKS, *effort) for effort in
                          ((), *(("--reasoning-effort", word) for word in ("low", "high", "max"))))
check("low and no effort have no text, high has one, max a longer one", usual == low < high < most, (usual, low, high, most))
check("a number is the next word", prompt_tokens(*THINKS, "--reasoning-effort", "51") == high)
first = path("first")
shutil.copytree(TOKEN_ROUTED, first)
encoder = os.path.join(first, "encoding/encoding_dsv4.py")
with open(encoder) as file:
    text = file.read()
with open(encoder, "w") as file:
    file.write("REASONING_EFFORT_MAX = 'Think very hard.\\n\\n'\n")
check("an earlier release has a text for max alone", prompt_tokens(*THINKS, "--reasoning-effort", "high", model=first) ==
      usual < prompt_tokens(*THINKS, "--reasoning-effort", "max", model=first))
check_run("and does not know low", run(first, "-p", QUESTION, *GREEDY, "--reasoning-effort", "low"), 2, b"",
          "reasoning effort low is unknown to this release of the model, which knows high, max;")
shutil.rmtree(os.path.join(first, "encoding"))
check_run("without its encoder it has none", run(first, "-p", QUESTION, *GREEDY, "--reasoning-effort", "max"), 3, b"",
          r"no encoding/encoding\*\.py")
check("but answers", prompt_tokens(*THINKS, model=first) == usual)

# ---- what is kept -----------------------------------------------------------------------------------
with open(path("talk.json"), "w") as file:
    json.dump([{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}], file)
spoken = run(TOKEN_ROUTED, "--messages", path("talk.json"), *GREEDY)
check("--messages", spoken.returncode == 0 and spoken.stdout, spoken.stderr)
turns = [answer("--session", path("session"), "--prompt-cache", path("states"), question=q) for q in (QUESTION, "And of France?")]
check("a later turn reads the earlier one from the prompt cache", turns[1]["usage"]["prompt_tokens_details"]["cached_by"] == "disk", turns)
check("and says what it says without", turns[1]["text"] == [
    answer("--session", path("other"), "--prompt-cache", "off", question=q) for q in (QUESTION, "And of France?")][1]["text"])
warm = [answer("--warm-start", "on") for _ in range(2)]
check("--warm-start reads the experts of the last run", warm[1]["cache"]["warmed"] > 0 and warm[1]["text"] == plain["text"], warm)

# ---- routes, traces, batches, measurements -----------------------------------------------------------
routed = answer("--record-routes", path("routes"), "--prefetch", "off", "--cache-slots", "30", "-n", "30")
replayed = json.loads(run("simulate", path("routes"), "--cache-slots", "30", "--json").stdout)[0]["runs"][0]["cache"]
check("replayed routes hit what the run hit", all(routed["cache"][c] == replayed[c] for c in ("asked", "hits", "misses", "evictions")),
      (routed["cache"], replayed))
guessed = json.loads(run("simulate", path("routes"), "--cache-slots", "18", "--prefetch", "3", "--json").stdout)[0]["runs"][0]["cache"]
check("experts known from the token are guesses that prove right", guessed["guesses_right"] > guessed["guesses"] / 6, guessed)
check_run("record", run("record", TOKEN_ROUTED, "-o", path("own.json"), "-p", QUESTION, "-n", "8", *CPU), 0)
check_run("--verify", run(TOKEN_ROUTED, "--verify", path("own.json"), *CPU, "--chunk", "3"), 0)
done = run("batch", TOKEN_ROUTED, *CPU, stdin=json.dumps({"custom_id": "a", "body": {
    "messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 8}}).encode() + b"\n")
check("batch", done.returncode == 0 and json.loads(done.stdout)["response"]["status_code"] == 200, done)
check_run("bench", run("bench", TOKEN_ROUTED, "--only", "decode", "-n", "4", *CPU), 0)
listed = run("inspect", TOKEN_ROUTED, "--check")
check_run("inspect --check", listed, 0, None, "^$")
check("its draft head is named", b"draft head (mtp.*), 2 DSpark stages" in listed.stdout and b"unaccounted" not in listed.stdout)

# ---- a terminal -------------------------------------------------------------------------------------
chat = Pty(TOKEN_ROUTED, *GREEDY)
chat.expect("Type a message")
for said in QUESTION + "\r", "And of France?\r":
    chat.expect("> ")
    chat.send(said)
    chat.expect("tok/s")
chat.expect("> ")
chat.send("\x04")
check("a chat", chat.wait() == 0, chat.text)

# ---- a server -----------------------------------------------------------------------------------------
server = subprocess.Popen([SLUICE, "serve", TOKEN_ROUTED, "--port", "0", "-v", *CPU], stderr=subprocess.PIPE, env=environment())
port = None
for line in server.stderr:
    found = re.search(rb"listening on http://127\.0\.0\.1:(\d+)", line)
    port = int(found[1]) if found else port
    if b"is ready" in line:
        break


def ask(url, **body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", url, json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


status, reply = ask("/v1/chat/completions", messages=[{"role": "user", "content": QUESTION}], temperature=0, max_tokens=8)
check("serve", status == 200 and reply["choices"][0]["message"]["content"].startswith(plain["text"][:3]), reply)
status, reply = ask("/v1/chat/completions", messages=[{"role": "user", "content": QUESTION}], reasoning_effort="max", max_tokens=8)
check("with an effort", status == 200 and reply["usage"]["prompt_tokens"] == most, reply)
status, reply = ask("/tokenize", content="a", add_special=True)
check("its begin token", status == 200 and reply["tokens"][0] == 0 and len(reply["tokens"]) > 1, reply)
server.send_signal(signal.SIGTERM)
check("it ends", server.wait(timeout=30) == 143)
