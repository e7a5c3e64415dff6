"""`python -m benchmarks.requests`: is what was done for a request found by another request? (docs/evaluation.md).

`requests.txt` has two wordings of ours for what a public symbol of an installed package does. Beside them stand the
titles of botocore's examples, with the operations they call and what they say they do, where that package is installed
(`uv pip install botocore`). The texts of the packages are read where they are installed. Half of the sources, and of
the services, may be fitted on, the other half checks.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import html
import importlib
import importlib.util
import inspect
import json
import pydoc
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import tables
from benchmarks.bm25 import Bm25
from benchmarks.halves import DEPTH, place_of
from benchmarks.remembering import Remembering
from benchmarks.resampling import Figures, difference, estimate
from benchmarks.sets import LabelledSet
from hardwon.errors import BUNDLED_MODEL
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.models import EntryId, EntryType, NewEntry
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from orchestrator.cli.support.terminal import stages
from orchestrator.evaluation.retrieval import throwaway_knowledge
from orchestrator.observability.logging import configure_logs
from orchestrator.observability.progress import Stages

REQUESTS = Path(__file__).with_suffix(".txt")
FITTED = ("files", "text", "system", "arrays")
CHECKED = ("time", "numbers", "git", "sql", "tools")
_MAX_HEADING_CHARS = 600
_CALL = re.compile(r"[\w.]+\(.*\)( -+> .*)?", re.DOTALL)
"""A docstring's paragraph that is a signature."""

_TAG = re.compile(r"<[^>]+>")
_MAX_OPERATION_CHARS = 400
_MIN_EXAMPLES = 20
_MIN_WORDS = 3
_COPIES = frozenset({"waf-regional"})
"""Services whose texts are those of another one."""

_FAILURES = (
    "The first attempt failed: the result was not what the check expected.",
    "The reviewer sent it back, since the last step was missing.",
    "The tool call was refused because an argument was wrong.",
    "It ended with an error, and nothing was changed.",
    "The tests of the change failed.",
    "The agent stopped too early and reported success.",
    "The wrong function was used, so that the output was empty.",
    "It timed out before anything was written.",
)
"""What went wrong, in words that fit any request, as agents' reports often are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Two wordings of ours for what a symbol does, and the heading of its documentation."""

    source: str
    symbol: str
    wordings: tuple[str, str]
    heading: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Entries' task descriptions, their situations, and the queries with the entries that are right."""

    labelled: LabelledSet
    situations: Sequence[str | None]


def read_requests(sources: Sequence[str]) -> list[Request]:
    """Return the requests of some sources."""
    found, source = [], ""
    for line in REQUESTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            source = line.strip("[]")
        elif "|" in line and not line.startswith("#") and source in sources:
            symbol, one, other = (part.strip() for part in line.split("|"))
            heading = read_heading(pydoc.locate(symbol))
            if heading is None:
                raise ValueError(f"{symbol} has no documentation")
            found.append(Request(source=source, symbol=symbol, wordings=(one, other), heading=heading))
    return found


def read_heading(documented: object) -> str | None:
    """Return the first paragraph of an object's documentation that is no signature."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    return next((text[:_MAX_HEADING_CHARS] for text in paragraphs if text.strip() and not _CALL.fullmatch(text)), None)


def other_headings(requests: Sequence[Request]) -> Iterator[str]:
    """Yield the headings of everything else that is public beside the symbols."""
    own = {each.heading for each in requests}
    for owner in dict.fromkeys(each.symbol.rpartition(".")[0] for each in requests):
        parent = pydoc.locate(owner) or importlib.import_module(owner)
        for name, value in inspect.getmembers(parent, callable):
            heading = None if name.startswith("_") or isinstance(value, type(ValueError)) else read_heading(value)
            if heading and heading not in own:
                own.add(heading)
                yield heading


def by_heading(name: str, requests: Sequence[Request]) -> Collection:
    """Return headings as what was done, among all others of the packages, and both wordings as queries."""
    documents = [*dict.fromkeys(each.heading for each in requests), *other_headings(requests)]
    place = {text: at for at, text in enumerate(documents)}
    asked = [(wording, place[each.heading]) for each in requests for wording in each.wordings]
    return _collection(f"{name}: headings", documents, asked, [None] * len(documents))


def by_wording(name: str, requests: Sequence[Request], stored: int, *, failed: bool) -> Collection:
    """Return one wording as what was done and the other as queries; `failed`: each with a report of a failure."""
    documents = [each.wordings[stored] for each in requests]
    asked = [(each.wordings[1 - stored], at) for at, each in enumerate(requests)]
    situations = [_FAILURES[at % len(_FAILURES)] if failed else None for at in range(len(documents))]
    return _collection(f"{name}: {'failed tasks' if failed else 'tasks'}", documents, asked, situations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service of botocore: the documentation of its operations, and examples as (operation, title, description)."""

    operations: Mapping[str, str]
    examples: Sequence[tuple[str, str, str]]


