"""Secrets of many kinds, made from their forms with a fixed seed, each written as it occurs in texts.

The kinds are in `tests/cases/secret_kinds.json`: the form, and the page that documents it. In a form `{20a}` stands for
20 random characters of an alphabet, `{uuid}` for a UUID. Nothing in that file is a value, so no scanner of secrets
finds one in the repository. Every third kind, by its name, is held out: rules are fitted to the others alone.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from uuid import UUID

from tests.support.cases import load_tables

_ALNUM = string.ascii_letters + string.digits
_ALPHABETS = {
    "a": _ALNUM,
    "b": _ALNUM + "+/",
    "w": _ALNUM + "-_",
    "x": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "U": string.ascii_uppercase + "234567",
    "A": string.ascii_uppercase + "234567",
    "S": string.ascii_uppercase + "234567",
    "B": "023456789ACDEFGHJKLMNPQRSTUVWXYZ",  # of bech32
    "L": string.ascii_letters,
    "d": string.digits,
}
_PART = re.compile(r"\{(?:(\d+)([a-zA-Z])|uuid|(ssn_?))\}")
_ANYWHERE = (
    "2026-03-04T11:20:31Z ERROR auth failed for {} (401)",
    "export CREDENTIAL={}",
    '{"event": "login", "credential": "{}", "ok": false}',
    "  credential: {}",
    "X-Api-Key: {}",
    "GET /v1/items?key={}&page=2 HTTP/1.1",
    "deploy --credential {} --region eu",
    "E       ValueError: unexpected call with '{}'",
    'client = Client("{}")',
    "using {}, retrying",
)
_NAMED = (
    "{NAME}={}",
    "export {NAME}='{}'",
    '{"{name}": "{}", "region": "eu"}',
    "  {name}: {}",
    '  - name: {NAME}\n    value: "{}"',
    "{Header}: {}",
    "curl -s -H '{Header}: {}' https://api.corp.net/v1",
    "GET /v1/items?{name}={}&page=2 HTTP/1.1",
    "tool --{option} {} --region eu",
    "tool --{option}={}",
    "KeyError: config {'{name}': '{}'}",
    '{name} = "{}"',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A text with a secret of a kind in it. `held_out`: of a kind that no rule was fitted to."""

    kind: str
    secret: str
    text: str
    held_out: bool


def write_all(*, seed: int) -> Iterator[Written]:
    """Yield each kind in each of its spellings, with a new value each time."""
    for kind in load_tables("secret_kinds")["KINDS"]:
        random = Random(f"{seed} {kind['kind']}")
        for spelling in _spellings(kind):
            secret = make_secret(kind["form"], random)
            yield Written(
                kind=kind["kind"],
                secret=secret,
                text=spelling.replace("{}", secret),
                held_out=is_held_out(kind["kind"]),
            )


def is_held_out(kind: str) -> bool:
    """Return whether a kind is one of the third that rules are not fitted to."""
    return sha256(kind.encode()).digest()[0] % 3 == 0


def make_secret(form: str, random: Random) -> str:
    """Return a random value of a form."""
    return _PART.sub(lambda part: _make_part(part, random), form)


def _make_part(part: re.Match[str], random: Random) -> str:
    if part[3]:
        area = random.choice([number for number in range(1, 900) if number != 666])
        numbers = (f"{area:03}", f"{random.randint(1, 99):02}", f"{random.randint(1, 9999):04}")
        return (" " if part[3] == "ssn_" else "-").join(numbers)
    if part[1] is None:
        return str(UUID(int=random.getrandbits(128), version=4))
    alphabet, count = _ALPHABETS[part[2]], int(part[1])
    while True:
        made = "".join(random.choices(alphabet, k=count))
        if _is_mixed(made, alphabet) and made[0] not in "-_+/" and made[-1] not in "-_+/":
            return made


def _is_mixed(made: str, alphabet: str) -> bool:
    """Return whether each sort of character that the alphabet has occurs, where the text is long enough for it."""
    sorts = (str.isdigit, str.islower, str.isupper)
    return len(made) < 10 or all(any(map(sort, made)) for sort in sorts if any(map(sort, alphabet)))


def _spellings(kind: dict[str, str]) -> Iterator[str]:
    if "lines" in kind:
        yield from kind["lines"]
        return
    setting = kind.get("setting")
    if setting is None:
        yield from _ANYWHERE
        return
    for spelling in _NAMED:
        yield (
            spelling.replace("{NAME}", setting.upper())
            .replace("{name}", setting.lower())
            .replace("{option}", setting.lower().replace("_", "-"))
            .replace("{Header}", kind["header"])
        )
