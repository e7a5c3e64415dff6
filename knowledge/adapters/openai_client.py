"""The client of an endpoint, which reads no more of an answer than one may have. Loads the library of endpoints."""

from __future__ import annotations

from typing import Any

import openai
from openai import DefaultAsyncHttpxClient

from knowledge.adapters.openai_replies import PassingError

_ABOUT_THE_WAY = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class _Bounded(DefaultAsyncHttpxClient):
    """The library's own client of HTTP. It unpacks an answer while it comes, as a little may become a lot."""

    most_bytes: int

    async def send(self, request: Any, *, stream: bool = False, **named: Any) -> Any:
        """Send a request; raises PassingError for an answer that is too long, whatever its status."""
        response = await super().send(request, stream=True, **named)
        if stream:
            return response
        content = bytearray()
        try:
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > self.most_bytes:
                    raise PassingError(f"answers with more than {self.most_bytes // 2**20} MiB")
        finally:
            await response.aclose()
        kept = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _ABOUT_THE_WAY]
        return type(response)(response.status_code, headers=kept, content=bytes(content), request=response.request)


def make_client(*, api_key: str, base_url: str, most_bytes: int) -> openai.AsyncOpenAI:
    """Return a client that tries once and takes answers of so many bytes."""
    http = _Bounded(follow_redirects=False)  # what is asked goes to the address that was set, and to no other
    http.most_bytes = most_bytes
    return openai.AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, http_client=http)
