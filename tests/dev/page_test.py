#!/usr/bin/env python3
"""Drives tools/server/page.html in headless Chromium: against a fake server, or against a real one.

    page_test.py [--pictures FOLDER]                    the page with tests/dev/fake_server.py
    page_test.py --server SLUICE MODEL [--pictures F]   the page as `SLUICE serve MODEL` serves it

Needs Debian's chromium. --pictures keeps screenshots at two widths in both themes. Exits with 1 if a check fails.
"""
import argparse
import http.client
import functools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from browser import Browser
from fake_server import ANSWERS, KEY, SHORT, FakeServer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "tools/server/page.html"
failures = []


def check(what, holds, detail=""):
    print(("ok    " if holds else "FAIL  ") + what + ("" if holds else f"  [{detail}]"))
    if not holds:
        failures.append(what)


def equal(what, got, wanted):
    check(what, got == wanted, f"{got!r}, not {wanted!r}")


class Tab(Browser):
    def start(self, url):
        self.open(url)
        self.until("byId('state').textContent === 'ready'")

    def clear(self):
        self.js("sessionStorage.clear(); localStorage.clear(); messages = []; setPrompt('')")
        self.open("about:blank")

    def write(self, text):
        self.js("byId('prompt').focus()")
        self.type(text)

    def ask(self, text, wait=True):
        self.write(text)
        self.key("Enter")
        if wait:
            self.until("!running", 60)

    def last(self):
        return self.js("views.at(-1)?.body.innerText")

    def press(self, label):
        """Clicks the last visible button of that text."""
        self.js(f"[...document.querySelectorAll('button')].filter((b) => b.innerText.trim() === {json.dumps(label)} && "
                "b.offsetParent).at(-1).click()")

    def problem(self):
        return self.js("byId('problem').hidden ? '' : byId('problem').innerText")


def plain_answers(tab, server):
    tab.start(server.url)
    equal("the message box has the focus", tab.js("document.activeElement.id"), "prompt")
    tab.ask("What is the capital of Australia?")
    equal("an answer arrives", tab.last(), SHORT)
    body = server.log[-1]["body"]
    equal("it is streamed, with usage", (body["stream"], body["stream_options"]), (True, {"include_usage": True}))
    equal("the message as typed", body["messages"], [{"role": "user", "content": "What is the capital of Australia?"}])
    check("nothing is set that was not asked for", not {"temperature", "top_p", "seed", "max_tokens", "reasoning_effort"} & set(body))
    check("tokens and cached tokens are shown", "prompt 2,011, 1,980 cached" in tab.js("views.at(-1).node.innerText"))
    equal("the state is announced", tab.js("byId('announcer').textContent"), "The answer is complete")
    equal("the context's use", tab.until("byId('room').textContent"), "2,100 of 8,192 tokens")
    tab.write("two")
    tab.key("Enter", shift=True)
    tab.js("document.execCommand('insertText', false, '\\nlines')") if "\n" not in tab.js("byId('prompt').value") else tab.type("lines")
    equal("Shift+Enter is a new line", tab.js("byId('prompt').value"), "two\nlines")
    tab.js("setPrompt('')")


def thinking(tab, server):
    tab.start(server.url)
    server.delay_s = 0.03
    tab.ask("think about it", wait=False)
    tab.until("document.querySelector('.thinking summary')?.textContent.startsWith('Thinking…')")
    check("thinking is folded", not tab.js("document.querySelector('.thinking').open"))
    tab.js("document.querySelector('.thinking summary').click()")
    tab.until("!running", 60)
    check("opened by the user it stays open", tab.js("document.querySelector('.thinking').open"))
    check("its time is told", tab.js("document.querySelector('.thinking summary').textContent").startswith("Thought for "))
    equal("the answer is apart", tab.last(), SHORT)
    server.delay_s = 0.002
    tab.ask("and now?")
    sent = server.log[-1]["body"]["messages"][1]
    equal("reasoning goes back apart", (sent["content"], sent["reasoning_content"][:8]), (SHORT, "The user"))
    tab.ask("only think")
    check("thinking that is all there is is unfolded", tab.js("views.at(-1).thinking.open"))
    tab.ask("think")
    check("other thinking stays folded", not tab.js("views.at(-1).thinking.open"))


