"""Rules for keys and tokens that are recognised by their form: each provider's prefix, alphabet and length."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from knowledge.text.redaction import checksums
from knowledge.text.redaction.rule import Automaton, Rule, token_rule
from knowledge.text.redaction.vendor_tokens import PLATFORMS

_KEY_NAME = r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_KEY_NAME_SSH2 = r"SSH2 [A-Z0-9 ]{0,30}PRIVATE KEY ----"
_KEY_BODY = r"(?:[^\xff-]|-[^\xff-])*?"  # no two dashes, so that a match ends before the next key
_KEY_BREAK = r"(?:\\{1,4}[nr]|[^\xffA-Za-z0-9/=])+"  # of a diff, quote, comment or string literal
_LINE_HEAD = r"[^\n\xff]{1,80}[ \t|:]"  # of a log: timestamp, container
_KEY_HEADERS = rf"(?:{_KEY_BREAK}[A-Z][A-Za-z]{{2,20}}(?:-[A-Z][A-Za-z]{{1,20}})?: [^\n\\\xff]*)*"
_KEY_LINE = rf"(?:{_KEY_BREAK}[A-Za-z0-9+/=]{{16,}}|(?:\\n|\\r|\s){{1,4}}{_LINE_HEAD}[A-Za-z0-9+/=]{{48,}})"
_KEY_CUT_OFF = rf"{_KEY_HEADERS}{_KEY_LINE}+(?:{_KEY_BREAK}[A-Za-z0-9+/]{{1,15}}={{1,2}})?"
_KEY_END_ALONE = (
    rf"(?:(?:[A-Za-z0-9+/=]{{48,}}{_KEY_BREAK}(?:{_LINE_HEAD})?)+(?:[A-Za-z0-9+/=]+{_KEY_BREAK})?"
    rf"|[A-Za-z0-9+/]{{4,}}={{1,2}}{_KEY_BREAK})"
)
_KEY_BASE64 = (  # the base64 of "-----BEGIN", a name, "PRIVATE KEY"
    r"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURS|BQUklWQVRFIE|BFQyBQUklWQVRFIE|BPUEVOU1NIIFBSSVZBVEUg|BFTkNSWVBURUQgUFJJVkFURS)"
    r"[A-Za-z0-9+/=]*"
)
_KEY_PUTTY = r"Private-Lines: \d{1,3}(?:\s{1,2}[A-Za-z0-9+/=]{16,})+"


_LONG_PART = re.compile(r"\{(?:[89]|\d\d+)[,}]")
_LITERAL = re.compile(r"(?<![\[\w\\-])(?:\\b)?(?:\w|-|\\\.){3,}")


_NESTED = re.compile(r"\((?:[^()]|\([^()]*\))*\)|\[(?:\\.|[^\]\\]){0,200}\]|\\.|([|])")


def _beginnings(pattern: str) -> str:
    """Return the beginnings of a pattern's alternatives: they match wherever it does, with far fewer states."""
    bars = [found.start() for found in _NESTED.finditer(pattern) if found[1]]
    cuts = zip([-1, *bars], [*bars, len(pattern)], strict=True)
    return "|".join(_beginning(pattern[start + 1 : end]) for start, end in cuts)


def _beginning(alternative: str) -> str:
    """Return an alternative up to its first long part, if a literal stands before that."""
    part = _LONG_PART.search(alternative)
    before = alternative[: part.start()] if part else ""
    is_whole = before.count("(") == before.count(")")
    return f"{before}{{8}}" if is_whole and _LITERAL.match(before) else alternative


_AFTER_PREFIX = re.compile(rb"[_-]")
_HEX = re.compile(rb"[0-9a-f]+")
_OF_SECRETS = frozenset(b"sk pat oat ort out uut secret token oauth apikey live".split())
_QUALIFIERS = r"(?:sk|pat|oat|[ou][ru]t|uut|sat|svc|api|apikey|key|secret|token|oauth|live|prod|production|test)"
"""Parts of a prefix by which vendors tell their keys apart."""


def _of_discord(value: bytes, _: bytes) -> int:
    """Hide a token that begins with the base64 of a bot's number; other names of three parts do not."""
    number = value.partition(b".")[0]
    try:
        return len(value) if base64.urlsafe_b64decode(number + b"=" * (-len(number) % 4)).isdigit() else 0
    except ValueError:
        return 0


