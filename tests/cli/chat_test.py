"""The chat on a terminal: answers, Ctrl-C everywhere, pastes, commands, the terminal left as it was."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from cli import QUESTION, TINY, Pty, check, environment, temp_folder

GREEDY = ("--temp", "0")
PROMPT = r"> "
work = temp_folder("sluice-chat-")


def start(*more, **options):
    chat = Pty(TINY, *GREEDY, *more, **options)
    chat.expect(r"Type a\s+message")
    chat.expect(PROMPT)
    return chat


def leave(chat, how="\x04", code=0):
    chat.send(how)
    check(f"leaves with {code}", chat.wait() == code, chat.process.returncode)
    check("the terminal is as it was", chat.modes_kept())
    check("bracketed paste is off again", chat.text.rfind("\x1b[?2004h") <=
          chat.text.rfind("\x1b[?2004l"), repr(chat.text))


chat = start()
chat.send(QUESTION + "\r")
chat.expect(r"The capital of Australia is Canberra\.")
chat.expect(r"context \d+/\d+")
chat.expect(PROMPT)
check("an answer and its speed line", True)
chat.send("/stats\r")
chat.expect(r"seed \d+")
chat.expect(PROMPT)
chat.send(f"/save {work}/chat.json\r")
chat.expect(r"saved 2 messages")
with open(work + "/chat.json") as file:
    saved = json.load(file)["messages"]
check("/save writes the conversation", [m["role"] for m in saved] == ["user", "assistant"] and
      saved[1]["content"] == "The capital of Australia is Canberra.", saved)
chat.send("/clear\r")
chat.expect(r"conversation is cleared")
chat.send(f"/load {work}/chat.json\r")
chat.expect(r"loaded 2 messages")
chat.expect(PROMPT)
chat.send(f"/load {work}/none.json\r")
chat.expect(r"none\.json")
chat.expect(PROMPT)
for line, reply in (("/help", "/bye"), ("/set temp 0.5", "temp is 0.5"),
                    ("/set temp hot", "/set temp"), ("/set nonsense 1", "/set: unknown option nonsense"), ("/set ram 1GiB", "loop-guard"),
                    ("/nonsense", "unknown command"), ("/set predict 3", "predict is 3")):
    chat.send("\x15" + line + "\r")
    chat.expect(re.escape(reply))
    chat.expect(PROMPT)
    check(line, True)
chat.send("\x15\r")
chat.expect(PROMPT)
check("an empty line sends nothing", True)
leave(chat, "/bye\r")

# ---- Ctrl-C --------------------------------------------------------------------------------------
chat = start("-n", "6000", "--ignore-eos")
chat.send("Tell me a story\r")
chat.expect(r"prompt 100 %")
chat.expect(r"[a-z]{3}")
sent = time.monotonic()
chat.interrupt()
chat.expect(r"\(stopped\)")
check("Ctrl-C stops an answer within a second", time.monotonic() - sent < 3)
chat.expect(PROMPT)
chat.send("half a line")
chat.expect(r"half a line")
chat.interrupt()
chat.expect(PROMPT)
check("Ctrl-C discards a typed line", True)
chat.interrupt()
chat.expect(r"Press Ctrl-C again to quit")
chat.expect(PROMPT)
chat.send("/stats\r")
chat.expect(r"ended by interrupted")
chat.expect(PROMPT)
chat.interrupt()
chat.expect(r"Press Ctrl-C again to quit")
chat.expect(PROMPT)
leave(chat, "\x03", 130)

chat = start("-c", "16000", "--chunk", "1")
chat.send("\x1b[200~" + "word " * 9000 + "\x1b[201~\r")
time.sleep(1.0)
chat.interrupt()
chat.expect(r"stopped; the message was not sent")
chat.expect(PROMPT)
check("Ctrl-C while a prompt is processed", True)
chat.interrupt()
chat.expect(PROMPT)
leave(chat)

# ---- a full context ------------------------------------------------------------------------------
chat = start("-c", "64", "--ignore-eos")
chat.send("hello\r")
chat.expect(r"context of 64 tokens is full")
chat.expect(PROMPT)
chat.send("more\r")
chat.expect(r"prompt has \d+ tokens and the context 64")
chat.expect(PROMPT)
chat.send("/clear\r")
chat.expect(r"conversation is cleared")
chat.expect(PROMPT)
chat.send("hello\r")
chat.expect(r"context \d+/\d+")
chat.expect(PROMPT)
check("the session continues after a full context", True)
leave(chat)

# ---- pastes --------------------------------------------------------------------------------------
def pasted(what, text, typed="", expected=None):
    """Pastes, sends, and looks at the message that was saved."""
    chat = start("-n", "1", "-c", "16000")
    chat.send(typed + "\x1b[200~" + text + "\x1b[201~")
    chat.send("\r")
    chat.expect(r"context \d+/|context 16000")
    full = "context 16000" in chat.text or "no room" in chat.text
    chat.expect(PROMPT)
    path = os.path.join(work, "pasted.json")
    chat.send(f"/save {path}\r")
    chat.expect(r"saved \d messages")
    chat.expect(PROMPT)
    with open(path) as file:
        messages = json.load(file)["messages"]
    want = typed + text if expected is None else expected
    check(what, [m["content"] for m in messages if m["role"] == "user"] == [want],
          repr(messages)[:400])
    leave(chat)


pasted("a pasted word goes into the line", "Canberra", "What is ")
pasted("a three-line paste is one message", "one\ntwo\nthree")
pasted("carriage returns are line ends", "one\r\ntwo\rthree", expected="one\ntwo\nthree")
pasted("tabs and escape codes are text", "a\tb\x1b[31mred\x1b[0m\x01")
pasted("500 lines", "\n".join(f"line {i}" for i in range(500)))
chat = start("-n", "1")
chat.send("\x1b[200~" + "river " * 34000 + "\x1b[201~\r")
chat.expect(r"prompt has \d+ tokens and the context 8192", timeout=120)
chat.expect(PROMPT)
check("a 200 KB paste arrives as one message", True)
leave(chat)
chat = start("-n", "1")
chat.send('"""first\rsecond\rthird"""\r')
chat.expect(r"context \d+/\d+")
chat.expect(PROMPT)
chat.send(f"/save {work}/block.json\r")
chat.expect(r"saved 2 messages")
with open(work + "/block.json") as file:
    check('a """ block is one message',
          json.load(file)["messages"][0]["content"] == "first\nsecond\nthird")