def markdown(tab, server):
    tab.start(server.url)
    tab.ask("markdown")
    body = "views.at(-1).body"
    equal("blocks", tab.js(f"[...{body}.children].map((n) => n.tagName + '.' + n.className).join(' ')"),
          "H3. P. DIV. BLOCKQUOTE. DIV.scroll DIV.code P.")
    equal("inline code, bold and emphasis", tab.js(f"['code', 'strong', 'em'].map((t) => {body}.querySelector('p ' + t).textContent).join()"),
          "water level,sluice,gate")
    equal("nested list", tab.js(f"[...{body}.querySelectorAll('ol > li > ul > li')].map((n) => n.textContent).join()"), "made of wood,or of steel")
    equal("table", tab.js(f"[...{body}.querySelectorAll('td')].map((n) => n.textContent).join()"), "gate,oak,60 %,gear,iron,40 %")
    code = "int main() {\n    return 2 * 3 * 4;  // `not` **bold** <b>here</b>\n}"
    equal("code as it is", tab.js(f"{body}.querySelector('pre').textContent"), code)
    equal("its language", tab.js(f"{body}.querySelector('.code span').textContent"), "cpp")
    equal("stars and underscores inside words stay", tab.js(f"{body}.lastChild.textContent"), "It costs 2*3*4 coins, and snake_case_names stay. ---")
    equal("streamed and shown at once are equal", tab.js(f"""(() => {{
        const box = document.createElement('div');
        new GrowingText(box).show(messages.at(-1).content);
        return box.isEqualNode({body}) || box.textContent === {body}.textContent; }})()"""), True)
    tab.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    tab.js(f"{body}.querySelector('.code button').click()")
    equal("code is copied", tab.until("navigator.clipboard.readText()"), code)


def hostile(tab, server):
    tab.start(server.url)
    tab.ask("hostile")
    equal("nothing of an answer becomes an element", tab.js("log.querySelectorAll('img, script, svg, iframe, a, b').length"), 0)
    text = tab.js("views.at(-1).body.textContent")
    check("tags are text", "<img src=x onerror=alert(1)>" in text and "<svg onload=alert(3)>" in text)
    check("entities are text", "&lt;escaped&gt;" in text)
    check("escape sequences and bidi overrides are visible", "␛[31mred␛[0m" in text and "⟨U+202E⟩evil⟨U+202C⟩" in text)
    check("no script of an answer ran", not any("dialog" in line for line in tab.console), tab.console)
    equal("long words make nothing wider", tab.js("log.scrollWidth <= log.clientWidth"), True)
    arabic = "[...log.querySelectorAll('.body > p')].find((p) => p.textContent.includes('hello'))"
    equal("right-to-left text", tab.js(f"getComputedStyle({arabic}).direction"), "rtl")
    check("lists do not nest without end", tab.js("log.querySelectorAll('ul ul ul ul ul ul ul ul ul').length") == 0)
    begin = time.monotonic()
    lines = ["'`'.repeat(n)", "'**a '.repeat(n)", "'`` ` '.repeat(n)", "'*a **b '.repeat(n)", "'> '.repeat(n)", "'- '.repeat(n) + 'x'",
             "'x|y\\n' + ' '.repeat(n) + 'x|'", "'| '.repeat(n) + '\\n' + '|-'.repeat(n) + 'x'", "'```' + ' '.repeat(n) + '`x'",
             "'~'.repeat(n) + '`'", "' '.repeat(n) + '*' + ' '.repeat(n) + 'x'", "'#'.repeat(n)", "'1'.repeat(n)"]
    tab.js(f"for (const n of [60000]) for (const t of [{', '.join(lines)}]) {{ blocksOf(t); inlineNodes(t); visible(t); }}")
    check("no text takes long", time.monotonic() - begin < 3, f"{time.monotonic() - begin:.1f} s")
    begin = time.monotonic()
    tab.ask("big")
    equal("100 KB of code", tab.js("views.at(-1).body.querySelector('pre').textContent.length"), len(ANSWERS["big"]) - len("```\n```\nThe end.") - 1)
    check("is shown while it arrives", time.monotonic() - begin < 10, f"{time.monotonic() - begin:.1f} s")


