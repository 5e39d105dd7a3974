#!/usr/bin/env python3
"""What the page of `sluice serve` may contain: nothing from elsewhere, nothing that makes HTML of text,
nothing that its content security policy refuses. tests/dev/page_test.py runs it in a browser."""
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

PAGE = os.path.join(os.environ["SLUICE_SOURCE_DIR"], "tools/server/page.html")
VOID = {"meta", "link", "input", "br", "hr", "img"}
# Each turns text into code or markup, or sends it elsewhere.
FORBIDDEN = ["innerHTML", "outerHTML", "insertAdjacentHTML", "createContextualFragment", "DOMParser", "document.write",
             "srcdoc", "eval(", "Function(", "import(", "setHTML", "javascript:", "sendBeacon", "WebSocket", "EventSource",
             "XMLHttpRequest", "postMessage", "document.cookie", "serviceWorker", ".href", ".src"]
failures = []


def check(what, holds, detail=""):
    print(("ok    " if holds else "FAIL  ") + what + ("" if holds else f"  [{detail}]"))
    if not holds:
        failures.append(what)


class Elements(HTMLParser):
    """All elements with their attributes, the text of scripts and styles, and tags that do not match."""

    def __init__(self):
        super().__init__()
        self.found, self.open, self.problems, self.texts = [], [], [], {}

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"line {self.getpos()[0]}: </{tag}>")

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.texts.setdefault(self.open[-1], []).append(data)


def labelled(elements, page):
    """Ids and names of fields that no label and no aria-label names."""
    labels = re.findall(r"<label>.*?</label>", page, re.S)
    return [a.get("id") or a.get("name") for tag, a in elements if tag in ("input", "select", "textarea")
            and "aria-label" not in a and not any(f'name="{a.get("name")}"' in label for label in labels)]


def main():
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    parser = Elements()
    parser.feed(page)
    elements = parser.found
    check("tags match", not parser.problems and not parser.open, parser.problems + parser.open)
    check("one script and one style", [len(parser.texts[t]) for t in ("script", "style")] == [1, 1])
    script, style = parser.texts["script"][0], parser.texts["style"][0]
    # The server puts a nonce into each of these.
    check("their tags occur nowhere else, and bare", [page.count(f"<{t}>") for t in ("script", "style")] == [1, 1])
    inline = [f"{t} {name}" for t, a in elements for name in a if name.startswith("on") or name == "style"]
    check("no inline handlers and styles", not inline, inline)
    loaded = [f"{t} {a}" for t, a in elements for name in ("src", "href", "action", "data", "poster", "srcset")
              if name in a and not a[name].startswith(("#", "data:image/svg+xml,"))]
    check("nothing is loaded", not loaded, loaded)
    check("no frames and objects", not {t for t, _ in elements} & {"iframe", "object", "embed", "base", "form-action"})
    urls = [u for u in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s'\"]*", page) if u != "http://www.w3.org/2000/svg"]
    check("no address of another server", not urls, urls)
    check("the style fetches nothing", not re.search(r"url\(|@import|@font-face", style))
    own = script.replace("link.href", "").replace("{href: URL.createObjectURL(blob)", "")  # the export
    used = [word for word in FORBIDDEN if word in own]
    check("no text becomes code or markup", not used, used)
    asked = sorted(set(re.findall(r"\bcall\(\s*\"([^\"]+)\"", script)))
    check("it asks for what the server has", asked == ["live", "live/experts", "v1/chat/completions"], asked)
    check("all else goes through call()", script.count("fetch(") == 1)
    ids = [a["id"] for _, a in elements if "id" in a]
    check("ids are unique", len(ids) == len(set(ids)))
    unknown = set(re.findall(r"byId\(\"([^\"]+)\"\)", script)) - set(ids)
    check("and those that the script uses exist", not unknown, unknown)
    check("every field has a label", not labelled(elements, page), labelled(elements, page))
    check("the language is given", ("html", {"lang": "en"}) in elements)
    check("lines of at most 100 columns", not (wide := [n for n, line in enumerate(page.split("\n"), 1) if len(line) > 100
                                                      and "data:image" not in line]), wide)
    if shutil.which("node"):
        parsed = subprocess.run(["node", "--check", "-"], input=script, text=True, capture_output=True)
        check("the script parses", parsed.returncode == 0, parsed.stderr)
    else:
        print("skip  the script parses: needs node")
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
