"""Learning from the spans that were received over OTLP, each trace when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hardwon.errors import HardwonError
from hardwon.event_log import get_logger
from hardwon.models.access import REPORTER_PREFIX
from knowledge.access.principals import OWNER, Principal, Trust
from knowledge.models import CaptureResult
from knowledge.wiring.open import Knowledge
from orchestrator.http.middleware.authentication import OPERATOR_KEY_ID
from orchestrator.importers.sessions.formats import find_transcripts
from orchestrator.importers.sessions.lessons.caller_services import CallerServices
from orchestrator.importers.sessions.lessons.learner import SessionLearner, SessionReader, select_changed
from orchestrator.importers.sessions.lessons.read_marks import open_marks
from orchestrator.importers.sessions.spans.spool import SpanCaller, SpanSpool, ended_traces, remove_files

log = get_logger(__name__)

_FOREVER = float("inf")


@dataclass(slots=True, kw_only=True)
class SpanLearning:
    """Learns from the spool of a data directory, as the callers who sent the spans.

    `checks`: the beginnings of commands that a setting makes checks.
    """

    knowledge: Knowledge
    home: Path
    checks: Sequence[str] = ()
    _seen: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """Files as they were when they were learned from; those of a process before are told by their marks."""

    async def learn_pending(self) -> int:
        """Learn from the traces that have ended since; return how many lessons were captured."""
        spool = SpanSpool.of_home(self.home)
        await asyncio.to_thread(spool.remove_old)
        stored = 0
        for folder, caller in await asyncio.to_thread(lambda: list(spool.callers())):
            ended = await asyncio.to_thread(ended_traces, folder, self._seen)
            if all(self._seen.get(path) == state for path, state in ended.items()):
                continue
            principal = await self._principal_of(caller)
            if principal is None:  # a revoked key teaches nothing more
                await asyncio.to_thread(partial(remove_files, folder, older_than=_FOREVER))
                continue
            try:
                stored += await self._learn(folder, caller, principal, ended)
            except HardwonError as error:  # such as of a key that may capture no more: the others' are learned
                log.warning("spans_not_learned", error=str(error))
                continue
            self._seen |= ended
        self._seen = {path: state for path, state in self._seen.items() if path.exists()}
        return stored

    async def _learn(
        self, folder: Path, caller: SpanCaller, principal: Principal, ended: dict[Path, tuple[int, int]]
    ) -> int:
        captured: list[CaptureResult] = []
        found = await asyncio.to_thread(find_transcripts, [folder])
        reader = SessionReader(named=self.checks, left_out=found.left_out, unread=found.unread)
        knowledge = CallerServices(self.knowledge.in_workspace(caller.workspace), principal)
        name = f"{caller.workspace} {caller.key_id or ''}"  # no caller settles the lessons of another one
        with open_marks(self.home, name, for_writing=True) as marks:
            learner = SessionLearner(knowledge=knowledge, marks=marks, tell=captured.append, left_out=reader.left_out)
            for files in select_changed(found, marks):
                if not all(file.path in ended for file in files):
                    continue
                await learner.learn_files(files, reader)
                for file in files:
                    if file.session_id == file.path.stem:  # no conversation, which might go on in another trace
                        await asyncio.to_thread(file.path.unlink, missing_ok=True)
        stored = sum(each.entry_id is not None for each in captured)
        log.info("spans_learned", lessons=stored, unread=len(reader.unread))
        return stored

    async def _principal_of(self, caller: SpanCaller) -> Principal | None:
        """Return the principal that a caller's spans are learned as; None for a key that is valid no more."""
        if caller.key_id in {None, OPERATOR_KEY_ID}:
            return OWNER
        if caller.key_id.startswith(REPORTER_PREFIX):
            return OWNER.acting_for_agent(caller.key_id.removeprefix(REPORTER_PREFIX))
        found = await self.knowledge.keys.store.find(caller.key_id)
        if found is None or not found[0].is_live(self.knowledge.keys.clock.now()):
            return None
        key = found[0]
        return Principal(
            trust=Trust.KEY,
            scopes=frozenset(key.scopes),
            workspace=key.workspace,
            key_id=key.key_id,
            first_key=key.first_key,
            name=key.name,
        )
