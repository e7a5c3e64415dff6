"""Versions as programs and people tell them, against ranges of versions; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

_NAME = re.compile(r"^[A-Za-z][A-Za-z_.-]*(?:\s+(?=[\dv<>=!~^])|(?=[<>=!~]=|[<>]))")
"""What a version is of, before it: `Python 3.12.1`, `pydantic==2.7`."""
_WILDCARD = re.compile(r"(?:={2,3}\s*)?v?(\d+(?:\.\d+)*)\.[xX*](?:\.[xX*])?$")
_ABOUT = re.compile(r"([~^])\s*v?(\d+(?:\.\d+)*)$")
_ALONE = re.compile(r"(v?\d\S*)(?:\s+(?:[(\[]|\|(?!\|| ?v?\d)).*)?", re.DOTALL)
_SEVERAL = re.compile(
    r"\|\| ?v?\d|\b(?:and|or|also|through|on)\s+v?\d|^\D*\d+(?:\.\d+)?\s?[-\u2013]\s?v?\d+(?:\.\d+)?$"
    r"|\d(?:\.x)?\+(?:\s|$)|\b1\.\d+\.\d+_\d",
    re.IGNORECASE,
)
"""More than one version, or an end that is open; Java's `1.8.0_402`, of which nobody knows whether it is called 8."""

_OF = r"(?:(?:[A-Za-z][\w.+#-]{0,30}:?|\([^()]{1,80}\))\s+){0,4}"
_BEFORE = r"(?:[A-Za-z][a-z]{0,11}[/-]|[a-z][a-z0-9./_-]{0,60}[:@]|go|v=?|\")?"
_SUFFIX = r"(?:[-+_](?!\d+\.\d)|\.(?!\d))[A-Za-z0-9][\w.+-]{0,60}|p\d+|[a-z]\b"
_BEHIND = (
    r",? build .*|\s+(?:[(\[].*|(?:on|for|from|linux|darwin|windows|LTS)\b.*|sha=.*"
    r"|\d{4}-\d\d-\d\d.*|\d{1,2} [A-Z][a-z]{2} .*)"
)
_PRINTED = re.compile(rf"{_OF}{_BEFORE}(?P<version>\d++(?:\.\d++)*+)(?P<suffix>{_SUFFIX})?\"?(?:{_BEHIND})?", re.DOTALL)
"""What `--version` of a program prints, the tag of an image, a release of a distribution or a cloud: `Docker version
26.1.0, build 9714adc`, `node:22-alpine`, `1.29.3-gke.1282000`."""
_PRE = re.compile(
    r"[-+_.]?(?:a|alpha|b|beta|c|rc|cr|m|ea|pre|preview|dev|snapshot|nightly|canary|next)(?:[\d.+_-]|$)", re.IGNORECASE
)
"""What is not released yet: it may lie before the release that it names."""
_PATCH = re.compile(r"p\d+|[a-z]")
"""The patch level of OpenSSL, OpenSSH, Ruby and sudo: `1.1.1w`, `9.6p1`."""
_END_OF_A_RANGE = re.compile(
    r"(?i:\s*(?:\S+\s+)?(?:above|after|at|before|below|between|from|less|max|maximum|min|minimum|more|newer|not?|older|over"
    r"|since|than|to|under|until|up|without)\s)"
)
"""Words before a version that make it no version alone."""

_VERSIONED = re.compile(
    r"(?P<name>\S(?:[^@=<>~^!]*?[^\s@=<>~^!/])?)(?:\s+version)?(?:\s*(?:[=<>~!]?=+|[@/<>~^])\s*|\s+)v?\d[\w.+*-]*(?:[\s,(\[].*)?",
    re.DOTALL,
)
"""A name and a version behind it: `vite@5.2`, `vite 5`, `vite==5`, `vite/5.2.0 linux-x64`."""
_CLAUSE = r"(?:[<>=!~]=|[<>])\s*v?\d\w*(?:\.[\w*]+)*"
_REQUIREMENT = re.compile(
    r"(?i:(?:(?:only|just|when|if|where|while|with|on|for|in|under|you|we|use|using|have|run|running|is|are)\s+)*)"
    r"(?P<name>[A-Za-z][\w.-]*?)\s*"
    rf"(?:(?P<range>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)|\s[vV]?(?P<version>\d+(?:\.\d+)?(?:\.[x*])?))"
    r"(?:\s+only)?\s*[.!]?"
)
_MAX_CHARS = 200


