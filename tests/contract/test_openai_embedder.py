"""The endpoint adapter against a real HTTP server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from hardwon.errors import EmbedderRejected, EmbedderUnavailable, InvalidSetting, TextRejected
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.adapters.llm.failures import MAX_PAUSE_SECONDS, retry_delay
from tests.support import openai_server as replies
from tests.support.embedders import hashed_bag
from tests.support.openai_server import Misdeed, OpenAIServer, Reply, Rewrite, Status

MODEL = "some-model"
QUICK = RetryPolicy(attempts=4, timeout_seconds=0.4, first_delay_seconds=0.01, longest_delay_seconds=0.05)
UNHURRIED = RetryPolicy(attempts=1, timeout_seconds=60)
"""For large requests: how often they are sent is what is counted."""
SECRET = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(key=SECRET) as running:
        yield running


def opened(server: OpenAIServer, model: str = MODEL, **options: Any) -> AbstractAsyncContextManager[OpenAIEmbedder]:
    """Open an embedder of the server's size, so that no probe is counted."""
    chosen: dict[str, Any] = {"dimensions": server.dims, "retry": QUICK, "api_key": SecretStr(SECRET)} | options
    return aclosing(OpenAIEmbedder(model, base_url=server.base_url, **chosen))


def expected(texts: list[str], dims: int = 64) -> Any:
    return np.array([hashed_bag(text, dims=dims, model=MODEL) for text in texts])


# Where it is asked


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_texts_go_to_no_other_address_than_the_one_that_was_set(server: OpenAIServer, status: int) -> None:
    """A 307 took them along, to whatever machine the endpoint named."""
    with OpenAIServer(key=SECRET) as elsewhere:
        where = f"http://127.0.0.1:{elsewhere.port}/v1/embeddings"
        server.always = Status(status, headers={"Location": f"{where}?{SECRET}"})
        async with opened(server) as embedder:
            with pytest.raises(EmbedderRejected, match="HARDWON_EMBEDDING_BASE_URL") as caught:
                await embedder.embed(["a text"], "query")
    assert f"answers {status} (it sends requests on to {where}?***, and none goes there)" in str(caught.value)
    assert (server.calls, elsewhere.calls) == (1, 0)


# Sizes


async def test_5000_texts_go_in_three_requests_and_come_back_in_order(server: OpenAIServer) -> None:
    """D26: not one call per entry."""
    texts = [f"text number {n}" for n in range(5000)]
    server.always = replies.reordered
    async with opened(server, retry=UNHURRIED) as embedder:
        embedded = await embedder.embed(texts, "document")
    assert server.calls == 3
    assert max(map(len, server.batches)) == 2048
    assert embedded.tokens == server.tokens
    np.testing.assert_allclose(embedded.vectors, expected(texts), atol=1e-6)


async def test_requests_stay_within_300000_tokens(server: OpenAIServer) -> None:
    """D26, with texts as dense as the densest real ones, 2 bytes a token."""
    server.bytes_per_token = 2
    texts = [f"{n} " + "x" * 8000 for n in range(200)]
    async with opened(server, retry=UNHURRIED) as embedder:
        await embedder.embed(texts, "document")
    assert server.calls == 3
    assert server.inputs == 200


async def test_a_wrong_guess_of_tokens_is_put_right_by_halving(server: OpenAIServer) -> None:
    server.bytes_per_token = 1
    texts = [f"{n} " + "x" * 8000 for n in range(72)]
    async with opened(server) as embedder:
        embedded = await embedder.embed(texts, "document")
    assert embedded.truncated == ()
    np.testing.assert_allclose(embedded.vectors, expected(texts), atol=1e-6)


async def test_a_server_with_a_smaller_cap_is_learnt(server: OpenAIServer) -> None:
    server.max_inputs = 32
    texts = [f"text number {n}" for n in range(128)]
    async with opened(server) as embedder:
        embedded = await embedder.embed(texts, "document")
        assert server.calls == 7
        np.testing.assert_allclose(embedded.vectors, expected(texts), atol=1e-6)
        await embedder.embed([f"other text {n}" for n in range(128)], "document")
        assert server.calls == 11


