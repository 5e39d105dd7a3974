"""The part of api_clients.py that needs a real server with tests/models/dsv41-tiny: its greedy answers are known.

More features of the clients, the commands curl and llm, and libraries on top of the clients where they are installed:
langchain-openai, litellm, pydantic-ai.
"""
import asyncio
import contextlib
import enum
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import anthropic
import openai
import pydantic

TINY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models", "dsv41-tiny")
QUESTION = "What is the capital of Australia?"
ANSWER = "The capital of Australia is Canberra."
GREEDY = {"extra_body": {"temperature": 0}}  # of Anthropic's client, which has no such parameter any more
TURN = {"role": "user", "content": QUESTION}
# A run of its own: Python programs that the clients' packages installed, and nothing of the user's.
BIN = os.path.dirname(sys.executable)


class Weather(enum.Enum):
    sunny = "sunny"
    rainy = "rainy"


class Forecast(pydantic.BaseModel):
    """Whatever the model writes, it ends soon."""
    weather: Weather
    certain: bool


class Place:
    """Where the server is, what opens it, and how to note what is found."""

    def __init__(self, url, key, check):
        self.url, self.key, self.check = url, key, check
        self.openai = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
        self.model = self.openai.models.list().data[0].id

    def same(self, found, wanted, what):
        self.check(found == wanted, f"{what}: {found!r} instead of {wanted!r}")

    def conversation(self):
        """The question as the ids of the model's chat encoding, in which control tokens are no text."""
        with open(os.path.join(TINY, "tokenizer.json"), encoding="utf-8") as f:
            control = {token["content"]: token["id"] for token in json.load(f)["added_tokens"]}
        text = self.openai.post("../tokenize", body={"content": QUESTION}, cast_to=object)["tokens"]
        begin = [control["<｜begin▁of▁sentence｜>"], control["<｜User｜>"]]
        return [*begin, *text, control["<｜Assistant｜>"], control["</think>"]]

    def refused(self, kind, what, call):
        try:
            call()
        except kind as error:
            self.check(str(error), f"{what}: no text")
        except Exception as error:  # noqa: BLE001
            self.check(False, f"{what}: {type(error).__name__} instead of {kind.__name__}")
        else:
            self.check(False, f"{what}: no error")

    def run(self, *command, **env):
        done = subprocess.run(command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)
        self.check(done.returncode == 0, f"{command[:3]}: {done.returncode} {done.stderr} {done.stdout}")
        return done.stdout


def answers(place):
    """The same answer from every API, streamed and not."""
    base = {"model": place.model, "temperature": 0}
    create = place.openai.chat.completions.create
    whole = create(messages=[TURN], logprobs=True, top_logprobs=1, **base)
    place.same(whole.choices[0].message.content, ANSWER, "chat")
    likely = whole.choices[0].logprobs.content
    place.same("".join(t.token for t in likely), ANSWER, "log-probabilities")
    place.check(all(t.token == t.top_logprobs[0].token for t in likely), "greedy takes the most likely token")
    chunks = list(create(messages=[TURN], stream=True, **base))
    place.same("".join(c.choices[0].delta.content or "" for c in chunks), ANSWER, "chat stream")
    place.same(chunks[-1].choices[0].finish_reason, "stop", "finish of a stream")
    place.same(create(messages=[TURN], stop=["Canberra"], **base).choices[0].message.content,
               ANSWER.split("Canberra")[0], "stop")
    place.same(create(messages=[TURN], max_tokens=2, **base).choices[0].finish_reason, "length", "max_tokens")
    cached = create(messages=[TURN], **base).usage
    place.check(cached.prompt_tokens_details.cached_tokens > 0, f"a prompt is read once: {cached}")

    made = place.openai.responses.create(input=QUESTION, **base)
    place.same((made.output_text, made.status), (ANSWER, "completed"), "response")
    with place.openai.responses.stream(input=QUESTION, **base) as stream:
        place.same("".join(e.delta for e in stream if e.type == "response.output_text.delta"), ANSWER, "response stream")
        place.same(stream.get_final_response().output_text, ANSWER, "response at the end of its stream")

    prompt = place.conversation()
    place.same(place.openai.completions.create(prompt=prompt, max_tokens=30, **base).choices[0].text, ANSWER, "completion")
    parts = place.openai.completions.create(prompt=prompt, max_tokens=30, stream=True, **base)
    place.same("".join(p.choices[0].text for p in parts), ANSWER, "completion stream")

    ask = {"model": place.model, "messages": [TURN], "max_tokens": 30, **GREEDY}
    said = place.anthropic.messages.create(**ask)
    place.same((said.content[0].text, said.stop_reason), (ANSWER, "end_turn"), "message")
    with place.anthropic.messages.stream(**ask) as stream:
        place.same("".join(stream.text_stream), ANSWER, "message stream")
    place.same(place.anthropic.beta.messages.create(betas=["x"], **ask).content[0].text, ANSWER, "beta, ?beta=true")

    async def both():
        async with openai.AsyncOpenAI(base_url=place.url + "/v1", api_key=place.key) as one, \
                anthropic.AsyncAnthropic(base_url=place.url, api_key=place.key) as two:
            return await asyncio.gather(one.chat.completions.create(messages=[TURN], **base),
                                        two.messages.create(**ask))
    chat, message = asyncio.run(both())
    place.same((chat.choices[0].message.content, message.content[0].text), (ANSWER, ANSWER), "two at once")