class Bound(NamedTuple):
    """An end of a range, and whether it belongs to it."""

    version: Version
    included: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A technology and the range of its versions."""

    technology: str
    versions: str


def as_range(told: str) -> SpecifierSet:
    """Return a range as it was told. Raises InvalidSpecifier."""
    return _specifiers(told)


def lies_within(wanted: str, told: str) -> bool | None:
    """Return whether the version that is told lies in a range; None where that is not known.

    It may be told as `python --version`, `sys.version` and other programs print it, or as a range (`2.x`, `^2.1`,
    `~2.1`, `>=2,<3`): then only that no version of it lies in the other one is known. So it is of `3` or `3.10`, told
    of 3.10.4.
    """
    try:
        within = _specifiers(wanted)
    except InvalidSpecifier:
        return None
    if _END_OF_A_RANGE.match(told) or _SEVERAL.search(told.strip()):
        return None
    alone = _NAME.sub("", told.strip())
    try:
        version = _version(alone)
        if version is None:
            return False if _apart(within, _range(alone)) else None
    except (InvalidSpecifier, InvalidVersion):
        version = _printed(told.strip())
    if version is None or _beside_an_end(version, within):
        return None
    return within.contains(version, prereleases=True) or (None if _may_begin(version, within) else False)


def unversioned(told: str) -> str:
    """Return a name without the version that is told behind it."""
    found = _VERSIONED.fullmatch(told.strip()) if len(told) <= _MAX_CHARS else None
    return told if found is None else found["name"]


def required(when_to_try: str) -> Requirement | None:
    """Return what a sentence requires that says nothing else (`Only with pydantic<2.`), None for any other.

    A release in full (`Python 3.10.12`) is where something was seen, and requires nothing.
    """
    return _required(when_to_try) if len(when_to_try) <= _MAX_CHARS else None


@lru_cache(maxsize=512)
def _required(when_to_try: str) -> Requirement | None:
    found = _REQUIREMENT.fullmatch(when_to_try.strip())
    if found is None:
        return None
    version = found["version"]
    return Requirement(
        technology=found["name"], versions=found["range"] or f"=={version.removesuffix('.x').removesuffix('.*')}.*"
    )


@lru_cache(maxsize=512)
def _specifiers(told: str) -> SpecifierSet:
    return SpecifierSet(told)


def _version(told: str) -> Version | None:
    """Return the version that a text tells alone, maybe with a note in brackets; None where it tells a range."""
    alone = None if _WILDCARD.match(told) else _ALONE.fullmatch(told)
    return None if alone is None else Version(alone[1])


def _beside_an_end(version: Version, within: SpecifierSet) -> bool:
    """Return whether it is not said if a range was meant to hold a candidate or a patch level of a release it names.

    `<2` means no candidate of 2 (PEP 440).
    """
    if not (version.is_prerelease or version.is_postrelease):
        return False
    release = Version(version.base_version)
    return any(each.operator != "<" and Version(each.version.removesuffix(".*")) == release for each in within)


def _printed(told: str) -> Version | None:
    """Return the release that a program prints as its own; None where that is not sure."""
    found = _PRINTED.fullmatch(told)
    if found is None or _PRE.match(found["suffix"] or ""):
        return None
    patched = _PATCH.fullmatch(found["suffix"] or "")
    return Version(f"{found['version']}.post0" if patched else found["version"])


def _may_begin(version: Version, within: SpecifierSet) -> bool:
    """Return whether a version may lie in a range that begins with this one, where it tells one or two numbers."""
    if len(version.release) > 2 or str(version) != version.base_version:
        return False
    left_out = any(each.operator == "!=" and not each.contains(version) for each in within)
    return not left_out and not _apart(within, SpecifierSet(f"=={version}.*"))


def _range(told: str) -> SpecifierSet:
    if wildcard := _WILDCARD.match(told):
        return SpecifierSet(f"=={wildcard[1]}.*")
    if about := _ABOUT.match(told):  # as npm, Cargo and Poetry have them
        release = Version(about[2]).release
        first = next((at for at, part in enumerate(release) if part), len(release) - 1) if about[1] == "^" else 1
        return SpecifierSet(f">={about[2]},<{_after(release[: first + 1])}")
    return SpecifierSet(told)


def _apart(one: SpecifierSet, other: SpecifierSet) -> bool:
    """Return whether no version lies in both ranges, as far as their ends tell."""
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
                highs.append(Bound(Version(_after(parts)), included=False))
            case _:
                continue
    return max(lows, default=None), min(highs, default=None)


def _after(release: tuple[int, ...]) -> str:
    """Return the version after all that begin with these numbers."""
    return ".".join(map(str, (*release[:-1], release[-1] + 1)))
