"""Seals: keyed MACs over stored rows, and totals that tell whether a row was added, removed or put back.

A seal names its key, so that older ones verify after a rotation. Whoever has no key can neither make a seal nor compute
the digest of one, by which it goes into a total. A total is a sum modulo 2**256 (a keyed multiset hash): adding and
removing rows needs no order, so that each writer keeps a total of its own.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from hardwon.errors import StoreIncompatible

KEY_BYTES: Final = 32
_NAME_BYTES: Final = 6
_MAC_BYTES: Final = 32
SEAL_BYTES: Final = _NAME_BYTES + _MAC_BYTES
_MODULUS: Final = 1 << 256
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def _plain(value: object) -> str | int:
    """Return what stands for a value that JSON has no form for."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    raise TypeError(f"{type(value).__name__} cannot be sealed")


_encode = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=_plain).encode


def canonical(kind: str, workspace: str, values: Sequence[Any]) -> bytes:
    """Return the one encoding of a row: a JSON array of its kind, workspace and values, in ASCII, keys sorted.

    Times are integer microseconds since 1970, ids their 32 hexadecimal digits.
    """
    return _encode([kind, workspace, *values]).encode()


@dataclass(frozen=True, slots=True)
class SealKey:
    """A secret and its name, which reveals nothing about it."""

    value: bytes = field(repr=False)
    name: bytes

    @classmethod
    def of(cls, value: bytes) -> SealKey:
        """Return the key with that secret."""
        return cls(value, hmac.digest(value, b"hardwon seal key", "sha256")[:_NAME_BYTES])

    @classmethod
    def generate(cls) -> SealKey:
        """Return a new random key."""
        return cls.of(secrets.token_bytes(KEY_BYTES))


@dataclass(frozen=True, slots=True)
class SealKeys:
    """The key that seals, and all by which seals are verified."""

    current: SealKey
    known: Mapping[bytes, SealKey]

    @classmethod
    def of(cls, keys: Sequence[SealKey]) -> SealKeys:
        """Return keys of which the first seals."""
        return cls(keys[0], {key.name: key for key in keys})

    def knows(self, seal: bytes) -> bool:
        """Return whether the key of a seal is known."""
        return seal[:_NAME_BYTES] in self.known

    def seal(self, message: bytes) -> bytes:
        """Return the seal of a message by the current key."""
        return self.current.name + hmac.digest(self.current.value, message, "sha256")

    def verifies(self, message: bytes, seal: bytes | None) -> bool:
        """Return whether a seal is that of a message, by any known key."""
        if seal is None or len(seal) != SEAL_BYTES:
            return False
        key = self.known.get(seal[:_NAME_BYTES])
        return key is not None and hmac.compare_digest(hmac.digest(key.value, message, "sha256"), seal[_NAME_BYTES:])

    def digest(self, seal: bytes) -> int:
        """Return the number by which a seal counts in a total; 0 for one whose key is not known."""
        key = self.known.get(seal[:_NAME_BYTES])
        if key is None:
            return 0
        return int.from_bytes(hmac.digest(key.value, b"total\0" + seal, "sha256"))

    def term_total(self, workspace: str, counts: Mapping[int, int]) -> Total:
        """Return the total of counts of terms: as it is linear, what is added to a count is added to the total.

        It is keyed by the oldest key, as counts are not sealed one by one.
        """
        oldest = list(self.known.values())[-1].value
        prefix = b"term\0" + workspace.encode() + b"\0"
        digests = (
            number * int.from_bytes(hmac.digest(oldest, prefix + str(term).encode(), "sha256"))
            for term, number in counts.items()
        )
        return Total(0, sum(digests) % _MODULUS)

    def total(self, seals: Iterable[bytes | None]) -> Total:
        """Return the total of some seals; None is a row without one, and counts for nothing."""
        rows = total = 0
        for seal in seals:
            if seal is not None:
                rows += 1
                total += self.digest(seal)
        return Total(rows, total % _MODULUS)