@pytest.mark.parametrize("bytes_per_token", [4, 2, 1, 0.5])
async def test_a_text_beyond_the_models_limit_is_cut_visibly(server: OpenAIServer, bytes_per_token: float) -> None:
    """D27, also where the vocabulary is denser than any guess."""
    server.bytes_per_token = bytes_per_token
    long = "é" * 40_000
    async with opened(server) as embedder:
        embedded = await embedder.embed(["before", long, "after"], "document")
    assert embedded.truncated == (1,)
    sent = max((text for batch in server.batches for text in batch), key=len)
    assert set(sent) == {"é", "\n"}  # both ends
    assert len(sent.encode()) > 0.4 * 8192 * min(bytes_per_token, 2)


async def test_a_smaller_limit_of_another_model_is_kept_to(server: OpenAIServer) -> None:
    server.max_input_tokens = 512
    async with opened(server, max_tokens=512) as embedder:
        embedded = await embedder.embed(["x" * 3000, "short"], "document")
        assert embedded.truncated == (0,)
        assert server.calls == 1
        assert (await embedder.space()).max_tokens == 512


# The space


@pytest.mark.parametrize(
    ("model", "dims"),
    [("text-embedding-3-small", 1536), ("text-embedding-3-large", 3072), ("text-embedding-ada-002", 1536)],
)
async def test_the_size_of_a_known_model_needs_no_call(server: OpenAIServer, model: str, dims: int) -> None:
    """D42: the size is the model's, not one for all."""
    server.dims = dims
    async with opened(server, model, dimensions=None) as embedder:
        assert (await embedder.space()).dims == dims
        assert server.calls == 0
        assert (await embedder.embed(["a text"], "query")).vectors.shape == (1, dims)


async def test_the_size_of_an_unknown_model_is_asked_for_once(server: OpenAIServer) -> None:
    """D42."""
    server.dims = 17
    async with opened(server, dimensions=None) as embedder:
        spaces = await asyncio.gather(*(embedder.space() for _ in range(10)))
        assert {space.dims for space in spaces} == {17}
        assert server.calls == 1


async def test_an_endpoint_that_was_down_is_asked_for_its_size_again(server: OpenAIServer) -> None:
    server.always = Status(503)
    async with opened(server, dimensions=None) as embedder:
        with pytest.raises(EmbedderUnavailable):
            await embedder.space()
        server.always = None
        assert (await embedder.space()).dims == 64


async def test_fewer_dimensions_are_asked_for_only_when_wanted(server: OpenAIServer) -> None:
    async with opened(server, dimensions=16) as embedder:
        assert (await embedder.embed(["a text"], "query")).vectors.shape == (1, 16)
    server.knows_dimensions = False
    async with opened(server, dimensions=None) as embedder:
        assert (await embedder.embed(["a text"], "query")).vectors.shape == (1, 64)
    async with opened(server, dimensions=16) as embedder:
        with pytest.raises(EmbedderRejected, match="HARDWON_EMBEDDING_DIMS"):
            await embedder.embed([f"text {n}" for n in range(9)], "document")


# Failures that pass


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [
        Status(429),
        Status(500),
        Status(503),
        Status(408),
        Misdeed.HANG,
        Misdeed.SLOW_LORIS,
        Misdeed.RESET,
        Misdeed.BROKEN_OFF,
        Misdeed.TRUNCATED,
        Misdeed.NOT_JSON,
        replies.missing_row,
        replies.not_a_number,
    ],
    ids=lambda fault: getattr(fault, "__name__", str(fault)),
)
async def test_a_fault_is_waited_out_and_told_when_it_lasts(
    server: OpenAIServer, fault: Status | Misdeed | Rewrite
) -> None:
    """D29 and D31: a deadline for each call, a bounded number of tries, and only vectors that are vectors."""
    texts = ["first text", "second text"]
    async with opened(server) as embedder:
        server.misbehave(fault, fault)
        embedded = await embedder.embed(texts, "document")
        np.testing.assert_allclose(embedded.vectors, expected(texts), atol=1e-6)
        assert server.calls <= 4
        server.always, calls = fault, server.calls
        advice = "HARDWON_EMBEDDING_BASE_URL"
        if isinstance(fault, Status):
            advice = "takes no more for now" if fault == Status(429) else "see its log"
        elif callable(fault):
            advice = "see its log"
        with pytest.raises(EmbedderUnavailable, match=rf"{server.base_url}.*\d tr(y|ies).*{advice}") as caught:
            await embedder.embed(texts, "document")
        assert not isinstance(caught.value, TextRejected)
        assert server.calls - calls <= (4 if fault == Status(429) else 11)  # a harmless text is tried as well


