"""The chat's line on terminals of several sizes and kinds: what stands on the screen, key by key."""
import fcntl
import json
import os
import re
import signal
import struct
import termios
import time
import unicodedata

from cli import QUESTION, TINY, Pty, check, environment, temp_folder

work = temp_folder("sluice-terminal-")
PROMPT = r"> "


class Screen:
    """What a terminal shows: the codes that the program may use, and no others."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column = [{}], 0, 0

    def feed(self, text):
        for code, count, final, char in re.findall(r"(\x1b\[\??(\d*)(?:;\d+)*([A-Za-z]))|([^\x1b])", text, re.S):
            if char:
                self.put(char)
                continue
            count = int(count or 1)
            if final == "A":
                self.row = max(self.row - count, 0)
            elif final == "B":
                self.row = min(self.row + count, len(self.lines) - 1)
            elif final == "C":
                self.column = min(self.column + count, self.columns - 1)
            elif final == "J" and not code.endswith("2J"):
                self.lines[self.row] = {k: v for k, v in self.lines[self.row].items() if k < self.column}
                del self.lines[self.row + 1:]
            elif final not in "mhl":
                check(f"an expected code: {code!r}", False)
        return self

    def put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append({})
        elif char == "\b":
            self.column = max(self.column - 1, 0)
        elif char >= " ":
            width = 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if self.column + width > self.columns:
                self.put("\r"), self.put("\n")
            self.lines[self.row][self.column] = char
            self.column += width

    def text(self):
        out = []
        for line in self.lines:
            row, column = "", 0
            for at in sorted(line):
                row += " " * (at - column) + line[at]
                column = at + (2 if unicodedata.east_asian_width(line[at]) in "WF" else 1)
            out.append(row.rstrip())
        return out


def start(*more, columns=80, rows=24, **options):
    chat = Pty(TINY, "--temp", "0", *more, **options)
    resize(chat, columns, rows)
    chat.expect(r"Type a\s+message")
    chat.expect(PROMPT)
    return chat


def resize(chat, columns, rows):
    fcntl.ioctl(chat.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def settle(chat, seconds=0.15):
    while chat.read(seconds):
        pass


def screen(chat, columns=80, rows=24):
    """What stands on the screen since the last expect(), behind the prompt that it saw."""
    settle(chat)
    return Screen(columns, rows).feed("> " + chat.text).text()


def messages(chat, name="m.json"):
    path = os.path.join(work, name)
    chat.send(f"/save {path}\r")
    chat.expect(r"saved \d+ message")
    chat.expect(PROMPT)
    with open(path) as file:
        return [m["content"] for m in json.load(file)["messages"] if m["role"] == "user"]


def leave(chat):
    chat.send("\x03\x04")
    check("it leaves, and the terminal is as it was", chat.wait() == 0 and chat.modes_kept(), chat.text)


# ---- keys ------------------------------------------------------------------------------------------
for term in ("xterm", "tmux-256color", "no-such-terminal"):
    chat = start("-n", "1", env=environment(TERM=term))
    check(f"{term}: nothing but the program's own lines", "terminfo" not in chat.text and "Cannot" not in chat.text)
    chat.send("b c\x1b[1;5D\x1b[15~\x1b[<0;3;3M\x1b[H" + "a \x1b[F" + "d\x1b[1~" + "\x1b[3~" + "A\x1b[5~\x1bOF!")
    check(f"{term}: keys move, and unknown ones are no text", screen(chat) == ["> A b cd!"], screen(chat))
    leave(chat)
chat = start("-n", "1", columns=20, env=environment(TERM="dumb"))
chat.send("one two three four five\x1b[1~zero \x1b[4~!")
settle(chat)
check("TERM=dumb: edited in one row without any code", "\x1b" not in chat.text, repr(chat.text))
chat.send("\r")
chat.expect(r"token")
chat.expect(PROMPT)
check("and sent whole", messages(chat) == ["zero one two three four five!"])
leave(chat)

# ---- several lines, wide characters, narrow screens ------------------------------------------------
chat = start("-n", "1", columns=40, rows=10)
chat.send("first\x1b\rsecond\x1b[13;2uthird\x1b[A\x1b[F!")
check("Alt-Enter and Shift-Enter begin a line", screen(chat, 40, 10) == ["> first", "second!", "third"], screen(chat, 40, 10))
chat.send("\r")
chat.expect(r"token")
chat.expect(PROMPT)
chat.send("\x1b[A")
check("Up brings it back with its lines", screen(chat, 40, 10) == ["> first", "second!", "third"], screen(chat, 40, 10))
chat.send("\x15\x1b[A\x15\x03")
chat.expect(PROMPT)
check("it was one message", messages(chat) == ["first\nsecond!\nthird"])
wide = "日本語" * 9
chat.send(wide + "\x1b[D\x7f")
want = ["> " + wide[:18], wide[18:25] + wide[26:]]
check("wide characters are broken where they fit", screen(chat, 40, 10) == want, screen(chat, 40, 10))
leave(chat)

chat = start("-n", "1", columns=60)
chat.send("word " * 15)
settle(chat)
resize(chat, 30, 24)
chat.process.send_signal(signal.SIGWINCH)
chat.send("end")
settle(chat, 0.4)
last = chat.text[chat.text.rfind("\x1b[J") + 3:]
check("after a resize the line is drawn once, for the new width",
      Screen(30, 24).feed(last).text()[0] == "> " + "word " * 5 + "wo", Screen(30, 24).feed(last).text())
leave(chat)

chat = start("-n", "3", columns=16, rows=10)
chat.send("word " * 300 + "\r")
seen = chat.expect(r"token")
check("16 columns: no progress line is wider", all(len(p) < 16 for p in re.findall(r"\r(prompt[^\r\n]*)", seen)), seen)
chat.expect(PROMPT)
leave(chat)

# ---- pastes, blocks and commands ---------------------------------------------------------------------
chat = start("-n", "1")
chat.send("see \x1b[200~one\ntwo\nthree\x1b[201~\x7f it\r")
chat.expect(r"token")
chat.expect(PROMPT)
check("Backspace takes a whole paste away", messages(chat) == ["see  it"])
chat.send("/clear\r\x1b[200~// x\ncode\x1b[201~\r")
chat.expect(r"token")
chat.expect(PROMPT)
check("a paste that begins with a slash is a message", messages(chat) == ["// x\ncode"])
chat.send('/clear\r"""/etc\rhosts"""\r')
chat.expect(r"token")
chat.expect(PROMPT)
check("so is a block", messages(chat) == ["/etc\nhosts"])
chat.send("/nosuch thing\r")
chat.expect(r"unknown command /nosuch")
chat.expect(PROMPT)
check("an unknown command stays on the line", screen(chat)[-1] == "> /nosuch thing", screen(chat))
chat.send("\x15/cl\t\r")
chat.expect(r"conversation is cleared")
chat.expect(PROMPT)
for line, reply in (("/set stop \"Syn\"", "stop is Syn"), ("/set stop", "stop is cleared"), ("/set ctx-size 9", "when sluice starts"),
                    ("/show", "scalar|avx|cpu|CPU"), ("/undo", "no message yet"), (f"/file {work}/none", "none"),
                    ("/save ~/kept.json   ", "saved 0 messages")):
    chat.send(line + "\r")
    chat.expect(reply)
    chat.expect(PROMPT)
    check(line, True)
check("~ is the home folder", os.path.exists(os.path.join(environment()["HOME"], "kept.json")))
chat.send(QUESTION + "\r")
chat.expect(r"token.* · context \d+/8192")
chat.expect(PROMPT)
chat.send("/edit\r")
chat.expect(r"taken back")
chat.expect(PROMPT)
check("/edit puts the message on the line", screen(chat)[-1] == "> " + QUESTION, screen(chat))
chat.send("\r")
chat.expect(r"token")
chat.expect(PROMPT)
chat.send("/retry\r")
chat.expect(r"token")
chat.expect(PROMPT)
check("/retry asks again in its place", messages(chat) == [QUESTION])
leave(chat)

# ---- an answer streams ----------------------------------------------------------------------------------
chat = start("-n", "400", "--ignore-eos")
chat.send("Tell me a story\r")
chat.expect(r"[a-z]{3}")
chat.send("typed\x1b[A ahead")
seen = chat.expect(r"400 tokens")
check("what is typed meanwhile is not echoed", "typed" not in seen and "^[" not in seen, seen[-300:])
chat.expect(PROMPT)
chat.send("!")
settle(chat)
check("it stands on the next line", "ahead!" in "".join(screen(chat)), screen(chat))
leave(chat)
chat = start("-c", "16000", "--chunk", "1")
chat.send("\x1b[200~" + "word\n" * 60 + "\x1b[201~" + " word" * 3000 + "\r")
time.sleep(0.7)
chat.interrupt()
chat.expect(r"stopped; the message was not sent")
chat.expect(PROMPT)
settle(chat)
check("Ctrl-C in a prompt: the message is on the line again", "pasted" in chat.text, repr(chat.text[-200:]))
leave(chat)

# ---- stopped, and gone on with -----------------------------------------------------------------------------
for during in ("", "Tell me a story\r"):
    chat = start("-n", "4000", "--ignore-eos")
    chat.send(during)
    if during:
        chat.expect(r"[a-z]{3}")
    chat.process.send_signal(signal.SIGTSTP)
    deadline = time.monotonic() + 5
    while not chat.modes_kept() and time.monotonic() < deadline:
        chat.read(0.05)
    settle(chat)
    check("stopped: the terminal is as it was found", chat.modes_kept() and chat.text.rfind("\x1b[?2004l") > chat.text.rfind("\x1b[?2004h"),
          repr(chat.text[-200:]))
    chat.process.send_signal(signal.SIGCONT)
    settle(chat, 0.3) if not during else chat.read(0.5)
    check("gone on with: keys and pastes are its own again", not chat.modes_kept() and "\x1b[?2004h" in chat.text)
    if during:  # on an empty line a second Ctrl-C, that of leave(), would quit
        chat.interrupt()
        chat.expect(PROMPT)
    leave(chat)

# ---- stderr elsewhere, standard input typed ----------------------------------------------------------------
with open(os.path.join(work, "log"), "wb") as log:
    chat = Pty(TINY, "-n", "1", stderr=log)
chat.expect(PROMPT)
chat.send("x " * 3000 + "\r")
chat.expect(r"\n")
chat.expect(PROMPT)
chat.send(f"/save {work}/long.json\r")
deadline = time.monotonic() + 30
while not os.path.exists(work + "/long.json") and time.monotonic() < deadline:
    chat.read(0.05)
with open(work + "/long.json") as file:
    saved = json.load(file)["messages"]
check("with stderr in a file a line of 6,000 bytes is whole", len(saved[0]["content"]) == 6000, len(saved[0]["content"]))
chat.send("\x04")
check("it leaves", chat.wait() == 0)
typed = Pty(TINY, "-p", "-", "--json", "-n", "1")
typed.expect(r"Ctrl-D")
typed.send("river " * 1500 + "\r\x04")
seen = typed.expect(r"prompt_tokens\":(\d+),")
check("-p - takes a typed line of 9,000 bytes whole", int(re.findall(r"prompt_tokens\":(\d+)", seen)[0]) > 1400, seen[-200:])
typed.wait()
