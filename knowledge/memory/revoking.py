"""Taking back what turned out to be wrong: everything of a key, a project or a time, and whom it had reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from uuid import UUID

from knowledge.access.keys import LONGEST_NAME, KeyStore, parse
from knowledge.errors import HardwonError, InvalidInput, NotFound
from knowledge.forms import as_whole
from knowledge.logs import get_logger
from knowledge.memory.settling import settle
from knowledge.models import ContextId
from knowledge.ports import Stores
from knowledge.provenance import UNHEARD, AffectedTask, Auditor, Chosen, ChosenByChain, ProvenanceStore, Revocation

MAX_AFFECTED = 10_000
"""Tasks that one call names; a revocation names all of them."""
_SLICE = 500
_NAMED = 100
"""Contexts that one row of the audit log names: a person reads it, too."""
_BEGUN = "revocation begun"
_DONE = "entries revoked"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationService:
    """Revocations in one workspace."""

    stores: Stores
    provenance: ProvenanceStore
    keys: KeyStore
    audit: Auditor = UNHEARD

    async def revoke(self, chosen: Chosen, *, dry_run: bool = False) -> Revocation:
        """Delete the entries that are meant from both stores, with what rests on them alone, and the outcomes.

        What a key told is what any key told that rotations made it of, or of it: they are one caller's.
        Counts follow. Some at a time: killed, it leaves no entry half deleted; called again, it goes on, and names whom
        the entries had reached that are gone by then. Raises InvalidInput where nothing is asked for, and NotFound for
        a key or a project that is unknown here: whoever mistyped it would take the right one for revoked.
        """
        chosen = await self._by_id(chosen)
        now = await self._all_affected(chosen)
        affected = await self._with_those_before(chosen, now)
        if not affected and not await self._told_anything(chosen):
            await self._refuse_unknown(chosen)
        if dry_run:
            entries, outcomes = await self.provenance.count(chosen), await self.provenance.count_outcomes(chosen)
            return Revocation(entries=entries, outcomes=outcomes, affected=affected, dry_run=True)
        for at in range(0, len(now), _NAMED):
            ids = " ".join(str(task.context_id) for task in now[at : at + _NAMED])
            await self.audit.note(_BEGUN, **_told(chosen), contexts=ids)
        gone = outcomes = 0
        while found := await self.provenance.chosen(chosen, limit=_SLICE):
            gone += await self.stores.entries.delete_all(found)
        while deleted := await self.provenance.delete_outcomes(chosen, limit=_SLICE):
            outcomes += deleted
        settled = await self._settled()
        await self.audit.note(_DONE, **_told(chosen), entries=gone, outcomes=outcomes, affected=len(affected))
        return Revocation(entries=gone, outcomes=outcomes, affected=affected, settled=settled)

    async def _all_affected(self, chosen: Chosen) -> list[AffectedTask]:
        """Return all of them, however many: once their entries are gone, nothing else names them."""
        found: list[AffectedTask] = []
        while True:
            page = await self._affected(chosen, after=found[-1].context_id if found else None)
            found += page
            if len(page) < MAX_AFFECTED:
                return found

    async def _with_those_before(self, chosen: Chosen, now: Sequence[AffectedTask]) -> tuple[AffectedTask, ...]:
        """Return tasks with those of entries that an earlier call took back, the latest first.

        Nothing but its note knows them, once the entries are gone: its answer may have been lost.
        """
        told = _told(chosen)
        named = {
            ContextId(UUID(each))
            for row in await self.audit.noted(_BEGUN)
            if {name: value for name, value in row.items() if name != "contexts"} == told
            for each in str(row["contexts"]).split()
        }
        before = await self.provenance.tasks_of(sorted(named - {task.context_id for task in now}))
        return tuple(sorted([*now, *before], key=lambda task: task.handed_out_at, reverse=True))

    async def affected(
        self, chosen: Chosen, *, limit: int = MAX_AFFECTED, after: ContextId | None = None
    ) -> list[AffectedTask]:
        """Return the tasks whose contexts held any of the entries that are meant, the latest first.

        From behind the context `after` on, at most `limit` (1 to 10,000). Raises InvalidInput where nothing is meant,
        and NotFound where no context held the entry that is named, or one of the project or of the key, and there is
        none of that id: a mistyped one would read as if nobody had been reached.
        """
        found = await self._affected(chosen, limit=limit, after=after)
        if not found and after is None:
            await self._refuse_unknown(await self._by_id(chosen))
        return found

    async def _refuse_unknown(self, chosen: Chosen) -> None:
        """Raise NotFound for what is named and is not here, unless it was revoked before, which takes all of it."""
        if chosen.entry_id is not None:
            await self.stores.entries.get(chosen.entry_id)
        if chosen.key_id is None and chosen.project_id is None:
            return
        before = await self.audit.noted(_DONE)
        if chosen.project_id is not None and chosen.project_id not in {row.get("project") for row in before}:
            await self.stores.entries.of_project(chosen.project_id, limit=1)
        if chosen.key_id is None or chosen.key_id in {row.get("key") for row in before}:
            return
        if not await self._is_of_here(chosen.key_id) and not await self._told_anything(
            await self._by_id(Chosen(key_id=chosen.key_id))  # at whatever time: a key is let go of, years later
        ):
            raise NotFound(
                f"there is no key {chosen.key_id[:LONGEST_NAME]} for workspace {self.stores.workspace}, and nothing in"
                " it was told by one: hardwon keys list shows them"
            )

    async def _is_of_here(self, key_id: str) -> bool:
        """Return whether there is such a key, and not one of another workspace: nobody learns of those."""
        found = await self.keys.find(key_id)
        return found is not None and found[0].workspace in {None, self.stores.workspace}

    async def _told_anything(self, chosen: Chosen) -> bool:
        return bool(await self.provenance.chosen(chosen, limit=1) or await self.provenance.count_outcomes(chosen))

    async def _affected(
        self, chosen: Chosen, *, limit: int = MAX_AFFECTED, after: ContextId | None = None
    ) -> list[AffectedTask]:
        limit = as_whole("limit", limit, least=1, most=MAX_AFFECTED)
        if chosen.everything:
            raise InvalidInput("key", "name a key, a project, a time or an entry: nothing says which are meant")
        for name in ("since", "until"):
            told = getattr(chosen, name)
            if told is not None:
                _check_moment(name, told)
        return await self.provenance.affected(await self._by_id(chosen), limit=limit, after=after)

    async def _by_id(self, chosen: Chosen) -> Chosen:
        """Return what is meant by the id of a key and by its chain; given whole, for no log is to have its secret."""
        if chosen.key_id is None or isinstance(chosen, ChosenByChain):
            return chosen
        whole = parse(chosen.key_id)
        key_id = chosen.key_id if whole is None else whole[0]
        told = {field.name: getattr(chosen, field.name) for field in fields(Chosen)}
        return ChosenByChain(**told | {"key_id": key_id}, chain=await self.keys.chain(key_id))

    async def _settled(self) -> bool:
        try:
            await settle(self.stores, whole=False)
        except HardwonError as error:
            log.warning("settling_put_off", reason=str(error))
            return False
        return True


def _told(chosen: Chosen) -> dict[str, str]:
    """Return what was asked for as the audit log has it."""
    told = {
        "key": chosen.key_id,
        "project": chosen.project_id,
        "entry": None if chosen.entry_id is None else str(chosen.entry_id),
        "since": None if chosen.since is None else chosen.since.isoformat(),
        "until": None if chosen.until is None else chosen.until.isoformat(),
    }
    return {name: value for name, value in told.items() if value is not None}


def _check_moment(name: str, told: datetime) -> None:
    """Raise InvalidInput unless a moment names its zone, and is one of those that there are in UTC too."""
    if told.tzinfo is None:
        raise InvalidInput(name, "give a time with its zone")
    try:
        told.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(name, "is before the year 1 or after the year 9999 in UTC") from error
