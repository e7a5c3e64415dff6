"""Reading and verifying the audit log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hardwon.errors import AccessDenied, InvalidInput
from hardwon.models.access import AuditEntry, ChainReport
from hardwon.models.ids import EntryId
from hardwon.models.seals import Acceptance, SealHead
from hardwon.validation import as_id, as_integer, check_text, check_texts
from knowledge.access.provenance import GENESIS_HASH, NO_AUDIT, Auditor, AuditStore
from knowledge.memory.maintenance.integrity import IntegrityService

MAX_LISTED = 1000
_MAX_PROBLEMS = 20
_MAX_NUMBER = 2**63 - 1
_HEAD = re.compile(r"[0-9]{1,18}:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditService:
    """The audit log of one workspace; that of the whole store is the chain of the workspace "".

    `within`: the only workspace whose log may be read; None allows the store's, too.
    """

    store: AuditStore
    workspace: str
    integrity: IntegrityService
    audit: Auditor = NO_AUDIT
    within: str | None = None

    async def list(self, *, limit: int = 100, after: int | None = None, whole_store: bool = False) -> list[AuditEntry]:
        """Return the latest decisions, latest first; with `after` those before that number.

        Raises AccessDenied for the log of the whole store, which reveals other workspaces.
        """
        limit = as_integer("limit", limit, least=1, most=MAX_LISTED)
        if after is not None:
            after = as_integer("after", after, least=0, most=_MAX_NUMBER)
        return await self.store.latest(self._chain(whole_store=whole_store), limit=limit, after=after)

    async def verify(self, *, head: str | None = None, whole_store: bool = False) -> ChainReport:
        """Verify the hash chain: report changed, removed and reordered rows.

        Removal of the last rows is detected only with the `head` of an earlier report. The head may also be one of the
        store, a line that `take_head` printed: it tells whether an older copy was put back. Raises as `list` does.
        """
        check_texts(head=head)
        of_store: tuple[str, ...] = ()
        if head is not None and head.lstrip().startswith("{"):
            self._require_store()
            of_store, head = await self.integrity.check_head(head), None
        if head is not None and not _HEAD.fullmatch(head):
            raise InvalidInput(
                "head", f"must be a head that an earlier verify printed, such as {_head(0, GENESIS_HASH)}"
            )
        problems = list(of_store)
        last: AuditEntry | None = None
        heads = {_head(0, GENESIS_HASH)}
        async for page in self.store.rows(self._chain(whole_store=whole_store)):
            for row in page:
                problems += self._find_problems(row, last)
                last = row
                if head is not None and head.startswith(f"{row.number}:"):
                    heads.add(_head(row.number, row.hash))
        if last is not None and self.store.has_keys and self.store.is_keyed(last) is False:
            problems.append("the last row is hashed without the key: the log was written anew by somebody without it")
        if head is not None and head not in heads:
            problems.append(f"the log no longer holds {head}")
        number, digest = (0, GENESIS_HASH) if last is None else (last.number, last.hash)
        return ChainReport(rows=number, head=_head(number, digest), problems=tuple(problems[:_MAX_PROBLEMS]))

    def _find_problems(self, row: AuditEntry, last: AuditEntry | None) -> Iterator[str]:
        """Yield what is wrong with a row after the last one."""
        number, before = (0, GENESIS_HASH) if last is None else (last.number, last.hash)
        if row.number != number + 1:
            yield f"row {number} is followed by row {row.number}"
        if row.before != before:
            yield f"row {row.number} does not follow the row before it"
        keyed = self.store.is_keyed(row)
        if keyed is None or (keyed is False and last is not None and self.store.is_keyed(last)):
            yield f"row {row.number} was changed"

    async def take_head(self) -> SealHead:
        """Return a head over all that the store holds now, and keep it where a setting says. Raises as `list` does."""
        self._require_store()
        return await self.integrity.take_head()

    async def accept(self, reason: str, *, entry_id: EntryId | None = None) -> Acceptance:
        """Take an entry as it is now, or without one the entries that are there for all there are.

        For what somebody changed by other means than hardwon's. It is a decision of the audit log, with its reason.
        Raises NotFound; InvalidInput for an entry that is as it was stored.
        """
        check_text("reason", reason)
        seals = self.integrity.seals
        if entry_id is None:
            differs = await seals.accept_totals(self.workspace)
            await self.audit.record("entries accepted", more=differs, reason=reason)
            result = Acceptance(more_rows=differs)
        else:
            entry_id = EntryId(as_id("entry_id", entry_id))
            sealed = await seals.accept(self.workspace, entry_id)
            if sealed is None:
                raise InvalidInput("entry_id", f"{entry_id} is as it was stored: there is nothing to accept")
            await self.audit.record("entry accepted", entry=str(entry_id), content=sealed, reason=reason)
            result = Acceptance(entry_id=entry_id)
        await self.integrity.verify()
        await self.integrity.take_head()
        return result

    async def rotate_seal_key(self) -> str:
        """Seal by a new key from now on; what was sealed by others still verifies. Return the name of the new key.

        Raises Conflict where the keys are in a setting; as `list` does.
        """
        self._require_store()
        name = self.integrity.seals.use_new_key()
        await self.audit.record("seal key rotated", key=name)
        await self.integrity.take_head()
        return name

    def _require_store(self) -> None:
        if self.within is not None:
            raise AccessDenied("this is of the whole store, which takes a key for all workspaces")

    def _chain(self, *, whole_store: bool) -> str:
        if not whole_store:
            return self.workspace
        if self.within is not None:
            raise AccessDenied("the log of the whole store covers all workspaces: use a key for all of them")
        return ""


def _head(number: int, digest: bytes) -> str:
    return f"{number}:{digest.hex()}"
