"""Secrets that what stands before them gives away: names, headers, addresses with a password."""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import IntEnum
from functools import cache
from typing import Final

from knowledge.redaction.rule import Automaton, Rule, assigned, compiled

_PASSWORD = r"passw(?:or)?d|passphrase|passcode|pwd|(?:\b|[_-])pass"  # noqa: S105 (a pattern)
_KEY = (
    r"secret|token|credentials?|session[_-]?(?:id|key)"
    r"|(?:api|access|auth|account|private|encryption|signing|master|shared[_-]?access)[_-]?key"
)
_AFTER = r"(?:[_-]?(?:access|key|base|value|\d)){0,3}"
_ANNOTATED = r":\s{0,2}[\w.]{1,20}(?:\s?\|\s?None)?\s{0,2}="
_IS = rf"""(?:\\{{0,3}}["'`\]]{{0,2}}\s{{0,4}}(?:{_ANNOTATED}|:=|=>|===?|=|:|,|>)\s{{0,4}})"""
_VALUE = re.compile(
    rb"""(?:[bfruBFRU]{0,2}\\{0,3}(?:"([^"\\\xff\s]{4,512})|'([^'\\\xff\s]{4,512}))|([^"'`\\\xff\s]{4,512}))"""
)
_WORD = re.compile(rb"""["'`]?([^\s"'`\xff]{4,512})""")
_BASE64 = re.compile(rb"""["']?([A-Za-z0-9+/]{40,512}={0,2})""")
_SIGNATURE = re.compile(rb"([\w%+/-]{40,512})")
_CREDENTIAL = re.compile(rb"([\w.~+/=-]{8,512})")
_TO_HOST = re.compile(rb"""([^\s/"'<>?#\xff]{1,200})@[\w\[.-]""")

_LEAST_SECRET = 16
_LEAST_PASSWORD = 6
_LEAST_BITS = 3.0
"""Of entropy a character: 32 random hex digits have 3.2 to 3.9, words of a name less (ours)."""

_BEGINS_NONE = r"[{<\[(].*|\$[A-Za-z_][\w.:]*|%[(sdr].*|[*xX.]+|.*(?:\$\{|\{\{|\.\.\.|%s|\]\().*"
_STANDS_IN = (
    r"(?i:(?:your|my|some|the|an?|test|fake|dummy|example|sample|placeholder|insert|change|replace|enter)[_-]?.{0,6}"
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|me|here|this)[_-]?.{0,6})"
)
_SAYS_WHAT = (
    r"(?i:pass(?:word|wd|phrase)?|pwd|secret|token|user(?:name)?|none|null|nil|true|false|undefined|redacted|masked"
    r"|hidden|example|dummy|required|invalid|missing|empty|optional|string|str|bytes)\d{0,3}"
)
_PIECE = r"(?:[A-Za-z]*[a-z]{2}[A-Za-z]*\d{0,2}|[A-Z]{2,}\d{0,2}|[a-z]|\d{1,4})"


class _Form(IntEnum):
    """What a value may be instead of a secret."""

    NO_VALUE = 0  # what stands where a value would
    NAME = 1  # of something: words and short numbers, joined
    CALL = 2
    PATH = 3
    ADDRESS = 4
    UUID = 5
    DIGEST = 6


_FORMS = {
    _Form.NO_VALUE: f"{_BEGINS_NONE}|{_STANDS_IN}|{_SAYS_WHAT}",
    _Form.NAME: rf"[_$]{{0,2}}{_PIECE}(?:[._/:>-]+{_PIECE})*_?",
    _Form.CALL: r"&?[A-Za-z_$@][\w$.:>-]*[(\[].*",
    _Form.PATH: r"(?:[.~]?|[A-Za-z]:)/[^A-Z]*",
    _Form.ADDRESS: r"\w+://.*",
    _Form.UUID: r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    _Form.DIGEST: r"(?:sha\d{1,3}|md5|arn|urn)[:-].*",
}


@cache
def _forms() -> Automaton:
    return Automaton([f"(?s:{_FORMS[form]})".encode() for form in _Form], whole=True)


_END = compiled(r"""[;<|]|&[A-Za-z_][\w-]*=|,[A-Za-z_"'][\w-]*[=:"']|\\[nrt"']""")
_DIGIT = re.compile(rb"\d")
_LETTER = re.compile(rb"[A-Za-z]")
_BASE64_END = re.compile(rb"[^A-Za-z0-9._~+/=-]")


def _cut(value: bytes, lead: bytes) -> bytes:
    """Return a value without what follows it; one in quotes is whole."""
    if lead[-1:] in {b'"', b"'"}:
        return value
    end = _END.search(value)
    return (value[: end.start()] if end else value).rstrip(b")]}>,.:")


def _is(value: bytes, lead: bytes) -> set[int]:
    """Return the forms that a value has: what follows a comma or is called is code, unless it is in quotes."""
    forms = set(_forms().of(value))
    if lead[-1:] in {b'"', b"'"}:
        return forms - {_Form.CALL}
    return forms | {_Form.CALL} if lead.rstrip()[-1:] == b"," else forms


