"""What of some passages can answer a question, and how many of the question's words each piece of it has; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.documents.aligning import Span
from knowledge.documents.apart import apart, dated, numbered
from knowledge.documents.config_lines import config_lines
from knowledge.documents.headings import headings
from knowledge.documents.models import DocumentId, DocumentType
from knowledge.documents.named import asks_a_price, names_asked, tells_a_price, tells_of
from knowledge.documents.other_settings import Settings
from knowledge.documents.parsing import front_matter_end
from knowledge.documents.pieces import Unit, UnitKind
from knowledge.documents.same_words import counted, forms_of
from knowledge.documents.sentences import sentences
from knowledge.documents.steps import Listed
from knowledge.documents.units import units
from knowledge.documents.verifying import MOST_CHARS, Evidence
from knowledge.models import TermStatistics
from knowledge.search.lexical import inverse_document_frequency, term_counts, unspaced, words_and_wholes

READ_PASSAGES = 5
"""Passages whose sentences are read, the best first: as many as a question finds unless it says otherwise."""
MOST_SENTENCES = 24
"""Sentences that are embedded, those with most of the question's words; each costs an embedding."""
NEAR_BEST = 0.08
"""A sentence this near the best one is quoted beside it."""
COSINE_SHARE = 0.6
_LEAST_WORDS = 2
_BELOW = " > "
"""Between the headings of a section."""
_DEFINED = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+(?:\*\*)?([`*])([^`*\n]+)\1")
_WHEN = re.compile(r"\W*(?:when|(?:on\s+)?(?:what|which)\s+(?:date|day))\b", re.IGNORECASE)
_RELEASED = "released published"
"""What a heading with a day says of the version that it names."""
_BY_LINE = frozenset({DocumentType.LOG, DocumentType.CODE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A unit of a passage: `text` is compared, `told` is shown, at `span` it stands. `source` counts from 1.

    `text` begins with the heading that the unit is below, unless that is the title.
    `overlap` is the share of the question's words, by rarity; `handicap` what it takes to be chosen before a sentence.
    """

    source: int
    place: int
    text: str
    told: str
    span: Span
    overlap: float
    beyond: float
    handicap: float = 0.0
    keyed: bool = False
    """It is a row about what is asked."""
    exact: bool = False
    """It is listed under the name that is asked for, and has all other words of the question, too."""
    listed: Listed | None = None
    """The items of a list that it tells."""
    weighed: bool = True
    """Whether it can answer by itself, and not only in place of a part of it."""
    of_heading: bool = False
    """Whether more of the question stands above it than in it."""


HANDICAPS: Final = {
    UnitKind.SENTENCE: 0.0,
    UnitKind.FRAGMENT: NEAR_BEST,
    UnitKind.ROW: 0.15,
    UnitKind.CODE: 0.15,
    UnitKind.QUESTION: math.inf,
    UnitKind.STEPS: math.inf,
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
        asked_for = counted(text)
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
        if told and self.rarity and all(self.told_in(told, term) for term in self.rarity):
            return ASKED_FOR if len(self.rarity) > 1 and len(told) < 2 * len(self.rarity) else 0.0
        if self._identifiers.intersection(words_and_wholes(unit.key)[1]):
            return 0.0
        return HANDICAPS[unit.kind]

    def asks_for(self, row: Unit, around: Mapping[int, int]) -> bool:
        """Return whether a row is about what is asked, with its cells below the names of columns that are asked for.

        `around`: the words of the row and of what is above it.
        """
        keys = [term_counts(each) for each in (row.key, *self._codes_of(row))]
        asked = any(told and told.keys() <= self._said for told in keys)
        return asked and all(self.told_in(around, term) for term in self.rarity)

    def _codes_of(self, row: Unit) -> Iterator[str]:
        """Yield the cells of a row that have a number: what is known by its ticket is asked for by that."""
        cells = (each.rpartition(": ")[2] for each in row.told.split("; "))
        return (each for each in cells if any(map(str.isdigit, each)))

    def defined(self, unit: Unit, around: Mapping[int, int]) -> bool:
        """Return whether an item of a list begins with the very setting that is asked for, and says what it is."""
        found = _DEFINED.match(unit.told)
        told = term_counts(found[2]) if found else {}
        return bool(told) and told.keys() <= self._said and all(self.told_in(around, term) for term in self.rarity)

    def of_another(self, unit: Unit, path: str, around: str) -> bool:
        """Return whether a text, with what stands before it, tells nothing of something that the question names.

        Nor does what says nothing of money tell a price.
        """
        if self._price and not tells_a_price(f"{path}\n{unit.told}"):
            return True
        text = f"{around}\n{unit.told}"
        return any(not self._tells_of(text, name) for name in self.names)

    def _tells_of(self, text: str, name: tuple[str, ...]) -> bool:
        if tells_of(text, name):
            return True
        told = term_counts(text)
        return any(self.told_in(told, term) for word in name for term in term_counts(word) if term in self._forms)

    def of_row(self, terms: Mapping[int, int], own: Mapping[int, int], above: Mapping[int, int]) -> Mapping[int, int]:
        """Return the words of a row that count: `own` alone where none of its cells says which row is asked for.

        The names of columns are those of all rows: of the port of what is not listed no row tells.
        """
        cells = [term for term in self.rarity if self.told_in(own, term) and not self.told_in(above, term)]
        listed = cells or all(self.told_in({**above, **terms}, term) for term in self.rarity)
        return terms if listed else own

    def echoed(self, unit: Unit) -> bool:
        """Return whether a unit shows the question itself, as an example of what may be asked."""
        return unit.kind is UnitKind.CODE and len(self._words) > 1 and f" {self._words} " in f" {_plain(unit.told)} "

    def share(self, terms: Mapping[int, int], *, without: Mapping[int, int] | None = None) -> float:
        """Return the share of the question's words among some terms; `without` those that are known anyway."""
        asked = {term: weight for term, weight in self.rarity.items() if not without or not self.told_in(without, term)}
        total = sum(asked.values())
        return sum(weight for term, weight in asked.items() if self.told_in(terms, term)) / total if total else 0.0

    def told_in(self, terms: Mapping[int, int], term: int) -> bool:
        """Return whether a word of the question is among some terms, in whatever form."""
        return any(form in terms for form in self._forms[term])

    def of_heading(self, above: Mapping[int, int], terms: Mapping[int, int]) -> bool:
        """Return whether more of the question's words stand above a text than in it alone."""
        headed = self.share(above)
        return headed > 0 and headed > self.share({**above, **terms}) - headed


def read_sentences(question: Question, evidence: Sequence[Evidence]) -> list[Sentence]:
    """Return the sentences of the best passages, in order, each once, and what else of them can answer."""
    found: dict[str, Sentence] = {}
    settings = _settings(evidence[:READ_PASSAGES])
    for source, each in enumerate(evidence[:READ_PASSAGES], 1):
        title = term_counts(each.passage.title)
        sections = _sections(each)
        by_line = each.passage.document_type in {DocumentType.CONFIG, *_BY_LINE}
        setting = each.passage.document_type is DocumentType.CONFIG  # which may be written without a blank
        for place, unit in enumerate(_units(each)):
            if (_is_a_word(unit.read) and not setting) or question.echoed(unit):
                continue
            heading = next(name for start, name in reversed(sections) if start <= unit.span.start)
            path = _path_to(each, heading)
            within = settings.get(each.passage.document_id)
            places = f" {within.places}" if within else ""
            if apart(question.text, f"{each.passage.title}{places}\n{path}", unit.told):
                continue
            if within and within.another(unit.told, question):
                continue
            if not by_line and question.of_another(unit, path, _before(each, unit, sections, path)):
                continue
            if any(map(numbered, path.split(_BELOW))):  # "Changed" alone does not say of which version
                heading = path
            read = f"{heading}: {unit.read}" if heading else unit.read
            terms: Mapping[int, int] = term_counts(
                f"{read} {_RELEASED}" if question.asks_when and dated(path) else read
            )
            above = term_counts(f"{each.passage.title}\n{path}")
            handicap = question.handicap(unit)
            keyed = exact = False
            if unit.kind is UnitKind.ROW:
                exact = question.asks_for(unit, {**above, **terms})
                keyed = handicap <= 0 or exact
                terms = question.of_row(terms, term_counts(f"{heading}\n{each.text[slice(*unit.span)]}"), above)
            elif question.defined(unit, {**above, **terms}):
                keyed = exact = True
            found.setdefault(
                read,
                Sentence(
                    source=source,
                    place=place,
                    text=read[:MOST_CHARS],
                    told=f"{heading}: {unit.told}" if any(map(numbered, heading.split(_BELOW))) else unit.told,
                    span=unit.span,
                    overlap=question.share(terms),
                    beyond=question.share(terms, without=title),
                    handicap=handicap,
                    keyed=keyed,
                    exact=exact and len(question.rarity) > 1,
                    listed=unit.listed,
                    weighed=unit.kind is not UnitKind.STEPS,
                    of_heading=question.of_heading(above, terms),
                ),
            )
    return list(found.values())


def _before(evidence: Evidence, unit: Unit, sections: Sequence[tuple[int, str]], path: str) -> str:
    """Return what says what a unit is about: titles, headings, and its section before it; of a table no other row."""
    start = max(start for start, _ in sections if start <= unit.span.start)
    lines = evidence.text[start : unit.span.start].splitlines()
    if unit.kind is UnitKind.ROW:
        lines = [each for each in lines if not each.lstrip().startswith("|")]
    return "\n".join([evidence.passage.title, evidence.passage.section or "", path, *lines])


def _is_a_word(text: str) -> bool:
    return len(text.split()) < _LEAST_WORDS and not unspaced(text)


def _sections(evidence: Evidence) -> list[tuple[int, str]]:
    """Return where the sections of a passage begin, the first at 0, and their headings; none stands for the title.

    What "Open it slowly." is about, only its heading says.
    """
    passage = evidence.passage
    if passage.document_type is not DocumentType.MARKDOWN:
        return [(0, "")]
    innermost = (passage.section or "").rpartition(_BELOW)[2]
    named = [(0, innermost), *((each.start, each.title) for each in headings(evidence.text, _begin(evidence)))]
    return [(start, "" if name == passage.title else name) for start, name in named]


def _path_to(evidence: Evidence, heading: str) -> str:
    """Return a heading with those above it, but for the title; by itself where the passage does not say which."""
    passage = evidence.passage
    names = (passage.section or "").split(_BELOW)
    if not heading or passage.document_type is not DocumentType.MARKDOWN or heading not in names:
        return heading
    above = names[: names.index(heading) + 1]
    return _BELOW.join(above[1:] if above[0] == passage.title else above)


def _units(evidence: Evidence) -> Iterator[Unit]:
    text = evidence.text
    if evidence.passage.document_type is DocumentType.CONFIG:
        for span, told in config_lines(text):
            yield Unit(span=span, told=told, read=told, kind=UnitKind.SENTENCE)
    elif evidence.passage.document_type in _BY_LINE:
        yield from (
            Unit(span=span, told=line, read=line, kind=UnitKind.SENTENCE)
            for span in sentences(text, by_line=True)
            if not (line := text[span.start : span.end]).startswith("#")
        )
    else:
        start = _begin(evidence)
        yield from units("\n" * start + text[start:], evidence.passage.function or "")


def _settings(evidence: Sequence[Evidence]) -> dict[DocumentId, Settings]:
    """Return what the configurations among passages set, as far as these have it."""
    lines: dict[DocumentId, list[str]] = {}
    titles: dict[DocumentId, str] = {}
    for each in evidence:
        if each.passage.document_type is DocumentType.CONFIG:
            titles[each.passage.document_id] = each.passage.title
            lines.setdefault(each.passage.document_id, []).extend(unit.told for unit in _units(each))
    return {document: Settings(titles[document], told) for document, told in lines.items()}


def _begin(evidence: Evidence) -> int:
    """Return where a passage begins behind front matter, which only the first one of a document can have."""
    headed = evidence.passage.document_type is DocumentType.MARKDOWN and not evidence.passage.char_start
    return front_matter_end(evidence.text) if headed else 0


def likeliest(found: Sequence[Sentence]) -> list[Sentence]:
    """Return those that are worth an embedding: with most of the question's words, the best passage's first."""
    able = (each for each in found if each.weighed)
    return sorted(able, key=lambda each: (-each.overlap, each.source, each.place))[:MOST_SENTENCES]


def worth(overlap: float, cosine: float) -> float:
    """Return how well a sentence answers."""
    return COSINE_SHARE * cosine + (1 - COSINE_SHARE) * overlap


def first_told(question: Question, evidence: Sequence[Evidence]) -> int:
    """Return the number of the best passage, from 1: of those that do not show the question itself, where any is left.

    Such a passage is about asking, and near any question that it shows.
    """
    for source, each in enumerate(evidence[:READ_PASSAGES], 1):
        if not any(question.echoed(unit) for unit in _units(each)):
            return source
    return 1


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
