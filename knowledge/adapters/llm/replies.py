"""Replies of the embeddings protocol: vectors in the order of the texts, read generously and checked strictly."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from knowledge.adapters.embedding_space import unit
from knowledge.adapters.llm.failures import UnusableReplyError
from knowledge.models import Vector


@dataclass(frozen=True, slots=True)
class Answer:
    """The vectors of a request, of length 1, by the positions of their texts.

    `unusable`: what the endpoint gave for each other text. `tokens`: those that it counted, 0 if it reports none.
    """

    rows: Mapping[int, Vector]
    unusable: Mapping[int, str]
    tokens: int
    dims: int


class _Row(BaseModel):
    model_config = ConfigDict(strict=True)
    index: int
    embedding: str | list[float]


class _Reply(BaseModel):
    data: list[_Row]
    usage: Any = None


def read_reply(content: bytes, texts: int, dims: int | None = None) -> Answer:
    """Return the vectors of a reply in the order of the texts, whatever order it has them in.

    Raises ValueError unless each vector is certainly that of its text, and at least one can be used. `dims`: the size
    of the vectors, if it is known; a row of another size is unusable, if not all are.
    """
    try:
        reply = _Reply.model_validate_json(content)
    except ValidationError:  # an odd one
        rows, usage = _read_odd_rows(content)
    else:
        rows, usage = [(row.index, row.embedding) for row in reply.data], reply.usage
    if texts and not rows:
        raise UnusableReplyError("answers with no vector at all")
    places = _places([index for index, _ in rows], texts)
    vectors, unusable = _vectors(dict(zip(places, (embedding for _, embedding in rows), strict=True)))
    unusable |= {place: "gives no vector for it" for place in range(texts) if place not in unusable.keys() | vectors}
    sizes = Counter(len(vector) for vector in vectors.values())
    commonest = max(sizes, key=lambda each: sizes[each], default=0)
    size = dims if dims is not None and dims in sizes else commonest
    for place in [place for place, vector in vectors.items() if len(vector) != size]:
        unusable[place] = f"gives for it a vector of {len(vectors.pop(place))} numbers, not {size}"
    if texts and not vectors:
        raise UnusableReplyError(unusable[0].replace(" for it", ""))
    return Answer(vectors, unusable, tokens_used(usage), size)


def _vectors(embeddings: Mapping[int, Any]) -> tuple[dict[int, Vector], dict[int, str]]:
    """Return the vectors of length 1 by their places, and what the others are."""
    try:
        return dict(zip(embeddings, unit([_numbers(each) for each in embeddings.values()]), strict=True)), {}
    except ValueError:  # one of them, or of another size than the others
        pass
    vectors: dict[int, Vector] = {}
    unusable: dict[int, str] = {}
    for place, embedding in embeddings.items():
        try:
            vectors[place] = unit(_numbers(embedding))
        except ValueError as error:
            unusable[place] = f"gives for it {error}"
    return vectors, unusable


def _read_odd_rows(content: bytes) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the index and the vector of each row, as they are, and the usage."""
    body = from_json(content)
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(body, dict) or "data" not in body:
        raise ValueError("no reply of the protocol")
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise UnusableReplyError("answers with no vector at all")
    return [(row.get("index"), row.get("embedding")) for row in data], body.get("usage")


def _places(indexes: Sequence[Any], texts: int) -> Sequence[int]:
    """Return the position of each row's text. Raises ValueError where it is not certain.

    Some endpoints leave the index out, or out where it is 0; some say 0 for every row, and proxies that split a request
    begin again with each part: then the order tells.
    """
    if len(indexes) > texts:
        raise UnusableReplyError(f"answers with {len(indexes)} vectors for {texts} texts")
    told = [index for index in indexes if index is not None]
    if not all(type(index) is int for index in told):
        raise UnusableReplyError("answers with an index that is not a number")
    whole = list(range(texts))
    if len(indexes) < texts:
        if len(set(told)) == len(indexes) and set(told) <= set(whole) and max(told) >= len(indexes):
            return told  # else it may have numbered those that it has
        raise UnusableReplyError(f"answers with {len(indexes)} vectors for {texts} texts")
    filled = [0 if index is None else index for index in indexes]
    if sorted(filled) == whole:
        return filled
    begins_again = all(index in {0, before + 1} for before, index in zip([-1, *filled], filled, strict=False))
    if not told or (begins_again and filled[0] == 0):
        return whole
    raise UnusableReplyError("answers with indexes that are not those of the texts")


def tokens_used(usage: Any) -> int:
    """Return the tokens in the `usage` of a reply, 0 if there are none."""
    used = usage.get("total_tokens") if isinstance(usage, dict) else None
    return max(0, used) if isinstance(used, int) else 0


def _numbers(embedding: Any) -> Vector:
    """Return the numbers of a vector. Raises ValueError, naming what it is instead, for what has none."""
    if isinstance(embedding, list):  # some servers know no base64
        if len(embedding) == 1 and isinstance(embedding[0], list):  # llama.cpp's own form
            embedding = embedding[0]
        elif embedding and isinstance(embedding[0], list):
            raise ValueError("a vector for each of its tokens, which its server does not pool")
        if any(type(number) not in {float, int} for number in embedding):
            raise ValueError("a vector with something that is not a number")
        with np.errstate(over="ignore"):
            numbers: Vector = np.asarray(embedding, dtype=np.float32)
    elif isinstance(embedding, str):
        try:
            numbers = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
        except (binascii.Error, ValueError) as exc:
            raise ValueError("a vector that is not base64") from exc
    else:
        raise ValueError("no vector" if embedding is None else "something that is not a vector")  # noqa: TRY004 - read_reply's
    if not numbers.size:
        raise ValueError("an empty vector")
    return numbers
