"""What long work borrows of the interpreter: changed for as long as anybody needs it, then as it was."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from knowledge.interpreter import Borrowed, garbage_seldom, turns_sooner


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


def test_the_first_who_borrows_changes_a_setting_and_the_last_gives_it_back() -> None:
    told = [700]
    borrowed = Borrowed(lambda: told[-1], told.append, lambda before: before + 1)
    with borrowed.borrowed():
        with pytest.raises(ZeroDivisionError), borrowed.borrowed():
            raise ZeroDivisionError
        assert told == [700, 701]
    assert told == [700, 701, 700]
    told.append(5)
    with borrowed.borrowed():
        assert told[-1] == 6
    assert told[-1] == 5


@pytest.mark.parametrize(("of_the_program", "meanwhile"), [(700, 50_000), (80_000, 80_000), (0, 0)])
def test_garbage_is_looked_for_less_often_unless_the_program_has_its_own_way(
    of_the_program: int, meanwhile: int
) -> None:
    gc.set_threshold(of_the_program, 7, 8)
    with garbage_seldom.borrowed():
        assert gc.get_threshold() == (meanwhile, 7, 8)
    assert gc.get_threshold() == (of_the_program, 7, 8)


def test_threads_take_turns_sooner_but_never_later_than_the_program_has_them() -> None:
    for of_the_program, meanwhile in ((0.005995, 0.0005), (0.005, 0.0005), (0.0001, 0.0001)):
        sys.setswitchinterval(of_the_program)
        before = sys.getswitchinterval()
        with turns_sooner.borrowed():
            assert sys.getswitchinterval() == pytest.approx(meanwhile, abs=2e-6)
        assert sys.getswitchinterval() == before