async def test_nobody_listening_is_unavailable_and_names_the_address_without_its_password() -> None:
    with OpenAIServer() as stopped:
        address = stopped.base_url.replace("//", "//user:hush@")
    async with aclosing(OpenAIEmbedder(MODEL, base_url=address, dimensions=64, retry=QUICK)) as embedder:
        with pytest.raises(EmbedderUnavailable) as caught:
            await embedder.embed(["a text"], "query")
    assert "hush" not in str(caught.value)
    assert f"127.0.0.1:{stopped.port}/v1" in str(caught.value)


@pytest.mark.parametrize("headers", [{"Retry-After": "1"}, {"retry-after-ms": "1000", "Retry-After": "60"}])
async def test_a_pause_that_is_asked_for_is_kept(server: OpenAIServer, headers: dict[str, str]) -> None:
    server.misbehave(Status(429, headers=headers))
    async with opened(server) as embedder:
        await embedder.embed(["a text"], "query")
    first, second = server.times
    assert 1.0 <= second - first < 2.0


async def test_a_429_holds_back_every_caller(server: OpenAIServer) -> None:
    """D29: one limit, many callers."""
    server.misbehave(Status(429, headers={"Retry-After": "0.5"}))
    async with opened(server) as embedder:
        first = asyncio.create_task(embedder.embed(["first"], "query"))
        for _ in range(1000):  # the first call of a process loads the client
            await asyncio.sleep(0.01)
            if server.calls:
                break
        await asyncio.sleep(0.2)
        assert server.calls == 1
        await asyncio.gather(first, *(embedder.embed([f"text {n}"], "query") for n in range(5)))
    assert len(server.times) == 7
    assert min(server.times[1:]) - server.times[0] >= 0.5


async def test_a_pause_longer_than_our_patience_is_handed_on_at_once(server: OpenAIServer) -> None:
    server.misbehave(Status(429, headers={"Retry-After": "300"}))
    async with opened(server) as embedder:
        with pytest.raises(EmbedderUnavailable) as caught:
            await embedder.embed(["a text"], "query")
        assert caught.value.retry_after_seconds == 300
        started = time.monotonic()
        with pytest.raises(EmbedderUnavailable, match="pause") as caught:
            await embedder.embed(["another text"], "query")
        assert time.monotonic() - started < 0.1
        assert 290 < (caught.value.retry_after_seconds or 0) <= 301
        assert server.calls == 1


