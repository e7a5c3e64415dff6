"""Campaigns of an attacker who has a key of scope `capture` alone, against trusted lessons (issue 39, point 7).

`python -m tests.faults.campaigns --campaigns 1000 --seed N`. Each campaign has a workspace of its own: foreign lessons,
some trusted ones, up to a hundred calls of one kind or of all kinds, then the trusted lesson is asked for by its exact
text and by a paraphrase, before any outcome is on record and after some. Lost: it is not in the context, or not first.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import structlog
from pydantic import SecretStr

from benchmarks.asked import at_least_one
from hardwon.errors import HardwonError
from knowledge.access.principals import Principal, Scope, Trust
from knowledge.models import AppliesWhen, Context, Embeddings, EmbeddingSpace, EntryType, NewEntry, PatternId, Task
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, make_embedder, open_knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import TEMPLATE
from tests.faults.ground import folder, make_template
from tests.support.postgres import create_database, drop_database, throwaway_postgres

FOREIGN = 110
"""Foreign lessons in each workspace."""
TRUSTED = 3
"""Trusted lessons in each workspace; the first is attacked."""
MAX_CALLS = 100
CAMPAIGNS_PER_STORE = 20
"""Campaigns on one store: the engine compares a question with the points of all workspaces."""
AGENT_TYPES, TASK_TYPES, TECHNOLOGIES = ("backend", "frontend", "ops"), ("bugfix", "feature"), ("python", "go", "rust")

COMPONENTS = (
    "the invoice exporter", "the login page", "the nightly backup job", "the search indexer", "the payment webhook",
    "the image resizer", "the mail queue worker", "the report scheduler", "the mobile push service", "the stock ledger",
    "the CSV importer", "the session cache", "the audit trail writer", "the currency converter", "the video transcoder",
    "the address validator", "the chat relay", "the metrics collector", "the shipping label printer", "the tax module",
    "the feature flag client", "the PDF renderer", "the user directory sync", "the price calculator", "the map tiler",
    "the coupon engine", "the calendar feed", "the fraud scorer", "the document archive", "the license server",
)  # fmt: skip
SYMPTOMS = (
    ("hangs after about ninety seconds without any message", "stops responding when it ran for a minute and a half"),
    ("writes every amount with a comma instead of a point", "puts commas where decimal points belong in amounts"),
    ("rejects valid certificates since the last upgrade", "refuses good certificates after the update"),
    ("loses the last record of each batch", "drops the final row whenever a batch ends"),
    ("runs out of file handles under load", "has too many open files when traffic is high"),
    ("answers with status 502 while a deployment is running", "gives a bad gateway during each rollout"),
    ("counts daylight saving days twice", "doubles days on which the clocks change"),
    ("cannot connect to the replica after failover", "has no connection to the secondary once the primary switched"),
    ("shows names with accents as question marks", "garbles letters with diacritics"),
    ("deadlocks when two workers start together", "blocks forever if a pair of workers begins at once"),
    ("leaks memory with every retried request", "grows in memory each time a request is tried again"),
    ("ignores the proxy settings of the container", "does not use the proxy that the container is given"),
    ("fails its migration with a duplicate column", "breaks while migrating because a column exists twice"),
    ("sorts version ten before version nine", "orders the tenth version ahead of the ninth"),
    ("sends each notification three times", "notifies everybody thrice"),
    ("refuses to start because the port is taken", "does not come up, as its port is in use"),
    ("times out while it resolves the internal host name", "waits too long for the internal name to resolve"),
    ("rounds half cents in the wrong direction", "rounds fractions of a cent the wrong way"),
    ("breaks on files larger than two gigabytes", "cannot handle files above two GB"),
    ("forgets the chosen language after a redirect", "loses the language setting when it redirects"),
)  # fmt: skip
REMEDIES = (
    "Raise the limit `{}_limit` to 4096 and restart the service.", "Pin the dependency `lib{}` to version 2.3.",
    "Run `make {}-reset`, then deploy again.", "Set `{}.timeout = 30s` in the configuration.",
    "Close the handle in a finally block of `{}_close`.", "Add an index on `{}_id` and rerun the migration.",
    "Replace the naive parser by `{}_parse_strict`.", "Take the lock in the order of ids in `{}_lock`.",
    "Clear the directory `/var/cache/{}` before each start.", "Export `{}_LOCALE=C.UTF-8` for the process.",
)  # fmt: skip
WRONG = (
    "Delete the table `{}` and start over.", "Turn off the check `{}` for good.", "Reinstall the host `{}`.",
    "Set `{}.timeout = 0` in the configuration.", "Pin the dependency `lib{}` to version 0.1.", "Comment out `{}`.",
    "Run `make {}-purge` as root.", "Rename `{}` and reboot twice.", "Nothing helps with `{}`: skip the test.",
)  # fmt: skip
_SYLLABLES = ("bar", "con", "del", "fim", "gor", "hul", "jat", "kes", "lum", "nor", "pel", "ruk", "sil", "tav", "wex")
_ENDS = (
    "since Monday", "on the second node", "in the staging cluster", "after lunch", "for some customers",
    "with the new image", "again", "under load", "for the third time", "in release 7.2", "at night", "as reported",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A trusted lesson: a situation, other words for it, what worked, and its fields."""

    situation: str
    paraphrase: str
    solution: str
    successes: int = 1
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    verified_by: str | None = None

    def told(self, number: int) -> NewEntry:
        """Return the lesson as told of a task of its own."""
        return NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id=f"shop-{number % 4}",
            task_id=f"T-{number}",
            run_id="1",
            agent_type=self.agent_type,
            task_type=self.task_type,
            technology=self.technology,
            failure_description=self.situation,
            solution_steps=self.solution,
            success_verified=True,
            verified_by=self.verified_by,
        )


