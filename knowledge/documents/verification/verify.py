"""Verify the claims of a draft against their sources; pure.

This proves that a quote is real, that every number, code, path and name of a claim occurs in the quoted source, and
that each of its words stands in the quoted sentences in some form, and a negation in both or in neither; else those
sentences are shown instead of the claim. It does not prove that the claim follows from the quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from hardwon.models.documents import LogLine, Passage, PassageId, PassageKind
from hardwon.text.invisible import visible_text
from knowledge.documents.models import Claim, Quote
from knowledge.documents.parsing.log_lines import moment
from knowledge.documents.parsing.sentences import sentences
from knowledge.documents.verification.injection import gives_orders, without_orders
from knowledge.text.alignment import NormalizedText, Span, align
from knowledge.text.bm25 import stem, words_and_wholes
from knowledge.text.names import LETTERS, find_invented, normalize_typography

MIN_SHARED_WORDS = 0.5
"""Minimum share of a claim's words that occur in its sources or in the question."""

MAX_CLAIM_CHARS = 1_200
"""A claim is a sentence or a list item, not an essay."""

MAX_QUOTE_CHARS = 4_000
"""What a claim may have at most that is nothing but its quotes."""

_MIN_PREFIX = 5
"""Letters that two stems must share from their beginning on where one begins the other."""
_CONNECTING_STEMS = (
    "accord also although another because between both come each either etc ever follow get give go henc howev make"
    " may might must need onli other per same say shall sinc state still such then there therefor thus upon use via"
    " when whenev wherea whether while within yet"
)
_CONNECTING = frozenset(_CONNECTING_STEMS.split())
"""Stems of words that only connect what a claim says, and of verbs that say little."""

REDACTED_ORDER = "(left out: it reads like an order)"
"""Replaces the text of a log line that gives orders."""

_NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen twice"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_DIGITS = {word: str(number) for number, word in enumerate(_NUMBERS.split()[:19], 2)}
_DIGITS |= {word: str(number * 10) for number, word in enumerate(_TENS.split(), 3)}
_DIGITS_OF_STEMS = {stem(word): digits for word, digits in _DIGITS.items()}
_NUMBER_WORDS = frozenset(_NUMBERS.split())
_NEGATION = re.compile(r"\b(?:not|no|never|none|nothing|neither|nor|cannot|without)\b|n't\b", re.IGNORECASE)
_FENCE = re.compile(r"`{3,}\w*")
_MARKS = re.compile(r"\*\*|\[\d+\]|^\s*(?:\d{1,2}[.)]|[-*+])\s+|\s__|__\s|(?<=\d)T(?=\d)|(?<=\d)Z(?:\b|(?=__\s))")
"""Markup, and the letters within and behind a time."""
_QUOTED = re.compile(r"\"([^\"\n]{3,})\"")
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^\s)]{1,2000})\)")
_UNIT = re.compile(r"(?<=\d)(?=(?:ms|s|sec|min|h|[kmgt]i?b|k|px|[kmg]?hz|k?g|[kcm]?m|[kmx])\b)", re.IGNORECASE)
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftClaim:
    """A claim of a draft: its text, its quotes by source number, and the span that matched best in its last quote.

    `names` are words that its quote has by where it stands, such as names of columns; they stand in the source, too.
    """

    text: str
    quotes: tuple[tuple[int, str], ...]
    names: str = ""
    marked: tuple[int, int] | None = None


