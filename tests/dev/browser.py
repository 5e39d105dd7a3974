"""Headless Chromium, driven through its DevTools pipe: nothing but Python's own library is needed."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    """One page. `console` has what it logged, warned and refused, as text."""

    def __init__(self, width=1280, height=800):
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if not program:
            raise SystemExit("needs chromium: apt-get install chromium")
        self.profile = tempfile.mkdtemp(prefix="page-test-")
        their_in, self.out = os.pipe()
        self.inn, their_out = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                 "--disable-dev-shm-usage", f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{their_in} 4>&{their_out}', "sh", program, *flags],
                                        pass_fds=(their_in, their_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(their_in)
        os.close(their_out)
        self.buffer, self.number, self.session, self.console = b"", 0, None, []
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def read(self, timeout_s):
        """The next message; None after timeout_s."""
        until = time.monotonic() + timeout_s
        while b"\0" not in self.buffer:
            if not select.select([self.inn], [], [], max(0, until - time.monotonic()))[0]:
                return None
            data = os.read(self.inn, 1 << 16)
            if not data:
                raise RuntimeError("chromium ended")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        self.note(message)
        return message

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Log.entryAdded":
            self.console.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Page.javascriptDialogOpening":
            self.console.append("dialog: " + params["message"])

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read(60)
            if answer is None:
                raise RuntimeError(f"chromium does not answer {method}")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def resize(self, width, height, scale=1):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def media(self, **features):
        """media(prefers_color_scheme="dark")"""
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": n.replace("_", "-"), "value": v} for n, v in features.items()])

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def js(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression, timeout_s=20):
        """Waits until the expression is true, and returns it."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                value = self.js(expression)
            except RuntimeError:
                value = None  # the page is being replaced
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"never true: {expression}")
            time.sleep(0.05)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def key(self, key, shift=False):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key)
        event = {"key": key, "code": {" ": "Space"}.get(key, key), "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self, path):
        data = self.send("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