def read_services() -> dict[str, Service]:
    """Return the services with enough examples, by name; none without botocore."""
    package = importlib.util.find_spec("botocore")
    if package is None or package.origin is None:
        return {}
    found = {}
    for folder in sorted(Path(package.origin).with_name("data").iterdir()):
        versions = sorted(folder.glob("*/examples-1.json"))
        if versions and folder.name not in _COPIES:
            service = _read_service(versions[-1])
            if len(service.examples) >= _MIN_EXAMPLES:
                found[folder.name] = service
    return found


def _read_service(file: Path) -> Service:
    model = json.loads(gzip.decompress(file.with_name("service-2.json.gz").read_bytes()))["operations"]
    documented = {name: _plain(each.get("documentation", ""))[:_MAX_OPERATION_CHARS] for name, each in model.items()}
    operations = {name: text for name, text in documented.items() if text}
    examples = [
        (name, _plain(each.get("title", "")), _plain(each.get("description", "")))
        for name, of_operation in json.loads(file.read_text(encoding="utf-8")).get("examples", {}).items()
        for each in of_operation
        if name in operations
    ]
    return Service(operations=operations, examples=examples)


def _plain(markup: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", markup)).split())


def by_operation(name: str, services: Sequence[Service]) -> Collection:
    """Return the documentation of operations as what was done, and the titles of examples as queries."""
    documents = list(dict.fromkeys(text for each in services for text in each.operations.values()))
    place = {text: at for at, text in enumerate(documents)}
    asked = [
        (title, place[each.operations[operation]])
        for each in services
        for operation, title, _ in each.examples
        if _is_request(title)
    ]
    return _collection(f"{name}: operations", documents, asked, [None] * len(documents))


def by_example(name: str, services: Sequence[Service], *, failed: bool) -> Collection:
    """Return the descriptions of examples as what was done, and their titles as queries."""
    told = [
        (title, text)
        for each in services
        for _, title, text in each.examples
        if _is_request(title) and _is_request(text)
    ]
    documents = list(dict.fromkeys(text for _, text in told))
    place = {text: at for at, text in enumerate(documents)}
    situations = [_FAILURES[at % len(_FAILURES)] if failed else None for at in range(len(documents))]
    asked = [(title, place[text]) for title, text in told]
    return _collection(f"{name}: {'failed examples' if failed else 'examples'}", documents, asked, situations)


def _is_request(text: str) -> bool:
    """Return whether a text is more than a name."""
    return len(text.split()) >= _MIN_WORDS


def _collection(
    name: str, documents: Sequence[str], asked: Sequence[tuple[str, int]], situations: Sequence[str | None]
) -> Collection:
    return Collection(
        labelled=LabelledSet(
            name=name,
            documents=documents,
            queries=[query for query, _ in asked],
            query_ids=[str(at) for at in range(len(asked))],
            relevant=[frozenset({at}) for _, at in asked],
        ),
        situations=situations,
    )


def collections(name: str, sources: Sequence[str]) -> list[list[Collection]]:
    """Return what is measured over some sources; the parts of one list are one measurement."""
    requests = read_requests(sources)
    ours = [
        [by_heading(name, requests)],
        [by_wording(name, requests, stored, failed=False) for stored in (0, 1)],
        [by_wording(name, requests, stored, failed=True) for stored in (0, 1)],
    ]
    services = list(read_services().values())[0 if sources == FITTED else 1 :: 2]
    if not services:
        print("Without botocore only our own requests are measured: uv pip install botocore", file=sys.stderr)
        return ours
    return [
        *ours,
        [by_operation(name, services)],
        [by_example(name, services, failed=False)],
        [by_example(name, services, failed=True)],
    ]


def for_fitting() -> list[LabelledSet]:
    """Return what weights may be fitted on: task descriptions alone."""
    parts = [part for parts in collections("fitted", FITTED) for part in parts]
    return [part.labelled for part in parts if not any(part.situations)]


def lexical_places(labelled: LabelledSet) -> list[int | None]:
    """Return the place of the right entry by BM25 over the task descriptions."""
    plain = Bm25(labelled.documents)
    return [
        place_of(plain.scores(query), right) for query, right in zip(labelled.queries, labelled.relevant, strict=True)
    ]


def _entry(task: str, situation: str | None, at: int) -> NewEntry:
    return NewEntry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id="requests",
        agent_type="evaluation",
        task_description=task,
        failure_description=situation or task,
        solution_steps=f"procedure {at}",
        success_verified=True,
    )


