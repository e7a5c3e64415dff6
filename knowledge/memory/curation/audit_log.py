"""Reading and verifying the audit log."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hardwon.errors import AccessDenied, InvalidInput
from hardwon.models.access import AuditEntry, ChainReport
from hardwon.validation import as_integer, check_texts
from knowledge.access.provenance import GENESIS_HASH, AuditStore

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

        Removal of the last rows is detected only with the `head` of an earlier report. Raises as `list` does.
        """
        check_texts(head=head)
        if head is not None and not _HEAD.fullmatch(head):
            raise InvalidInput(
                "head", f"must be a head that an earlier verify printed, such as {_head(0, GENESIS_HASH)}"
            )
        problems: list[str] = []
        before, number, heads = GENESIS_HASH, 0, {_head(0, GENESIS_HASH)}
        async for page in self.store.rows(self._chain(whole_store=whole_store)):
            for row in page:
                if row.number != number + 1:
                    problems.append(f"row {number} is followed by row {row.number}")
                if row.before != before:
                    problems.append(f"row {row.number} does not follow the row before it")
                if row.compute_hash() != row.hash:
                    problems.append(f"row {row.number} was changed")
                before, number = row.hash, row.number
                if head is not None and head.startswith(f"{number}:"):
                    heads.add(_head(number, before))
        if head is not None and head not in heads:
            problems.append(f"the log no longer holds {head}")
        return ChainReport(rows=number, head=_head(number, before), problems=tuple(problems[:_MAX_PROBLEMS]))

    def _chain(self, *, whole_store: bool) -> str:
        if not whole_store:
            return self.workspace
        if self.within is not None:
            raise AccessDenied("the log of the whole store covers all workspaces: use a key for all of them")
        return ""


def _head(number: int, digest: bytes) -> str:
    return f"{number}:{digest.hex()}"
