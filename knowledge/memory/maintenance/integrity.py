"""What vouches for a store: heads kept elsewhere, checks of all that is stored, acceptance of what was changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hardwon.errors import AccessDenied, HardwonError, InvalidInput, StoreAltered
from hardwon.event_log import get_logger
from hardwon.models.seals import SealHead, SealReport
from hardwon.validation import as_id, check_text
from knowledge.access.provenance import NO_AUDIT, Auditor
from knowledge.models import EntryId
from knowledge.ports import Clock, HeadKeeper, SealStore

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityService:
    """Vouches for one workspace, and for the store where `within` is None: the only workspace that may be asked of."""

    seals: SealStore
    keeper: HeadKeeper
    clock: Clock
    workspace: str
    workspaces: Callable[[], Awaitable[Sequence[str]]]
    audit: Auditor = NO_AUDIT
    within: str | None = None

    async def take_head(self) -> SealHead:
        """Take a head over all chains and keep it; a failure to keep it elsewhere is logged."""
        head = await self.seals.take_head(self.clock.now())
        try:
            await self.keeper.keep(head)
        except HardwonError as error:
            log.warning("head_not_kept", number=head.number, reason=str(error))
        return head

    async def verify(self) -> SealReport:
        """Compare all entries of the workspace with their seals, and their number with the chains."""
        return await self.seals.verify(self.workspace)

    async def check_head(self, line: str) -> tuple[str, ...]:
        """Compare the store with a head that was kept; return what is wrong."""
        kept = SealHead.read(line)
        if not self.seals.verifies(kept):
            return ("the head was sealed by a key that is not here, or was edited: take one that this store printed",)
        return await self._behind(kept)

    async def _behind(self, kept: SealHead) -> tuple[str, ...]:
        """Return what is wrong with the store if this head was taken of it."""
        last = await self.seals.last_head()
        if last is None:
            return (f"the store has no head, and head {kept.number} of {kept.at:%Y-%m-%d %H:%M} UTC was kept of it",)
        if last.store != kept.store:
            return (f"the head is of another store ({kept.store}, this one is {last.store}): compare with one of this",)
        if last.number < kept.number:
            older = (
                f"the store is at head {last.number} of {last.at:%Y-%m-%d %H:%M} UTC, and head {kept.number} of"
                f" {kept.at:%Y-%m-%d %H:%M} UTC was kept of it: an older copy was put in its place"
            )
            return (older,)
        same = await self.seals.head(kept.number)
        if same is None or same.seal != kept.seal:
            return (f"the store no longer holds head {kept.number}, which was kept of it",)
        links, decisions = await self.seals.counts()
        if links < last.links or decisions < last.decisions:
            return (
                f"chains of the store, or its audit log, are behind head {last.number}: an older copy was put back",
            )
        return ()

    async def check_start(self) -> None:
        """Compare the store with the head that the data directory keeps, and note what is wrong."""
        kept = await self.keeper.kept()
        problems = () if kept is None else await self._behind(kept)
        self.seals.note_problems(problems)
        for problem in problems:
            log.error("store_altered", reason=problem)
        if not problems:
            await self.take_head()

    async def check_store(self) -> int:
        """Verify every workspace; return the number of rows. Raises StoreAltered with what was found.

        Raises AccessDenied for the key of one workspace.
        """
        self._require_store()
        rows, problems = 0, list(await self._problems_of_heads())
        for workspace in await self.workspaces():
            report = await self.seals.verify(workspace)
            rows += report.rows
            problems += report.problems
        self.seals.note_problems(tuple(problems))
        if problems:
            raise StoreAltered("; ".join(problems[:_MAX_TOLD]))
        return rows

    async def _problems_of_heads(self) -> tuple[str, ...]:
        kept = await self.keeper.kept()
        return () if kept is None else await self._behind(kept)

    async def accept(self, reason: str, *, entry_id: EntryId | None = None) -> str:
        """Take an entry as it is now, or without one the rows that are there for all there are; return what was done.

        It is a decision of the audit log, with its reason.
        """
        check_text("reason", reason)
        if entry_id is None:
            differs = await self.seals.accept_totals(self.workspace)
            await self.audit.record("rows accepted", difference=differs, reason=reason)
            done = f"the rows that are there are taken for all there are: {differs:+,} of what was counted"
        else:
            entry_id = EntryId(as_id("entry_id", entry_id))
            sealed = await self.seals.accept(self.workspace, entry_id)
            if sealed is None:
                raise InvalidInput("entry_id", f"{entry_id} is as it was stored: there is nothing to accept")
            await self.audit.record("entry accepted", entry=str(entry_id), content=sealed, reason=reason)
            done = f"entry {entry_id} is taken as it is now"
        await self.take_head()
        return done

    async def rotate_key(self) -> str:
        """Seal by a new key from now on; what was sealed by others still verifies. Return the name of the new key."""
        self._require_store()
        name = self.seals.use_new_key()
        await self.audit.record("seal key rotated", key=name)
        await self.take_head()
        return name

    def _require_store(self) -> None:
        if self.within is not None:
            raise AccessDenied("this is of the whole store, which takes a key for all workspaces")


_MAX_TOLD = 10
