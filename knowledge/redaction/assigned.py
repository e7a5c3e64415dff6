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
_PASSWORD = (
    rf"passw(?:or)?d|passphrase|passcode|pwd|(?:\b|[_-]|store|key|require)pass|\bpsk|rediscli_auth|masterauth|{_ABROAD}"
)
_KEY = (
    r"secret|auth_?token|token|cred(?:ential)?s?|sess(?:ion)?[_-]?id|phpsessid|connect\.sid|[_-]auth"
    r"|(?:azure|devops|ado|github|gitlab|gh)_pat\b"
    r"|(?:api|app|access|auth|account|private|encryption|signing|master|shared[_-]?access|hmac|fernet|cipher|aes|jwt"
    r"|license|pre-?shared|session|subscription|client)[._-]?key(?:-data)?|\b\w{0,20}(?:salt|pepper)"
)
_AFTER = r"(?:[_-]?(?:access|key|base|value|\d)){0,3}"
_ANNOTATED = r":\s{0,2}(?:[&\w.\[\]<>]{1,24}(?:\s?\|\s?None)?\s{1,2}|str|bytes|string)="
_VALUE_OF = r"""[\s,]{1,40}["']?\bvalue["']?\s{0,4}[=:]"""
"""As settings are listed: a name, and beside or below it its value."""
_WIDE_COLON = "\uff1a"
_WIDE_EQUALS = "\uff1d"
_BLANK = "(?:[ \\t]|\u00a0)"
_ELEMENT = r"</\w{1,10}>\s{0,20}<\w{1,10}(?:\s[^<>\xff]{1,60})?>"
_ASSIGNS = (
    rf"(?:{_BLANK}{{0,20}}|\s{{0,4}})"
    rf"(?:{_ANNOTATED}|:=|=>|===?|=|:|{_WIDE_COLON}|{_WIDE_EQUALS}|%3[AaDd]|是|为|>|{_ELEMENT})"
)
_BELOW = rf"{_BLANK}{{0,4}}(?:[|>][+-]?)?{_BLANK}{{0,4}}\r?\n[ \t]{{1,20}}"
"""The value stands in the next line, further in; what is not further in is another setting."""
_BESIDE = rf"{_ASSIGNS}[*_]{{0,2}}(?:{_BELOW}|{_BLANK}{{0,20}})"
_IS = (
    rf"""(?:(?:\\{{0,3}}["'`\]*_]{{0,2}}|%2[27])(?:{_VALUE_OF}\s{{0,4}}|{_BESIDE}|\s{{0,4}},[ \t]{{0,4}})"""
    r"(?:`|%2[27])?)"
)
_VALUE = re.compile(
    rb"""(?:[bfruBFRU]{0,2}\\{0,3}(?:"([^"\\\xff\s]{4,512})|'([^'\\\xff\s]{4,512}))|([^"'`\\\xff\s]{4,512}))"""
)
_WORD = re.compile(rb"""["'`]?([^\s"'`\xff]{4,512})""")
_BASE64 = re.compile(rb"""["']?([A-Za-z0-9+/]{40,512}={0,2})""")
_OF_JWK = re.compile(rb"""([\w-]{43,512})[\x22]""")
_SIGNATURE = re.compile(rb"([\w%+/-]{40,512})")
_TO_HOST_ALONE = re.compile(rb"""([\w.~%+=-]{16,512})@(?!sha\d+:)[\w\[]""")
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
    r"(?i)(?:\b(?:login|machine)\s{1,8}[^\s\xff]{1,200}\s{1,8}password\s{1,8}"  # .netrc
    rf"|\b(?:ENV|setenv|set\s{{1,4}}-\w{{1,4}})\s{{1,4}}\w{{0,40}}(?:{_PASSWORD}){_AFTER}\s{{1,4}}"  # Dockerfile, sh
    r"|\b(?:(?:user|role|encrypted|with)\s{1,4}(?:[\w\x22.]{1,60}\s{1,4})?password"  # SQL
    r"|(?-i:IDENTIFIED\s{1,4}(?:WITH\s{1,4}\w{1,40}\s{1,4})?BY)"  # in small letters anything is identified by its name
    r"|(?:user|role|to)\s{1,4}(?:if\s{1,4}(?:not\s{1,4})?exists\s{1,4})?[^\s\xff]{1,120}\s{1,8}"
    r"identified\s{1,4}(?:with\s{1,4}\w{1,40}\s{1,4})?by)\s{1,4}"
    rf"|(?:\bset_?(?:{_PASSWORD})|=\s{{0,4}}password)\(\s{{0,4}}[\x22']"  # a setter, SQL
    r"|;\s{0,4}(?:pwd|password)=\{"  # ODBC
    rf"|(?m:^)\s{{0,4}}\|\s{{0,4}}[*`]{{0,2}}(?:\w{{1,20}}[ _-])?(?:{_PASSWORD})"  # a table
    r"[*`]{0,2}\s{0,40}\|\s{0,4}[*`]{0,2}"
    r"|\b(?:requirepass|masterauth|insecure-password)\s{1,8}"  # Redis, HAProxy
    r"|\s-\w{0,6}(?:store|key)pass\s{1,4}"  # keytool
    r"|convertto-securestring\s{1,4}(?:-string\s{1,4})?)"
)
"""What stands before a password where nothing assigns it."""