def _has_digit_and_both_cases(value: bytes, _: bytes) -> int:
    """Hide a token with a digit and letters of both cases; names with the same prefix have no such mixture."""
    body = _AFTER_PREFIX.split(value, maxsplit=1)[-1]
    return len(value) if body.lower() != body != body.upper() and any(48 <= byte <= 57 for byte in body) else 0


def _is_random_after_prefix(value: bytes, _: bytes) -> int:
    """Hide what follows a prefix such as `acme_live_`, if it is random; after `prod_` digits may be of a commit."""
    *prefix, body = _AFTER_PREFIX.split(value)
    if _HEX.fullmatch(body):
        return len(value) if len(body) >= 32 and prefix[-1] in _OF_SECRETS else 0
    return len(value) if checksums.is_random(body) else 0


TOKENS: Final[tuple[Rule, ...]] = (
    token_rule(
        "private-key",
        rf"-----BEGIN {_KEY_NAME}(?:{_KEY_BODY}-?-----END {_KEY_NAME}|{_KEY_CUT_OFF})"
        rf"|---- BEGIN {_KEY_NAME_SSH2}(?:{_KEY_BODY}---- END {_KEY_NAME_SSH2}|{_KEY_CUT_OFF})"
        rf"|{_KEY_END_ALONE}(?:-----END {_KEY_NAME}|---- END {_KEY_NAME_SSH2})"
        rf"|{_KEY_BASE64}|{_KEY_PUTTY}",
        hint=rf"-----(?:BEGIN|END) {_KEY_NAME}|---- (?:BEGIN|END) {_KEY_NAME_SSH2}|{_KEY_BASE64}|{_KEY_PUTTY}",
    ),
    token_rule("aws-access-key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}", alone=True),
    token_rule(  # of temporary credentials
        "aws-secret-key", r"\b(?:IQoJb3JpZ2luX2Vj|F[QwI]oGZXIvYXdzE|AQoDYXdzE)[A-Za-z0-9+/=%]{100,}"
    ),
    token_rule("aws-secret-key", r"\bABSK[A-Za-z0-9+/]{80,}={0,2}|\bbedrock-api-key-[A-Za-z0-9+/_=-]{40,}"),
    token_rule("google-api-key", r"\bAQ\.[A-Za-z0-9][\w-]{39,}|\bAIza[\w-]{35}|GOCSPX-[\w-]{20,}|\bya29\.[\w.-]{20,}"),
    token_rule("azure-key", r"[\w~.-]{3}\dQ~[\w~.-]{31,40}", hint=r"\dQ~[\w~.-]{31}"),
    token_rule("github-token", r"gh[oprsu]_[A-Za-z0-9]{36,}|github_pat_\w{60,}"),
    token_rule(
        "gitlab-token", r"\bgl(?:pat|dt|rt|rtr|ptt|cbt|soat|oas|ft|agent|imt|ffct)-[\w-]{20,}(?:\.[0-9a-z.]{2,14})?"
    ),
    token_rule(
        "slack-token",
        r"\bxox[abceoprs](?:\.xox[bp])?-\d[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{20,}"
        r"|(?:https://)?hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w+/-]{20,}",
    ),
    token_rule("stripe-key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}|\bwhsec_[A-Za-z0-9+/=]{24,}"),
    token_rule("anthropic-key", r"\bsk-ant-[a-z0-9]{3,12}-[\w-]{20,}"),
    token_rule(
        "openai-key",
        r"\bsk-(?:(?:proj|svcacct|admin|None|or-v1)-[\w-]{20,}|[A-Za-z0-9]{32,}"
        r"|(?:[A-Za-z0-9]{1,12}-){0,3}[A-Za-z0-9]{24,})",  # of gateways, with their words in front; no word is so long
    ),
    token_rule("npm-token", r"npm_[A-Za-z0-9]{36}"),
    token_rule("pypi-token", r"pypi-AgE[\w-]{50,}"),
    token_rule("twilio-key", r"SK[0-9a-f]{32}", alone=True),
    token_rule("sendgrid-key", r"\bSG\.[\w-]{16,32}\.[\w-]{30,60}"),
    token_rule("huggingface-token", r"\b(?:hf|api_org)_[A-Za-z]{1,4}[A-Za-z0-9]{30,}|\bhf_[A-Za-z0-9]{34}"),
    token_rule(
        "jwt",
        r"\beyJ[\w-]{8,}\.(?:[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]+\.[\w-]{8,})?|\.[\w-]{8,}(?:\.[\w-]+\.[\w-]{8,})?)",
        hint=r"\beyJ[\w-]{8,}\.\.?[\w-]{8}",
    ),
    token_rule("platform-token", "|".join(PLATFORMS), hint="|".join(map(_beginnings, PLATFORMS))),
    token_rule(
        "password",
        r"\$(?:1|5|6|apr1)\$[\w./]{1,16}\$[\w./]{22,}|\$[56]\$rounds=\d+\$[\w./$]{16,}|\$2[abxy]?\$\d\d\$[\w./]{50,}"
        r"|\$(?:7|y|gy)\$[\w./]{1,40}\$[\w./$]{40,}|\$(?:argon2(?:id|i|d)|scrypt)\$[\w=,$]{4,60}\$[\w./+=-]{8,}\$[\w./+=-]{16,}"
        r"|\bSCRAM-SHA-\d{1,3}\$\d+:[\w+/=]{16,}\$[\w+/=]{20,}:[\w+/=]{20,}"
        r"|\bpbkdf2_sha\d{1,3}\$\d+\$[\w./$=+-]{30,}",
    ),
    token_rule(
        "platform-token",
        rf"\b[a-z][a-z0-9]{{1,14}}_(?:[a-z0-9]{{1,10}}_)?{_QUALIFIERS}_[A-Za-z0-9]{{20,}}\b",
        hint=rf"_{_QUALIFIERS}_[A-Za-z0-9]{{16}}",
        check=_is_random_after_prefix,
    ),  # of vendors that are in no list
    token_rule(
        "azure-key",
        r"[\w+/-]{44}AzFu[\w+/-]{6}==|[A-Za-z0-9+/]{33}(?:AzCa[A-Za-z0-9]{5}|\+(?:AEh|ASb|ARm)[A-Za-z0-9+/]{4,5})="
        r"|[A-Za-z0-9]{42}(?:AzSe|\+ACR)[A-Za-z0-9]{6}|[A-Za-z0-9+/]{76}(?:ACDb|AMBS|\+ASt|APIM)[A-Za-z0-9+/]{4,8}={0,2}",
        hint=r"(?:Az(?:Fu|Ca|Se)|\+(?:AEh|ASb|ARm|ACR|ASt)|ACDb|AMBS|APIM)[\w+/-]{4}",
        alone=True,
    ),
    token_rule(
        "platform-token",
        r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}",
        hint=r"[0-9a-f]-[0-9a-f]{8}-[0-9a-f]{8}[^-]",
        alone=True,
    ),  # Mailgun, since 2018
    token_rule(
        "platform-token",
        r"\b(?:s\.[A-Za-z0-9]{24}|00[\w-]{40}|4b1d[A-Za-z0-9]{38}|tr_(?:dev|prod|stg)_[A-Za-z0-9]{20}|unkey_[A-Za-z0-9]{22,}"
        r"|dub_[A-Za-z0-9]{24}|secret-[A-Za-z0-9]{43}|2[A-Za-z0-9]{26}_[A-Za-z0-9]{21}|\d{15,16}\|[\w-]{27})\b",
        hint=r"\b(?:s\.[A-Za-z0-9]{8}|00[\w-]{8}|4b1d[A-Za-z0-9]{8}|tr_(?:dev|prod|stg)_|unkey_|dub_|secret-[A-Za-z0-9]{20}|2[A-Za-z0-9]{26}_"
        r"|\d{15}\d?\|)",
        check=_has_digit_and_both_cases,
    ),  # Vault before 1.10, Okta, ClickHouse, Trigger.dev, Unkey, Dub, Statsig, ngrok, Facebook
    token_rule(
        "platform-token", r"\b(?:rnd_[A-Za-z0-9]{24,}|fw_[A-Za-z0-9]{20,40})\b", check=_has_digit_and_both_cases
    ),  # Render, Fireworks
    token_rule("platform-token", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}", check=_of_discord),
)
"""Mostly as published by the providers; after a prefix, all characters of the alphabet are taken."""
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