def stopping(tab, server):
    tab.start(server.url)
    for name, act in (("Esc", lambda: tab.key("Escape")), ("the Stop button", lambda: tab.press("Stop"))):
        tab.ask("endless", wait=False)
        tab.until("messages.at(-1).content.length > 40")
        act()
        tab.until("!running")
        check(f"{name} keeps what was written", tab.last().startswith("and so on and so on"))
        end = time.monotonic() + 5
        while server.log[-1]["ended"] is None and time.monotonic() < end:
            time.sleep(0.05)
        equal(f"after {name} the server's client is gone", server.log[-1]["ended"], "gone")
        equal(f"after {name} the message box has the focus", tab.js("document.activeElement.id"), "prompt")
    equal("no error is shown for it", tab.problem(), "")
    tab.ask("endless", wait=False)
    tab.until("messages.at(-1).content.length > 2000")
    check("the end is in view while it grows", tab.js("log.scrollTop > 0 && follows"))
    tab.js("log.scrollTop = 0")
    tab.until("!byId('latest').hidden")
    time.sleep(0.3)
    equal("who scrolls up stays there", tab.js("log.scrollTop"), 0)
    tab.press("Latest ↓")
    check("and comes back", tab.until("byId('latest').hidden && log.scrollTop > 0"))
    tab.key("Escape")
    tab.until("!running")
    tab.ask("slow", wait=False)
    tab.until("document.querySelector('.waiting')?.textContent === 'Queued, place 3'")
    tab.until("document.querySelector('.waiting')?.textContent === 'Reading the prompt 37 %'")
    check("progress is shown while a prompt is read", True)
    tab.until("!running")


def changing(tab, server):
    tab.start(server.url)
    tab.ask("first")
    tab.ask("markdown")
    tab.press("Regenerate")
    tab.until("!running")
    equal("an answer is made again", [m["content"] for m in server.log[-1]["body"]["messages"]], ["first", SHORT, "markdown"])
    tab.write("a draft")
    tab.press("Edit")
    equal("the last message is in the box", tab.js("byId('prompt').value"), "markdown")
    tab.key("Escape")
    equal("Esc brings the draft back", tab.js("byId('prompt').value"), "a draft")
    equal("and changes nothing", tab.js("messages.length"), 4)
    tab.press("Edit")
    tab.js("setPrompt('edited')")
    tab.press("Send again")
    tab.until("!running")
    equal("the edited message is sent", [m["content"] for m in server.log[-1]["body"]["messages"]], ["first", SHORT, "edited"])
    equal("the draft is back", tab.js("byId('prompt').value"), "a draft")
    tab.open(server.url)
    tab.until("messages.length === 4")
    equal("reloading keeps conversation and draft", (tab.js("views.length"), tab.js("byId('prompt').value")), (4, "a draft"))
    equal("but not beyond the tab", tab.js("localStorage.length"), 0)
    folder = tempfile.mkdtemp(prefix="page-test-")
    tab.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
    tab.js("settings.system = 'Be brief.'; byId('export').click()")
    path = pathlib.Path(folder, "conversation.json")
    end = time.monotonic() + 5
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    equal("the export is what --messages reads", [(m["role"], m["content"]) for m in json.loads(path.read_text())["messages"]],
          [("system", "Be brief."), ("user", "first"), ("assistant", SHORT), ("user", "edited"), ("assistant", SHORT)])
    shutil.rmtree(folder)
    tab.press("New")
    equal("a new conversation is empty", tab.js("messages.length + views.length"), 0)
    tab.press("Bring the last one back")
    equal("and the last one comes back", tab.js("messages.length"), 4)


def settings(tab, server):
    tab.start(server.url)
    tab.press("Settings")
    for name, value in (("system", "Be brief."), ("temperature", "0.5"), ("top_p", "0.9"), ("max_tokens", "77"), ("seed", "42"), ("thinking", "high")):
        tab.js(f"document.querySelector('#settings [name={name}]').value = '{value}'")
    tab.js("document.querySelector('#settings [name=keep]').checked = true")
    tab.press("Save")
    tab.ask("with settings")
    body = server.log[-1]["body"]
    equal("settings are sent", [body[n] for n in ("temperature", "top_p", "max_tokens", "seed", "reasoning_effort")], [0.5, 0.9, 77, 42, "high"])
    equal("the system message comes first", body["messages"][0], {"role": "system", "content": "Be brief."})
    check("kept in the browser on request", tab.js("localStorage.getItem('sluice.messages')") is not None)
    tab.press("Settings")
    tab.js("document.querySelector('#settings [name=keep]').checked = false")
    tab.js("document.querySelector('#settings [name=temperature]').value = '-1'")
    tab.press("Save")
    check("a value out of range is not taken", tab.js("byId('settings').open && settings.temperature") == "0.5")
    tab.key("Escape")
    check("Esc closes the dialog", not tab.js("byId('settings').open"))
    tab.press("Settings")
    tab.js("document.querySelector('#settings [name=keep]').checked = false")
    tab.press("Save")
    equal("and forgotten on request", tab.js("Object.keys(localStorage).join()"), "")


