#!/usr/bin/env python3
"""Chat and one-shot with a server: the answers of a model that is loaded here, who answers and why, hostile servers."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from cli import ANSWER, HOME, QUESTION, RANDOM, SLUICE, TINY, Pty, check, check_run, environment, run
from serve_test import SLOW, Server

STORY = "Tell me a story"
KEY = "sk-a-key-of-the-test"
DEAD = "http://127.0.0.1:1"  # nothing listens there


def url(server):
    return f"http://127.0.0.1:{server.port}"


def by(server):
    return f"answered by {re.escape(url(server))} \\(dsv41-tiny\\)\n"


def both(server, *flags, **more):
    """The same question to the server and to a model that is loaded here."""
    return run("--attach", url(server), *flags, **more), run(TINY, *flags, **more)


def same(what, server, *flags, **more):
    remote, local = both(server, *flags, **more)
    check(f"{what}: the server's answer is that of a model here", remote.returncode == local.returncode == 0 and
          remote.stdout == local.stdout and len(local.stdout) > 1, (remote, local))
    return remote, local


def reasoning(result):
    """The text on stderr before the report."""
    return re.split(rb"answered by |sluice: |\d+ tokens", result.stderr)[0]


def check_same_answers(server):
    remote, _ = same("greedy", server, "-p", QUESTION, "--temp", "0")
    check("greedy: it is the known one", remote.stdout == ANSWER, remote.stdout)
    check_run("who answered is said", remote, 0, ANSWER, by(server) + r"10 tokens · [\d.]+ tok/s · first token ")
    for flags in (["--reasoning", "on"], ["--reasoning-effort", "20"], ["--reasoning-effort", "max", "-n", "9"]):
        remote, local = same(f"{flags}", server, "-p", QUESTION, "--temp", "0", "--show-reasoning", *flags)
        check(f"{flags}: so is the reasoning", reasoning(remote) == reasoning(local), (remote.stderr, local.stderr))
    same("reasoning that is cut", server, "-p", QUESTION, "--temp", "0", "--reasoning-effort", "20", "-n", "9", "--stop",
         "program to")
    same("a seed", server, "-p", STORY, "--temp", "0.9", "--seed", "7", "-n", "40", "--top-k", "40", "--min-p", "0.01")
    same("the model's sampling", server, "-p", STORY, "--seed", "12345678901234567", "-n", "40")
    same("stop strings", server, "-p", QUESTION, "--temp", "0", "--stop", "Can", "--stop", "xyz")
    same("a system message and standard input", server, "-p", "Say:", "--system-prompt", "Be \"brief\".\n", "--temp",
         "0", "-n", "20", stdin="ümläut\n".encode())
    same("a form", server, "-p", QUESTION, "--format", "json", "--temp", "0", "-n", "30")
    same("no stream", server, "-p", QUESTION, "--no-stream", "--temp", "0")
    loop = ["-p", STORY, "--temp", "0", "--ignore-eos", "--loop-guard", "16", "-n", "300", "--json"]
    remote, local = both(server, *loop)
    check("an answer that repeats itself ends here and there", json.loads(remote.stdout)["finish_reason"] ==
          json.loads(local.stdout)["finish_reason"] and json.loads(remote.stdout)["text"] ==
          json.loads(local.stdout)["text"], (remote, local))


def check_json(server):
    remote, local = both(server, "-p", QUESTION, "--temp", "0", "--seed", "5", "--reasoning", "on", "--json")
    there, here = json.loads(remote.stdout), json.loads(local.stdout)
    for member in ("text", "reasoning", "reasoning_unclosed", "finish_reason", "seed", "model"):
        check(f"--json: {member}", there[member] == here[member], (there, here))
    for member in ("prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens"):
        check(f"--json: usage.{member}", there["usage"][member] == here["usage"][member], (there, here))
    check("--json leaves out what only the server knows", there["server"] == url(server) and
          not {"cache", "io", "limit", "device"} & set(there), there)
    check("--json has the server's times", there["timings"]["prompt_s"] > 0 and there["timings"]["decode_s"] > 0, there)
    stats = run("--attach", url(server), "-p", QUESTION, "--temp", "0", "--stats")
    check_run("--stats", stats, 0, ANSWER, rf"server    {re.escape(url(server))} \(dsv41-tiny\); its page and /metrics "
              r"show drives and caches\ncontext   21 of 8192 tokens; mode as the server is set; seed \d+\nprompt    11 tok"
              r"ens \(.*\nanswer    10 tokens \(0 reasoning\), .* ended by stop\n")
    quiet = run("--attach", url(server), "-p", QUESTION, "--temp", "0", "--quiet")
    check("--quiet is quiet", quiet.stdout == ANSWER and quiet.stderr == b"", quiet)


def check_session(server):
    files = [os.path.join(HOME, name) for name in ("remote.json", "local.json")]
    for text in (QUESTION, STORY):
        flags = ["-p", text, "--seed", "3", "-n", "20"]
        answers = [run(*who, *flags, "--session", file)
                   for who, file in (((("--attach", url(server))), files[0]), ((TINY,), files[1]))]
        check("--session continues with a server as without", answers[0].returncode == 0 and
              answers[0].stdout == answers[1].stdout, answers)
    check("--session keeps the same file", open(files[0], "rb").read() == open(files[1], "rb").read())


def check_who_answers(server):
    ask = ["-p", QUESTION, "--temp", "0"]
    served = environment(SLUICE_SERVER=url(server))
    dead = environment(SLUICE_SERVER=DEAD)
    check_run("SLUICE_SERVER without a model", run(*ask, env=served), 0, ANSWER, by(server))
    check_run("SLUICE_SERVER with its model", run(TINY, *ask, env=served), 0, ANSWER, by(server))
    check_run("SLUICE_SERVER with its model's name", run("dsv41-tiny", *ask, env=served), 0, ANSWER, by(server))
    other = run(RANDOM, *ask, env=served)
    check_run("SLUICE_SERVER with another model", other, 3, b"",
              "SLUICE_SERVER http://.* is not used: it serves dsv41-tiny, not dsv41-rand-a; the model is loaded here\n")
    ram = run(TINY, *ask, "--ram", "4GiB", env=served)
    check_run("SLUICE_SERVER with a flag of loading", ram, 0, ANSWER, "is not used: --ram has no use there; ")
    check("and then no server answers", b"answered by" not in ram.stderr, ram.stderr)
    check_run("SLUICE_SERVER that is not there", run(TINY, *ask, env=dead), 0, ANSWER,
              f"^sluice: SLUICE_SERVER {DEAD} is not used: it cannot be reached: .*; the model is loaded here\n")
    check_run("the same without a model", run(*ask, env=dead), 5, b"",
              f"SLUICE_SERVER {DEAD}: it cannot be reached: .*; `sluice serve MODEL` starts a server\n")
    quiet = run(TINY, *ask, "--quiet", env=dead)
    check("--quiet says nothing of it", quiet.stdout == ANSWER and quiet.stderr == b"", quiet)
    check_run("--attach off", run(TINY, *ask, "--attach", "off", env=dead), 0, ANSWER, "^10 tokens")
    check_run("--attach beats SLUICE_SERVER", run(*ask, "--attach", url(server), env=dead), 0, ANSWER, by(server))
    check_run("a verification loads its model", run(TINY, "--verify", "none", env=served), 3, b"", "none: no such trace")
    check_run("--attach to nothing", run(TINY, *ask, "--attach", DEAD), 5, b"", "--attach .* cannot be reached")
    check_run("--attach to another model", run(RANDOM, *ask, "--attach", url(server)), 2, b"",
              "it serves dsv41-tiny, not dsv41-rand-a; leave out the MODEL")
    for flags in (["--ram", "4GiB"], ["-t", "2"], ["--device", "cpu"], ["-c", "100"], ["--prompt-cache", "on"],
                  ["--mirror", "/tmp"], ["--profile", "/tmp/x"]):
        refused = run(*ask, "--attach", url(server), *flags)
        check_run(f"{flags} with a server", refused, 2, b"", "is about a model that is loaded here")
    for address, why in (("https://x.org", "ssh -L"), ("127.0.0.1:80", "begins with http://"),
                         ("http://me@x.org", "--api-key"), ("http://host.invalid:9", "no such host")):
        check_run(f"--attach {address}", run(*ask, "--attach", address), 5 if "invalid" in address else 2, b"", why)
    check_run("a word that is an address", run("chat", url(server) + "/v1/", *ask), 0, ANSWER, by(server))
    check_run("two servers", run(url(server), *ask, "--attach", DEAD), 2, b"", "only one server")
    check_run("chat with a model", run("chat", TINY, *ask), 0, ANSWER)
    check_run("a value that the server refuses", run(*ask[:2], "--temp", "5", "--attach", url(server)), 2, b"",
              r"^sluice: http://.*: temperature: .*found 5 \(HTTP 400\)\n$")
    check_run("a prompt that does not fit", run("-p", "word " * 9000, "--attach", url(server)), 2, b"",
              r"context 8192: no room for an answer.* \(HTTP 400\)")


def check_chat(server):
    chat = Pty("chat", url(server), "--temp", "0")
    chat.expect(by(server).replace("\n", "\r\n"))
    chat.expect(r"> ")
    chat.send(QUESTION + "\r")
    chat.expect(r"Canberra\..*10 tokens · [\d.]+ tok/s")
    chat.send("/stats\r")
    chat.expect(r"server    http.*ended by stop")
    chat.send("/set temp 9\r")
    chat.expect("temp is 9")
    chat.send(QUESTION + "\r")
    chat.expect(r"temperature: .*found 9 \(HTTP 400\).*conversation is kept")
    chat.send("/set temp 0\r")
    chat.expect("temp is 0")
    chat.send("/clear\r")
    chat.expect("cleared")
    chat.send(QUESTION + "\r")
    chat.expect(r"Canberra\.")
    chat.send("/bye\r")
    check("the chat ends", chat.wait() == 0)


def check_waiting():
    """A slow server: progress, the queue, Ctrl-C, and that the server's work ends then."""
    server = Server(*SLOW, ready=False)
    early = subprocess.Popen([SLUICE, "--attach", url(server), "-p", QUESTION, "--temp", "0", "-n", "1"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    out, err = early.communicate(timeout=120)
    check("a server that loads is waited for", early.returncode == 0 and out == b"The\n" and
          re.search(rb"^waiting for http://.*: loading the model: \d+ %", err), (out, err))
    chat = Pty("chat", url(server), "--temp", "0")
    chat.expect(r"> ")
    chat.send(STORY + " of a far country and its long history" * 20 + "\r")
    chat.expect(r"prompt \d+ %")
    chat.interrupt()
    chat.expect("stopped; the message was not sent")
    chat.send("\x15")
    check("the server's work ends", server.idle_within(3), server.log)
    chat.send(STORY + "\r")
    server.wait_for("running", 1)
    waiting = Pty("--attach", url(server), "-p", QUESTION)
    waiting.expect(r"queued, place 1")
    waiting.interrupt()
    check("Ctrl-C in the queue", waiting.wait() == 130)
    check("it is said once", waiting.text.count("interrupted") == 1, waiting.text)
    chat.interrupt()
    chat.expect(r"\(stopped\).*tokens were not counted")
    check("it ends in an answer, too", server.idle_within(3), server.log)
    once = subprocess.Popen([SLUICE, "--attach", url(server), "-p", QUESTION, "--temp", "0"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment())
    check("the answer begins", once.stdout.read(3) == b"The")
    once.send_signal(signal.SIGINT)
    out, err = once.communicate(timeout=10)
    check("Ctrl-C keeps what came", once.returncode == 130 and out.endswith(b"\n") and b"interrupted" in err, (out, err))
    dying = subprocess.Popen([SLUICE, "--attach", url(server), "-p", QUESTION, "--temp", "0"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment())
    check("the next answer begins", dying.stdout.read(3) == b"The")
    server.end()
    out, err = dying.communicate(timeout=20)
    check("a server that ends is an error", dying.returncode == 5 and b"shutting down" in err, (out, err))
    chat.send(QUESTION + "\r")
    chat.expect("cannot be reached: Connection refused")
    chat.send("/bye\r")
    check("a chat outlives its server", chat.wait() == 0)


def check_keys():
    path = os.path.join(HOME, "keys")
    with open(path, "w") as f:
        f.write(KEY + "\nsk-another\n")
    server = Server("--api-key", "@" + path)
    ask = ["--attach", url(server), "-p", QUESTION, "--temp", "0"]
    check_run("no key", run(*ask), 2, b"", r"API key is needed.* \(HTTP 401\); --api-key KEY\|@FILE or SLUICE_API_KEY")
    wrong = run(*ask, env=environment(SLUICE_API_KEY="sk-wrong"))
    check_run("a wrong key", wrong, 2, b"", "the API key is wrong")
    check("a key is never shown", b"sk-wrong" not in wrong.stderr, wrong.stderr)
    check_run("--api-key @FILE", run(*ask, "--api-key", "@" + path), 0, ANSWER)
    check_run("SLUICE_API_KEY", run(*ask, env=environment(SLUICE_API_KEY="sk-another")), 0, ANSWER)
    check_run("a key that no header can carry", run(*ask, "--api-key", "a b"), 2, b"", "--api-key")
    server.end()


class Hostile:
    """Answers every connection with what `replies` has for the request's first line."""

    def __init__(self, chat, models=None, close=True):
        body = b'{"data":[{"id":"m"}]}' if models is None else models
        self.models = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        self.chat, self.close, self.left = chat, close, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            reply = self.models if head.startswith(b"GET") else self.chat
            try:
                for part in reply() if callable(reply) else [reply]:
                    connection.sendall(part)
                if not self.close and head.startswith(b"POST"):
                    while connection.recv(65536):
                        pass
            except OSError:
                pass
            self.left += head.startswith(b"POST")


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
HELLO = b'data: {"choices":[{"delta":{"content":"hello \\u001b[31m"}}]}\n\n'


def endless(first, part):
    def parts():
        yield first
        for _ in range(400):
            yield part
    return parts


def check_hostile():
    cases = (("garbage", b"\0\1\2SSH-2.0\r\n", b"", "this is not HTTP"),
             ("nothing", b"", b"", "closed without a reply"),
             ("a half head", b"HTTP/1.1 200 O", b"", "before the reply was complete"),
             ("endless headers", endless(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 65536), b"", "headers are too long"),
             ("a page", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", b"", "not an event stream"),
             ("an endless page", endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), b"", "reply is too long"),
             ("a redirect", b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", b"", "not followed"),
             ("an empty stream", STREAM, b"", "before the answer was complete"),
             ("wrong JSON", STREAM + b"data: {\n\n", b"", "not that of a chat"),
             ("another stream", STREAM + b"data: {\"x\":1}\n\n", b"", "has no choices"),
             ("an endless line", endless(STREAM, b"x" * 65536), b"", "event of its stream is too long"),
             ("an endless event", endless(STREAM, b"data: " + b"x" * 65530 + b"\n"), b"", "stream is too long"),
             ("a stream that is cut", STREAM + HELLO, b"hello \x1b[31m\n", "before the answer was complete"),
             ("an error in the stream", STREAM + HELLO + b'data: {"error":{"message":"b\\u0007d"}}\n\n',
              b"hello \x1b[31m\n", r"b\\x07d\n"),
             ("chunks that lie", STREAM[:-2] + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nXX\r\n", b"", "not HTTP"))
    for what, reply, stdout, why in cases:
        result = run("--attach", f"http://127.0.0.1:{Hostile(reply).port}", "-p", "x", timeout=60)
        check_run(f"a hostile server: {what}", result, 5, stdout, why)
        lines = [line for line in result.stderr.split(b"\n") if line.startswith(b"sluice: ")]
        check("it is one line that names the server", len(lines) == 1 and b"http://127.0.0.1" in lines[0], result.stderr)
    for models, why in ((b"{}", "not readable"), (b"[" * 500, "not readable"), (b'{"data":[{"id":7}]}', "not readable"),
                        (b"x" * (2 << 20), "too long")):
        result = run("--attach", f"http://127.0.0.1:{Hostile(b'', models).port}", "-p", "x")
        check_run(f"a hostile list of models: {why}", result, 5, b"", why)
    name = run("--attach", f"http://127.0.0.1:{Hostile(STREAM + HELLO, b'{%s}' % NAME).port}", "-p", "x")
    check("a model's name does nothing to the terminal", b"\x1b" not in name.stderr, name.stderr)
    silent = Hostile(b"", close=False)
    never = Pty("--attach", f"http://127.0.0.1:{silent.port}", "-p", "x")
    time.sleep(1)
    start = time.monotonic()
    never.interrupt()
    check("Ctrl-C with a server that never answers", never.wait() == 130 and time.monotonic() - start < 2)
    while silent.left == 0 and time.monotonic() - start < 5:
        time.sleep(0.02)
    check("its connection is closed", silent.left == 1)
    colour = Pty("--attach", f"http://127.0.0.1:{Hostile(STREAM + HELLO).port}", "-p", "x")
    colour.wait()
    check("an answer does nothing to the terminal", "hello ^[[31m" in colour.text, repr(colour.text))
    proxied = environment(http_proxy=DEAD, HTTP_PROXY=DEAD, all_proxy=DEAD)
    check_run("proxies of the environment are not used", run("--attach", f"http://127.0.0.1:{Hostile(DONE).port}", "-p",
                                                            "x", env=proxied), 0, b"ok\n")


NAME = rb'"data":[{"id":"\u001b[31mred"}]'
DONE = STREAM + b'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\n'


def main():
    server = Server()
    check_same_answers(server)
    check_json(server)
    check_session(server)
    check_who_answers(server)
    check_chat(server)
    check("the server ends", server.end() == 143)
    check_keys()
    check_hostile()
    check_waiting()


if __name__ == "__main__":
    main()
