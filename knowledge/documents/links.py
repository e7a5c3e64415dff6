"""Where a person can open a file of a repository: an address that names the commit, so that it shows what was read."""

from __future__ import annotations

import re

_COMMIT = re.compile(r"(?:/blob/([0-9a-f]{40}|[0-9a-f]{64})/.+|#.+@([0-9a-f]{40}|[0-9a-f]{64}))\Z", re.DOTALL)


def link_of(url: str, commit: str, path: str) -> str:
    """Return the address of a file of a commit: hosts of git all understand this form, or forward it."""
    if url.startswith("file://"):
        return f"{url.rstrip('/')}#{path}@{commit}"
    return f"{url.removesuffix('.git').rstrip('/')}/blob/{commit}/{path}"


def commit_of(link: str | None) -> str | None:
    """Return the commit that an address of `link_of` names; None for any other."""
    found = _COMMIT.search(link or "")
    return None if found is None else found[1] or found[2]