def problems(tab, server):
    tab.start(server.url)
    tab.ask("busy")
    check("a full queue is told, with the time", "queue is full" in tab.problem() and "Try again in 2 s" in tab.problem(), tab.problem())
    tab.until("byId('problem').innerText.includes('Try again\\n') || /Try again$/m.test(byId('problem').innerText)")
    tab.press("Try again")
    tab.until("messages.at(-1).role === 'assistant' && !running")
    equal("trying again answers", (tab.last(), tab.problem()), (SHORT, ""))
    tab.ask("too long")
    check("a full context is told", "the prompt has 9000 tokens" in tab.problem(), tab.problem())
    equal("the text is not lost", tab.js("messages.at(-1).content"), "too long")
    tab.press("Close")
    tab.ask("full")
    check("a context that fills up is told", "The context of 8,192 tokens is full" in tab.problem(), tab.problem())
    tab.ask("fails")
    check("an error in the stream is told", "expert 7" in tab.problem(), tab.problem())
    equal("and what came before stays", tab.last(), "This answer fails")
    check("the end stays in view", tab.until("byId('latest').hidden && log.scrollHeight - log.scrollTop - log.clientHeight < 2"))
    tab.ask("cut")
    check("a lost connection is told", "connection was lost" in tab.problem(), tab.problem())
    tab.write("a draft")
    server.go()
    tab.until("byId('state').textContent === 'unreachable'")
    tab.key("Enter")
    tab.until("!running")
    check("a server that is gone is told", "cannot be reached" in tab.problem(), tab.problem())
    equal("and the text is kept", tab.js("messages.at(-1).content"), "a draft")


def key(tab, server):
    server.needs_key = True
    tab.open(server.url)
    tab.until("byId('state').textContent === 'needs a key'")
    check("without it nothing is measured", tab.js("byId('readings').hidden"))
    tab.press("Enter the key")
    tab.type("wrong")
    tab.key("Enter")
    tab.until("byId('problem').innerText.includes('API key')")
    tab.ask("hello")
    check("a wrong key asks again", tab.js("byId('key').open"))
    tab.type(KEY)
    tab.key("Enter")
    tab.until("messages.at(-1)?.role === 'assistant' && !running")
    equal("with the key, the question is answered", tab.last(), SHORT)
    equal("the key is in this tab only", tab.js("[sessionStorage.getItem('sluice.key'), localStorage.length].join()"), f"{KEY},0")
    server.needs_key = False


def live(tab, server):
    tab.start(server.url)
    tab.ask("What is the capital of Australia?")
    tab.until("byId('limit').textContent.includes('bottleneck: drive')")
    tab.until("!byId('map-section').hidden")
    label = tab.js("byId('map').getAttribute('aria-label')")
    digits = "".join(server.experts_shown()["cached"])
    counts = [sum(digits.count(d) for d in both) for both in ("13", "23")]
    check("the map says what it shows", all(f"{n:,} (" in label for n in counts) and "16,512 experts (43 layers of 384)" in label, label)
    check("the pictures have texts", tab.js("['map', 'spark'].every((id) => byId(id).getAttribute('aria-label'))"))
    tab.js("expertMap = {layers: 2, experts: 4, cached: ['1020', '0003']}; drawMap()")
    colours = tab.js("""(() => {
        const c = byId('map'), pen = c.getContext('2d');
        const at = (layer, expert) => [...pen.getImageData((expert + .4) * c.width / 4, (layer + .4) * c.height / 2, 1, 1).data].slice(0, 3).join();
        return [at(0, 0), at(0, 2), at(1, 3), at(1, 0), at(0, 1)]; })()""")
    check("RAM, VRAM and neither have their colours", colours[1] == colours[2] and colours[3] == colours[4] and len(set(colours)) == 3, colours)
    server.has_vram = False
    tab.until("byId('vram-key').hidden && byId('tiers').childElementCount === 1")
    check("without VRAM there is only RAM", True)
    server.has_vram = True


