"""Many cases of one test on the same stores: opening them anew for each costs more than most cases do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable

from knowledge.wiring.open import Knowledge

Test = Callable[..., Awaitable[None]]


def over(names: str, cases: Iterable[object], *, apart: bool = False) -> Callable[[Test], Test]:
    """Have a test run once for each of the cases with the same fixtures, and fail with all the cases that failed.

    It reads like `pytest.mark.parametrize`, and is for tests whose cases leave the stores as the next one needs them:
    what only asks, and what adds the same documents again. `apart` gives each case a workspace of its own as the
    fixture `knowledge`: for what writes.
    """
    arguments = [name.strip() for name in names.split(",")]
    every = [(case,) if len(arguments) == 1 else tuple(case) for case in cases]  # type: ignore[arg-type]  # a row

    def cover(test: Test) -> Test:
        @functools.wraps(test)
        async def run(**fixtures: object) -> None:
            failed = []
            for number, case in enumerate(every):
                given = dict(zip(arguments, case, strict=True))
                stores = {"knowledge": _workspace(fixtures["knowledge"], number)} if apart else {}
                try:
                    await test(**fixtures | stores, **given)
                except Exception as error:  # noqa: BLE001 (each that fails is named)
                    error.add_note(f"The case was: {given!r}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(every)} cases failed", failed)

        asked = inspect.signature(test)
        kept = [each for name, each in asked.parameters.items() if name not in arguments]
        run.__signature__ = asked.replace(parameters=kept)  # type: ignore[attr-defined]  # what pytest reads
        return run

    return cover


def _workspace(knowledge: object, number: int) -> Knowledge:
    assert isinstance(knowledge, Knowledge)
    return knowledge.in_workspace(f"{knowledge.workspace}-{number}")