async def service_places(collection: Collection, embedder: Embedder, progress: Stages) -> list[int | None]:
    """Return the place of the right entry by `query_for_task`, through the services of production."""
    labelled = collection.labelled
    settings = KnowledgeSettings(embedding_model=BUNDLED_MODEL)
    async with throwaway_knowledge(settings, embedder) as knowledge:
        pairs = zip(labelled.documents, collection.situations, strict=True)
        captured = await knowledge.capture.capture_all([_entry(*pair, at) for at, pair in enumerate(pairs)])
        stored: dict[EntryId | None, int] = {each.entry_id: at for at, each in enumerate(captured)}
        await knowledge.checkpoints.process_all(progress=progress.stage("Embedding"))
        asking = progress.stage(f"Asking {labelled.name}")
        places: list[int | None] = []
        for query, right in zip(labelled.queries, labelled.relevant, strict=True):
            found = await knowledge.queries.query_for_task(query, max_results=DEPTH, min_relevance=0)
            entries = [{stored[entry] for entry in pattern.entry_ids} for pattern in found]
            places.append(next((at for at, each in enumerate(entries, 1) if each & right), None))
            if asking:
                asking(len(places), len(labelled.queries))
    return places


Places = Mapping[str, Sequence[int | None]]


async def measure(progress: Stages) -> dict[str, Places]:
    """Return the places by BM25 and by hardwon for each measurement."""
    embedder = LocalEmbedder()
    found: dict[str, Places] = {}
    try:
        for name, sources in (("fitted", FITTED), ("checked", CHECKED)):
            for parts in collections(name, sources):
                lexical: list[int | None] = []
                ours: list[int | None] = []
                for part in parts:
                    lexical += lexical_places(part.labelled)
                    ours += await service_places(part, Remembering(embedder), progress)
                found[parts[0].labelled.name] = {"BM25": lexical, "hardwon": ours}
    finally:
        await embedder.aclose()
    return found


def _hits(places: Sequence[int | None]) -> Figures:
    return np.array([place == 1 for place in places], dtype=np.float64)


def _reciprocals(places: Sequence[int | None]) -> Figures:
    return np.array([1 / place if place else 0.0 for place in places])


def rendered(found: Mapping[str, Places]) -> str:
    """Return the figures as a Markdown table."""
    rows = []
    for name, places in found.items():
        row = [name, str(len(places["BM25"]))]
        for measure in (_hits, _reciprocals):
            theirs, ours = ([measure(places[system])] for system in ("BM25", "hardwon"))
            gain = difference(ours, theirs)
            row += [f"{estimate(theirs).mean:.3f}", f"{estimate(ours).mean:.3f}"]
            row.append(f"{gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")
        rows.append(row)
    measures = [f"{measure} {system}" for measure in ("hit@1", "MRR@10") for system in ("BM25", "hardwon", "gain")]
    return tables.table(["requests", "queries", *measures], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where the checked sources are found worse than by BM25."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.requests", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/evaluation.md")
    given = parser.parse_args(arguments)
    configure_logs()
    with stages(quiet=False) as progress:
        found = asyncio.run(measure(progress))
    print(rendered(found))
    if given.write:
        tables.put(tables.EVALUATION, "requests", rendered(found))
    hits = [{system: sum(place == 1 for place in each) for system, each in of.items()} for of in found.values()]
    return 0 if all(each["hardwon"] >= each["BM25"] for each in hits) else 1


if __name__ == "__main__":
    sys.exit(main())
