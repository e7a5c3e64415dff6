"""What endpoints do to one text, to parameters, and while they fail altogether; each as a quirk of an OpenAIServer.

A quirk is given a request and answers it, or returns None. The sentences are those of public reports.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.openai_server import Body, Misdeed, OpenAIServer, Reply, Status

BAD = "NAN-CLUSTER"
"""What stands in a text that an endpoint fails at."""
Quirk = Callable[[Reply], object]
Make = Callable[[OpenAIServer], Quirk]


def texts_of(asked: Reply) -> list[str]:
    if "messages" in asked:
        return [str(message["content"]) for message in asked["messages"]]
    return list(asked["input"])


def is_bad(asked: Reply) -> bool:
    return any(BAD in text for text in texts_of(asked))


def answers(answer: object) -> Make:
    """Give this answer to a request with a bad text in it."""
    return lambda _: lambda asked: answer if is_bad(asked) else None


def rows(change: Callable[[Reply], object]) -> Make:
    """Give every text its vector, but a bad one what is made of its row; None leaves the row out."""

    def make(server: OpenAIServer) -> Quirk:
        def quirk(asked: Reply) -> object:
            if "input" not in asked or not is_bad(asked):
                return None
            reply = server.reply(asked)
            changed = [
                change(row) if BAD in text else row for text, row in zip(asked["input"], reply["data"], strict=True)
            ]
            return reply | {"data": [row for row in changed if row is not None]}

        return quirk

    return make


def with_embedding(embedding: object) -> Make:
    return rows(lambda row: row | {"embedding": embedding})


def json_body(status: int, body: object, **headers: str) -> Body:
    return Body(status, json.dumps(body).encode(), headers)


def batches_of_one(server: OpenAIServer) -> Quirk:
    """Fail at every batch, and at the bad text."""

    def quirk(asked: Reply) -> object:
        return Status(500, "could not broadcast input array") if len(texts_of(asked)) > 1 or is_bad(asked) else None

    return quirk


def long_is_500(server: OpenAIServer) -> Quirk:
    """Wrap the upstream's refusal of a long text in a 500, and fail at the bad text."""

    def quirk(asked: Reply) -> object:
        if any(len(text) > 2000 for text in texts_of(asked)):
            return Status(500, "litellm.BadRequestError: This model's maximum context length is 512 tokens")
        return Status(500, "unsupported value: NaN") if is_bad(asked) else None

    return quirk


def long_is_cut(server: OpenAIServer) -> Quirk:
    """Break off the connection at a long text, without a word."""

    def quirk(asked: Reply) -> object:
        return Misdeed.RESET if any(len(text) > 2000 for text in texts_of(asked)) or is_bad(asked) else None

    return quirk


def minute_is_small(server: OpenAIServer) -> Quirk:
    """Take 600 characters a minute at most, and say so with the status of a rate limit."""

    def quirk(asked: Reply) -> object:
        if sum(map(len, texts_of(asked))) > 600:
            return Status(429, "Request too large for some-model on tokens per min (TPM): Limit 200, Requested 900")
        return Status(500, "unsupported value: NaN") if is_bad(asked) else None

    return quirk


REFUSING: Mapping[str, tuple[Make, str]] = {
    "500 for ever": (answers(Status(500, "unsupported value: NaN")), "unsupported value: NaN"),
    "500 in plain text": (answers(Body(500, b"Internal Server Error")), "500.*Internal Server Error"),
    "500 as a page": (
        answers(Body(500, b"<html><head><title>502 Bad Gateway</title></head></html>")),
        "a web page: 502 Bad Gateway",
    ),
    "503 without a pause": (answers(Status(503, "no healthy upstream")), "no healthy upstream"),
    "529": (answers(json_body(529, {"type": "error", "error": {"message": "Overloaded"}})), "529.*Overloaded"),
    "400": (answers(Status(400, "The input was flagged.")), "flagged"),
    "400 as Gemini says it": (answers(json_body(400, [{"error": {"code": 400, "message": "Bad unit"}}])), "Bad unit"),
    "422 with a list": (
        answers(json_body(422, {"detail": [{"loc": ["body", "input", 3], "msg": "tokenizer error", "type": "v"}]})),
        "tokenizer error",
    ),
    "413": (answers(Body(413, b"Payload Too Large")), "Payload Too Large"),
    "403 of a firewall": (
        answers(Body(403, b"<html><title>Attention Required! | Cloudflare</title></html>")),
        "403.*Cloudflare",
    ),
    "404 of a filter": (answers(Body(404, b"page not found")), "404.*page not found"),
    "451": (answers(json_body(451, {"message": "unavailable for legal reasons"})), "legal reasons"),
    "200 with an error": (
        answers(json_body(200, {"error": {"message": "Provider returned error", "code": 502}})),
        "Provider returned error",
    ),
    "200 with an error in words": (answers(json_body(200, {"error": "failed to encode"})), "failed to encode"),
    "200 with no data": (answers(json_body(200, {"object": "list", "data": []})), "no vector at all"),
    "200 with null data": (answers(json_body(200, {"object": "list", "data": None})), "no vector at all"),
    "200 with a page": (answers(Body(200, b"<html><body>Please log in</body></html>")), "Please log in"),
    "200 with nothing": (answers(Body(200, b"")), "not embeddings of the texts"),
    "null for a vector": (with_embedding(None), "no vector"),
    "null in a vector": (with_embedding([None] * 64), "not a number"),
    "NaN": (with_embedding([float("nan")] * 64), "not finite"),
    "zeros": (with_embedding([0.0] * 64), "zeros"),
    "an empty vector": (with_embedding([]), "an empty vector"),
    "a short vector": (with_embedding([0.5] * 63), "63 numbers"),
    "no base64": (with_embedding("%%%"), "not base64"),
    "a row left out": (rows(lambda _: None), "no vector|vectors for"),
    "reset": (answers(Misdeed.RESET), "breaks off the connection"),
    "broken off": (answers(Misdeed.BROKEN_OFF), "breaks off the connection"),
    "hang": (answers(Misdeed.HANG), "no answer within"),
    "no batches": (batches_of_one, "could not broadcast"),
    "a context in a 500": (long_is_500, "unsupported value: NaN"),
    "a context in a reset": (long_is_cut, "breaks off the connection"),
    "a small minute": (minute_is_small, "unsupported value: NaN"),
}
"""Quirks of an endpoint that fails at bad texts and embeds the others, with words of what is told of them."""


