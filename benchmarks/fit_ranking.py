"""`python -m benchmarks.fit_ranking`: where the weights of likeness and of silence come from (docs/evaluation.md).

Every query of every set is asked twice, of the whole corpus and of the corpus without its relevant documents, by exact
search and with the candidates, the texts and the characters that production reads. Every set counts the same. Beside
the fit on all sets stands the fit on the other sets, each kind of set left out in turn: what carries over.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import tables
from benchmarks.halves import DEPTH, Halves, Searched, search_through
from benchmarks.logits import choice_weights, yes_weights
from benchmarks.requests import for_fitting
from benchmarks.resampling import Figures, auc
from benchmarks.sets import DATA, SETS, LabelledSet, load, missing
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.retrieval import confidence
from knowledge.retrieval import confidence as silence
from knowledge.retrieval.confidence import LikenessWeights, Signals
from knowledge.retrieval.features import MAX_CANDIDATES, Candidate, Features, features, read_query
from knowledge.retrieval.fusion import coverage
from knowledge.retrieval.term_profile import extract_terms
from orchestrator.cli.support.terminal import print_json, stages
from orchestrator.observability.logging import configure_logs
from orchestrator.observability.progress import Stages

RIDGE = 0.03
SILENCE_RIDGE = 0.01
WORST_FALSE_INJECTIONS = 0.095
MEAN_FALSE_INJECTIONS = 0.06
"""Share of unanswerable questions that the level lets through: of the worst set left out from the fit, and mean.

