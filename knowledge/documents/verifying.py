"""What of an answer may stand: claims whose quotes are in what was found and that name nothing else; pure.

This proves that a quote is real, that every number, code, path and name of a claim stands where it was quoted from, and
that the claim is mostly of the same words. It does not prove that the claim follows from the quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from knowledge.documents.aligning import Plain, Span, align
from knowledge.documents.denying import NEGATIONS, Said, said, stems_of
from knowledge.documents.log_lines import moment
from knowledge.documents.models import Claim, LogLine, Passage, PassageId, PassageKind, Quote
from knowledge.documents.orders import gives_orders, without_orders
from knowledge.documents.sentences import sentences
from knowledge.search.lexical import stem, words_and_wholes
from knowledge.search.naming import find_invented, normalize_typography
from knowledge.unseen import visible_text

SAME_WORDS = 0.5
"""Share of a claim's words that must stand in what it was quoted from or in the question."""

MOST_CHARS = 1_200
"""A claim is a sentence or a list item, no essay."""

LEFT_OUT = "(left out: it reads like an order)"
"""Stands for what a line of a log says that gives orders."""

_NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen twice"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_DIGITS = {word: str(number) for number, word in enumerate(_NUMBERS.split()[:19], 2)}
_DIGITS |= {word: str(number * 10) for number, word in enumerate(_TENS.split(), 3)}
_COUNTS = frozenset(_NUMBERS.split())
_DENIED = "it leaves out that this is denied where it quotes from"
_WORD = re.compile(r"[^\W\d_]+")
_TIME = re.compile(r"(?<=\d)T(?=\d)|(?<=\d)Z\b")
_FENCE = re.compile(r"`{3,}\w*")
_MARKS = re.compile(r"\*\*|\[\d+\]|^\s*(?:\d{1,2}[.)]|[-*+])\s+|\s__|__\s")
_QUOTED = re.compile(r"\"([^\"\n]{3,})\"")
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^\s)]{1,2000})\)")
_UNIT = re.compile(r"(?<=\d)(?=(?:ms|s|sec|min|h|[kmgt]i?b|k|px|[kmg]?hz|k?g|[kcm]?m|[kmx])\b)", re.IGNORECASE)
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A claim as it was written: its text, and what it says it quotes, by the number of the source it was shown as."""

    text: str
    quotes: tuple[tuple[int, str], ...]


class Evidence:
    """A passage as quotes and claims are held against it: the stored text without what gives orders to a model.

    What was counted or listed has no paragraphs: of it only the lines that give orders are left out, not their numbers.
    `header` is what the model was told of the passage beside its text, such as its lines and time.
    """

    def __init__(self, passage: Passage, text: str, *, header: str = "") -> None:
        self.passage = passage
        self.text = _obeying_none(passage, text) if passage.kind is PassageKind.COMPUTED else without_orders(text)
        beside = [passage.title, passage.name, passage.section or "", passage.function or "", header]
        self._beside = "\n".join(part for part in beside if part and not gives_orders(part))

    @cached_property
    def plain(self) -> Plain:
        """The text as quotes are looked for in it."""
        return Plain(self.text)

    @cached_property
    def named(self) -> str:
        """All that a claim may take names and numbers from."""
        return _settled(f"{self._beside}\n{self.text}")

    @cached_property
    def bare(self) -> str:
        """The words of all of it, without what stands between them."""
        return _without_points(self.named)

    @cached_property
    def words(self) -> frozenset[str]:
        """The stems of all of it."""
        return frozenset(stems_of(self.named))

    @cached_property
    def sentences(self) -> Sequence[Said]:
        """The sentences of the text, and what each denies."""
        return [said(_settled(self.text[span.start : span.end]), span) for span in sentences(self.text)]

    def found(self, quote: str) -> Span | None:
        """Return where a quote stands in the text, None where it is no evidence."""
        return align(quote, self.plain) if self.passage.quotable else None

    def place(self, start: int, quote: str) -> tuple[int | None, int | None, datetime | None]:
        """Return the first and last line of a quote and its moment; lines of a computed text are not the document's.

        The moment is that of the line in which it begins, where that names one: the passage began at another.
        """
        passage, begins = self.passage, self.text.rfind("\n", 0, start) + 1
        before, more = self.text[:begins].count("\n"), quote.count("\n")
        if passage.kind is PassageKind.COMPUTED:
            rows = [row for row in passage.rows[before : before + more + 1] if row is not None]
            if rows:
                return rows[0].line, rows[-1].line, rows[0].timestamp
            return passage.line_start, passage.line_end, passage.timestamp
        said = self.text[begins:].partition("\n")[0] if passage.timestamp else ""
        line = None if passage.line_start is None else passage.line_start + before
        last = None if line is None else line + more
        return line, last, moment(said, now=passage.until or passage.timestamp)


def _obeying_none(passage: Passage, text: str) -> str:
    """Return a computed text without what lines that give orders say.

    One hostile line of a log would otherwise take the numbers of all others along.
    """
    if not gives_orders(text):
        return text
    lines = text.split("\n")
    rows = [*passage.rows[: len(lines)], *[None] * (len(lines) - len(passage.rows))]
    told = [_unheeded(line, row) if gives_orders(line) else line for line, row in zip(lines, rows, strict=True)]
    return without_orders("\n".join(told))


def _unheeded(line: str, row: LogLine | None) -> str:
    """Return a line with its number alone, or blank where it tells of no line of a document."""
    before = line.removesuffix(row.text) if row and row.text else line
    return " " * len(line) if before == line or gives_orders(before) else before + LEFT_OUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The claims that stand, their quotes as the documents have them, and what was wrong with the others."""

    claims: tuple[Claim, ...]
    spans: Mapping[tuple[PassageId, str], Span]
    faults: tuple[str, ...]


