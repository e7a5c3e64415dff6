"""Secrets that are none: made from their formats with a seeded random, 25 kinds, planted in texts that look real.

Nothing here is a literal that a scanner of secrets would take for one: prefixes are put together at run time.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from tests.support.cases import load_tables

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL64 = ALNUM + "-_"
BASE64 = ALNUM + "+/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A text with a secret in it. `structured`: recognised by its own form, not by what stands around it."""

    kind: str
    secret: str
    text: str
    structured: bool


def chars(random: Random, alphabet: str, count: int) -> str:
    return "".join(random.choices(alphabet, k=count))


def _mixed(random: Random, alphabet: str, count: int) -> str:
    """Return random characters with a digit and a letter among them, as any long random text has."""
    while True:
        made = chars(random, alphabet, count)
        if any(c.isdigit() for c in made) and any(c.isalpha() for c in made):
            return made


def google_api_key(r: Random) -> str:
    return r.choice(
        [
            "AI" + "za" + chars(r, URL64, 35),
            "GOCSPX" + "-" + chars(r, URL64, 28),
            "ya29" + ".a0" + chars(r, URL64, r.randint(60, 150)),
        ]
    )


def azure_key(r: Random) -> str:
    return r.choice(
        [
            base64.b64encode(r.randbytes(64)).decode(),  # a storage account's
            chars(r, ALNUM, 3) + "8" + "Q~" + chars(r, ALNUM + "_.-~", 34),  # an application's
        ]
    )


def github_token(r: Random) -> str:
    classic = "gh" + r.choice("pousr") + "_" + chars(r, ALNUM, 36)
    return r.choice([classic, "github" + "_pat_" + chars(r, ALNUM, 22) + "_" + chars(r, ALNUM, 59)])


def slack_token(r: Random) -> str:
    def digits() -> str:
        return chars(r, string.digits, r.randint(10, 13))

    hook = "https://hooks.slack" + ".com/services/T" + chars(r, UPPER, 8) + "/B" + chars(r, UPPER, 10)
    return r.choice(
        [
            "xo" + "xb-" + digits() + "-" + digits() + "-" + chars(r, ALNUM, 24),
            "xo" + "xp-" + digits() + "-" + digits() + "-" + digits() + "-" + chars(r, HEX, 32),
            "xa" + "pp-1-A" + chars(r, UPPER, 10) + "-" + digits() + "-" + chars(r, HEX, 64),
            hook + "/" + chars(r, ALNUM, 24),
        ]
    )


def stripe_key(r: Random) -> str:
    kind = r.choice(["sk", "rk"]) + r.choice(["_live_", "_test_"])
    return r.choice([kind + chars(r, ALNUM, r.choice([24, 99])), "wh" + "sec_" + chars(r, ALNUM, 32)])


def openai_key(r: Random) -> str:
    middle = "T3Blbk" + "FJ"
    return r.choice(
        [
            "sk" + "-" + chars(r, ALNUM, 20) + middle + chars(r, ALNUM, 20),
            "sk" + "-proj-" + chars(r, URL64, 74) + middle + chars(r, URL64, 74),
            "sk" + "-svcacct-" + chars(r, URL64, 58) + middle + chars(r, URL64, 58),
        ]
    )


def jwt(r: Random) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": r.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    body = part({"sub": chars(r, string.digits, 10), "name": chars(r, ALNUM, 8), "iat": r.randint(10**9, 2 * 10**9)})
    return f"{head}.{body}." + chars(r, URL64, r.choice([43, 86, 342]))