def formats(place):
    """Answers that follow a schema are read by the clients' own parsers."""
    base = {"model": place.model, "temperature": 0}
    chat = place.openai.chat.completions.parse(messages=[TURN], response_format=Forecast, **base)
    place.check(isinstance(chat.choices[0].message.parsed, Forecast), f"chat format: {chat}")
    made = place.openai.responses.parse(input=QUESTION, text_format=Forecast, **base)
    place.check(isinstance(made.output_parsed, Forecast), f"response format: {made}")
    said = place.anthropic.messages.parse(model=place.model, messages=[TURN], max_tokens=100, output_format=Forecast,
                                          **GREEDY)
    place.check(isinstance(said.parsed_output, Forecast), f"message format: {said}")
    free = place.openai.chat.completions.create(messages=[TURN], response_format={"type": "json_object"}, max_tokens=60, **base)
    if free.choices[0].finish_reason == "stop":
        place.check(isinstance(json.loads(free.choices[0].message.content), dict), "json_object")


def thinking(place):
    """Cut inside its reasoning: there is no content, in a stream neither."""
    base = {"model": place.model, "messages": [TURN], "temperature": 0}
    create = place.openai.chat.completions.create
    chat = create(max_tokens=2, reasoning_effort="low", **base).choices[0]
    place.same((chat.message.content, chat.finish_reason), ("", "length"), "cut reasoning")
    place.check(chat.message.reasoning_content, "reasoning_content")
    chunks = [c.choices[0].delta for c in create(max_tokens=2, reasoning_effort="low", stream=True, **base)]
    place.same("".join(c.content or "" for c in chunks), "", "cut reasoning in a stream")
    place.same("".join(getattr(c, "reasoning_content", None) or "" for c in chunks), chat.message.reasoning_content,
               "reasoning of a stream")
    ask = {"model": place.model, "messages": [TURN], "max_tokens": 2, "thinking": {"type": "adaptive"}, **GREEDY,
           "output_config": {"effort": "low"}}
    said = place.anthropic.messages.create(**ask)
    with place.anthropic.messages.stream(**ask) as stream:
        final = stream.get_final_message()
    for what, message in (("cut thinking", said), ("cut thinking in a stream", final)):
        place.same([(b.type, b.thinking) for b in message.content], [("thinking", chat.message.reasoning_content)], what)
        place.same(message.stop_reason, "max_tokens", what)
    made = place.openai.responses.create(model=place.model, input=QUESTION, max_output_tokens=2, temperature=0,
                                         reasoning={"effort": "low"})
    place.same(([i.type for i in made.output], made.status, made.output_text), (["reasoning"], "incomplete", ""),
               "cut reasoning of a response")
    done = create(max_tokens=5, reasoning_effort="low", **base).choices[0].message
    place.check(done.content and done.reasoning_content, f"reasoning that ends: {done}")


