#!/usr/bin/env python3
"""A served conversation goes on, bit for bit, after others, after an interruption and after kill -9.

    python3 tools/dev/served_bits.py SLUICE MODEL [FLAGS...]

Two conversations alternate on one server, which keeps their states in its prompt cache; a third client leaves in the middle; the
server is killed and a new one goes on. Every answer, its tokens and 20 log-probabilities a position must equal those of a server
that reads every prompt from its beginning. Prints one line; exit code 1 at a difference.
"""
import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile

TURNS = ["What is the capital of Australia?", "Tell me about its rivers, in detail.", "And the rivers of France?", "Thank you."]


class Server:
    def __init__(self, sluice, model, flags):
        self.process = subprocess.Popen([sluice, "serve", model, "--port", "0", "-v", *flags], stderr=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stderr:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            self.port = int(found[1]) if found else self.port
            if "is ready" in line:
                break
        else:
            sys.exit(f"the server does not start: exit code {self.process.wait()}")
        # Nobody reads its log from here on, so it must not fill the pipe.
        subprocess.Popen(["cat"], stdin=self.process.stderr, stdout=subprocess.DEVNULL)

    def ask(self, messages, thinking):
        body = {"messages": messages, "temperature": 0, "max_tokens": 40, "logprobs": True, "top_logprobs": 20,
                "reasoning_effort": "high" if thinking else "none"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = json.loads(reply.read())
        if reply.status != 200:
            sys.exit(f"status {reply.status}: {answer}")
        return answer

    def leave_in_the_middle(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/v1/chat/completions", json.dumps(
            {"messages": [{"role": "user", "content": "Count. " * 200}], "stream": True, "max_tokens": 500}))
        connection.getresponse().read(10)
        connection.close()

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()


def converse(server, conversations, turn, seen):
    for name, messages in conversations.items():
        messages.append({"role": "user", "content": f"{name}: {TURNS[turn]}"})
        answer = server.ask(messages, name == "B")
        choice = answer["choices"][0]
        seen[name, turn] = (choice["message"], choice["finish_reason"], choice["logprobs"])
        messages.append({"role": "assistant", "content": choice["message"]["content"] or ""})
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


sluice, model, *flags = sys.argv[1:]
cached = []
kept, plain = {}, {}
with tempfile.TemporaryDirectory(prefix="sluice-served-") as folder:
    conversations = {"A": [], "B": [], "C": []}
    cache = ["--prompt-cache", folder, *flags]
    server = Server(sluice, model, cache)
    for turn in range(2):
        converse(server, conversations, turn, kept)
        server.leave_in_the_middle()
    server.end(signal.SIGKILL)
    server = Server(sluice, model, cache)
    for turn in range(2, 4):
        converse(server, conversations, turn, kept)
    server.end(signal.SIGTERM)
tokens_kept = sum(cached)
cached.clear()
server = Server(sluice, model, ["--prompt-cache", "off", "--warm-start", "off", *flags])
for name in "ABC":
    conversation = {name: []}
    for turn in range(4):
        converse(server, conversation, turn, plain)
server.end(signal.SIGTERM)
different = [key for key in kept if kept[key] != plain[key]]
if different or tokens_kept <= sum(cached):
    sys.exit(f"different: {different}; {tokens_kept} tokens kept, without the prompt cache {sum(cached)}")
print(f"{len(kept)} answers equal, {tokens_kept} tokens of their prompts not read again")
