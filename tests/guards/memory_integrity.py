"""Adapters for agent-memory-integrity (`agmi`): entries edited behind the store's back, and attacks by its API."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from hardwon.errors import Conflict, InvalidInput
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.adapters.postgres.memory_tables import knowledge_staging as _entries
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from tests.guards.sync_store import SyncStore, agent_of
from tests.support.entries import failure

_COLUMNS = [column for column in _entries.c if column.computed is None]
_CONTENT = ("solution_steps", "failure_description", "seal")
"""What a replay copies from one entry over another: its texts, and what vouches for them."""
_NEVER_EMBEDDED: dict[str, Any] = {
    "status": "staged",
    "embedded_at": None,
    "expires_at": None,
    "pattern_id": None,
    "point_ids": [],
}


@dataclass
class Record:
    """A row of entries, in the form of the suite."""

    seq: int
    fields: dict[str, Any]


@dataclass
class Retrieved:
    """An answer to a question, in the form of the suite."""

    text: str
    user_id: str
    score: float = 0.0


def _problem(workspace: str, number: int) -> str:
    return f"the {workspace} cart number {number} loses items"


class Rows:
    """Entries as the owner of the tables edits them. Heads are kept where the attacker does not reach."""

    name = "hardwon"
    supports_replay = supports_metadata = supports_snapshot = True
    noticed_by: tuple[str, ...] = ()
    verify_detail: str | None = None

    def __init__(self, home: Path) -> None:
        self._home = home

    def setup(self) -> None:
        """Open a new store."""
        self._folder = Path(tempfile.mkdtemp(prefix="rest-", dir=self._home))
        self._folder.chmod(0o755)
        self._data, self._heads = self._folder / "data", self._folder / "heads"
        self._store = SyncStore(KnowledgeSettings(home=self._data, holdout=0, keep_heads=str(self._heads)))
        self._seeded = 0
        self._places: dict[int, Any] = {}

    def teardown(self) -> None:
        """Close the store and delete it."""
        self._store.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def seed(self, n: int) -> None:
        """Learn lessons by the API."""
        self._seeded = n
        self._store.run(self._learn("default", range(n)))

    def seed_other(self, n: int) -> None:
        """Learn lessons in another workspace."""
        self._store.run(self._learn("other", range(n)))

    def append_genuine(self) -> None:
        """Learn one lesson more."""
        self._store.run(self._learn("default", [self._seeded]))

    async def _learn(self, workspace: str, numbers: Iterable[int]) -> None:
        knowledge = self._store.knowledge.in_workspace(workspace)
        for number in numbers:
            marker = f"marker {workspace} {number}"
            lesson = failure(failure_description=_problem(workspace, number), solution_steps=marker, run_id=str(number))
            await knowledge.capture.capture(lesson)
        await knowledge.checkpoints.process_all()

    def read_all_raw(self) -> list[Record]:
        """Return the rows of the workspace, the oldest first."""
        return self._store.run(self._read("default"))

    def read_other_raw(self) -> list[Record]:
        """Return the rows of the other workspace."""
        return self._store.run(self._read("other"))

    async def _read(self, workspace: str) -> list[Record]:
        rows = sa.select(*_COLUMNS).where(_entries.c.workspace == workspace)
        async with transaction(self._store.knowledge.engine) as connection:
            found = await connection.execute(rows.order_by(_entries.c.timestamp, _entries.c.id))
            return [Record(place, dict(row)) for place, row in enumerate(found.mappings())]

    def write_raw(self, record: Record) -> None:
        """Write a row; one that moves to another's place takes its time, which is what orders rows."""
        if not self._places:
            self._places = {row.seq: row.fields["timestamp"] for row in self.read_all_raw()}
        if record.seq in self._places:
            record.fields["timestamp"] = self._places[record.seq]
        self._store.run(self._write(record.fields))

    async def _write(self, fields: Mapping[str, Any]) -> None:
        values = {name: value for name, value in fields.items() if name != "id"}
        async with transaction(self._store.knowledge.engine) as connection:
            done = await connection.execute(sa.update(_entries).where(_entries.c.id == fields["id"]).values(**values))
            if not done.rowcount:
                await connection.execute(sa.insert(_entries).values(**fields))

    def delete_raw(self, seq: int) -> None:
        """Delete the row at a place."""
        self._store.run(self._delete(self.read_all_raw()[seq].fields["id"]))

    async def _delete(self, entry_id: Any) -> None:
        async with transaction(self._store.knowledge.engine) as connection:
            await connection.execute(sa.delete(_entries).where(_entries.c.id == entry_id))

    def mutate_payload(self, record: Record) -> Record:
        """Change a solution."""
        record.fields["solution_steps"] += " and skip the checks"
        return record

    def forge_record(self, template: Record) -> Record:
        """Return a row that waits for its checkpoint, as if it had just been captured."""
        later = template.fields["timestamp"] + timedelta(seconds=1)
        new = {"id": uuid4(), "run_id": "forged", "content_hash": "0" * 64, "solution_steps": "forged"}
        return Record(template.seq + 1, {**template.fields, **new, **_NEVER_EMBEDDED, "timestamp": later})

    def identity_of(self, record: Record) -> str:
        """Return the id of a row."""
        return str(record.fields["id"])

    def payload_of(self, record: Record) -> str:
        """Return what a row says."""
        return f"{record.fields['failure_description']}\n{record.fields['solution_steps']}"

    def owner_of(self, record: Record) -> str:
        """Return the workspace of a row."""
        return str(record.fields["workspace"])

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Write the content of one row, with its seal, over another."""
        victim = self.read_all_raw()[victim_seq]
        victim.fields.update({name: donor.fields[name] for name in _CONTENT})
        self._store.run(self._write(victim.fields))

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Return who verified a lesson, and for which project."""
        fields = self.read_all_raw()[seq].fields
        return {name: fields[name] for name in ("verified_by", "project_id")}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Write these; the mark of the suite, for which there is no column, makes somebody else the verifier."""
        victim = self.read_all_raw()[seq]
        if meta.pop("agmi_meta_tampered", False):
            meta["verified_by"] = "the release manager"
        victim.fields.update(meta)
        self._store.run(self._write(victim.fields))

    def reload(self) -> None:
        """Start again, as after a restart."""
        self._store.close()
        self._store.open()

    def snapshot_store(self) -> Path:
        """Copy the whole data directory, Postgres and keys included."""
        copy = self._folder / "older"
        self._store.close()
        subprocess.run(["cp", "-a", str(self._data), str(copy)], check=True)
        self._store.open()
        return copy

    def restore_store(self, token: Path) -> None:
        """Put the older data directory back."""
        self._store.close()
        shutil.rmtree(self._data)
        subprocess.run(["cp", "-a", str(token), str(self._data)], check=True)
        self._store.open()

    def verify(self) -> bool:
        """Ask for each lesson, then look at what the start, `hardwon verify` and the head kept elsewhere say."""
        told = self._store.run(self._look())
        self.noticed_by = tuple(told)
        self.verify_detail = "; ".join(told.values()) or None
        return not told

    async def _look(self) -> dict[str, str]:
        knowledge: Knowledge = self._store.knowledge
        told: dict[str, str] = {}
        for altered in (await knowledge.stats()).altered[:1]:
            told["reported at the start"] = altered
        for number in range(self._seeded):
            found: Any = await knowledge.queries.query_for_failure(_problem("default", number))
            if found.degraded:
                told["refused when shown"] = found.degraded
                break
        for problem in (await knowledge.integrity.verify()).problems[:1]:
            told["reported by verify"] = problem
        if self._heads.exists() and not told:
            last = self._heads.read_text().splitlines()[-1]
            for problem in (await knowledge.integrity.check_head(last))[:1]:
                told["reported with the head kept elsewhere"] = problem
        return told


class Memory:
    """Memories by the API: a user is a workspace, and who has no valid signature has an agent's key.

    A memory is a problem and its solution in the same words; a question is asked as before a task is given out.
    """

    name = "hardwon"

    def __init__(self, store: SyncStore) -> None:
        self._store = store
        self._numbers = itertools.count()
        self._keyring = import_module("agmi.signing").KEYRING
        self.reset()

    def supports_users(self) -> bool:
        """Say that memories are kept apart by user."""
        return True

    def reset(self) -> None:
        """Begin with empty workspaces."""
        self._number = next(self._numbers)

    def _of(self, user_id: str) -> Knowledge:
        return self._store.knowledge.in_workspace(f"{user_id}-{self._number}")

    def add_memory(self, item: Any) -> None:
        """Capture a memory and embed it."""
        owner = self._of(item.user_id)
        signed = self._keyring.verify(item.user_id, item.source, item.text, item.signature)
        teller = owner if signed else agent_of(owner)
        try:
            lesson = failure(failure_description=item.text, solution_steps=item.text)
            self._store.run(teller.capture.capture(lesson))
        except (InvalidInput, Conflict):
            return  # refused: nothing was stored
        self._store.run(owner.checkpoints.process_all())

    def retrieve(self, query: str, user_id: str, k: int = 5) -> list[Retrieved]:
        """Return what an orchestrator is told, without a threshold, so that each control finds its memory."""
        ask = self._of(user_id).queries.query_for_failure
        found = self._store.run(ask(query, max_results=k, min_relevance=0.0))
        return [Retrieved(pattern.solution, user_id, pattern.relevance) for pattern in found]

    def retrieve_where(self, query: str, user_id: str, where: dict[str, str], k: int = 5) -> list[Retrieved]:
        """Raise: no tag that a writer can set is a filter."""
        raise NotImplementedError("no tag that a writer can set is a filter")


def run_at_rest(home: Path) -> Iterable[str]:
    """Yield the verdict on each edit."""
    attacks = import_module("agmi.attacks.at_rest").AT_REST_ATTACKS_WITH_SNAPSHOT
    for number, attack in enumerate(attacks, 1):
        rows = Rows(home)
        result = attack().run(rows)
        no_verdict = result.guard or result.error
        if no_verdict:
            verdict = f"NO VERDICT: {no_verdict}"
        elif result.detected:
            verdict = ", ".join(rows.noticed_by)
        else:
            verdict = "ACCEPTED"
        yield f"T{number} {result.attack}: {verdict}"


def run_front_door(home: Path) -> Iterable[str]:
    """Yield the verdict on each family of attacks."""
    attacks = import_module("agmi.attacks.memory_specific").ALL_MEMORY_ATTACKS
    store = SyncStore(KnowledgeSettings(home=home / "front", holdout=0))
    try:
        for attack in attacks:
            result = attack().run(Memory(store))
            counts = ", ".join(f"{name} {sum(map(bool, each))}" for name, each in result.channels.items())
            controls = sum(each is None for channel in result.channels.values() for each in channel)
            yield f"{result.attack}: {counts or result.error} ({controls} without a passing control)"
    finally:
        store.stop()