def keyboard(tab, server):
    tab.start(server.url)
    tab.ask("markdown")
    tab.js("document.body.tabIndex = -1; document.body.focus()")
    seen, invisible = [], []
    for _ in range(40):
        tab.key("Tab")
        if tab.js("document.activeElement === document.body"):
            break
        name = tab.js("(document.activeElement.id || document.activeElement.innerText || document.activeElement.tagName).trim().slice(0, 20)")
        if seen and name == seen[0]:
            break
        seen.append(name)
        shown = tab.js("""(() => { const e = document.activeElement, s = getComputedStyle(e.id === 'prompt' ? byId('composer') : e);
            return s.outlineStyle !== 'none' && s.outlineWidth !== '0px' || s.boxShadow !== 'none'; })()""")
        if not shown:
            invisible.append(name)
    check("everything is reached by Tab", {"skip", "new", "export", "open-settings", "theme", "log", "prompt", "send", "Copy", "Edit", "Regenerate"} <= set(seen), seen)
    equal("and shows that it has the focus", invisible, [])
    equal("the first is the link past all", seen[0], "skip")


def contrast(tab, server):
    tab.start(server.url)
    ratios = tab.js("""(() => {
        const out = [];
        const part = (v) => (v /= 255, v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
        const light = (hex) => [1, 3, 5].map((i) => part(parseInt(hex.slice(i, i + 2), 16))).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
        const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
        for (const theme of ['light', 'dark']) {
            document.documentElement.dataset.theme = theme;
            const of = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
            for (const [front, back, least] of [['text', 'page', 7], ['text', 'surface', 7], ['text', 'tint', 7], ['text', 'code', 7], ['muted', 'page', 4.5],
                ['muted', 'surface', 4.5], ['muted', 'code', 4.5], ['muted', 'tint', 4.5], ['accent', 'surface', 4.5], ['on-accent', 'accent', 4.5], ['text', 'danger-tint', 7],
                ['ram', 'empty', 3], ['vram', 'empty', 3], ['ram', 'surface', 3], ['vram', 'surface', 3], ['edge', 'surface', 3], ['edge', 'page', 3]])
                if (ratio(of(front), of(back)) < least) out.push(`${theme}: ${front} on ${back}: ${ratio(of(front), of(back)).toFixed(2)}`);
        }
        applyTheme();
        return out; })()""")
    equal("contrast is enough in both themes", ratios, [])
    tab.media(prefers_reduced_motion="reduce")
    tab.js("document.querySelector('#welcome').classList.add('waiting')")
    equal("no motion where none is wanted", tab.js("getComputedStyle(document.querySelector('#welcome'), '::after').animationName"), "none")
    tab.media(prefers_color_scheme="dark")
    check("dark as the system", tab.until("document.documentElement.dataset.theme === 'dark'"))
    tab.js("byId('theme').click()")
    equal("or as chosen", tab.js("document.documentElement.dataset.theme"), "light")
    tab.open(server.url)
    equal("which lasts", tab.js("document.documentElement.dataset.theme"), "light")
    tab.js("localStorage.clear()")


def pictures(tab, server, folder):
    tab.start(server.url)
    tab.ask("think about the capital of Australia")
    tab.ask("markdown")
    for theme in ("light", "dark"):
        tab.media(prefers_color_scheme=theme)
        for width in (1280, 400):
            tab.resize(width, 800)
            time.sleep(0.4)
            equal(f"{theme}, {width} px: nothing is wider than the window", tab.js("document.documentElement.scrollWidth"), width)
            equal(f"{theme}, {width} px: the pictures are folded on narrow screens only", tab.js("byId('pictures').open"), width > 860)
            tab.js("scrollToEnd()")
            if folder:
                tab.picture(f"{folder}/{theme}_{width}.png")
                tab.js("byId('open-settings').click()")
                tab.picture(f"{folder}/{theme}_{width}_settings.png")
                tab.key("Escape")
    if folder:
        tab.js("byId('pictures').open = true")
        time.sleep(2.5)
        tab.picture(f"{folder}/dark_400_live.png")
        tab.media(prefers_color_scheme="light")
        for width in (1280, 400):
            tab.resize(width, 800)
            tab.js("messages = []; showConversation()")
            for wanted in ("hostile", "fails"):
                tab.ask(wanted)
                tab.picture(f"{folder}/light_{width}_{wanted}.png")
            server.delay_s = 0.05
            tab.ask("think slow", wait=False)
            tab.until("messages.at(-1).reasoning.length > 100")
            tab.picture(f"{folder}/light_{width}_thinking.png")
            tab.key("Escape")
            server.delay_s = 0.002
    tab.resize(1280, 800)
    tab.media(prefers_color_scheme="light")


