"""Contexts and outcomes are found by their task, their age and their pattern."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only."""
    op.create_index("ix_contexts_task", "contexts", ["workspace", "project_id", "task_id"], unique=False)
    op.create_index("ix_contexts_created", "contexts", ["workspace", "created_at"], unique=False)
    op.create_index("ix_outcomes_pattern", "outcomes", ["pattern_id"], unique=False)
    op.create_index("ix_outcomes_context", "outcomes", ["context_id"], unique=False)
