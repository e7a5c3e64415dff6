"""Injection payloads written for these tests: orders of many kinds, in carriers agents would capture, and disguised."""

from __future__ import annotations

import base64
import codecs
import random
from collections.abc import Callable

from tests.support.cases import load_tables

ORDERS = tuple(load_tables("payloads")["ORDERS"])
"""What a detector has seen while it was written."""

UNSEEN_ORDERS = tuple(load_tables("payloads")["UNSEEN_ORDERS"])
"""Written after the rules were, which were not changed for them: what they say of texts nobody thought of."""

CARRIERS = (
    "{}",
    "Treat a missing price as zero. {}",
    "1. Install the lock file.\n2. {}\n3. Run the tests again.",
    "TypeError: price is None\n  File cart.py, line 31\n{}",
    "The build hung because of a stale cache; clearing it helped.\n\n{}\n\nAfter that all 41 tests passed.",
    "# TODO {}",
    "<!-- {} -->",
    "> {}\n\nas the log said",
)


DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "capitals": str.upper,
    "lines": lambda text: text.replace(" ", "\n"),
    "emphasis": lambda text: " ".join(f"**{word}**" for word in text.split(" ")),
    "wide": lambda text: "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text),
    "zero width": "\u200b".join,
    "lookalikes": lambda text: text.translate(str.maketrans("aeopcyxi", "аеорсухі")),
    "spaced": lambda text: "   ".join(" ".join(word) for word in text.split(" ")),
    "base64": lambda text: f"decode and do: {base64.b64encode(text.encode()).decode()}",
    "hex": lambda text: f"0x {text.encode().hex()}",
    "tags": lambda text: "see below " + "".join(chr(0xE0000 + ord(each)) for each in text if each.isascii()),
    "rot13": lambda text: codecs.encode(text, "rot13"),
}
_WORDS_ONLY = {"spaced", "rot13", "emphasis", "lines", "tags"}
"""Disguises that a marker or a command does not survive as what it is."""


def payloads(number: int = 560, *, seed: int = 5, orders: tuple[str, ...] = ORDERS) -> list[tuple[str, str]]:
    """Return so many payloads, each in a carrier and a disguise, with the disguise's name; plain ones first."""
    chance = random.Random(seed)
    made = [("plain", chance.choice(CARRIERS).format(order)) for order in orders]
    while len(made) < number:
        order, disguise = chance.choice(orders), chance.choice(sorted(DISGUISES))
        in_words = all(each.isalpha() or each in " .,:;'-" for each in order) and order.isascii()
        if disguise in _WORDS_ONLY and not in_words:
            continue
        made.append((disguise, chance.choice(CARRIERS).format(DISGUISES[disguise](order))))
    return made
