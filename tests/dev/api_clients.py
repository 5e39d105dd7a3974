#!/usr/bin/env python3
"""The HTTP APIs with the client libraries that people use: openai and anthropic.

    api_clients.py http://127.0.0.1:8080       a running server (its key in SLUICE_API_KEY)
    api_clients.py build/sluice MODEL          as `sluice serve MODEL` answers
    api_clients.py build/tests/tests_tools     recorded replies

With a server, whatever it answers must be what the libraries can read. With dsv41-tiny the answers are known, and more
clients ask (served_clients.py). With the test program, a small HTTP server replays replies that it has written, so
that every value is known; then the program parses what the clients sent. Fields that the libraries know and
tools/API.md does not mention are listed as errors. api_clients.sh has the packages and runs the last two.
"""
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import typing

import anthropic
import openai

import served_clients

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = {"/v1/chat/completions": "chat", "/v1/completions": "completions", "/v1/responses": "responses",
         "/v1/messages": "messages"}
TEXT = 'It is "sunny".\nÜber 20 °C — 中'
THOUGHT = "The user asks about the weather."
USER = {"role": "user", "content": "What is the weather in Bern?"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
          "additionalProperties": False}
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}},
              {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}]
FLAT_TOOLS = [{"type": "function", "strict": True, **tool["function"]} for tool in CHAT_TOOLS]
ANTHROPIC_TOOLS = [{"name": "weather", "description": "d", "input_schema": SCHEMA},
                   {"name": "time", "input_schema": {"type": "object", "properties": {}}}]
problems, checked = [], 0


def check(truth, what):
    global checked
    checked += 1
    if not truth:
        problems.append(what)


class Replay(http.server.BaseHTTPRequestHandler):
    """Answers with a recorded file. The kind is the model's name: plain, calls, failed, 401 or 429."""
    folder = ""
    sent = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        request, name = json.loads(body), NAMES[self.path.split("?")[0]]
        kind = request["model"]
        number = Replay.sent[name] = Replay.sent.get(name, -1) + 1
        with open(os.path.join(Replay.folder, f"{name}-sent-{number}.json"), "wb") as f:
            f.write(body)
        status = int(kind) if kind.isdigit() else 500 if kind == "failed" and not request.get("stream") else 200
        stream = request.get("stream") and status == 200
        with open(os.path.join(Replay.folder, f"{name}-{kind}.{'sse' if stream else 'json'}"), "rb") as f:
            reply = f.read()
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


class Scene:
    """The two clients, and whether the replies are the recorded ones."""

    def __init__(self, url, exact):
        self.exact = exact
        self.openai = openai.OpenAI(base_url=url + "/v1", api_key=os.environ.get("SLUICE_API_KEY", "none"), max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key=os.environ.get("SLUICE_API_KEY", "none"), max_retries=0)

    def model(self, kind):
        return kind if self.exact else "any"

    def same(self, found, wanted, what):
        """The recorded value; from a server, any of its type."""
        if self.exact:
            check(found == wanted, f"{what}: {found!r} instead of {wanted!r}")
        else:
            check(isinstance(found, type(wanted)), f"{what}: {found!r} is not {type(wanted).__name__}")


def chat(scene):
    create = scene.openai.chat.completions.create
    base = {"messages": [{"role": "system", "content": "Be brief."}, USER], "max_tokens": 40, "temperature": 0.5,
            "seed": 7, "stop": ["@@@"]}
    reply = create(model=scene.model("plain"), logprobs=True, top_logprobs=2, reasoning_effort="low", **base)
    scene.same(reply.choices[0].message.content, TEXT, "chat content")
    check(reply.choices[0].finish_reason in ("stop", "length"), "chat finish_reason")
    check(reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens, "chat usage")
    scene.same(reply.usage.prompt_tokens_details.cached_tokens, 12, "chat cached tokens")
    scene.same(reply.usage.completion_tokens_details.reasoning_tokens, 4, "chat reasoning tokens")
    token = (reply.choices[0].logprobs.content or [None])[0]
    check(token is None and not scene.exact or token.logprob <= 0 and len(token.top_logprobs) == 2, "chat logprobs")
    if scene.exact:
        check(reply.choices[0].message.reasoning_content == THOUGHT, "chat reasoning")
    text, usage = "", None
    for chunk in create(model=scene.model("plain"), stream=True, stream_options={"include_usage": True}, **base):
        usage = chunk.usage or usage
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    scene.same(text, TEXT, "chat stream")
    check(usage is not None, "chat usage of a stream")


