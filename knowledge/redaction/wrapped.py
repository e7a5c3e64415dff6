"""Tokens that their own form gives away, within base64 that nothing names: as clusters and builds keep secrets."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from typing import Final

from knowledge.redaction.rule import Automaton, Rule, token
from knowledge.redaction.tokens import TOKENS

_BEGINNINGS = (
    b"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- xoxb- xoxp- xoxe- xoxa- xoxs- xapp- sk-ant- sk-proj-"
    b" sk-svcacct- sk-or-v1- sk_live_ sk_test_ rk_live_ whsec_ AKIA ASIA AIza GOCSPX- ya29. npm_ pypi-AgE dckr_pat_"
    b" dop_v1_ hvs. hvb. glsa_ lin_api_ ntn_ shpat_ shpss_ dapi PMAK- dp.pt. sntrys_ NRAK- gsk_ xai- pplx- ATATT3"
    b" pscale_ nvapi- vcp_ napi_ cfut_ eyJhbGciOi eyJ0eXAiOi eyJraWQiOi hooks.slack PRIVATE\xa0KEY-----"
).split()
"""How most of the tokens begin; shorter beginnings would be found in any image."""
_LEAST = 24


def _encoded(beginning: bytes) -> Iterator[str]:
    """Yield what base64 makes of a beginning, for each of the three places where it may fall, in both alphabets."""
    for before in range(3):
        made = base64.b64encode(bytes(before) + beginning).decode().rstrip("=")
        bits = 8 * (before + len(beginning))
        sure = made[-(-8 * before // 6) : bits // 6]
        yield sure.replace("+", "[+-]").replace("/", "[/_]")


@cache
def _tokens() -> Automaton:
    return Automaton([rule.hint for rule in TOKENS])


def _holds_token(value: bytes, _: bytes) -> int:
    """Hide all of what holds a token, wherever the base64 in it begins."""
    told = value.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    return len(value) if any(_has_token(told[place:]) for place in range(4)) else 0


def _has_token(encoded: bytes) -> bool:
    body = encoded[: len(encoded) - (len(encoded) % 4 == 1)]
    told = base64.b64decode(body + b"=" * (-len(body) % 4))
    return any(_is_token(TOKENS[number], told) for number in _tokens().of(told))


def _is_token(rule: Rule, told: bytes) -> bool:
    return any(rule.check is None or rule.check(found[0], b"") for found in rule.pattern.finditer(told))


WRAPPED: Final[tuple[Rule, ...]] = (
    token(
        "secret",
        rf"[A-Za-z0-9+/_-]{{{_LEAST},}}={{0,2}}",
        hint="|".join(each for beginning in _BEGINNINGS for each in _encoded(beginning.replace(b"\xa0", b" "))),
        check=_holds_token,
    ),
)
