"""Render answers: claims with citations in the form of each knowledge base, and refusals; pure."""

from __future__ import annotations

from collections.abc import Callable

from knowledge.documents.answering.profiles import KBConfig, lacking_words, metadata_of
from knowledge.documents.models import Answer, AnswerStatus, Citation, Claim

NOT_IN_THE_KNOWLEDGE_BASE = "I don't have information about this in the knowledge base"
"""The exact sentence of the strict knowledge base; nothing is added to it."""

GUIDANCE = (
    "The documentation does not answer this question with enough certainty. Check the wording, name the page or"
    " feature it is about, or ask support: the question was recorded for the documentation team."
)
"""Of the documentation subagent alone, which makes an escalation of the question."""
SELECTION_GUIDANCE = (
    "The documents do not answer this question with enough certainty. Check the wording, name the document, page or"
    " feature it is about, or ask support."
)
"""Promises nothing: that the question was asked is an event, and nobody's work."""

NOTHING_YET = "There are no documents yet, or none that you may read: add some with hardwon kb add, or ask for access."
STILL_INDEXING = "The documents are still being indexed: ask again in a moment."


def citation_lookup(answer: Answer) -> Callable[[Claim], list[Citation]]:
    """Return a function that returns the citations of a claim of an answer, in order."""
    places = {(each.passage_id, each.quote): at for at, each in enumerate(answer.citations)}

    def citations_of(claim: Claim) -> list[Citation]:
        quoted = {places.get((quote.passage_id, quote.text), -1) for quote in claim.quotes}
        return [answer.citations[at] for at in sorted(quoted) if at >= 0]

    return citations_of


def render_for_base(config: KBConfig, answer: Answer, partition: str) -> str:
    """Return the text of an answer of one knowledge base: each claim with its citations, and the footer."""
    if answer.status is not AnswerStatus.ANSWERED:
        return config.nothing(answer)
    lines = []
    citations_of = citation_lookup(answer)
    for claim in answer.claims:
        places = dict.fromkeys(config.cite(each, partition) for each in citations_of(claim))
        lines.append(f"{claim.text} [{'; '.join(places)}]")
    text = "\n".join(lines)
    if answer.missing:
        text += f"\n\nMissing: {answer.missing}"
    return config.format_response(text, sources_of(config, answer, partition), chunks_of(answer), answer.confidence)


def sources_of(config: KBConfig, answer: Answer, partition: str) -> list[str]:
    """Return the names of the cited sources, each once, by first use."""
    return list(dict.fromkeys(config.extract_source_name(metadata_of(each, partition)) for each in answer.citations))


def chunks_of(answer: Answer) -> int:
    """Return the number of cited passages."""
    return len({each.passage_id for each in answer.citations})


def render_strict(answer: Answer) -> str:
    """Return an answer of the strict knowledge base: claims with titles, then all titles; or the fixed sentence."""
    if answer.status is not AnswerStatus.ANSWERED:
        return NOT_IN_THE_KNOWLEDGE_BASE
    parts: list[str] = []
    last: str | None = None
    citations_of = citation_lookup(answer)
    for claim in answer.claims:
        titles = list(dict.fromkeys(each.title for each in citations_of(claim)))
        sources = ", ".join(f"[{title}]" for title in titles)
        parts.append(claim.text if sources == last else f"According to {sources}, {claim.text}")
        last = sources
    titles = list(dict.fromkeys(each.title for each in answer.citations))
    return "\n".join(parts) + "\n\nSources: " + ", ".join(f"[{title}]" for title in titles)


def render_with_guidance(answer: Answer, guidance: str = GUIDANCE) -> str:
    """Return the claims, one a line; without claims, what to do next, as the documentation subagent says it."""
    match answer.status:
        case AnswerStatus.ANSWERED:
            return "\n".join(claim.text for claim in answer.claims)
        case AnswerStatus.EMPTY_SCOPE:
            return NOTHING_YET
        case AnswerStatus.INDEXING:
            return STILL_INDEXING
        case AnswerStatus.NOT_FOUND | AnswerStatus.ERROR:
            return f"{lacking_words(answer)} {guidance}".lstrip()


def render_selected(answer: Answer) -> str:
    """Return the claims, one a line; without claims, what to do next, as document selection says it."""
    return render_with_guidance(answer, SELECTION_GUIDANCE)
