"""Exact facts about logs: counts, first and last times, single lines, all entries of a severity, computed by SQL.

The results are computed passages, which are quoted and verified like any other text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hardwon.errors import InvalidInput
from hardwon.models.documents import Document, DocumentId, DocumentType, Finding, LogLine, Passage
from hardwon.models.log_query import LogQuery
from knowledge.documents.access import Scope
from knowledge.documents.llm import LanguageModel
from knowledge.documents.logs.executor import NEIGHBOURS, LogAnswers, plan_by_model
from knowledge.documents.logs.passages import build_passage, format_lines, line_passage
from knowledge.documents.logs.questions import addresses_logs, identifiers_in, may_ask_logs, parse_log_question
from knowledge.documents.ports import LogStore, PassageStore

_MAX_LOGS: Final = 50
_MAX_NAMING: Final = 3
_MAX_LOOKUPS: Final = 100
"""Maximum lines looked up by number, over all documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence:
    """Facts about the logs of one workspace, computed from their lines in Postgres.

    `model` provides the model that plans queries; None to parse plain words only.
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
        """Return computed passages that answer a question about logs; none for other questions.

        Raises InvalidInput if `query` names a document that does not exist.
        """
        if query is None and not may_ask_logs(question):
            return Finding()
        visible = await self.logs.documents(scope)
        among = [each for each in visible if documents is None or each.document_id in documents]
        logs = [each for each in among if each.document_type is DocumentType.LOG]
        telling = [
            each for each in among if each.document_type is not DocumentType.CONFIG
        ]  # a configuration has no errors to count
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
            found, notes = await self._line_passages(among if query.documents else logs, scope, query.lines)
        else:
            found, notes = await self._count_passages(logs, scope, query, addressed=addressed)
        if found:
            notes = [*(note for log in logs for note in log.notes), *notes]
        return Finding(passages=tuple(found), searched=(question,) if found else (), notes=tuple(notes))

    async def lines_naming(self, question: str, scope: Scope, found: Sequence[Passage]) -> list[Passage]:
        """Return lines of logs that hold the identifiers of a question which no passage found holds.

        A log is embedded by its kinds of entries: what stands in a single line is found by this.
        """
        named = identifiers_in(question)
        if not named or any(all(each.lower() in passage.text.lower() for each in named) for passage in found):
            return []
        logs = {each.document_id: each for each in await self.passages.documents(scope)}
        if all(each.document_type is not DocumentType.LOG for each in logs.values()):
            return []
        lines = await self.logs.holding(scope, named, limit=_MAX_NAMING)
        return [line_passage(logs[log], line, at) for log, line, at in lines if log in logs]

    async def _plan(
        self, question: str, visible: Sequence[Document], *, logs: bool, addressed: bool
    ) -> LogQuery | None:
        """Return the plan of a model, else the one parsed from the words of the question."""
        names = {name for each in visible for name in (each.name, each.uri)}
        model = await self.model() if self.model is not None and logs else None
        planned = None if model is None else await plan_by_model(model, question, names)
        if planned is not None and (addressed or planned.documents or planned.selects):
            return planned
        return parse_log_question(question, names, addressed=addressed)

    async def _line_passages(
        self, documents: Sequence[Document], scope: Scope, lines: Sequence[int]
    ) -> tuple[list[Passage], list[str]]:
        """Return the passages of these lines of documents, and a note if not all documents were searched."""
        looked_at = documents[: max(1, _MAX_LOOKUPS // len(lines))]
        found: list[Passage] = []
        for each in looked_at:
            if each.document_type is DocumentType.LOG:
                found += await LogAnswers(logs=self.logs, log=each, scope=scope).look_up_lines(lines)
            else:
                found += await self._text_lines(each, scope, lines)
        if len(looked_at) == len(documents):
            return found, []
        return found, [
            f"Lines were looked up in the first {len(looked_at)} of {len(documents)} documents: name one of them."
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
                build_passage(document, format_lines(near, mark=number), near, near, section=f"line {number}")
            )
        return passages

    async def _count_passages(
        self, logs: Sequence[Document], scope: Scope, query: LogQuery, *, addressed: bool
    ) -> tuple[list[Passage], list[str]]:
        """Return the passages that answer a plan, and a note if not all logs were counted."""
        found: list[Passage] = []
        for log in logs[:_MAX_LOGS]:
            found += await LogAnswers(logs=self.logs, log=log, scope=scope).answer(query, addressed=addressed)
        if not found or len(logs) <= _MAX_LOGS:
            return found, []
        return found, [f"Only the first {_MAX_LOGS} of {len(logs)} logs were counted."]


def _check_names(query: LogQuery, visible: Sequence[Document]) -> None:
    known = {name.lower() for each in visible for name in (each.name, each.uri)}
    for name in query.documents:
        if name.lower() not in known:
            raise InvalidInput("documents", f"there is no document {name} here")