class Evidence:
    """A passage as claims are verified against it: the stored text without orders to a model.

    Computed texts have no paragraphs: only the lines that give orders are masked, not their numbers.
    `header` is the metadata that the model was shown with the passage, such as its lines and time.
    """

    def __init__(self, passage: Passage, text: str, *, header: str = "") -> None:
        self.passage = passage
        self.text = _mask_orders(passage, text) if passage.kind is PassageKind.COMPUTED else without_orders(text)
        beside = [passage.title, passage.name, passage.section or "", passage.function or "", header]
        self._beside = "\n".join(part for part in beside if part and not gives_orders(part))

    @cached_property
    def plain(self) -> NormalizedText:
        """The normalized text in which quotes are searched."""
        return NormalizedText(self.text)

    @cached_property
    def context_text(self) -> str:
        """Normalized text and metadata: the source of a claim's names and numbers."""
        return _normalize(f"{self._beside}\n{self.text}")

    @cached_property
    def bare_words(self) -> str:
        """Its words without punctuation."""
        return _words_only(self.context_text)

    @cached_property
    def words(self) -> frozenset[str]:
        """Its stems."""
        return frozenset(stems_of(self.context_text))

    @cached_property
    def sentences(self) -> Sequence[Span]:
        """The spans of its sentences."""
        return list(sentences(self.text))

    def whole_sentences(self, span: Span) -> Span:
        """Return a span widened to the sentences that it is part of."""
        own = [each for each in self.sentences if each.start < span.end and span.start < each.end]
        whole = Span(min([span.start, *(each.start for each in own)]), max([span.end, *(each.end for each in own)]))
        return whole if whole.end - whole.start <= MAX_QUOTE_CHARS else span

    def quoted_text(self, span: Span) -> str:
        """Return the normalized sentences that a span is part of, and the names of the document and its sections."""
        return _normalize(f"{self._beside}\n{self.text[slice(*self.whole_sentences(span))]}")

    def find_quote(self, quote: str) -> Span | None:
        """Return the span of a quote in the text, None if it is absent or not evidence."""
        return align(quote, self.plain) if self.passage.quotable else None

    def place(self, start: int, quote: str) -> tuple[int | None, int | None, datetime | None]:
        """Return the first and last line of a quote in its document, and its timestamp.

        The timestamp is that of the line in which the quote begins, if it has one, not that of the passage.
        """
        passage, begins = self.passage, self.text.rfind("\n", 0, start) + 1
        before, more = self.text[:begins].count("\n"), quote.count("\n")
        if passage.kind is PassageKind.COMPUTED:
            rows = [row for row in passage.rows[before : before + more + 1] if row is not None]
            if rows:
                return rows[0].line, rows[-1].line, rows[0].timestamp
            return passage.line_start, passage.line_end, passage.timestamp
        first_line = self.text[begins:].partition("\n")[0] if passage.timestamp else ""
        line = None if passage.line_start is None else passage.line_start + before
        last = None if line is None else line + more
        return line, last, moment(first_line, now=passage.until or passage.timestamp)


def _mask_orders(passage: Passage, text: str) -> str:
    """Return a computed text with the lines masked that give orders.

    Otherwise one hostile log line would remove the whole paragraph with the numbers of all others.
    """
    if not gives_orders(text):
        return text
    lines = text.split("\n")
    rows = [*passage.rows[: len(lines)], *[None] * (len(lines) - len(passage.rows))]
    masked = [_mask_line(line, row) if gives_orders(line) else line for line, row in zip(lines, rows, strict=True)]
    return without_orders("\n".join(masked))


