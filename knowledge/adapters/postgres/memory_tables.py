"""Every table, as SQLAlchemy Core; the invariants live here, and the migrations create the same (a test compares them).

Texts written by agents or people are in `knowledge_staging`, those that corrections replaced in `entry_versions`, and
those a model made of them in `distillations`, which are deleted with them; every other row is ids, counts and times.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR, UUID

from knowledge.adapters.postgres.engine.counters import COUNTING
from knowledge.adapters.postgres.engine.row_security import policies
from knowledge.adapters.postgres.engine.search_words import WORDS
from knowledge.models import ERROR_CODE, ERROR_NAME

metadata = sa.MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

TIME = sa.DateTime(timezone=True)
NOW = sa.text("now()")


def _not_blank(column: str) -> str:
    return f"coalesce({column} ~ '[^[:space:]]', false)"


def or_empty(column: sa.Column[str]) -> sa.Case[str]:
    """Return a column with an empty text in place of NULL, so that rows without a value are equal.

    Not by `coalesce`, which Postgres does not consider leakproof: under row-level security it would not use an index on
    it, and would scan the whole table.
    """
    return sa.case((column.is_(None), sa.literal_column("''")), else_=column)


def _or_empty_as_printed(column: str) -> str:
    """Return the same expression as Postgres prints it, so that Alembic finds the index unchanged."""
    return f"(\nCASE\n    WHEN {column} IS NULL THEN ''\n    ELSE {column}\nEND)"


def _error_signature() -> str:
    """Return the SQL of an error's name, else its code: from the error message, else from the start of the failure."""
    found = (
        f"substring(left(error_message, 2000), '{ERROR_NAME}')",
        f"substring(right(error_message, 2000), '{ERROR_NAME}')",
        f"substring(left(error_message, 2000), '{ERROR_CODE}')",
        f"substring(left(failure_description, 200), '{ERROR_NAME}')",
    )
    return f"coalesce({', '.join(found)})"


projects = sa.Table(
    "projects",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("project_id", sa.String(200), primary_key=True),
    sa.Column("created_at", TIME, nullable=False, server_default=NOW),
)
"""A project is created with its first entry; deleting it deletes its entries."""

