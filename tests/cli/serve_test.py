#!/usr/bin/env python3
"""sluice serve as clients see it: every endpoint, limits, refusals, fairness, clients that leave, and the end."""
import atexit
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from cli import ANSWER, HOME, QUESTION, SLUICE, TINY, check, check_run, environment, run

CHAT = "/v1/chat/completions"
KEY = "sk-a-key-of-the-test"
# Everything comes from a slow drive: a prompt takes seconds, a token about half of one.
SLOW = ["--io", "paced:4MB", "--cache-slots", "off", "--no-calibrate", "--prompt-cache", "off"]


class Server:
    def __init__(self, *flags, env=None, ready=True):
        self.process = subprocess.Popen([SLUICE, "serve", TINY, "--port", "0", *flags], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or environment())
        atexit.register(self.process.kill)  # whatever check fails
        self.log, self.heard = "", threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()
        self.port = int(self.expect(r"listening on http://\S+:(\d+)\n").group(1))
        if ready:
            self.wait_ready()

    def _listen(self):
        for line in self.process.stderr:
            with self.heard:
                self.log += line.decode(errors="replace")
                self.heard.notify_all()

    def expect(self, pattern, timeout=30):
        with self.heard:
            self.heard.wait_for(lambda: re.search(pattern, self.log), timeout)
        match = re.search(pattern, self.log)
        check(f"the log has {pattern!r}", match, self.log)
        return match

    def wait_ready(self):
        deadline = time.monotonic() + 60
        while self.ask("GET", "/health").status != 200 and time.monotonic() < deadline:
            time.sleep(0.02)

    def connect(self, source="127.0.0.1", timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout, source_address=(source, 0))

    def ask(self, method, path, body=None, headers=None, source="127.0.0.1"):
        """A reply with its text and, if it has one, the JSON in it."""
        connection = self.connect(source)
        body = json.dumps(body) if isinstance(body, (dict, list)) else body
        connection.request(method, path, body, headers or {})
        reply = connection.getresponse()
        reply.text = reply.read().decode()
        with contextlib.suppress(ValueError):
            reply.json = json.loads(reply.text)
        connection.close()
        return reply

    def raw(self, data, timeout=30):
        """Sends bytes as they are; what comes back until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as s:
            s.sendall(data)
            out = b""
            with contextlib.suppress(ConnectionResetError):
                while part := s.recv(65536):
                    out += part
            return out

    def metric(self, name):
        return float(re.search(rf"^sluice_{name} (\S+)$", self.ask("GET", "/metrics").text, re.M).group(1))

    def idle_within(self, seconds):
        """Whether nothing runs or waits any more within that time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.metric("running") == 0 and self.metric("queue_length") == 0:
                return True
            time.sleep(0.02)
        return False

    def wait_for(self, name, value):
        deadline = time.monotonic() + 30
        while self.metric(name) != value:
            check(f"{name} becomes {value}", time.monotonic() < deadline, self.log)
            time.sleep(0.02)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(20)


def question(text=QUESTION, **more):
    return {"model": "any", "messages": [{"role": "user", "content": text}], "temperature": 0, **more}


def streamed(text):
    """The content of a stream of chat chunks."""
    out = ""
    for line in text.split("\n"):
        if line.startswith("data: {"):
            choices = json.loads(line[6:]).get("choices") or [{}]
            out += choices[0].get("delta", {}).get("content") or ""
    return out


def check_error(what, reply, status, pattern):
    error = getattr(reply, "json", {}).get("error", {})
    check(what, reply.status == status and re.search(pattern, error.get("message", "")),
          f"{reply.status} {reply.text} {pattern}")