def lines_told(number: int, evidence: Evidence) -> list[Written]:
    """Return each line of a computed passage as a claim that quotes it; `number`: its place among the evidence."""
    lines = evidence.text.split("\n")  # what else may break a line is part of it in a log
    told = [text for line in lines if (text := line.strip()[:MOST_CHARS])]
    return [Written(text=text, quotes=((number, text),)) for text in told]


def with_listings(found: Verified, evidence: Sequence[Evidence], question: str) -> Verified:
    """Return the claims with all lines of the lists they are about: no model has the room to write all of them.

    A claim is about a list where it quotes it, or what else was counted in the same log.
    """
    quotes = [quote for claim in found.claims for quote in claim.quotes]
    quoted = {quote.passage_id for quote in quotes}
    computed = [each.passage for each in evidence if each.passage.kind is PassageKind.COMPUTED]
    cited = {passage.document_id for passage in computed if passage.passage_id in quoted}
    claims, spans = list(found.claims), dict(found.spans)
    for number, each in enumerate(evidence, 1):
        if not each.passage.listing or each.passage.document_id not in cited:
            continue
        told = [quote.text.split("\n") for quote in quotes if quote.passage_id == each.passage.passage_id]
        known = {line.strip() for lines in told for line in lines}
        rest = [line for line in lines_told(number, each) if line.text not in known]
        more = verify(rest, evidence, question)
        claims += more.claims
        spans |= more.spans
    return Verified(claims=tuple(claims), spans=spans, faults=found.faults)


def verify(written: Sequence[Written], evidence: Sequence[Evidence], question: str) -> Verified:
    """Return what may stand of the claims; sources count from 1, in the order of `evidence`."""
    claims: list[Claim] = []
    faults: list[str] = []
    spans: dict[tuple[PassageId, str], Span] = {}
    asked = frozenset(map(stem, words_and_wholes(question)[0]))
    for at, claim in enumerate(written, 1):
        cited, missing = _cited(claim, evidence)
        fault = next(_faults(claim, cited, missing, asked), None)
        if fault is not None:
            faults.append(f"claim {at}: {fault}")
            continue
        quotes: dict[Quote, None] = {}
        for source, span in cited:
            quote = Quote(passage_id=source.passage.passage_id, text=source.text[span.start : span.end])
            quotes[quote] = None
            spans[quote.passage_id, quote.text] = span
        claims.append(Claim(text=" ".join(claim.text.split(" ")).strip(), quotes=tuple(quotes)))
    return Verified(claims=tuple(claims), spans=spans, faults=tuple(faults))


def unanswered(missing: str, question: str) -> str:
    """Return what a model says its sources do not answer, if that is of the question; else nothing: none quotes it."""
    told, asked = _settled(missing), _settled(question)
    if len(missing) > MOST_CHARS or gives_orders(missing):
        return ""
    if any(find_invented(told.replace('"', " "), asked.replace('"', " "))):
        return ""
    stems, known = map(stems_of, (told, asked))
    return missing if sum(each in known for each in stems) >= SAME_WORDS * len(stems) else ""


