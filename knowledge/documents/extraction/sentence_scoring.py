"""Candidate sentences of passages, and the share of the question's words that each has; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hardwon.models.documents import DocumentId, DocumentType
from knowledge.documents.extraction.config_conflicts import Settings
from knowledge.documents.extraction.question_terms import Question
from knowledge.documents.extraction.scope_conflicts import (
    contradicts_question,
    names_version_and_date,
    names_version_or_date,
)
from knowledge.documents.parsing.decode import front_matter_end
from knowledge.documents.parsing.headings import BELOW, headings
from knowledge.documents.parsing.sentences import sentences
from knowledge.documents.segmentation.config_lines import config_lines
from knowledge.documents.segmentation.segments import Unit, UnitKind
from knowledge.documents.segmentation.units import units
from knowledge.documents.verification.verify import MAX_CLAIM_CHARS, Evidence
from knowledge.text.alignment import Span
from knowledge.text.bm25 import has_unspaced_script, term_counts

READ_PASSAGES = 5
"""Passages whose sentences are read, the best first: as many as a question finds unless it says otherwise."""
MAX_SENTENCES = 24
"""Sentences that are embedded, those with most of the question's words; each costs an embedding."""
COSINE_SHARE = 0.6
_MIN_WORDS = 2
_RELEASED = "released published"
"""What a heading with a day says of the version that it names."""
_MAX_CHARS_BEFORE = 4_000
"""Characters of a section before a unit that may say what it is about: a document given whole may have millions."""
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


def read_sentences(question: Question, evidence: Sequence[Evidence]) -> list[Sentence]:
    """Return the sentences of the best passages, in order, each once, and what else of them can answer."""
    found: dict[str, Sentence] = {}
    settings = _settings(evidence[:READ_PASSAGES])
    for source, each in enumerate(evidence[:READ_PASSAGES], 1):
        title = term_counts(each.passage.title)
        sections = _sections(each)
        setting = each.passage.document_type is DocumentType.CONFIG  # which may be written without a blank
        for place, unit in enumerate(_units(each)):
            if (_is_a_word(unit.read) and not setting) or question.shows_question(unit):
                continue
            heading = next(name for start, name in reversed(sections) if start <= unit.span.start)
            path = _path_to(each, heading)
            within = settings.get(each.passage.document_id)
            places = f" {within.places}" if within else ""
            if contradicts_question(question.text, f"{each.passage.title}{places}\n{path}", unit.told) or (
                within.another(unit.told, question)
                if within
                else each.passage.document_type not in _BY_LINE and _tells_nothing(question, each, unit, sections, path)
            ):
                continue
            if any(map(names_version_or_date, path.split(BELOW))):  # "Changed" alone does not say of which version
                heading = path
            read = f"{heading}: {unit.read}" if heading else unit.read
            terms: Mapping[int, int] = term_counts(
                f"{read} {_RELEASED}" if question.asks_when and names_version_and_date(path) else read
            )
            above = term_counts(f"{each.passage.title}\n{path}")
            handicap = question.handicap(unit)
            keyed = False
            if unit.kind is UnitKind.ROW:
                keyed = handicap <= 0 or question.asks_for(unit, {**above, **terms})
                terms = question.of_row(terms, term_counts(f"{heading}\n{each.text[slice(*unit.span)]}"), above)
            found.setdefault(
                read,
                Sentence(
                    source=source,
                    place=place,
                    text=read[:MAX_CLAIM_CHARS],
                    told=f"{heading}: {unit.told}"
                    if any(map(names_version_or_date, heading.split(BELOW)))
                    else unit.told,
                    span=unit.span,
                    overlap=question.share(terms),
                    beyond=question.share(terms, without=title),
                    handicap=handicap,
                    keyed=keyed,
                ),
            )
    return list(found.values())


def _tells_nothing(
    question: Question, evidence: Evidence, unit: Unit, sections: Sequence[tuple[int, str]], path: str
) -> bool:
    """Return whether a unit is about another name than the question's, or tells no price though one is asked."""
    if question.of_no_price(f"{path}\n{unit.told}"):
        return True
    return bool(question.names) and question.of_another(f"{_before(evidence, unit, sections, path)}\n{unit.told}")


def _before(evidence: Evidence, unit: Unit, sections: Sequence[tuple[int, str]], path: str) -> str:
    """Return what says what a unit is about: titles, headings, and its section before it; of a table no other row."""
    start = max(start for start, _ in sections if start <= unit.span.start)
    start = max(start, unit.span.start - _MAX_CHARS_BEFORE)
    lines = evidence.text[start : unit.span.start].splitlines()
    if unit.kind is UnitKind.ROW:
        lines = [each for each in lines if not each.lstrip().startswith("|")]
    return "\n".join([evidence.passage.title, evidence.passage.section or "", path, *lines])


def _is_a_word(text: str) -> bool:
    return len(text.split()) < _MIN_WORDS and not has_unspaced_script(text)


def _sections(evidence: Evidence) -> list[tuple[int, str]]:
    """Return where the sections of a passage begin, the first at 0, and their headings; none stands for the title.

    What "Open it slowly." is about, only its heading says.
    """
    passage = evidence.passage
    if passage.document_type is not DocumentType.MARKDOWN:
        return [(0, "")]
    innermost = (passage.section or "").rpartition(BELOW)[2]
    named = [(0, innermost), *((each.start, each.title) for each in headings(evidence.text, _begin(evidence)))]
    return [(start, "" if name == passage.title else name) for start, name in named]


def _path_to(evidence: Evidence, heading: str) -> str:
    """Return a heading with those above it, but for the title; by itself where the passage does not say which."""
    passage = evidence.passage
    names = (passage.section or "").split(BELOW)
    if not heading or passage.document_type is not DocumentType.MARKDOWN or heading not in names:
        return heading
    above = names[: names.index(heading) + 1]
    return BELOW.join(above[1:] if above[0] == passage.title else above)


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
    return sorted(found, key=lambda each: (-each.overlap, each.source, each.place))[:MAX_SENTENCES]


def worth(overlap: float, cosine: float) -> float:
    """Return how well a sentence answers."""
    return COSINE_SHARE * cosine + (1 - COSINE_SHARE) * overlap


def first_told(question: Question, evidence: Sequence[Evidence]) -> int:
    """Return the number of the best passage, from 1: of those that do not show the question itself, where any is left.

    Such a passage is about asking, and near any question that it shows.
    """
    for source, each in enumerate(evidence[:READ_PASSAGES], 1):
        if not any(question.shows_question(unit) for unit in _units(each)):
            return source
    return 1
