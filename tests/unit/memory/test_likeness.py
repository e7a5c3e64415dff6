"""Do two texts tell of the same thing?"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.minimal_pairs import minimal_pairs
from knowledge.memory.rules import similarity
from knowledge.memory.rules.contradictions import Difference
from knowledge.memory.rules.similarity import BUNDLED, MERGE, Ground, Judgement, Weights
from knowledge.models import TermStatistics
from knowledge.text.bm25 import term_counts
from knowledge.text.profile import Rarity, profile
from tests.support.cases import over

TRACE = """tests/test_cart.py:15: in test_total
    assert total(*items) == expected
src/cart.py:8: in total
    return sum(item.price for item in items)
E   TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'"""
TEXTS = (
    'Module "shop._pricing" has no attribute "round_half_even"',
    "No attribute `round_half_even` in module `shop._pricing`",
    'Argument 2 to "bulk_update" of "CartClient" has incompatible type "list[dict[str, Any]]"',
    "Upgrade of the billing service to 3.7.2 fails with BILL-4711: the lock /var/lib/bill/state.db is not released",
    "ValueError in parse_price: could not convert string to float; E501 is reported too, and the retry is enabled",
    "Deployment has not matched the expected number of replicas for longer than 15 minutes.",
    TRACE,
    "The Kafka consumer cannot commit offset 42 before the session timeout; with Redis it can",
    "The login page hangs when the session cookie is expired",
)
STATISTICS = TermStatistics(
    documents=200,
    frequencies=Counter(term for text in TEXTS for term in term_counts(text)) + Counter(dict.fromkeys(
        term_counts("module attribute import argument type fails service the of test assert return in src tests py"), 90
    )),
)  # fmt: skip
RARITY = Rarity(STATISTICS)

WORDS = "the cart total is not None 42 3.7.2 E501 ValueError /etc/hosts enable disable a_b `x` with without"
words = st.sampled_from(WORDS.split())
sentences = st.one_of(st.sampled_from(TEXTS), st.lists(words, min_size=1, max_size=12).map(" ".join))


def judged(one: str, other: str, cosine: float = 0.9, weights: Weights | None = BUNDLED) -> Judgement:
    first, second = profile(one, RARITY), profile(other, RARITY)
    return similarity.judge(similarity.features(first, second, similarity.overlap(first, second, cosine)), weights)


@given(sentences, sentences, st.floats(-1, 1))
def test_it_does_not_matter_which_text_is_first(one: str, other: str, cosine: float) -> None:
    assert judged(one, other, cosine) == judged(other, one, cosine)


@given(sentences)
def test_a_text_is_the_same_as_itself_whatever_its_case_and_white_space(text: str) -> None:
    found = judged(text, f"  {text.upper()}\n", 1.0)
    assert found.probability == 1.0
    assert found.grounds[0] is Ground.SAME_WORDS
    assert judged(text, text, 1.0, None).probability == 1.0


@settings(max_examples=20)
@given(st.lists(sentences, min_size=1, max_size=4), st.floats(0.5, 1))
def test_minimal_pairs_are_never_the_same(texts: list[str], cosine: float) -> None:
    """One number, version, name, path, code, exception type or negation changed is another thing, however alike."""
    for pair in minimal_pairs([*texts, *TEXTS]):
        found = judged(pair.text, pair.changed, cosine)
        assert not found.same, pair
        assert found.differences, pair


def test_every_kind_of_minimal_pair_is_made_of_the_texts_here() -> None:
    assert {pair.kind for pair in minimal_pairs(TEXTS)} == {
        "number", "version", "identifier renamed", "identifier exchanged", "path", "error code", "exception type",
        "negation",
    }  # fmt: skip


@over(
    "one, other, difference",
    [
        ("the retry is enabled", "the retry is disabled", Difference.OPPOSITES),
        ("the lock is released", "the lock is not released", Difference.TURNED),
        ("wait 30 s, then 60 s", "wait 60 s, then 30 s", Difference.PARTICULARS),
        ("`+` fails between `int` and `str`", "`-` fails between `int` and `str`", Difference.ONE_EXCHANGED),
        ("copy a to /etc/x/y.conf", "copy a to /etc/x/z.conf", Difference.ONE_EXCHANGED),
        ("build 3.7.2 breaks here", "since 3.8.0 it does not build", Difference.VERSIONS),
        ("HADOOP-18613 broke the build", "the build is broken by HADOOP-17105", Difference.CODES),
        ("it raises ValueError at start", "at start one sees a KeyError", Difference.EXCEPTIONS),
        ("`Cart` is kept in memory", "`Cart` is kept in storage", Difference.ONE_WORD),
        ("restart the workers after it", "restart the workers hourly after it", Difference.ONE_WORD),
        ("Retry the payment then", "Don\u2019t retry the payment then", Difference.TURNED),
        ("Retry the payment then", "Dont retry the payment then", Difference.TURNED),
        ("Den Cache vorher leeren", "Den Cache nicht vorher leeren", Difference.TURNED),
        ("Einen Timeout setzen", "Einen Timeout nie setzen", Difference.TURNED),
        ("Il faut vider le cache", "Il ne faut pas vider le cache", Difference.TURNED),
        ("Hay que reiniciar el nodo", "No hay que reiniciar el nodo", Difference.TURNED),
        ("Перезапустить сервис", "Не перезапустить сервис", Difference.TURNED),  # noqa: RUF001
        ("`Cart` expected `int` not `str`", "`Cart` expected `str` not `int`", Difference.PARTICULARS),
        ("`Cart` waits 15 minutes for `pay`", "`Cart` waits 15 hours for `pay`", Difference.ONE_EXCHANGED),
        ("after 15 minutes pods restart", "a pod is restarted each 40 minutes", Difference.NUMBERS),
    ],
)
def test_what_tells_two_texts_apart_is_named(one: str, other: str, difference: Difference) -> None:
    found = judged(one, other, 0.99)
    assert difference in found.differences
    assert not found.same


