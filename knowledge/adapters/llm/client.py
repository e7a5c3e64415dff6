"""The client of an endpoint, with a limit on the size of a response. Loads the library of endpoints."""

from __future__ import annotations

from typing import Any

import openai
from openai import DefaultAsyncHttpxClient

from knowledge.adapters.llm.replies import TransientError

_TRANSFER_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})


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


def make_client(*, api_key: str, base_url: str, max_bytes: int) -> openai.AsyncOpenAI:
    """Return a client without retries that accepts responses of at most `max_bytes`."""
    http = _Bounded(follow_redirects=False)  # requests go to the configured address, and to no other
    http.max_bytes = max_bytes
    return openai.AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, http_client=http)