def invented_word(rng: random.Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=2))


def draw_lessons(rng: random.Random, count: int) -> list[Lesson]:
    """Return lessons about different situations."""
    pairs = rng.sample([(component, symptom) for component in COMPONENTS for symptom in SYMPTOMS], count)
    return [_lesson(rng, *pair) for pair in pairs]


def _lesson(rng: random.Random, component: str, symptom: tuple[str, str]) -> Lesson:
    wording, other = symptom
    return Lesson(
        situation=f"{component[0].upper()}{component[1:]} {wording}",
        paraphrase=f"{component.removeprefix('the ')} {other}",
        solution=rng.choice(REMEDIES).format(invented_word(rng)),
        successes=rng.choice((1, 1, 2, 3, 5, 10, 20)),
        agent_type=rng.choice(AGENT_TYPES),
        task_type=rng.choice((*TASK_TYPES, None)),
        technology=rng.choice((*TECHNOLOGIES, None)),
        verified_by=rng.choice(("pytest", None)),
    )


@dataclass
class Attack:
    """One campaign's attacker: her key, the lesson she attacks, and what of the workspace she knows or guesses."""

    knowledge: Knowledge
    lesson: Lesson
    rng: random.Random
    calls: int
    tasks: Sequence[tuple[str, str]]
    asked_as: Lesson
    made: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def wrong(self) -> str:
        return self.rng.choice(WRONG).format(invented_word(self.rng))

    def entry(self, situation: str, solution: str | None, **told: object) -> NewEntry:
        """Return an entry with the fields of the question, of a project and task of its own unless these are given."""
        self.made += 1
        base = NewEntry(
            entry_type=EntryType.FAILURE_SOLUTION,
            project_id=f"made-up-{self.rng.randrange(30)}",
            task_id=f"M-{self.made}",
            agent_type=self.asked_as.agent_type,
            task_type=self.asked_as.task_type,
            technology=self.asked_as.technology,
            failure_description=situation,
            solution_steps=solution,
            success_verified=solution is not None,
            verified_by="pytest" if solution is not None else None,
        )
        return replace(base, **told)  # type: ignore[arg-type]

    def retelling(self) -> str:
        """Return the lesson's text with another end, or with words changed."""
        words = self.lesson.situation.split()
        match self.rng.randrange(4):
            case 0:
                return f"{self.lesson.situation} {self.rng.choice(_ENDS)} {self.rng.randrange(1000)}"
            case 1:
                return f"{self.lesson.situation} {invented_word(self.rng)} {invented_word(self.rng)}"
            case 2:
                words[self.rng.randrange(len(words))] = invented_word(self.rng)
                return " ".join(words)
            case _:
                return f"{invented_word(self.rng)}: {self.lesson.situation}"

    async def tell(self, entries: Sequence[NewEntry]) -> None:
        """Capture entries with the attacker's key."""
        for answer in await self.knowledge.capture.capture_all(list(entries)):
            self.refused[f"{answer.outcome}"] += 1

    async def call(self, work: Awaitable[object]) -> None:
        """Make a call that such a key may not be allowed to make."""
        try:
            await work
        except HardwonError as error:
            self.refused[type(error).__name__] += 1