def test_retry_after_is_read_in_each_of_its_forms() -> None:
    date = {"date": "Sun, 06 Nov 1994 08:49:37 GMT", "retry-after": "Sun, 06 Nov 1994 08:50:07 GMT"}
    assert retry_delay(date) == 30
    assert retry_delay({"retry-after": "2.5"}) == 2.5
    assert retry_delay({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_delay({"retry-after": "-3"}) == 0
    far = {"date": date["date"], "retry-after": "Sun, 06 Nov 2094 08:50:07 GMT"}
    for too_long in ({"retry-after": "1764000000"}, {"retry-after-ms": "1764000000000"}, far):
        assert retry_delay(too_long) == MAX_PAUSE_SECONDS
    endless = date | {"retry-after": "Sun, 06 Nov 99999999999999999999 08:50:07 GMT"}
    for unusable in (
        endless,
        {},
        {"retry-after": "soon"},
        {"retry-after": "nan"},
        {"retry-after": date["retry-after"]},
    ):
        assert retry_delay(unusable) is None


def test_delays_double_up_to_a_limit_and_differ() -> None:
    policy = RetryPolicy(first_delay_seconds=1, longest_delay_seconds=5)
    for attempt, most in ((1, 1), (2, 2), (3, 4), (4, 5), (2000, 5)):
        delays = {policy.delay(attempt, None) for _ in range(50)}
        assert len(delays) > 40
        assert most / 2 <= min(delays)
        assert max(delays) <= most


async def test_never_more_requests_at_a_time_than_allowed(server: OpenAIServer) -> None:
    server.seconds_per_call = 0.05
    async with opened(server, concurrency=3) as embedder:
        await asyncio.gather(*(embedder.embed([f"text {n}"], "document") for n in range(12)))
    assert server.most_running == 3


async def test_floats_instead_of_base64_are_taken(server: OpenAIServer) -> None:
    server.always = replies.as_floats
    async with opened(server) as embedder:
        embedded = await embedder.embed(["first text", "second text"], "document")
    np.testing.assert_allclose(embedded.vectors, expected(["first text", "second text"]), atol=1e-6)


async def test_vectors_of_another_size_are_never_returned(server: OpenAIServer) -> None:
    """D31 and D42: a server that ignores `dimensions`, or serves another model, is told at once."""
    server.always = replies.wrong_dims
    async with opened(server) as embedder:
        with pytest.raises(EmbedderUnavailable, match=r"vectors of 3 numbers where some-model is to have 64"):
            await embedder.embed(["a text"], "document")
    assert server.calls == 2  # a harmless word's, too


# Failures that do not pass


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (Status(401, f"Incorrect API key provided: {SECRET}"), "HARDWON_EMBEDDING_API_KEY"),
        (Status(403, f"Key {SECRET} is not allowed here"), "HARDWON_EMBEDDING_API_KEY"),
        (Status(402, "Payment required"), "quota.*HARDWON_EMBEDDING_API_KEY"),
        (Status(429, f"{SECRET} is out of credit", code="insufficient_quota"), "quota.*HARDWON_EMBEDDING_API_KEY"),
        (Status(404, f"The model does not exist, {SECRET}", code="model_not_found"), "HARDWON_EMBEDDING_MODEL"),
        (Status(400, f"{SECRET} invalid model", param="model"), "HARDWON_EMBEDDING_MODEL"),
        (Status(418, f"{SECRET} is a teapot"), "HARDWON_EMBEDDING_BASE_URL"),
    ],
    ids=lambda value: str(value.status) + str(value.code or value.param or "") if isinstance(value, Status) else "",
)
async def test_what_no_retry_can_mend_fails_at_once_and_never_tells_the_key(
    server: OpenAIServer, status: Status, says: str
) -> None:
    server.always = status
    async with opened(server) as embedder:
        with pytest.raises(EmbedderRejected, match=says) as caught:
            await embedder.embed([f"text {n}" for n in range(50)], "document")
    assert server.calls == (2 if status.status in {403, 418} else 1)  # where a firewall may mean the text
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(embedder)


def test_openai_without_a_key_is_a_wrong_setting() -> None:
    with pytest.raises(InvalidSetting, match="HARDWON_EMBEDDING_API_KEY"):
        OpenAIEmbedder("text-embedding-3-small")


async def test_a_poisoned_text_alone_is_rejected_with_the_endpoints_reason(server: OpenAIServer) -> None:
    server.poison = "POISON"
    async with opened(server, retry=RetryPolicy(refusal_seconds=0.3)) as embedder:
        for _ in range(2):
            with pytest.raises(TextRejected, match=r"refuses this text: The input was flagged"):
                await embedder.embed(["POISON"], "document")
            assert server.calls == 2  # the second says that it takes another one
        server.poison = None
        await asyncio.sleep(0.35)  # the endpoint may have changed its mind
        assert (await embedder.embed(["POISON"], "document")).vectors.shape == (1, 64)


