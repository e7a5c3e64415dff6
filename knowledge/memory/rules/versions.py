"""Versions as programs print and people write them, matched against ranges; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

_ALIASES: Mapping[str, str] = {
    "postgres": "postgresql",
    "psql": "postgresql",
    "node": "node.js",
    "nodejs": "node.js",
    "k8s": "kubernetes",
    "golang": "go",
    "js": "javascript",
    "ts": "typescript",
    "py": "python",
    "python3": "python",
    "cpp": "c++",
    "csharp": "c#",
    "dotnet": ".net",
    "vuejs": "vue",
    "vue.js": "vue",
    "reactjs": "react",
    "react.js": "react",
    "nextjs": "next.js",
    "mongo": "mongodb",
    "tf": "terraform",
    "gha": "github-actions",
    "github actions": "github-actions",
}
"""Aliases of the same technology, which share their versions. Ours."""


def canonical_name(name: str) -> str:
    """Return a name's canonical form: Python and python are one technology, as are postgres and PostgreSQL."""
    folded = name.strip().casefold()
    return _ALIASES.get(folded, folded)


_NAME = re.compile(r"^[A-Za-z][A-Za-z_.-]*(?:\s+(?=[\dv<>=!~^])|(?=[<>=!~]=|[<>]))")
"""The name before a version: `Python 3.12.1`, `pydantic==2.7`."""
_WILDCARD = re.compile(r"(?:={2,3}\s*)?v?(\d+(?:\.\d+)*)\.[xX*](?:\.[xX*])?$")
_CARET_OR_TILDE = re.compile(r"([~^])\s*v?(\d+(?:\.\d+)*)$")
_ALONE = re.compile(r"(v?\d\S*)(?:\s+(?:[(\[]|\|(?!\|| ?v?\d)).*)?", re.DOTALL)
_SEVERAL = re.compile(
    r"\|\| ?v?\d|\b(?:and|or|also|through|on)\s+v?\d|^\D*\d+(?:\.\d+)?\s?[-\u2013]\s?v?\d+(?:\.\d+)?$"
    r"|\d(?:\.x)?\+(?:\s|$)|\b1\.\d+\.\d+_\d",
    re.IGNORECASE,
)
"""Several versions, or an open end; also Java's `1.8.0_402`, which may be meant as 8."""
_PRODUCT = r"(?:(?:[A-Za-z][\w.+#-]{0,30}:?|\([^()]{1,80}\))\s+){0,4}"
_PREFIX = r"(?:[A-Za-z][a-z]{0,11}[/-]|[a-z][a-z0-9./_-]{0,60}[:@]|go|v=?|\")?"
_SUFFIX = r"(?:[-+_](?!\d+\.\d)|\.(?!\d))[A-Za-z0-9][\w.+-]{0,60}|p\d+|[a-z]\b"
_TRAILER = (
    r",? build .*|\s+(?:[(\[].*|(?:on|for|from|linux|darwin|windows|LTS)\b.*|sha=.*"
    r"|\d{4}-\d\d-\d\d.*|\d{1,2} [A-Z][a-z]{2} .*)"
)
_PRINTED = re.compile(
    rf"{_PRODUCT}{_PREFIX}(?P<version>\d++(?:\.\d++)*+)(?P<suffix>{_SUFFIX})?\"?(?:{_TRAILER})?", re.DOTALL
)
"""Output of a program's `--version`, an image tag, a release of a distribution or a cloud: `Docker version 26.1.0,
build 9714adc`, `node:22-alpine`, `1.29.3-gke.1282000`."""
_PRE = re.compile(
    r"[-+_.]?(?:a|alpha|b|beta|c|rc|cr|m|ea|pre|preview|dev|snapshot|nightly|canary|next)(?:[\d.+_-]|$)", re.IGNORECASE
)
"""Suffixes of pre-releases, which may come before the release they name."""
_PATCH = re.compile(r"p\d+|[a-z]")
"""Patch level of OpenSSL, OpenSSH, Ruby and sudo: `1.1.1w`, `9.6p1`."""
_RANGE_WORDS = re.compile(
    r"(?i:\s*(?:\S+\s+)?(?:above|after|at|before|below|between|from|less|max|maximum|min|minimum|more|newer|not?|older|over"
    r"|since|than|to|under|until|up|without)\s)"
)
"""Words before a version that make it a range."""
_VERSIONED = re.compile(
    r"(?P<name>\S(?:[^@=<>~^!]*?[^\s@=<>~^!/])?)(?:\s+version)?(?:\s*(?:[=<>~!]?=+|[@/<>~^])\s*|\s+)v?\d[\w.+*-]*(?:[\s,(\[].*)?",
    re.DOTALL,
)
"""A name followed by a version: `vite@5.2`, `vite 5`, `vite==5`, `vite/5.2.0 linux-x64`."""
_CLAUSE = r"(?:[<>=!~]=|[<>])\s*v?\d\w*(?:\.[\w*]+)*"
_REQUIREMENT = re.compile(
    r"(?i:(?:(?:only|just|when|if|where|while|with|on|for|in|under|you|we|use|using|have|run|running|is|are)\s+)*)"
    r"(?P<name>[A-Za-z][\w.-]*?)\s*"
    rf"(?:(?P<range>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)|\s[vV]?(?P<version>\d+(?:\.\d+)?(?:\.[x*])?))"
    r"(?:\s+only)?\s*[.!]?"
)
_MAX_CHARS = 200