def test_two_tools_wordings_of_one_defect_are_the_same_by_their_particulars() -> None:
    found = judged(TEXTS[0], TEXTS[1], 0.75)
    assert found.same
    assert found.grounds == (Ground.SAME_PARTICULARS,)
    assert not judged(TEXTS[0], TEXTS[1].replace("round_half_even", "round_half_up"), 0.75).same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TEXTS[0], "Could not import `round_half_even` from `shop._pricing`"),
        (TEXTS[0], "No attribute `round_half_even` in module `shop._pricing` of `web`"),
        ("Use shop-pricing 3.7.2", "Use shop-pricing"),
        ("Use shop-pricing 3.7.2", "Release shop-pricing 3.7.2, which mends BILL-4711"),
    ],
)
def test_a_name_or_number_that_one_text_lacks_is_enough_not_to_merge(one: str, other: str) -> None:
    """All names of the shorter text in the other were a ground: 72 of 6,173 near reports of two defects were merged."""
    assert not judged(one, other, 0.95).grounds
    assert not judged(one, other, 0.95).same


def test_a_ground_does_not_outweigh_a_difference() -> None:
    found = judged(TEXTS[0], f"{TEXTS[0]} service", 0.8)
    assert found.grounds == (Ground.SAME_PARTICULARS,)
    assert found.differences == (Difference.ONE_WORD,)
    assert not found.same


def test_common_names_are_no_ground() -> None:
    assert not judged("`module` import fails in `test`", "the `test` of the `module` returns", 0.9).same


def test_a_failure_is_the_same_where_place_and_message_are_whoever_called_it() -> None:
    deeper = TRACE.replace("tests/test_cart.py:15: in test_total", "tests/test_shop.py:40: in test_refund")
    found = judged(TRACE, deeper, 0.9)
    assert found.same
    assert found.grounds == (Ground.SAME_PARTICULARS,)
    elsewhere = TRACE.replace("item.price for item", "item.weight for item")
    assert Difference.PLACES in judged(TRACE, elsewhere, 0.99).differences
    assert not judged(TRACE, elsewhere, 0.99).likely
    assert not judged(TRACE, deeper.replace("'int'", "'str'"), 0.99).same, "the same place, and another failure"


@over("weights", [BUNDLED, None])
def test_a_trace_whose_lines_moved_is_the_same_and_one_that_ends_elsewhere_is_not(weights: Weights | None) -> None:
    moved = TRACE.replace(":15:", ":19:").replace(":8:", ":12:")
    found = judged(TRACE, moved, 0.95, weights)
    assert (found.probability, found.differences) == (1.0, ())
    assert found.grounds[0] is Ground.SAME_WORDS
    assert not judged(TRACE, moved.replace("'int'", "'str'"), 0.99, weights).same
    assert not judged(TRACE, moved.replace("sum(item", "max(item"), 0.99, weights).same


def test_the_number_of_a_line_of_code_is_no_particular_of_a_minimal_pair() -> None:
    lines = "  File \"a.py\", line 7, in total\n    pay()\nKeyError: 'coupon'"
    assert "number" not in {pair.kind for pair in minimal_pairs([lines])}
    assert "number" in {pair.kind for pair in minimal_pairs([lines.replace("pay()", "pay(7)")] * 2)}


def test_words_in_another_case_differ_in_nothing() -> None:
    """`TYPE` is a name by its form, `type` is none: the two were told apart by their particulars."""
    found = judged("The argument has no TYPE in the service", "the argument has no type  in the service.")
    assert (found.differences, found.same) == ((), True)
    assert not judged("The service has no .env", "the service has no env").same


def test_however_alike_texts_are_without_a_ground_they_are_at_most_proposed() -> None:
    found = judged("The login page hangs when the cookie is old", "The login page hangs: the cookie is old, then", 1.0)
    assert found.likely
    assert not found.same


def test_without_weights_for_the_model_only_the_same_words_are_the_same() -> None:
    assert similarity.weights_for("a-model-nobody-measured") is None
    assert judged(TEXTS[0], TEXTS[1], 1.0, None).probability == 0
    assert judged(TRACE, TRACE.lower(), 0.0, None).probability == 1.0


@given(sentences, sentences, st.floats(-1, 1))
def test_only_a_ground_without_a_difference_lets_texts_merge(one: str, other: str, cosine: float) -> None:
    found = judged(one, other, cosine)
    assert 0 <= found.probability <= 1
    assert found.same == (found.probability >= MERGE) == (bool(found.grounds) and not found.differences)
