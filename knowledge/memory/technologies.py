"""Names of technologies and tools as they are compared: without case, and one of several that mean the same."""

from __future__ import annotations

from collections.abc import Mapping

_ALSO_CALLED: Mapping[str, str] = {
    "postgres": "postgresql",
    "psql": "postgresql",
    "node": "node.js",
    "nodejs": "node.js",
    "k8s": "kubernetes",
    "golang": "go",
    "js": "javascript",
    "ts": "typescript",
    "py": "python",
    "python3": "python",
    "cpp": "c++",
    "csharp": "c#",
    "dotnet": ".net",
    "vuejs": "vue",
    "vue.js": "vue",
    "reactjs": "react",
    "react.js": "react",
    "nextjs": "next.js",
    "mongo": "mongodb",
    "tf": "terraform",
    "gha": "github-actions",
    "github actions": "github-actions",
}
"""Names that mean the same: who tells one is not known to be without the other. Ours; versions are of both alike."""


def usual_name(name: str) -> str:
    """Return a name as it is compared: Python and python are one technology, postgres and PostgreSQL, too."""
    told = name.strip().casefold()
    return _ALSO_CALLED.get(told, told)
