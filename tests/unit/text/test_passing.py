"""What is another one each time that the same thing happens."""

from __future__ import annotations

from knowledge.text.volatile import mask_volatile
from tests.support.cases import each_case


@each_case
def test_moments_ids_and_addresses_are_passing(one: str, other: str) -> None:
    assert one != other
    assert mask_volatile(one) == mask_volatile(other)


@each_case
def test_what_says_what_happened_is_not(text: str) -> None:
    assert mask_volatile(text) == text


def test_numbers_of_two_kinds_are_not_the_same() -> None:
    assert mask_volatile("pid 12 is gone") != mask_volatile("job 12 is gone")
