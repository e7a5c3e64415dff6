"""A failure that stands at the end of a log is found by it, with the bundled model."""

from __future__ import annotations

from knowledge.adapters.local_embedder import LocalEmbedder
from knowledge.wiring import Knowledge
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
