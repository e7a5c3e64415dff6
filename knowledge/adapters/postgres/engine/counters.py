"""Counters that triggers keep, in the transaction that changes what is counted: no count reads a table.

A change adds a row to `counters` and the sum of the rows is the count, so that writers never wait for one another. A
checkpoint and a prune replace a workspace's rows by their sums.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_CHANGES: Final = {
    "INSERT": "SELECT {columns}, 1 AS change FROM added",
    "DELETE": "SELECT {columns}, -1 AS change FROM removed",
    "UPDATE": "SELECT {columns}, 1 AS change FROM added UNION ALL SELECT {columns}, -1 FROM removed",
}
_TRANSITION: Final = {
    "INSERT": "NEW TABLE AS added",
    "DELETE": "OLD TABLE AS removed",
    "UPDATE": "OLD TABLE AS removed NEW TABLE AS added",
}


class _Counted(NamedTuple):
    """Rows of a table that a counter counts: the columns that are read, its workspace and name, what each adds."""

    columns: str
    names: str
    total: str = "sum(change)"
    condition: str = "true"
    join: str = ""


_COUNTED: Final = {
    "knowledge_staging": _Counted("workspace, status", "workspace, 'entries.' || status"),
    "patterns": _Counted("workspace, success_count", "workspace, 'patterns'", condition="success_count > 0"),
    "points": _Counted("workspace, look_at", "workspace, 'points'", condition="look_at IS NULL"),
    "checkpoints": _Counted("workspace", "workspace, 'checkpoints'"),
    "vectors": _Counted(
        "point_id, space, length(vector) AS bytes",
        "points.workspace, 'vectors.' || space",
        "sum(change * bytes)",
        join=" JOIN points ON points.id = changed.point_id",
    ),
}

_INSERT: Final = """
            INSERT INTO counters (workspace, name, change)
            SELECT {names}, {sum}
            FROM ({changes}) AS changed{join}
            WHERE {condition}
            GROUP BY 1, 2 HAVING {sum} <> 0;"""
_FUNCTION: Final = """CREATE FUNCTION count_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'INSERT' THEN{INSERT}
        ELSIF TG_OP = 'DELETE' THEN{DELETE}
        ELSE{UPDATE}
        END IF;
        RETURN NULL;
    END $$"""
_TRIGGER: Final = """CREATE TRIGGER count_{table}_{name} AFTER {event} ON {table}
    REFERENCING {transition} FOR EACH STATEMENT EXECUTE FUNCTION count_{table}()"""


def _count(table: str, counted: _Counted) -> list[str]:
    inserts = {
        event: _INSERT.format(
            names=counted.names,
            sum=counted.total,
            changes=changes.format(columns=counted.columns),
            condition=counted.condition,
            join=counted.join,
        )
        for event, changes in _CHANGES.items()
    }
    return [
        _FUNCTION.format(table=table, **inserts),
        *(
            _TRIGGER.format(table=table, name=event.lower(), event=event, transition=transition)
            for event, transition in _TRANSITION.items()
        ),
    ]


COUNTING: Final = (
    *(statement for table, counted in _COUNTED.items() for statement in _count(table, counted)),
    """CREATE FUNCTION delete_vectors_first() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM vectors WHERE point_id = OLD.id;
        RETURN OLD;
    END $$""",
    """CREATE TRIGGER delete_vectors_first BEFORE DELETE ON points
    FOR EACH ROW EXECUTE FUNCTION delete_vectors_first()""",
)
"""The triggers. Vectors are deleted before their point, not by the foreign key after it: it has the workspace."""