def _password(value: bytes, lead: bytes) -> int:
    """Hide what no name and no word is: something with digits or marks in it."""
    value = _cut(value, lead)
    if len(value) < _LEAST_PASSWORD or value.isalpha() or len(set(value)) < 3:
        return 0
    forms = _is(value, lead)
    if _Form.NAME in forms and value.isalnum() and value[-1:].isdigit():  # winter24
        forms.discard(_Form.NAME)
    return 0 if forms - {_Form.UUID, _Form.DIGEST} else len(value)


def _secret(value: bytes, lead: bytes) -> int:
    """Hide what is long, mixed and without order."""
    value = _cut(value, lead)
    if len(value) < _LEAST_SECRET or not (_DIGIT.search(value) and _LETTER.search(value)):
        return 0
    forms = _is(value, lead)
    if _Form.UUID in forms and (b"key" in lead.lower() or b"secret" in lead.lower()):
        forms.discard(_Form.UUID)
    return len(value) if not forms and _bits(value) >= _LEAST_BITS else 0


def _bits(value: bytes) -> float:
    """Return the entropy of a text's characters."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _told(value: bytes, lead: bytes) -> int:
    """As a password, of a sentence that tells it: only with a digit."""
    return _password(value, lead) if _DIGIT.search(value) else 0


def _header(value: bytes, _: bytes) -> int:
    end = _BASE64_END.search(value)
    value = value[: end.start()].rstrip(b".") if end else value.rstrip(b".")
    mixed = _DIGIT.search(value) or value.endswith(b"=") or len(value) >= 24
    return len(value) if mixed and len(value) >= 8 and _Form.NAME not in _forms().of(value) else 0


def _bearer(value: bytes, lead: bytes) -> int:
    return _header(value, lead) if len(value) >= _LEAST_SECRET else 0


def _of_address(value: bytes, _: bytes) -> int:
    return 0 if _Form.NO_VALUE in _forms().of(value) else len(value)


def _aws(value: bytes, lead: bytes) -> int:
    return 40 if len(value) == 40 and (b"A" in lead[:4] or _bits(value) >= _LEAST_BITS) else 0


def _base64(value: bytes, _: bytes) -> int:
    return len(value) if _DIGIT.search(value) else 0


_ASSIGNED_PASSWORD = rf"(?i)(?:(?:{_PASSWORD}){_AFTER}{_IS}|--[\w-]{{0,30}}(?:{_PASSWORD}){_AFTER}\s{{1,2}})"
_ASSIGNED_SECRET = rf"(?i)(?:(?:{_KEY}){_AFTER}{_IS}|--[\w-]{{0,30}}(?:{_KEY}){_AFTER}\s{{1,2}})"

ASSIGNED: Final[tuple[Rule, ...]] = (
    assigned("aws-secret-key", rf"(?i:secret{_AFTER}|aws[\w.-]{{0,12}}key){_IS}", _BASE64, _aws),
    assigned("aws-secret-key", r"""(?:AKIA|ASIA)[A-Z2-7]{16}["']?[\s:,|/]{1,3}""", _BASE64, _aws),
    assigned(
        "azure-key",
        r"(?i)(?:account|shared[_-]?access|primary|secondary)[_-]?key\W{1,6}",
        _BASE64,
        _base64,
    ),
    assigned("azure-key", r"[?&;]sig=", _SIGNATURE, _base64),
    assigned(
        "url-password",
        r"""[A-Za-z0-9+]://[^\s/:@"'<>?#\xff]*:""",
        _TO_HOST,
        _of_address,
        hint=r"""://[^\s/:@"'<>?#]*:[^\s/"'<>?#]+@""",
    ),
    assigned(
        "authorization",
        r"""(?i)authorization\\?["']?\s{0,3}[=:,]\s{0,3}\\?["']?(?:bearer|basic|token|api-?key|negotiate)\s{1,3}""",
        _CREDENTIAL,
        _header,
    ),
    assigned(
        "authorization",
        r"(?i)\b(?:bearer|basic)\s{1,3}",
        _CREDENTIAL,
        _bearer,
        hint=r"(?i)\b(?:bearer|basic)\s{1,3}[\w.~+/=-]{16}",
    ),
    assigned("password", _ASSIGNED_PASSWORD, _VALUE, _password),
    assigned(
        "password", r"(?i)\b(?:password|passwd|passphrase|pwd)\s{1,3}(?:is|was)(?:\s{0,3}:)?\s{1,3}", _WORD, _told
    ),
    assigned(
        "password",
        r"""(?i)\bcurl\s[^\n\xff]*?\s(?:-u|--user)[ =]{0,2}["']?[^\s:"'\xff]+:""",
        _WORD,
        _of_address,
    ),
    assigned("secret", _ASSIGNED_SECRET, _VALUE, _secret),
)
