"""Cases of a test: many on the same stores, as opening them anew costs more than most cases do, and tables of them.

Tables are JSON in `tests/cases`: a file for each module of tests, in it a table for each test. Texts are in
`tests/samples`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from knowledge.wiring.open import Knowledge

Test = Callable[..., Awaitable[None] | None]
_TESTS = Path(__file__).resolve().parents[1]


def over(names: str, cases: Iterable[object], *, apart: bool = False) -> Callable[[Test], Test]:
    """Have a test run once for each of the cases with the same fixtures, and fail with all the cases that failed.

    It reads like `pytest.mark.parametrize`, and is for tests whose cases leave the stores as the next one needs them:
    what only asks, and what adds the same documents again. `apart` gives each case a workspace of its own as the
    fixture `knowledge`: for what writes.
    """
    arguments = [name.strip() for name in names.split(",")]
    every = [(case,) if len(arguments) == 1 else tuple(case) for case in cases]  # type: ignore[arg-type]  # a row

    def cover(test: Test) -> Test:
        async def run_each(**fixtures: object) -> None:
            failed = []
            for number, case in enumerate(every):
                given = dict(zip(arguments, case, strict=True))
                stores = {"knowledge": _workspace(fixtures["knowledge"], number)} if apart else {}
                try:
                    running = test(**fixtures | stores, **given)
                    if running is not None:
                        await running
                except Exception as error:  # noqa: BLE001 (each that fails is named)
                    error.add_note(f"The case was: {given!r}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(every)} cases failed", failed)

        def run_without_a_loop(**fixtures: object) -> None:
            with contextlib.suppress(StopIteration):  # it awaits nothing
                run_each(**fixtures).send(None)

        run = functools.wraps(test)(run_each if inspect.iscoroutinefunction(test) else run_without_a_loop)

        asked = inspect.signature(test)
        kept = [each for name, each in asked.parameters.items() if name not in arguments]
        run.__signature__ = asked.replace(parameters=kept)  # type: ignore[attr-defined]  # what pytest reads
        return run

    return cover


def _workspace(knowledge: object, number: int) -> Knowledge:
    assert isinstance(knowledge, Knowledge)
    return knowledge.in_workspace(f"{knowledge.workspace}-{number}")


@functools.cache
def load_tables(module: str) -> dict[str, Any]:
    """Return what the file of a module holds: tables by the names of their tests, and other data by its name."""
    tables: dict[str, Any] = json.loads((_TESTS / "cases" / f"{module}.json").read_text(encoding="utf-8"))
    return tables


def _table_of(test: Test) -> dict[str, Any]:
    table: dict[str, Any] = load_tables(test.__module__.rpartition(".")[2])[test.__name__]
    return table


def each_case(test: Test) -> Test:
    """Run a test once for each row of its table, and fail with all the cases that failed."""
    table = _table_of(test)
    return over(", ".join(table["columns"]), table["rows"])(test)


def case_by_case(test: Test) -> Test:
    """Have each row of a test's table be a test, with fixtures of its own."""
    table = _table_of(test)
    cases: Test = pytest.mark.parametrize(", ".join(table["columns"]), table["rows"])(test)
    return cases


def read_sample(name: str) -> str:
    """Return the text of a file in `tests/samples`."""
    return (_TESTS / "samples" / name).read_text(encoding="utf-8")
