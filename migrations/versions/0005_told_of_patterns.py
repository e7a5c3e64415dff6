"""Entries say when they apply, and which error they are about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NAME = "(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60}(Error|Exception|Warning))(?![A-Za-z0-9_])"
_CODE = "(?<![A-Za-z0-9_])(E[A-Z]{3,12}|[A-Z]{1,6}-?[0-9]{2,6})(?![A-Za-z0-9_])"
_SIGNATURE = (
    f"coalesce(substring(left(error_message, 2000), '{_NAME}'), substring(right(error_message, 2000), '{_NAME}'),"
    f" substring(left(error_message, 2000), '{_CODE}'), substring(left(failure_description, 200), '{_NAME}'))"
)


def upgrade() -> None:
    """Forward only. A process of the version before tells no conditions and leaves those that are there alone.

    Postgres names the error, also of what such a process captures. That writes the table anew once: 100,000 entries take seconds, in which captures and queries wait.
    """
    signature = sa.Column("error_signature", sa.Text(), sa.Computed(_SIGNATURE, persisted=True))
    op.add_column("knowledge_staging", sa.Column("applies_when", postgresql.JSONB(none_as_null=True), nullable=True))
    op.add_column("knowledge_staging", signature)
