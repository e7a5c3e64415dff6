"""Is a value a secret? Told from names, calls, paths and measures by its form, and from words by its characters."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from enum import IntEnum
from functools import cache

from knowledge.redaction.rule import Automaton, compiled

_LEAST_SECRET = 16
_LEAST_PASSWORD = 6
_LEAST_BITS = 3.0
"""Of entropy a character: 32 random hex digits have 3.2 to 3.9, words of a name less (ours)."""

_BEGINS_NONE = r"[{<\[(].*|\$[A-Za-z_][\w.:]*|%[(sdr].*|[*xX.]+|.*(?:\$\{|\{\{|\{[A-Za-z_][\w.]*\}|\.\.\.|%s|\]\().*"
_STANDS_IN = (
    r"(?i:(?:your|my|some|the|an?|test|fake|dummy|example|sample|placeholder|insert|change|replace|enter)[_-]?.{0,6}"
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|me|here|this)[_-]?.{0,6})"
)
_SAYS_WHAT = (
    r"(?i:pass(?:word|wd|phrase)?|pwd|secret|token|user(?:name)?|none|null|nil|true|false|undefined|redacted|masked"
    r"|!(?:Ref|GetAtt|Sub|Join|ImportValue|Select|If|FindInMap|Base64)"  # of a template, in place of a value
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
    MEASURE = 7  # of a test or a pass: a version, or a number with what it counts


_FORMS = {
    _Form.NO_VALUE: f"{_BEGINS_NONE}|{_STANDS_IN}|{_SAYS_WHAT}",
    _Form.NAME: rf"(?:[_$]{{0,2}}{_PIECE}|[&*]{_PIECE}(?:\.|->){_PIECE})(?:[._/:>-]+{_PIECE})*_?",
    _Form.CALL: r"&?[A-Za-z_$@][\w$.:>-]*[(\[].*",
    _Form.PATH: r"(?:[.~]?|[A-Za-z]:)/[^A-Z]*",
    _Form.ADDRESS: r"\w+://.*",
    _Form.UUID: r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    _Form.DIGEST: r"(?:sha\d{1,3}|md5|arn|urn)[:-].*",
    _Form.MEASURE: r"v?\d+(?:\.\d+)+[a-z%]{0,3}|\d+(?:[a-z%]{1,3}|(?:/\d+)+)",
}


@cache
def _forms() -> Automaton:
    return Automaton([f"(?s:{_FORMS[form]})".encode() for form in _Form], whole=True)


_END = compiled(
    r"""[;|](?:[^\w]|[A-Za-z_-]*(?:$|[^\w-])|[A-Za-z_][\w.-]{0,40}[=:(])|<(?:[^\w]|[A-Za-z]*(?:$|[/>]))|[;<|]$"""
    r"""|&[A-Za-z_][\w-]*=|&(?:quot|apos|lt|gt|#\d{2,3});|,[A-Za-z_"'][\w-]*[=:"']|\\[nrt"']"""
)
"""A mark in the midst of letters and digits is the password's own: `p4ss;w0rd99`, and not `...;Encrypt=true`."""
_PASS = re.compile(rb"(?i)[_-]?(?:pass(?!w|c|p)|pw(?!d))|[a-z]pw")
_DIRECTORY = re.compile(rb"(?i)pwd")
_ABSOLUTE = re.compile(rb"/|[A-Za-z]:[/\\]")
"""What a shell calls PWD, the directory it is in, begins so."""
_DIGIT = re.compile(rb"\d")
_DIGITS = b"0123456789"
_LETTER = re.compile(rb"[A-Za-z]")
_URL64 = re.compile(rb"[_-]")
_BASE64_END = re.compile(rb"[^A-Za-z0-9._~+/=-]")


def _in_quotes(lead: bytes) -> bool:
    return lead.rstrip()[-1:] in {b'"', b"'"}


def _cut(value: bytes, lead: bytes) -> bytes:
    """Return a value without what follows it; one in quotes is whole."""
    if _in_quotes(lead):
        return value
    end = _END.search(value)
    return (value[: end.start()] if end else value).rstrip(b")]}>,.:")


def _is_argument(lead: bytes) -> bool:
    """Return whether a value follows a comma without quotes: then it is code."""
    return lead.rstrip()[-1:] == b","


def _is(value: bytes, lead: bytes) -> set[int]:
    """Return the forms that a value has: what is called is code, unless it is in quotes."""
    forms = set(_forms().of(value))
    return forms - {_Form.CALL} if _in_quotes(lead) else forms


def password(value: bytes, lead: bytes) -> int:
    """Hide what no name and no word is: something with digits or marks in it."""
    if _is_argument(lead):
        return 0
    value = _cut(value, lead)
    if len(value) < _LEAST_PASSWORD or value.isalpha() or _of_two_characters(value):
        return 0
    forms = _is(value, lead)
    if _Form.NAME in forms and value.isalnum() and value[-1:].isdigit():  # winter24
        forms.discard(_Form.NAME)
    if not _PASS.match(lead):
        forms.discard(_Form.MEASURE)
    if _DIRECTORY.match(lead) and _ABSOLUTE.match(value):
        return 0
    return 0 if forms - {_Form.UUID, _Form.DIGEST} else len(value)


def _of_two_characters(value: bytes) -> bool:
    return len(set(value[:_LEAST_SECRET])) < 3 and len(set(value)) < 3


def secret(value: bytes, lead: bytes) -> int:
    """Hide what is long, mixed and without order."""
    if _is_argument(lead) or len(value.translate(None, _DIGITS)) == len(value):  # cheaper than re
        return 0
    value = _cut(value, lead)
    if len(value) < _LEAST_SECRET or not (_DIGIT.search(value) and _LETTER.search(value)):
        return 0
    forms = _is(value, lead)
    if _Form.UUID in forms and any(name in lead.lower() for name in (b"key", b"secret", b"authtoken")):
        forms.discard(_Form.UUID)
    return len(value) if not forms and _bits(value) >= _LEAST_BITS else 0


def _bits(value: bytes) -> float:
    """Return the entropy of a text's characters."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def told(value: bytes, lead: bytes) -> int:
    """As a password, of a sentence that tells it: only with a digit."""
    return password(value, lead) if _DIGIT.search(value) else 0


def header(value: bytes, _: bytes) -> int:
    """Hide what is mixed or long, up to what no credential has in it."""
    end = _BASE64_END.search(value)
    value = value[: end.start()].rstrip(b".") if end else value.rstrip(b".")
    mixed = _DIGIT.search(value) or value.endswith(b"=") or len(value) >= 24
    return len(value) if mixed and len(value) >= 8 and _Form.NAME not in _forms().of(value) else 0


def bearer(value: bytes, lead: bytes) -> int:
    """Hide what is as long as a secret, where no header says so."""
    return header(value, lead) if len(value) >= _LEAST_SECRET else 0


def of_address(value: bytes, _: bytes) -> int:
    """Hide all that is no placeholder."""
    return 0 if _Form.NO_VALUE in _forms().of(value) else len(value)


def aws(value: bytes, lead: bytes) -> int:
    """Hide 40 characters that stand after an access key, or are without order."""
    return 40 if len(value) == 40 and (b"A" in lead[:4] or _bits(value) >= _LEAST_BITS) else 0


def with_digits(value: bytes, _: bytes) -> int:
    """Hide what has a digit in it."""
    return len(value) if _DIGIT.search(value) else 0


def of_registry(value: bytes, _: bytes) -> int:
    """Hide what a Docker configuration keeps: a user and a password in base64."""
    try:
        told = base64.b64decode(value, validate=True)
    except ValueError:
        return 0
    return len(value) if b":" in told[1:-1] and told.isascii() else 0


def of_user(value: bytes, _: bytes) -> int:
    """Hide a user and a password in base64, however short."""
    try:
        told = base64.b64decode(value + b"=" * (-len(value) % 4), altchars=b"-_" if _URL64.search(value) else None)
        return len(value) if ":" in (text := told.decode()) and text.isprintable() else 0
    except ValueError:
        return 0
