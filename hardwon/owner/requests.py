"""Requests to the current owner; a request that was cut is repeated at the next one."""

from __future__ import annotations

import httpx

from hardwon.client.transport import KEYS_PATH, LEAVING_HEADER, LIMITS, is_deletion
from hardwon.errors import OwnerUnavailable
from hardwon.owner.launch import OwnerLink

_MAX_ATTEMPTS = 5
_OWNER_LEFT = "the owner of the data directory left before this was done: try again"
_OWNER_LEFT_WITH_KEY = (
    "the owner of the data directory left before it returned the new key: if hardwon keys list shows a key that was"
    " never used, nobody has its secret; revoke it, and create another"
)
_OWNERS_KEEP_LEAVING = "the owners of the data directory keep leaving: try again"
_BROKEN_CONNECTION = (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


def socket_transport(path: str) -> httpx.AsyncHTTPTransport:
    """Return a transport over a unix socket."""
    return httpx.AsyncHTTPTransport(uds=path, verify=False, limits=LIMITS)  # no TLS here, and certificates load slowly


class OwnerTransport(httpx.AsyncBaseTransport):
    """Sends requests to the current owner of the stores. A request that was cut is repeated, except for a new key."""

    def __init__(self, link: OwnerLink) -> None:
        self._link = link
        self._to: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, where need be to one owner after the other."""
        if not isinstance(request.stream, httpx.ByteStream):
            return await self._send_stream(request)
        cut = False  # True once the owner may have processed a request without a response
        for _ in range(_MAX_ATTEMPTS):
            if cut and (request.method, request.url.path) == ("POST", KEYS_PATH):
                raise OwnerUnavailable(_OWNER_LEFT_WITH_KEY)  # repeated, it would create a second key
            path = await self._find_socket()
            try:
                response = await self._transport_to(path).handle_async_request(request)
                if response.headers.get("content-type", "").endswith("json"):
                    await response.aread()  # here, where a response that is cut in the middle is requested again
            except _BROKEN_CONNECTION as error:
                cut = cut or not isinstance(error, httpx.ConnectError)
                await self._link.find(left=path)
                continue
            if response.headers.get(LEAVING_HEADER):
                cut = True
                await response.aclose()
                await self._link.find(left=path)
                continue
            if cut and is_deletion(request) and response.status_code == httpx.codes.NOT_FOUND:
                await response.aclose()
                return httpx.Response(httpx.codes.NO_CONTENT)  # the request that was cut had deleted it
            return response
        raise OwnerUnavailable(_OWNERS_KEEP_LEAVING)

    async def _send_stream(self, request: httpx.Request) -> httpx.Response:
        """Send a stream. It can be read only once, so it is sent again only if the connection was refused."""
        for _ in range(_MAX_ATTEMPTS):
            path = await self._find_socket()
            try:
                response = await self._transport_to(path).handle_async_request(request)
            except httpx.ConnectError:
                await self._link.find(left=path)
                continue
            except _BROKEN_CONNECTION as error:
                raise OwnerUnavailable(_OWNER_LEFT) from error
            if response.headers.get(LEAVING_HEADER):
                await response.aclose()
                raise OwnerUnavailable(_OWNER_LEFT)
            return response
        raise OwnerUnavailable(_OWNERS_KEEP_LEAVING)

    async def _find_socket(self) -> str:
        """Return the socket of the owner. The next owner has the same one, and may be of other stores."""
        if self._link.has_changed():
            await self._link.find(left=self._link.socket)
        return self._link.socket or ""

    def _transport_to(self, path: str) -> httpx.AsyncHTTPTransport:
        if path not in self._to:
            self._to[path] = socket_transport(path)
        return self._to[path]

    async def aclose(self) -> None:
        """Close the connections."""
        for transport in self._to.values():
            await transport.aclose()
