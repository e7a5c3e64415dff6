"""Links to a file of a repository at the commit that was read."""

from __future__ import annotations

import re

_COMMIT = re.compile(r"(?:/blob/([0-9a-f]{40}|[0-9a-f]{64})/.+|#.+@([0-9a-f]{40}|[0-9a-f]{64}))\Z", re.DOTALL)


def link_of(url: str, commit: str, path: str) -> str:
    """Return the address of a file of a commit: all git hosts support this form, or redirect it."""
    if url.startswith("file://"):
        return f"{url.rstrip('/')}#{path}@{commit}"
    return f"{url.removesuffix('.git').rstrip('/')}/blob/{commit}/{path}"


def commit_of(link: str | None) -> str | None:
    """Return the commit in an address of `link_of`; None for any other address."""
    found = _COMMIT.search(link or "")
    return None if found is None else found[1] or found[2]
