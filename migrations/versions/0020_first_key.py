"""With which key the rotations of one began: they are one caller's, and count, take places and are taken back as one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_KEYS = """
    WITH RECURSIVE chain AS (
        SELECT first.id AS first_key, first.replaced_by AS id FROM api_keys AS first
        WHERE first.replaced_by IS NOT NULL
            AND NOT EXISTS (SELECT FROM api_keys AS before WHERE before.replaced_by = first.id)
        UNION
        SELECT chain.first_key, api_keys.replaced_by FROM chain JOIN api_keys ON api_keys.id = chain.id
        WHERE api_keys.replaced_by IS NOT NULL
    )
    UPDATE api_keys SET first_key = chain.first_key FROM chain WHERE api_keys.id = chain.id
"""
_ENTRIES = """
    UPDATE knowledge_staging SET agent_key = api_keys.first_key FROM api_keys
    WHERE low_trust AND api_keys.first_key IS NOT NULL AND api_keys.id = coalesce(agent_key, captured_by, resolved_by)
"""
_OUTCOMES = """
    UPDATE outcomes SET recorded_by = api_keys.first_key FROM api_keys
    WHERE low_trust AND api_keys.first_key IS NOT NULL AND api_keys.id = recorded_by
"""


def upgrade() -> None:
    """Forward only. A process of the version before goes on: what it rotates meanwhile begins anew.

    Patterns of which more than one key of a chain had told are counted anew with their next entry or outcome.
    """
    op.add_column("api_keys", sa.Column("first_key", sa.String(length=12), nullable=True))
    for statement in (_KEYS, _ENTRIES, _OUTCOMES):
        op.execute(statement)
