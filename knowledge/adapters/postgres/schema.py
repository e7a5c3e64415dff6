"""All tables together: what migrations are compared with."""

from __future__ import annotations

import knowledge.adapters.postgres.document_tables  # noqa: F401 - adds its tables
from knowledge.adapters.postgres.tables import metadata

__all__ = ["metadata"]
