"""Embedding spaces, dense and sparse vectors, and the statistics that a store keeps about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # clients hold no vectors, and numpy takes longer to import than all of this package
    import numpy as np
    import numpy.typing as npt

Vector: TypeAlias = "npt.NDArray[np.float32]"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """Everything that makes two vectors comparable. Equal dimensions prove nothing; equal fingerprints do.

    `layout`: number of the layout that its collections in the index have; each new one is built beside the old.
    """

    provider: str
    model: str
    revision: str
    dims: int
    max_tokens: int
    query_prefix: str = ""
    document_prefix: str = ""
    fingerprint: str = ""
    layout: int = 0

    @property
    def collection(self) -> str:
        """The fingerprint and the layout, which together name a collection of the index."""
        return f"{self.fingerprint}_{self.layout}" if self.layout else self.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """Vectors of a batch of texts, in the order of the texts: float32, shape (n, dims), each of length 1.

    `truncated` holds the positions of texts that were truncated at the model's limit.
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
    """Document frequencies of terms among the `documents` situations of a workspace; missing terms have frequency 0."""

    documents: int
    frequencies: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Reference scores of one embedding space, ascending; relevance is interpolated between them.

    `unrelated`: median score of unrelated texts (relevance 0). `right_90`: score reached by 90 % of right hits (0.70).
    `right_85`: by 85 % (0.75). `same`: score of a text with itself (1). `measured`: not just assumed for the model.
    """

    unrelated: float
    right_90: float
    right_85: float
    same: float
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSpace:
    """An embedding space in use by a store, with the parameters fixed when its collection was created.

    `unrelated_cosine`: the mean cosine of unrelated texts under its model; None where it was not measured.
    """

    space: EmbeddingSpace
    mean_terms: float
    calibration: Calibration
    unrelated_cosine: float | None = None
