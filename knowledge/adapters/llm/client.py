"""The client of an endpoint, with a limit on the size of a response. Loads the library of endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import openai
from openai import DefaultAsyncHttpxClient

from knowledge.adapters.llm.failures import TransientError

_TRANSFER_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})


_AZURE = "api-version"


class _Bounded(DefaultAsyncHttpxClient):
    """The library's own HTTP client, with a limit on decompressed responses, because a little may become a lot."""

    max_bytes: int

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request; raises TransientError for a response that is too long, whatever its status."""
        response = await super().send(request, stream=True, **options)
        if stream:
            return response
        content = bytearray()
        try:
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > self.max_bytes:
                    raise TransientError(f"answers with more than {self.max_bytes // 2**20} MiB")
        finally:
            await response.aclose()
        headers = [
            (name, value) for name, value in response.headers.multi_items() if name.lower() not in _TRANSFER_HEADERS
        ]
        return type(response)(response.status_code, headers=headers, content=bytes(content), request=response.request)


def make_client(
    *, api_key: str, base_url: str, query: Mapping[str, Sequence[str]], max_bytes: int
) -> openai.AsyncOpenAI:
    """Return a client without retries that accepts responses of at most `max_bytes`.

    `query`: of the address; it follows the path of each request. Azure, whose addresses have an `api-version`, reads
    the key from a header of its own.
    """
    http = _Bounded(follow_redirects=False)  # requests go to the configured address, and to no other
    http.max_bytes = max_bytes
    return openai.AsyncOpenAI(
        api_key=api_key,
        base_url=base_url,
        default_query={name: values[0] if len(values) == 1 else list(values) for name, values in query.items()},
        default_headers={"api-key": api_key} if _AZURE in query else None,
        max_retries=0,
        http_client=http,
    )
