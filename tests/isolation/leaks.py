"""What counts as a leak, and how one is seen: each told text bears the mark of its workspace."""

from __future__ import annotations

import re

CASES = ("the cart total fails", "the login loops", "the export is empty", "the build hangs", "the page is blank")
_MARK = re.compile(r"mark(\d+)x")


class Leak(AssertionError):
    """Something of another workspace came back, or was changed."""


def own(here: int, found: object) -> None:
    """Raise Leak where a text of another workspace is in what came back."""
    foreign = {int(mark) for mark in _MARK.findall(repr(found))} - {here}
    if foreign:
        raise Leak(f"workspace {here} was shown something of {sorted(foreign)}")
