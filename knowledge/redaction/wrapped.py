"""Rule for tokens inside base64 without a telling context, as in Kubernetes secrets and build logs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from typing import Final

from knowledge.redaction.rule import Automaton, Rule, token_rule
from knowledge.redaction.tokens import TOKENS

_PREFIXES = (
    b"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- xoxb- xoxp- xoxe- xoxa- xoxs- xapp- sk-ant- sk-proj-"
    b" sk-svcacct- sk-or-v1- sk_live_ sk_test_ rk_live_ whsec_ AKIA ASIA AIza GOCSPX- ya29. npm_ pypi-AgE dckr_pat_"
    b" dop_v1_ hvs. hvb. glsa_ lin_api_ ntn_ shpat_ shpss_ dapi PMAK- dp.pt. sntrys_ NRAK- gsk_ xai- pplx- ATATT3"
    b" pscale_ nvapi- vcp_ napi_ cfut_ eyJhbGciOi eyJ0eXAiOi eyJraWQiOi hooks.slack PRIVATE\xa0KEY-----"
).split()
"""Prefixes of most tokens; shorter ones would occur by chance in any image."""
_MIN_CHARS = 24


def _base64_forms(prefix: bytes) -> Iterator[str]:
    """Yield the base64 of a prefix for each of the three alignments, in both alphabets."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + prefix).decode().rstrip("=")
        bits = 8 * (before + len(prefix))
        stable = encoded[-(-8 * before // 6) : bits // 6]
        yield stable.replace("+", "[+-]").replace("/", "[/_]")


@cache
def _tokens() -> Automaton:
    return Automaton([rule.hint for rule in TOKENS])


def _holds_token(value: bytes, _: bytes) -> int:
    """Hide a value if it has a token at any alignment of the base64."""
    standard = value.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    return len(value) if any(_has_token(standard[place:]) for place in range(4)) else 0


def _has_token(encoded: bytes) -> bool:
    body = encoded[: len(encoded) - (len(encoded) % 4 == 1)]
    decoded = base64.b64decode(body + b"=" * (-len(body) % 4))
    return any(_is_token(TOKENS[number], decoded) for number in _tokens().of(decoded))


def _is_token(rule: Rule, decoded: bytes) -> bool:
    return any(rule.check is None or rule.check(match[0], b"") for match in rule.pattern.finditer(decoded))


WRAPPED: Final[tuple[Rule, ...]] = (
    token_rule(
        "secret",
        rf"[A-Za-z0-9+/_-]{{{_MIN_CHARS},}}={{0,2}}",
        hint="|".join(each for prefix in _PREFIXES for each in _base64_forms(prefix.replace(b"\xa0", b" "))),
        check=_holds_token,
    ),
)
