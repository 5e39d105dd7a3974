"""Time to the first token of a conversation of 2,000 tokens, with and without the prompt cache.

    python3 tools/dev/first_token.py SLUICE MODEL [FLAGS...]

FLAGS are those of sluice. By default the drive is slow and there is no expert cache, so that prompt and token cost in
proportion what they cost with the released model on a fast drive, whose experts do not fit into RAM either. A MODEL for
it, with as many experts per layer as the released one:

    make_checkpoint MODEL --tokenizer tests/models/dsv41-tiny --shape deepseek-v4.1-flash --layers 6 --experts 384 \\
        --hidden 256 --moe 256 --heads 8 --head-dim 128 --rope-dim 32 --o-groups 2 --o-rank 128 --q-rank 128 \\
        --index-heads 8 --index-dim 64 --engram-vocab 20000

Prints a table.
"""
import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

SENTENCES = 98  # about 2,000 tokens of dsv41-tiny
TEXT = " ".join(f"Line {i} of the report says that the gate {'opens' if i % 3 else 'closes'} at noon." for i in range(SENTENCES))


class Chat:
    def __init__(self, command, cache):
        self.master, slave = pty.openpty()
        self.text = ""
        env = dict(os.environ, XDG_CACHE_HOME=cache, TERM="dumb")
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
        os.close(slave)
        self.until(r"> $")

    def until(self, pattern):
        deadline = time.monotonic() + 600
        while not re.search(pattern, self.text):
            if time.monotonic() > deadline or not select.select([self.master], [], [], 600)[0]:
                sys.exit(f"no {pattern!r} in {self.text[-500:]!r}")
            self.text += os.read(self.master, 65536).decode(errors="replace")
        seen, self.text = self.text, ""
        return seen

    def send(self, line, pattern):
        os.write(self.master, (line + "\r").encode())
        return self.until(pattern)

    def ask(self, line):
        """Prompt tokens, those that were kept, by what, and the seconds to the first token."""
        self.send(line, r"tok/s[^>]*> $")
        stats = self.send("/stats", r"answer +\d+ tokens[\s\S]*> $")
        found = re.search(r"prompt +(\d+) tokens \((.*?)\), ([\d.]+) s", stats)
        kept = re.match(r"(\d+) of them from (.*)", found.group(2))
        return int(found.group(1)), int(kept.group(1)) if kept else 0, kept.group(2) if kept else "", float(found.group(3))

    def load(self, path):
        self.send("/load " + path, r"loaded \d+ messages[\s\S]*> $")

    def end(self):
        os.write(self.master, b"/bye\r")
        try:
            while os.read(self.master, 65536):
                pass
        except OSError:
            pass
        self.process.wait()


def measure(command, cache, folder):
    talk = os.path.join(folder, "talk.json")
    with open(talk, "w") as file:
        messages = [("user", TEXT), ("assistant", "I have read it.")]
        json.dump({"messages": [{"role": role, "content": text} for role, text in messages]}, file)
    rows = {}
    chat = Chat(command, cache)
    chat.load(talk)
    rows["first question"] = chat.ask("When does the gate open?")
    rows["second turn"] = chat.ask("And when does it close?")
    chat.load(talk)
    rows["last message edited"] = chat.ask("Who opens the gate?")
    chat.end()
    chat = Chat(command, cache)
    chat.load(talk)
    rows["the same after a restart"] = chat.ask("When does the gate open?")
    chat.end()
    return rows


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    flags = sys.argv[3:] or ["--io", "paced:20MB", "--cache-slots", "off"]
    command = [*sys.argv[1:3], "--temp", "0", "-n", "4", "--ignore-eos", "--no-calibrate", *flags]
    with tempfile.TemporaryDirectory(prefix="sluice-first-") as folder:
        before = measure([*command, "--prompt-cache", "off"], folder, folder)
        after = measure(command, folder, folder)
    print(f"{' '.join(flags)}\n")
    print("| | prompt | time to first token, without | with the prompt cache | tokens read | rest from |")
    print("|---|---|---|---|---|---|")
    for name, (tokens, _, _, seconds) in before.items():
        _, kept, source, now = after[name]
        print(f"| {name} | {tokens} tokens | {seconds:.2f} s | {now:.2f} s | {tokens - kept} | {source or '-'} |")


main()