workspaces = sa.Table(
    "workspaces",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("local_only", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("hint_weights", sa.ARRAY(sa.Float)),
    sa.Column("profile_rules", sa.Integer),
    sa.Column("profiled_until", TIME),
    sa.Column("seal", sa.LargeBinary),
)
"""Settings of a workspace, and the weights fitted to its hints; one without a row has the defaults.

All embedded entries that expire before `profiled_until` have a profile by `profile_rules`.
"""

spending = sa.Table(
    "spending",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("day", TIME, primary_key=True),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.CheckConstraint("tokens >= 0", name="spending_tokens"),
)
"""The tokens that a workspace sent to endpoints, by the midnight (UTC) at which its day began; if it has a budget."""

knowledge_staging = sa.Table(
    "knowledge_staging",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("project_id", sa.String(200), nullable=False),
    sa.Column("entry_type", sa.String(50), nullable=False),
    sa.Column("agent_type", sa.String(100)),
    sa.Column("task_type", sa.String(100)),
    sa.Column("technology", sa.String(100)),
    sa.Column("task_description", sa.Text),
    # failure
    sa.Column("failure_description", sa.Text),
    sa.Column("error_message", sa.Text),
    sa.Column("solution_steps", sa.Text),
    # gate
    sa.Column("gate_type", sa.String(50)),
    sa.Column("proposal", sa.Text),
    sa.Column("human_feedback", sa.Text),
    sa.Column("revision_approach", sa.Text),
    sa.Column("approved_approach", sa.Text),
    # evidence
    sa.Column("when_to_try", sa.Text),
    sa.Column("applies_when", JSONB(none_as_null=True)),
    sa.Column("dead_ends", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]")),
    sa.Column("success_verified", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("verified_by", sa.String(500)),
    sa.Column("outside_text", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("task_id", sa.String(200)),
    sa.Column("run_id", sa.String(200)),
    sa.Column("idempotency_key", sa.String(200)),
    # provenance
    sa.Column("captured_by", sa.String(100)),
    sa.Column("resolved_by", sa.String(100)),
    sa.Column("agent_key", sa.String(100)),
    sa.Column("low_trust", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("suspicions", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]")),
    sa.Column("error_signature", sa.Text, sa.Computed(_error_signature(), persisted=True)),
    sa.Column("content_hash", sa.String(64), nullable=False),
    sa.Column("timestamp", TIME, nullable=False),
    # life
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("embedded", sa.Boolean, sa.Computed("status = 'embedded'", persisted=True), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("lease_token", UUID(as_uuid=True)),
    sa.Column("lease_until", TIME),
    sa.Column("dead_reason", sa.Text),
    sa.Column("pattern_id", UUID(as_uuid=True)),
    sa.Column("point_ids", sa.ARRAY(UUID(as_uuid=True)), nullable=False, server_default=sa.text("'{}'::uuid[]")),
    sa.Column("embedded_at", TIME),
    sa.Column("expires_at", TIME),
    sa.Column("seal", sa.LargeBinary),
    sa.ForeignKeyConstraint(
        ["workspace", "project_id"], ["projects.workspace", "projects.project_id"], ondelete="CASCADE"
    ),
    sa.ForeignKeyConstraint(["pattern_id"], ["patterns.id"]),
    sa.CheckConstraint("entry_type IN ('failure_solution', 'gate_rejection', 'gate_approval')", name="entry_type"),
    sa.CheckConstraint("status IN ('open', 'staged', 'embedded', 'dead', 'abandoned', 'quarantined')", name="status"),
    sa.CheckConstraint(
        "CASE entry_type"
        f" WHEN 'failure_solution' THEN {_not_blank('failure_description')} AND {_not_blank('agent_type')}"
        f" WHEN 'gate_rejection' THEN {_not_blank('gate_type')} AND {_not_blank('human_feedback')}"
        f" WHEN 'gate_approval' THEN {_not_blank('gate_type')} AND {_not_blank('approved_approach')}"
        " ELSE false END",
        name="situation",
    ),
    sa.CheckConstraint(
        "status IN ('open', 'abandoned', 'quarantined') OR CASE entry_type"
        f" WHEN 'failure_solution' THEN {_not_blank('solution_steps')} AND success_verified"
        f" WHEN 'gate_rejection' THEN {_not_blank('revision_approach')}"
        " ELSE true END",
        name="resolution",
    ),
    sa.CheckConstraint(
        "(status = 'embedded') = (embedded_at IS NOT NULL AND expires_at IS NOT NULL)"
        " AND (status <> 'embedded' OR pattern_id IS NOT NULL) AND expires_at > embedded_at",
        name="embedded",
    ),
    sa.CheckConstraint("(status = 'dead') = (dead_reason IS NOT NULL)", name="dead"),
    sa.CheckConstraint("(lease_token IS NULL) = (lease_until IS NULL)", name="lease"),
    sa.CheckConstraint("lease_token IS NULL OR status = 'staged'", name="leased"),
)
"""The entries: the design's staging table, in which they stay until they expire."""

_entries = knowledge_staging.c
event_task, event_run = or_empty(_entries.task_id), or_empty(_entries.run_id)
"""The task and the run of an entry, empty if it has none, as in the index of events."""

sa.Index(
    "ix_knowledge_staging_pending",
    _entries.workspace,
    _entries.timestamp,
    _entries.id,
    postgresql_where=sa.text("status = 'staged'"),
)
sa.Index(
    "ix_knowledge_staging_latest",
    _entries.workspace,
    _entries.timestamp.desc(),
    _entries.id,
    postgresql_include=["project_id"],
)
sa.Index(
    "ix_knowledge_staging_out_of_reach",
    _entries.workspace,
    _entries.pattern_id,
    postgresql_where=sa.text("status = 'embedded' AND point_ids = '{}'::uuid[]"),
)
sa.Index(
    "ix_knowledge_staging_decided",
    _entries.workspace,
    _entries.pattern_id,
    postgresql_where=sa.text("status = 'staged' AND pattern_id IS NOT NULL"),
)
sa.Index(
    "ix_knowledge_staging_pending_project",
    _entries.workspace,
    _entries.project_id,
    _entries.timestamp,
    _entries.id,
    postgresql_where=sa.text("status = 'staged'"),
)
sa.Index(
    "ix_knowledge_staging_expiry",
    _entries.workspace,
    _entries.expires_at,
    postgresql_where=sa.text("status = 'embedded'"),
)
sa.Index(
    "ix_knowledge_staging_unresolved",
    _entries.workspace,
    _entries.timestamp,
    postgresql_where=sa.text("status IN ('open', 'abandoned')"),
)
sa.Index(
    "ix_knowledge_staging_dead",
    _entries.workspace,
    _entries.timestamp,
    postgresql_where=sa.text("status = 'dead'"),
)
sa.Index(
    "ix_knowledge_staging_quarantined",
    _entries.workspace,
    _entries.timestamp,
    _entries.id,
    postgresql_where=sa.text("status = 'quarantined'"),
)
sa.Index(
    "ix_knowledge_staging_dead_ends",
    _entries.pattern_id,
    postgresql_where=sa.text("dead_ends <> '{}'::text[]"),
)
vouched: sa.ColumnElement[int] = sa.literal_column(
    "(\nCASE\n    WHEN knowledge_staging.entry_type::text <> 'failure_solution'::text THEN 0\n"
    "    WHEN knowledge_staging.verified_by IS NOT NULL THEN 1\n    ELSE 2\nEND)"
)
"""The rank of an entry's voucher: 0 a human who decided, 1 a named verifier, 2 nobody.

As Postgres prints it, so that Alembic finds the index unchanged.
"""
sa.Index(
    "ix_knowledge_staging_trust",
    _entries.pattern_id,
    _entries.low_trust,
    vouched,
    _entries.embedded_at.desc(),
    _entries.id,
    postgresql_where=sa.text("pattern_id IS NOT NULL"),
)
sa.Index(
    "knowledge_staging_idempotency_key",
    _entries.workspace,
    _entries.idempotency_key,
    unique=True,
    postgresql_where=sa.text("idempotency_key IS NOT NULL"),
)
sa.Index(
    "knowledge_staging_event",
    _entries.workspace,
    _entries.project_id,
    sa.text(_or_empty_as_printed("task_id")),
    sa.text(_or_empty_as_printed("run_id")),
    _entries.content_hash,
    unique=True,
)
sa.Index(
    "ix_knowledge_staging_rejection",
    _entries.workspace,
    _entries.project_id,
    _entries.gate_type,
    postgresql_where=sa.text("entry_type = 'gate_rejection'"),
)

entry_profiles = sa.Table(
    "entry_profiles",
    metadata,
    sa.Column("entry_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("rules", sa.Integer, nullable=False),
    sa.Column("arm_key", sa.String(64), nullable=False),
    sa.Column("situation", sa.LargeBinary, nullable=False),
    sa.Column("task", sa.LargeBinary),
    sa.Column("resolution", sa.LargeBinary, nullable=False),
    sa.ForeignKeyConstraint(["entry_id"], ["knowledge_staging.id"], ondelete="CASCADE"),
)
"""The terms of an entry's texts as ranking reads them, packed (`memory.rules.entry_profile`): derived, and
computed again by a query where it is missing or of older `rules`."""

entry_words = sa.Table(
    "entry_words",
    metadata,
    sa.Column("entry_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("pattern_id", UUID(as_uuid=True), nullable=False),
    sa.Column("words", TSVECTOR, nullable=False),
    sa.ForeignKeyConstraint(["entry_id"], ["knowledge_staging.id"], ondelete="CASCADE"),
)
"""The words of an embedded entry's texts: written by triggers, read through `entry_search` (`engine.search_words`)."""
sa.Index("ix_entry_words", entry_words.c.words, postgresql_using="gin")

entry_versions = sa.Table(
    "entry_versions",
    metadata,
    sa.Column("entry_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("replaced_at", TIME, nullable=False),
    sa.Column("replaced_by", sa.String(200), nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("texts", JSONB, nullable=False),
    sa.ForeignKeyConstraint(["entry_id"], ["knowledge_staging.id"], ondelete="CASCADE"),
)
"""The texts of an entry that a person's correction replaced, by field; they go with the entry."""

patterns = sa.Table(
    "patterns",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("entry_type", sa.String(50), nullable=False),
    sa.Column("match_key", sa.String(64), nullable=False),
    sa.Column("founding_entry_id", UUID(as_uuid=True), nullable=False),
    sa.Column("success_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("attempt_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("project_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("founded_at", TIME, nullable=False),
    # what lists are sorted and filtered by
    sa.Column("last_seen_at", TIME, nullable=False, server_default=NOW),
    sa.Column("technologies", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]")),
    sa.Column("agents", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]")),
    sa.Column("projects", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]")),
    sa.Column("trusted", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("problem_start", sa.Text, nullable=False, server_default=""),
    sa.Column("seal", sa.LargeBinary),
    # a person's own words
    sa.Column("tags", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]")),
    sa.UniqueConstraint("workspace", "match_key", name="patterns_match_key"),
    sa.CheckConstraint("success_count >= 0 AND attempt_count >= success_count AND project_count >= 0", name="counts"),
)
"""Ways of resolving a situation, with the tags that people gave them. Counts are derived from entries and outcomes, in
the same transaction.

So are `last_seen_at`, the time of the last entry or outcome, `trusted`, and the names that up to 50 of its entries'
technologies, types of agents and projects have, and `problem_start`, the beginning of the problem that is shown of it.
"""
_seen = patterns.c.last_seen_at
sa.Index(
    "ix_patterns_seen",
    patterns.c.workspace,
    _seen.desc(),
    patterns.c.id,
    postgresql_where=sa.text("success_count > 0"),
)
sa.Index(
    "ix_patterns_problem",
    patterns.c.workspace,
    patterns.c.problem_start,
    patterns.c.id,
    postgresql_where=sa.text("success_count > 0"),
)

pattern_maps = sa.Table(
    "pattern_maps",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("space", sa.String(64), nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("made_at", TIME, nullable=False),
    sa.Column("group_terms", JSONB, nullable=False),
)
"""The map of a workspace: the words that its groups are named by, and the state of the points that it was made from."""

pattern_places = sa.Table(
    "pattern_places",
    metadata,
    sa.Column("pattern_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("x", sa.REAL, nullable=False),
    sa.Column("y", sa.REAL, nullable=False),
    sa.Column("group_number", sa.SmallInteger, nullable=False),
    sa.ForeignKeyConstraint(["pattern_id"], ["patterns.id"], ondelete="CASCADE"),
)
"""The place of a pattern on the map, from 0 to 1 each way, and its group; it goes with the pattern."""
sa.Index("ix_pattern_places_group", pattern_places.c.workspace, pattern_places.c.group_number)

points = sa.Table(
    "points",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("pattern_id", UUID(as_uuid=True), nullable=False),
    sa.Column("view", sa.String(20), nullable=False),
    sa.Column("embedded_at", TIME, nullable=False),
    sa.Column("expires_at", TIME, nullable=False),
    sa.Column("counted", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("look_at", TIME),
    sa.ForeignKeyConstraint(["pattern_id"], ["patterns.id"], ondelete="CASCADE"),
)
"""The points that the index must hold, one row each. The text is that of the entries that name it in `point_ids`.

A row is deleted only after its point is gone from the index. `look_at`: set if the point is dirty: when it is due to be
reconciled with the index; `counted`: the words of the text are in the lexicon.
"""

sa.Index("ix_points_pattern", points.c.pattern_id)
sa.Index("ix_points_look_at", points.c.workspace, points.c.look_at, postgresql_where=sa.text("look_at IS NOT NULL"))
sa.Index("ix_points_uncounted", points.c.workspace, postgresql_where=sa.text("NOT counted"))
sa.Index("ix_points_page", points.c.workspace, points.c.id)
sa.Index("ix_points_expiry", points.c.workspace, points.c.expires_at)

vectors = sa.Table(
    "vectors",
    metadata,
    sa.Column("point_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("space", sa.String(64), primary_key=True),
    sa.Column("vector", sa.LargeBinary, nullable=False),
    sa.ForeignKeyConstraint(["point_id"], ["points.id"], ondelete="CASCADE"),
)
"""The embedding of a point's text in a space, as float16: a rebuild needs no embedding call."""

match_keys = sa.Table(
    "match_keys",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("match_key", sa.String(64), primary_key=True),
    sa.Column("pattern_id", UUID(as_uuid=True), nullable=False),
    sa.Column("why", sa.ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]")),
    sa.Column("ruled", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("decided_at", TIME, nullable=False),
    sa.Column("seal", sa.LargeBinary),
    sa.ForeignKeyConstraint(["pattern_id"], ["patterns.id"], ondelete="CASCADE"),
)
"""Keys of entries that belong to a pattern founded with other texts: by a decision, or ruled by a person.

They take precedence over `patterns.match_key`.
"""

sa.Index("ix_match_keys_pattern", match_keys.c.pattern_id)

links = sa.Table(
    "links",
    metadata,
    sa.Column("lower_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("upper_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("probability", sa.Float, nullable=False),
    sa.Column("why", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("found_at", TIME, nullable=False),
    sa.Column("seal", sa.LargeBinary),
    sa.ForeignKeyConstraint(["lower_id"], ["patterns.id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["upper_id"], ["patterns.id"], ondelete="CASCADE"),
    sa.CheckConstraint("kind IN ('rival', 'twin', 'apart')", name="kind"),
    sa.CheckConstraint("lower_id < upper_id", name="order"),
)
"""Pairs of related patterns: rivals, likely twins, and those a person keeps apart."""

sa.Index("ix_links_upper", links.c.upper_id)
sa.Index("ix_links_kind", links.c.workspace, links.c.kind, links.c.probability)

distillations = sa.Table(
    "distillations",
    metadata,
    sa.Column("pattern_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("title", sa.Text),
    sa.Column("problem", sa.Text),
    sa.Column("when_to_try", sa.Text),
    sa.Column("when_not_to_try", sa.Text),
    sa.Column("refused", sa.Text),
    sa.Column("evidence", sa.Integer, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("answered_at", TIME, nullable=False),
    sa.Column("expires_at", TIME, nullable=False),
    sa.Column("seal", sa.LargeBinary),
    sa.ForeignKeyConstraint(["pattern_id"], ["patterns.id"], ondelete="CASCADE"),
    sa.CheckConstraint(
        "num_nonnulls(title, problem, when_to_try, when_not_to_try) = CASE WHEN refused IS NULL THEN 4 ELSE 0 END",
        name="written",
    ),
)
"""A model's text on a pattern, or the reason it was refused: derived, and made again on request."""

distilled_from = sa.Table(
    "distilled_from",
    metadata,
    sa.Column("pattern_id", UUID(as_uuid=True), primary_key=True),
    sa.Column("entry_id", UUID(as_uuid=True), primary_key=True),
    sa.ForeignKeyConstraint(["pattern_id"], ["distillations.pattern_id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["entry_id"], ["knowledge_staging.id"], ondelete="CASCADE"),
)
"""The entries that a distillation was made of."""

sa.Index("ix_distilled_from_entry", distilled_from.c.entry_id)

FORGETTING = (
    """CREATE FUNCTION forget_distillation() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM distillations WHERE pattern_id = OLD.pattern_id;
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER forget_with_entry AFTER DELETE ON distilled_from
    FOR EACH ROW EXECUTE FUNCTION forget_distillation()""",
    """CREATE TRIGGER forget_when_moved AFTER UPDATE OF pattern_id ON knowledge_staging FOR EACH ROW
    WHEN (OLD.pattern_id IS NOT NULL AND OLD.pattern_id IS DISTINCT FROM NEW.pattern_id)
    EXECUTE FUNCTION forget_distillation()""",
)
"""A distillation is deleted when an entry it was made of is deleted or leaves the pattern, by triggers: the release
before deletes and moves entries too, and knows nothing of distillations."""


@sa.event.listens_for(metadata, "after_create")
def _create_triggers_and_policies(_: sa.MetaData, connection: sa.Connection, **__: object) -> None:
    for statement in (*FORGETTING, *COUNTING, *policies(), *WORDS):
        connection.execute(sa.text(statement))


checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("project_id", sa.String(200)),
    sa.Column("checkpoint_type", sa.String(50), nullable=False),
    sa.Column("started_at", TIME, nullable=False),
    sa.Column("finished_at", TIME),
    sa.Column("report", JSONB, nullable=False, server_default=sa.text("'{}'::jsonb")),
    sa.CheckConstraint(
        "checkpoint_type IN ('phase_completion', 'project_completion', 'cancellation', 'manual')",
        name="checkpoint_type",
    ),
)
sa.Index("ix_checkpoints_started", checkpoints.c.workspace, checkpoints.c.started_at)
sa.Index("ix_checkpoints_finished", checkpoints.c.workspace, checkpoints.c.finished_at)

contexts = sa.Table(
    "contexts",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("project_id", sa.String(200)),
    sa.Column("task_id", sa.String(200)),
    sa.Column("run_id", sa.String(200)),
    sa.Column("agent_type", sa.String(100)),
    sa.Column("pattern_ids", sa.ARRAY(UUID(as_uuid=True)), nullable=False),
    sa.Column("entry_ids", sa.ARRAY(UUID(as_uuid=True)), nullable=False, server_default=sa.text("'{}'::uuid[]")),
    sa.Column("created_at", TIME, nullable=False),
    # the choice
    sa.Column("reason", sa.String(20)),
    sa.Column("situation_key", sa.String(64)),
    sa.Column("point_id", UUID(as_uuid=True)),
    sa.Column("choice", JSONB(none_as_null=True)),
    sa.Column("near", JSONB(none_as_null=True)),
)
"""The patterns handed out for a task, and the entries that supported them then; none where the task got no hint.

`reason`: the rule that decided; `point_id`: the situation nearest to the task's; `choice`: the numbers of the choice.
All three are NULL in contexts of before revision 0027. `near`: the candidates where none was near enough for a choice.
"""

sa.Index("ix_contexts_task", contexts.c.workspace, contexts.c.project_id, contexts.c.task_id)
sa.Index("ix_contexts_created", contexts.c.workspace, contexts.c.created_at)
sa.Index(
    "ix_contexts_project", contexts.c.workspace, contexts.c.project_id, contexts.c.created_at.desc(), contexts.c.id
)
sa.Index("ix_contexts_reason", contexts.c.workspace, contexts.c.reason, contexts.c.created_at.desc(), contexts.c.id)

outcomes = sa.Table(
    "outcomes",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("context_id", UUID(as_uuid=True), nullable=False),
    sa.Column("pattern_id", UUID(as_uuid=True), nullable=False),
    sa.Column("project_id", sa.String(200), nullable=False),
    sa.Column("task_id", sa.String(200), nullable=False),
    sa.Column("run_id", sa.String(200), nullable=False),
    sa.Column("worked", sa.Boolean, nullable=False),
    sa.Column("recorded_at", TIME, nullable=False),
    sa.Column("recorded_by", sa.String(100)),
    sa.Column("low_trust", sa.Boolean, nullable=False, server_default=sa.text("false")),
    sa.Column("seal", sa.LargeBinary),
    sa.ForeignKeyConstraint(["context_id"], ["contexts.id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["pattern_id"], ["patterns.id"], ondelete="CASCADE"),
    sa.UniqueConstraint("workspace", "pattern_id", "project_id", "task_id", "run_id", name="outcomes_event_key"),
)
"""Outcomes of injected patterns; written by `record_outcome`."""

sa.Index("ix_outcomes_pattern", outcomes.c.pattern_id)
sa.Index("ix_outcomes_context", outcomes.c.context_id)
sa.Index(
    "ix_outcomes_recorded",
    outcomes.c.workspace,
    outcomes.c.recorded_at.desc(),
    outcomes.c.id,
    postgresql_where=sa.text("NOT low_trust"),
)
sa.Index("ix_outcomes_project", outcomes.c.workspace, outcomes.c.project_id)

records = sa.Table(
    "records",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("arm_key", sa.String(64)),
    sa.Column("point_id", UUID(as_uuid=True)),
    sa.Column("situation_key", sa.String(64)),
    sa.Column("is_exact", sa.Boolean, nullable=False),
    sa.Column("entry_id", UUID(as_uuid=True)),
    sa.Column("outcome_id", UUID(as_uuid=True)),
    sa.Column("context_id", UUID(as_uuid=True)),
    sa.Column("agent_type", sa.String(100)),
    sa.Column("project_id", sa.String(200), nullable=False),
    sa.Column("task_id", sa.String(200)),
    sa.Column("run_id", sa.String(200)),
    sa.Column("worked", sa.Boolean, nullable=False),
    sa.Column("recorded_at", TIME, nullable=False),
    sa.Column("recorded_by", sa.String(100)),
    sa.Column("low_trust", sa.Boolean, nullable=False),
    sa.Column("task_key", sa.String(64)),
    sa.Column("error_key", sa.String(64)),
    sa.Column("seal", sa.LargeBinary),
    sa.ForeignKeyConstraint(["entry_id"], ["knowledge_staging.id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["outcome_id"], ["outcomes.id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["context_id"], ["contexts.id"], ondelete="CASCADE"),
    sa.CheckConstraint("num_nonnulls(entry_id, outcome_id, context_id) = 1", name="source"),
    sa.CheckConstraint("id = coalesce(entry_id, outcome_id, context_id)", name="id"),
)
"""Trials of an arm in a situation, each with what it came from: an entry, an outcome, or a context without a hint.

`arm_key`: of a resolution, empty for silence, NULL until the next checkpoint computes it. `point_id` is no foreign key:
a point may be gone from the index while its record stays. `task_key`, `error_key`: of an entry's task description and
of its error (`rules.arms`), by which it is found while the index is down; empty where it has none, NULL until the
next checkpoint computes them.
"""

sa.Index("ix_records_point", records.c.point_id, records.c.low_trust, records.c.recorded_at.desc())
sa.Index("ix_records_situation", records.c.workspace, records.c.situation_key)
sa.Index(
    "ix_records_unaided",
    records.c.workspace,
    records.c.agent_type,
    records.c.recorded_at.desc(),
    postgresql_where=sa.text("entry_id IS NULL"),
)
sa.Index(
    "ix_records_silent",
    records.c.workspace,
    records.c.recorded_at.desc(),
    postgresql_where=sa.text("entry_id IS NULL AND arm_key = ''"),
)
sa.Index("ix_records_entry", records.c.entry_id, postgresql_where=sa.text("entry_id IS NOT NULL"))
sa.Index("ix_records_outcome", records.c.outcome_id, postgresql_where=sa.text("outcome_id IS NOT NULL"))
sa.Index("ix_records_context", records.c.context_id, postgresql_where=sa.text("context_id IS NOT NULL"))
sa.Index(
    "ix_records_task",
    records.c.workspace,
    records.c.task_key,
    records.c.low_trust,
    records.c.recorded_at.desc(),
    postgresql_where=sa.text("task_key IS NOT NULL AND task_key <> ''"),
)
sa.Index(
    "ix_records_error",
    records.c.workspace,
    records.c.error_key,
    records.c.low_trust,
    records.c.recorded_at.desc(),
    postgresql_where=sa.text("error_key IS NOT NULL AND error_key <> ''"),
)
sa.Index(
    "ix_records_without_keys",
    records.c.workspace,
    records.c.id,
    postgresql_where=sa.text("entry_id IS NOT NULL AND error_key IS NULL"),
)
sa.Index("ix_records_without_arm", records.c.workspace, records.c.id, postgresql_where=sa.text("arm_key IS NULL"))

job_run = sa.Table(
    "job_run",
    metadata,
    sa.Column("job", sa.String(100), primary_key=True),
    sa.Column("slot", TIME, primary_key=True),
    sa.Column("started_at", TIME, nullable=False, server_default=NOW),
    sa.Column("finished_at", TIME),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="1"),
    sa.Column("error", sa.Text),
    sa.Column("began_at", TIME),
    sa.Column("dealt_with", sa.BigInteger),
)
"""One row a job and slot: lets one of many replicas run it. `started_at` is updated while it runs.

A run out of turn has the time it began as its slot.
"""

deeds = sa.Table(
    "deeds",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("subject", UUID(as_uuid=True), nullable=False),
    sa.Column("others", sa.ARRAY(UUID(as_uuid=True)), nullable=False, server_default=sa.text("'{}'::uuid[]")),
    sa.Column("who", sa.String(200), nullable=False),
    sa.Column("decided_at", TIME, nullable=False),
    sa.Column("due_at", TIME, nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("claimed_at", TIME),
    sa.Column("ended_at", TIME),
    sa.Column("ended_by", sa.String(200)),
    sa.Column("error", sa.Text),
    sa.Column("seal", sa.LargeBinary),
    sa.Column("key_id", sa.String(100)),
    sa.CheckConstraint("state IN ('waiting', 'running', 'done', 'undone', 'failed')", name="state"),
    sa.CheckConstraint("kind IN ('approve', 'reject', 'join', 'split', 'delete_entry', 'delete_pattern')", name="kind"),
)
"""Decisions of people that are done after a grace period, in which they can be undone; gone a month after their end."""

_UNENDED = sa.text("state IN ('waiting', 'running')")
sa.Index("deeds_subject", deeds.c.workspace, deeds.c.subject, unique=True, postgresql_where=_UNENDED)
sa.Index("ix_deeds_due", deeds.c.due_at, postgresql_where=_UNENDED)
sa.Index("ix_deeds_decided", deeds.c.workspace, deeds.c.decided_at.desc(), deeds.c.id)

webhook_events = sa.Table(
    "webhook_events",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("kind", sa.String(20), primary_key=True),
    sa.Column("subject", UUID(as_uuid=True), primary_key=True),
    sa.Column("message_id", UUID(as_uuid=True), nullable=False),
    sa.Column("noticed_at", TIME, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("next_at", TIME, nullable=False),
    sa.Column("ended_at", TIME),
    sa.Column("error", sa.Text),
    sa.CheckConstraint("kind IN ('waiting', 'sinking', 'dead')", name="kind"),
)
"""Things noticed to be told by webhook: entries, or patterns that sink. A row goes when it is so no longer."""
sa.Index("ix_webhook_events_due", webhook_events.c.next_at, postgresql_where=sa.text("ended_at IS NULL"))
sa.Index("ix_webhook_events_message", webhook_events.c.message_id)

embedding_spaces = sa.Table(
    "embedding_spaces",
    metadata,
    sa.Column("fingerprint", sa.String(64), primary_key=True),
    sa.Column("space", JSONB, nullable=False),
    sa.Column("mean_terms", sa.Float, nullable=False),
    sa.Column("calibration", JSONB, nullable=False),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("bound_at", TIME, nullable=False, server_default=NOW),
    sa.Column("probes", sa.LargeBinary),
    sa.Column("seal", sa.LargeBinary),
)
"""The embedding models of the store; the index holds the active one."""

sa.Index(
    "embedding_spaces_one_active",
    embedding_spaces.c.active,
    unique=True,
    postgresql_where=sa.text("active"),
)

lexicon = sa.Table(
    "lexicon",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("term", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("documents", sa.BigInteger, nullable=False),
)
"""The number of a workspace's situations that contain a term, since the last rebuild; row -1 counts the situations."""

counters = sa.Table(
    "counters",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("change", sa.BigInteger, nullable=False),
)
"""Changes of counters, which triggers write (`engine.counters`): a counter is the sum of its rows."""

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.String(12), primary_key=True),
    sa.Column("name", sa.String(100)),
    sa.Column("scopes", sa.ARRAY(sa.String(20)), nullable=False),
    sa.Column("workspace", sa.String(200)),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False),
    sa.Column("pepper", sa.String(12), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("expires_at", TIME),
    sa.Column("revoked_at", TIME),
    sa.Column("replaced_by", sa.String(12)),
    sa.Column("first_key", sa.String(12)),
    sa.Column("last_used_at", TIME),
    sa.CheckConstraint("octet_length(secret_hash) = 32", name="secret_hash"),
    sa.CheckConstraint(
        "cardinality(scopes) > 0 AND scopes <@ ARRAY['capture', 'query', 'documents', 'review', 'admin']::varchar[]",
        name="scopes",
    ),
)
"""Keys of the API, ended ones included; a secret is stored only as its keyed hash. Without a workspace: of all.

`first_key`: for a key made by a rotation, the first key of the chain of rotations; it may be gone.
"""

ended_sessions = sa.Table(
    "ended_sessions",
    metadata,
    sa.Column("session_id", sa.String(100), primary_key=True),
    sa.Column("ends_at", TIME, nullable=False),
)
"""Sessions of the pages that somebody ended before their time; a row is deleted when its session would be over."""

audit_log = sa.Table(
    "audit_log",
    metadata,
    sa.Column("workspace", sa.String(200), primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", TIME, nullable=False),
    sa.Column("who", sa.String(200), nullable=False),
    sa.Column("what", sa.String(100), nullable=False),
    sa.Column("details", sa.Text, nullable=False),
    sa.Column("before", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.CheckConstraint("number > 0 AND octet_length(before) = 32 AND octet_length(hash) = 32", name="chain"),
)
"""Decisions of people and keys: a hash chain for each workspace; "" for the whole store."""

seal_chains = sa.Table(
    "seal_chains",
    metadata,
    sa.Column("id", UUID(as_uuid=True), primary_key=True),
    sa.Column("workspace", sa.String(200), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("masked", sa.LargeBinary, nullable=False),
    sa.Column("seal", sa.LargeBinary, nullable=False),
)
"""The last link of each writer's chain: the total of the seals it added, less those it removed (`access.seals`)."""
sa.Index("ix_seal_chains_workspace", seal_chains.c.workspace)

seal_heads = sa.Table(
    "seal_heads",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", TIME, nullable=False),
    sa.Column("details", sa.Text, nullable=False),
    sa.Column("before", sa.LargeBinary, nullable=False),
    sa.Column("seal", sa.LargeBinary, nullable=False),
)
"""Heads over all chains of the store, each sealed with the one before. The first says from when on seals vouch."""