def with_fake(folder):
    tests = [plain_answers, thinking, markdown, hostile, stopping, changing, settings, key, live, keyboard, contrast,
             problems, functools.partial(pictures, folder=folder)]
    tab = Tab()
    try:
        for test in tests:
            print(f"-- {getattr(test, '__name__', 'pictures')}")
            server = FakeServer(PAGE)
            server.delay_s = 0.002
            tab.console.clear()
            test(tab, server)
            # The browser itself reports statuses of 400 and more, which the page handles, and what this test reads.
            odd = [line for line in tab.console if "Failed to load resource" not in line and "getImageData" not in line]
            equal("the console is empty", odd, [])
            equal("nothing else was fetched", [e["path"] for e in server.log if e["path"] != "/v1/chat/completions"], [])
            tab.clear()
    finally:
        tab.close()


def is_ready(port):
    """Whether the server has loaded its model; it listens before."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def with_real(program, model, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A slow drive and a small cache: prompts take long enough to be stopped.
    server = subprocess.Popen([program, "serve", model, "--port", str(port), "--device", "cpu", "--io", "paced:10MB", "--cache-slots", "60"],
                              stderr=subprocess.DEVNULL)
    tab = Tab()
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and not is_ready(port):
            time.sleep(0.1)
        tab.start(f"http://127.0.0.1:{port}/")
        tab.js("settings.temperature = '0'")
        tab.ask("What is the capital of Australia?")
        equal("the model answers", tab.last(), "The capital of Australia is Canberra.")
        check("usage is shown", " tokens" in tab.js("views.at(-1).node.innerText"), tab.js("views.at(-1).node.innerText"))
        tab.until("!byId('map-section').hidden")
        check("the map is drawn", "experts (" in tab.js("byId('map-text').textContent"))
        check("the speed and what binds", "bottleneck: " in tab.until("byId('speed').textContent.startsWith('–') ? '' : byId('limit').textContent"))
        tab.js("settings.thinking = 'high'; settings.max_tokens = '30'")
        tab.ask("Why?")
        check("thinking is shown or an answer is", tab.js("messages.at(-1).content.length + messages.at(-1).reasoning.length") > 0)
        equal("no error", tab.problem(), "")
        tab.js("settings.thinking = ''; settings.max_tokens = ''")
        tab.ask("A long story. " * 200, wait=False)
        tab.until("byId('work').textContent.startsWith('Reading a prompt')")
        tab.key("Escape")
        stopped = time.monotonic()
        tab.until("byId('work').textContent.startsWith('Idle')", 30)
        check("Esc stops the reading of a prompt", time.monotonic() - stopped < 3, f"{time.monotonic() - stopped:.1f} s")
        equal("and keeps the message", tab.js("messages.at(-1).content.length"), len("A long story. " * 200) - 1)
        tab.press("Edit")
        tab.js("setPrompt('What is the capital of Australia?')")
        tab.press("Send again")
        tab.until("!running", 60)
        check("which can be changed and sent again", tab.js("messages.at(-1).content.length") > 0, tab.problem())
        if folder:
            for theme in ("light", "dark"):
                tab.media(prefers_color_scheme=theme)
                for width in (1280, 400):
                    tab.resize(width, 800)
                    time.sleep(1.5)
                    tab.picture(f"{folder}/real_{theme}_{width}.png")
        equal("the console is empty", tab.console, [])
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        tab.until("byId('state').textContent === 'unreachable'")
        check("a server that ended is shown", True)
    finally:
        tab.close()
        if server.poll() is None:
            server.kill()
            server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures")
    parser.add_argument("--server", nargs=2, metavar=("SLUICE", "MODEL"))
    given = parser.parse_args()
    if given.pictures:
        os.makedirs(given.pictures, exist_ok=True)
    if given.server:
        with_real(*given.server, given.pictures)
    else:
        with_fake(given.pictures)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
