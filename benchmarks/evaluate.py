"""`python -m benchmarks.evaluate`: does finding again beat plain BM25 on the labelled sets? (docs/evaluation.md).

hardwon is asked through the services production uses, in a throwaway data directory. Beside it stand BM25 and cosine
alone and the exact fusion of the two over all documents, so that one sees what each part brings.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import tables
from benchmarks.asked import at_least_one
from benchmarks.bm25 import Bm25
from benchmarks.halves import place_of, search_through
from benchmarks.remembering import Remembering
from benchmarks.resampling import Figures, Verdict, difference, estimate
from benchmarks.sets import APART, DATA, REPORTED, SETS, LabelledSet, load, missing
from hardwon.errors import BUNDLED_MODEL
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from orchestrator.cli.support.terminal import print_json, stages
from orchestrator.evaluation.retrieval import rank_first_hits
from orchestrator.observability.logging import configure_logs
from orchestrator.observability.progress import Stages

OURS = "hardwon"
_RANK_FUSIONS = {"RRF k=60": 60, "RRF k=2": 2}
SYSTEMS = ("BM25", "dense", *_RANK_FUSIONS, "fusion", OURS)
TARGETS = {"hit_at_1": 0.08, "mrr_at_10": 0.06}
"""How far the mean over the sets is to lie above the reported BM25."""

Places = Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResult:
    """The place of the first relevant document for each query of a set, by system."""

    name: str
    documents: int
    places: Mapping[str, Places]
    query_p50_ms: float

    def hits(self, system: str, depth: int) -> Figures:
        """Return 1 for each query answered within `depth` places, else 0."""
        return np.array([place is not None and place <= depth for place in self.places[system]], dtype=np.float64)

    def reciprocal(self, system: str) -> Figures:
        """Return 1/place for each query, 0 where nothing right is among the first ten."""
        return np.array([1 / place if place else 0.0 for place in self.places[system]])

    def figures(self, system: str, measure: str) -> Figures:
        """Return the figures of a measure by its name."""
        return self.reciprocal(system) if measure == "mrr_at_10" else self.hits(system, int(measure.rpartition("_")[2]))


MEASURES = ("hit_at_1", "hit_at_3", "hit_at_10", "mrr_at_10")


async def measure_set(folder: Path, name: str, embedder: Embedder, *, limit: int | None, progress: Stages) -> SetResult:
    """Ask all systems the queries of a set."""
    labelled = load(folder, name).first(limit)
    settings = KnowledgeSettings(embedding_model=BUNDLED_MODEL)
    progress.stage(f"{name}: {len(labelled.documents):,} documents, {len(labelled.queries):,} queries")
    known = Remembering(embedder)
    found, times = await rank_first_hits(folder, settings, limit=limit, progress=progress, embedder=known)
    parts = await _parts(labelled, known, progress)
    places = parts | {OURS: [found[query_id] for query_id in labelled.query_ids]}
    return SetResult(name=name, documents=len(labelled.documents), places=places, query_p50_ms=round(median(times), 2))


async def _parts(labelled: LabelledSet, embedder: Embedder, progress: Stages) -> dict[str, Places]:
    searched = await search_through(embedder, labelled, progress.stage("Both halves alone"))
    plain = Bm25(labelled.documents)
    places: dict[str, list[int | None]] = {system: [] for system in SYSTEMS if system not in {"BM25", OURS}}
    for halves, relevant in searched.asked():
        places["dense"].append(place_of(halves.cosine, relevant))
        places["fusion"].append(place_of(halves.fused(), relevant))
        for system, k in _RANK_FUSIONS.items():
            places[system].append(place_of(halves.by_rank(k), relevant))
    lexical = [
        place_of(plain.scores(query), relevant)
        for query, relevant in zip(labelled.queries, labelled.relevant, strict=True)
    ]
    return {"BM25": lexical, **places}


def judge(results: Sequence[SetResult], measure: str) -> Verdict:
    """Return a measure's figures over some sets, all of which count the same."""
    figures = {system: [result.figures(system, measure) for result in results] for system in SYSTEMS}
    known = [_reported(result.name, measure) for result in results]
    reported = [figure for figure in known if figure is not None]
    return Verdict(
        measure=measure,
        systems={system: estimate(of_sets) for system, of_sets in figures.items()},
        gain=difference(figures[OURS], figures["BM25"]),
        reported_bm25=float(np.mean(reported)) if reported and len(reported) == len(known) else None,
    )


