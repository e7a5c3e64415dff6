"""No stored text gets out of a context's block: the short form of `python -m tests.forging` (T3)."""

from __future__ import annotations

import pytest

from hardwon.context.sanitize import sanitize
from orchestrator.context import rendering
from tests.support.blocks import breakouts
from tests.support.cases import each_case


def test_t3_of_2000_forged_texts_none_gets_out_of_its_block_and_all_come_back() -> None:
    """D37."""
    assert next(breakouts(2000, seed=3), None) is None


@pytest.mark.parametrize("lacking", ["_indent_lines", "sanitize"])
def test_t3_a_renderer_that_does_not_indent_or_does_not_break_markers_is_caught(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(rendering, lacking, lambda text: text)
    assert next(breakouts(200, seed=3), None) is not None


@each_case
def test_t3_a_marker_in_letters_that_look_like_ours_is_broken_too(marker: str) -> None:
    assert sanitize(marker)[0] == "("


def test_foreign_texts_stay_as_they_are() -> None:
    for text in (
        "\u0417\u0430\u0432\u0435\u0440\u0448\u0438\u0442\u044c [\u043a\u043e\u043d\u0442\u0435\u043a\u0441\u0442]",
        "\u8bbe\u7f6e\u3010\u7f13\u5b58\u3011",
        "caf\u00e9 [fin du contexte]",
    ):
        assert sanitize(text) == text
