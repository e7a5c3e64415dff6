"""An HTTP server on loopback that speaks OpenAI's embeddings and chat protocols, and misbehaves on command.

with OpenAIServer(dims=64) as server:
    server.misbehave(Status(429, headers={"Retry-After": "1"}), Misdeed.HANG)   # one for each of the next calls
    OpenAIEmbedder("some-model", base_url=server.base_url, api_key=SecretStr(server.key))

It runs in a thread with a loop of its own, so it serves tests of any kind, and several processes at once.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from pydantic import SecretStr

from knowledge.adapters.embedding.model_check import PROBES
from knowledge.settings import KnowledgeSettings
from tests.support.embedders import crowded, hashed_bag

Reply = dict[str, Any]


class Misdeed(StrEnum):
    """What goes wrong with a call, other than its status or the content of its reply."""

    HANG = "hang"  # no answer until the client leaves or the server stops
    SLOW_LORIS = "slow-loris"  # the head, then a byte every 50 ms
    RESET = "reset"  # the connection is reset before an answer
    BROKEN_OFF = "broken off"  # the connection ends in the middle of the body
    TRUNCATED = "truncated"  # a whole HTTP answer with half of the JSON
    NOT_JSON = "not json"  # a login page


@dataclass(frozen=True, slots=True)
class Status:
    """An error status with OpenAI's error object."""

    status: int
    message: str = "made up by the test"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    """What stands in the error object instead of these."""


