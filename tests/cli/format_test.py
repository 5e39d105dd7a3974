"""--format: an answer of a model that knows nothing of JSON parses and is valid, or is cut off by -n."""
import json
import os

from cli import QUESTION, TINY, check, check_run, run, temp_folder

SCHEMA = {"type": "object", "additionalProperties": False, "required": ["city", "size", "tags"], "properties": {
    "city": {"type": "string", "maxLength": 20},
    "size": {"type": "integer", "minimum": 0, "maximum": 99},
    "tags": {"type": "array", "maxItems": 3, "items": {"enum": ["old", "new", None]}},
    "note": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}}


def fits(value):
    keys = list(value)
    return (keys in (["city", "size", "tags"], ["city", "size", "tags", "note"]) and len(value["city"]) <= 20
            and isinstance(value["size"], int) and 0 <= value["size"] <= 99 and len(value["tags"]) <= 3
            and all(tag in ("old", "new", None) for tag in value["tags"]) and value.get("note") in (None, True, False))


folder = temp_folder("sluice-format-")
path = os.path.join(folder, "city.schema.json")
with open(path, "w", encoding="utf-8") as file:
    json.dump(SCHEMA, file)


def ask(*flags):
    return run(TINY, "-p", QUESTION, *flags)


for sampling in (("--temp", "0"), *(("--temp", "5", "--top-p", "1", "--seed", str(seed)) for seed in range(12))):
    answer = ask("--format", path, *sampling)
    check(f"valid under the schema {sampling}", answer.returncode == 0 and fits(json.loads(answer.stdout)), answer)
noise = ("--format", path, "--temp", "5", "--top-p", "1", "--seed", "3")
first = ask(*noise)
check("the same for the same seed", first.stdout == ask(*noise).stdout, first)
check("another for another", first.stdout != ask(*noise[:-1], "4").stdout, first)
report = json.loads(ask(*noise, "--json").stdout)
check("it ends by itself", report["finish_reason"] == "stop", report)
thought = json.loads(ask(*noise, "--json", "--reasoning", "on", "-n", "600").stdout)
check("with reasoning: cut off, or valid", thought["finish_reason"] == "length" or fits(json.loads(thought["text"])), thought)
cut = json.loads(ask("--format", "json", "--temp", "5", "--top-p", "1", "--seed", "1", "-n", "12", "--json").stdout)
check("any object: begins as one, and -n cuts it off", cut["text"].startswith("{") and cut["finish_reason"] == "length", cut)

wrong = os.path.join(folder, "wrong.json")
with open(wrong, "w", encoding="utf-8") as file:
    json.dump({"properties": {"a": {"type": "string", "pattern": "x"}}}, file)
check_run("an unsupported keyword is named, with its place", ask("--format", wrong), 2, b"",
          r'--format: .*wrong.json: JSON schema: properties.a: "pattern" is not supported\n$')
check_run("so is a missing file", ask("--format", os.path.join(folder, "none")), 2, b"", "--format: .*none")
check_run("a folder is no schema", ask("--format", folder), 2, b"", "--format")
