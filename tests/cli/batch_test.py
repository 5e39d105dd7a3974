#!/usr/bin/env python3
"""`sluice batch`: requests from a file or a pipe, results that a stopped batch does not lose."""
import fcntl
import json
import os
import signal
import subprocess
import time

from cli import ANSWER, QUESTION, SLUICE, TINY, check, environment, run, temp_folder

work = temp_folder("sluice-batch-")
TEXT = ANSWER.decode().strip()


def request(custom_id, content=QUESTION, url=None, **more):
    body = {"messages": [{"role": "user", "content": content}], "temperature": 0, **more}
    return json.dumps({"custom_id": custom_id, "body": body} | ({"url": url} if url else {}))


def write(name, lines):
    path = os.path.join(work, name)
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    return path


def results(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def content(line):
    return line["response"]["body"]["choices"][0]["message"]["content"]


def cached(line):
    return line["response"]["body"]["usage"]["prompt_tokens_details"]["cached_tokens"]


# ---- a file of requests, some of them wrong
wrong = ["nonsense", "[1]", "{}", '{"custom_id": 7, "body": {}}', '{"custom_id": "", "body": {}}',
         '{"custom_id": "w1"}', '{"custom_id": "w2", "method": "GET", "body": {}}',
         '{"custom_id": "w3", "url": "/v1/nothing", "body": {}}', request("w4", temperature=9),
         request("w5", n=2), request("w6", "x" * 100000), request("w7", max_tokens=-3)]
source = write("in.jsonl", [request("a"), "", request("b", "Hello"), *wrong,
                            request("c", url="/v1/messages", max_tokens=50)])
target = os.path.join(work, "out.jsonl")
ran = run("batch", TINY, source, "-o", target, "-c", "512")
check("a batch with wrong lines ends with 1", ran.returncode == 1, ran)
check("it says how many failed", b"3 answered, 12 failed" in ran.stderr, ran.stderr)
lines = results(target)
by_id = {line["custom_id"]: line for line in lines if line["custom_id"]}
check("each line has one result", len(lines) == 15 and {"a", "b", "c"} < set(by_id), lines)
check("the answer is the usual one", content(by_id["a"]) == TEXT, by_id["a"])
check("and of another API in its form",
      by_id["c"]["response"]["body"]["content"][0]["text"] == TEXT, by_id["c"])
check("the same prompt is not read twice",
      by_id["c"]["response"]["body"]["usage"]["cache_read_input_tokens"] == 10 or
      cached(by_id["a"]) == 10, (by_id["a"], by_id["c"]))
for name, word in (("w1", "body"), ("w2", "method"), ("w3", "url"), ("w4", "temperature"),
                   ("w5", "n"), ("w6", "context"), ("w7", "max_tokens")):
    error = by_id[name]["error"]
    check(f"{name} is refused for its {word}", by_id[name]["response"] is None and
          error["code"] in ("invalid_request", "unsupported") and word in error["message"], error)
check("lines without an id are named by their number",
      sorted(line["line"] for line in lines if not line["custom_id"]) == [4, 5, 6, 7, 8], lines)

# ---- again: what is answered stays, what failed is tried again
before = {line["custom_id"]: line for line in lines if line["error"] is None}
ran = run("batch", TINY, source, "-o", target, "-c", "1024")
check("run again it skips what is answered", b"0 answered, 12 failed, 3 were answered before" in
      ran.stderr, ran.stderr)
lines = results(target)
check("a failed line stands there once", len(lines) == 15, len(lines))
check("answered lines are as they were",
      {line["custom_id"]: line for line in lines if line["error"] is None} == before)

# ---- stopped and killed
source = write("many.jsonl", [request(f"id-{i}", f"Question number {i}?", max_tokens=20) for i in range(12)])
target = os.path.join(work, "many-out.jsonl")
whole = run("batch", TINY, source, "-o", os.path.join(work, "whole.jsonl"))
check("a whole batch ends with 0", whole.returncode == 0, whole)
for how, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)):
    process = subprocess.Popen([SLUICE, "batch", TINY, source, "-o", target, "--io", "paced:3MB"],
                               stderr=subprocess.PIPE, env=environment())
    deadline = time.monotonic() + 60
    size = os.path.getsize(target) if os.path.exists(target) else 0
    while (not os.path.exists(target) or os.path.getsize(target) <= size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(how)
    process.communicate()
    check(f"signal {how} ends it with {code}", process.returncode == code, process.returncode)
check("lines were answered meanwhile", 3 <= len(results(target)) < 12, len(results(target)))
with open(target, "a") as file:
    file.write('{"custom_id": "id-11", "response": {"status')  # as a full drive may leave it
ran = run("batch", TINY, source, "-o", target)
check("the next run finishes it", ran.returncode == 0 and b"were answered before" in ran.stderr, ran)


def answers(path):
    return {line["custom_id"]: content(line) for line in results(path)}


check("with the same answers", answers(target) == answers(os.path.join(work, "whole.jsonl")))

# ---- two at once, and files that are none of ours
held = os.open(target, os.O_RDWR)
fcntl.flock(held, fcntl.LOCK_EX)
ran = run("batch", TINY, source, "-o", target)
check("a second batch with the same file is refused", ran.returncode == 2 and b"running" in ran.stderr, ran)
os.close(held)
for name, text in (("notes.txt", "my notes\n"), ("half.jsonl", '{"custom_id":"a","response":{},"error":null}\nmine\n')):
    path = os.path.join(work, name)
    with open(path, "w") as file:
        file.write(text)
    ran = run("batch", TINY, source, "-o", path)
    check(f"{name} is not overwritten", ran.returncode == 2 and open(path).read() == text, ran)
double = write("double.jsonl", [request("a"), request("b"), request("a")])
ran = run("batch", TINY, double, "-o", os.path.join(work, "double-out.jsonl"))
check("two lines with one id are refused", ran.returncode == 2 and b"lines 1 and 3" in ran.stderr, ran)
ran = run("batch", TINY, os.path.join(work, "none.jsonl"), "-o", target)
check("a missing input is named", ran.returncode == 2 and b"none.jsonl" in ran.stderr, ran)
ran = run("batch", TINY, work, "-o", target)
check("a folder is no input", ran.returncode in (2, 5) and ran.stderr.count(b"\n") <= 2, ran)

# ---- a pipe: each line is answered before the next one comes
process = subprocess.Popen([SLUICE, "batch", TINY], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env=environment())
for name in ("one", "two"):
    process.stdin.write(request(name).encode() + b"\n")
    process.stdin.flush()
    line = json.loads(process.stdout.readline())
    check(f"a line on standard input is answered at once: {name}", line["custom_id"] == name and content(line) == TEXT, line)
check("and the second one reads nothing again", cached(line) == 10, line)
out, err = process.communicate(request("three", max_tokens=2).encode())
check("a last line without its end counts", json.loads(out)["custom_id"] == "three" and process.returncode == 0, (out, err))
big = run("batch", TINY, stdin=b'{"custom_id": "big", "body": "' + b"x" * (17 << 20) + b'"}\n' + request("after").encode())
lines = [json.loads(line) for line in big.stdout.splitlines()]
check("a line that is too long is refused and the next one answered",
      "bytes" in lines[0]["error"]["message"] and content(lines[1]) == TEXT, lines[0])
process = subprocess.Popen([SLUICE, "batch", TINY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
process.stdout.close()
process.stdin.write((request("one") + "\n").encode())
process.stdin.close()
check("a reader that is gone ends it", process.wait(timeout=60) == 141, process.returncode)