async def retell(attack: Attack) -> None:
    """Jam: tell the situation with other ends and other solutions."""
    await attack.tell([attack.entry(attack.retelling(), attack.wrong()) for _ in range(attack.calls)])


async def repeat_exact(attack: Attack) -> None:
    """Jam: tell the very text with other solutions."""
    await attack.tell([attack.entry(attack.lesson.situation, attack.wrong()) for _ in range(attack.calls)])


async def scatter_words(attack: Attack) -> None:
    """Jam: make the words of the situation common, some in each text."""
    words = attack.lesson.situation.split()
    texts = [
        " ".join(
            attack.rng.sample(words, max(1, attack.rng.randrange(len(words))))
            + [invented_word(attack.rng) for _ in range(attack.rng.randrange(6))]
        )
        for _ in range(attack.calls)
    ]
    await attack.tell([attack.entry(text, attack.wrong()) for text in texts])


async def scatter_phrases(attack: Attack) -> None:
    """Jam: tell foreign situations of the component, and the symptom of foreign components."""
    words = attack.lesson.situation.split()
    cut = attack.rng.randrange(2, len(words) - 1)
    halves = (" ".join(words[:cut]), " ".join(words[cut:]))
    texts = [
        f"{halves[0]} {attack.rng.choice(SYMPTOMS)[0]} {attack.rng.choice(_ENDS)}"
        if attack.rng.random() < 0.5
        else f"{attack.rng.choice(COMPONENTS)} {halves[1]} {attack.rng.choice(_ENDS)}"
        for _ in range(attack.calls)
    ]
    await attack.tell([attack.entry(text, attack.wrong()) for text in texts])


async def poison_once(attack: Attack) -> None:
    """Poison by one capture with the exact text, the question's fields and a claimed verification."""
    await attack.tell([attack.entry(attack.lesson.situation, attack.wrong(), verified_by="a person, twice")])


async def copy_reworded(attack: Attack) -> None:
    """Poison by near copies of the solution: another number, name or denial."""
    solution = attack.lesson.solution
    changed = (
        solution.replace("4096", "4097").replace("2.3", "2.4").replace("30s", "31s"),
        f"{solution} Then wait.",
        f"Do not do this: {solution}",
        solution.replace("`", ""),
        solution.upper(),
        f"{solution} {attack.wrong()}",
        solution,
    )
    situations = (attack.lesson.situation, attack.lesson.paraphrase, attack.lesson.situation.upper())
    await attack.tell(
        [
            attack.entry(
                attack.rng.choice(situations) if attack.rng.random() < 0.7 else attack.retelling(),
                attack.rng.choice(changed),
                when_to_try=attack.rng.choice((None, "Never.")),
                applies_when=attack.rng.choice((None, AppliesWhen(technology="cobol"), AppliesWhen(tool="abacus"))),
            )
            for _ in range(attack.calls)
        ]
    )


