"""A server that talks as `sluice serve` does and has no model: what the page is tried with.

The last user message says what happens: see ANSWERS. Each token waits `delay_s`. `log` has what was
asked and how it ended: {"path", "body", "ended": "done" or "gone"}.
"""
import http.server
import json
import math
import random
import secrets
import socket
import threading
import time

KEY = "correct horse"
MARKDOWN = """# Sluice gates

A **sluice** is a *gate* that controls the `water level`. There are three parts:

1. The gate
   - made of wood
   - or of steel
2. The frame
3. The gear

> It lets through just the water that the wheel needs.

| part | material | share |
|---|---|---|
| gate | oak | 60 % |
| gear | iron | 40 % |

```cpp
int main() {
    return 2 * 3 * 4;  // `not` **bold** <b>here</b>
}
```

It costs 2*3*4 coins, and snake_case_names stay. ---"""
HOSTILE = """<img src=x onerror=alert(1)><script>alert(2)</script> **<svg onload=alert(3)>** `<b>code</b>`

[a link](javascript:alert(4)) &lt;escaped&gt; \x1b[31mred\x1b[0m \u202eevil\u202c

```html"><img src=x onerror=alert(5)>
<iframe srcdoc="<script>alert(6)</script>"></iframe>
```

""" + "".join(f"{'  ' * i}- level {i}\n" for i in range(30)) + "\n" + "W" * 3000 + "\n\n" + \
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 (hello) 123\n\n" + "`" * 500 + "** **a *" * 200
BIG = "```\n" + "".join(f"line {i}: " + "x" * 90 + "\n" for i in range(1000)) + "```\nThe end."
ANSWERS = {"markdown": MARKDOWN, "hostile": HOSTILE, "big": BIG}
SHORT = "The capital of Australia is Canberra."


def with_policy(page):
    """The page with a nonce, and its Content-Security-Policy, as the server makes them."""
    nonce = secrets.token_hex(16)
    for tag in ("script", "style"):
        page = page.replace(f"<{tag}>", f'<{tag} nonce="{nonce}">')
    return page, (f"default-src 'none'; connect-src 'self'; img-src data:; script-src 'nonce-{nonce}'; "
                  f"style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class FakeServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page_path, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.page_path = page_path
        self.log, self.delay_s, self.needs_key, self.has_vram = [], 0.005, False, True
        self.layers, self.experts = 43, 384
        self.busy_until, self.gone = 0, False
        self.started, self.tokens, self.running = time.time(), 0, None
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def experts_shown(self):
        chance = random.Random(5)
        places = "01223" if self.has_vram else "01111"

        def digit(expert):
            return places[chance.choice((1, 1, 1, 2, 4))] if chance.random() < 0.6 * math.exp(-((expert % 96) / 60)) else "0"
        return {"layers": self.layers, "experts": self.experts,
                "cached": ["".join(digit(e) for e in range(self.experts)) for _ in range(self.layers)]}

    def go(self):
        """From now on nothing answers."""
        self.gone = True
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # clients that leave are part of the tests


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def parse_request(self):
        if self.server.gone:
            raise ConnectionResetError
        return super().parse_request()

    def send(self, status, body, kind="application/json", **headers):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(data), "X-Content-Type-Options": "nosniff",
                            **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(data)

    def error(self, status, message, **headers):
        self.send(status, {"error": {"message": message, "type": "error", "code": None}}, **headers)

    def allowed(self):
        if not self.server.needs_key or self.headers.get("Authorization") == f"Bearer {KEY}":
            return True
        self.error(401, "wrong or missing API key")
        return False

    def do_GET(self):
        if self.path == "/":
            with open(self.server.page_path, encoding="utf-8") as f:
                page, policy = with_policy(f.read())
            return self.send(200, page, "text/html; charset=utf-8", Content_Security_Policy=policy)
        if not self.allowed():
            return None
        if self.path == "/live":
            return self.send(200, self.live())
        if self.path == "/live/experts":
            return self.send(200, self.server.experts_shown())
        if self.path == "/v1/models":
            return self.send(200, {"object": "list", "data": [{"id": "fake-model", "object": "model"}]})
        self.server.log.append({"path": self.path})
        return self.error(404, "no such path")

    def live(self):
        wave = math.sin(time.time() / 3)
        tiers = {"ram": {"hit_rate": 0.8, "used": 4100, "slots": 4400},
                 "vram": {"hit_rate": 0.31, "used": 380, "slots": 380} if self.server.has_vram else None}
        known = self.server.tokens > 0
        return {"model": "deepseek-v4.1-flash", "device": "cuda:0", "context": 8192,
                "tok_s": 2.4 + 0.3 * wave if known else None, "limit_tok_s": 2.91 if known else None,
                "binds": "drive" if known else None,
                "drives": [{"bytes": 812_345_678_901, "bytes_s": 8.1e9 + 7e8 * wave},
                           {"bytes": 402_345_678_901, "bytes_s": 4.0e9 - 5e8 * wave}],
                "tiers": tiers, "queue": 2, "running": self.server.running,
                "totals": {"answers": len(self.server.log), "prompt_tokens": 20111, "cached_tokens": 17001,
                           "completion_tokens": self.server.tokens, "prompt_s": 12.5, "decode_s": 30.25}}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        entry = {"path": self.path, "body": body, "ended": None}
        self.server.log.append(entry)
        wanted = body["messages"][-1]["content"]
        if wanted == "busy" and time.time() > self.server.busy_until + 60:
            self.server.busy_until = time.time() + 2
            return self.error(503, "the queue is full (8 requests)", Retry_After=2)
        if wanted == "too long":
            return self.error(400, "the prompt has 9000 tokens, and the context holds 8192: shorten it, or use a larger -c")
        self.stream(wanted, entry)

    def stream(self, wanted, entry):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.answer(wanted)
            entry["ended"] = "done"
        except OSError:
            entry["ended"] = "gone"
        finally:
            if self.server.running is self.own:
                self.server.running = None
        self.close_connection = True

    def event(self, data):
        self.wfile.write(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())

    def tokens(self, field, text, size=4):
        for at in range(0, len(text), size):
            self.event({"choices": [{"index": 0, "delta": {field: text[at:at + size]}, "finish_reason": None}]})
            self.server.tokens += 1
            self.own["tokens"] += 1
            time.sleep(self.server.delay_s)

    def answer(self, wanted):
        self.own = self.server.running = {"prompt_done": 0.37, "tokens": 0}
        if "slow" in wanted:
            for line in (": queued, place 3", ": reading the prompt 37 %"):
                self.wfile.write(f"{line}\n\n".encode())
                time.sleep(0.7)
        self.own["prompt_done"] = 1
        self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        if "think" in wanted:
            self.tokens("reasoning_content", "The user asks for a capital. It is not Sydney.\nIt is Canberra. " * 8)
        if wanted == "cut":
            self.tokens("content", "This answer is cut")
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if wanted == "fails":
            self.tokens("content", "This answer fails")
            return self.event({"error": {"message": "layer 3, expert 7: a weight is not a number", "type": "server_error"}})
        if wanted == "endless":
            while True:
                self.tokens("content", "and so on ")
        if wanted != "only think":
            self.tokens("content", ANSWERS.get(wanted.split()[0], SHORT), 2000 if wanted == "big" else 4)
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length" if wanted == "full" else "stop"}]})
        total = 8192 if wanted == "full" else 2100
        self.event({"choices": [], "usage": {"prompt_tokens": 2011, "completion_tokens": total - 2011, "total_tokens": total,
                                             "prompt_tokens_details": {"cached_tokens": 1980}}})
        self.event("[DONE]")