def _mask_line(line: str, row: LogLine | None) -> str:
    """Return a line with its number alone, or blank if it does not quote a document line."""
    before = line.removesuffix(row.text) if row and row.text else line
    return " " * len(line) if before == line or gives_orders(before) else before + REDACTED_ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The verified claims, their quotes as in the documents, and the faults of the others."""

    claims: tuple[Claim, ...]
    spans: Mapping[tuple[PassageId, str], Span]
    faults: tuple[str, ...]


def claims_per_line(number: int, evidence: Evidence) -> list[DraftClaim]:
    """Return each line of a computed passage as a claim that quotes it; `number`: its number as a source."""
    lines = evidence.text.split("\n")  # other line separators are part of a log line
    texts = [text for line in lines if (text := line.strip()[:MAX_CLAIM_CHARS])]
    return [DraftClaim(text=text, quotes=((number, text),)) for text in texts]


def add_listings(verified: Verified, evidence: Sequence[Evidence], question: str) -> Verified:
    """Return the claims with all lines of the lists they refer to: a model cannot write all of them.

    A claim refers to a list if it quotes it, or another computed passage of the same log.
    """
    quotes = [quote for claim in verified.claims for quote in claim.quotes]
    quoted = {quote.passage_id for quote in quotes}
    computed = [each.passage for each in evidence if each.passage.kind is PassageKind.COMPUTED]
    cited = {passage.document_id for passage in computed if passage.passage_id in quoted}
    claims, spans = list(verified.claims), dict(verified.spans)
    for number, each in enumerate(evidence, 1):
        if not each.passage.listing or each.passage.document_id not in cited:
            continue
        quoted_lines = [quote.text.split("\n") for quote in quotes if quote.passage_id == each.passage.passage_id]
        present = {line.strip() for lines in quoted_lines for line in lines}
        rest = [line for line in claims_per_line(number, each) if line.text not in present]
        more = verify(rest, evidence, question)
        claims += more.claims
        spans |= more.spans
    return Verified(claims=tuple(claims), spans=spans, faults=verified.faults)


def verify(written: Sequence[DraftClaim], evidence: Sequence[Evidence], question: str) -> Verified:
    """Return the verified claims; sources are numbered from 1, in the order of `evidence`."""
    claims: list[Claim] = []
    faults: list[str] = []
    spans: dict[tuple[PassageId, str], Span] = {}
    question_stems = frozenset(map(stem, words_and_wholes(question)[0]))
    for at, claim in enumerate(written, 1):
        cited, missing = _resolve_quotes(claim, evidence)
        fault = next(_faults(claim, cited, missing, question_stems), None)
        if fault is not None:
            faults.append(f"claim {at}: {fault}")
            continue
        told = claim.text if _is_said(claim, cited) else None
        cited = cited if told is not None else [(source, source.whole_sentences(span)) for source, span in cited]
        quotes: dict[Quote, None] = {}
        for source, span in cited:
            quote = Quote(passage_id=source.passage.passage_id, text=source.text[span.start : span.end])
            quotes[quote] = None
            spans[quote.passage_id, quote.text] = span
        text = "\n".join(quote.text for quote in quotes) if told is None else told
        marked = _marked_in(claim, [quote.text for quote in quotes])
        claims.append(Claim(text=text.strip(), quotes=tuple(quotes), marked=marked))
    return Verified(claims=tuple(claims), spans=spans, faults=tuple(faults))


def _is_said(claim: DraftClaim, cited: Sequence[tuple[Evidence, Span]]) -> bool:
    """Return whether each word of a claim stands in the sentences it quotes, or in the names of their document.

    Else it may say the opposite with a true quote: promoted where that says demoted. So it may if one of them denies
    something alone. A block of a document, and what was counted, are what they are.
    """
    repeats = _repeats(claim.text, cited)
    if (repeats and claim.marked) or any(source.passage.kind is PassageKind.COMPUTED for source, _ in cited):
        return True
    whole = "\n".join(source.text[slice(*source.whole_sentences(span))] for source, span in cited)
    if _denies(claim.text) is not _denies(whole):
        return False
    if repeats:
        return True
    quoted = "\n".join(source.quoted_text(span) for source, span in cited)
    known = frozenset[str]().union(*(source.words for source, _ in cited))
    stems = frozenset(stems_of(quoted)) | (known & frozenset(stems_of(claim.names)))
    joined = _words_only(quoted).replace(" ", "")
    return all(
        each in stems or each in _CONNECTING or each in joined or each.isdigit() or _has_form(each, stems)
        for each in stems_of(_normalize(claim.text))
    )


def _denies(text: str) -> bool:
    return _NEGATION.search(normalize_typography(text)) is not None


def _has_form(word: str, stems: frozenset[str]) -> bool:
    if _DIGITS_OF_STEMS.get(word, "") in stems:
        return True
    return len(word) >= _MIN_PREFIX and any(
        len(each) >= _MIN_PREFIX and (each.startswith(word) or word.startswith(each)) for each in stems
    )


def _repeats(text: str, cited: Sequence[tuple[Evidence, Span]]) -> bool:
    """Return whether a claim is nothing but what it quotes."""
    quoted = [source.text[span.start : span.end] for source, span in cited]
    if text in quoted or text == "\n".join(quoted):
        return True
    plain = [_without_edges(each) for each in (text, *quoted)]  # quotation marks at its ends are no part of a quote
    return plain[0] in plain[1:] or plain[0] == _without_edges("\n".join(quoted))


def _without_edges(text: str) -> str:
    return NormalizedText(text).text.strip("\"'. ")


def _marked_in(claim: DraftClaim, quotes: Sequence[str]) -> tuple[int, int] | None:
    """Return where the sentence that matched best stands in the last quote as it was found."""
    if claim.marked is None or not quotes:
        return None
    quote = quotes[-1]
    shift = max(claim.quotes[-1][1].find(quote), 0)
    start, end = (min(max(each - shift, 0), len(quote)) for each in claim.marked)
    return (start, end) if start < end else None


def accept_missing(missing: str, question: str) -> str:
    """Return what a model reports as missing, if it consists of the question's words; else "": no quote supports it."""
    text, source = _normalize(missing), _normalize(question)
    if len(missing) > MAX_CLAIM_CHARS or gives_orders(missing):
        return ""
    if any(find_invented(text.replace('"', " "), source.replace('"', " "))):
        return ""
    stems, source_stems = map(stems_of, (text, source))
    return missing if sum(each in source_stems for each in stems) >= MIN_SHARED_WORDS * len(stems) else ""


