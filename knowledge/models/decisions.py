"""What a checkpoint decides about entries: which pattern each belongs to, by which ids, and what it is near to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha1
from uuid import UUID

from knowledge.models.entries import Entry, EntryType, NewEntry, Words
from knowledge.models.identities import PointId
from knowledge.models.patterns import Evidence
from knowledge.models.points import TextPoint, View
from knowledge.models.spaces import Vector
from knowledge.names import EntryId, PatternId


@dataclass(frozen=True, slots=True, kw_only=True)
class Founder:
    """What a pattern is compared by: the words of the entry that founded it, or of its oldest one that is left.

    `situation` is the vector of that entry's situation.
    """

    pattern_id: PatternId
    words: NewEntry | Words
    situation: Vector


class LinkKind(StrEnum):
    """How two patterns stand to each other.

    Another way out of the same situation, likely the same pattern, or neither, as a person said who took them apart.
    """

    RIVAL = "rival"
    TWIN = "twin"
    APART = "apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A pattern beside the one an entry came to, how likely it is what `kind` says, and why, in words for a person."""

    kind: LinkKind
    pattern_id: PatternId
    probability: float
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedPatterns:
    """Two live patterns that have to do with each other, the more tried one first; `probability` that they are one."""

    kind: LinkKind
    probability: float
    why: tuple[str, ...]
    patterns: tuple[Evidence, Evidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The entries of a pattern, all of one type, the oldest first, without their words; `live` are those it shows."""

    entry_type: EntryType
    entry_ids: tuple[EntryId, ...]
    live: frozenset[EntryId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An entry that goes to another pattern; `points` are the ids that its texts had and have there."""

    entry_id: EntryId
    match_key: str
    points: Mapping[PointId, PointId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which pattern an entry joins or founds, and the points its texts stand for there.

    `why` says in words for a person what made it join; `links` are the patterns it did not join but has to do with.
    """

    entry: Entry
    pattern_id: PatternId
    match_key: str
    founds: bool
    points: tuple[TextPoint, ...]
    why: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


_NAMESPACE = UUID("6f0f7d2b-4c0b-5a39-9d43-0c6a8d0c2a11").bytes


def pattern_id_of(workspace: str, founder: EntryId) -> PatternId:
    """Return the id of the pattern an entry founds: a repeated founding is the same pattern."""
    return PatternId(_named(f"pattern\0{workspace}\0{founder}"))


def point_id_of(workspace: str, pattern_id: PatternId, view: View, text: str) -> PointId:
    """Return the id of the point of a text of a pattern: a repeated upsert is the same point."""
    return PointId(_named(f"point\0{workspace}\0{pattern_id}\0{view}\0{text}"))


def _named(name: str) -> UUID:
    """Return the UUID of version 5 of a name in our namespace; `uuid.uuid5` takes twice as long, twice an entry."""
    number = int.from_bytes(sha1(_NAMESPACE + name.encode(), usedforsecurity=False).digest()[:16], "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x5 << 76 | 0x2 << 62)