_NEXT_ARGUMENT = r"""(?:["']?\s{0,4}\n\s{1,20}-\s|\s{1,2})"""
_ASSIGNED_PASSWORD = rf"(?i)(?:(?:{_PASSWORD}){_AFTER}{_IS}|--[\w-]{{0,30}}(?:{_PASSWORD}){_AFTER}{_NEXT_ARGUMENT})"
_ASSIGNED_SECRET = rf"(?i)(?:(?:{_KEY}){_AFTER}{_IS}|--[\w-]{{0,30}}(?:{_KEY}){_AFTER}{_NEXT_ARGUMENT})"
_WITH_OPTIONS = r"(?:\s[^\n\xff]*?)?\s{1,8}"
_OPTION = (
    rf"(?i)\b(?:sshpass\s{{1,3}}-p[ =]{{0,2}}|mysql(?:dump|admin)?{_WITH_OPTIONS}-p"
    rf"|(?:(?:docker|podman|nerdctl|buildah|skopeo|oras|crane|registry|az)\s{{1,3}}login{_WITH_OPTIONS}-p"
    rf"|mongo\w{{0,8}}{_WITH_OPTIONS}-p|redis-cli{_WITH_OPTIONS}-a|ldap\w{{2,12}}{_WITH_OPTIONS}-w"
    rf"|(?:sqlcmd|osql|bcp){_WITH_OPTIONS}-p|user(?:add|mod){_WITH_OPTIONS}-p|(?:plink|pscp|psftp){_WITH_OPTIONS}-pw"
    r")[ =]{1,2}"
    rf"|smb\w{{2,8}}{_WITH_OPTIONS}-U\s{{0,2}}[\x22']?[\w.\\-]{{1,60}}%"
    r"|htpasswd\s{1,3}(?:-\w*n\w*|-\w*b\w*\s{1,3}[^\s\xff]{1,100})\s{1,3}[^\s\xff-][^\s\xff]{0,60}\s{1,3}"
    r")"
)
"""Programs that take a password by an option of one letter."""

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
    assigned("authorization", r"""(?i)authorization\\?["']?\s{0,3}[=:]\s{0,3}\\?["']?""", _CREDENTIAL, _secret),
    assigned(
        "authorization",
        r"""(?i)(?:\bx-(?:amz|goog|ms)-|, {0,2})signature=|\bdigest\s[^\n\xff]{1,400}?\bresponse=["']?""",
        _CREDENTIAL,
        _secret,
    ),
    assigned("authorization", r"(?i)\bAUTH\s{1,2}PLAIN\s{1,2}", _CREDENTIAL, _header),
    assigned("password", _ASSIGNED_PASSWORD, _VALUE, _password),
    assigned(
        "password",
        r"(?i)\b(?:password|passwd|passphrase|pwd|passwort|kennwort)\s{1,3}(?:is|was|ist|war|lautet)(?:\s{0,3}:)?\s{1,3}",
        _WORD,
        _told,
    ),
    assigned("password", r"(?i)\b(?:the|with|using)\s{1,3}(?:password|passphrase)\s{1,3}", _WORD, _told),
    assigned(
        "password",
        r"""(?i)\bcurl(?:\s[^\n\xff]*?)?\s(?:-u|--user)[ =]{0,2}["']?[^\s:"'\xff]+:""",
        _WORD,
        _of_address,
    ),
    assigned("password", _OPTION, _WORD, _password),
    assigned("password", _TOLD_BESIDE, _VALUE, _password),
    assigned("url-password", r"[A-Za-z0-9+]://", _TO_HOST_ALONE, _secret, hint=r"""://[^\s/:@"'<>?#]{16,}@"""),
    assigned("url-password", r"(?i)\bjdbc:oracle:\w+:[\w$#.]{1,60}/", _TO_ORACLE, _of_address),
    assigned("authorization", r"""(?i)"auth"\s{0,3}:\s{0,3}\\?["']""", _CREDENTIAL, _of_registry),
    assigned("secret", r"(?i)\b(?:set-)?cookie2?:\s{0,3}[\w.-]{1,60}=", _CREDENTIAL, _secret),
    assigned("secret", r"(?i)[?&](?:key|sig|signature)=", _CREDENTIAL, _secret),
    assigned("secret", r"""\x22(?:d|p|q|dp|dq|qi|k)\x22\s{0,3}:\s{0,3}\x22""", _OF_JWK, _base64),
    assigned("secret", _ASSIGNED_SECRET, _VALUE, _secret),
)
