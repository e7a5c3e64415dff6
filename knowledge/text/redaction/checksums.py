"""Checks that tell secrets from names, calls, paths and measures by form, and from words by their characters."""

from __future__ import annotations

import base64
import math
import operator
import re
from collections import Counter
from enum import IntEnum
from functools import cache

from knowledge.text.redaction.rule import Automaton, compile_pattern

_MIN_SECRET = 16
_MIN_PASSWORD = 6
_MIN_BITS = 3.0
"""Minimum entropy per character (our choice): 32 random hex digits have 3.2 to 3.9, words of a name less."""

_PLACEHOLDER = r"[{<\[(].*|\$[A-Za-z_][\w.:]*|%[(sdr].*|[*xX.]+|.*(?:\$\{|\{\{|\{[A-Za-z_][\w.]*\}|\.\.\.|%s|\]\().*"
_DUMMY = (
    r"(?i:(?:your|my|some|the|an?|test|fake|dummy|example|sample|placeholder|insert|change|replace|enter)[_-]?.{0,6}"
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|me|here|this)[_-]?.{0,6})"
)
_KEYWORD = (
    r"(?i:pass(?:word|wd|phrase)?|pwd|secret|token|user(?:name)?|none|null|nil|true|false|undefined|redacted|masked"
    r"|!(?:Ref|GetAtt|Sub|Join|ImportValue|Select|If|FindInMap|Base64)"  # of a template, in place of a value
    r"|hidden|example|dummy|required|invalid|missing|empty|optional|string|str|bytes)\d{0,3}"
)
_PIECE = r"(?:[A-Za-z]*[a-z]{2}[A-Za-z]*\d{0,2}|[A-Z]{2,}\d{0,2}|[a-z]|\d{1,4})"


class _Form(IntEnum):
    """A harmless form of a value, which is not a secret."""

    NO_VALUE = 0  # a placeholder or keyword in place of a value
    NAME = 1  # words and short numbers, joined
    CALL = 2
    PATH = 3
    ADDRESS = 4
    UUID = 5
    DIGEST = 6
    MEASURE = 7  # a version, or a number with its unit; only after `pass`


