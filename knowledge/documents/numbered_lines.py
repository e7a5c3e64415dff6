"""Single lines of documents by their numbers, with those about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.amounts import plain_amount
from knowledge.documents.access import Scope
from knowledge.documents.log_passages import computed_passage, listed_lines
from knowledge.documents.models import Document, DocumentType, LogLine, Passage
from knowledge.documents.ports import LogStore, PassageStore

NEIGHBOURS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedLines:
    """Looks lines up in the documents of one workspace."""

    logs: LogStore
    passages: PassageStore

    async def of(self, document: Document, scope: Scope, numbers: Sequence[int]) -> list[Passage]:
        """Return a passage for each number; of a log also for one that no line has."""
        if document.document_type is not DocumentType.LOG:
            return await self._text_lines(document, scope, numbers)
        passages = []
        for number in numbers:
            around = await self.logs.around([document.document_id], scope, number, neighbours=NEIGHBOURS)
            lines = [line for _, line in around]
            if any(line.line == number for line in lines):
                passages.append(
                    computed_passage(document, listed_lines(lines, mark=number), lines, lines, section=f"line {number}")
                )
            else:
                told = f"{document.name} has {plain_amount(document.lines, 'line')}; there is no line {number}."
                passages.append(computed_passage(document, told, (), (), section=f"line {number}"))
        return passages

    async def _text_lines(self, document: Document, scope: Scope, numbers: Sequence[int]) -> list[Passage]:
        whole = await self.passages.whole(scope, [document.document_id])
        lines = whole[0].text.split("\n") if whole else []
        passages = []
        for number in numbers:
            if not 1 <= number <= len(lines):
                continue
            first, last = max(1, number - NEIGHBOURS), min(len(lines), number + NEIGHBOURS)
            near = [
                LogLine(line=at, text=lines[at - 1], timestamp=None, severity=None, template="")
                for at in range(first, last + 1)
            ]
            passages.append(
                computed_passage(document, listed_lines(near, mark=number), near, near, section=f"line {number}")
            )
        return passages
