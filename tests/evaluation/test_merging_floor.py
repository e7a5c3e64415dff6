"""Two tellings of one thing told from two, on real labelled pairs: floors, and what may never be merged."""

from __future__ import annotations

import pytest

from benchmarks.fit_merging import Outcome, as_shipped, cosine_alone
from benchmarks.pairs import load_pairs
from benchmarks.sets import DATA
from knowledge.adapters.embedding.local import LocalEmbedder

pytestmark = pytest.mark.timeout(300)


async def measured(name: str) -> tuple[Outcome, Outcome]:
    """Judge a set's pairs, and by cosine alone."""
    if not (DATA / name / "pairs.jsonl").is_file():
        pytest.skip(f"the labelled set {name} is not in {DATA}")
    embedder = LocalEmbedder()
    try:
        pairs = await load_pairs(DATA, name, embedder)
    finally:
        await embedder.aclose()
    return as_shipped([pairs])[0], cosine_alone([pairs], 0.90)[0]


@pytest.mark.harness
@pytest.mark.long
async def test_failing_cases_of_one_bug_are_merged_and_of_two_bugs_are_not() -> None:
    """Measured: recall 0.371, nothing wrong; cosine alone merges 20 of 88, and 252 of 266 minimal pairs."""
    ours, cosine = await measured("test_failures")
    assert ours.recall >= 0.30
    assert (ours.false, ours.minimal_false) == (0, 0)
    assert cosine.false > 10
    assert cosine.minimal_false > 200
