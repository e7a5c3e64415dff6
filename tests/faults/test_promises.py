"""The page of promises: what it names is there, and a command of it that does nothing fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.__main__ import chosen, read

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_every_command_of_the_page_names_a_fault_of_the_long_form() -> None:
    names = re.findall(r"--only (G\d+)", PAGE)
    assert len(names) >= 8
    for name in names:
        assert chosen(read(["--only", name])), name


def test_every_test_of_the_page_is_there() -> None:
    for path in re.findall(r"tests/\w+/\w+\.py", PAGE):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("only", ["G99", "G7"])
def test_a_name_that_is_none_is_told_and_does_not_pass(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(["--only", only])
    assert ended.value.code == 2
    assert "G13" in capsys.readouterr().err
