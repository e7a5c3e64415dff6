"""A checkpoint's decisions about entries: the pattern each one belongs to, the ids, and the patterns near it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha1
from uuid import UUID

from hardwon.models.entries import Entry, EntryTexts, EntryType, NewEntry
from hardwon.models.ids import EntryId, PatternId, PointId
from hardwon.models.patterns import EntryProfile, Evidence, LinkKind
from knowledge.models.points import TextPoint, View
from knowledge.models.records import KnownKeys
from knowledge.models.spaces import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Founder:
    """The texts a pattern is compared by: those of its founding entry, or of the oldest entry it still has.

    `situation` is the embedding of that entry's situation.
    """

    pattern_id: PatternId
    words: NewEntry | EntryTexts
    situation: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A pattern related to the one an entry joined: the relation, its probability, and the reasons in plain words."""

    kind: LinkKind
    pattern_id: PatternId
    probability: float
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedPatterns:
    """Two related live patterns, the more often tried one first; `probability`: that they are the same pattern."""

    kind: LinkKind
    probability: float
    why: tuple[str, ...]
    patterns: tuple[Evidence, Evidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The entries of a pattern, all of one type, oldest first, without their texts; `live` are those it shows."""

    entry_type: EntryType
    entry_ids: tuple[EntryId, ...]
    live: frozenset[EntryId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An entry that moves to another pattern; `points` maps the old point ids of its texts to the new ones."""

    entry_id: EntryId
    match_key: str
    points: Mapping[PointId, PointId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The pattern that an entry joins or founds, and the points of its texts there.

    `why` gives the reasons for joining in plain words; `links` are related patterns that it did not join.
    `situation_key` is that of its record, `known_keys` are those by which it is found without the index.
    """

    entry: Entry
    pattern_id: PatternId
    match_key: str
    founds: bool
    points: tuple[TextPoint, ...]
    situation_key: str
    known_keys: KnownKeys
    profile: EntryProfile
    why: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


_NAMESPACE = UUID("6f0f7d2b-4c0b-5a39-9d43-0c6a8d0c2a11").bytes


def pattern_id_of(workspace: str, founder: EntryId) -> PatternId:
    """Return the id of the pattern an entry founds; deterministic, so that founding it again is idempotent."""
    return PatternId(_name_uuid(f"pattern\0{workspace}\0{founder}"))


def point_id_of(workspace: str, pattern_id: PatternId, view: View, text: str) -> PointId:
    """Return the id of the point of a pattern's text; deterministic, so that upserts are idempotent."""
    return PointId(_name_uuid(f"point\0{workspace}\0{pattern_id}\0{view}\0{text}"))


def _name_uuid(name: str) -> UUID:
    """Return the version 5 UUID of a name in our namespace; `uuid.uuid5` is half as fast, and each entry needs two."""
    number = int.from_bytes(sha1(_NAMESPACE + name.encode(), usedforsecurity=False).digest()[:16], "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x5 << 76 | 0x2 << 62)
