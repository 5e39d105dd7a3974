#!/usr/bin/env python3
"""JSON grammars against jsonschema and Python's json."""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import jsonschema

TOKENIZER = pathlib.Path(__file__).resolve().parents[1] / "models" / "dsv41-tiny" / "tokenizer.json"
NAMES = ["a", "ab", "é", 'q"', "\n", "name", "", "b/~c"]
SCALARS = ["", "x", "xy\n", "é😀", 0, 1, -7, 2.5, 1e15, True, False, None]


def scalar(rnd):
    return rnd.choice(SCALARS)


def schema(rnd, depth):
    """A random schema that the grammar supports."""
    kind = rnd.randrange(12 if depth > 0 else 8)
    if kind == 0:
        return {"type": rnd.sample(["string", "integer", "null", "boolean", "number"], rnd.randint(1, 3))}
    if kind == 1:
        low = rnd.randint(0, 3)
        return {"type": "string", "minLength": low, "maxLength": low + rnd.randint(0, 40)}
    if kind == 2:
        return {"enum": [scalar(rnd) for _ in range(rnd.randint(1, 4))] + [{"k": [1, "v"]}]}
    if kind == 3:
        low = rnd.randint(-20, 20)
        return {"type": "integer", "exclusiveMinimum": low, "maximum": low + rnd.randint(1, 300)}
    if kind == 4:
        return {"type": "number", "minimum": 0, "title": "t"}
    if kind == 5:
        return {"const": scalar(rnd)}
    if kind == 6:
        return {"$ref": rnd.choice(["#/$defs/list", "#/$defs/tree", "#/definitions/text"])}
    if kind == 7:
        return rnd.choice([True, {}, {"type": "object"}, {"type": "array"}])
    if kind == 8:
        return {"anyOf": [schema(rnd, depth - 1) for _ in range(rnd.randint(1, 3))]}
    if kind == 9:
        out = {"type": "array", "minItems": rnd.randint(0, 2), "maxItems": rnd.randint(2, 5)}
        if rnd.random() < 0.7:
            out["items"] = schema(rnd, depth - 1)
        if rnd.random() < 0.4:
            out["prefixItems"] = [schema(rnd, depth - 1) for _ in range(rnd.randint(1, 2))]
            out.setdefault("items", True)
        return out
    names = rnd.sample(NAMES, rnd.randint(0, 4))
    out = {"type": "object", "properties": {n: schema(rnd, depth - 1) for n in names},
           "required": [n for n in names if rnd.random() < 0.5]}
    if rnd.random() < 0.4:
        out["additionalProperties"] = rnd.choice([False, schema(rnd, depth - 1)])
    if kind == 11:
        return {"oneOf": [out, {"type": "null"}, {"enum": ["e", 5]}]}
    return out


def whole_schema(rnd):
    return {"anyOf": [schema(rnd, 3)], "$defs": {
        "list": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2},
        "tree": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}},
        "definitions": {"text": {"type": "string"}}}


def run(program, *arguments, lines=None):
    text = None if lines is None else "".join(json.dumps(line) + "\n" for line in lines)
    return subprocess.run([program, *map(str, arguments)], input=text, capture_output=True, text=True, encoding="utf-8")


def no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) != len(keys):
        raise KeyError("duplicate")
    return dict(pairs)


def document(rnd, depth):
    kind = rnd.randrange(6 if depth > 0 else 3)
    if kind < 3:
        return scalar(rnd)
    if kind == 3:
        return [document(rnd, depth - 1) for _ in range(rnd.randint(0, 3))]
    return {rnd.choice(NAMES) + str(i): document(rnd, depth - 1) for i in range(rnd.randint(0, 3))}


def compare_documents(program, rnd, count):
    """Documents as Python writes them; the same, damaged: what is accepted must parse."""
    documents = [{"d": document(rnd, 5)} for _ in range(count)]
    forms = [{"separators": (",", ":")}, {"separators": (",", ":"), "ensure_ascii": False}, {"indent": 2},
             {"indent": 4, "ensure_ascii": False}]
    texts = [json.dumps(d, **forms[i % len(forms)]) for i, d in enumerate(documents)]
    got = run(program, "--accepts", "json", lines=texts).stdout.split()
    wrong = sum(g != "1" for g in got) + abs(len(got) - len(texts))
    damaged = []
    for text in texts:
        at = rnd.randrange(len(text))
        damaged.append(text[:at] + rnd.choice(["", *'{}[],:"\\0-e. \n\x01']) + text[at + rnd.randint(0, 1):])
    got = run(program, "--accepts", "json", lines=damaged).stdout.split()
    accepted = 0
    for text, answer in zip(damaged, got):
        if answer == "1":
            accepted += 1
            try:
                json.loads(text)
            except ValueError:
                wrong += 1
    print(f"{len(texts)} documents and as many damaged ones ({accepted} still accepted): {wrong} wrong")
    return wrong


def compare_schemas(program, rnd, count, walks):
    wrong = valid = refused = repeated = 0
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        for _ in range(count):
            one = whole_schema(rnd)
            file.seek(0)
            file.truncate()
            json.dump(one, file)
            file.flush()
            result = run(program, TOKENIZER, file.name, walks, 60)
            if result.returncode == 2 and "no JSON value" in result.stderr:
                refused += 1  # impossible, such as an object that requires what may not be
                continue
            if result.returncode != 0:
                print(json.dumps(one), result.stderr)
                wrong += 1
                continue
            validator = jsonschema.Draft202012Validator(one)
            for line in result.stdout.splitlines():
                text = json.loads(line)
                try:
                    value = json.loads(text, object_pairs_hook=no_duplicates)
                except KeyError:
                    repeated += 1  # open objects make no promise
                    continue
                if validator.is_valid(value):
                    valid += 1
                else:
                    wrong += 1
                    print(json.dumps(one), text)
    print(f"{count} schemas ({refused} valid for nothing): {valid} answers valid, {repeated} repeat a key, {wrong} wrong")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the development program `json_walk`")
    parser.add_argument("--schemas", type=int, default=300)
    args = parser.parse_args()
    rnd = random.Random(1)
    wrong = compare_documents(args.program, rnd, 4000)
    wrong += compare_schemas(args.program, rnd, args.schemas, 10)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
