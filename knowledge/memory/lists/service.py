"""Lists for people: what was captured and learned lately, filtered, searched and sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from hardwon.errors import InvalidInput
from hardwon.validation import as_id, as_integer, check_characters, check_text, kind_of
from knowledge.models import Entry, EntryId, EntryStatus, EntryType
from knowledge.ports import EntryQuery, Stores

MAX_LISTED: Final = 1000
MAX_WORDS: Final = 8
"""Words of a search; ours: each is looked for in every text."""
MAX_SEARCH_CHARS: Final = 200
_LISTED: Final = tuple(status for status in EntryStatus if status is not EntryStatus.QUARANTINED)
_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListService:
    """Lists of one workspace."""

    stores: Stores

    async def entries(
        self,
        *,
        project_id: str | None = None,
        status: str | None = None,
        entry_type: str | None = None,
        technology: str | None = None,
        agent_type: str | None = None,
        q: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        after: EntryId | None = None,
    ) -> list[Entry]:
        """Return entries, the latest first, those behind `after`; what waits for a review is not among them.

        `q`: words that each occur in a text of the entry. Raises InvalidInput, naming the argument, or NotFound.
        """
        limit = as_integer("limit", limit, least=1, most=MAX_LISTED)
        query = EntryQuery(
            project_id=parse_optional("project", project_id, check_text),
            status=parse_choice("status", status, _LISTED),
            entry_type=parse_choice("type", entry_type, EntryType),
            technology=parse_optional("technology", technology, check_text),
            agent_type=parse_optional("agent", agent_type, check_text),
            since=_parse_time("since", since),
            until=_parse_time("until", until),
            words=parse_words("q", q),
        )
        return await self.stores.lists.entries(
            query, after=None if after is None else EntryId(as_id("after", after)), limit=limit
        )


def parse_optional(field: str, value: str | None, check: Callable[[str, object], None]) -> str | None:
    """Return a checked text, or None. Raises InvalidInput, naming the field."""
    if value is not None:
        check(field, value)
    return value


def parse_choice(field: str, value: str | None, choices: Iterable[_Choice]) -> _Choice | None:
    """Return one of the choices, or None. Raises InvalidInput, naming the field."""
    by_name = {str(choice): choice for choice in choices}
    if value is None or value in by_name:
        return None if value is None else by_name[value]
    raise InvalidInput(field, f"must be one of {', '.join(by_name)}")


def parse_words(field: str, text: str | None) -> tuple[str, ...]:
    """Return the words of a search. Raises InvalidInput, naming the field, for too many."""
    if text is None:
        return ()
    if not isinstance(text, str):
        raise InvalidInput(field, f"must be a text, not {kind_of(text)}")
    check_characters(field, text)
    if len(text) > MAX_SEARCH_CHARS:
        raise InvalidInput(field, f"has {len(text)} characters, more than the {MAX_SEARCH_CHARS} allowed")
    words = tuple(dict.fromkeys(text.split()))
    if len(words) > MAX_WORDS:
        raise InvalidInput(field, f"has {len(words)} words, more than the {MAX_WORDS} allowed")
    return words


def _parse_time(field: str, value: datetime | None) -> datetime | None:
    if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
        raise InvalidInput(field, "must be a time with its zone, such as 2026-03-02T09:30:00Z")
    return value
