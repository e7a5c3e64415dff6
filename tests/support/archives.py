"""Archives in tests: whole in memory, taken apart and put together again with other rows."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable

from knowledge.memory.maintenance.archive_format import ArchiveWriter, check, read_tables
from knowledge.wiring.open import Knowledge

Rows = list[list[bytes]]
"""The rows of a table as COPY has them: a value of each column, escaped."""


async def whole(knowledge: Knowledge) -> bytes:
    """Return an archive of a store."""
    return b"".join([piece async for piece in knowledge.archives.export_archive()])


async def as_stream(archive: bytes) -> AsyncIterator[bytes]:
    """Yield an archive in small pieces."""
    for at in range(0, len(archive), 1000):
        yield archive[at : at + 1000]


def rows_of(archive: bytes, table: str) -> list[dict[str, bytes]]:
    """Return the rows of a table, by their columns."""
    file = io.BytesIO(archive)
    columns = check(file).tables[table].columns
    content = next(b"".join(pieces) for name, pieces in read_tables(file) if name == table)
    return [dict(zip(columns, line.split(b"\t"), strict=True)) for line in content.splitlines()]


def edited(
    archive: bytes, table: str, values: dict[str, str], *, schema: str | None = None, without: str | None = None
) -> bytes:
    """Return an archive whose sums are right, and whose rows of a table say something else or lack a column."""

    def edit(columns: tuple[str, ...], content: bytes) -> tuple[tuple[str, ...], bytes]:
        lines = []
        for line in content.splitlines():
            row = dict(zip(columns, line.split(b"\t"), strict=True))
            row |= {name: value.encode("utf-8", "surrogatepass") for name, value in values.items()}
            row.pop(without or "", None)
            lines.append(b"\t".join(row.values()) + b"\n")
        named = dict.fromkeys([*columns, *values])
        named.pop(without or "", None)
        return tuple(named), b"".join(lines)

    return repacked(archive, table, edit, schema=schema)


def repacked(
    archive: bytes,
    table: str,
    edit: Callable[[tuple[str, ...], bytes], tuple[tuple[str, ...], bytes]],
    *,
    schema: str | None = None,
    name: str | None = None,
) -> bytes:
    """Return an archive with other columns and rows of a table, under another name where one is given."""
    file = io.BytesIO(archive)
    manifest = check(file)
    writer = ArchiveWriter()
    made = b""
    for each, pieces in read_tables(file):
        told, content = manifest.tables[each], b"".join(pieces)
        columns = told.columns
        if each == table:
            columns, content = edit(columns, content)
        member = io.BytesIO(content)
        member.seek(0, io.SEEK_END)
        made += b"".join(writer.add((name or each) if each == table else each, columns, member))
    origin = manifest.origin
    if schema is not None:
        origin = type(origin)(schema=schema, postgres=origin.postgres, workspaces=origin.workspaces)
    return made + writer.end(origin)
