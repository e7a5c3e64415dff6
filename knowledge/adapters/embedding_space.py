"""Common parts of embedders: naming their space, rejecting invalid texts, unit vectors, cache keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt

from hardwon.errors import TextRejected
from knowledge.models import EmbeddingSpace, Vector

_SHORTEST = 1e-12
"""A vector shorter than this has no direction."""


def fingerprint(space: EmbeddingSpace) -> str:
    """Return 16 hex digits of the sha256 of a space's canonical JSON: every field that its vectors depend on."""
    fields = asdict(space)
    del fields["fingerprint"], fields["layout"]
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def with_fingerprint(space: EmbeddingSpace) -> EmbeddingSpace:
    """Return the space with its own fingerprint in it."""
    return replace(space, fingerprint=fingerprint(space))


def refuse_unembeddable(texts: Sequence[str]) -> None:
    """Raise TextRejected if a text is blank or holds half a surrogate pair: no model can embed it."""
    for position, text in enumerate(texts):
        if not text.strip():
            raise TextRejected(f"Text {position + 1} of {len(texts)} is blank and cannot be embedded: leave it out.")
        try:
            text.encode()
        except UnicodeEncodeError as exc:
            raise TextRejected(
                f"Text {position + 1} of {len(texts)} holds a lone surrogate, which is no character: mend its encoding."
            ) from exc


def unit(rows: npt.ArrayLike) -> Vector:
    """Return rows as float32 of length 1 each. Raises ValueError if one is not finite or has no direction."""
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = np.asarray(rows, dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError("a vector with numbers that are not finite")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    if vectors.size and lengths.min() < _SHORTEST:
        raise ValueError("a vector of zeros alone")
    normalised: Vector = (vectors / lengths).astype(np.float32)
    return normalised


def mean_cosine(vectors: Vector) -> float:
    """Return the mean cosine of all pairs of two vectors or more, each of length 1."""
    one, other = np.triu_indices(len(vectors), k=1)
    return float(np.mean(np.sum(vectors[one] * vectors[other], axis=1)))


def text_key(kind: str, text: str) -> tuple[str, bytes]:
    """Return the key of a text in a cache of what was made of texts, which themselves are not kept.

    An embedder has one space, so a key need not name it.
    """
    return kind, hashlib.sha256(text.encode()).digest()