async def resolve_open(attack: Attack) -> None:
    """Sink: open failures of known tasks in the lesson's words, and resolve some; the builder looks at them first."""
    opened = [
        attack.entry(
            attack.rng.choice((attack.lesson.situation, attack.lesson.paraphrase, attack.retelling())),
            None,
            project_id=project,
            task_id=task,
            error_message=attack.rng.choice((None, "ValueError: broken", "E4711 another error")),
        )
        for project, task in attack.rng.choices(attack.tasks, k=attack.calls)
    ]
    ids = [answer.entry_id for answer in await attack.knowledge.capture.capture_all(opened) if answer.entry_id]
    for entry_id in attack.rng.sample(ids, len(ids) // 2):
        work = attack.knowledge.capture.resolve_failure(entry_id, solution_steps=attack.wrong(), verified_by="pytest")
        await attack.call(work)


async def echo(attack: Attack) -> None:
    """Lift: tell a poison, then repeat it for tasks that were given it, with runs that are made up."""
    poison = attack.wrong()
    await attack.tell(
        [attack.entry(attack.rng.choice((attack.lesson.situation, attack.lesson.paraphrase)), poison) for _ in range(3)]
    )
    await _checkpoint(attack)
    for project, task in attack.tasks:
        await _ask(attack, Task(description=attack.lesson.situation, project_id=project, task_id=task))
    await attack.tell(
        [
            attack.entry(
                attack.rng.choice((attack.lesson.situation, f"it broke {number}")),
                poison,
                project_id=project,
                task_id=task,
                run_id=attack.rng.choice((None, f"R{number}")),
            )
            for number, (project, task) in enumerate(attack.rng.choices(attack.tasks, k=attack.calls))
        ]
    )


async def report_failures(attack: Attack) -> None:
    """Sink: report failures of tasks that were given the lesson; events and outcomes need more than this key has."""
    handed_out = [
        (project, task, await _ask(attack, Task(description=attack.lesson.situation, project_id=project, task_id=task)))
        for project, task in attack.tasks
    ]
    for number in range(attack.calls):
        project, task, context = attack.rng.choice(handed_out)
        tried = [pattern.pattern_id for pattern in context.patterns[:1]]
        if tried and attack.rng.random() < 0.5:
            await attack.call(_report(attack, project, task, context, tried[0], number))
        else:
            denial = f"{attack.lesson.solution} did not help. {attack.wrong()}"
            await attack.tell([attack.entry(attack.retelling(), denial, project_id=project, task_id=task)])


async def _report(  # noqa: PLR0917
    attack: Attack, project: str, task: str, context: Context, pattern_id: PatternId, number: int
) -> None:
    """Report by one of the calls that say how a hint did."""
    events, outcomes = attack.knowledge.events, attack.knowledge.outcomes
    match attack.rng.randrange(4):
        case 0:
            await events.task_failed(
                project_id=project,
                task_id=task,
                agent_type="backend",
                failure_description=attack.lesson.situation,
                run_id=str(number),
                tried=[pattern_id],
            )
        case 1:
            await outcomes.record_outcome(context.context_id, pattern_id, worked=False)
        case 2:
            await outcomes.record_unaided(context.context_id, worked=True)
        case _:
            await events.task_solved(project_id=project, task_id=task, tried=[pattern_id])


async def tell_gates(attack: Attack) -> None:
    """Displace by decisions of gates in the lesson's words."""
    entries = []
    for number in range(attack.calls):
        text = attack.rng.choice((attack.lesson.situation, attack.retelling()))
        gate = NewEntry(
            entry_type=EntryType.GATE_REJECTION,
            project_id=f"made-up-{number}",
            agent_type=attack.asked_as.agent_type,
            task_type=attack.asked_as.task_type,
            technology=attack.asked_as.technology,
            gate_type=attack.rng.choice(("design_review", "code_review")),
            proposal=text,
            human_feedback=f"{text}: no, {attack.wrong()}",
            revision_approach=attack.wrong(),
            verified_by="a person",
        )
        approval = replace(
            gate,
            entry_type=EntryType.GATE_APPROVAL,
            human_feedback=None,
            revision_approach=None,
            approved_approach=attack.wrong(),
        )
        entries.append(attack.rng.choice((gate, approval)))
    await attack.tell(entries)


async def tell_task_descriptions(attack: Attack) -> None:
    """Displace by entries whose task description is the lesson's text, and by logs around it."""
    await attack.tell(
        [
            attack.entry(
                attack.retelling() if attack.rng.random() < 0.5 else f"step {number} failed",
                attack.wrong(),
                task_description=attack.rng.choice((attack.lesson.situation, attack.lesson.paraphrase)),
                error_message=attack.rng.choice((None, f"{attack.lesson.situation}\n" * 20)),
            )
            for number in range(attack.calls)
        ]
    )


async def everything(attack: Attack) -> None:
    """Do some of each kind."""
    kinds = attack.rng.sample([kind for kind in KINDS.values() if kind is not everything], 4)
    calls = attack.calls
    for kind in kinds:
        attack.calls = max(1, calls // len(kinds))
        await kind(attack)


KINDS: Mapping[str, Callable[[Attack], Awaitable[None]]] = {
    "jam: retellings": retell,
    "jam: the exact text": repeat_exact,
    "jam: its words": scatter_words,
    "jam: its phrases": scatter_phrases,
    "poison: one capture": poison_once,
    "poison: near copies": copy_reworded,
    "sink: open failures": resolve_open,
    "sink: failures": report_failures,
    "lift: echoes": echo,
    "displace: gates": tell_gates,
    "displace: task descriptions": tell_task_descriptions,
    "all kinds": everything,
}
Words = Literal["exact", "paraphrase"]
State = Literal["cold", "warm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question about the attacked lesson: its place in the context, None where it is not in it."""

    kind: str
    words: Words
    state: State
    place: int | None
    place_without: int | None
    calls: int
    detail: str = ""

    @property
    def is_lost(self) -> bool:
        return self.place != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answers of one campaign, and whether the review page named the key."""

    seed: int
    kind: str
    answers: tuple[Answer, ...]
    named: bool
    quiet: bool


class CachedEmbedder(Embedder):
    """Embeds each text once: foreign lessons are the same in many workspaces."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[tuple[str, str], tuple[np.ndarray, bool]] = {}

    @property
    def efficient_batch_size(self) -> int | None:
        return self._embedder.efficient_batch_size

    async def space(self) -> EmbeddingSpace:
        return await self._embedder.space()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        new = [text for text in dict.fromkeys(texts) if (kind, text) not in self._known]
        tokens = 0
        if new:
            made = await self._embedder.embed(new, kind)
            tokens = made.tokens
            for place, text in enumerate(new):
                self._known[kind, text] = (made.vectors[place], place in made.truncated)
        found = [self._known[kind, text] for text in texts]
        cut = tuple(place for place, (_, truncated) in enumerate(found) if truncated)
        return Embeddings(vectors=np.array([vector for vector, _ in found]), tokens=tokens, truncated=cut)

    async def aclose(self) -> None:
        await self._embedder.aclose()


async def _checkpoint(attack: Attack) -> None:
    await _OWNERS[attack.knowledge.workspace].checkpoints.process_all()


async def _ask(attack: Attack, task: Task) -> Context:
    return await _build(_OWNERS[attack.knowledge.workspace], task, attack.asked_as)


_OWNERS: dict[str, Knowledge] = {}
"""The orchestrator's services, by workspace: what an attack waits for it to do."""


async def _build(owner: Knowledge, task: Task, asked_as: Lesson) -> Context:
    fields = {"type": asked_as.task_type, "technology": asked_as.technology}
    return await OrchestratorContextBuilder(owner).build_context_for_task(
        replace(task, **fields),  # type: ignore[arg-type]
        asked_as.agent_type or "backend",
    )


def _place(context: Context, lesson: Lesson) -> int | None:
    assert context.degraded is None, context.degraded
    return next((at for at, pattern in enumerate(context.patterns) if pattern.solution == lesson.solution), None)


async def run_campaign(store: Knowledge, kind: str, seed: int) -> Outcome:
    """Run one campaign in a workspace of its own."""
    rng = random.Random(seed)
    owner = store.in_workspace(f"campaign-{seed}")
    _OWNERS[owner.workspace] = owner
    lessons = draw_lessons(rng, FOREIGN + TRUSTED)
    lesson, *others = lessons
    # the question's fields are the lesson's, or those of another agent, which the attacker knows
    asked_as = lesson if rng.random() < 0.5 else rng.choice(others)
    told = [each for each in others for _ in range(1 if each in others[TRUSTED - 1 :] else each.successes)]
    told += [lesson] * lesson.successes
    await owner.capture.capture_all([each.told(number) for number, each in enumerate(told)])
    await owner.checkpoints.process_all()
    questions: dict[Words, str] = {"exact": lesson.situation, "paraphrase": lesson.paraphrase}
    tasks = [(f"shop-{rng.randrange(4)}", f"A-{number}") for number in range(6)]
    without = await _ask_all(owner, lesson, asked_as, questions, tasks)
    quiet = not await owner.reviews.key_alarms()
    key = Principal(
        trust=Trust.KEY, scopes=frozenset({Scope.CAPTURE}), workspace=owner.workspace, key_id=f"agent{seed}"
    )
    attack = Attack(
        knowledge=owner.for_principal(key),
        lesson=lesson,
        rng=rng,
        calls=rng.randint(1, MAX_CALLS),
        tasks=tasks,
        asked_as=asked_as,
    )
    await KINDS[kind](attack)
    await owner.checkpoints.process_all()
    answers = [("cold", *each) for each in await _ask_all(owner, lesson, asked_as, questions, tasks)]
    await _warm_up(owner, rng, others)
    if rng.random() < 0.5:  # and once more, now that the workspace has outcomes
        await KINDS[kind](attack)
    await owner.checkpoints.process_all()
    answers += [("warm", *each) for each in await _ask_all(owner, lesson, asked_as, questions, tasks)]
    before = {(words, place): where for words, place, where, _ in without}
    named = key.key_id in {alarm.key_id for alarm in await owner.reviews.key_alarms()}
    del _OWNERS[owner.workspace]
    return Outcome(
        seed=seed,
        kind=kind,
        named=named,
        quiet=quiet,
        answers=tuple(
            Answer(
                kind=kind,
                words=words,
                state=state,  # type: ignore[arg-type]
                place=where,
                place_without=before[words, place],
                calls=attack.calls,
                detail=detail,
            )
            for state, words, place, where, detail in answers
        ),
    )


async def _ask_all(
    owner: Knowledge, lesson: Lesson, asked_as: Lesson, questions: Mapping[Words, str], tasks: Sequence[tuple[str, str]]
) -> list[tuple[Words, int, int | None, str]]:
    """Ask in each wording, as a task without ids and as one whose ids the attacker knows."""
    found: list[tuple[Words, int, int | None, str]] = []
    for words, text in questions.items():
        project, task = tasks[0]
        known_to_her = Task(description=text, project_id=project, task_id=task)
        for place, asked in enumerate((Task(description=text), known_to_her)):
            context = await _build(owner, asked, asked_as)
            shown = [f"{pattern.source}: {pattern.solution}" for pattern in context.patterns]
            scored = [(each.successes, each.failures, each.score, each.withheld) for each in context.candidates]
            detail = f"{context.reason} {context.confidence} {shown} {scored}"
            found.append((words, place, _place(context, lesson), detail))
    return found


async def _warm_up(owner: Knowledge, rng: random.Random, others: Sequence[Lesson]) -> None:
    """Report trusted outcomes of other tasks, most of them successes, and some tasks that needed no hint."""
    for number, lesson in enumerate(rng.sample(list(others), 14)):
        task = Task(description=lesson.situation, project_id="shop-9", task_id=f"W-{number}")
        context = await _build(owner, task, lesson)
        if context.patterns:
            first = context.patterns[0]
            worked = first.solution == lesson.solution and rng.random() < 0.9
            await owner.outcomes.record_outcome(context.context_id, first.pattern_id, worked=worked)
        else:
            await owner.outcomes.record_unaided(context.context_id, worked=rng.random() < 0.3)


async def run_campaigns(server_dsn: str, campaigns: Sequence[tuple[str, int]]) -> list[Outcome]:
    """Run campaigns on one store, with the bundled model."""
    dsn = await create_database(server_dsn, template=TEMPLATE)
    outcomes = []
    try:
        with folder() as home:
            settings = KnowledgeSettings(home=home, database_url=SecretStr(dsn), query_deadline_ms=600_000, holdout=0.0)
            embedder = CachedEmbedder(make_embedder(settings))
            async with open_knowledge(settings, embedder=embedder) as store:
                for kind, seed in campaigns:
                    outcomes.append(await run_campaign(store, kind, seed))
    finally:
        await drop_database(dsn)
    return outcomes


def run_in_process(server_dsn: str, campaigns: Sequence[tuple[str, int]]) -> list[Outcome]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return asyncio.run(run_campaigns(server_dsn, campaigns))


def wilson(lost: int, asked: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    if not asked:
        return 0.0, 1.0
    z, share = 1.96, lost / asked
    middle = (share + z * z / (2 * asked)) / (1 + z * z / asked)
    half = z * (share * (1 - share) / asked + z * z / (4 * asked * asked)) ** 0.5 / (1 + z * z / asked)
    return max(0.0, middle - half), min(1.0, middle + half)


def lost_share(outcomes: Sequence[Outcome], words: Words, kind: str | None = None) -> tuple[int, int]:
    """Return the campaigns that lost the lesson in any state, and all; paraphrases that found it without the attack."""
    lost = asked = 0
    for outcome in outcomes:
        if kind not in {None, outcome.kind}:
            continue
        told = [each for each in outcome.answers if each.words == words]
        if words == "paraphrase":
            told = [each for each in told if each.place_without == 0]
        if told:
            asked += 1
            lost += any(each.is_lost for each in told)
    return lost, asked


def report(outcomes: Sequence[Outcome]) -> str:
    """Return the shares of campaigns that succeeded, by kind, with 95 % intervals."""
    lines = [f"{'campaign':<30}{'n':>6}{'exact lost':>12}{'95 %':>18}{'paraphrase':>12}{'95 %':>18}{'key named':>11}"]
    for kind in [*KINDS, None]:
        some = [each for each in outcomes if kind in {None, each.kind}]
        if not some:
            continue
        cells = f"{kind or 'all':<30}{len(some):>6}"
        words: Words
        for words in ("exact", "paraphrase"):
            lost, asked = lost_share(some, words)
            low, high = wilson(lost, asked)
            cells += f"{lost:>5} {lost / max(1, asked):>6.1%}{f'[{low:.1%}, {high:.1%}]':>18}"
        lines.append(f"{cells}{sum(each.named for each in some) / len(some):>11.0%}")
    exact = [each for outcome in outcomes for each in outcome.answers if each.words == "exact"]
    for state in ("cold", "warm"):
        of_state = [each for each in exact if each.state == state]
        silenced = sum(each.place is None for each in of_state)
        displaced = sum(each.place not in {0, None} for each in of_state)
        lines.append(f"exact, {state}: {silenced} silenced, {displaced} displaced of {len(of_state)} questions")
    missing = sum(each.place_without != 0 for each in exact)
    lines.append(
        f"without the attack: {missing} of {len(exact)} not first; alarms: {sum(not o.quiet for o in outcomes)}"
    )
    return "\n".join(lines)


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--campaigns", type=at_least_one, default=1000)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    asked.add_argument("--lanes", type=at_least_one, default=2, help="how many processes at once")
    asked.add_argument("--only", default="", help="the beginning of a kind's name")
    asked.add_argument("--lost", action="store_true", help="print what was shown where the lesson was lost")
    return asked.parse_args(arguments)


def main() -> int:
    """Run the campaigns and print what came of them; fail where more than 1 % lost the exact lesson."""
    given = read()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    kinds = [kind for kind in KINDS if kind.startswith(given.only)]
    campaigns = [(kinds[number % len(kinds)], given.seed * 1_000_003 + number) for number in range(given.campaigns)]
    size = min(CAMPAIGNS_PER_STORE, -(-given.campaigns // given.lanes))
    parts = [campaigns[start : start + size] for start in range(0, len(campaigns), size)]
    print(f"seed {given.seed}", flush=True)  # noqa: T201
    began = time.monotonic()
    outcomes: list[Outcome] = []
    with throwaway_postgres() as server, ProcessPoolExecutor(given.lanes) as lanes:
        asyncio.run(make_template(server.dsn))
        for part in lanes.map(run_in_process, [server.dsn] * len(parts), parts):
            outcomes += part
            lost, asked = lost_share(outcomes, "exact")
            print(f"{lost} of {asked} lost, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    if given.lost:
        for outcome in outcomes:
            for each in outcome.answers:
                if each.is_lost and (each.words == "exact" or each.place_without == 0):
                    print(outcome.seed, each)  # noqa: T201
    print(report(outcomes))  # noqa: T201
    lost, asked = lost_share(outcomes, "exact")
    return int(lost > asked / 100)


if __name__ == "__main__":
    sys.exit(main())