A tenth of the worst may be; half a point is for the level itself, which is chosen by the sets left out.
"""

OWN_TEXTS = 64
OWN_SHARE = 0.1
"""Texts of a set that are asked of the others, and how many of them may be answered: the calibration that was tried."""

CURVE = (0.01, 0.02, 0.05, 0.10, 0.15, 0.20, 0.30, 0.40)
RANKED_BY = tuple(each.name for each in fields(LikenessWeights))
Positions = npt.NDArray[np.intp]

LIKENESS = "likeness"
SIGNS = "signs together"
BASELINES = ("max cosine", "max BM25", "max fused score")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The candidates of one query, the best fused score first, and which of them are relevant."""

    features: Sequence[Features]
    fused: Figures
    right: Figures
    highest: tuple[float, float, float]

    def table(self) -> Figures:
        """Return the features that rank, then the same times the brevity of the query, a row a candidate."""
        found = np.array([[getattr(each, name) for name in RANKED_BY] for each in self.features])
        return np.concatenate([found, found * self.features[0].brevity], axis=1)

    def place(self, scores: Figures) -> int | None:
        """Return the place of the first relevant candidate among the first ten."""
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        return next((at for at, candidate in enumerate(order, 1) if self.right[candidate]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A set, each query asked of the whole corpus and of the corpus without its relevant documents.

    `own`: some documents, asked of all others.
    """

    name: str
    whole: Sequence[Pool]
    without: Sequence[Pool]
    own: Sequence[Pool] = ()

    @property
    def kind(self) -> str:
        """What is left out together: sets made from the same documents."""
        return self.name.partition("/")[0]


def ask(searched: Searched) -> Asked:
    """Ask every query of a set twice."""
    whole, without = [], []
    for at, (halves, relevant) in enumerate(searched.asked()):
        query = searched.labelled.queries[at]
        everything = np.arange(len(searched.labelled.documents))
        whole.append(_pool(searched, query, halves, relevant, everything))
        without.append(_pool(searched, query, halves, relevant, np.delete(everything, list(relevant))))
    return Asked(name=searched.labelled.name, whole=whole, without=without, own=ask_own(searched))


def ask_own(searched: Searched) -> list[Pool]:
    """Ask some documents of all others: nothing is known of most of them."""
    documents = searched.labelled.documents
    everything = np.arange(len(documents))
    picked = np.random.default_rng(20261127).permutation(len(documents))[:OWN_TEXTS]
    return [
        _pool(
            searched,
            documents[at],
            searched.halves(documents[at], searched.documents[at]),
            frozenset(),
            np.delete(everything, at),
        )
        for at in picked
    ]


def _pool(searched: Searched, query: str, halves: Halves, relevant: frozenset[int], kept: Positions) -> Pool:
    fused = halves.fused()[kept]
    best = kept[np.argsort(-fused, kind="stable")[:MAX_CANDIDATES]]
    found = [
        Candidate(
            terms=extract_terms(searched.labelled.documents[at]),
            cosine=float(halves.cosine[at]),
            coverage=coverage(float(halves.bm25[at]), halves.weight),
        )
        for at in best
    ]
    return Pool(
        features=features(read_query(query, searched.statistics), found, searched.mean_terms),
        fused=np.sort(fused)[::-1][:MAX_CANDIDATES],
        right=np.array([at in relevant for at in best], dtype=np.float64),
        highest=(float(halves.cosine[kept].max()), float(halves.bm25[kept].max()), float(fused.max())),
    )


def fit_likeness(sets: Sequence[Asked], requests: Sequence[Asked]) -> Figures:
    """Return the weights of likeness in the order of `RANKED_BY`, then what is added to them for a brief query.

    The former are fitted on the sets alone, the latter on requests as well; a query without its answer says nothing.
    """
    count = len(RANKED_BY)
    weights = _fit_choices(sets, lambda table: table[:, :count])
    added = _fit_choices(
        [*sets, *requests], lambda table: np.column_stack([table[:, :count] @ weights, table[:, count:]])
    )
    return np.concatenate([weights, added[1:] / added[0]])


def _fit_choices(sets: Sequence[Asked], columns: Callable[[Figures], Figures]) -> Figures:
    found = [[pool for pool in each.whole if pool.right.any()] for each in sets]
    return choice_weights(
        [columns(pool.table()) for pools in found for pool in pools],
        [pool.right for pools in found for pool in pools],
        np.concatenate([np.full(len(pools), 1 / len(pools) / len(sets)) for pools in found]),
        RIDGE,
    )


def signs_of(pools: Sequence[Pool], weights: Figures) -> Figures:
    """Return the signs of each query, a row a query."""
    return np.array([silence.signals(list(pool.fused), list(pool.table() @ weights), pool.features) for pool in pools])


def fit_silence(sets: Sequence[Asked], weights: Figures) -> Figures:
    """Return the weights of the signs, the intercept last."""
    rows, yes, each = [], [], []
    for asked in sets:
        for pools, answer in ((asked.whole, 1.0), (asked.without, 0.0)):
            rows.append(signs_of(pools, weights))
            yes.append(np.full(len(pools), answer))
            each.append(np.full(len(pools), 1 / len(pools) / len(sets) / 2))
    return yes_weights(np.concatenate(rows), np.concatenate(yes), np.concatenate(each), SILENCE_RIDGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidences:
    """How sure a signal is of each query of a set: with its answer in the corpus, and without."""

    whole: Figures
    without: Figures


Signal = Mapping[str, Confidences]


def baseline(sets: Sequence[Asked], at: int) -> Signal:
    """Return the highest cosine, BM25 or fused score as a signal."""
    return {
        each.name: Confidences(
            whole=np.array([pool.highest[at] for pool in each.whole]),
            without=np.array([pool.highest[at] for pool in each.without]),
        )
        for each in sets
    }


def together(asked: Asked, ranking: Figures, weights: Figures) -> Confidences:
    """Return the confidence of a set's queries, as logits."""

    def logits(pools: Sequence[Pool]) -> Figures:
        found: Figures = signs_of(pools, ranking) @ weights[:-1] + weights[-1]
        return found

    return Confidences(whole=logits(asked.whole), without=logits(asked.without))


def level(signal: Signal, let_through: float) -> float:
    """Return the lowest level that lets through at most this share of the unanswerable, mean of the sets."""
    levels = np.sort(np.concatenate([each.without for each in signal.values()]))
    shares = np.mean(
        [1 - np.searchsorted(np.sort(each.without), levels) / len(each.without) for each in signal.values()], axis=0
    )
    return float(np.nextafter(levels[np.argmax(shares <= let_through) - 1], np.inf))


def worst_level(signal: Signal) -> float:
    """Return the lowest level that lets through no more of the unanswerable than may be, worst of the sets and mean."""
    levels = np.sort(np.concatenate([each.without for each in signal.values()]))
    shares = np.array(
        [1 - np.searchsorted(np.sort(each.without), levels) / len(each.without) for each in signal.values()]
    )
    may = (shares.max(axis=0) <= WORST_FALSE_INJECTIONS) & (shares.mean(axis=0) <= MEAN_FALSE_INJECTIONS)
    return float(levels[np.argmax(may)])


def let_through(signal: Signal, at: float) -> tuple[float, float]:
    """Return the share of the unanswerable and of the answerable at or above a level, mean of the sets."""
    return (
        float(np.mean([(each.without >= at).mean() for each in signal.values()])),
        float(np.mean([(each.whole >= at).mean() for each in signal.values()])),
    )


Rank = Callable[[Pool], Figures]


def _by(weights: Figures) -> Rank:
    def rank(pool: Pool) -> Figures:
        found: Figures = pool.table() @ weights
        return found

    return rank


def retrieval(asked: Asked, rank: Rank) -> tuple[float, float]:
    """Return hit@1 and MRR@10 of a set."""
    places = [pool.place(rank(pool)) for pool in asked.whole]
    return float(np.mean([place == 1 for place in places])), float(
        np.mean([1 / place if place else 0 for place in places])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """All figures. Names: a set's, then a system's."""

    likeness: Mapping[str, float]
    silence: Mapping[str, float]
    ranked: Mapping[str, Mapping[str, tuple[float, float]]]
    areas: Mapping[str, Mapping[str, float]]
    curve: Mapping[str, Sequence[tuple[float, float]]]
    at_shipped_level: Mapping[str, tuple[float, float]]
    left_out_at_level: Mapping[str, tuple[float, float]]
    own_at_level: Mapping[str, tuple[float, float, float]]


def fit(sets: Sequence[Asked], requests: Sequence[Asked]) -> Fitted:
    """Fit on all sets and on all but each kind, and measure."""
    ranking = fit_likeness(sets, requests)
    speaking = fit_silence(sets, ranking)
    ranked: dict[str, Mapping[str, tuple[float, float]]] = {}
    everywhere: dict[str, Confidences] = {}
    elsewhere: dict[str, Confidences] = {}
    for each in sets:
        others = [other for other in sets if other.kind != each.kind] or sets
        ranking_of_others = fit_likeness(others, requests)
        ranked[each.name] = {
            "fusion": retrieval(each, lambda pool: pool.fused),
            LIKENESS: retrieval(each, _by(ranking)),
            f"{LIKENESS}, fitted on other kinds": retrieval(each, _by(ranking_of_others)),
        }
        everywhere[each.name] = together(each, ranking, speaking)
        elsewhere[each.name] = together(each, ranking_of_others, fit_silence(others, ranking_of_others))
    signals: dict[str, Signal] = {name: baseline(sets, at) for at, name in enumerate(BASELINES)}
    signals |= {SIGNS: everywhere, f"{SIGNS}, fitted on other kinds": elsewhere}
    shipped = worst_level(elsewhere)
    return Fitted(
        likeness=dict(zip((*RANKED_BY, *(f"brevity: {name}" for name in RANKED_BY)), ranking.tolist(), strict=True)),
        silence=dict(zip((*Signals._fields, "intercept"), speaking.tolist(), strict=True))
        | {"level": float(1 / (1 + np.exp(-shipped)))},
        ranked=ranked,
        areas={
            each.name: {name: auc(of[each.name].whole, of[each.name].without) for name, of in signals.items()}
            for each in sets
        },
        curve={name: [let_through(of, level(of, share)) for share in CURVE] for name, of in signals.items()},
        at_shipped_level={name: let_through({name: found}, shipped) for name, found in everywhere.items()}
        | {"mean": let_through(everywhere, shipped)},
        left_out_at_level={name: let_through({name: found}, shipped) for name, found in elsewhere.items()}
        | {"mean": let_through(elsewhere, shipped)},
        own_at_level={each.name: _raised(each, everywhere[each.name], ranking, speaking, shipped) for each in sets},
    )


def _raised(
    asked: Asked, found: Confidences, ranking: Figures, weights: Figures, at: float
) -> tuple[float, float, float]:
    """Return the share of a set's own texts that would be answered at a level, and what a level raised by them does."""
    own = signs_of(asked.own, ranking) @ weights[:-1] + weights[-1]
    raised = max(at, float(np.quantile(own, 1 - OWN_SHARE)))
    return (float((own >= at).mean()), *let_through({asked.name: found}, raised))


def rendered(found: Fitted) -> str:
    """Return the figures as Markdown tables."""
    systems = list(next(iter(found.ranked.values())))
    head = ["", *(f"{measure} {system}" for measure in ("hit@1", "MRR@10") for system in systems)]
    rows = [[name, *(f"{of[s][at]:.3f}" for at in (0, 1) for s in systems)] for name, of in found.ranked.items()]
    rows.append(
        ["mean", *(f"{np.mean([of[s][at] for of in found.ranked.values()]):.4f}" for at in (0, 1) for s in systems)]
    )
    signals = list(next(iter(found.areas.values())))
    areas = [[name, *(f"{of[s]:.3f}" for s in signals)] for name, of in found.areas.items()]
    areas.append(["mean", *(f"{np.mean([of[s] for of in found.areas.values()]):.4f}" for s in signals)])
    curve = [[f"{share:.2f}", *(f"{found.curve[s][at][1]:.3f}" for s in signals)] for at, share in enumerate(CURVE)]
    level_rows = [
        [name, *(f"{share:.3f}" for share in (*found.at_shipped_level[name], *left_out))]
        for name, left_out in found.left_out_at_level.items()
    ]
    own_rows = [[name, *(f"{share:.3f}" for share in shares)] for name, shares in found.own_at_level.items()]
    shipped = {
        **asdict(confidence.BUNDLED_LIKENESS),
        **{f"brevity: {k}": v for k, v in asdict(confidence.BUNDLED_BREVITY).items()},
        **{f"silence: {k}": v for k, v in asdict(silence.BUNDLED_CONFIDENCE).items()},
    }
    fitted = {**found.likeness, **{f"silence: {name}": value for name, value in found.silence.items()}}
    return "\n\n".join(
        [
            tables.table(head, rows),
            tables.table(["AUC", *signals], areas),
            tables.table(["false injections at most", *(f"answered: {s}" for s in signals)], curve),
            tables.table(
                ["at the level", "false injections", "answered", "set left out: false injections", "answered"],
                level_rows,
            ),
            tables.table(
                ["level raised by the set's own texts", "own texts answered before", "false injections", "answered"],
                own_rows,
            ),
            tables.table(
                ["weight", "shipped", "fitted"], [[k, f"{shipped[k]:.3g}", f"{v:.4f}"] for k, v in fitted.items()]
            ),
        ]
    )


async def ask_all(labelled: Sequence[LabelledSet], progress: Stages) -> list[Asked]:
    """Embed and ask all sets."""
    embedder = LocalEmbedder()
    try:
        asked = []
        for each in labelled:
            searched = await search_through(embedder, each, progress.stage(f"Embedding {each.name}"))
            progress.stage(f"Asking {each.name}")
            asked.append(ask(searched))
    finally:
        await embedder.aclose()
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit_ranking", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help=f"the labelled sets ({DATA})")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/evaluation.md")
    given = parser.parse_args(arguments)
    configure_logs()
    absent = missing(given.data)
    if absent:
        print(absent, file=sys.stderr)
        return 0
    with stages(quiet=False) as progress:
        labelled = [load(given.data / name, name) for name in SETS]
        asked = asyncio.run(ask_all([*labelled, *for_fitting()], progress))
        found = fit(asked[: len(SETS)], asked[len(SETS) :])
    if given.json:
        print_json(found)
    else:
        print(rendered(found))
    if given.write:
        tables.put(tables.EVALUATION, "likeness", rendered(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