@dataclass(frozen=True, slots=True)
class Total:
    """A number of rows and the sum of their digests; totals of disjoint rows add up."""

    rows: int = 0
    sum: int = 0

    def __add__(self, other: Total) -> Total:
        return Total(self.rows + other.rows, (self.sum + other.sum) % _MODULUS)

    def __sub__(self, other: Total) -> Total:
        return Total(self.rows - other.rows, (self.sum - other.sum) % _MODULUS)

    def __bool__(self) -> bool:
        """Return whether it stands for any row."""
        return self != Total()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """The last link of a writer's chain: the total of the rows that it added, less those that it removed.

    `masked` is the sum plus a keyed mask of the link's number, so that the sum of known seals reveals no other.
    """

    workspace: str
    chain_id: UUID
    number: int
    rows: int
    masked: bytes
    seal: bytes

    def message(self) -> bytes:
        """Return what the seal covers."""
        return _link_message(self.workspace, self.chain_id, self.number, self.rows, self.masked)


def _link_message(workspace: str, chain_id: UUID, number: int, rows: int, masked: bytes) -> bytes:
    """Return the encoding of a link: parts of fixed lengths, and the workspace last."""
    numbers = number.to_bytes(8) + rows.to_bytes(8, signed=True)
    return b"chain\0" + chain_id.bytes + numbers + masked + workspace.encode()


def link(keys: SealKeys, workspace: str, chain_id: UUID, number: int, total: Total) -> ChainLink:
    """Return a sealed link of a chain."""
    masked = ((total.sum + _mask(keys.current, chain_id, number)) % _MODULUS).to_bytes(_MAC_BYTES)
    return ChainLink(
        workspace=workspace,
        chain_id=chain_id,
        number=number,
        rows=total.rows,
        masked=masked,
        seal=keys.seal(_link_message(workspace, chain_id, number, total.rows, masked)),
    )


def total_of(keys: SealKeys, last: ChainLink) -> Total | None:
    """Return the total of a chain; None for a link that does not verify."""
    if not keys.verifies(last.message(), last.seal):
        return None
    mask = _mask(keys.known[last.seal[:_NAME_BYTES]], last.chain_id, last.number)
    return Total(last.rows, (int.from_bytes(last.masked) - mask) % _MODULUS)


def _mask(key: SealKey, chain_id: UUID, number: int) -> int:
    return int.from_bytes(hmac.digest(key.value, b"mask\0" + chain_id.bytes + number.to_bytes(8), "sha256"))


_REFUSED: ContextVar[set[UUID] | None] = ContextVar("refused", default=None)


@contextmanager
def collect_refused() -> Iterator[set[UUID]]:
    """Collect the entries that a block is refused, as they are not as they were stored."""
    refused: set[UUID] = set()
    token = _REFUSED.set(refused)
    try:
        yield refused
    finally:
        _REFUSED.reset(token)


def note_refused(entry_id: UUID) -> None:
    """Add an entry to those that the running block is refused."""
    refused = _REFUSED.get()
    if refused is not None:
        refused.add(entry_id)


def describe_refused(refused: Collection[UUID]) -> str | None:
    """Return a note that some entries were left out, None for none."""
    if not refused:
        return None
    named = ", ".join(sorted(map(str, refused))[:_MAX_NAMED])
    return f"left out, as they are not as hardwon stored them: {len(refused):,} (hardwon verify): {named}"


_MAX_NAMED: Final = 3


def unknown_key(seal: bytes, place: str) -> StoreIncompatible:
    """Return the error for a store that is vouched for by a key which is not here."""
    return StoreIncompatible(
        f"the entries of this store are vouched for by the key {seal[:_NAME_BYTES].hex()}, which is not in {place}:"
        " restore it from where you keep it (several servers on one Postgres share HARDWON_SEAL_KEYS); if it is lost,"
        " start once with HARDWON_SEAL_ANEW set to the reason, and all that is stored now is vouched for by a new key"
    )
