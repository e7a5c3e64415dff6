"""Taking back what turned out to be wrong: everything of a key, a project or a time, and whom it had reached."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from knowledge.errors import HardwonError, InvalidInput
from knowledge.logs import get_logger
from knowledge.memory.settling import settle
from knowledge.models import ContextId
from knowledge.ports import Progress, Stores
from knowledge.provenance import UNHEARD, AffectedTask, Auditor, Chosen, ProvenanceStore, Revocation

MOST_AFFECTED = 10_000
_SLICE = 500

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationService:
    """Revocations in one workspace."""

    stores: Stores
    provenance: ProvenanceStore
    audit: Auditor = UNHEARD

    async def revoke(self, chosen: Chosen, *, dry_run: bool = False, progress: Progress | None = None) -> Revocation:
        """Delete the entries that are meant from both stores, with what rests on them alone; counts follow.

        Some at a time: killed, it leaves no entry half deleted; called again, it goes on. Raises InvalidInput where
        nothing is asked for.
        """
        affected = tuple(await self.affected(chosen))
        if dry_run:
            return Revocation(entries=await self.provenance.count(chosen), affected=affected, dry_run=True)
        gone = 0
        while found := await self.provenance.chosen(chosen, limit=_SLICE):
            gone += await self.stores.entries.delete_all(found)
            if progress:
                progress(gone, None)
        settled = await self._settled()
        await self.audit.note(
            "entries revoked",
            key=chosen.key_id,
            project=chosen.project_id,
            entry=None if chosen.entry_id is None else str(chosen.entry_id),
            since=None if chosen.since is None else chosen.since.isoformat(),
            until=None if chosen.until is None else chosen.until.isoformat(),
            entries=gone,
            affected=len(affected),
        )
        return Revocation(entries=gone, affected=affected, settled=settled)

    async def affected(
        self, chosen: Chosen, *, limit: int = MOST_AFFECTED, after: ContextId | None = None
    ) -> list[AffectedTask]:
        """Return the tasks whose contexts held any of the entries that are meant, the latest first."""
        if not 1 <= limit <= MOST_AFFECTED:
            raise InvalidInput("limit", f"is {limit}: give 1 to {MOST_AFFECTED}")
        if chosen.everything:
            raise InvalidInput("key", "name a key, a project, a time or an entry: nothing says which are meant")
        for name in ("since", "until"):
            told = getattr(chosen, name)
            if told is not None:
                _check_moment(name, told)
        return await self.provenance.affected(chosen, limit=limit, after=after)

    async def _settled(self) -> bool:
        try:
            await settle(self.stores, whole=False)
        except HardwonError as error:
            log.warning("settling_put_off", reason=str(error))
            return False
        return True


def _check_moment(name: str, told: datetime) -> None:
    """Raise InvalidInput unless a moment names its zone, and is one of those that there are in UTC too."""
    if told.tzinfo is None:
        raise InvalidInput(name, "give a time with its zone")
    try:
        told.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(name, "is before the year 1 or after the year 9999 in UTC") from error
