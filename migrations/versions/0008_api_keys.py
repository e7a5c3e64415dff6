"""Keys of the API: a public id, what it may do and where, and the keyed hash of its secret."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A process of the version before does not look here: it knows HARDWON_API_KEY alone."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=12), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=True),
        sa.Column("scopes", sa.ARRAY(sa.String(length=20)), nullable=False),
        sa.Column("workspace", sa.String(length=200), nullable=True),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("pepper", sa.String(length=12), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("replaced_by", sa.String(length=12), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("api_keys_pkey")),
        sa.CheckConstraint("octet_length(secret_hash) = 32", name=op.f("api_keys_secret_hash_check")),
        sa.CheckConstraint(
            "cardinality(scopes) > 0 AND scopes <@ ARRAY['capture', 'query', 'documents', 'review', 'admin']::varchar[]",
            name=op.f("api_keys_scopes_check"),
        ),
    )