def private_key(r: Random) -> str:
    named = r.choice(["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""]) + "PRIVATE KEY"
    lines = [chars(r, BASE64, 64) for _ in range(r.randint(3, 25))] + [chars(r, BASE64, r.randint(4, 60)) + "=="]
    dashes = "-" * 5
    told = "\n".join([f"{dashes}BEGIN {named}{dashes}", *lines, f"{dashes}END {named}{dashes}"])
    return told if r.random() < 0.7 else told.replace("\n", "\\n")  # as in JSON


def password(r: Random) -> str:
    """Return a password as people and generators make them."""
    word = r.choice(["winter", "Dragon", "falcon", "Porto", "monday", "Kestrel", "orchid", "Summit"])
    marks = "!#$%*+?_^~.-"
    return r.choice(
        [
            word + chars(r, string.digits, r.randint(2, 4)) + r.choice(["", r.choice(marks)]),
            word + r.choice(marks) + chars(r, ALNUM, 5) + chars(r, string.digits, 1),
            _mixed(r, ALNUM, r.randint(10, 24)),
            _mixed(r, ALNUM + marks, r.randint(12, 32)),
        ]
    )


def secret(r: Random) -> str:
    """Return a key of a service nobody knows the format of."""
    return r.choice(
        [
            _mixed(r, HEX, 32),
            _mixed(r, HEX, 64),
            _mixed(r, ALNUM, r.randint(20, 48)),
            _mixed(r, URL64, r.randint(24, 64)).strip("-_"),
            base64.b64encode(r.randbytes(32)).decode(),
        ]
    )


_NAMES = ("jane", "tomasz", "mei", "o.haddad", "r_okafor", "lucia.fernandez", "anna-lena", "b.smith42", "priya")
_HOUSES = ("kellerbau", "northwind-it", "fjordmail", "acmecorp", "gmail", "uni-lund", "oakridge", "web")


def email(r: Random) -> str:
    ending = r.choice(["com", "org", "de", "co.uk", "io", "se", "net", "edu"])
    return f"{r.choice(_NAMES)}{r.choice(['', '', chars(r, string.digits, 2)])}@{r.choice(_HOUSES)}.{ending}"


def phone(r: Random) -> str:
    def digits(count: int) -> str:
        return chars(r, "23456789", 1) + chars(r, string.digits, count - 1)

    return r.choice(
        [
            f"+49 {r.choice([30, 40, 151, 170])} {digits(4)}{digits(4)}",
            f"+1 ({digits(3)}) {digits(3)}-{digits(4)}",
            f"+1-{digits(3)}-{digits(3)}-{digits(4)}",
            f"+44 20 {digits(4)} {digits(4)}",
            f"+33 6 {digits(2)} {digits(2)} {digits(2)} {digits(2)}",
            f"+91{digits(10)}",
            f"({digits(3)}) {digits(3)}-{digits(4)}",
            f"{digits(3)}-{digits(3)}-{digits(4)}",
        ]
    )


def iban(r: Random) -> str:
    country, letters, count = r.choice(
        [("DE", 0, 18), ("FR", 0, 23), ("GB", 4, 14), ("NL", 4, 10), ("ES", 0, 20), ("CH", 0, 17), ("NO", 0, 11)]
    )
    account = chars(r, string.ascii_uppercase, letters) + chars(r, string.digits, count)
    number = "".join(str(int(c, 36)) for c in account + country + "00")
    told = f"{country}{98 - int(number) % 97:02}{account}"
    return told if r.random() < 0.5 else " ".join(told[i : i + 4] for i in range(0, len(told), 4))


def credit_card(r: Random) -> str:
    start, length = r.choice([("4", 16), ("51", 16), ("55", 16), ("37", 15), ("6011", 16), ("2221", 16)])
    digits = start + chars(r, string.digits, length - len(start) - 1)
    total = sum(sum(divmod(int(d) * (2 - i % 2), 10)) for i, d in enumerate(reversed(digits)))
    told = digits + str(-total % 10)
    if r.random() < 0.5:
        return told
    cuts = (0, 4, 10, 15) if length == 15 else (0, 4, 8, 12, 16)
    return r.choice(" -").join(told[a:b] for a, b in pairwise(cuts))


_HOSTS = ("db.internal", "10.2.0.14", "cache-3.prod.northwind.net", "localhost", "rabbit")

_BARE = tuple(load_tables("secrets")["_BARE"])
_LINES: dict[str, Sequence[str]] = load_tables("secrets")["_LINES"]

MAKERS: dict[str, Callable[[Random], str]] = {
    "aws-access-key": lambda r: r.choice(["AK", "AS"]) + "IA" + chars(r, string.ascii_uppercase + "234567", 16),
    "aws-secret-key": lambda r: _mixed(r, BASE64, 40),
    "google-api-key": google_api_key,
    "azure-key": azure_key,
    "github-token": github_token,
    "gitlab-token": lambda r: (
        r.choice(["glpat", "gldt", "glrt", "glptt", "glcbt"]) + "-" + chars(r, URL64, r.choice([20, 20, 26, 40]))
    ),
    "slack-token": slack_token,
    "stripe-key": stripe_key,
    "openai-key": openai_key,
    "anthropic-key": lambda r: "sk" + "-ant-" + r.choice(["api03", "admin01"]) + "-" + chars(r, URL64, 93) + "AA",
    "npm-token": lambda r: "npm" + "_" + chars(r, ALNUM, 36),
    "pypi-token": lambda r: "pypi" + "-AgEI" + "cHlwaS5vcmc" + chars(r, URL64, r.randint(120, 180)),
    "twilio-key": lambda r: "S" + "K" + chars(r, HEX, 32),
    "sendgrid-key": lambda r: "S" + "G." + chars(r, URL64, 22) + "." + chars(r, URL64, 43),
    "huggingface-token": lambda r: "h" + "f_" + chars(r, ALNUM, 34),
    "jwt": jwt,
    "private-key": private_key,
    "url-password": lambda r: _mixed(r, ALNUM + "!*._~-", r.randint(8, 24)),
    "authorization": secret,
    "password": password,
    "secret": secret,
    "email": email,
    "phone": phone,
    "iban": iban,
    "credit-card": credit_card,
}
"""The 25 kinds, by the name that stands in the placeholder."""

UNSTRUCTURED = frozenset({"password", "secret", "phone"})

_AROUND: tuple[str, ...] = tuple(load_tables("secrets")["_AROUND"])


def around(random: Random, line: str) -> str:
    return random.choice(_AROUND).replace("{}", line)


def planted(count: int, *, seed: int) -> list[Planted]:
    """Return as many texts with one secret each, the kinds in turn."""
    random = Random(seed)
    made = []
    for number in range(count):
        kind = list(MAKERS)[number % len(MAKERS)]
        told = MAKERS[kind](random)
        line = random.choice(_LINES.get(kind, _BARE)).format(told, host=random.choice(_HOSTS))
        text = around(random, line)
        made.append(Planted(kind=kind, secret=told, text=text, structured=kind not in UNSTRUCTURED))
    return made


_LENGTH = 12


def survives(secret: str, text: str) -> bool:
    """Whether twelve characters in a row of a secret, or all of a shorter one, are still in a text."""
    return any(piece in text for piece in _pieces(secret))


def surviving(secrets: Sequence[Planted], text: str) -> list[Planted]:
    """Return the secrets that survive in a long text."""
    pieces = {piece for each in secrets for piece in _pieces(each.secret) if len(piece) == _LENGTH}
    starts = range(len(text) - _LENGTH + 1)
    there = {piece for start in starts if (piece := text[start : start + _LENGTH]) in pieces}
    return [
        each
        for each in secrets
        if not there.isdisjoint(_pieces(each.secret)) or (len(each.secret) < _LENGTH and each.secret in text)
    ]


def _pieces(secret: str) -> list[str]:
    length = min(_LENGTH, len(secret))
    return [secret[start : start + length] for start in range(len(secret) - length + 1)]


BENIGN = tuple(load_tables("secrets")["BENIGN"])
"""Lines with nothing to hide, some of which look as if."""