def _reported(name: str, measure: str) -> float | None:
    match measure:
        case "hit_at_1":
            return REPORTED[name].hit_at_1
        case "mrr_at_10":
            return REPORTED[name].mrr_at_10
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All sets."""

    results: Sequence[SetResult]

    def parts(self) -> dict[str, Evaluation]:
        """Return the sets that goals are set for, and those that nothing was fitted on, by their place in the page."""
        apart = [result for result in self.results if result.name in APART]
        others = [result for result in self.results if result.name not in APART]
        return {"retrieval": Evaluation(results=others), "retrieval-apart": Evaluation(results=apart)}

    def by_set(self, measure: str) -> dict[str, Verdict]:
        """Return a measure for each set and for their mean."""
        return {result.name: judge([result], measure) for result in self.results} | {
            "mean": judge(self.results, measure)
        }

    def goals(self) -> dict[str, bool]:
        """Return what was to be reached, and whether it was."""
        reached: dict[str, bool] = {}
        for measure, target in TARGETS.items():
            verdicts = self.by_set(measure)
            mean = verdicts.pop("mean")
            name = tables.MEASURE_NAMES[measure]
            if mean.reported_bm25 is not None and len(verdicts) == len(SETS):
                goal = f"mean {name} at least {mean.reported_bm25:.4f} (reported BM25) + {target:.2f}"
                reached[goal] = mean.systems[OURS].mean >= mean.reported_bm25 + target
            reached[f"no set significantly below BM25 by {name}"] = not any(
                verdict.gain.below_zero for verdict in verdicts.values()
            )
            if len(verdicts) == len(SETS):
                reached[f"mean significantly above BM25 by {name}"] = mean.gain.above_zero
        return reached

    def as_json(self) -> dict[str, object]:
        """Return every figure."""
        return {
            "sets": {
                result.name: {
                    "queries": len(result.places[OURS]),
                    "documents": result.documents,
                    "query_p50_ms": result.query_p50_ms,
                }
                for result in self.results
            },
            "measures": {
                measure: {name: asdict(verdict) for name, verdict in self.by_set(measure).items()}
                for measure in MEASURES
            },
            "goals": self.goals(),
        }


def rendered(evaluation: Evaluation) -> str:
    """Return the figures as Markdown tables."""
    parts = [
        tables.compared(measure, evaluation.by_set(measure), SYSTEMS, OURS) for measure in ("hit_at_1", "mrr_at_10")
    ]
    parts.append(tables.depths({m: evaluation.by_set(m) for m in ("hit_at_3", "hit_at_10")}, ("BM25", OURS)))
    sizes = [(r.name, len(r.places[OURS]), r.documents, r.query_p50_ms) for r in evaluation.results]
    parts.append(tables.sizes(sizes))
    parts.append(tables.goals(evaluation.goals()))
    return "\n\n".join(parts)


async def evaluate(data: Path, names: Sequence[str], *, limit: int | None, progress: Stages) -> Evaluation:
    """Measure the sets of a folder one after the other."""
    embedder = LocalEmbedder()
    try:
        results = [await measure_set(data / name, name, embedder, limit=limit, progress=progress) for name in names]
    finally:
        await embedder.aclose()
    return Evaluation(results=results)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 0; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluate", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help=f"the labelled sets ({DATA})")
    parser.add_argument(
        "--set", dest="names", action="append", choices=(*SETS, *APART), help="only this one; may be repeated"
    )
    parser.add_argument("--limit", type=at_least_one, help="only the first queries of each set")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evaluation.md")
    given = parser.parse_args(arguments)
    configure_logs()
    absent = missing(given.data)
    if absent:
        print(absent, file=sys.stderr)
        return 0
    chosen = given.names or (*SETS, *(name for name in APART if (given.data / name / "corpus.jsonl").is_file()))
    with stages(quiet=False) as progress:
        whole = asyncio.run(evaluate(given.data, chosen, limit=given.limit, progress=progress))
    parts = {name: part for name, part in whole.parts().items() if part.results}
    if given.json:
        print_json({name: part.as_json() for name, part in parts.items()})
    for name, part in parts.items():
        if not given.json:
            print(rendered(part), end="\n\n")
        if given.write:
            tables.put(tables.EVALUATION, name, rendered(part))
    return 0 if all(all(part.goals().values()) for part in parts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
