"""Revocation of wrong entries: all of a key, a project or a period, and the tasks that they reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from uuid import UUID

from hardwon.errors import HardwonError, InvalidInput, NotFound
from hardwon.event_log import get_logger
from hardwon.models.access import MAX_AFFECTED, MAX_NAME_CHARS, AffectedTask, EntryFilter, Revocation
from hardwon.validation import as_integer
from knowledge.access.keys import KeyStore, parse_key
from knowledge.access.provenance import NO_AUDIT, Auditor, KeyChainFilter, ProvenanceStore
from knowledge.memory.index.reconcile import settle
from knowledge.models import ContextId
from knowledge.ports import Stores

_SLICE = 500
_IDS_PER_ROW = 100
"""Context ids in one row of the audit log, which people read, too."""
_BEGUN = "revocation begun"
_DONE = "entries revoked"
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationService:
    """Revocations in one workspace."""

    stores: Stores
    provenance: ProvenanceStore
    keys: KeyStore
    audit: Auditor = NO_AUDIT

    async def revoke(self, chosen: EntryFilter, *, dry_run: bool = False) -> Revocation:
        """Delete the chosen entries from both stores, with whatever only they support, and their outcomes.

        A key includes all keys that it was rotated from or to: they are one caller's. Counts are updated. Works in
        batches: when killed, no entry is half deleted; the next call continues, and returns the tasks that the deleted
        entries reached as well. Raises InvalidInput where nothing is chosen, and NotFound for an unknown key or
        project, since a mistyped one would otherwise seem revoked.
        """
        chosen = await self._resolve_key(chosen)
        affected_now = await self._all_affected(chosen)
        affected = await self._add_earlier(chosen, affected_now)
        if not affected and not await self._has_records(chosen):
            await self._refuse_unknown(chosen)
        if dry_run:
            entries, outcomes = await self.provenance.count(chosen), await self.provenance.count_outcomes(chosen)
            return Revocation(entries=entries, outcomes=outcomes, affected=affected, dry_run=True)
        for at in range(0, len(affected_now), _IDS_PER_ROW):
            ids = " ".join(str(task.context_id) for task in affected_now[at : at + _IDS_PER_ROW])
            await self.audit.record(_BEGUN, **_audit_fields(chosen), contexts=ids)
        deleted_entries = outcomes = 0
        while entry_ids := await self.provenance.find_entries(chosen, limit=_SLICE):
            deleted_entries += await self.stores.entries.delete_all(entry_ids)
        while deleted := await self.provenance.delete_outcomes(chosen, limit=_SLICE):
            outcomes += deleted
        settled = await self._settle()
        await self.audit.record(
            _DONE, **_audit_fields(chosen), entries=deleted_entries, outcomes=outcomes, affected=len(affected)
        )
        return Revocation(entries=deleted_entries, outcomes=outcomes, affected=affected, settled=settled)

    async def _all_affected(self, chosen: EntryFilter) -> list[AffectedTask]:
        """Return all affected tasks: once the entries are deleted, they cannot be found any more."""
        tasks: list[AffectedTask] = []
        while True:
            page = await self._find_affected(chosen, after=tasks[-1].context_id if tasks else None)
            tasks += page
            if len(page) < MAX_AFFECTED:
                return tasks

    async def _add_earlier(self, chosen: EntryFilter, tasks: Sequence[AffectedTask]) -> tuple[AffectedTask, ...]:
        """Return the tasks with those that an earlier call of the same revocation affected, latest first.

        Once the entries are deleted, only that call's audit entries have them; its response may have been lost.
        """
        choice = _audit_fields(chosen)
        context_ids = {
            ContextId(UUID(each))
            for row in await self.audit.recent_details(_BEGUN)
            if {name: value for name, value in row.items() if name != "contexts"} == choice
            for each in str(row["contexts"]).split()
        }
        earlier = await self.provenance.tasks_of(sorted(context_ids - {task.context_id for task in tasks}))
        return tuple(sorted([*tasks, *earlier], key=lambda task: task.handed_out_at, reverse=True))

    async def affected(
        self, chosen: EntryFilter, *, limit: int = MAX_AFFECTED, after: ContextId | None = None
    ) -> list[AffectedTask]:
        """Return the tasks whose contexts held any of the chosen entries, latest first.

        Starts after the context `after`; at most `limit` (1 to 10,000). Raises InvalidInput where nothing is chosen,
        NotFound where no context is affected and the entry, project or key does not exist: a mistyped id would
        otherwise seem to have reached nobody.
        """
        tasks = await self._find_affected(chosen, limit=limit, after=after)
        if not tasks and after is None:
            await self._refuse_unknown(await self._resolve_key(chosen))
        return tasks

    async def _refuse_unknown(self, chosen: EntryFilter) -> None:
        """Raise NotFound for an unknown entry, project or key, unless it was revoked before."""
        if chosen.entry_id is not None:
            await self.stores.entries.get(chosen.entry_id)
        if chosen.key_id is None and chosen.project_id is None:
            return
        revocations = await self.audit.recent_details(_DONE)
        if chosen.project_id is not None and chosen.project_id not in {row.get("project") for row in revocations}:
            await self.stores.entries.ids_of_project(chosen.project_id, limit=1)
        if chosen.key_id is None or chosen.key_id in {row.get("key") for row in revocations}:
            return
        if not await self._is_key_of_workspace(chosen.key_id) and not await self._has_records(
            await self._resolve_key(
                EntryFilter(key_id=chosen.key_id)
            )  # of any time: a key may have been removed years ago
        ):
            raise NotFound(
                f"there is no key {chosen.key_id[:MAX_NAME_CHARS]} for workspace {self.stores.workspace}, and nothing"
                " in it was captured with such a key: `hardwon keys list` shows the keys"
            )

    async def _is_key_of_workspace(self, key_id: str) -> bool:
        """Return whether the key exists and may use this workspace; keys of others must not be revealed."""
        key = await self.keys.find(key_id)
        return key is not None and key[0].workspace in {None, self.stores.workspace}

    async def _has_records(self, chosen: EntryFilter) -> bool:
        return bool(await self.provenance.find_entries(chosen, limit=1) or await self.provenance.count_outcomes(chosen))

    async def _find_affected(
        self, chosen: EntryFilter, *, limit: int = MAX_AFFECTED, after: ContextId | None = None
    ) -> list[AffectedTask]:
        limit = as_integer("limit", limit, least=1, most=MAX_AFFECTED)
        if chosen.matches_all:
            raise InvalidInput("key", "nothing is chosen: name a key, a project, a time or an entry")
        for name in ("since", "until"):
            moment = getattr(chosen, name)
            if moment is not None:
                _check_moment(name, moment)
        return await self.provenance.affected_tasks(await self._resolve_key(chosen), limit=limit, after=after)

    async def _resolve_key(self, chosen: EntryFilter) -> EntryFilter:
        """Return the choice with the key's id and chain; of a whole key only the id, as no log may have its secret."""
        if chosen.key_id is None or isinstance(chosen, KeyChainFilter):
            return chosen
        parsed = parse_key(chosen.key_id)
        key_id = chosen.key_id if parsed is None else parsed[0]
        values = {field.name: getattr(chosen, field.name) for field in fields(EntryFilter)}
        return KeyChainFilter(**values | {"key_id": key_id}, chain=await self.keys.chain(key_id))

    async def _settle(self) -> bool:
        try:
            await settle(self.stores, whole=False)
        except HardwonError as error:
            log.warning("settling_put_off", reason=str(error))
            return False
        return True


def _audit_fields(chosen: EntryFilter) -> dict[str, str]:
    """Return the choice as fields of the audit log."""
    values = {
        "key": chosen.key_id,
        "project": chosen.project_id,
        "entry": None if chosen.entry_id is None else str(chosen.entry_id),
        "since": None if chosen.since is None else chosen.since.isoformat(),
        "until": None if chosen.until is None else chosen.until.isoformat(),
    }
    return {name: value for name, value in values.items() if value is not None}


def _check_moment(name: str, moment: datetime) -> None:
    """Raise InvalidInput unless a time has a zone and can be converted to UTC."""
    if moment.tzinfo is None:
        raise InvalidInput(name, "give a time with its zone")
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(name, "is before the year 1 or after the year 9999 in UTC") from error