@dataclass(frozen=True, slots=True)
class Body:
    """An answer as it is sent, for endpoints that have errors of their own form."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Rewrite = Callable[[Reply], object]
Fault = Misdeed | Status | Body | Rewrite


def reordered(reply: Reply) -> object:
    return reply | {"data": reply["data"][::-1]}


def missing_row(reply: Reply) -> object:
    return reply | {"data": reply["data"][:-1]}


def wrong_dims(reply: Reply) -> object:
    return reply | {"data": [row | {"embedding": encoded([1.0, 2.0, 3.0])} for row in reply["data"]]}


def not_a_number(reply: Reply) -> object:
    *others, last = reply["data"]
    numbers = [math.nan, *decoded(last["embedding"])[1:]]
    return reply | {"data": [*others, last | {"embedding": encoded(numbers)}]}


def as_floats(reply: Reply) -> object:
    return reply | {"data": [row | {"embedding": decoded(row["embedding"])} for row in reply["data"]]}


def encoded(numbers: Iterable[float]) -> str:
    numbers = list(numbers)
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def decoded(embedding: str) -> list[float]:
    packed = base64.b64decode(embedding)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


@dataclass(slots=True, kw_only=True)
class OpenAIServer:
    """Vectors are `hashed_bag` of the text. What it counts may be read, and its limits changed, at any time.

    `poison`: texts with this in them get a 400, with the whole request. `bytes_per_token`: its tokenizer. `crowd`: the
    cosine of texts that share nothing. `says`: what it answers in a chat to instructions and a text; it calls no tool.
    """

    dims: int = 64
    crowd: float = 0.0
    key: str = "test-key"
    poison: str | None = None
    refusal_of_poison: str = "The input was flagged."
    max_inputs: int = 2048
    max_input_tokens: int = 8192
    max_request_tokens: int = 300_000
    bytes_per_token: float = 4.0
    seconds_per_call: float = 0.0
    knows_dimensions: bool = True
    knows_json: bool = True
    says: Callable[[str, str], str | None] = lambda _instructions, text: text
    converses: Callable[[Reply], Reply] | None = None
    """Answers whole chat requests with a message, instead of `says`: tools and several turns."""
    always: Fault | None = None
    moods: Callable[[], Fault | None] | None = None
    """Asked at each call for which there is no other fault."""

    quirk: Callable[[Reply], object] | None = None
    """Given each request; what it returns is the answer, unless it is None."""
    targets: list[str] = field(default_factory=list)
    """The path and query of each call."""
    heads: list[Mapping[str, str]] = field(default_factory=list)

    serves: str | None = None
    """Answers by this model's vectors whatever the name it is asked for."""
    port: int = 0
    calls: int = 0
    inputs: int = 0
    tokens: int = 0
    running: int = 0
    most_running: int = 0
    batches: list[list[str]] = field(default_factory=list)
    chats: list[Reply] = field(default_factory=list)
    """The chat requests, as they came."""
    times: list[float] = field(default_factory=list)
    """When each call came, by `time.monotonic`."""
    faults: list[tuple[float, Fault]] = field(default_factory=list)
    """What went wrong with which call, and when that came."""
    _faults: deque[Fault] = field(default_factory=deque)
    _started: threading.Event = field(default_factory=threading.Event)
    _stop: Callable[[], object] | None = None
    _thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> int:
        """How many texts were embedded, without those that ask for the size of a vector and for the model."""
        asked = {"dimensions", *PROBES}
        return sum(not text.startswith(tuple(asked)) for batch in self.batches for text in batch)

    def serving(self, settings: KnowledgeSettings, model: str) -> KnowledgeSettings:
        """Return settings by which a model of this server embeds."""
        told = {
            "embedding_model": model,
            "embedding_base_url": self.base_url,
            "embedding_api_key": SecretStr(self.key),
        }
        return settings.model_copy(update=told)

    def misbehave(self, *faults: Fault) -> None:
        """Do these with the next calls, one each; then behave again."""
        self._faults.extend(faults)

    def __enter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", self.port))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        self.port = listening.getsockname()[1]
        self._thread = threading.Thread(target=asyncio.run, args=[self._serve(listening)], daemon=True)
        self._thread.start()
        self._started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop and self._thread:
            self._stop()
            self._thread.join(10)

    async def _serve(self, listening: socket.socket) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        server = await asyncio.start_server(self._connected, sock=listening)
        self._started.set()
        await stopped.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one call; return whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        asked = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        self.calls += 1
        self.targets.append(head[0].split()[1])
        self.heads.append(headers)
        self.times.append(time.monotonic())
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self.seconds_per_call)
            fault = self._fault()
            answer = fault if isinstance(fault, Misdeed | Status | Body) else self._answer(head[0], headers, asked)
            if isinstance(answer, dict) and callable(fault):
                answer = fault(answer)
        finally:
            self.running -= 1  # before it is sent: whoever has the answer may ask again at once
        return await self._send(reader, writer, answer, asked)

    def _fault(self) -> Fault | None:
        fault = self._faults.popleft() if self._faults else self.always
        if fault is None and self.moods is not None:
            fault = self.moods()
        if fault is not None:
            self.faults.append((time.monotonic(), fault))
        return fault

    def _answer(self, line: str, headers: Mapping[str, str], asked: Reply) -> object:
        method, target = line.split()[:2]
        if (method, target.partition("?")[0]) not in {("POST", "/v1/embeddings"), ("POST", "/v1/chat/completions")}:
            return Status(404, "no such path")
        if headers.get("authorization") != f"Bearer {self.key}":
            return Status(401, f"Incorrect API key provided: {headers.get('authorization')}", code="invalid_api_key")
        odd = self.quirk(asked) if self.quirk is not None else None
        return odd or self._refusal(asked) or self.reply(asked)

    def _refusal(self, asked: Reply) -> Status | None:
        if "messages" in asked:
            texts = [message["content"] for message in asked["messages"]]
            if self.poison is not None and any(self.poison in text for text in texts):
                return Status(400, self.refusal_of_poison)
            if "response_format" in asked and not self.knows_json:
                return Status(400, "Unrecognized request argument supplied: response_format")
            return None
        texts = asked["input"]
        counts = [self._tokens(text) for text in texts]
        rules = [
            (
                "dimensions" in asked and not self.knows_dimensions,
                Status(400, "This model does not support specifying dimensions.", param="dimensions"),
            ),
            ("" in texts, Status(400, "'$.input' is invalid.")),
            (
                self.poison is not None and any(self.poison in text for text in texts),
                Status(400, self.refusal_of_poison),
            ),
            (
                len(texts) > self.max_inputs,
                Status(413, f"batch size {len(texts)} > maximum allowed batch size {self.max_inputs}"),
            ),
            (
                max(counts, default=0) > self.max_input_tokens,
                Status(400, f"This model's maximum context length is {self.max_input_tokens} tokens"),
            ),
            (
                sum(counts) > self.max_request_tokens,
                Status(400, f"Requested {sum(counts)} tokens, maximum {self.max_request_tokens} tokens per request"),
            ),
        ]
        return next((status for broken, status in rules if broken), None)

    def reply(self, asked: Reply) -> Reply:
        if "messages" in asked:
            self.chats.append(asked)
            if self.converses is not None:
                message = {"role": "assistant", "refusal": None, **self.converses(asked)}
            else:
                texts = [message["content"] for message in asked["messages"]]
                said = "I call no tool." if asked.get("tools") else self.says(*texts)
                message = {"role": "assistant", "content": said, "refusal": None}
            choices = [{"index": 0, "finish_reason": "stop", "message": message}]
            return {"object": "chat.completion", "model": asked["model"], "choices": choices}
        texts, dims = asked["input"], asked.get("dimensions", self.dims)
        bags = [hashed_bag(text, dims=dims, model=self.serves or asked["model"]) for text in texts]
        vectors = [crowded(bag, self.crowd).tolist() for bag in bags]
        tokens = sum(map(self._tokens, texts))
        self.inputs += len(texts)
        self.tokens += tokens
        self.batches.append(texts)
        base64_asked = asked.get("encoding_format") == "base64"
        return {
            "object": "list",
            "model": asked["model"],
            "data": [
                {"object": "embedding", "index": index, "embedding": encoded(vector) if base64_asked else vector}
                for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _tokens(self, text: str) -> int:
        return math.ceil(len(text.encode()) / self.bytes_per_token)

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: object, asked: Reply
    ) -> bool:
        if answer is Misdeed.HANG:
            await reader.read(1)  # until the client leaves
            return False
        if answer is Misdeed.RESET:
            linger = struct.pack("ii", 1, 0)  # closing then resets
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return False
        body = self._body(answer, asked)
        status = answer.status if isinstance(answer, Status | Body) else 200
        headers = answer.headers if isinstance(answer, Status | Body) else {}
        sent = body[: len(body) // 2] if answer is Misdeed.TRUNCATED or answer is Misdeed.BROKEN_OFF else body
        length = len(sent) if answer is Misdeed.TRUNCATED else len(body)
        lines = [f"HTTP/1.1 {status} status", *(f"{name}: {value}" for name, value in headers.items())]
        lines += ["Content-Type: application/json", f"Content-Length: {length}", "", ""]
        writer.write("\r\n".join(lines).encode())
        slow = answer is Misdeed.SLOW_LORIS
        for piece in (sent[at : at + 1] for at in range(len(sent))) if slow else [sent]:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05 if slow else 0)
        return answer is not Misdeed.BROKEN_OFF

    def _body(self, answer: object, asked: Reply) -> bytes:
        match answer:
            case bytes():
                return answer
            case Body():
                return answer.content
            case Misdeed.NOT_JSON:
                return b"<html><body>Please log in</body></html>"
            case Status():
                error = {"message": answer.message, "type": "error", "code": answer.code, "param": answer.param}
                return json.dumps({"error": error | dict(answer.told)}).encode()
            case Misdeed():
                return json.dumps(self.reply(asked)).encode()
            case _:
                return json.dumps(answer).encode()
