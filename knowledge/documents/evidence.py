"""Exact facts of logs: counts, first and last times, single lines, all entries of a severity. Counted, never guessed.

What is found comes as computed passages that a model quotes and the verifier checks like any other text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.documents.access import Scope
from knowledge.documents.language_model import LanguageModel
from knowledge.documents.log_answers import NEIGHBOURS, LogAnswers
from knowledge.documents.log_passages import computed_passage, listed_lines
from knowledge.documents.log_planning import plan_by_model
from knowledge.documents.log_query import LogQuery
from knowledge.documents.log_questions import addresses_logs, may_ask_logs, parse_log_question
from knowledge.documents.models import Document, DocumentId, DocumentType, Finding, LogLine, Passage
from knowledge.documents.ports import EvidenceSource, LogStore, PassageStore
from knowledge.errors import InvalidInput

_MOST_LOGS: Final = 50
_MOST_NUMBERED: Final = 100
"""Lines that are looked up by their numbers, of all documents together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence(EvidenceSource):
    """Facts of the logs of one workspace, from what Postgres holds of each line.

    `model` gives the model that may read a plan out of a question; None where nothing is asked of one.
    """

    logs: LogStore
    passages: PassageStore
    model: Callable[[], Awaitable[LanguageModel | None]] | None = None

    async def facts(
        self,
        question: str,
        scope: Scope,
        documents: frozenset[DocumentId] | None = None,
        *,
        query: LogQuery | None = None,
    ) -> Finding:
        """Return computed passages for what a question asks of logs; none where it asks nothing of the kind.

        Raises InvalidInput where a plan that is given names a document that is not there.
        """
        if query is None and not may_ask_logs(question):
            return Finding()
        visible = await self.passages.documents(scope)
        among = [each for each in visible if documents is None or each.document_id in documents]
        logs = [each for each in among if each.document_type is DocumentType.LOG]
        telling = [each for each in among if each.document_type is not DocumentType.CONFIG]  # settings have no errors
        addressed = query is not None or len(logs) == len(telling) or addresses_logs(question)
        if query is None:
            query = await self._plan(question, visible, logs=bool(logs), addressed=addressed)
        else:
            _check_names(query, visible)
        if query is None:
            return Finding()
        if query.documents:
            addressed, wanted = True, {name.lower() for name in query.documents}
            among = [each for each in among if wanted & {each.name.lower(), each.uri.lower()}]
            logs = [each for each in among if each.document_type is DocumentType.LOG]
        if query.lines:
            found, notes = await self._numbered(among if query.documents else logs, scope, query.lines)
        else:
            found, notes = await self._counted(logs, scope, query, addressed=addressed)
        if found:
            notes = [*(note for log in logs for note in log.notes), *notes]
        return Finding(passages=tuple(found), searched=(question,) if found else (), notes=tuple(notes))

    async def _plan(
        self, question: str, visible: Sequence[Document], *, logs: bool, addressed: bool
    ) -> LogQuery | None:
        """Return the plan that a model reads out of a question, else the one that its plain words tell."""
        names = {name for each in visible for name in (each.name, each.uri)}
        model = await self.model() if self.model is not None and logs else None
        planned = None if model is None else await plan_by_model(model, question, names)
        if planned is not None and (addressed or planned.documents or planned.selects):
            return planned
        return parse_log_question(question, names, addressed=addressed)

    async def _numbered(
        self, documents: Sequence[Document], scope: Scope, lines: Sequence[int]
    ) -> tuple[list[Passage], list[str]]:
        """Return the passages of these lines of documents, and a note where not all documents were looked at."""
        looked_at = documents[: max(1, _MOST_NUMBERED // len(lines))]
        found: list[Passage] = []
        for each in looked_at:
            if each.document_type is DocumentType.LOG:
                found += await LogAnswers(logs=self.logs, log=each, scope=scope).numbered(lines)
            else:
                found += await self._text_lines(each, scope, lines)
        if len(looked_at) == len(documents):
            return found, []
        return found, [
            f"Lines were looked up in the first {len(looked_at)} of {len(documents)} documents: name the one meant."
        ]

    async def _text_lines(self, document: Document, scope: Scope, numbers: Sequence[int]) -> list[Passage]:
        whole = await self.passages.whole(scope, [document.document_id])
        lines = whole[0].text.split("\n") if whole else []
        passages = []
        for number in (each for each in numbers if each <= len(lines)):
            near = [
                LogLine(line=at, text=lines[at - 1], timestamp=None, severity=None, template="")
                for at in range(max(1, number - NEIGHBOURS), min(len(lines), number + NEIGHBOURS) + 1)
            ]
            passages.append(
                computed_passage(document, listed_lines(near, mark=number), near, near, section=f"line {number}")
            )
        return passages

    async def _counted(
        self, logs: Sequence[Document], scope: Scope, query: LogQuery, *, addressed: bool
    ) -> tuple[list[Passage], list[str]]:
        """Return the passages that answer a plan, and a note where not all logs were counted."""
        found: list[Passage] = []
        for log in logs[:_MOST_LOGS]:
            found += await LogAnswers(logs=self.logs, log=log, scope=scope).answer(query, addressed=addressed)
        if not found or len(logs) <= _MOST_LOGS:
            return found, []
        return found, [f"Only the first {_MOST_LOGS} of {len(logs)} logs were counted."]


def _check_names(query: LogQuery, visible: Sequence[Document]) -> None:
    known = {name.lower() for each in visible for name in (each.name, each.uri)}
    for name in query.documents:
        if name.lower() not in known:
            raise InvalidInput("documents", f"there is no {name} here")
