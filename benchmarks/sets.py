"""The labelled sets: real texts with real questions, and what their own notes report of plain BM25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.evaluation.retrieval import read_jsonl

CHECKOUT = Path(__file__).resolve().parents[1]
DATA = CHECKOUT.parent / "shared" / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """BM25 (k1 1.2, b 0.75, identifiers also split) on the dev half, as the README beside each set reports it."""

    hit_at_1: float
    mrr_at_10: float


REPORTED: Mapping[str, Reported] = {
    "ruff_rules": Reported(hit_at_1=0.715, mrr_at_10=0.794),
    "runbooks/alerts": Reported(hit_at_1=0.846, mrr_at_10=0.907),
    "runbooks/symptoms": Reported(hit_at_1=0.612, mrr_at_10=0.695),
    "gitbugs": Reported(hit_at_1=0.484, mrr_at_10=0.578),
    "reflexion_runs": Reported(hit_at_1=0.543, mrr_at_10=0.602),
    "test_failures": Reported(hit_at_1=0.692, mrr_at_10=0.817),
    "typecheck_reports": Reported(hit_at_1=0.628, mrr_at_10=0.742),
    "pep_decisions": Reported(hit_at_1=0.566, mrr_at_10=0.623),
    "nova_reviews/stress": Reported(hit_at_1=0.215, mrr_at_10=0.310),
}
"""Source: the section "Lexical baseline" of `README.md` in each set's folder, the line "dev" of the whole query."""

APART = ("pep_decisions", "nova_reviews/stress")
"""Sets of gate decisions that no constant was fitted on: they say how far the others carry."""

SETS = tuple(name for name in REPORTED if name not in APART)
"""Those that constants are fitted on, and whose mean is to be so far above BM25."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet:
    """Documents, queries that have a relevant document, and the positions of those documents for each query."""

    name: str
    documents: Sequence[str]
    queries: Sequence[str]
    query_ids: Sequence[str]
    relevant: Sequence[frozenset[int]]

    def first(self, queries: int | None) -> LabelledSet:
        """Return the set with its first queries only."""
        return replace(
            self,
            queries=self.queries[:queries],
            query_ids=self.query_ids[:queries],
            relevant=self.relevant[:queries],
        )


def load(folder: Path, name: str) -> LabelledSet:
    """Read `corpus.jsonl`, `queries.jsonl` and `qrels.jsonl` of a folder. Raises InvalidInput."""
    documents = list(read_jsonl(folder / "corpus.jsonl"))
    place = {row["id"]: at for at, row in enumerate(documents)}
    relevant = {
        row["query_id"]: frozenset(place[document] for document in row["relevant_ids"] if document in place)
        for row in read_jsonl(folder / "qrels.jsonl")
    }
    queries = [row for row in read_jsonl(folder / "queries.jsonl") if row["id"] in relevant]
    return LabelledSet(
        name=name,
        documents=[row["text"] for row in documents],
        queries=[row["text"] for row in queries],
        query_ids=[row["id"] for row in queries],
        relevant=[relevant[row["id"]] for row in queries],
    )


def missing(data: Path) -> str | None:
    """Return a sentence where the sets are not there."""
    if all((data / name / "corpus.jsonl").is_file() for name in SETS):
        return None
    return f"The labelled sets are not in {data}: name their folder with --data, or go without this measurement."