chat.expect(PROMPT)
leave(chat)

# ---- invalid UTF-8 -------------------------------------------------------------------------------
chat = start("-n", "1")
for line in (b"Schl\xfcssel\r", b"Schl\x1b[200~\xfcssel\x1b[201~\r", b"\"\"\"Schl\xfc\rssel\"\"\"\r",
             b"Schl\xc3\r"):
    chat.send(line)
    chat.expect(r"not UTF-8: byte 0x(fc|c3) at offset 4")
    chat.expect(PROMPT)
    check(f"{line}: reported, and the chat continues", True)
chat.send("Schl\u00fcssel\r")
chat.expect(r"context \d+/\d+")
chat.expect(PROMPT)
chat.send(f"/save {work}/utf8.json\r")
chat.expect(r"saved 2 messages")
with open(work + "/utf8.json") as file:
    check("refused lines are not in the conversation", json.load(file)["messages"][0]["content"] == "Schl\u00fcssel")
chat.expect(PROMPT)
chat.send(b"/set system-prompt \xfc\r")
chat.expect(r"/set system-prompt: not UTF-8: byte 0xfc at offset 0")
chat.expect(PROMPT)
leave(chat)

# ---- the terminal --------------------------------------------------------------------------------
chat = start()
chat.process.send_signal(signal.SIGWINCH)
chat.send("/stats\r")
chat.expect(r"no answer yet")
chat.expect(PROMPT)
check("a resize while typing", True)
for number in (signal.SIGTERM, signal.SIGHUP):
    chat.process.send_signal(number)
    check(f"{number.name} at the prompt ends it", chat.wait() == 128 + number and number.name in chat.text, chat.text)
    check("the terminal is as it was", chat.modes_kept())
    chat = start("-n", "6000", "--ignore-eos")
    chat.send("half a line")
    chat.expect("half a line")
chat.send(" \x1b[200~a paste without an end")
time.sleep(0.3)
chat.process.send_signal(signal.SIGTERM)
check("SIGTERM in a paste", chat.wait() == 143 and chat.modes_kept(), chat.text)
chat = start("-n", "6000", "--ignore-eos")
chat.send("Tell me a story\r")
chat.expect(r"prompt 100 %")
chat.expect(r"[a-z]{3}")
chat.process.send_signal(signal.SIGTERM)
check("SIGTERM in an answer", chat.wait() == 143 and "(stopped)" in chat.text and chat.modes_kept(), chat.text)

chat = start(env=environment(NO_COLOR="1"))
chat.send(QUESTION + "\r")
seen = chat.expect(r"context \d+/\d+") + chat.expect(PROMPT)
check("NO_COLOR: no colour codes", not re.search(r"\x1b\[[0-9;]*m", seen), repr(seen))
leave(chat)
chat = start(env=environment(TERM="dumb"))
chat.send(QUESTION + "\r")
seen = chat.expect(r"context \d+/\d+") + chat.expect(PROMPT)
check("TERM=dumb: no escape codes at all", "\x1b" not in seen, repr(seen))
leave(chat)
chat = start()
chat.send(QUESTION + "\r")
seen = chat.expect(r"context \d+/\d+")
chat.expect(PROMPT)
check("the speed line is dimmed on a terminal", "\x1b[2m" in seen, repr(seen))
leave(chat)

with tempfile.TemporaryFile() as out:
    chat = start(stdout=out)
    chat.send(QUESTION + "\r")
    chat.expect(r"context \d+/\d+")
    chat.expect(PROMPT)
    leave(chat)
    out.seek(0)
    check("only the answer goes to a redirected output",
          out.read() == b"The capital of Australia is Canberra.\n")

history = os.path.join(environment()["XDG_STATE_HOME"], "sluice/history")
check("history is in the state folder, readable only by its owner",
      os.path.exists(history) and os.stat(history).st_mode & 0o077 == 0)