@pytest.mark.parametrize("place", [0, 41, 99])
async def test_a_caller_that_halves_finds_the_poison_at_no_further_cost(server: OpenAIServer, place: int) -> None:
    """G7: 99 embedded, one refused, at most 2 log2(batch) + 1 extra calls; no text is embedded twice."""
    server.poison = "POISON"
    texts = [f"POISON {n}" if n == place else f"text {n}" for n in range(100)]
    refused: list[str] = []
    vectors: dict[str, Any] = {}

    async def halve(batch: list[str]) -> None:
        try:
            embedded = await embedder.embed(batch, "document")
        except EmbedderRejected:
            if len(batch) == 1:
                refused.extend(batch)
                return
            await halve(batch[: len(batch) // 2])
            await halve(batch[len(batch) // 2 :])
        else:
            vectors.update(zip(batch, embedded.vectors, strict=True))

    async with opened(server) as embedder:
        await halve(texts)
    assert refused == [texts[place]]
    assert server.calls - 1 <= 2 * math.log2(100) + 1
    assert server.inputs == 99
    for text, vector in vectors.items():
        np.testing.assert_allclose(vector, hashed_bag(text, dims=64, model=MODEL), atol=1e-6)


async def test_several_poisoned_texts_leave_the_others_embedded(server: OpenAIServer) -> None:
    server.poison = "POISON"
    texts = [f"POISON {n}" if n % 20 == 7 else f"text {n}" for n in range(100)]
    async with opened(server) as embedder:
        with pytest.raises(EmbedderRejected):
            await embedder.embed(texts, "document")
        assert server.inputs == 95
        calls = server.calls
        good = [text for text in texts if "POISON" not in text]
        np.testing.assert_allclose((await embedder.embed(good, "document")).vectors, expected(good), atol=1e-6)
        assert server.calls == calls


@pytest.mark.parametrize("dimensions", [64, None], ids=["size given", "size asked for"])
async def test_an_endpoint_that_refuses_any_text_blames_no_text(server: OpenAIServer, dimensions: int | None) -> None:
    """G5: a wrong address or a server that lost its model answers 400 to all there is, and that buries no entry."""
    async with opened(server, dimensions=dimensions) as embedder:
        server.always = Status(400, "The plain HTTP request was sent to HTTPS port")
        with pytest.raises(EmbedderRejected, match=r"any text \(The plain HTTP.*HARDWON_EMBEDDING_BASE_URL") as caught:
            await embedder.embed([f"text {n}" for n in range(256)], "document")
        assert not isinstance(caught.value, TextRejected)
        assert server.calls <= math.log2(256) + 6  # without base64, too
        server.always = None
        assert len((await embedder.embed([f"text {n}" for n in range(256)], "document")).vectors) == 256
        server.always = Status(400, "model is unloaded")
        with pytest.raises(EmbedderRejected, match="any text"):
            await embedder.embed(["another text"], "document")


@pytest.mark.parametrize(
    "told",
    [{"code": ["a"]}, {"code": {"a": 1}}, {"type": ["a"]}, {"param": ["model"]}, {"param": {"a": 1}}, {"message": [1]}],
    ids=str,
)
async def test_an_error_of_an_odd_shape_is_a_refusal_like_any_other(server: OpenAIServer, told: Reply) -> None:
    server.misbehave(Status(400, told=told))
    async with opened(server) as embedder:
        with pytest.raises(TextRejected):
            await embedder.embed(["a text"], "document")


@pytest.mark.parametrize("odd", ["\0", "\ud800", "\x1b[31m", "\x07", "\u202e", "\n"], ids=ascii)
async def test_the_reason_of_a_refusal_is_one_line_of_what_can_be_stored_and_shown(
    server: OpenAIServer, odd: str
) -> None:
    server.misbehave(Status(400, f"flagged:{odd}see the manual"))
    async with opened(server) as embedder:
        with pytest.raises(TextRejected) as caught:
            await embedder.embed(["a text"], "document")
    assert str(caught.value).isprintable()
    assert "flagged" in str(caught.value)
    assert "see the manual" in str(caught.value)


# Queries, and the end


async def test_a_query_asked_again_costs_no_call(server: OpenAIServer) -> None:
    async with opened(server) as embedder:
        first = await embedder.embed(["a query"], "query")
        again = await embedder.embed(["a query"], "query")
        np.testing.assert_array_equal(first.vectors, again.vectors)
        assert server.calls == 1
        await embedder.embed(["a query"], "document")
        assert server.calls == 2


async def test_a_caller_with_a_deadline_gets_its_answer_in_time(server: OpenAIServer) -> None:
    server.always = Misdeed.HANG
    async with opened(server, retry=RetryPolicy(), concurrency=1) as embedder:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await embedder.embed(["a query"], "query")
        assert time.monotonic() - started < 0.5
        server.always = None
        async with asyncio.timeout(5):  # its place is free again
            assert (await embedder.embed(["a query"], "query")).vectors.shape == (1, 64)


# Fuzzed replies


@pytest.mark.long
async def test_no_fuzzed_reply_ever_gives_a_text_another_vector(server: OpenAIServer) -> None:
    """G6 (D31): 1,000 replies broken at random; each is refused, or every text has its own vector."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    refused = again = 0
    once = RetryPolicy(attempts=1, timeout_seconds=5)
    async with opened(server, retry=once) as embedder:
        for case in range(1000):
            texts = [f"text {case} {n} {chance.random()}" for n in range(chance.randint(1, 6))]
            server.misbehave(_mutation(chance))
            calls = server.calls
            try:
                embedded = await embedder.embed(texts, "document")
            except EmbedderUnavailable:
                refused += 1
            else:
                np.testing.assert_allclose(embedded.vectors, expected(texts), atol=1e-5, err_msg=f"seed {seed}, {case}")
            again += server.calls > calls + 1
    assert 300 < again + refused < 1000, f"seed {seed}: the mutations do not bite, or bite all"


def _mutation(chance: random.Random) -> Callable[[Reply], object]:
    """Return a change of a reply: harmless for the text-vector pairs, or one that no reader may accept."""

    def scaled(reply: Reply) -> object:
        factor = chance.choice([0.001, 3.0, 1e6])
        return _with_rows(
            reply, lambda row: row | {"embedding": [x * factor for x in replies.decoded(row["embedding"])]}
        )

    def unfit(reply: Reply) -> object:
        rows = list(reply["data"])
        at = chance.randrange(len(rows))
        numbers = replies.decoded(rows[at]["embedding"])
        spoilt: list[object] = [
            replies.encoded([*numbers[:-1], chance.choice([math.nan, math.inf, -math.inf])]),
            [*numbers[:-1], 1e300],
            replies.encoded([0.0] * len(numbers)),
            replies.encoded(numbers[:-1]),
            replies.encoded([*numbers, 1.0]),
            [],
            "",
            "not base64!",
            rows[at]["embedding"][:-5],
            [*numbers[:-1], None],
            [*numbers[:-1], "1.0"],
            None,
            {"0": 1.0},
            [numbers],
        ]
        rows[at] = rows[at] | {"embedding": chance.choice(spoilt)}
        return reply | {"data": rows}

    def miscounted(reply: Reply) -> object:
        rows = list(reply["data"])
        at = chance.randrange(len(rows))
        other: list[object] = [len(rows), -1, None, "0", 0.5, True, 2**70]
        changed = rows[at] | {"index": chance.choice(other)}
        without = {key: value for key, value in rows[at].items() if key != "index"}
        choices: list[object] = [
            [*rows[:at], *rows[at + 1 :]],
            [*rows, rows[at]],
            [*rows[:at], changed, *rows[at + 1 :]],
            [*rows[:at], without, *rows[at + 1 :]],
            [],
            None,
            "rows",
        ]
        return reply | {"data": chance.choice(choices)}

    def mangled(reply: Reply) -> object:
        body = bytearray(json.dumps(reply).encode())
        return bytes(body[: chance.randrange(len(body))])

    def shuffled(reply: Reply) -> object:
        return reply | {"data": chance.sample(reply["data"], len(reply["data"]))}

    def untold(reply: Reply) -> object:
        return reply | {"usage": chance.choice([None, {}, {"total_tokens": "many"}, 7]), "model": None}

    return chance.choice([scaled, unfit, miscounted, mangled, shuffled, untold])


def _with_rows(reply: Reply, change: Callable[[Reply], Reply]) -> object:
    return reply | {"data": [change(row) for row in reply["data"]]}
