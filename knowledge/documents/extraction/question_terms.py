"""The words of a question, and how much of it a text tells; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from knowledge.documents.extraction.entities import asks_a_price, names_asked, tells_a_price, tells_of
from knowledge.documents.extraction.inflection import forms_of, terms_counted
from knowledge.documents.segmentation.segments import Unit, UnitKind
from knowledge.models import TermStatistics
from knowledge.text.bm25 import inverse_document_frequency, term_counts, words_and_wholes

NEAR_BEST = 0.08
"""A sentence this near the best one is quoted beside it."""
_WHEN = re.compile(r"\A\W*(?:when|(?:on\s+)?(?:what|which)\s+(?:date|day))\b", re.IGNORECASE)

HANDICAPS: Final = {
    UnitKind.SENTENCE: 0.0,
    UnitKind.FRAGMENT: NEAR_BEST,
    UnitKind.ROW: 0.15,
    UnitKind.CODE: 0.15,
    UnitKind.QUESTION: math.inf,
}
"""By how much something else has to answer better than a sentence does, to be quoted before it; a question never is.

Ours. Rows and commands are little but names, and so nearer to a question than a sentence that says something new; a row
whose first cell has what is asked about has no handicap.
"""
ASKED_FOR: Final = -0.15
"""The handicap of a row whose first cell is what is asked about, of two words or more, and little else: it tells what
that is. Ours."""

COUNTED: Final = 2.0
"""What the word behind "how many" counts beside the others: a number of something else is no answer. Ours."""


class Question:
    """The words of a question, each with its rarity."""

    def __init__(self, text: str, statistics: TermStatistics, *, named: str | None = None) -> None:
        """Read a question; `named` is the one asked now, where `text` has the one before it, too."""
        self.text = text
        self.names = names_asked(text if named is None else named)
        self.asks_when = _WHEN.match(text) is not None
        self._price = asks_a_price(text if named is None else named)
        self._forms = forms_of(text)
        seen = statistics.frequencies
        asked_for = terms_counted(text)
        self.rarity = {
            term: inverse_document_frequency(statistics.documents, max(seen.get(form, 0) for form in forms))
            * (COUNTED if term in asked_for else 1.0)
            for term, forms in self._forms.items()
        }
        self._said = frozenset().union(*self._forms.values())
        self._words = _plain(text)
        self._identifiers = frozenset(words_and_wholes(text)[1])

    def handicap(self, unit: Unit) -> float:
        """Return what it takes a unit to be chosen before a sentence; none where a row is about what is asked."""
        told = term_counts(unit.key)
        if told and self.rarity and all(self.matches_term(told, term) for term in self.rarity):
            return ASKED_FOR if len(self.rarity) > 1 and len(told) < 2 * len(self.rarity) else 0.0
        if self._identifiers.intersection(words_and_wholes(unit.key)[1]):
            return 0.0
        return HANDICAPS[unit.kind]

    def asks_for(self, row: Unit, around: Mapping[int, int]) -> bool:
        """Return whether a row is about what is asked, with its cells below the names of columns that are asked for.

        `around`: the words of the row and of what is above it.
        """
        told = term_counts(row.key)
        asked = bool(told) and told.keys() <= self._said
        return asked and all(self.matches_term(around, term) for term in self.rarity)

    def of_no_price(self, told: str) -> bool:
        """Return whether a price is asked, and a text, with the headings above it, says nothing of money."""
        return self._price and not tells_a_price(told)

    def of_another(self, told: str) -> bool:
        """Return whether a text, with what stands before it, tells nothing of something that the question names."""
        return any(not self._tells_of(told, name) for name in self.names)

    def _tells_of(self, text: str, name: tuple[str, ...]) -> bool:
        if tells_of(text, name):
            return True
        told = term_counts(text)
        return any(self.matches_term(told, term) for word in name for term in term_counts(word) if term in self._forms)

    def of_row(self, terms: Mapping[int, int], own: Mapping[int, int], above: Mapping[int, int]) -> Mapping[int, int]:
        """Return the words of a row that count: `own` alone where none of its cells says which row is asked for.

        The names of columns are those of all rows: of the port of what is not listed no row tells.
        """
        cells = [term for term in self.rarity if self.matches_term(own, term) and not self.matches_term(above, term)]
        listed = cells or all(self.matches_term({**above, **terms}, term) for term in self.rarity)
        return terms if listed else own

    def shows_question(self, unit: Unit) -> bool:
        """Return whether a unit shows the question itself, as an example of what may be asked."""
        return unit.kind is UnitKind.CODE and len(self._words) > 1 and f" {self._words} " in f" {_plain(unit.told)} "

    def share(self, terms: Mapping[int, int], *, without: Mapping[int, int] | None = None) -> float:
        """Return the share of the question's words among some terms; `without` those that are known anyway."""
        asked = {
            term: weight for term, weight in self.rarity.items() if not without or not self.matches_term(without, term)
        }
        total = sum(asked.values())
        return sum(weight for term, weight in asked.items() if self.matches_term(terms, term)) / total if total else 0.0

    def matches_term(self, terms: Mapping[int, int], term: int) -> bool:
        """Return whether a word of the question is among some terms, in whatever form."""
        return any(form in terms for form in self._forms[term])


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
