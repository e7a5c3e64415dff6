"""All tables together: migrations are compared with them."""

from __future__ import annotations

import knowledge.adapters.postgres.answer_tables
import knowledge.adapters.postgres.document_tables  # noqa: F401 - both add their tables
from knowledge.adapters.postgres.tables import metadata

__all__ = ["metadata"]
