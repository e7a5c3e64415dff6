#!/usr/bin/env bash
# One would guess: a `re2.Set` reads a text in one pass, in time linear in its length, however many patterns it holds; what does
# not fit into `max_mem` is an error, or costs a little more.
# True: its states are the products of those of its patterns, made as texts need them. Once they do not fit into `max_mem`, all
# are dropped and made anew, again and again: the same texts take several times as long, with no error, no warning and the
# same matches. Two sets, of half the patterns each, have so few states that reading twice is much faster than reading once.
# Matters where many patterns with "anything in between" are one set: measure it after some thousand different texts, not ten.
# google-re2 1.1.20251105, 2026-11-27.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check google-re2==1.1.20251105
"$folder/venv/bin/python" - <<'PY'
import random
import time
from importlib.metadata import version

import re2

print("google-re2", version("google-re2"))
words = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "bdfgklmnprst"]
chance = random.Random(1)
patterns = [rf"{word}\s[^\n]*?-{option}".encode() for word, option in zip(words[::7], "abcdefghijklmnop", strict=False)]
lines = [" ".join(chance.choices([*words[::7][:16], *words[:120], "-a"], k=30)) for _ in range(4000)]
texts = ["\n".join(lines[at : at + 4]).encode() for at in range(0, len(lines), 4)]


def make(chosen: list[bytes], mebibytes: int) -> "re2.Set":
    options = re2.Options()
    options.max_mem = mebibytes * 1024 * 1024
    made = re2.Set.SearchSet(options)
    for pattern in chosen:
        made.Add(pattern)
    made.Compile()
    return made


def read(*sets: "re2.Set") -> tuple[float, int]:
    found, took = 0, 0.0
    for _ in range(2):  # the second time all states that fit are there
        began = time.process_time()
        found = sum(len(each.Match(text) or ()) for text in texts for each in sets)
        took = time.process_time() - began
    return took / len(texts) * 1e6, found


half = len(patterns) // 2
whole, matches = read(make(patterns, 4))
roomy, same = read(make(patterns, 256))
halves, also = read(make(patterns[:half], 2), make(patterns[half:], 2))
print(f"{len(patterns)} patterns in one set of 4 MiB: {whole:.0f} us a text; of 256 MiB: {roomy:.0f} us")
print(f"two sets of 2 MiB, half the patterns each: {halves:.0f} us a text")
assert matches == same == also, "the matches differ"
assert whole > 4 * halves, "the behaviour has changed"
PY
