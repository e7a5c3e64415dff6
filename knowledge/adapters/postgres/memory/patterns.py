"""The patterns of a workspace in Postgres: decisions under one lock, marking embedded, founders, pruning."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import NotFound
from knowledge.adapters.postgres.engine.analyze import Analyze
from knowledge.adapters.postgres.engine.database import (
    CompiledQuery,
    WorkspaceStore,
    autocommit,
    queue_for_workspace,
    store_transaction,
    transaction,
)
from knowledge.adapters.postgres.memory.counts import EMBEDDED, exclusive_transaction, is_any_of, lock_in_order, recount
from knowledge.adapters.postgres.memory.decisions import PostgresDecisions
from knowledge.adapters.postgres.memory.entry_rows import (
    ENTRY_COLUMNS,
    TRUST_ORDER,
    entry_of_values,
    from_json,
    supports_point,
)
from knowledge.adapters.postgres.memory.points import IS_CLEAN, mark_dirty
from knowledge.adapters.postgres.memory.records import select_records, to_record
from knowledge.adapters.postgres.memory.spaces import HOLD_SPACE, TRY_SPACE, select_collection
from knowledge.adapters.postgres.memory_tables import (
    TIME,
    checkpoints,
    contexts,
    distillations,
    embedding_spaces,
    entry_profiles,
    knowledge_staging,
    links,
    match_keys,
    outcomes,
    patterns,
    points,
    projects,
    records,
    vectors,
    vouched,
    workspaces,
)
from knowledge.adapters.postgres.seals.entry_seals import (
    SEALED_COLUMNS,
    altered,
    forget_seals,
    is_genuine,
    rewrite,
)
from knowledge.adapters.postgres.seals.ledger import Ledger, ledger_of
from knowledge.adapters.postgres.seals.row_seals import row_message
from knowledge.models import (
    MAX_CIRCUMSTANCES,
    MAX_RIVALS,
    MAX_SOURCE_ENTRIES,
    MAX_WHEN_CHARS,
    AppliesWhen,
    Circumstance,
    DistilledText,
    EmbeddingSpace,
    Entry,
    EntryId,
    EntryProfile,
    EntryStatus,
    EntryTexts,
    EntryType,
    Evidence,
    Founder,
    LeaseToken,
    PatternId,
    PointId,
    PruneReport,
    TrialRecord,
    View,
)
from knowledge.ports import DecisionTransaction, PatternStore

_E = knowledge_staging.c
_P = patterns.c
_T = points.c
_PROJECT = sa.bindparam("project", type_=sa.Text)
_MAX_CHECKPOINT = timedelta(days=1)
"""More than passes between the time of embedding that a checkpoint gives an entry and its mark; ours."""
_D = distillations.c
_DISTILLED = {
    field.name: "answered_at" if field.name == "written_at" else field.name for field in fields(DistilledText)
}
"""The columns of a distillation, by field."""
_DISTILLED_SEALED = ("title", "problem", "when_to_try", "when_not_to_try", "model", "written_at")
"""The fields of a model's text that its seal covers, in order."""
_PROFILE_COLUMNS = [entry_profiles.c[field.name].label(f"profile_{field.name}") for field in fields(EntryProfile)]


_CONDITIONS = [column.name for column in ENTRY_COLUMNS].index("applies_when")


class _FoundRow(NamedTuple):
    """The columns of a live pattern before those of its entry, in the order of `_select_with_words`."""

    found_id: UUID
    success_count: int
    attempt_count: int
    project_count: int
    founded_at: datetime
    entry_ids: Sequence[EntryId]
    circumstances: Any
    conditions: Any
    whens: Any
    when_told: str | None
    of_project: bool | None
    tags: Sequence[str]
    rivals: Sequence[PatternId]
    distilled_title: str | None
    distilled_problem: str | None
    distilled_when_to_try: str | None
    distilled_when_not_to_try: str | None
    distilled_model: str | None
    distilled_written_at: datetime | None
    distilled_seal: bytes | None
    profile_rules: int | None
    profile_arm_key: str
    profile_situation: bytes
    profile_task: bytes | None
    profile_resolution: bytes