def _resolve_quotes(claim: DraftClaim, evidence: Sequence[Evidence]) -> tuple[list[tuple[Evidence, Span]], list[str]]:
    cited, missing = [], []
    for number, quote in claim.quotes:
        source = evidence[number - 1] if 0 < number <= len(evidence) else None
        span = source.find_quote(quote) if source else None
        if source is None:
            missing.append(f"there is no source {number}")
        elif span is None:
            missing.append(f"this is not in source {number}: {quote[:80]!r}")
        else:
            cited.append((source, span))
    return cited, missing


def _faults(
    claim: DraftClaim, cited: Sequence[tuple[Evidence, Span]], missing: Sequence[str], question_stems: frozenset[str]
) -> Iterator[str]:
    """Yield the faults of a claim, the gravest first."""
    most = MAX_QUOTE_CHARS if _repeats(claim.text, cited) else MAX_CLAIM_CHARS
    if not claim.text.strip() or len(claim.text) > most:
        yield f"its text has {len(claim.text)} characters, of at most {most}"
    if not cited:
        yield missing[0] if missing else "it has no quote"
        return
    if gives_orders(claim.text):
        yield "it reads like an order to a model"
    if _repeats(claim.text, cited):
        return  # the claim is its quote; checking each line against a whole list takes seconds
    text = _normalize(claim.text)
    yield from _find_unsupported(text, cited)
    stems = stems_of(text)
    shared = question_stems.union(*(source.words for source, _ in cited))
    if stems and sum(each in shared for each in stems) < MIN_SHARED_WORDS * len(stems):
        yield "it says other things than what it quotes"


def _find_unsupported(text: str, cited: Sequence[tuple[Evidence, Span]]) -> Iterator[str]:
    """Yield a fault for each name, number or quoted word of a claim that does not occur in its sources."""
    source_text = "\n".join(source.context_text for source, _ in cited)
    for quoted in _QUOTED.findall(text):
        if not any(_words_only(quoted) in source.bare_words for source, _ in cited):
            yield f"{quoted[:60]!r} does not stand where it quotes from"
    for name in find_invented(text.replace('"', " "), source_text.replace('"', " ")):
        yield f"{name[:60]!r} does not stand where it quotes from"
    source_words = frozenset(word.lower() for word in LETTERS.findall(source_text))
    figures = frozenset(re.findall(r"\d+", source_text))
    for word in map(str.lower, LETTERS.findall(text)):
        if word in _NUMBER_WORDS and word not in source_words and _DIGITS.get(word, "") not in figures:
            yield f"{word!r} does not stand where it quotes from"


def _normalize(text: str) -> str:
    """Return a text with times, large numbers, links and markup normalized, to compare its names."""
    plain = _FENCE.sub(" ", normalize_typography(visible_text(text))).replace("``", '"').replace("''", '"')
    plain = _LINK.sub(r"\1 \2", plain)
    return _UNIT.sub(" ", _GROUPED.sub("", _MARKS.sub(" ", plain)))


def stems_of(text: str) -> list[str]:
    """Return the stems of the words of a text, in order."""
    return [stem(word) for word in words_and_wholes(text)[0]]


def _words_only(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
