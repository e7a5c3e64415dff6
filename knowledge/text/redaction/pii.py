"""Rules for personal data: email addresses, and numbers recognised by their check digits and grouping."""

from __future__ import annotations

import re
from typing import Final

from knowledge.text.redaction.rule import Rule, personal_rule

_TOP_LEVEL_DOMAINS = frozenset(
    b"academy agency app asia biz blog bank cloud club com company coop dev digital edu email eu gov group health info"
    b" int jobs live media mil mobi name net network news online org pro services shop site software solutions store"
    b" studio systems team tech today travel work world xyz".split()
)
_FILE_EXTENSIONS = frozenset(b"ex go hs js kt rb ts vb".split())
"""File name extensions that are not country codes."""

_ROLE_ACCOUNTS = frozenset({b"git", b"noreply", b"no-reply", b"hg", b"svn"})
_RESERVED = re.compile(rb"(?i)(?:.*\.)?(?:example\.(?:com|org|net|edu)|.*\.(?:example|test|invalid|localhost|local))")

_IBAN_LENGTHS = {
    code[:2]: int(code[2:])
    for code in (
        b"AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29"
        b" ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20"
        b" LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25"
        b" QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
    ).split()
}

_IN_NUMBERS = b"+-./"
"""After these characters a number is part of something else."""

_ISSUERS = re.compile(
    rb"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    rb"|6(?:011|4[4-9]\d|5\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}"
)


def _email(value: bytes, lead: bytes) -> int:
    if lead == b"/":  # part of a URL: user@host
        return 0
    local, _, domain = value.lower().rpartition(b"@")
    ending = domain.rpartition(b".")[2]
    country = len(ending) == 2 and ending.isalpha() and ending not in _FILE_EXTENSIONS
    if not country and ending not in _TOP_LEVEL_DOMAINS:
        return 0
    return 0 if local in _ROLE_ACCOUNTS or _RESERVED.fullmatch(domain) else len(value)


def _follows_number_sign(lead: bytes) -> bool:
    return lead in _IN_NUMBERS and lead != b""


def _international(value: bytes, lead: bytes) -> int:
    if _follows_number_sign(lead):
        return 0
    digits = sum(48 <= byte <= 57 for byte in value)
    groups = re.split(rb"[ ().-]+", value[1:])
    if len(groups) == 1:  # at the start of a line, + may be a diff's
        return len(value) if 10 <= digits <= 15 and lead not in {b"", b"\n"} else 0
    if not 9 <= digits <= 15 or len(groups[0]) > 3 or len(groups) > 7 or re.search(rb"[ .-]{2}", value):
        return 0
    short = sum(len(group) < 2 for group in groups[1:])
    return len(value) if short < 2 and (b"." not in value or len(groups) > 2) else 0


def _american(value: bytes, lead: bytes) -> int:
    return 0 if _follows_number_sign(lead) else len(value)


def _national(value: bytes, _: bytes) -> int:
    digits = sum(48 <= byte <= 57 for byte in value)
    date = re.match(rb"(?:19|20)\d\d[-./]\d\d[-./]\d\d", value)
    return len(value) if 8 <= digits <= 15 and not date else 0


def _iban(value: bytes, _: bytes) -> int:
    length = _IBAN_LENGTHS.get(value[:2])
    if length is None:
        return 0
    places = [place for place, byte in enumerate(value) if byte != 32][:length]
    iban = bytes(value[place] for place in places)
    if len(iban) < length:
        return 0
    moved = iban[4:] + iban[:4]
    number = int("".join(str(int(chr(byte), 36)) for byte in moved))
    return places[-1] + 1 if number % 97 == 1 else 0


def _card(value: bytes, lead: bytes) -> int:
    if _follows_number_sign(lead):
        return 0
    digits = value.replace(b" ", b"").replace(b"-", b"")
    if not _ISSUERS.fullmatch(digits):
        return 0
    total = sum(sum(divmod((byte - 48) * (1 + place % 2), 10)) for place, byte in enumerate(reversed(digits)))
    return len(value) if total % 10 == 0 else 0


def _social_security(value: bytes, lead: bytes) -> int:
    """Hide a number in the ranges that are given out."""
    area, group, serial = value[:3], value[-6:-4].strip(b" -"), value[-4:]
    if _follows_number_sign(lead) or area in {b"000", b"666"} or area >= b"900":
        return 0
    return len(value) if group != b"00" and serial != b"0000" else 0


PERSONAL: Final[tuple[Rule, ...]] = (
    personal_rule(
        "email",
        r"[A-Za-z0-9][\w.%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
        _email,
        hint=r"[\w%+-]@[A-Za-z0-9-]+\.[A-Za-z0-9.-]*[A-Za-z]{2}",
    ),
    personal_rule(
        "iban",
        r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?",
        _iban,
        hint=r"[A-Z]{2}\d{2} ?[A-Z0-9]{4} ?[A-Z0-9]{4}",
    ),
    personal_rule("credit-card", r"\d{4}(?:[ -]\d{4}){3}|3\d{3}[ -]\d{6}[ -]\d{4,5}|\d{13,19}", _card),
    personal_rule("ssn", r"\d{3}-\d{2}-\d{4}", _social_security),
    personal_rule(
        "ssn",
        r"""(?i)(?:ssn|social.security(?:.n(?:o|r|umber))?)\.?["']?\s{0,2}[:=]?\s{0,2}["']?""",
        _social_security,
        hint=r"(?i)(?:ssn|social.security)[^\d\n]{0,14}\d{3} ?\d\d ?\d{4}",
        value=re.compile(rb"(\d{3}( ?)\d{2}\2\d{4})(?!\d)"),
    ),
    personal_rule("phone", r"\+[1-9][\d ().-]{6,24}\d", _international),
    personal_rule("phone", r"\([2-9]\d{2}\) ?[2-9]\d{2}[ -]\d{4}|[2-9]\d{2}-[2-9]\d{2}-\d{4}", _american),
    personal_rule(
        "phone",
        r"(?i)\b(?:phone|mobile|telefon|tel|fax|cell|handy|whatsapp)(?:[_ ]?(?:no|nr|number))?"
        r"""\.?["']?\s{0,2}[:=]?\s{0,2}["']?""",
        _national,
        hint=r"(?i)\b(?:phone|mobile|telefon|tel|fax|cell|handy|whatsapp)[^\d\n]{0,14}\d[\d ()/.-]{6}",
        value=re.compile(rb"(\(?\d[\d ()/.-]{6,18}\d)"),
    ),
)