def chat_tools(scene):
    tools = {"messages": [USER], "tools": CHAT_TOOLS, "max_tokens": 60, "temperature": 0}
    reply = scene.openai.chat.completions.create(model=scene.model("calls"), tool_choice="auto", **tools)
    calls = reply.choices[0].message.tool_calls or []
    check(not scene.exact or [c.function.name for c in calls] == ["weather", "time"], "chat calls")
    with scene.openai.chat.completions.stream(model=scene.model("calls"), **tools) as stream:
        chunks = [event.snapshot for event in stream if event.type == "chunk"]
        final = chunks[-1].choices[0]
        check(final.finish_reason == "length" or stream.get_final_completion().choices[0].message == final.message,
              "chat stream at its end")
    streamed = final.message.tool_calls or []
    check([c.function.arguments for c in streamed] == [c.function.arguments for c in calls], "chat streamed calls")
    if scene.exact:
        check(json.loads(calls[0].function.arguments) == {"city": "Bern"}, "chat arguments")
        check(final.finish_reason == "tool_calls", "chat finish of calls")
    results = [{"role": "tool", "tool_call_id": c.id, "content": "sunny"} for c in calls]
    if calls:
        messages = [USER, reply.choices[0].message, *results]
        scene.openai.chat.completions.create(model=scene.model("plain"), messages=messages, tools=CHAT_TOOLS, max_tokens=20)
    scene.openai.chat.completions.create(
        model=scene.model("plain"), messages=[USER], max_tokens=20,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}})


def completions(scene):
    base = {"prompt": "Once", "max_tokens": 12}
    reply = scene.openai.completions.create(model=scene.model("plain"), logprobs=2, **base)
    scene.same(reply.choices[0].text, TEXT, "completion text")
    columns = reply.choices[0].logprobs
    check(len({len(columns.tokens), len(columns.token_logprobs), len(columns.text_offset), len(columns.top_logprobs)}) == 1,
          "completion logprobs")
    chunks = scene.openai.completions.create(model=scene.model("plain"), stream=True, **base)
    scene.same("".join(c.choices[0].text for c in chunks if c.choices), TEXT, "completion stream")


def responses(scene):
    base = {"input": [USER], "instructions": "Be brief.", "max_output_tokens": 40}
    reply = scene.openai.responses.create(model=scene.model("plain"), reasoning={"effort": "low"}, **base)
    scene.same(reply.output_text, TEXT, "response text")
    check(reply.status in ("completed", "incomplete"), "response status")
    scene.same(reply.usage.output_tokens_details.reasoning_tokens, 4, "response reasoning tokens")
    text = ""
    with scene.openai.responses.stream(model=scene.model("plain"), **base) as stream:
        for event in stream:
            text += event.delta if event.type == "response.output_text.delta" else ""
        if scene.exact:
            check(stream.get_final_response().output_text == TEXT, "response at the end of its stream")
    scene.same(text, TEXT, "response stream")
    reply = scene.openai.responses.create(model=scene.model("calls"), input=[USER], tools=FLAT_TOOLS, max_output_tokens=60)
    calls = [item for item in reply.output if item.type == "function_call"]
    check(not scene.exact or [c.name for c in calls] == ["weather", "time"], "response calls")
    if calls:
        items = [USER, *reply.output,
                 *({"type": "function_call_output", "call_id": c.call_id, "output": "sunny"} for c in calls)]
        scene.openai.responses.create(model=scene.model("plain"), input=items, tools=FLAT_TOOLS, max_output_tokens=20)


