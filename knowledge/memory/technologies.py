"""Canonical names of technologies and tools: case-folded, with aliases resolved."""

from __future__ import annotations

from collections.abc import Mapping

_ALIASES: Mapping[str, str] = {
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
"""Aliases of the same technology, which share their versions. Ours."""


def canonical_name(name: str) -> str:
    """Return a name's canonical form: Python and python are one technology, as are postgres and PostgreSQL."""
    folded = name.strip().casefold()
    return _ALIASES.get(folded, folded)
