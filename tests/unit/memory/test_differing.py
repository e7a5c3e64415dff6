from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from knowledge.retrieval.reconcile import Difference, compare_pages

PAGE = 3


def ids(*numbers: int) -> list[UUID]:
    return [UUID(int=number) for number in numbers]


def test_what_lacks_and_what_is_strange_is_told_and_what_may_be_there_is_neither() -> None:
    must, may = ids(1, 2), ids(3, 4)
    standing = dict.fromkeys(must, True) | dict.fromkeys(may, False)
    assert compare_pages(ids(2, 3, 7, 8), standing, page=9) == Difference(frozenset(ids(1)), tuple(ids(7, 8)), None)


def test_nothing_is_judged_behind_the_end_of_a_page_that_may_go_on() -> None:
    a_page, more = dict.fromkeys(ids(1, 2, 3), True), ids(3, 9)
    assert compare_pages(more, a_page, page=PAGE) == Difference(frozenset(ids(1, 2)), (), UUID(int=3))
    assert compare_pages(ids(1, 4, 5), dict.fromkeys(ids(4, 8), True), page=PAGE) == Difference(
        frozenset(), tuple(ids(1, 5)), UUID(int=5)
    )


def test_two_empty_stores_do_not_differ() -> None:
    nothing: list[UUID] = []
    assert compare_pages(nothing, {}, page=PAGE) == Difference(frozenset(), (), None)


@given(st.sets(st.integers(0, 30)), st.dictionaries(st.integers(0, 30), st.booleans()))
def test_page_by_page_it_finds_what_a_comparison_of_the_whole_finds(there: set[int], standing: dict[int, bool]) -> None:
    lacking, strange, after = set[UUID](), list[UUID](), -1
    while True:
        page = ids(*sorted(each for each in there if each > after)[:PAGE])
        stands = {UUID(int=each): standing[each] for each in sorted(standing) if each > after}
        stretch = compare_pages(page, dict(list(stands.items())[:PAGE]), page=PAGE)
        lacking |= stretch.missing
        strange += stretch.unexpected
        if stretch.end is None:
            break
        assert stretch.end.int > after
        after = stretch.end.int
    assert lacking == set(ids(*(each for each, must in standing.items() if must and each not in there)))
    assert strange == ids(*sorted(there - standing.keys()))
