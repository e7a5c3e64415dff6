"""Figures as Markdown, and their place in the docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.resampling import Estimate, Verdict

DOCS = Path(__file__).resolve().parents[1] / "docs"
EVALUATION = DOCS / "evaluation.md"
PERFORMANCE = DOCS / "performance.md"

MEASURE_NAMES = {"hit_at_1": "hit@1", "hit_at_3": "hit@3", "hit_at_10": "hit@10", "mrr_at_10": "MRR@10"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is words, the others are figures."""
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def put(document: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of a name in a document. Raises ValueError where they are not there."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = document.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{document} has no {begin} ... {end}")
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def compared(measure: str, verdicts: Mapping[str, Verdict], systems: Sequence[str], ours: str) -> str:
    """Return one measure of every system, a row a set; intervals for ours and for the gain over BM25."""
    head = [MEASURE_NAMES[measure], "BM25 reported", *systems[:-1], f"{ours} [95 %]", f"{ours} - BM25 [95 %]"]
    rows = []
    for name, verdict in verdicts.items():
        reported = "" if verdict.reported_bm25 is None else f"{verdict.reported_bm25:.3f}"
        others = [f"{verdict.systems[system].mean:.3f}" for system in systems[:-1]]
        told = [name, reported, *others, _interval(verdict.systems[ours]), _interval(verdict.gain, sign=True)]
        rows.append([f"**{cell}**" if cell else "" for cell in told] if name == "mean" else told)
    return table(head, rows)


def depths(verdicts: Mapping[str, Mapping[str, Verdict]], systems: Sequence[str]) -> str:
    """Return further measures of some systems, a row a set."""
    columns = [(measure, system) for measure in verdicts for system in systems]
    names = next(iter(verdicts.values()))
    rows = [
        [name, *(f"{verdicts[measure][name].systems[system].mean:.3f}" for measure, system in columns)]
        for name in names
    ]
    return table(["", *(f"{MEASURE_NAMES[measure]} {system}" for measure, system in columns)], rows)


def sizes(sets: Iterable[tuple[str, int, int, float]]) -> str:
    """Return how large each set is, and how long a query took."""
    rows = [[name, f"{queries:,}", f"{documents:,}", f"{ms:.1f}"] for name, queries, documents, ms in sets]
    return table(["", "queries", "documents", "query p50 ms"], rows)


def goals(reached: Mapping[str, bool]) -> str:
    """Return what was to be reached, and whether it was."""
    return "\n".join(f"- {'reached' if well else '**missed**'}: {goal}" for goal, well in reached.items())


def _interval(figure: Estimate, *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    return f"{figure.mean:{form}} [{figure.low:{form}}, {figure.high:{form}}]"
