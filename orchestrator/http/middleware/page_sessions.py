"""Sessions of the web pages: a sealed cookie that names a key, and the token that their forms carry."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final, Protocol
from urllib.parse import urlsplit

from knowledge.access.keys import Pepper

COOKIE: Final = "hardwon_session"
SESSION: Final = "hardwon.session"
"""The key of the `Session` in the ASGI scope of a request for a page."""
REFUSAL: Final = "hardwon.refusal"
"""The key of the error in the ASGI scope of a page's request that was refused: the page shows it."""
CHECK_KEY: Final = "hardwon.check_key"
"""The key of the function in the ASGI scope of a sign-in that returns the principal of a typed key."""
SEALER: Final = "hardwon.sealer"
"""The key of the `SessionSealer` in the ASGI scope of a sign-in."""
SESSIONS: Final = "hardwon.sessions"
"""The key of the `PageSessions` in the ASGI scope of a request for a page."""
LIFETIME: Final = timedelta(hours=12)
"""Longest session, ours: a working day; the browser forgets the cookie when it is closed."""
SIGN_IN_PATH: Final = "/session"
SIGN_OUT_PATH: Final = "/session/end"
PAGES_PREFIX: Final = "/w/"
ASSETS_PREFIX: Final = "/assets/"
_PURPOSE: Final = b"hardwon: session of the pages, 1"


class _Clock(Protocol):
    def timestamp(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session that was begun with a key. `form_token` is bound to it: a form without it is refused."""

    session_id: str
    key_id: str
    ends_at: datetime
    form_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSealer:
    """Seals sessions with the pepper of the keys, so that all servers of a store accept them and none holds any.

    The cookie holds no secret of a key, only its id: a request looks the key up, so a session ends with its key. That
    of `operator_key`, which is in no store, is bound to its text instead.
    """

    pepper: Callable[[], Pepper]
    now: Callable[[], _Clock]
    operator_id: str
    operator_key: str | None

    def seal(self, key_id: str) -> str:
        """Return the cookie of a new session."""
        ends = int(self.now().timestamp() + LIFETIME.total_seconds())
        body = f"{key_id}.{ends}.{secrets.token_hex(16)}"
        return f"{body}.{self._sign(body, key_id)}"

    def open(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None for one that is not ours or is over."""
        body, _, signature = cookie.rpartition(".")
        key_id, _, rest = body.partition(".")
        if not cookie.isascii() or not hmac.compare_digest(signature, self._sign(body, key_id)):
            return None
        ends, _, session_id = rest.partition(".")
        if int(ends) < self.now().timestamp():
            return None
        return Session(
            session_id=session_id,
            key_id=key_id,
            ends_at=datetime.fromtimestamp(int(ends), UTC),
            form_token=self._sign(f"form {cookie}", key_id),
        )

    def _sign(self, text: str, key_id: str) -> str:
        secret = hmac.digest(self.pepper().value, _PURPOSE, sha256)
        bound = self.operator_key if key_id == self.operator_id else ""
        return hmac.new(secret, f"{text} {bound or ''}".encode("utf-8", "replace"), sha256).hexdigest()


def find_cookie(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the session's cookie of a request, None without one."""
    for name, value in headers:
        if name == b"cookie":
            try:
                cookies = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            if COOKIE in cookies:
                return cookies[COOKIE].value
    return None


def is_page(path: str) -> bool:
    """Return whether a path is that of a page, which shows a refusal itself."""
    return path in {"/", SIGN_IN_PATH, SIGN_OUT_PATH} or path.startswith(PAGES_PREFIX)


def is_from_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a page of another origin made the browser send this, by a link or otherwise.

    By the header Sec-Fetch-Site, which no script can set; browsers send it to https and to this machine.
    """
    return headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}


def is_part_of_foreign_page(headers: Mapping[str, str]) -> bool:
    """Return whether a page of another origin loads this into itself: a picture, a frame, a script's request.

    A link to a page of ours is none: its answer is shown alone.
    """
    is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_from_another_site(headers) and not is_link


def is_same_origin(origin: str | None, host: str) -> bool:
    """Return whether a request came from a page of this server, by its headers Origin and Host.

    The scheme is left out: behind a proxy that ends TLS this process sees another one than the browser.
    """
    if not origin or not host:
        return False
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
