#!/usr/bin/env python3
"""Load test of `sluice serve`: polite and rude clients at once, for minutes.

    python3 tests/dev/serve_load.py build/sluice [--minutes 10] [--clients 50] [--model tests/models/dsv41-tiny]

Half of the clients ask, read and compare their answers with those of an idle server. The others leave in the middle,
read a byte at a time, send bad JSON, huge bodies, wrong keys, half requests, or nothing. The server must not crash, its
memory must stay within 20 MiB once it is warm, and every polite answer must be equal to the unloaded one.
"""
import argparse
import collections
import contextlib
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEY = "sk-load"
CHAT = "/v1/chat/completions"
GROWTH_MAX = 20 << 20
QUESTIONS = [f"What is the capital of {name}?" for name in ("Australia", "France", "Peru", "Japan", "Kenya", "Norway")]


def body_of(question, seed, stream):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": question}], "temperature": 0.7,
                       "seed": seed, "max_tokens": 24, "stream": stream})


class Load:
    def __init__(self, port, wanted):
        self.port, self.wanted = port, wanted
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.counts, self.problems = collections.Counter(), []

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def problem(self, text):
        with self.lock:
            self.problems.append(text)

    def connect(self, number):
        return http.client.HTTPConnection("127.0.0.1", self.port, 120, source_address=(f"127.0.0.{2 + number}", 0))

    def post(self, number, body, path=CHAT, key=KEY):
        connection = self.connect(number)
        connection.request("POST", path, body, {"Authorization": "Bearer " + key})
        return connection

    # ---- polite ----
    def ask(self, number, index, stream):
        question, seed = QUESTIONS[index // 4], index % 4
        connection = self.post(number, body_of(question, seed, stream))
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        if reply.status == 503:
            time.sleep(min(2, int(reply.getheader("Retry-After"))))
            return None
        if reply.status != 200:
            self.problem(f"status {reply.status}: {text[:200]}")
            return None
        return streamed(text) if stream else json.loads(text)["choices"][0]["message"]["content"]

    def polite(self, number):
        chance = random.Random(number)
        while not self.over.is_set():
            index = chance.randrange(4 * len(QUESTIONS))
            try:
                answer = self.ask(number, index, chance.random() < 0.5)
            except OSError as error:
                self.problem(f"polite client: {error!r}")
                continue
            if answer is None:
                self.count("polite: told to come back")
            elif answer == self.wanted[index]:
                self.count("polite: the right answer")
            else:
                self.problem(f"another answer: {answer!r} instead of {self.wanted[index]!r}")

    # ---- rude ----
    def leave(self, number, chance):
        connection = self.post(number, body_of(chance.choice(QUESTIONS), 1, chance.random() < 0.5))
        time.sleep(chance.random())
        connection.close()

    def read_slowly(self, number, chance):
        with self.socket(number) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            self.send_raw(s, body_of(chance.choice(QUESTIONS), 1, True))
            for _ in range(chance.randrange(100)):
                if not s.recv(1):
                    break
                time.sleep(0.02)

    def bad_json(self, number, chance):
        good = body_of(chance.choice(QUESTIONS), 1, False)
        bad = chance.choice([good[:chance.randrange(len(good))], "[" * 5000, "\0" * 100, "null", '{"messages": 5}',
                             good.replace("user", "emperor")])
        self.expect(self.post(number, bad), 400)

    def huge_body(self, number, chance):
        with self.socket(number) as s:
            size = chance.choice([2 << 20, 1 << 40])
            s.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode())
            for _ in range(chance.randrange(32)):
                s.sendall(b"x" * 65536)

    def endless_chunks(self, number, _):
        with self.socket(number) as s:
            s.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            while True:
                s.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")

    def wrong_key(self, number, chance):
        self.expect(self.post(number, body_of(chance.choice(QUESTIONS), 1, False), key="sk-wrong"), 401)

    def half_request(self, number, chance):
        with self.socket(number) as s:
            s.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nX-A: "[:chance.randrange(44)])
            time.sleep(3 * chance.random())

    def noise(self, number, chance):
        with self.socket(number) as s:
            s.sendall(chance.randbytes(chance.randrange(1, 5000)))
            while s.recv(65536):
                pass

    def rude(self, number):
        chance = random.Random(number)
        manners = [self.leave, self.leave, self.read_slowly, self.bad_json, self.huge_body, self.endless_chunks,
                   self.wrong_key, self.half_request, self.noise]
        while not self.over.is_set():
            manner = chance.choice(manners)
            with contextlib.suppress(OSError, http.client.HTTPException):
                manner(number, chance)
            self.count("rude: " + manner.__name__.replace("_", " "))

    def socket(self, number):
        return socket.create_connection(("127.0.0.1", self.port), 60, (f"127.0.0.{2 + number}", 0))

    @staticmethod
    def send_raw(s, body):
        s.sendall((f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n{body}").encode())

    def expect(self, connection, status):
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        if reply.status not in (status, 503):
            self.problem(f"status {reply.status} instead of {status}: {text[:200]}")


def streamed(text):
    out = ""
    for line in text.split("\n"):
        if line.startswith("data: {"):
            choices = json.loads(line[6:]).get("choices") or [{}]
            out += choices[0].get("delta", {}).get("content") or ""
    return out


def memory(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def start(options, log):
    process = subprocess.Popen(
        [options.sluice, "serve", options.model, "--port", "0", "--max-body", "1MiB", "--request-timeout", "5",
         "--write-timeout", "5", "--queue", "64", "--ram", options.ram],
        stdin=subprocess.DEVNULL, stderr=log, env={**os.environ, "SLUICE_API_KEY": KEY})
    while True:
        time.sleep(0.1)
        with open(log.name, encoding="utf-8", errors="replace") as f:
            text = f.read()
        if "is ready" in text:
            return process, int(re.search(r"listening on http://\S+:(\d+)", text).group(1))
        if process.poll() is not None:
            sys.exit("the server did not start:\n" + text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sluice")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--model", default=os.path.join(ROOT, "tests/models/dsv41-tiny"))
    parser.add_argument("--ram", default="1GiB")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile(prefix="sluice-load-", suffix=".log") as log:
        process, port = start(options, log)
        load = Load(port, None)
        load.wanted = [load.ask(0, index, False) for index in range(4 * len(QUESTIONS))]
        clients = [threading.Thread(target=load.rude if number % 2 else load.polite, args=(number,), daemon=True)
                   for number in range(options.clients)]
        for client in clients:
            client.start()
        begin, end = time.monotonic(), time.monotonic() + 60 * options.minutes
        warm, samples = begin + min(60, 15 * options.minutes), []
        while time.monotonic() < end and process.poll() is None:
            time.sleep(1)
            if time.monotonic() > warm and process.poll() is None:
                samples.append(memory(process))
        load.over.set()
        for client in clients:
            client.join(30)
        alive = process.poll() is None
        if alive:
            process.terminate()
        code = process.wait(30)
    for what, count in sorted(load.counts.items()):
        print(f"{what:32} {count:8}")
    mib = [size / (1 << 20) for size in samples]
    print(f"memory once warm: {mib[0]:.1f} MiB, at most {max(mib):.1f}, at the end {mib[-1]:.1f}" if mib else "no samples")
    problems = load.problems[:20]
    if not alive or code != 143:
        problems.append(f"the server ended with {code}")
    if not mib or max(samples) - min(samples) > GROWTH_MAX:
        problems.append("its memory is not flat")
    if not load.counts["polite: the right answer"]:
        problems.append("no polite client was answered")
    for problem in problems:
        print("PROBLEM", problem)
    print("failed" if problems else "passed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