def _select_with_words(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select live patterns with their texts: those of the most trusted, then latest, evidence.

    Summaries over entries are computed only for patterns that have several: most have one.
    """
    live = sa.and_(_E.pattern_id == _P.id, EMBEDDED, _E.expires_at > sa.bindparam("now", type_=TIME))
    words = (
        sa.select(*_PROFILE_COLUMNS, _E.error_signature, *SEALED_COLUMNS)
        .select_from(knowledge_staging.outerjoin(entry_profiles, entry_profiles.c.entry_id == _E.id))
        .where(live)
        .order_by(*TRUST_ORDER)
        .limit(1)
    )
    latest = _most_trusted(live, _E.embedded_at, _E.id)
    latest_ids = sa.select(latest.c.id).order_by(latest.c.embedded_at.desc(), latest.c.id).scalar_subquery()
    ids = sa.func.array(latest_ids).label("entry_ids")
    # a subquery with an offset stays one: otherwise Postgres repeats it wherever the column is named
    named = sa.select(ids).offset(sa.literal_column("0")).lateral("named")
    several = sa.func.cardinality(named.c.entry_ids) > 1
    of_project = sa.and_(_PROJECT.is_not(None), several)
    written = sa.and_(_D.pattern_id == _P.id, _D.refused.is_(None), _D.expires_at > sa.bindparam("now", type_=TIME))
    return (
        sa.select(
            *columns,
            _P.id.label("found_id"),
            _P.success_count,
            _P.attempt_count,
            _P.project_count,
            _P.founded_at,
            named.c.entry_ids,
            sa.case((several, _select_circumstances(live))).label("circumstances"),
            sa.case((several, _select_distinct(live, _E.applies_when))).label("conditions"),
            sa.case((several, _select_distinct(live, sa.func.left(_E.when_to_try, MAX_WHEN_CHARS)))).label("whens"),
            sa.case((several, _select_when_to_try(live))).label("when_told"),
            sa.case((of_project, sa.exists().where(live, _E.project_id == _PROJECT))).label("of_project"),
            _P.tags,
            _select_rivals().label("rivals"),
            *(_D[column].label(f"distilled_{name}") for name, column in _DISTILLED.items()),
            _D.seal.label("distilled_seal"),
            words.lateral("words"),
        )
        .select_from(patterns.outerjoin(distillations, written))
        .where(_P.workspace == sa.bindparam("workspace"), _P.success_count > 0)
    )


def _most_trusted(live: sa.ColumnElement[bool], *columns: sa.ColumnElement[Any]) -> sa.Subquery:
    """Select columns of the entries that a pattern is summarised from: of many, the most trusted ones only."""
    return (
        sa.select(*columns)
        .where(live)
        .order_by(*TRUST_ORDER)
        .limit(MAX_SOURCE_ENTRIES)
        .correlate(patterns)
        .subquery("heard")
    )


def _select_when_to_try(live: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Select `when_to_try` of the most trusted entry that has one."""
    entries = _most_trusted(live, _E.when_to_try, _E.low_trust, vouched.label("vouched"), _E.embedded_at, _E.id)
    trusted = (entries.c.low_trust, entries.c.vouched, entries.c.embedded_at.desc(), entries.c.id)
    sentence = sa.select(entries.c.when_to_try).where(entries.c.when_to_try.is_not(None)).order_by(*trusted).limit(1)
    return sentence.scalar_subquery()


def _select_rivals() -> sa.ScalarSelect[Any]:
    """Select the ids of a pattern's rivals as an array: of many, those with the most evidence."""
    rival = links.c.kind == sa.literal_column("'rival'")
    upper = sa.select(links.c.upper_id.label("id")).where(links.c.lower_id == _P.id, rival).correlate(patterns)
    lower = sa.select(links.c.lower_id).where(links.c.upper_id == _P.id, rival).correlate(patterns)
    other = upper.union_all(lower).subquery("other")
    rivals = patterns.alias("rivals")
    most = (
        sa.select(rivals.c.id)
        .select_from(other.join(rivals, rivals.c.id == other.c.id))
        .order_by(rivals.c.success_count.desc(), rivals.c.founded_at, rivals.c.id)
        .limit(MAX_RIVALS)
        .correlate(patterns)
    )
    return sa.select(sa.func.array(most.scalar_subquery())).scalar_subquery()


def _select_circumstances(live: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Select the circumstances in which a pattern worked, by its live entries: a JSON array of objects."""
    entries = _most_trusted(live, _E.agent_type, _E.technology, _E.task_type, _E.gate_type, _E.error_signature)
    values = tuple(entries.c)
    names: tuple[sa.ColumnElement[str], ...] = (
        sa.literal_column("'agent_type'"),
        sa.literal_column("'technology'"),
        sa.literal_column("'task_type'"),
        sa.literal_column("'gate_type'"),
        sa.literal_column("'error'"),
    )
    named = itertools.chain.from_iterable(zip(names, values, strict=True))
    each = (
        sa.select(sa.func.jsonb_build_object(sa.literal_column("'entries'"), sa.func.count(), *named).label("each"))
        .group_by(*values)
        .order_by(sa.func.count().desc(), *values)
        .limit(MAX_CIRCUMSTANCES)
        .subquery("circumstances")
    )
    return sa.select(sa.func.jsonb_agg(each.c.each)).scalar_subquery()


def _select_distinct(live: sa.ColumnElement[bool], column: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
    """Select the distinct conditions, or sentences of when to try, of a pattern's live entries, as a JSON array.

    If any entry is trusted, those of low trust are ignored: one of them would hide what all others found to work.
    """
    most = _most_trusted(live, _E.low_trust)
    trust = sa.select(sa.func.bool_and(most.c.low_trust)).scalar_subquery()
    entries = _most_trusted(live, column.label("told"), _E.low_trust)
    each = (
        sa.select(entries.c.told)
        .where(entries.c.told.is_not(None), sa.or_(~entries.c.low_trust, trust))
        .distinct()
        .limit(MAX_CIRCUMSTANCES)
        .subquery("each")
    )
    return sa.select(sa.func.jsonb_agg(each.c.told)).scalar_subquery()


# Built once: compiling such a statement takes longer than Postgres takes to answer it.
_WANTED = (
    sa.select(_T.id, _T.pattern_id)
    .where(
        _T.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))),
        _T.workspace == sa.bindparam("workspace", type_=sa.Text),
    )
    .cte("wanted")
    .prefix_with("MATERIALIZED")
)
_OF_POINTS = CompiledQuery(_select_with_words(_WANTED.c.id.label("point_id")).where(_WANTED.c.pattern_id == _P.id))
"""The patterns of some points, one row per point."""


def _select_with_records() -> sa.Select[Any]:
    """Select the points asked for, each with the records at the points of its pattern, and with the pattern if read."""
    own = points.alias("own")
    latest = select_records(own.c.id).lateral("latest")
    near = (
        sa.select(sa.func.row(*latest.c))
        .select_from(own.join(latest, sa.true()))
        .where(own.c.pattern_id == _WANTED.c.pattern_id)
        .correlate(_WANTED)
    )
    is_read = _WANTED.c.id == sa.any_(sa.bindparam("read", type_=sa.ARRAY(UUID_TYPE)))
    # NULL of those not read, in the index's condition: a condition of the join is checked after all was read
    read_id = sa.case((is_read, _WANTED.c.pattern_id))
    pattern = _select_with_words().where(_P.id == read_id).correlate(_WANTED).lateral("pattern")
    return sa.select(
        _WANTED.c.id, _WANTED.c.pattern_id, sa.func.array(near.scalar_subquery()).label("near"), *pattern.c
    ).select_from(_WANTED.outerjoin(pattern, sa.true()))


_WITH_RECORDS = CompiledQuery(_select_with_records())
ONE_PATTERN = _select_with_words().where(_P.id == sa.bindparam("pattern", type_=UUID_TYPE))
_SOME_PATTERNS = _select_with_words().where(_P.id == sa.any_(sa.bindparam("patterns", type_=sa.ARRAY(UUID_TYPE))))


async def live_patterns(
    connection: AsyncConnection, workspace: str, pattern_ids: Collection[UUID], now: datetime
) -> dict[PatternId, Evidence]:
    """Return those of the patterns that are live."""
    params = {"workspace": workspace, "now": now, "patterns": list(pattern_ids), "project": None}
    rows, ledger = await connection.execute(_SOME_PATTERNS, params), ledger_of(connection.engine)
    found = [read_evidence(ledger, workspace, row, None) for row in rows]
    return {evidence.pattern_id: evidence for evidence in found if evidence is not None}


_FOUND = slice(-len(_FoundRow._fields) - len(SEALED_COLUMNS) - 1, -len(SEALED_COLUMNS) - 1)
_WORDS = slice(-len(SEALED_COLUMNS), -1)


def read_evidence(ledger: Ledger, workspace: str, row: Sequence[Any], project_id: str | None) -> Evidence | None:
    """Convert a row of these statements, as `evidence_of`; None where its words are not as they were stored.

    A model's text that is not is left out.
    """
    words = list(row[-len(SEALED_COLUMNS) :])
    with suppress(ValueError):  # what is no JSON does not verify
        words[_CONDITIONS] = from_json(words[_CONDITIONS])
    if not is_genuine(ledger, workspace, tuple(words)):
        return None
    evidence = evidence_of(row, project_id)
    if ledger.keys is None or evidence.distilled is None:
        return evidence
    found = _FoundRow._make(row[_FOUND])
    told = [getattr(evidence.distilled, name) for name in _DISTILLED_SEALED]
    message = row_message(distillations, workspace, [found.found_id, *told])
    return evidence if ledger.keys.verifies(message, found.distilled_seal) else replace(evidence, distilled=None)


def evidence_of(row: Sequence[Any], project_id: str | None) -> Evidence:
    """Convert a row of these statements; `project_id`: the project whose entries set `of_project`.

    The row is SQLAlchemy's or the driver's, which has JSON as text.
    """
    found = _FoundRow._make(row[_FOUND])
    words = entry_of_values(row[_WORDS])
    entry_ids = tuple(found.entry_ids)
    if len(entry_ids) == 1:
        summary = _summary_of_one(words, row[-len(SEALED_COLUMNS) - 1], project_id)
    else:
        summary = _summary_of_several(found)
    return Evidence(
        pattern_id=PatternId(found.found_id),
        entry_type=words.entry_type,
        words=words,
        success_count=found.success_count,
        attempt_count=found.attempt_count,
        project_count=found.project_count,
        founded_at=found.founded_at,
        rivals=tuple(sorted(found.rivals)),
        tags=tuple(found.tags),
        entry_ids=entry_ids,
        distilled=_to_distilled(found),
        profile=_to_profile(found),
        **summary,
    )


def _to_distilled(found: _FoundRow) -> DistilledText | None:
    if found.distilled_title is None:
        return None
    return DistilledText(**{name: getattr(found, f"distilled_{name}") for name in _DISTILLED})


def _to_profile(found: _FoundRow) -> EntryProfile | None:
    if found.profile_rules is None:
        return None
    return EntryProfile(
        rules=found.profile_rules,
        arm_key=found.profile_arm_key,
        situation=found.profile_situation,
        task=found.profile_task,
        resolution=found.profile_resolution,
    )


def _summary_of_several(found: _FoundRow) -> dict[str, Any]:
    """Return the summary of several entries."""
    return {
        "circumstances": tuple(Circumstance(**values) for values in from_json(found.circumstances)),
        "when_to_try": found.when_told,
        "conditions": tuple(AppliesWhen(**values) for values in from_json(found.conditions) or ()),
        "whens": tuple(from_json(found.whens) or ()),
        "of_project": found.of_project,
    }


def _summary_of_one(words: Entry, error: str | None, project_id: str | None) -> dict[str, Any]:
    """Return the summary of a single entry."""
    circumstance = Circumstance(
        entries=1,
        agent_type=words.agent_type,
        technology=words.technology,
        task_type=words.task_type,
        gate_type=words.gate_type,
        error=error,
    )
    return {
        "circumstances": (circumstance,),
        "when_to_try": words.when_to_try,
        "conditions": (words.applies_when,) if words.applies_when else (),
        "whens": (words.when_to_try[:MAX_WHEN_CHARS],) if words.when_to_try else (),
        "of_project": None if project_id is None else words.project_id == project_id,
    }


_J = projects.c


_SWITCH_QUEUE = "the store, whose model is changed"
"""The queue of those who wait for a change of model, whichever workspace they are for."""


_OF_SPACE_IN_USE = sa.or_(
    ~sa.exists().where(embedding_spaces.c.active).correlate(None),
    select_collection().scalar_subquery() == sa.bindparam("space", type_=sa.Text),
)
"""False if the space was switched while entries were embedded: their points went into the index of another space."""

# Built once: compiling such a statement takes longer than Postgres takes to answer it.
_MARK = (
    sa.update(knowledge_staging)
    .where(
        lock_in_order(
            _E.id == sa.any_(sa.bindparam("entries", type_=sa.ARRAY(UUID_TYPE))),
            _E.lease_token == sa.bindparam("token", type_=UUID_TYPE),
            _E.pattern_id.is_not(None),
        ),
        _OF_SPACE_IN_USE,
    )
    .values(
        status=EntryStatus.EMBEDDED,
        embedded_at=sa.bindparam("from", type_=TIME),
        expires_at=sa.bindparam("until", type_=TIME),
        lease_token=None,
        lease_until=None,
    )
)
_MARKED = (
    _E.id == sa.any_(sa.bindparam("entries", type_=sa.ARRAY(UUID_TYPE))),
    _E.lease_token == sa.bindparam("token", type_=UUID_TYPE),
)


_PROFILE_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    field.name: entry_profiles.c[field.name].type for field in fields(EntryProfile)
}


def _store_profiles() -> sa.Insert:
    """Return the insert of the profiles of entries, in place of earlier ones; skips entries that are deleted."""
    names = ["entries", *_PROFILE_TYPES]
    types = [UUID_TYPE(), *_PROFILE_TYPES.values()]
    given = sa.select(
        *(
            sa.func.unnest(sa.bindparam(name, type_=sa.ARRAY(type_))).label(name)
            for name, type_ in zip(names, types, strict=True)
        )
    ).subquery("given")
    entries = sa.any_(sa.bindparam("entries", type_=sa.ARRAY(UUID_TYPE)))
    existing = (
        sa.select(_E.id)
        .where(_E.id == entries)
        .order_by(_E.id)
        .with_for_update(read=True, key_share=True)
        .cte("existing")
    )
    rows = sa.select(
        given.c.entries, sa.bindparam("workspace", type_=sa.Text), *(given.c[name] for name in _PROFILE_TYPES)
    ).join(existing, existing.c.id == given.c.entries)
    new = insert(entry_profiles).from_select(["entry_id", "workspace", *_PROFILE_TYPES], rows)
    updated = {name: new.excluded[name] for name in _PROFILE_TYPES}
    return new.on_conflict_do_update(index_elements=[entry_profiles.c.entry_id], set_=updated)


_STORE_PROFILES = _store_profiles()


def _select_founders() -> sa.Select[Any]:
    """Select the founding entries of points' patterns, or the oldest left, with their situations' vectors."""
    siblings, is_kept = (
        points.alias("told"),
        _E.status.in_([sa.literal_column("'embedded'"), sa.literal_column("'staged'")]),
    )
    oldest = (
        sa.select(*(_E[name] for name in EntryTexts._fields), _E.point_ids)
        .where(_E.pattern_id == _T.pattern_id, is_kept, sa.func.cardinality(_E.point_ids) > 0)
        .order_by((_E.id == _P.founding_entry_id).desc(), _E.timestamp, _E.id)
        .limit(1)
        .lateral("founder")
    )
    situation = (
        sa.select(vectors.c.vector)
        .select_from(siblings.join(vectors, vectors.c.point_id == siblings.c.id))
        .where(
            siblings.c.id == sa.any_(oldest.c.point_ids),
            siblings.c.view == View.SITUATION,
            vectors.c.space == sa.bindparam("space", type_=sa.Text),
        )
        .limit(1)
        .lateral("situation")
    )
    return (
        sa.select(
            _T.id.label("point_id"),
            _P.id.label("found_id"),
            situation.c.vector,
            *(oldest.c[name] for name in EntryTexts._fields),
        )
        .select_from(points.join(patterns, _P.id == _T.pattern_id))
        .join(oldest, sa.true())
        .join(situation, sa.true())
        .where(
            _T.workspace == sa.bindparam("workspace"),
            _T.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))),
        )
    )


_FOUNDERS = _select_founders()


class PostgresPatterns(WorkspaceStore, PatternStore):
    """Patterns of one workspace."""

    @asynccontextmanager
    async def begin_decisions(self, token: LeaseToken) -> AsyncIterator[DecisionTransaction]:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            yield PostgresDecisions(connection, self._workspace, token)

    async def mark_embedded(
        self,
        token: LeaseToken,
        entry_ids: Sequence[EntryId],
        space: EmbeddingSpace,
        *,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> set[EntryId]:
        params = {
            "entries": list(entry_ids),
            "token": token,
            "space": space.collection,
            "from": embedded_at,
            "until": expires_at,
        }
        if (marked := await self._try_mark(params, TRY_SPACE)) is not None:
            return marked
        async with queue_for_workspace(self._engine, _SWITCH_QUEUE):  # the change needs connections itself
            return await self._try_mark(params, HOLD_SPACE) or set()

    async def _try_mark(self, params: Mapping[str, Any], lock: sa.Select[Any]) -> set[EntryId] | None:
        """Mark entries under the lock of a change of model; return None if the lock is not free."""
        async with store_transaction(self._engine) as connection:
            if await connection.scalar(lock) is False:
                return None
            marked = await rewrite(connection, self._workspace, _MARK, *_MARKED, params=params)
            await recount(connection, (row.pattern_id for row in marked))
        return {EntryId(row.entry_id) for row in marked}

    async def pattern_of_key(self, match_key: str) -> PatternId | None:
        keys = match_keys.c
        query = sa.select(keys.pattern_id).where(keys.workspace == self._workspace, keys.match_key == match_key)
        found = await self._scalar(query)
        return None if found is None else PatternId(found)

    async def analyse(self) -> None:
        async with autocommit(self._store) as connection:
            for table in (knowledge_staging, patterns, points, records):
                # no plan depends on texts, and sorting texts is most of the work
                columns = [column.name for column in table.c if not isinstance(column.type, sa.Text)]
                await connection.execute(Analyze(table, columns))

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        params = {"workspace": self._workspace, "space": space.fingerprint, "points": list(point_ids)}
        return {
            PointId(point_id): _to_founder(pattern_id, vector, *words)
            for point_id, pattern_id, vector, *words in await self._all(_FOUNDERS, params)
        }

    async def evidence(
        self, point_ids: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> Mapping[PointId, Evidence]:
        params = {"workspace": self._workspace, "now": now, "points": list(point_ids), "project": project_id}
        rows, ledger = await self._fetch(_OF_POINTS, params), ledger_of(self._engine)
        read = {PointId(row[0]): read_evidence(ledger, self._workspace, row, project_id) for row in rows}
        return {point_id: evidence for point_id, evidence in read.items() if evidence is not None}

    async def evidence_with_records(
        self, point_ids: Sequence[PointId], further: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> tuple[Mapping[PointId, Evidence], list[TrialRecord]]:
        params = {
            "workspace": self._workspace,
            "now": now,
            "points": [*point_ids, *further],
            "read": list(point_ids),
            "project": project_id,
        }
        evidence: dict[PointId, Evidence] = {}
        near: dict[UUID, list[TrialRecord]] = {}
        ledger = ledger_of(self._engine)
        for row in await self._fetch(_WITH_RECORDS, params):
            point_id, pattern_id, told, found_id = row[:4]
            if pattern_id not in near:
                near[pattern_id] = [to_record(pattern_id, *each) for each in told]
            if found_id is None:
                continue
            read = read_evidence(ledger, self._workspace, row, project_id)
            if read is not None:
                evidence[PointId(point_id)] = read
        return evidence, list(itertools.chain.from_iterable(near.values()))

    async def without_profile(self, rules: int, limit: int) -> Mapping[EntryId, EntryTexts]:
        of = workspaces.c
        ours = (of.workspace == self._workspace, of.profile_rules == rules)
        of_entry = (entry_profiles.c.entry_id == _E.id, entry_profiles.c.rules == rules)
        current = sa.select(sa.true()).where(*of_entry).limit(1).scalar_subquery()  # looked up, where EXISTS reads all
        query = sa.select(_E.id, *(_E[name] for name in EntryTexts._fields))
        query = query.where(_E.workspace == self._workspace, EMBEDDED, current.is_(None)).limit(limit)
        async with autocommit(self._engine) as connection:
            until = await connection.scalar(sa.select(of.profiled_until).where(*ours))
            if until is not None:
                query = query.where(_E.expires_at >= until)
            rows = (await connection.execute(query)).all()
            if not rows:
                await self._note_profiled(connection, rules)
        return {EntryId(entry_id): EntryTexts(EntryType(entry_type), *texts) for entry_id, entry_type, *texts in rows}

    async def _note_profiled(self, connection: AsyncConnection, rules: int) -> None:
        """Note that all entries have a profile, but for those of a checkpoint that may be about to mark them."""
        latest = sa.select(sa.func.max(_E.expires_at)).where(_E.workspace == self._workspace, EMBEDDED)
        until = await connection.scalar(latest)
        if until is not None:
            new = insert(workspaces).values(
                workspace=self._workspace, profile_rules=rules, profiled_until=until - _MAX_CHECKPOINT
            )
            values = {name: new.excluded[name] for name in ("profile_rules", "profiled_until")}
            await connection.execute(new.on_conflict_do_update(index_elements=[workspaces.c.workspace], set_=values))

    async def store_profiles(self, profiles: Mapping[EntryId, EntryProfile]) -> None:
        ids = sorted(profiles)  # in one order, to avoid deadlocks
        columns = {name: [getattr(profiles[entry_id], name) for entry_id in ids] for name in _PROFILE_TYPES}
        if ids:
            await self._write(_STORE_PROFILES, {"entries": ids, "workspace": self._workspace, **columns})

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        params = {"workspace": self._workspace, "now": now, "pattern": pattern_id, "project": None}
        row = await self._first(ONE_PATTERN, params)
        if row is None:
            raise NotFound(f"there is no live pattern {pattern_id} in workspace {self._workspace}")
        evidence = read_evidence(ledger_of(self._engine), self._workspace, row, None)
        if evidence is None:
            raise altered(row.entry_id)
        return evidence

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            stale = sa.select(_T.id).where(self._is_stale(now)).order_by(_T.id).limit(limit).with_for_update()
            stale_ids = (await connection.execute(stale)).scalars().all()
            # before the points, all at once: a trigger does so for each point
            await connection.execute(sa.delete(vectors).where(is_any_of(vectors.c.point_id, stale_ids)))
            delete_stale = sa.delete(points).where(is_any_of(_T.id, stale_ids)).returning(_T.pattern_id)
            stale_points = (await connection.execute(delete_stale)).scalars().all()
            expired = await self._delete_entries(connection, self._is_expired(knowledge_staging, now), limit)
            unresolved = await self._delete_entries(
                connection, self._is_unresolved(knowledge_staging, open_before), limit
            )
            if len(unresolved) < limit:
                refused = self._is_dead(knowledge_staging, open_before)
                unresolved += await self._delete_entries(connection, refused, limit - len(unresolved))
            touched = {pattern_id for pattern_id in expired + unresolved if pattern_id is not None}
            supported = sa.exists().where(_E.pattern_id == _P.id)
            lonely = await connection.execute(sa.select(_P.id).where(is_any_of(_P.id, touched), ~supported))
            gone = list(lonely.scalars())
            bare = sa.and_(_T.expires_at > now, IS_CLEAN, ~sa.exists().where(supports_point()))
            left = await mark_dirty(connection, is_any_of(_T.pattern_id, touched), bare) if touched else 0
            await recount(connection, {*touched, *stale_points})  # a pattern goes with the last of its rows
        return PruneReport(
            entries=len(expired),
            points=len(stale_points) + left,
            patterns=len(gone),
            never_resolved=len(unresolved),
        )

    async def forget_projects(self, *, limit: int) -> int:
        def has_rows(table: sa.Table) -> sa.ColumnElement[bool]:
            return sa.exists().where(table.c.workspace == _J.workspace, table.c.project_id == _J.project_id)

        empty = [_J.workspace == self._workspace]
        empty += [~has_rows(table) for table in (knowledge_staging, contexts, outcomes, checkpoints)]
        # a capture locks the row: it is skipped; the second statement sees what was committed before our lock
        locked = sa.select(_J.project_id).where(*empty).limit(limit).with_for_update(skip_locked=True)
        async with transaction(self._engine) as connection:
            names = (await connection.execute(locked)).scalars().all()
            if not names:
                return 0
            gone = sa.delete(projects).where(*empty, _J.project_id.in_(names))
            return (await connection.execute(gone)).rowcount

    async def _delete_entries(
        self, connection: AsyncConnection, which: sa.ColumnElement[bool], limit: int
    ) -> list[UUID | None]:
        """Delete up to `limit` entries that nobody else has locked; return the pattern of each."""
        # a CTE that locks is evaluated once; a subquery may be evaluated for each row, and then ignores the limit
        chosen = sa.select(_E.id).where(which).limit(limit).with_for_update(skip_locked=True).cte("chosen")
        gone = sa.delete(knowledge_staging).where(_E.id.in_(sa.select(chosen.c.id))).returning(_E.pattern_id, _E.seal)
        rows = (await connection.execute(gone)).all()
        await forget_seals(connection, self._workspace, [row.seal for row in rows])
        return [row.pattern_id for row in rows]

    async def prunable(self, now: datetime, *, open_before: datetime) -> PruneReport:
        others = knowledge_staging.alias("others")

        def going(entries: sa.FromClause) -> sa.ColumnElement[bool]:
            unresolved, refused = self._is_unresolved(entries, open_before), self._is_dead(entries, open_before)
            return sa.or_(self._is_expired(entries, now), unresolved, refused)

        stays = sa.exists().where(others.c.pattern_id == _E.pattern_id, ~going(others))
        lonely = sa.select(_E.pattern_id).where(going(knowledge_staging), _E.pattern_id.is_not(None), ~stays).distinct()
        leaving = (self._is_stale(now), _T.pattern_id.in_(lonely))  # by an index each; with OR by none
        async with autocommit(self._engine) as connection:

            async def count(table: sa.FromClause, *which: sa.ColumnElement[bool]) -> int:
                return await connection.scalar(sa.select(sa.func.count()).select_from(table).where(*which)) or 0

            return PruneReport(
                entries=await count(knowledge_staging, self._is_expired(knowledge_staging, now)),
                points=await count(
                    sa.union(*(sa.select(_T.id).where(IS_CLEAN, which) for which in leaving)).subquery()
                ),
                patterns=await count(lonely.subquery()),
                never_resolved=await count(knowledge_staging, self._is_unresolved(knowledge_staging, open_before))
                + await count(knowledge_staging, self._is_dead(knowledge_staging, open_before)),
                dry_run=True,
            )

    def _is_stale(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(_T.workspace == self._workspace, _T.expires_at <= now)

    def _is_expired(self, entries: sa.FromClause, now: datetime) -> sa.ColumnElement[bool]:
        embedded = entries.c.status == sa.literal_column("'embedded'")  # a literal, for the partial index
        return sa.and_(entries.c.workspace == self._workspace, embedded, entries.c.expires_at <= now)

    def _is_unresolved(self, entries: sa.FromClause, before: datetime) -> sa.ColumnElement[bool]:
        ours = sa.and_(entries.c.workspace == self._workspace, entries.c.timestamp < before)
        never = entries.c.status.in_([sa.literal_column("'open'"), sa.literal_column("'abandoned'")])
        held_back = entries.c.status == sa.literal_column("'quarantined'")
        return sa.or_(sa.and_(ours, never), sa.and_(ours, held_back))  # a partial index for each

    def _is_dead(self, entries: sa.FromClause, before: datetime) -> sa.ColumnElement[bool]:
        ours = sa.and_(entries.c.workspace == self._workspace, entries.c.timestamp < before)
        return sa.and_(ours, entries.c.status == sa.literal_column("'dead'"))  # a literal, for the partial index


def _to_founder(pattern_id: UUID, vector: bytes, entry_type: str, *texts: str | None) -> Founder:
    situation = np.frombuffer(vector, dtype=np.float16).astype(np.float32)
    return Founder(
        pattern_id=PatternId(pattern_id), words=EntryTexts(EntryType(entry_type), *texts), situation=situation
    )
