"""How the systems find: one query or two, and when that is enough; whole documents by their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pytest

from hardwon.errors import EmbedderRejected, IndexUnavailable
from hardwon.models.documents import Finding
from knowledge.documents.access import AccessPolicy, Base, Principal, Readers, Scope
from knowledge.documents.answering.pipeline import answer_without_draft, best_mean
from knowledge.documents.answering.query_rewriting import Rewriter
from knowledge.documents.answering.strategies import MultiQueryFinder, is_covered
from knowledge.documents.models import AnswerStatus, Query, Turn
from knowledge.documents.retrieval.search import merge_touching
from orchestrator.qa.documentation import PROFILE, claims_step
from tests.support.answering import ListedSearcher, passage
from tests.support.cases import each_case, over


async def plain() -> Rewriter:
    return Rewriter()


class Everyone:
    async def has_access(self, *_: object) -> bool:
        return True

    async def accessible_scopes(self, *_: object) -> list[str]:
        return []

    async def scopes(self, *_: object) -> list[str]:
        return []


async def a_scope() -> Scope:
    base = Base(name="global", template="global_kb", readers=Readers.EVERYONE)
    policy = AccessPolicy("default", Everyone(), {"global": base})  # type: ignore[arg-type]
    return await policy.scope(Principal(name="ann"), "global")


def near(*relevances: float) -> list[object]:
    return [passage(f"text {at}", relevance=relevance) for at, relevance in enumerate(relevances)]


def finder(*found: object) -> tuple[MultiQueryFinder, ListedSearcher]:
    searcher = ListedSearcher(list(found))  # type: ignore[arg-type]
    return MultiQueryFinder(searcher=searcher, rewriter=plain), searcher


TALK = (Turn(role="user", content="We sent a quote yesterday"), Turn(role="assistant", content="Convert it?"))
ASKED = Query(question="How do I convert it?", k=6, focus={"module": "quotes"}, conversation=TALK)


async def test_a2_06_a2_07_the_second_query_is_left_out_once_two_passages_are_near() -> None:
    finding, searcher = finder(near(0.56, 0.56, 0.1))
    found = await finding.find(ASKED, await a_scope(), PROFILE)
    assert found.searched == ("How do I convert it?",)
    assert len(searcher.asked) == 1


async def test_a2_05_x_10_the_second_query_holds_focus_and_conversation() -> None:
    finding, searcher = finder(near(0.9, 0.1), near(0.9))
    found = await finding.find(ASKED, await a_scope(), PROFILE)
    assert len(searcher.asked) == 2
    assert found.searched[0] == "How do I convert it?"
    for word in ("quotes", "We sent a quote yesterday", "How do I convert it?"):
        assert word in found.searched[1]


async def test_a2_06_there_are_never_more_than_two_queries() -> None:
    """Not even where the model rewrites the question in other words each time."""

    class Rewriting(Rewriter):
        async def rewrite(self, question: str, conversation: Sequence[Turn]) -> str:
            return f"{question} {uuid4()}"

    async def rewriting() -> Rewriter:
        return Rewriting()

    finding, searcher = finder(near(0.1), near(0.1), near(0.9))
    await replace(finding, rewriter=rewriting).find(ASKED, await a_scope(), PROFILE)
    assert len(searcher.asked) == 2


@over("relevances, enough", [((0.55, 0.9), False), ((0.5501, 0.9), True), ((0.9,), False)])
def test_a2_12_exactly_0_55_does_not_count(relevances: tuple[float, ...], enough: bool) -> None:  # noqa: FBT001
    assert is_covered(near(*relevances), PROFILE) is enough  # type: ignore[arg-type]


@over(
    "relevances, status",
    [
        ((0.45, 0.45, 0.45), None),
        ((0.45, 0.45, 0.449), AnswerStatus.NOT_FOUND),
        ((0.9, 0.45, 0.1, 0.0), None),
        ((0.44,), AnswerStatus.NOT_FOUND),
        ((), AnswerStatus.NOT_FOUND),
    ],
)
def test_a2_11_a2_12_x_09_the_mean_of_the_best_three_decides_and_0_45_passes(
    relevances: tuple[float, ...], status: AnswerStatus | None
) -> None:
    answer = answer_without_draft("?", Finding(passages=tuple(near(*relevances))), PROFILE)  # type: ignore[arg-type]
    assert (answer.status if answer else None) == status


async def test_a2_09_passages_of_both_queries_are_merged_by_their_id_with_the_best_score() -> None:
    one, other = passage("one", relevance=0.5), passage("other", relevance=0.4)
    finding, _ = finder([one, other], [replace(other, relevance=0.8), one])
    found = await finding.find(ASKED, await a_scope(), PROFILE)
    assert [(each.text, each.relevance) for each in found.passages] == [("other", 0.8), ("one", 0.5)]
    assert found.coverage == pytest.approx(best_mean(found.passages))


async def test_a2_07_chunks_that_touch_are_one_passage_and_count_each() -> None:
    """Two chunks of one section above 0.55 cover a question, though they are shown as one."""
    halves = [
        passage("Press ", relevance=0.9, char_start=0, char_end=6),
        passage("Convert.", relevance=0.6, char_start=6, char_end=14),
        passage(" Then save.", relevance=0.5, char_start=14, char_end=25),
    ]
    [one] = merge_touching(halves)
    assert (one.text, one.relevance) == ("Press Convert. Then save.", 0.9)
    assert one.chunks() == tuple((each.passage_id, each.relevance) for each in halves)
    finding, searcher = finder([one])
    await finding.find(ASKED, await a_scope(), PROFILE)
    assert len(searcher.asked) == 1
    assert not is_covered(merge_touching([halves[0], halves[2]]), PROFILE)


async def test_a2_09_what_both_queries_find_in_other_cuts_is_one_passage() -> None:
    first = passage("Press ", relevance=0.5, char_start=0, char_end=6)
    second = passage("Convert.", relevance=0.4, char_start=6, char_end=14)
    nearer = replace(second, relevance=0.7)
    finding, _ = finder([first], merge_touching([nearer, replace(first, relevance=0.3)]))
    [found] = (await finding.find(ASKED, await a_scope(), PROFILE)).passages
    assert (found.text, found.relevance) == ("Press Convert.", 0.7)
    assert dict(found.chunks()) == {first.passage_id: 0.5, second.passage_id: 0.7}


async def test_a2_13_a_query_that_the_embedder_refuses_is_one_that_failed() -> None:
    finding, _ = finder(near(0.9, 0.1), EmbedderRejected("a text too long"))
    assert len((await finding.find(ASKED, await a_scope(), PROFILE)).passages) == 2
    finding, _ = finder(EmbedderRejected("wrong key"), EmbedderRejected("wrong key"))
    assert (await finding.find(ASKED, await a_scope(), PROFILE)).error == "wrong key"


async def test_a2_13_one_failed_query_is_passed_over_and_all_failed_is_an_error() -> None:
    finding, _ = finder(IndexUnavailable("down"), near(0.9, 0.9))
    assert (await finding.find(ASKED, await a_scope(), PROFILE)).error is None
    finding, _ = finder(IndexUnavailable("down"), IndexUnavailable("still down"))
    found = await finding.find(ASKED, await a_scope(), PROFILE)
    assert found.error == "down"
    assert answer_without_draft("?", found, PROFILE).status is AnswerStatus.ERROR  # type: ignore[union-attr]


@each_case
def test_a2_01_only_its_own_steps_are_the_subagents(step: dict[str, str], ours: bool) -> None:  # noqa: FBT001
    assert claims_step(step) is ours