_FORMS = {
    _Form.NO_VALUE: f"{_PLACEHOLDER}|{_DUMMY}|{_KEYWORD}",
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


_MIN_LETTERS = 8
_MIN_OTHER_KEY = 20
_OF_UUIDS = (b"key", b"secret", b"token")
"""Names whose value may be a UUID and secret all the same; a session or a run has one, too."""
_SORTS = bytes(1 if 48 <= byte <= 57 else 2 if 65 <= byte <= 90 else 3 for byte in range(256))
_IN_CODE = re.compile(
    rb"(?i)pass|pwd|secret|token|field|input|type|string|str$|auth|required|invalid|missing|wrong|error|exception"
    rb"|encoder|validator|form|hash|null|none|config|settings?$|manager|provider|service|value|prompt|user|redact|mask"
)
"""Words of names that stand where a password would."""
_CAMEL_CASE = re.compile(rb"[a-z]*(?:[A-Z][a-z]{2,}|[A-Z]{2,5}(?=[A-Z][a-z]{2}|$))*")
_ENVIRONMENT = re.compile(rb"[A-Z0-9_]{2,}\s{0,4}[=:]")
_KEY_NAME = re.compile(rb"([A-Za-z0-9]*?)[._-]?(?i:key)")
_NO_SECRET = re.compile(
    rb"(?i)(?:cache|caching|primary|foreign|public|pub|partition|sort|shard|idempotency|lookup|hash|index|row|group"
    rb"|dedup|dedupe|deduplication|unique|object|bucket|map|dict|match|job|natural|surrogate|range|event|message|trace"
    rb"|correlation|request|storage|file|image|layer|content|etag|build|artifact|lock|restore|hit|mon|tur|don|host"
    rb"|known|order|item|record|entity|document|doc|id|composite|state|run|commit|issue|project|translation|i18n)$"
)
"""Names of keys by which something is found."""

_END = compile_pattern(
    r"""[;|](?:[^\w]|[A-Za-z_-]*(?:$|[^\w-])|[A-Za-z_][\w.-]{0,40}[=:(])|<(?:[^\w]|[A-Za-z]*(?:$|[/>]))|[;<|]$"""
    r"""|&[A-Za-z_][\w-]*=|&(?:quot|apos|lt|gt|#\d{2,3});|,[A-Za-z_"'][\w-]*[=:"']|\\[nrt"']"""
)
"""The end of a value. A sign between letters and digits is part of it: `p4ss;w0rd99`, not `...;Encrypt=true`."""
_PASS = re.compile(rb"(?i)[_-]?(?:pass(?!w|c|p)|pw(?!d))|[a-z]pw")
_DIRECTORY = re.compile(rb"(?i)pwd")
_ABSOLUTE = re.compile(rb"/|[A-Za-z]:[/\\]")
"""The beginning of an absolute path, which the shell variable PWD holds."""
_DIGIT = re.compile(rb"\d")
_DIGITS = b"0123456789"
_LETTER = re.compile(rb"[A-Za-z]")
_URL64 = re.compile(rb"[_-]")
_BASE64_END = re.compile(rb"[^A-Za-z0-9._~+/=-]")


def _in_quotes(lead: bytes) -> bool:
    return lead.rstrip()[-1:] in {b'"', b"'"}


def _trim(value: bytes, lead: bytes) -> bytes:
    """Return a value without trailing syntax; a quoted value is unchanged."""
    if _in_quotes(lead):
        return value
    end = _END.search(value)
    return (value[: end.start()] if end else value).rstrip(b")]}>,.:")


def _is_argument(lead: bytes) -> bool:
    """Return whether an unquoted value follows a comma, and so is an argument in code."""
    return lead.rstrip()[-1:] == b","


def _forms_of(value: bytes, lead: bytes) -> set[int]:
    """Return the harmless forms that a value has; a quoted value is never a call."""
    forms = set(_forms().of(value))
    return forms - {_Form.CALL} if _in_quotes(lead) else forms


def is_random(value: bytes) -> bool:
    """Return whether letters and digits change so often between their three sorts as words and numbers do not.

    Random ones change at 0.62 of all places, names such as `ParseHTTP2FrameHeaders` at 0.36 or less.
    """
    sorts = value.translate(_SORTS)
    changes = len(sorts) - 1 - sum(map(operator.eq, sorts, sorts[1:]))
    return len(set(sorts)) == 3 and changes >= 0.43 * (len(sorts) - 1)


def _is_mixed_case(value: bytes, lead: bytes) -> bool:
    """Return whether letters alone are a password: of both cases, and no name in code.

    In quotes and after the name of an environment variable stands no code, so that words will do.
    """
    if len(value) < _MIN_LETTERS or value[1:].islower() or value.isupper() or value.islower():
        return False
    if _IN_CODE.search(value):
        return False
    if lead.rstrip(b"\"' ").endswith(b","):  # an argument, or a list of names
        return not _CAMEL_CASE.fullmatch(value)
    return _in_quotes(lead) or _ENVIRONMENT.match(lead) is not None or not _CAMEL_CASE.fullmatch(value)


def password(value: bytes, lead: bytes) -> int:
    """Hide a password: anything with digits or signs that has no harmless form, and letters of both cases."""
    if _is_argument(lead):
        return 0
    value = _trim(value, lead)
    if value.isalpha():
        return len(value) if _is_mixed_case(value, lead) else 0
    if len(value) < _MIN_PASSWORD or _has_two_characters(value):
        return 0
    forms = _forms_of(value, lead)
    if _Form.NAME in forms and value.isalnum() and value[-1:].isdigit():  # winter24
        forms.discard(_Form.NAME)
    if not _PASS.match(lead):
        forms.discard(_Form.MEASURE)
    if _DIRECTORY.match(lead) and _ABSOLUTE.match(value):
        return 0
    return 0 if forms - {_Form.UUID, _Form.DIGEST} else len(value)


def _has_two_characters(value: bytes) -> bool:
    return len(set(value[:_MIN_SECRET])) < 3 and len(set(value)) < 3


def secret(value: bytes, lead: bytes) -> int:
    """Hide a long value of letters and digits with a high entropy."""
    if _is_argument(lead) or len(value.translate(None, _DIGITS)) == len(value):  # cheaper than re
        return 0
    value = _trim(value, lead)
    if len(value) < _MIN_SECRET or not (_DIGIT.search(value) and _LETTER.search(value)):
        return 0
    forms = _forms_of(value, lead)
    if _Form.UUID in forms and any(name in lead.lower() for name in _OF_UUIDS):
        forms.discard(_Form.UUID)
    return len(value) if not forms and _bits(value) >= _MIN_BITS else 0


def other_key(value: bytes, lead: bytes) -> int:
    """Hide the value of a `..._key` whose name says nothing more, unless keys of that name are no secrets."""
    name = _KEY_NAME.match(lead)
    if lead.rstrip(b"\"' ").endswith(b","):  # a list of names
        return 0
    if name is None or _NO_SECRET.search(name[1]) or len(value) < _MIN_OTHER_KEY:
        return 0
    return secret(value, lead)


def grant(value: bytes, lead: bytes) -> int:
    """Hide the code of an authorization: long, with a digit, in no harmless form; errors have codes, too."""
    return secret(value, lead) if len(value) >= _MIN_OTHER_KEY else 0


def webhook(value: bytes, _: bytes) -> int:
    """Hide the path of a webhook that ends in a random part; names are none."""
    last = value.rstrip(b"/").rpartition(b"/")[2]
    forms = set(_forms().of(last)) - {_Form.UUID}
    return len(value) if len(last) >= _MIN_OTHER_KEY and _DIGIT.search(last) and not forms else 0


def _bits(value: bytes) -> float:
    """Return the entropy per character of a value, in bits."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def password_in_sentence(value: bytes, lead: bytes) -> int:
    """Hide a password in a sentence, only if it has a digit."""
    return password(value, lead) if _DIGIT.search(value) else 0


def header(value: bytes, _: bytes) -> int:
    """Hide a credential of a header, up to the first character that is not allowed in one."""
    end = _BASE64_END.search(value)
    value = value[: end.start()].rstrip(b".") if end else value.rstrip(b".")
    mixed = _DIGIT.search(value) or value.endswith(b"=") or len(value) >= 24
    return len(value) if mixed and len(value) >= 8 and _Form.NAME not in _forms().of(value) else 0


def bearer(value: bytes, lead: bytes) -> int:
    """Hide a bearer token outside of a header, if it is long enough for a secret."""
    return header(value, lead) if len(value) >= _MIN_SECRET else 0


def password_in_url(value: bytes, _: bytes) -> int:
    """Hide a password in a URL or command, unless it is a placeholder."""
    return 0 if _Form.NO_VALUE in _forms().of(value) else len(value)


def aws_secret(value: bytes, lead: bytes) -> int:
    """Hide 40 characters after an AWS access key id, or with a high entropy."""
    return 40 if len(value) == 40 and (b"A" in lead[:4] or _bits(value) >= _MIN_BITS) else 0


def value_with_digit(value: bytes, _: bytes) -> int:
    """Hide a value with a digit."""
    return len(value) if _DIGIT.search(value) else 0


def registry_credentials(value: bytes, _: bytes) -> int:
    """Hide the base64 of a user and a password, as in Docker's configuration."""
    try:
        decoded = base64.b64decode(value, validate=True)
    except ValueError:
        return 0
    return len(value) if b":" in decoded[1:-1] and decoded.isascii() else 0


def basic_credentials(value: bytes, _: bytes) -> int:
    """Hide the base64 of a user and a password, however short."""
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), altchars=b"-_" if _URL64.search(value) else None)
        return len(value) if ":" in (text := decoded.decode()) and text.isprintable() else 0
    except ValueError:
        return 0
