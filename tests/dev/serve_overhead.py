#!/usr/bin/env python3
"""What the server costs per token: `sluice serve`, streaming, against one-shot, in alternation.

    python3 tests/dev/serve_overhead.py build/sluice [--samples 9] [-t THREADS]

Two cases on the small model: everything cached (hundreds of tokens a second), and every expert from a paced drive
(about one a second). Each sample starts a fresh process, so that both begin with the same empty caches. One-shot's
speed is that of --json; the server's is what its client sees: from the first piece of a stream to the last.
"""
import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "tests/models/dsv41-tiny")
PROMPT = "Tell me a long story about a river."
COLD = ["--warm-start", "off", "--prompt-cache", "off"]
CASES = {"cached": (COLD, 600), "paced": ([*COLD, "--io", "paced:2MB", "--cache-slots", "off"], 8)}


def one_shot(sluice, flags, tokens):
    out = subprocess.run([sluice, MODEL, "-p", PROMPT, "--temp", "0", "--ignore-eos", "-n", str(tokens), "--json", "--quiet",
                          "--no-calibrate", *flags], stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    return json.loads(out)["timings"]["decode_tok_s"]


def served(sluice, flags, tokens):
    process = subprocess.Popen([sluice, "serve", MODEL, "--port", "0", "--ignore-eos", "--no-calibrate", *flags],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    port = 0
    for line in process.stderr:
        if match := re.match(rb"listening on http://\S+:(\d+)", line):
            port = int(match.group(1))
        if b"is ready" in line:
            break
    connection = http.client.HTTPConnection("127.0.0.1", port, 300)
    connection.request("POST", "/v1/chat/completions", json.dumps({
        "model": "m", "messages": [{"role": "user", "content": PROMPT}], "temperature": 0, "max_tokens": tokens,
        "stream": True, "stream_options": {"include_usage": True}}))
    reply = connection.getresponse()
    first = last = 0
    text = b""
    while part := reply.read1():
        text += part
        if re.search(rb'"content":"[^"]', part):  # one read may hold the empty first piece, too
            last = time.monotonic()
            first = first or last
    process.terminate()
    process.stderr.close()
    process.wait()
    count = json.loads(re.findall(rb"data: (\{.*\})", text)[-1])["usage"]["completion_tokens"]
    return (count - 1) / (last - first)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sluice")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("-t", "--threads", help="of the engine; fewer than the CPUs if other programs run")
    options = parser.parse_args()
    for name, (flags, tokens) in CASES.items():
        flags = flags + (["-t", options.threads] if options.threads else [])
        once, serve = [], []
        for _ in range(options.samples):
            once.append(one_shot(options.sluice, flags, tokens))
            serve.append(served(options.sluice, flags, tokens))
        a, b = statistics.median(once), statistics.median(serve)
        print(f"{name}: one-shot {a:.2f} tok/s ({min(once):.2f} to {max(once):.2f}), serve {b:.2f} "
              f"({min(serve):.2f} to {max(serve):.2f}), overhead {100 * (a / b - 1):+.1f} %", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