def agents(place):
    """What agents send: tools in all forms, results that failed, thoughts returned, blocks that are to be cached."""
    cache = {"cache_control": {"type": "ephemeral"}}
    tools = [{"name": "look", "description": "d", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}, **cache}]
    turns = [{"role": "user", "content": [{"type": "text", "text": QUESTION, **cache}]},
             {"role": "assistant", "content": [
                 {"type": "thinking", "thinking": "I look it up.", "signature": "unsigned"},
                 {"type": "text", "text": "Wait."}, {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "maps"}}]},
             {"role": "user", "content": [
                 {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True,
                  "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "maps"}], **cache},
                 {"type": "text", "text": "Try again."}]}]
    base = {"model": place.model, "messages": turns, "tools": tools,
            "system": [{"type": "text", "text": "You are an agent.", **cache}, {"type": "text", "text": "Be brief."}]}
    for choice in ({"type": "auto"}, {"type": "none"}, {"type": "any"}, {"type": "tool", "name": "look"},
                   {"type": "auto", "disable_parallel_tool_use": True}):
        said = place.anthropic.messages.create(max_tokens=20, tool_choice=choice, **base)
        count = place.anthropic.messages.count_tokens(tool_choice=choice, **base).input_tokens
        place.same(said.usage.input_tokens + said.usage.cache_read_input_tokens, count, f"count with {choice}")
    count = place.anthropic.messages.count_tokens(model=place.model, messages=[TURN]).input_tokens
    place.same(count, place.openai.chat.completions.create(model=place.model, messages=[TURN], max_tokens=1).usage.prompt_tokens,
               "count of a chat")
    place.same(place.openai.responses.input_tokens.count(model=place.model, input=QUESTION).input_tokens, count, "input_tokens")
    place.same(place.anthropic.beta.messages.count_tokens(model=place.model, messages=[TURN]).input_tokens, count, "beta count")
    begun = [TURN, {"role": "assistant", "content": ANSWER[:14]}]
    said = place.anthropic.messages.create(model=place.model, messages=begun, max_tokens=30, **GREEDY)
    place.same(said.content[0].text, ANSWER[14:], "an answer that is continued")
    functions = [{"type": "function", "function": {"name": "look", "parameters": tools[0]["input_schema"]}}]
    for choice in ("auto", "none", "required", {"type": "function", "function": {"name": "look"}}):
        place.openai.chat.completions.create(model=place.model, messages=[TURN], tools=functions, tool_choice=choice,
                                             max_completion_tokens=20)


def errors(place):
    place.refused(openai.AuthenticationError, "a wrong key", lambda: openai.OpenAI(
        base_url=place.url + "/v1", api_key="wrong", max_retries=0).models.list())
    place.refused(anthropic.AuthenticationError, "a wrong key for Anthropic's", lambda: anthropic.Anthropic(
        base_url=place.url, api_key="wrong", max_retries=0).messages.create(model="x", max_tokens=5, messages=[TURN]))
    long = {"model": place.model, "messages": [{"role": "user", "content": "word " * 20000}]}
    place.refused(openai.BadRequestError, "too long", lambda: place.openai.chat.completions.create(**long))
    place.refused(anthropic.BadRequestError, "too long for Anthropic's",
                  lambda: place.anthropic.messages.create(max_tokens=5, **long))
    place.refused(openai.NotFoundError, "an unknown model", lambda: place.openai.models.retrieve("unknown"))
    place.refused(openai.NotFoundError, "embeddings", lambda: place.openai.embeddings.create(model="x", input="x"))
    place.same(place.anthropic.models.list().data[0].id, place.model, "models in Anthropic's list")
    place.same(place.anthropic.models.retrieve(place.model).id, place.model, "a model by Anthropic's client")
    place.same(place.openai.models.retrieve(place.model).id, place.model, "a model by its name")


def with_curl(place):
    """As in the README, and without the headers that clients add."""
    data = json.dumps({"messages": [TURN], "temperature": 0, "max_tokens": 30})
    bearer = ["-H", f"Authorization: Bearer {place.key}"]
    curl = ["curl", "-sS", "--fail-with-body"]
    chat = json.loads(place.run(*curl, *bearer, place.url + "/v1/chat/completions", "-d", data))
    place.same(chat["choices"][0]["message"]["content"], ANSWER, "curl")
    for version in ([], ["-H", "anthropic-version: 2023-06-01"]):
        key = ["-H", f"x-api-key: {place.key}"]
        said = json.loads(place.run(*curl, *key, *version, place.url + "/v1/messages?beta=true", "-d", data))
        place.same(said["content"][0]["text"], ANSWER, f"curl {version}")
    stream = place.run(*curl, "-N", *bearer, place.url + "/v1/chat/completions?x=1", "-d", data[:-1] + ', "stream": true}')
    place.check(stream.endswith("data: [DONE]\n\n"), f"curl -N: {stream}")


