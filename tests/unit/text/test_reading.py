"""What the texts of candidates say, what it weighs, and when nothing is said; on texts whose answer is plain."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.memory.query.judgement import JudgedMatches, ScoredPoint, judge
from knowledge.models import (
    BoundSpace,
    EmbeddingSpace,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    Evidence,
    PatternId,
    PointId,
    TermStatistics,
)
from knowledge.retrieval import confidence
from knowledge.retrieval import confidence as silence
from knowledge.retrieval.calibration import BUNDLED, relevance
from knowledge.retrieval.cosine_scale import UNRELATED, rescale_cosine, stretch_factor
from knowledge.retrieval.features import (
    MAX_CANDIDATES,
    Candidate,
    Features,
    QueryTerms,
    features,
    read_query,
)
from knowledge.retrieval.term_profile import MAX_HEAD_CHARS, extract_terms
from knowledge.text.bm25 import term_counts

MODEL = "all-MiniLM-L6-v2"
STORE = (
    "the cart total is wrong when a coupon is applied",
    "the cart total is wrong when an item is removed",
    "the cart page hangs when an item is removed",
    "ModuleNotFoundError: no module named app.core when the worker starts",
)


def statistics(store: tuple[str, ...] = STORE) -> TermStatistics:
    frequencies: dict[int, int] = {}
    for text in store:
        for term in term_counts(text):
            frequencies[term] = frequencies.get(term, 0) + 1
    return TermStatistics(documents=len(store), frequencies=frequencies)


def read(question: str, texts: tuple[str, ...] = STORE) -> list[Features]:
    asked = read_query(question, statistics(STORE))
    return features(asked, [Candidate(terms=extract_terms(text), cosine=0.5, coverage=0.5) for text in texts], 8.0)


def likelinesses(found: list[Features]) -> list[float]:
    return [confidence.likeness(each, confidence.BUNDLED_LIKENESS) for each in found]


def test_what_few_candidates_share_tells_more_than_what_all_share() -> None:
    coupon, item, page, _ = read("cart total wrong with a coupon")

    assert coupon.telling > item.telling > page.telling
    assert coupon.shared > item.shared > page.shared


def test_words_are_known_by_their_stem_and_identifiers_by_the_whole() -> None:
    *others, module = read("no modules named app.core, workers starting")

    assert module.shared == 1.0
    assert module.rarest == pytest.approx(1.0)
    assert max(each.shared for each in others) == 0.0


def test_neighbours_count_only_where_they_are_neighbours() -> None:
    straight, turned = read("cart total", ("the cart total is wrong", "the total of the cart"))

    assert (straight.phrases, turned.phrases) == (1.0, 0.0)
    assert (straight.telling_phrases, turned.telling_phrases) == (1.0, 0.0)
    assert straight.shared == turned.shared == 1.0


def test_the_first_line_of_a_question_is_sought_in_the_opening_of_a_text() -> None:
    opens, ends = read("coupon\nitem", ("coupon. " + "nothing else. " * 20, "nothing else. " * 20 + "coupon."))

    assert (opens.opening, ends.opening) == (1.0, 0.0)


def test_of_a_long_text_both_ends_are_read_and_nothing_between() -> None:
    rest = "x " * MAX_HEAD_CHARS
    first, between, last = read("coupon", (f"coupon {rest}", f"{rest} coupon {rest}", f"{rest} coupon"))

    assert (first.shared, between.shared, last.shared) == (1.0, 0.0, 1.0)


def test_a_question_of_words_that_nobody_knows_says_nothing_for_or_against() -> None:
    for each in read("zebra quagga okapi"):
        assert (each.shared, each.weight, each.telling, each.rarest, each.phrases, each.opening) == (0,) * 6


@given(st.text(max_size=200), st.lists(st.text(max_size=300), max_size=5))
def test_shares_are_shares_whatever_the_texts(question: str, texts: list[str]) -> None:
    for each in read(question, tuple(texts)):
        for name in ("shared", "weight", "telling", "rarest", "phrases", "telling_phrases", "opening"):
            assert 0 <= getattr(each, name) <= 1 + 1e-9, name


@given(st.permutations(range(4)))
def test_the_order_of_the_candidates_changes_nothing_about_any_of_them(order: list[int]) -> None:
    straight = read("cart total wrong when an item is removed")

    turned = read("cart total wrong when an item is removed", tuple(STORE[at] for at in order))

    assert [turned[order.index(at)] for at in range(4)] == [pytest.approx(each) for each in straight]


def test_every_feature_that_is_weighed_moves_the_likeness_by_its_weight() -> None:
    (base,) = read("cart total", ("cart",))
    for name in (each.name for each in fields(confidence.LikenessWeights)):
        more = base._replace(**{name: getattr(base, name) + 1})

        moved = confidence.likeness(more, confidence.BUNDLED_LIKENESS) - confidence.likeness(
            base, confidence.BUNDLED_LIKENESS
        )

        added = base.brevity * getattr(confidence.BUNDLED_BREVITY, name)
        assert moved == pytest.approx(getattr(confidence.BUNDLED_LIKENESS, name) + added)


def test_the_fewer_words_of_a_query_are_known_the_briefer_it_is() -> None:
    (unknown, one, two, many) = (
        read(query, ("cart",))[0].brevity
        for query in ("zebra", "cart", "cart total", "cart total wrong coupon item removed modules named app starting")
    )

    assert 1 > unknown > one > two > 0.5 > many > 0


@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(0, 1.2)), min_size=1, max_size=20))
def test_the_likeliest_gets_the_best_fused_score_and_the_order_is_that_of_likeness(
    pairs: list[tuple[float, float]],
) -> None:
    likenesses, fused = [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    scores = confidence.to_fused_scale(likenesses, fused)

    assert max(scores) == max(fused)
    by_score = sorted(range(len(pairs)), key=lambda at: scores[at])
    assert [likenesses[at] for at in by_score] == pytest.approx(sorted(likenesses), abs=1e-9)


def test_each_sign_moves_the_confidence_the_way_of_its_weight() -> None:
    """G: silence is a matter of several signs, none of which decides alone."""
    base = silence.Signals(fused=0.6, likeness=8.0, weight=0.5, telling=0.7, rarest=0.9)
    sure = silence.confidence(base, silence.BUNDLED_CONFIDENCE)
    for name in silence.Signals._fields:
        more = silence.confidence(base._replace(**{name: getattr(base, name) + 0.1}), silence.BUNDLED_CONFIDENCE)

        assert (more - sure) * getattr(silence.BUNDLED_CONFIDENCE, name) > 0
    assert 0 < sure < 1
    assert silence.confidence(base, replace(silence.BUNDLED_CONFIDENCE, intercept=-1e4)) == 0.0


def bound(model: str, unrelated_cosine: float | None = None) -> BoundSpace:
    space = EmbeddingSpace(provider="test", model=model, revision="1", dims=4, max_tokens=256)
    return BoundSpace(space=space, mean_terms=8.0, calibration=BUNDLED, unrelated_cosine=unrelated_cosine)


def test_a_models_cosines_are_read_by_how_alike_it_finds_texts_that_have_nothing_to_do_with_each_other() -> None:
    crowded = stretch_factor(bound("crowded", 0.8))

    assert crowded == pytest.approx(4.665)
    assert rescale_cosine(0.8, crowded) == pytest.approx(UNRELATED)
    assert rescale_cosine(1.0, crowded) == 1.0, "the same text"
    assert stretch_factor(bound(MODEL)) == stretch_factor(bound("another", UNRELATED)) == 1.0
    assert stretch_factor(bound("another")) is None, "nobody asked it"
    assert stretch_factor(bound("of one opinion", 0.99)) is None, "it tells nothing apart"
    assert rescale_cosine(0.3, None) == 0.3


def evidence(text: str) -> Evidence:
    words = Entry(
        entry_type=EntryType.FAILURE_SOLUTION,
        project_id="shop",
        failure_description=text,
        solution_steps="mend it",
        entry_id=EntryId(uuid4()),
        status=EntryStatus.EMBEDDED,
        content_hash="",
        captured_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Evidence(
        pattern_id=PatternId(uuid4()),
        entry_type=words.entry_type,
        words=words,
        success_count=1,
        attempt_count=1,
        project_count=1,
        founded_at=words.captured_at,
        entry_ids=(words.entry_id,),
        circumstances=(),
    )


def found(texts: tuple[str, ...], fused: tuple[float, ...]) -> tuple[list[ScoredPoint], dict[PointId, Evidence]]:
    points = [PointId(UUID(int=at + 1)) for at in range(len(texts))]
    scored = [
        ScoredPoint(point_id=point, cosine=score, coverage=score, fused=score)
        for point, score in zip(points, fused, strict=True)
    ]
    return scored, {point: evidence(text) for point, text in zip(points, texts, strict=True)}


def asked(question: str) -> QueryTerms:
    return read_query(question, statistics())


def told(matches: object) -> list[str | None]:
    return [match.evidence.words.failure_description for match in matches]  # type: ignore[attr-defined]


def test_reading_puts_the_text_first_that_says_what_the_others_do_not() -> None:
    scored, behind = found(STORE[:3], (0.60, 0.59, 0.58))

    judged = judge(scored, behind, asked("cart hangs when an item is removed"), bound(MODEL), "default")

    assert told(judged.matches)[0] == STORE[2]
    assert judged.matches[0].score == 0.60
    assert judged.matches[0].relevance == relevance(0.60, BUNDLED)


def test_reading_orders_for_another_model_too_once_it_is_known_how_alike_it_finds_anything() -> None:
    scored, behind = found(STORE[:3], (0.60, 0.59, 0.58))
    question = asked("cart hangs when an item is removed")

    judged = judge(scored, behind, question, bound("another", 0.8), "default")

    assert judged == judge(scored, behind, question, bound(MODEL), "default")
    assert told(judged.matches)[0] == STORE[2]


def test_for_a_model_that_nobody_asked_the_fused_score_ranks_and_only_the_floor_keeps_silence() -> None:
    scored, behind = found(STORE[:3], (0.60, 0.59, 0.58))

    judged = judge(scored, behind, asked("cart hangs when an item is removed"), bound("another"), "default")

    assert told(judged.matches) == list(STORE[:3])
    assert [match.score for match in judged.matches] == [0.60, 0.59, 0.58]
    assert judged.confidence >= judged.level
    assert judged.confidence == relevance(0.60, BUNDLED)


def speaks(judged: JudgedMatches) -> bool:
    return judged.confidence >= judged.level


def test_with_three_candidates_nothing_is_silenced_and_from_four_on_what_fits_none() -> None:
    """A store of fifteen lessons gave its nearest one to every second task that it knew nothing of."""
    for many in (3, 4):
        scored, behind = found(STORE[:many], (0.21, 0.2, 0.2, 0.2)[:many])

        assert speaks(judge(scored, behind, asked("quagga"), bound(MODEL), "default")) is (
            many < silence.MIN_CANDIDATES == 4
        )


def test_among_many_candidates_none_of_which_fits_nothing_is_said_and_the_one_that_fits_is() -> None:
    texts = tuple(f"the {word} page of the shop hangs when item {word} is removed" for word in "abcdefghijklmnopq")
    scored, behind = found((*texts[:-1], STORE[3]), (0.5,) * 16 + (0.49,))
    strange = asked("the invoice cannot be printed")
    known = asked(STORE[3])
    best = [replace(scored[-1], cosine=0.9, coverage=0.9, fused=0.9), *scored[:-1]]

    assert not speaks(judge(scored, behind, strange, bound(MODEL), "default"))
    assert speaks(judge(best, behind, known, bound(MODEL), "default"))


def test_what_is_not_read_comes_after_what_is() -> None:
    texts = tuple(f"{STORE[0]} {at}" for at in range(MAX_CANDIDATES + 4))
    scored, behind = found(texts, tuple(0.9 - at / 100 for at in range(len(texts))))

    judged = judge(scored, behind, asked(STORE[1]), bound(MODEL), "default")

    assert set(told(judged.matches)[MAX_CANDIDATES:]) == set(texts[MAX_CANDIDATES:])
    assert [match.score for match in judged.matches] == sorted((m.score for m in judged.matches), reverse=True)


def test_points_whose_pattern_is_gone_are_left_out() -> None:
    scored, behind = found(STORE, (0.6, 0.5, 0.4, 0.3))
    del behind[scored[0].point_id]

    assert told(judge(scored, behind, asked("x"), bound("another"), "default").matches) == list(STORE[1:])
    nothing = judge(scored, {}, asked("x"), bound(MODEL), "default")
    assert (nothing.matches, nothing.confidence, speaks(nothing)) == ((), 0.0, False)