def failing(share: float, seed: int) -> Make:
    """Fail at this share of the requests, at random."""

    def make(_: OpenAIServer) -> Quirk:
        chance = random.Random(seed)
        return lambda _: Status(500, "unlucky") if chance.random() < share else None

    return make


def behind_a_cache(server: OpenAIServer) -> Quirk:
    """Be down, behind a proxy that answers a request that it has seen before."""
    seen: dict[str, Reply] = {}

    def quirk(asked: Reply) -> object:
        known = json.dumps(asked["input"])
        if asked["input"] == ["dimensions"]:
            seen[known] = server.reply(asked)
        return seen.get(known, Status(500, "upstream is down"))

    return quirk


def every(answer: object) -> Make:
    return lambda _: lambda _: answer


def real_texts_fail(server: OpenAIServer) -> Quirk:
    """Answer to a word, and fail at whatever is longer: overloaded, and quick enough for little."""

    def quirk(asked: Reply) -> object:
        return Status(503, "queue full") if sum(map(len, texts_of(asked))) > 40 else None

    return quirk


FAILING: Mapping[str, Make] = {
    "401": every(Status(401, "no such key")),
    "403": every(Status(403, "not allowed")),
    "404": every(Status(404, "no such path")),
    "402": every(Status(402, "out of credit")),
    "429": every(Status(429, "slow down")),
    "429 with words of size": every(Status(429, "exceeded the limit of tokens: too many requests, batch size 5")),
    "500": every(Status(500, "out of memory")),
    "503": every(Status(503, "loading model")),
    "503 with words of size": every(Status(503, "the queue has exceeded its maximum size: inputs too many")),
    "503 with a pause": every(Status(503, "back soon", headers={"Retry-After": "0.01"})),
    "400": every(Status(400, "model is unloaded")),
    "200 with an error": every(json_body(200, {"error": {"message": "no provider", "code": 503}})),
    "200 with an error of the key": every(json_body(200, {"error": {"message": "no auth", "code": 401}})),
    "200 with no data": every(json_body(200, {"data": []})),
    "a page": every(Misdeed.NOT_JSON),
    "NaN for all": lambda server: (
        lambda asked: (
            server.reply(asked)
            | {"data": [{"index": at, "embedding": [float("nan")] * 64} for at in range(len(asked["input"]))]}
        )
    ),
    "hang": every(Misdeed.HANG),
    "reset": every(Misdeed.RESET),
    "half of all": failing(0.5, 7),
    "most": failing(0.8, 8),
    "behind a cache": behind_a_cache,
}
"""Quirks of an endpoint that fails whatever the text."""


def refusing(parameter: str, answer: object, *, values: Sequence[object] | None = None) -> Make:
    """Refuse a parameter, or these values of it."""

    def make(_: OpenAIServer) -> Quirk:
        def quirk(asked: Reply) -> object:
            told = asked.get(parameter)
            value: Any = told.get("type") if isinstance(told, dict) else told
            return answer if parameter in asked and (values is None or value in values) else None

        return quirk

    return make


def forms_of_refusal(parameter: str) -> Mapping[str, object]:
    """Return the forms that the refusal of a parameter takes."""
    return {
        "400 with the parameter": Status(400, "Unsupported value.", param=parameter),
        "400 in words": Status(400, f"Unknown request argument: {parameter}"),
        "422 with a list": json_body(
            422, {"detail": [{"loc": ["body", parameter], "msg": "Extra inputs are not permitted", "type": "extra"}]}
        ),
        "422 without a name": json_body(422, {"detail": "Extra inputs are not permitted"}),
        "400 in plain text": Body(400, b"bad request"),
        "500 in plain text": Body(500, b"Internal Server Error"),
        "500 in words": Status(500, f"got an unexpected keyword argument '{parameter}'"),
        "501": Status(501, "not implemented"),
        "200 with an error": json_body(200, {"error": {"message": f"{parameter} is not supported", "code": 400}}),
    }
