"""Secrets that what stands before them gives away: names, headers, addresses with a password."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from enum import IntEnum
from functools import cache
from typing import Final

from knowledge.redaction.rule import Automaton, Rule, assigned, compiled

_ABROAD = (
    r"pass?wort|kennwort|wachtwoord|mot de passe|contrase(?:ñ|n)a|\bsenha|has(?:ł|l)o|(?:П|п)арол(?:ь|я|ем)"
    r"|密码|密碼|口令|パスワード|비밀번호"
)
_PASSWORD = rf"passw(?:or)?d|passphrase|passcode|pwd|(?:\b|[_-])pass|\bpsk|{_ABROAD}"
_KEY = (
    r"secret|auth_?token|token|credentials?|sess(?:ion)?[_-]?(?:id|key)"
    r"|(?:api|access|auth|account|private|encryption|signing|master|shared[_-]?access|hmac|fernet|cipher|aes|jwt)[_-]?key"
)
_AFTER = r"(?:[_-]?(?:access|key|base|value|\d)){0,3}"
_ANNOTATED = r":\s{0,2}(?:[\w.]{1,20}(?:\s?\|\s?None)?\s{1,2}|str|bytes|string)="
_VALUE_OF = r"""[\s,]{1,40}["']?\bvalue["']?\s{0,4}[=:]"""
"""As settings are listed: a name, and beside or below it its value."""
_WIDE_COLON = "\uff1a"
_ASSIGNS = rf"\s{{0,4}}(?:{_ANNOTATED}|:=|=>|===?|=|:|{_WIDE_COLON}|是|为|,|>)"
_IS = rf"""(?:\\{{0,3}}["'`\]]{{0,2}}(?:{_VALUE_OF}|{_ASSIGNS})\s{{0,4}})"""
_VALUE = re.compile(
    rb"""(?:[bfruBFRU]{0,2}\\{0,3}(?:"([^"\\\xff\s]{4,512})|'([^'\\\xff\s]{4,512}))|([^"'`\\\xff\s]{4,512}))"""
)
_WORD = re.compile(rb"""["'`]?([^\s"'`\xff]{4,512})""")
_BASE64 = re.compile(rb"""["']?([A-Za-z0-9+/]{40,512}={0,2})""")
_SIGNATURE = re.compile(rb"([\w%+/-]{40,512})")
_CREDENTIAL = re.compile(rb"([\w.~+/=-]{8,512})")
_TO_HOST = re.compile(
    rb"""(?:([^\s/"'<>?#\xff]{1,200})|(?!\d{0,5}[/?#]|:)([^\s"'<>\xff]{1,200}?))@(?!sha\d+:)[\w\[.-]"""
)
"""First as addresses are written; else with what should have been escaped, which no port is."""

_TO_ORACLE = re.compile(rb"""([^\s/"'<>\xff]{1,200}?)@""")

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
    _Form.NAME: rf"[_$]{{0,2}}{_PIECE}(?:[._/:>-]+{_PIECE})*_?",
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


_END = compiled(r"""[;<|]|&[A-Za-z_][\w-]*=|,[A-Za-z_"'][\w-]*[=:"']|\\[nrt"']""")
_PASS = re.compile(rb"(?i)[_-]?pass(?!w|c|p)")
_DIRECTORY = re.compile(rb"(?i)pwd")
_ABSOLUTE = re.compile(rb"/|[A-Za-z]:[/\\]")
"""What a shell calls PWD, the directory it is in, begins so."""
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
    if not _PASS.match(lead):
        forms.discard(_Form.MEASURE)
    if _DIRECTORY.match(lead) and _ABSOLUTE.match(value):
        return 0
    return 0 if forms - {_Form.UUID, _Form.DIGEST} else len(value)


def _secret(value: bytes, lead: bytes) -> int:
    """Hide what is long, mixed and without order."""
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


def _of_registry(value: bytes, _: bytes) -> int:
    """Hide what a Docker configuration keeps: a user and a password in base64."""
    try:
        told = base64.b64decode(value, validate=True)
    except ValueError:
        return 0
    return len(value) if b":" in told[1:-1] and told.isascii() else 0


_TOLD_BESIDE = (
    r"(?i)(?:\blogin\s{1,8}[^\s\xff]{1,200}\s{1,8}password\s{1,8}"  # .netrc
    rf"|\bENV\s{{1,4}}\w{{0,40}}(?:{_PASSWORD}){_AFTER}\s{{1,4}}"  # Dockerfile
    r"|\b(?:(?:user|role|encrypted|with)\s{1,4}(?:[\w\x22.]{1,60}\s{1,4})?password|identified\s{1,4}by)\s{1,4}"  # SQL
    r"|convertto-securestring\s{1,4}(?:-string\s{1,4})?)"
)
"""What stands before a password where nothing assigns it."""

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
        hint=r"""://[^\s/:@"'<>?#]*:[^\s"'<>]+@""",
    ),
    assigned(
        "authorization",
        r"""(?i)authorization\\?["']?\s{0,3}[=:,]\s{0,3}\\?["']?(?:bearer|basic|token|api-?key|negotiate|ssws)\s{1,3}""",
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
        "password",
        r"(?i)\b(?:password|passwd|passphrase|pwd|passwort|kennwort)\s{1,3}(?:is|was|ist|war|lautet)(?:\s{0,3}:)?\s{1,3}",
        _WORD,
        _told,
    ),
    assigned(
        "password",
        r"""(?i)\bcurl(?:\s[^\n\xff]*?)?\s(?:-u|--user)[ =]{0,2}["']?[^\s:"'\xff]+:""",
        _WORD,
        _of_address,
    ),
    assigned(
        "password",
        r"(?i)\b(?:sshpass\s{1,3}-p[ =]{0,2}|docker\s{1,3}login(?:\s[^\n\xff]*?)?\s-p[ =]{1,2}"
        r"|mysql(?:dump|admin)?(?:\s[^\n\xff]*?)?\s-p)",
        _WORD,
        _password,
    ),
    assigned("password", _TOLD_BESIDE, _VALUE, _password),
    assigned("url-password", r"(?i)\bjdbc:oracle:\w+:[\w$#.]{1,60}/", _TO_ORACLE, _of_address),
    assigned("authorization", r"""(?i)"auth"\s{0,3}:\s{0,3}\\?["']""", _CREDENTIAL, _of_registry),
    assigned("secret", r"(?i)\b(?:set-)?cookie2?:\s{0,3}[\w.-]{1,60}=", _CREDENTIAL, _secret),
    assigned("secret", _ASSIGNED_SECRET, _VALUE, _secret),
)