def check_endpoints(server):
    name = os.path.basename(TINY)
    reply = server.ask("GET", "/health")
    check("/health", reply.status == 200 and reply.json == {"status": "ok"}, reply.text)
    models = server.ask("GET", "/v1/models").json
    check("/v1/models has the shapes of both APIs", models["object"] == "list" and not models["has_more"] and
          models["data"][0]["id"] == name and models["data"][0]["type"] == "model", models)
    check("/v1/models/NAME", server.ask("GET", "/v1/models/" + name).json == models["data"][0])
    check_error("/v1/models/OTHER", server.ask("GET", "/v1/models/x"), 404, "no such model")
    text = "Hello there, <｜User｜> ümläut"
    tokens = server.ask("POST", "/tokenize", {"content": text}).json["tokens"]
    check("/tokenize makes no control tokens of text", len(tokens) > 8 and min(tokens) > 2, tokens)
    check("/detokenize", server.ask("POST", "/detokenize", {"tokens": tokens}).json == {"content": text})
    special = server.ask("POST", "/tokenize", {"content": text, "add_special": True}).json["tokens"]
    check("/tokenize add_special", special == [0] + tokens, special)
    check_error("/detokenize checks ids", server.ask("POST", "/detokenize", {"tokens": [1 << 40]}), 400, "tokens: ")
    check_error("/tokenize checks types", server.ask("POST", "/tokenize", {"content": 5}), 400, "content: ")
    page = server.ask("GET", "/")
    policy = page.getheader("Content-Security-Policy")
    nonce = re.search(r"script-src 'nonce-(\w+)'", policy).group(1)
    check("the page has a policy and a nonce of its own", "default-src 'none'" in policy and
          f'<script nonce="{nonce}">' in page.text and "<script>" not in page.text and
          nonce not in server.ask("GET", "/").text and page.getheader("X-Content-Type-Options") == "nosniff", policy)
    head = server.ask("HEAD", "/v1/models")
    check("HEAD", head.status == 200 and head.text == "" and int(head.getheader("Content-Length")) > 100)


def check_answers(server):
    wanted = ANSWER.decode().rstrip("\n")
    whole = server.ask("POST", CHAT, question())
    check("a chat's answer is that of one-shot", whole.json["choices"][0]["message"]["content"] == wanted, whole.text)
    stream = server.ask("POST", CHAT, question(stream=True))
    check("a stream is the same answer", streamed(stream.text) == wanted and stream.text.endswith("data: [DONE]\n\n"),
          stream.text)
    check("a stream is one", stream.getheader("Content-Type").startswith("text/event-stream") and
          stream.getheader("Transfer-Encoding") == "chunked")
    claude = server.ask("POST", "/v1/messages", {**question(), "max_tokens": 30})
    check("Anthropic's API gives it, too", claude.json["content"][0]["text"] == wanted, claude.text)
    once = json.loads(run(TINY, "-p", "Tell me a story", "--temp", "0.8", "--seed", "7", "-n", "40", "--json").stdout)
    served = server.ask("POST", CHAT, question("Tell me a story", temperature=0.8, seed=7, max_tokens=40)).json
    check("sampling with a seed is that of one-shot", served["choices"][0]["message"]["content"] == once["text"],
          (served, once["text"]))
    live = server.ask("GET", "/live").json
    check("/live", live["tok_s"] > 0 and live["binds"] in ("cpu", "drive") and live["running"] is None and
          live["queue"] == 0 and 0 < live["tiers"]["ram"]["used"] <= live["tiers"]["ram"]["slots"] and
          live["tiers"]["vram"] is None and live["drives"][0]["bytes"] > 0 and live["totals"]["answers"] == 4, live)
    experts = server.ask("GET", "/live/experts").json
    check("/live/experts counts what /live counts", len(experts["cached"]) == experts["layers"] and
          {len(row) for row in experts["cached"]} == {experts["experts"]} and
          sum(row.count("1") for row in experts["cached"]) == live["tiers"]["ram"]["used"], experts)


