"""Write the number of a cell as its number format shows it (ECMA-376 part 1, 18.8.31); pure.

The library that reads workbooks tells formats and does not apply them. Colours, fill and width are not written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

_TOKEN = re.compile(
    r'"(?P<text>[^"]*)"?|\\(?P<escaped>.)|_(?P<width>.)|\*(?P<fill>.)|\[(?P<bracket>[^\]]*)\]'
    r"|(?P<ampm>(?i:AM/PM|A/P|上午/下午))|(?P<exponent>E[+-])|(?P<general>(?i:General|Standard))"
    r"|(?P<date>(?i:y+|m+|d+|h+|s+|b{2,4}|e+))|(?P<digit>[0#?])|(?P<sign>[.,%/@])|(?P<other>.)",
    re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?)")
_ELAPSED = re.compile(r"(?i)h+|m+|s+")
_CURRENCY = re.compile(r"\$([^-\]]*)(?:-[0-9A-Fa-f]+)?")
_EPOCH: Final = datetime(1899, 12, 30)  # noqa: DTZ001 - a sheet's times have no zone
_EPOCH_1904: Final = datetime(1904, 1, 1)  # noqa: DTZ001
_LAST_SERIAL: Final = 2_958_465
_FALSE_LEAP_DAY: Final = 60
"""Day 60 of a sheet is 29 February 1900, which never was."""
_DIGITS: Final = 11
_MAX_FORMAT: Final = 300
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Section:
    tokens: tuple[_Token, ...]
    condition: tuple[str, Decimal] | None = None

    def has(self, *kinds: str) -> bool:
        return any(token.kind in kinds for token in self.tokens)


@lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[_Section, ...]:
    """Return the sections of a format: for positive and negative numbers, zero, and text."""
    sections: list[_Section] = []
    tokens: list[_Token] = []
    condition: tuple[str, Decimal] | None = None
    for found in _TOKEN.finditer(code[:_MAX_FORMAT]):
        kind, text = found.lastgroup or "other", found[found.lastgroup or 0]
        if kind == "other" and text == ";":
            sections.append(_Section(tuple(tokens), condition))
            tokens, condition = [], None
        elif kind == "bracket":
            if limit := _CONDITION.fullmatch(text):
                condition = (limit[1], Decimal(limit[2]))
            elif _ELAPSED.fullmatch(text):
                tokens.append(_Token("elapsed", text.lower()))
            elif currency := _CURRENCY.fullmatch(text):
                tokens.append(_Token("text", currency[1]))
        elif kind in {"escaped", "other"}:
            tokens.append(_Token("text", text))
        elif kind == "width":
            tokens.append(_Token("text", " "))
        elif kind != "fill":
            tokens.append(_Token(kind, text))
    return (*sections, _Section(tuple(tokens), condition))


def is_date(code: str) -> bool:
    """Return whether a format shows dates or times."""
    return any(section.has("date", "elapsed") for section in _sections(code))


def format_text(text: str, code: str) -> str:
    """Return the text of a cell as the fourth section of its format, or one with `@`, shows it."""
    sections = _sections(code)
    chosen = sections[3] if len(sections) > 3 else next((each for each in sections if _has_at(each)), None)
    if chosen is None or not _has_at(chosen):
        return "" if len(sections) > 3 and not chosen else text
    return "".join(text if token == _Token("sign", "@") else token.text for token in chosen.tokens)


def _has_at(section: _Section) -> bool:
    return _Token("sign", "@") in section.tokens


def format_number(number: float | Decimal, code: str, *, from_1904: bool = False) -> str:
    """Return a number as a format shows it; a date or time from its serial number of days."""
    try:
        value = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
        if not value.is_finite():
            return str(number)
        section, signed = _choose(_sections(code), value)
        if section is None:
            return "#" * 8
        if section.has("date", "elapsed"):
            return _format_date(section, value, from_1904=from_1904)
        if signed:
            value = abs(value)
        return _format_places(section, value)
    except (InvalidOperation, OverflowError, ValueError):
        return str(number)


def _choose(sections: tuple[_Section, ...], value: Decimal) -> tuple[_Section | None, bool]:
    """Return the section for a number, and whether that says the sign itself."""
    numeric = [each for each in sections[:3] if len(sections) < 4 or each is not sections[3]]
    numeric = [each for each in numeric if not (_has_at(each) and len(sections) > 1)] or numeric
    if any(each.condition for each in numeric):
        for at, each in enumerate(numeric):
            if each.condition is None or _holds(value, each.condition):
                return each, at > 0 and value < 0
        return None, False
    if value < 0 and len(numeric) > 1:
        return numeric[1], True
    if value == 0 and len(numeric) > 2:
        return numeric[2], False
    return numeric[0], False


def _holds(value: Decimal, condition: tuple[str, Decimal]) -> bool:
    sign, limit = condition
    less, equal = value < limit, value == limit
    return {"<": less, "<=": less or equal, "=": equal, "<>": not equal, ">": not (less or equal), ">=": not less}[sign]


# numbers


def general(value: Decimal) -> str:
    """Return a number as the format General shows it: with at most eleven digits."""
    if value == 0:
        return "0"
    exponent = value.adjusted()
    if -5 <= exponent < _DIGITS:
        places = max(0, min(_DIGITS - 1 - max(exponent, 0), _DIGITS - 2))
        shown = f"{_round(value, places):f}"
        return (shown.rstrip("0").rstrip(".") if "." in shown else shown) or "0"
    mantissa = _round(value.scaleb(-exponent), 5)
    if abs(mantissa) >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
    shown = f"{mantissa:f}"
    shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return f"{shown}E{'+' if exponent >= 0 else '-'}{abs(exponent):02}"


def _round(value: Decimal, places: int) -> Decimal:
    with localcontext() as context:
        context.prec = 400
        return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def _format_places(section: _Section, value: Decimal) -> str:
    tokens = list(section.tokens)
    if section.has("general"):
        return "".join(general(value) if each.kind == "general" else each.text for each in tokens)
    if _has_at(section) and not section.has("digit"):
        return "".join(general(value) if each.text == "@" else each.text for each in tokens)
    digits = [at for at, each in enumerate(tokens) if each.kind == "digit"]
    if not digits:
        sign = "-" if value < 0 and any(each.text for each in tokens) else ""
        return sign + "".join(each.text for each in tokens).strip()
    slash = next((at for at, each in enumerate(tokens) if each == _Token("sign", "/")), None)
    if slash is not None and digits[0] < slash:
        return _as_fraction(tokens, slash, value)
    value *= Decimal(100) ** sum(each == _Token("sign", "%") for each in tokens)
    return _fill_places(tokens, value)


def _fill_places(tokens: list[_Token], value: Decimal) -> str:
    """Return a number in the places of a format, with its thousands, exponent, and texts around and between."""
    exponent_at = next((at for at, each in enumerate(tokens) if each.kind == "exponent"), None)
    mantissa = tokens[:exponent_at]
    point = next((at for at, each in enumerate(mantissa) if each == _Token("sign", ".")), None)
    whole = [at for at, each in enumerate(mantissa) if each.kind == "digit" and (point is None or at < point)]
    places = [at for at, each in enumerate(mantissa) if each.kind == "digit" and point is not None and at > point]
    last = max([*whole, *places], default=0)
    commas = [at for at, each in enumerate(mantissa) if each == _Token("sign", ",")]
    scaled = [at for at in commas if at > (whole[-1] if whole else last) and (point is None or at < point)]
    scaled += [at for at in commas if at > last and at not in scaled]
    grouped = any(whole and whole[0] < at < whole[-1] for at in commas)
    value = value.scaleb(-3 * len(scaled))
    power = 0
    if exponent_at is not None and value:
        engineering = len(whole) > 1 and mantissa[whole[0]].text == "#"
        power = value.adjusted() - (value.adjusted() % len(whole) if engineering else max(len(whole) - 1, 0))
        rounded = _round(value.scaleb(-power), len(places))
        power += 1 if rounded and rounded.adjusted() > max(len(whole) - 1, 0) and len(whole) <= 1 else 0
        value = value.scaleb(-power)
    rounded = _round(abs(value), len(places))
    negative = value < 0 and rounded != 0
    before, _, after = f"{rounded:f}".partition(".")
    shown = dict(_fraction_digits(mantissa, places, after))
    shown.update(_whole_digits(mantissa, whole, before.lstrip("0"), grouped=grouped))
    text = "".join(shown.get(at, "" if at in commas else each.text) for at, each in enumerate(mantissa))
    if exponent_at is not None:
        wide = sum(each.kind == "digit" for each in tokens[exponent_at:])
        sign = "-" if power < 0 else "+" if tokens[exponent_at].text == "E+" else ""
        rest = "".join(each.text for each in tokens[exponent_at + 1 :] if each.kind != "digit")
        text += f"E{sign}{abs(power):0{wide}}{rest}"
    return ("-" if negative else "") + text.strip()


def _fraction_digits(tokens: list[_Token], places: list[int], after: str) -> list[tuple[int, str]]:
    """Return the digits behind the point by their places; `#` and `?` drop zeros at the end."""
    kept = len(after.rstrip("0"))
    return [
        (at, after[n : n + 1] if n < kept or any(tokens[later].text == "0" for later in places[n:]) else "")
        for n, at in enumerate(places)
    ]


def _whole_digits(tokens: list[_Token], places: list[int], before: str, *, grouped: bool) -> list[tuple[int, str]]:
    """Return the digits before the point by their places; the first place takes all that are left over."""
    required = next((len(places) - n for n, at in enumerate(places) if tokens[at].text == "0"), 0)
    digits = before.rjust(required, "0")
    filled: list[tuple[int, str]] = []
    count = len(digits)
    for n, at in enumerate(places):
        right = len(places) - 1 - n
        piece = digits[: max(0, count - right)] if n == 0 else digits[count - right - 1 : count - right or None]
        if n and count - right - 1 < 0:
            piece = ""
        first = 0 if n == 0 else count - right - 1
        signs = ""
        for offset, digit in enumerate(piece):
            left = count - (first + offset)
            signs += digit + ("," if grouped and left > 1 and left % 3 == 1 else "")
        filled.append((at, signs))
    return filled


def _as_fraction(tokens: list[_Token], slash: int, value: Decimal) -> str:
    """Return a number as a mixed fraction, as `# ?/?` or `# ?/8` say."""
    below = "".join(each.text for each in tokens[slash + 1 :] if each.kind == "digit" or each.text.isdigit())
    fixed = below.replace("#", "").replace("?", "").lstrip("0")
    above_from = slash
    while above_from and tokens[above_from - 1].kind == "digit":
        above_from -= 1
    mixed = any(each.kind == "digit" for each in tokens[:above_from])
    exact = Fraction(abs(value))
    if fixed:
        denominator = int(fixed)
        part = Fraction(round(exact * denominator), denominator)
    else:
        part = exact.limit_denominator(10 ** max(1, min(len(below), 4)) - 1)
        denominator = part.denominator
    sign = "-" if value < 0 and part else ""
    whole = part.numerator // part.denominator if mixed else 0
    rest = (part - whole) * denominator
    if mixed and not rest:
        return f"{sign}{whole}"
    return f"{sign}{f'{whole} ' if whole else ''}{int(rest)}/{denominator}"


# dates and times


def _format_date(section: _Section, value: Decimal, *, from_1904: bool) -> str:
    elapsed = section.has("elapsed")
    if (value < 0 and not elapsed) or abs(value) > _LAST_SERIAL:
        return "#" * 8
    tokens = list(section.tokens)
    places = _places_of_seconds(tokens)
    seconds = _round(abs(value) * 86400, places)
    whole = int(seconds)
    fraction = f"{seconds - whole:f}".partition(".")[2]
    days = whole // 86400
    serial = days + (1 if 0 < days < _FALSE_LEAP_DAY and not from_1904 else 0)
    moment = (_EPOCH_1904 if from_1904 else _EPOCH) + timedelta(days=serial, seconds=whole % 86400)
    leap = days == _FALSE_LEAP_DAY and not from_1904
    halves = section.has("ampm")
    shown = ["-"] if value < 0 else []
    skip = 0
    for at, token in enumerate(tokens):
        if skip:
            skip -= 1
        elif token.kind == "elapsed":
            unit = {"h": 3600, "m": 60, "s": 1}[token.text[0]]
            shown.append(str(whole // unit).zfill(len(token.text)))
        elif token.kind == "date":
            minutes = token.text[0] in "mM" and _is_minutes(tokens, at)
            shown.append(_part(token.text.lower(), moment, minutes=minutes, halves=halves, leap=leap))
        elif token.kind == "ampm":
            first, _, second = token.text.partition("/")
            shown.append(first if moment.hour < 12 else second)
        elif token == _Token("sign", ".") and at + 1 < len(tokens) and tokens[at + 1].kind == "digit":
            skip = _zeros(tokens, at + 1)
            shown.append(f".{fraction[:skip].ljust(skip, '0')}")
        elif token.kind != "general":
            shown.append(token.text)
    return "".join(shown).strip()


def _zeros(tokens: list[_Token], at: int) -> int:
    count = 0
    while at + count < len(tokens) and tokens[at + count].kind == "digit":
        count += 1
    return count


def _places_of_seconds(tokens: list[_Token]) -> int:
    return max((_zeros(tokens, at + 1) for at, each in enumerate(tokens) if each == _Token("sign", ".")), default=0)


def _is_minutes(tokens: list[_Token], at: int) -> bool:
    """Return whether `m` is minutes: behind hours, or before seconds."""
    if len(tokens[at].text) > 2:
        return False
    units = [(n, each.text[0].lower()) for n, each in enumerate(tokens) if each.kind in {"date", "elapsed"}]
    here = [n for n, _ in units].index(at)
    before = units[here - 1][1] if here else ""
    after = units[here + 1][1] if here + 1 < len(units) else ""
    return before == "h" or after == "s"


def _part(text: str, moment: datetime, *, minutes: bool, halves: bool, leap: bool) -> str:  # noqa: PLR0911 - one for each unit
    wide = len(text)
    match text[0]:
        case "y" | "e":
            return f"{moment.year:04}" if wide > 2 or text[0] == "e" else f"{moment.year % 100:02}"
        case "m" if minutes:
            return f"{moment.minute:0{min(wide, 2)}}"
        case "m":
            name = _MONTHS[1 if leap else moment.month - 1]
            names = {3: name[:3], 4: name, 5: name[:1]}
            return names.get(wide, f"{2 if leap else moment.month:0{min(wide, 2)}}")
        case "d":
            name = _DAYS[moment.weekday()]
            return {3: name[:3], 4: name}.get(wide, f"{29 if leap else moment.day:0{min(wide, 2)}}")
        case "h":
            hour = (moment.hour % 12 or 12) if halves else moment.hour
            return f"{hour:0{min(wide, 2)}}"
        case "s":
            return f"{moment.second:0{min(wide, 2)}}"
    return f"{moment.year + 543}"