def _cited(claim: Written, evidence: Sequence[Evidence]) -> tuple[list[tuple[Evidence, Span]], list[str]]:
    cited, missing = [], []
    for number, quote in claim.quotes:
        source = evidence[number - 1] if 0 < number <= len(evidence) else None
        span = source.found(quote) if source else None
        if source is None:
            missing.append(f"there is no source {number}")
        elif span is None:
            missing.append(f"this is not in source {number}: {quote[:80]!r}")
        else:
            cited.append((source, span))
    return cited, missing


def _faults(
    claim: Written, cited: Sequence[tuple[Evidence, Span]], missing: Sequence[str], asked: frozenset[str]
) -> Iterator[str]:
    """Yield what is wrong with a claim, the gravest first."""
    if not claim.text.strip() or len(claim.text) > MOST_CHARS:
        yield f"its text has {len(claim.text)} characters, of at most {MOST_CHARS}"
    if not cited:
        yield missing[0] if missing else "it has no quote"
        return
    if gives_orders(claim.text):
        yield "it reads like an order to a model"
    if any(source.text[span.start : span.end] == claim.text for source, span in cited):
        listed = any(source.passage.kind is PassageKind.COMPUTED for source, _ in cited)
        if not listed and _undenied(_settled(claim.text), cited):
            yield _DENIED
        return  # a line of a list says what it quotes; to look each up in all of the list takes seconds
    text = _settled(claim.text)
    yield from _unheard(text, cited)
    if NEGATIONS.search(text) and not any(NEGATIONS.search(source.named) for source, _ in cited):
        yield "it denies what is not denied where it quotes from"
    elif _undenied(text, cited):
        yield _DENIED
    stems = stems_of(text)
    shared = asked.union(*(source.words for source, _ in cited))
    if stems and sum(each in shared for each in stems) < SAME_WORDS * len(stems):
        yield "it says other things than what it quotes"


def _undenied(text: str, cited: Sequence[tuple[Evidence, Span]]) -> bool:
    """Return whether a claim says what its sources only deny.

    It is most of each sentence that has all its words, or a sentence that it quotes denies it and none that has as many
    of its words does not.
    """
    if NEGATIONS.search(text) or not any(NEGATIONS.search(source.named) for source, _ in cited):
        return False
    stems = frozenset(stems_of(text))
    sources = list(dict.fromkeys(source for source, _ in cited))
    every = [each for source in sources for each in source.sentences]
    whole = [each for each in every if stems and stems <= each.stems]
    if whole and all(each.repeats(stems) for each in whole):
        return True
    quoted = [each for source, span in cited for each in source.sentences if each.holds(span)]
    most = max((len(each.stems & stems) for each in quoted if each.denies(stems)), default=0)
    alike = [each for each in every if len(each.stems & stems) >= most]
    return most > SAME_WORDS * len(stems) and all(each.denies(stems) for each in alike)


def _unheard(text: str, cited: Sequence[tuple[Evidence, Span]]) -> Iterator[str]:
    """Yield that a claim names what does not stand where it quotes from: words in quotes, names, numbers."""
    told = "\n".join(source.named for source, _ in cited)
    for quoted in _QUOTED.findall(text):
        if not any(_without_points(quoted) in source.bare for source, _ in cited):
            yield f"{quoted[:60]!r} does not stand where it quotes from"
    for name in find_invented(text.replace('"', " "), told.replace('"', " ")):
        yield f"{name[:60]!r} does not stand where it quotes from"
    known = frozenset(word.lower() for word in _WORD.findall(told))
    figures = frozenset(re.findall(r"\d+", told))
    for word in map(str.lower, _WORD.findall(text)):
        if word in _COUNTS and word not in known and _DIGITS.get(word, "") not in figures:
            yield f"{word!r} does not stand where it quotes from"


def _settled(text: str) -> str:
    """Return a text with one form of times, large numbers, links and marks, for its names to be compared."""
    plain = _FENCE.sub(" ", normalize_typography(visible_text(text))).replace("``", '"').replace("''", '"')
    plain = _LINK.sub(r"\1 \2", plain)
    return _UNIT.sub(" ", _GROUPED.sub("", _TIME.sub(" ", _MARKS.sub(" ", plain))))


def _without_points(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