def check_counts(server):
    """A prompt's tokens without an answer; queries and versions in the head change nothing."""
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
    for path in ("/v1/messages/count_tokens", "/v1/messages/count_tokens?beta=true"):
        reply = server.ask("POST", path, body, {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"})
        check(path, reply.status == 200 and reply.json == {"input_tokens": 11}, reply.text)
    served = server.ask("POST", "/v1/messages?beta=true", {**body, "max_tokens": 1}).json
    check("the count is that of the answer", served["usage"]["input_tokens"] +
          served["usage"]["cache_read_input_tokens"] == 11, served)
    count = server.ask("POST", "/v1/responses/input_tokens", {"input": QUESTION})
    check("/v1/responses/input_tokens", count.json == {"object": "response.input_tokens", "input_tokens": 11}, count.text)
    long = server.ask("POST", "/v1/messages/count_tokens",
                      {"messages": [{"role": "user", "content": "word " * 40000}]})
    check("a prompt that the context cannot hold is counted", long.json["input_tokens"] > 40000, long.text)
    bad = server.ask("POST", "/v1/messages/count_tokens", {"messages": []})
    check("a count that is refused", bad.status == 400 and bad.json["type"] == "error" and
          bad.json["error"]["type"] == "invalid_request_error", bad.text)
    check("a query is ignored", server.ask("GET", "/health?x=1").status == 200 and
          server.ask("GET", "/v1/models?limit=20").status == 200 and
          server.ask("POST", CHAT + "?api-version=1", question(max_tokens=1)).status == 200)


def check_continued(server):
    """An answer that goes on with the assistant's own words is the rest of the answer that has them."""
    whole, begin = ANSWER.decode().rstrip("\n"), ANSWER.decode().split()[0]
    turns = [*question()["messages"], {"role": "assistant", "content": begin}]
    claude = server.ask("POST", "/v1/messages", {**question(), "messages": turns, "max_tokens": 30}).json
    check("/v1/messages goes on with the assistant's message", begin + claude["content"][0]["text"] == whole, claude)
    turns[-1]["prefix"] = True
    chat = server.ask("POST", CHAT, {**question(), "messages": turns}).json
    check("prefix", begin + chat["choices"][0]["message"]["content"] == whole, chat)


def check_cut_reasoning(server):
    """Reasoning that the limit cuts is in no reply twice."""
    body = question(max_tokens=2, reasoning_effort="low")
    whole = server.ask("POST", CHAT, body).json["choices"][0]
    thought = whole["message"]["reasoning_content"]
    check("cut reasoning", thought and whole["message"]["content"] == "" and whole["finish_reason"] == "length", whole)
    stream = server.ask("POST", CHAT, {**body, "stream": True}).text
    check("cut reasoning in a stream", streamed(stream) == "" and "reasoning_content" in stream, stream)
    claude = {**question(max_tokens=2, stream=True), "thinking": {"type": "adaptive"}}
    text = server.ask("POST", "/v1/messages", claude).text
    check("cut thinking in a stream", "thinking_delta" in text and "text_delta" not in text and
          '"stop_reason":"max_tokens"' in text, text)
    made = server.ask("POST", "/v1/responses", {"input": QUESTION, "max_output_tokens": 2,
                                                "reasoning": {"effort": "low"}}).json
    check("cut reasoning in a response", [item["type"] for item in made["output"]] == ["reasoning"] and
          made["status"] == "incomplete", made)


def check_metrics(server):
    """What promtool checks: each metric has help and type before its samples, names and labels are well formed."""
    reply = server.ask("GET", "/metrics")
    check("the type of /metrics", reply.getheader("Content-Type").startswith("text/plain; version=0.0.4"))
    types, helped, seen = {}, set(), set()
    for line in reply.text.splitlines():
        if match := re.fullmatch(r"# HELP (\w+) \S.*", line):
            check(f"{match[1]} has one help", match[1] not in helped)
            helped.add(match[1])
        elif match := re.fullmatch(r"# TYPE (\w+) (counter|gauge)", line):
            check(f"{match[1]} has one type", match[1] not in types and match[1] in helped)
            types[match[1]] = match[2]
        else:
            match = re.fullmatch(r'(\w+)((?:\{\w+="[^"\\]*"(?:,\w+="[^"\\]*")*\})?) (\S+)', line)
            check("a line of /metrics is a sample", match and types.get(match[1]) and float(match[3]) >= 0, line)
            check("a sample is given once", (match[1], match[2]) not in seen, line)
            check("counters are called so", (types[match[1]] == "counter") == match[1].endswith("_total"), line)
            seen.add((match[1], match[2]))
    check("/metrics counts tokens", server.metric("completion_tokens_total") == 70 and
          server.metric("cached_tokens_total") == 22, reply.text)
    server.wait_for("connections", 1)  # its own; one that is being closed may still count for a moment
    check("/metrics counts requests", f'requests_total{{endpoint="{CHAT}",status="200"}} 3\n' in reply.text, reply.text)


def check_refusals(server):
    check_error("an unknown address", server.ask("GET", "/nope\n".strip()), 404, "no such address")
    wrong = server.ask("GET", CHAT)
    check_error("a wrong method", wrong, 405, "POST only")
    check("Allow", wrong.getheader("Allow") == "POST, OPTIONS")
    check_error("bad JSON", server.ask("POST", CHAT, '{"model'), 400, "not valid JSON")
    check_error("JSON nested too deep", server.ask("POST", CHAT, "[" * 100000), 400, "nest|deep")
    check_error("a prompt beyond the context", server.ask("POST", CHAT, question("word " * 9000)), 400, "context")
    check_error("a body that is too large", server.ask("POST", CHAT, "x" * 300_000), 413, "300?000|--max-body")
    huge = server.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" % CHAT.encode())
    check("a body announced as too large", huge.startswith(b"HTTP/1.1 413 ") and b'{"error":' in huge, huge)
    long = server.ask("GET", "/health", headers={"X-Long": "x" * 40000})
    check_error("headers that are too large", long, 431, "--max-headers")
    check_error("too many headers", server.ask("GET", "/health", headers={f"X-{i}": "" for i in range(200)}), 431,
                "headers")
    claude = server.ask("POST", "/v1/messages", "{")
    check("errors have each API's form", claude.json["type"] == "error" and claude.status == 400, claude.text)
    for what, data in (("no HTTP", b"\x16\x03\x01\x00\r\n\r\n"), ("two lengths", b"POST / HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1"), ("no Host", b"GET / HTTP/1.1\r\n\r\n")):
        reply = server.raw(data)
        check(what, reply.startswith(b"HTTP/1.1 400 ") and b'{"error":' in reply, reply)
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.settimeout(10)
        with contextlib.suppress(OSError):
            for _ in range(50):
                slow.sendall(b"G")
                if time.monotonic() - start > 1.2:
                    break
                time.sleep(0.05)
            reply = slow.recv(65536)
    check("a request that drips is ended", time.monotonic() - start < 4 and b"HTTP/1.1 4" in reply, reply)


def check_sites(server):
    def ask(host=None, origin=None, method="GET", path="/v1/models"):
        headers = {"Host": host or f"localhost:{server.port}"}
        if origin:
            headers["Origin"] = origin
        return server.ask(method, path, headers=headers)

    check_error("another Host (DNS rebinding)", ask("evil.example"), 403, "--allowed-host")
    check("an allowed Host", ask("Box.lan:80").status == 200)
    check_error("another site's page", ask(origin="http://evil.example"), 403, "--cors")
    own = ask(origin=f"http://localhost:{server.port}")
    check("the server's own page", own.status == 200 and own.getheader("Access-Control-Allow-Origin") is None)
    friend = ask(origin="https://friend.example")
    check("an allowed site", friend.status == 200 and
          friend.getheader("Access-Control-Allow-Origin") == "https://friend.example" and
          friend.getheader("Vary") == "Origin")
    preflight = ask(origin="https://friend.example", method="OPTIONS", path=CHAT)
    check("a preflight", preflight.status == 204 and "POST" in preflight.getheader("Access-Control-Allow-Methods") and
          "authorization" in preflight.getheader("Access-Control-Allow-Headers"), preflight.headers)
    check_error("a preflight of another site", ask(origin="http://evil.example", method="OPTIONS"), 403, "--cors")
    split = server.raw(b"GET /x%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    check("no header is made of what a client sends", b"Set-Cookie" not in split, split)


def check_keys():
    path = os.path.join(HOME, "keys")
    with open(path, "w", encoding="utf-8") as f:
        f.write(KEY + "\nsecond-key\n")
    server = Server("--api-key", "@" + path)
    for what, headers, status in (("no key", {}, 401), ("a wrong key", {"Authorization": "Bearer " + KEY + "x"}, 401),
                                  ("a key", {"Authorization": "Bearer " + KEY}, 200),
                                  ("the other key", {"x-api-key": "second-key"}, 200)):
        reply = server.ask("GET", "/v1/models", headers=headers)
        check(what, reply.status == status, reply.text)
    denied = server.ask("POST", "/v1/messages", question())
    check("a refusal has the API's form", denied.status == 401 and denied.json["type"] == "error" and
          denied.getheader("WWW-Authenticate") == "Bearer", denied.text)
    for path in ("/metrics", "/live", "/nope"):
        check(f"{path} needs a key", server.ask("GET", path).status == 401)
    check("/health needs none", server.ask("GET", "/health").status == 200)
    metrics = server.ask("GET", "/metrics", headers={"x-api-key": KEY}).text
    check("SIGHUP", server.process.send_signal(signal.SIGHUP) or server.expect("SIGHUP: nothing is reloaded"))
    check("the server goes on", server.ask("GET", "/health").status == 200)
    check("exit code after Ctrl-C", server.end(signal.SIGINT) == 130)
    check("no key is shown", KEY not in server.log + metrics and "second-key" not in server.log, server.log)
    variable = Server(env=environment(SLUICE_API_KEY=KEY))
    check("the variable sets a key", variable.ask("GET", "/v1/models").status == 401)
    variable.end()


class Background(threading.Thread):
    """A request whose reply is awaited later."""

    def __init__(self, server, body, source="127.0.0.1"):
        super().__init__(daemon=True)
        self.server, self.body, self.source, self.reply = server, body, source, None
        self.start()

    def run(self):
        self.reply = self.server.ask("POST", CHAT, self.body, source=self.source)
        self.done = time.monotonic()


def check_leaving(server):
    """The prompt takes seconds here; /metrics answers meanwhile."""
    for what, body in (("", question()), (", streamed", question(stream=True))):
        connection = server.connect()
        connection.request("POST", CHAT, json.dumps(body))
        server.wait_for("running", 1)
        time.sleep(0.3)
        live = server.ask("GET", "/live").json
        check("/live shows that the prompt is being read", live["running"]["tokens"] == 0 and
              live["running"]["prompt_done"] < 1, live)
        connection.close()
        check("a client that leaves in the prompt stops the work" + what, server.idle_within(1), server.log)
    connection = server.connect()
    connection.request("POST", CHAT, json.dumps(question(stream=True)))
    reply = connection.getresponse()
    text = b""
    while b'"content":"The' not in text:
        text += reply.read1()
    check("a stream says that it is alive while the prompt is read", text.startswith(b": ") or b"\n: " in text, text)
    reply.close()
    connection.close()
    check("a client that leaves in the answer stops the work", server.idle_within(1), server.log)
    check("such requests are logged as 499", len(re.findall(" 499 ", server.log)) == 3, server.log)


def check_queue(server):
    """Two may wait. One client's two requests do not make another wait for both."""
    first = Background(server, question(max_tokens=1))
    server.wait_for("running", 1)
    greedy = [Background(server, question("What is the capital of France?", max_tokens=1))]
    server.wait_for("queue_length", 1)
    greedy.append(Background(server, question("What is the capital of Spain?", max_tokens=1)))
    server.wait_for("queue_length", 2)
    refused = server.ask("POST", CHAT, question(), source="127.0.0.2")
    check_error("a full queue", refused, 503, "--queue")
    check("Retry-After", 1 <= int(refused.getheader("Retry-After")) <= 60, refused.headers)
    first.join()
    server.wait_for("queue_length", 1)
    other = Background(server, question("What is the capital of Chile?", max_tokens=1), "127.0.0.2")
    for one in [*greedy, other]:
        one.join()
    check("all are answered", all(one.reply.status == 200 for one in [first, *greedy, other]))
    check("clients take turns", greedy[0].done < other.done < greedy[1].done,
          [one.done for one in (greedy[0], other, greedy[1])])
    check("/metrics counts the refusal", server.metric("queue_refused_total") == 1)


def check_end(server):
    """The answer being generated ends with an error, so does the one that waits, within a second or two."""
    whole = []
    running = server.connect()
    running.request("POST", CHAT, json.dumps(question(stream=True)))
    reply = running.getresponse()
    text = b""
    while b'"content":"The' not in text:
        text += reply.read1()
    waiting = Background(server, question())
    server.wait_for("queue_length", 1)
    start = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    with contextlib.suppress(http.client.IncompleteRead):
        whole.append(reply.read())
    check("a running stream ends with an error", whole and b"shutting down" in whole[0] and b'"error"' in whole[0], whole)
    waiting.join()
    check_error("a waiting request is refused", waiting.reply, 503, "shutting down")
    check("exit code after SIGTERM", server.process.wait(10) == 143)
    check("the end takes no longer than two seconds", time.monotonic() - start < 2, time.monotonic() - start)
    check("stdout stays empty", server.process.stdout.read() == b"")


def check_loading():
    server = Server("--io", "paced:6MB", "--no-calibrate", "--quiet", "--alias", "org/name", ready=False)
    reply = server.ask("GET", "/health")
    check("/health while the model is loaded", reply.status == 503 and reply.json["status"] == "loading model" and
          0 <= reply.json["progress"] <= 1, reply.text)
    early = server.ask("POST", CHAT, question())
    check_error("an early request", early, 503, "loading the model: ")
    check("Retry-After while loading", early.getheader("Retry-After") == "5")
    server.wait_ready()
    check("--alias", server.ask("GET", "/v1/models/org%2Fname").json["id"] == "org/name")
    busy = run("serve", TINY, "--port", str(server.port))
    check_run("a port in use", busy, 5, b"", "another program uses this port")
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(20)
    check("--quiet leaves the address alone", re.fullmatch(r"listening on http://127.0.0.1:\d+\nsluice: terminated.*\n",
                                                           server.log), server.log)


def check_usage():
    for flags, pattern in ((("--cors", "friend"), "--cors friend: an origin"), (("--port", "70000"), "--port"),
                           (("--host", "host.invalid"), "--host host.invalid"), (("--api-key", "@/none"), "--api-key"),
                           (("--max-headers", "1MiB"), "at most 64KiB"), (("-p", "x"), "-p")):
        check_run(f"usage: {flags}", run("serve", TINY, "--port", "0", *flags), 2, b"", pattern)
    open_server = Server("--host", "0.0.0.0", "-v")
    check("a warning without a key", "asks for no key" in open_server.log, open_server.log)
    open_server.ask("GET", "/live?x=1")
    check("-v logs what the page polls", open_server.expect(r" GET /live 200 "))
    open_server.end()


def main():
    server = Server("--max-body", "256KiB", "--request-timeout", "1", "--cors", "https://friend.example",
                    "--allowed-host", "box.lan")
    check_endpoints(server)
    check_answers(server)
    check_metrics(server)
    check_counts(server)
    check_continued(server)
    check_cut_reasoning(server)
    check_refusals(server)
    check_sites(server)
    check("the log shows requests", re.search(r"127\.0\.0\.1 POST /v1/chat/completions 200 11\+10 tokens", server.log),
          server.log)
    check("the log leaves out what the page polls", " GET /live" not in server.log, server.log)
    check("every log line is one of the known kinds", all(
        re.match(r"listening on |dsv41-tiny is ready|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d 127\.0\.0\.1 \S+ \S+ \d{3} ", line)
        for line in server.log.splitlines()), server.log)
    check("exit code after SIGTERM", server.end() == 143)
    check_keys()
    check_usage()
    check_loading()
    slow = Server(*SLOW, "--queue", "2")
    check_leaving(slow)
    check_queue(slow)
    check_end(slow)


if __name__ == "__main__":
    main()
