"""A failure that stands at the end of a log is found by it, with the bundled model."""

from __future__ import annotations

import pytest

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.memory.index.points import from_stored
from knowledge.wiring.open import Knowledge
from tests.conftest import Opens
from tests.support.entries import failure, learn

LOG = "\n".join(f"2026-03-01T10:{n // 60:02}:{n % 60:02}Z INFO step {n % 7} of job {n} took {n} ms" for n in range(200))
ERRORS = {
    "Set the size of the pool": "ConnectionError: too many clients already, the pool is exhausted",
    "Take a newer compiler": "error: unrecognized command-line option '-std=c++23' in the build of the wheel",
    "Empty the cache of images": "OSError: [Errno 28] No space left on device while the image was written",
}


async def learn_errors_below(knowledge: Knowledge, log: str) -> None:
    told = [
        failure(failure_description=f"{log}\n{error}", solution_steps=solution, task_id=solution)
        for solution, error in ERRORS.items()
    ]
    await learn(knowledge, *told)


@pytest.mark.long
async def test_logs_that_begin_alike_are_told_apart_by_the_errors_they_end_with(
    opens: Opens,
) -> None:
    """Read by their beginnings alone, they were one text to the model, and none was relevant to any error."""
    async with opens(query_deadline_ms=30_000, embedder=LocalEmbedder()) as knowledge:
        await learn_errors_below(knowledge, LOG)
        for solution, error in ERRORS.items():
            found = await knowledge.queries.query_for_failure(error, min_relevance=0.0)
            assert found[0].solution == solution
            assert found[0].relevance > found[1].relevance


@pytest.mark.long
async def test_a_question_longer_than_what_is_asked_keeps_its_end_and_the_error_beside_it(opens: Opens) -> None:
    """It was cut to its beginning, which is that of all of them, and the error message with it."""
    log = "\n".join(LOG for _ in range(3))
    async with opens(query_deadline_ms=30_000, embedder=LocalEmbedder()) as knowledge:
        await learn_errors_below(knowledge, log)
        for solution, error in ERRORS.items():
            for asked in ((f"{log}\n{error}", None), (log, error)):
                found = await knowledge.queries.query_for_failure(*asked, min_relevance=0.0)
                assert found[0].solution == solution
        assert await knowledge.queries.query_for_failure(f"{' ' * 20_000}{error}{' ' * 20_000}", min_relevance=0.0)


DESCRIBED = {
    "Close what was borrowed": (
        "Checkout answers 500 when many carts are paid at once",
        "pool: too many clients already",
    ),
    "Pin the compiler": ("The wheel of the image service cannot be built", "error: unrecognized option '-std=c++23'"),
    "Keep the last ten images": ("Nightly export of the catalogue stops half-way", "OSError: No space left on device"),
}


def printed(error: str, run: int, chars: int) -> str:
    """Return an error near the end of what a run printed, each run other lines."""
    lines = (
        f"2026-03-0{run}T10:00:{n % 60:02}Z INFO part {n * run} of the {run}. run reads {n} rows" for n in range(9**9)
    )
    log = ""
    while len(log) < chars:
        log += next(lines) + "\n"
    return f"{log}ERROR {error}\nbye from run {run}"


@pytest.mark.long
@pytest.mark.parametrize("chars", [1_000, 10_000])
async def test_a_long_error_drowns_neither_what_failed_nor_the_line_that_says_so(opens: Opens, chars: int) -> None:
    """With 10,000 characters of error the relevance of a failure to its own description was 0.1."""
    async with opens(query_deadline_ms=30_000, embedder=LocalEmbedder()) as knowledge:
        await learn(
            knowledge,
            *(
                failure(failure_description=told, error_message=printed(error, 1, chars), solution_steps=solution)
                for solution, (told, error) in DESCRIBED.items()
            ),
        )
        for solution, (told, error) in DESCRIBED.items():
            before_a_task = await knowledge.queries.query_for_task(told)
            again = await knowledge.queries.query_for_failure(told, printed(error, 2, chars))
            by_error = await knowledge.queries.query_for_failure("A run failed", printed(error, 3, chars))
            assert [found[0].solution for found in (before_a_task, again, by_error)] == [solution] * 3
            assert before_a_task[0].relevance >= 0.85
            assert again[0].relevance >= 0.85
        assert (await knowledge.upkeep.verify()).sound


@pytest.mark.long
async def test_what_a_release_wrote_that_knew_of_no_gist_is_sound_and_rebuilt_with_one(opens: Opens) -> None:
    """Else each store with a long error would be told after an upgrade that its index is wrong."""
    async with opens(query_deadline_ms=30_000, embedder=LocalEmbedder()) as knowledge:
        told, error = DESCRIBED["Pin the compiler"]
        await learn(knowledge, failure(failure_description=told, error_message=printed(error, 1, 10_000)))
        stores = knowledge.stores
        bound = await stores.spaces.bound()
        assert bound is not None
        (stored,) = await knowledge.upkeep.upkeep.points(bound.space, after=None, limit=10)
        assert stored.vector is not None
        wanted = [
            from_stored(
                stored, stored.vector, workspace=stores.workspace, mean_terms=bound.mean_terms, with_gist=with_gist
            )
            for with_gist in (True, False)
        ]
        assert wanted[0].lexical.indices == wanted[1].lexical.indices
        assert wanted[0].lexical.values != wanted[1].lexical.values
        await stores.index.upsert(bound.space, wanted[1:])
        assert (await knowledge.upkeep.verify()).sound
        before = await knowledge.queries.query_for_task(told, min_relevance=0)
        await knowledge.store_upkeep.rebuild()
        after = await knowledge.queries.query_for_task(told, min_relevance=0)
        assert after[0].relevance > before[0].relevance + 0.1
