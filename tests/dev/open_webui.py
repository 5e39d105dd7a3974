#!/usr/bin/env python3
"""Open WebUI in headless Chromium on top of `sluice serve`: a question is typed, the answer must appear.

    python3.11 -m venv /tmp/webui && /tmp/webui/bin/pip install open-webui      (several GB)
    /tmp/webui/bin/python tests/dev/open_webui.py build/sluice [--pictures FOLDER]

Needs Debian's chromium. Nothing is fetched from elsewhere: Open WebUI runs offline, with a folder of its own for data.
"""
import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from browser import Browser
from served_clients import ANSWER, BIN, QUESTION, TINY, served

OFFLINE = {"WEBUI_AUTH": "False", "ENABLE_OLLAMA_API": "False", "OFFLINE_MODE": "True", "HF_HUB_OFFLINE": "1",
           "ENABLE_VERSION_UPDATE_CHECK": "False", "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "True",
           "SCARF_NO_ANALYTICS": "True", "RAG_EMBEDDING_ENGINE": "openai", "DEFAULT_LOCALE": "en-US",
           # Its own tools would be declared in every request, thousands of tokens of the small tokenizer.
           "DEFAULT_MODEL_PARAMS": '{"function_calling": "legacy"}'}


@contextlib.contextmanager
def web_ui(server, key):
    """Open WebUI while it is needed; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "wb") as log:
        env = {**os.environ, **OFFLINE, "DATA_DIR": folder, "OPENAI_API_BASE_URL": server + "/v1", "OPENAI_API_KEY": key,
               "WEBUI_SECRET_KEY": "x"}
        process = subprocess.Popen([os.path.join(BIN, "open-webui"), "serve", "--host", "127.0.0.1", "--port", str(port)], cwd=folder, env=env,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            url, end = f"http://127.0.0.1:{port}", time.monotonic() + 300
            while True:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(url + "/health", timeout=5).read()
                    break
                if process.poll() is not None or time.monotonic() > end:
                    with open(log.name, encoding="utf-8", errors="replace") as text:
                        sys.exit("Open WebUI does not start:\n" + text.read()[-3000:])
                time.sleep(1)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def talk(page, url):
    page.open(url)
    # News of this version lie over the page at first.
    page.until("""(() => {
        [...document.querySelectorAll('button')].find((b) => /let.s go/i.test(b.innerText))?.click();
        return document.querySelector('#chat-input') && document.body.innerText.includes('dsv41-tiny'); })()""", 120)
    page.js("document.querySelector('#chat-input').focus()")
    page.type(QUESTION)
    page.until(f"document.querySelector('#chat-input').innerText.includes({QUESTION!r})")
    page.until("!document.querySelector('#send-message-button').disabled")
    page.js("document.querySelector('#send-message-button').click()")
    page.until(f"document.body.innerText.includes({ANSWER!r})", 120)
    time.sleep(3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("--pictures")
    given = parser.parse_args()
    if given.pictures:
        os.makedirs(given.pictures, exist_ok=True)
    key = "a-key-of-the-test"
    page = Browser()
    try:
        with served(given.sluice, TINY, key, "--temp", "0") as server, web_ui(server, key) as url:
            try:
                talk(page, url)
            finally:
                if given.pictures:
                    page.picture(os.path.join(given.pictures, "open_webui.png"))
    finally:
        page.close()
    print("Open WebUI shows the answer")


if __name__ == "__main__":
    main()
