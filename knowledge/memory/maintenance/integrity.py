"""Tamper evidence of a store: heads kept elsewhere, and checks of all that is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from hardwon.errors import HardwonError, StorageUnavailable, StoreAltered
from hardwon.event_log import get_logger
from hardwon.models.seals import SealHead, SealReport, describe_missing
from knowledge.ports import Clock, HeadKeeper, SealStore

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityService:
    """Vouches for the entries of one workspace, and for the store."""

    seals: SealStore
    keeper: HeadKeeper
    clock: Clock
    workspace: str
    workspaces: Callable[[], Awaitable[Sequence[str]]]

    async def take_head(self) -> SealHead:
        """Take a head over all chains and keep it; a failure to keep it elsewhere is logged."""
        head = await self.seals.take_head(self.clock.now())
        try:
            await self.keeper.keep(head)
        except HardwonError as error:
            log.warning("head_not_kept", number=head.number, reason=str(error))
        return head

    async def verify(self, *, thorough: bool = True) -> SealReport:
        """Compare all rows of the workspace with their seals and totals, and what is derived with its sources."""
        report = await self.seals.verify(self.workspace, thorough=thorough)
        self.seals.note_problems(self.workspace, report.problems)
        return report

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

    async def _behind_kept(self) -> tuple[str, ...]:
        """Return what is wrong with the store if the newest head that was kept was taken of it.

        One in a file elsewhere counts where it is newer than the data directory's, which may be an older copy too.
        """
        kept = await self.keeper.last_head()
        elsewhere = await self.keeper.last_head_elsewhere()
        if elsewhere is not None and (kept is None or elsewhere.number > kept.number):
            last = await self.seals.last_head()
            if last is None or last.store == elsewhere.store:  # several stores may share the file
                kept = elsewhere
        return () if kept is None else await self._behind(kept)

    async def check_start(self) -> None:
        """Compare the store with the newest head that was kept, and note what is wrong."""
        problems = await self._behind_kept()
        self.seals.note_problems(_STORE, problems)
        for workspace, missing in (await self.seals.count_missing()).items():
            problem = describe_missing(workspace, missing)
            self.seals.note_problems(workspace, (problem,))
            log.error("rows_missing", workspace=workspace, reason=problem)
        for problem in problems:
            log.error("store_altered", reason=problem)
        if not problems:
            try:
                await self.take_head()
            except StorageUnavailable as error:  # read-only: what only asks may start
                log.warning("head_not_taken", reason=str(error))

    async def check_store(self) -> int:
        """Verify every workspace; return the number of rows. Raises StoreAltered with what was found."""
        problems = list(await self._behind_kept())
        self.seals.note_problems(_STORE, tuple(problems))
        rows = 0
        for workspace in await self.workspaces():
            report = await replace(self, workspace=workspace).verify(thorough=False)
            rows += report.rows
            problems += report.problems
        if problems:
            raise StoreAltered("; ".join(problems[:_MAX_TOLD]))
        return rows


_MAX_TOLD = 10
_STORE = ""