def messages(scene):
    base = {"messages": [USER], "max_tokens": 40, "system": "Be brief.", "stop_sequences": ["@@@"]}
    thinking = {"type": "enabled", "budget_tokens": 1024}
    reply = scene.anthropic.messages.create(model=scene.model("plain"), thinking=thinking, **base)
    scene.same("".join(b.text for b in reply.content if b.type == "text"), TEXT, "message text")
    check(reply.stop_reason in ("end_turn", "max_tokens", "stop_sequence"), "message stop_reason")
    scene.same(reply.usage.cache_read_input_tokens, 12, "message cached tokens")
    if scene.exact:
        check(reply.content[0].type == "thinking" and reply.content[0].thinking == THOUGHT, "message thinking")
    with scene.anthropic.messages.stream(model=scene.model("plain"), **base) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    scene.same(text, TEXT, "message stream")
    scene.same(final.usage.output_tokens, 9, "message usage of a stream")
    tools = {"messages": [USER], "max_tokens": 60, "tools": ANTHROPIC_TOOLS, "tool_choice": {"type": "auto"}}
    reply = scene.anthropic.messages.create(model=scene.model("calls"), **tools)
    with scene.anthropic.messages.stream(model=scene.model("calls"), **tools) as stream:
        streamed = stream.get_final_message()
    inputs = [[b.input for b in m.content if b.type == "tool_use"] for m in (reply, streamed)]
    check(not scene.exact or inputs == [[{"city": "Bern"}, {}]] * 2, f"message calls {inputs}")
    uses = [b for b in reply.content if b.type == "tool_use"]
    if uses:
        results = [{"type": "tool_result", "tool_use_id": b.id, "content": "sunny"} for b in uses]
        turns = [USER, {"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
        scene.anthropic.messages.create(model=scene.model("plain"), max_tokens=20, messages=turns, tools=ANTHROPIC_TOOLS)


def raises(kind, call, what):
    try:
        call()
    except kind as error:
        check(str(error), f"{what}: no text")
        return str(error)
    except Exception as error:  # noqa: BLE001
        check(False, f"{what}: {type(error).__name__} instead of {kind.__name__}")
    else:
        check(False, f"{what}: no error")
    return ""


def errors(scene):
    """Recorded errors; a server is asked for what it refuses."""
    ask = scene.openai.chat.completions.create
    if not scene.exact:
        text = raises(openai.BadRequestError, lambda: ask(model="any", messages=[USER], n=2), "n = 2")
        check("n: only 1 answer" in text, f"n = 2: {text}")
        raises(anthropic.BadRequestError, lambda: scene.anthropic.messages.create(
            model="any", max_tokens=5, messages=[{"role": "user", "content": []}]), "no content")
        return
    talk = scene.anthropic.messages.create
    claude = {"max_tokens": 5, "messages": [USER]}
    raises(openai.AuthenticationError, lambda: ask(model="401", messages=[USER]), "openai 401")
    raises(openai.RateLimitError, lambda: ask(model="429", messages=[USER]), "openai 429")
    raises(anthropic.AuthenticationError, lambda: talk(model="401", **claude), "anthropic 401")
    raises(anthropic.RateLimitError, lambda: talk(model="429", **claude), "anthropic 429")
    raises(openai.InternalServerError, lambda: ask(model="failed", messages=[USER]), "openai failed")
    text = raises(openai.APIError, lambda: list(ask(model="failed", messages=[USER], stream=True)), "openai stream")
    check("shard 7" in text, f"openai stream: {text}")
    text = raises(anthropic.APIStatusError, lambda: list(talk(model="failed", stream=True, **claude)), "anthropic stream")
    check("shard 7" in text, f"anthropic stream: {text}")
    events = list(scene.openai.responses.create(model="failed", input="x", stream=True))
    check(events[-1].type == "response.failed" and events[-1].response.error.message == "shard 7: cannot read",
          "responses stream")


def documented():
    """Every field that the libraries can send is in API.md."""
    from anthropic.types import message_create_params
    from openai.types import completion_create_params
    from openai.types.chat import completion_create_params as chat_params
    from openai.types.responses import response_create_params
    with open(os.path.join(ROOT, "tools", "API.md"), encoding="utf-8") as f:
        sections = re.split(r"^## ", f.read(), flags=re.M)
    shared = next(s for s in sections if s.startswith("Fields of several"))
    for path, params in [("/v1/chat/completions", chat_params.CompletionCreateParamsBase),
                         ("/v1/completions", completion_create_params.CompletionCreateParamsBase),
                         ("/v1/responses", response_create_params.ResponseCreateParamsBase),
                         ("/v1/messages", message_create_params.MessageCreateParamsBase)]:
        text = shared + next(s for s in sections if s.startswith(f"`{path}`"))
        for field in [*typing.get_type_hints(params), "stream"]:
            check(f"`{field}`" in text, f"API.md: {path}: {field} is not mentioned")


def run(scene):
    for part in (chat, chat_tools, completions, responses, messages, errors):
        part(scene)


def replayed(program):
    with tempfile.TemporaryDirectory() as folder:
        def tests(name):
            done = subprocess.run([program, f"-tc={name}*"], env={**os.environ, "SLUICE_API_FOLDER": folder},
                                  capture_output=True, text=True)
            check(done.returncode == 0 and "1 passed" in done.stdout, done.stdout)
        tests("replies for client libraries")
        Replay.folder = folder
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Replay)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run(Scene(f"http://127.0.0.1:{server.server_port}", exact=True))
        server.shutdown()
        check(min(Replay.sent.get(name, 0) for name in NAMES.values()) > 0, f"requests sent: {Replay.sent}")
        tests("requests that client libraries")


def with_server(program, model):
    key = os.environ["SLUICE_API_KEY"] = "a-key-of-the-test"
    with served_clients.served(program, model, key) as url:
        scene, name = Scene(url, exact=False), os.path.basename(os.path.normpath(model))
        if name == "dsv41-rand-a":  # its tokenizer has no control tokens
            completions(scene)
            text = raises(openai.BadRequestError, lambda: scene.openai.chat.completions.create(
                model="any", messages=[USER]), "a model without chat")
            check("which the chat encoding needs" in text, text)
            return []
        run(scene)
        return served_clients.run(url, key, check) if name == "dsv41-tiny" else []


def main():
    tried = []
    if len(sys.argv) == 3:
        tried = with_server(*sys.argv[1:])
    elif len(sys.argv) != 2:
        sys.exit(__doc__)
    elif sys.argv[1].startswith("http"):
        run(Scene(sys.argv[1].rstrip("/"), exact=False))
    else:
        replayed(sys.argv[1])
    documented()
    print(f"{checked} checks, {len(problems)} problems (openai {openai.__version__}, anthropic {anthropic.__version__})",
          *tried, sep=", ")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