class Bound(NamedTuple):
    """An end of a range; `included` if it belongs to the range."""

    version: Version
    included: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A technology and the range of its versions."""

    technology: str
    versions: str


def parse_range(text: str) -> SpecifierSet:
    """Parse a range of versions. Raises InvalidSpecifier."""
    return _specifiers(text)


def is_within(wanted: str, text: str) -> bool | None:
    """Return whether a version is in the `wanted` range; None where that is unknown.

    The version may be written as `python --version`, `sys.version` and other programs print it, or as a range (`2.x`,
    `^2.1`, `~2.1`, `>=2,<3`); of a range it is known only if no version of it is in the wanted one. So it is of `3` or
    `3.10` where 3.10.4 is meant.
    """
    try:
        within = _specifiers(wanted)
    except InvalidSpecifier:
        return None
    if _RANGE_WORDS.match(text) or _SEVERAL.search(text.strip()):
        return None
    alone = _NAME.sub("", text.strip())
    try:
        version = _version(alone)
        if version is None:
            return False if _are_disjoint(within, _range(alone)) else None
    except (InvalidSpecifier, InvalidVersion):
        version = _parse_printed(text.strip())
    if version is None or _is_next_to_end(version, within):
        return None
    return within.contains(version, prereleases=True) or (None if _may_begin(version, within) else False)


def strip_version(text: str) -> str:
    """Return a name without the version that follows it."""
    match = _VERSIONED.fullmatch(text.strip()) if len(text) <= _MAX_CHARS else None
    return text if match is None else match["name"]


def parse_requirement(when_to_try: str) -> Requirement | None:
    """Return the requirement of a sentence that states nothing else (`Only with pydantic<2.`), None for any other.

    A full release (`Python 3.10.12`) is the place where something was observed, and not a requirement.
    """
    return _parse_requirement(when_to_try) if len(when_to_try) <= _MAX_CHARS else None


@lru_cache(maxsize=512)
def _parse_requirement(when_to_try: str) -> Requirement | None:
    match = _REQUIREMENT.fullmatch(when_to_try.strip())
    if match is None:
        return None
    version = match["version"]
    return Requirement(
        technology=match["name"], versions=match["range"] or f"=={version.removesuffix('.x').removesuffix('.*')}.*"
    )


@lru_cache(maxsize=512)
def _specifiers(text: str) -> SpecifierSet:
    return SpecifierSet(text)


def _version(text: str) -> Version | None:
    """Return the version of a text that holds only one, perhaps with a note in brackets; None for a range."""
    alone = None if _WILDCARD.match(text) else _ALONE.fullmatch(text)
    return None if alone is None else Version(alone[1])


def _is_next_to_end(version: Version, within: SpecifierSet) -> bool:
    """Return whether a version is a pre- or post-release of an end of the range, which may or may not include it.

    `<2` means no candidate of 2 (PEP 440).
    """
    if not (version.is_prerelease or version.is_postrelease):
        return False
    release = Version(version.base_version)
    return any(each.operator != "<" and Version(each.version.removesuffix(".*")) == release for each in within)


def _parse_printed(text: str) -> Version | None:
    """Return the release in a program's version output; None where it is uncertain."""
    match = _PRINTED.fullmatch(text)
    if match is None or _PRE.match(match["suffix"] or ""):
        return None
    patched = _PATCH.fullmatch(match["suffix"] or "")
    return Version(f"{match['version']}.post0" if patched else match["version"])


def _may_begin(version: Version, within: SpecifierSet) -> bool:
    """Return whether a version of one or two numbers may stand for a longer one that is in the range."""
    if len(version.release) > 2 or str(version) != version.base_version:
        return False
    left_out = any(each.operator == "!=" and not each.contains(version) for each in within)
    return not left_out and not _are_disjoint(within, SpecifierSet(f"=={version}.*"))


def _range(text: str) -> SpecifierSet:
    if wildcard := _WILDCARD.match(text):
        return SpecifierSet(f"=={wildcard[1]}.*")
    if operator_match := _CARET_OR_TILDE.match(text):  # as in npm, Cargo and Poetry
        release = Version(operator_match[2]).release
        first = (
            next((at for at, part in enumerate(release) if part), len(release) - 1) if operator_match[1] == "^" else 1
        )
        return SpecifierSet(f">={operator_match[2]},<{_next_release(release[: first + 1])}")
    return SpecifierSet(text)


def _are_disjoint(one: SpecifierSet, other: SpecifierSet) -> bool:
    """Return whether no version is in both ranges, judging by their ends."""
    (low, high), (others_low, others_high) = _ends(one), _ends(other)
    return _ends_before(high, others_low) or _ends_before(others_high, low)


def _ends_before(high: Bound | None, low: Bound | None) -> bool:
    if high is None or low is None:
        return False
    return high.version < low.version or (high.version == low.version and not (high.included and low.included))


def _ends(of: SpecifierSet) -> tuple[Bound | None, Bound | None]:
    lows, highs = [], []
    for each in of:
        release = each.version.removesuffix(".*")
        version = Version(release)
        match each.operator:
            case ">=" | ">":
                lows.append(Bound(version, each.operator == ">="))
            case "<=" | "<":
                highs.append(Bound(version, each.operator == "<="))
            case "==" if release == each.version:
                lows.append(Bound(version, included=True))
                highs.append(Bound(version, included=True))
            case "==" | "~=":
                lows.append(Bound(version, included=True))
                parts = version.release if each.operator == "==" else version.release[:-1]
                highs.append(Bound(Version(_next_release(parts)), included=False))
            case _:
                continue
    return max(lows, default=None), min(highs, default=None)


def _next_release(release: tuple[int, ...]) -> str:
    """Return the first version after all that begin with these numbers."""
    return ".".join(map(str, (*release[:-1], release[-1] + 1)))
