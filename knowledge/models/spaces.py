"""Embedding spaces, vectors of sense and of words, and what a store knows of them as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # a client holds no vectors, and numpy takes longer to load than all of this
    import numpy as np
    import numpy.typing as npt

Vector: TypeAlias = "npt.NDArray[np.float32]"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """All that makes two vectors comparable. Equal dimensions prove nothing: the fingerprint does."""

    provider: str
    model: str
    revision: str
    dims: int
    max_tokens: int
    query_prefix: str = ""
    document_prefix: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vectors of some texts, in the order of the texts: float32, shape (n, dims), each of length 1.

    `truncated` holds the positions of texts that were cut at the model's limit.
    """

    vectors: Vector
    tokens: int
    truncated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """Term ids (unsigned 32 bit, ascending, distinct) and their weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """How common terms are among the `documents` situations seen in a workspace; absent terms were never seen."""

    documents: int
    frequencies: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Where fused scores lie in one embedding space, ascending; the scale of relevance is drawn through them.

    `unrelated`: median score of unrelated texts (relevance 0). `right_90`: 90 % of right hits reach it (0.70).
    `right_85`: 85 % do (0.75). `same`: the score of the same text (1).
    """

    unrelated: float
    right_90: float
    right_85: float
    same: float
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSpace:
    """An embedding space in use by a store, with what was fixed when its collection was made.

    `unrelated_cosine`: how alike its model finds texts that have nothing to do with each other; None: nobody asked it.
    """

    space: EmbeddingSpace
    mean_terms: float
    calibration: Calibration
    unrelated_cosine: float | None = None