def with_llm(place):
    """PyPI's llm, which reads models from a file in its folder: with each of OpenAI's three APIs."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"chat": "supports_schema: true\n  supports_tools: true", "made": "responses: true\n  supports_schema: true",
                 "raw": "completion: true"}
        with open(os.path.join(folder, "extra-openai-models.yaml"), "w", encoding="utf-8") as f:
            for name, more in kinds.items():
                f.write(f"- model_id: {name}\n  model_name: {place.model}\n  api_base: {place.url}/v1\n"
                        f"  api_key_name: sluice\n  {more}\n")

        def llm(*args):
            return place.run(os.path.join(BIN, "llm"), *args, LLM_USER_PATH=folder, OPENAI_API_KEY=place.key)
        for name in ("chat", "made"):
            for how in ([], ["--no-stream"]):
                out = llm("-m", name, "--key", place.key, *how, "-o", "temperature", "0", QUESTION)
                place.same(out.strip(), ANSWER, f"llm -m {name} {how}")
            out = llm("-m", name, "--key", place.key, "--schema", json.dumps(Forecast.model_json_schema()), QUESTION)
            with contextlib.suppress(pydantic.ValidationError):
                out = Forecast.model_validate_json(out)
            place.check(isinstance(out, Forecast), f"llm -m {name} --schema: {out!r}")
        logged = json.loads(llm("logs", "-n", "1", "--json"))[0]
        place.check(logged["input_tokens"] > 20 and logged["output_tokens"] > 0, f"llm logs: {logged}")
        llm("-m", "chat", "--key", place.key, "-o", "temperature", "0", QUESTION)
        llm("-c", "--key", place.key, "-o", "max_tokens", "8", "And of France?")
        place.check(json.loads(llm("logs", "-n", "1", "--json"))[0]["input_tokens"] > 20, "llm -c sends the first turn")
        llm("-m", "chat", "--key", place.key, "-T", "llm_version", "-o", "max_tokens", "20", QUESTION)
        out = llm("-m", "raw", "--key", place.key, "-o", "temperature", "0", "-o", "max_tokens", "8", "Once")
        raw = place.openai.completions.create(model=place.model, prompt="Once", temperature=0, max_tokens=8)
        place.same(out.strip(), raw.choices[0].text.strip(), "llm -m raw")


def with_langchain(place):
    from langchain_openai import ChatOpenAI
    model = ChatOpenAI(model=place.model, base_url=place.url + "/v1", api_key=place.key, temperature=0)
    place.same(model.invoke(QUESTION).content, ANSWER, "langchain")
    place.same("".join(chunk.content for chunk in model.stream(QUESTION)), ANSWER, "langchain's stream")
    place.check(isinstance(model.with_structured_output(Forecast).invoke(QUESTION), Forecast), "langchain's structured output")

    def look(at: str) -> str:
        """Looks."""
        return at
    place.check(model.bind_tools([look]).invoke(QUESTION, max_tokens=20).usage_metadata["input_tokens"] > 20,
                "langchain's tools")


def with_litellm(place):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it fetches one
    import litellm
    litellm.telemetry = False
    for kind, base in (("openai", place.url + "/v1"), ("anthropic", place.url)):
        base = {"model": f"{kind}/{place.model}", "messages": [TURN], "api_base": base, "api_key": place.key,
                "temperature": 0, "max_tokens": 30}
        place.same(litellm.completion(**base).choices[0].message.content, ANSWER, f"litellm, {kind}")
        chunks = litellm.completion(stream=True, **base)
        place.same("".join(c.choices[0].delta.content or "" for c in chunks), ANSWER, f"litellm's stream, {kind}")


def with_pydantic_ai(place):
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    model = OpenAIChatModel(place.model, provider=OpenAIProvider(base_url=place.url + "/v1", api_key=place.key))
    place.same(Agent(model, model_settings={"temperature": 0}).run_sync(QUESTION).output, ANSWER, "pydantic-ai")
    made = Agent(model, output_type=NativeOutput(Forecast)).run_sync(QUESTION).output
    place.check(isinstance(made, Forecast), f"pydantic-ai: {made}")


LIBRARIES = {"langchain_openai": with_langchain, "litellm": with_litellm, "pydantic_ai": with_pydantic_ai}


def run(url, key, check):
    """All of it. Returns what was there to be asked with."""
    place, tried = Place(url, key, check), []
    parts = {part.__name__: part for part in (answers, formats, thinking, agents, errors)}
    parts |= {name: part for name, part in LIBRARIES.items() if importlib.util.find_spec(name)}
    if shutil.which("curl"):
        parts["curl"] = with_curl
    if os.path.exists(os.path.join(BIN, "llm")):
        parts["llm"] = with_llm
    for name, part in parts.items():
        start = time.monotonic()
        try:
            part(place)
        except Exception:  # noqa: BLE001
            check(False, f"{name}: {traceback.format_exc()}")
        tried.append(f"{name} {time.monotonic() - start:.1f} s")
    return tried


@contextlib.contextmanager
def served(program, model, key, *flags):
    """`sluice serve` while it is needed; gives its address."""
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w+", encoding="utf-8") as log:
        # What earlier runs kept is left alone.
        env = {**os.environ, "SLUICE_API_KEY": key, "XDG_CACHE_HOME": folder, "XDG_STATE_HOME": folder}
        server = subprocess.Popen([program, "serve", model, "--port", "0", *flags], stdin=subprocess.DEVNULL, stderr=log, env=env)
        try:
            text = ""
            while " is ready\n" not in text:
                if server.poll() is not None:
                    sys.exit(f"{program} does not start: {text}")
                time.sleep(0.05)
                with open(log.name, encoding="utf-8") as so_far:
                    text = so_far.read()
            yield re.search(r"listening on (\S+)", text).group(1)
        finally:
            server.terminate()
            server.wait(30)
