"""What a model wrote of a pattern, and the entries it was made of, with which it goes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward only. A process of the version before may delete entries meanwhile: the triggers see to the rest."""
    op.create_table(
        "distillations",
        sa.Column("pattern_id", sa.UUID(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("when_to_try", sa.Text(), nullable=True),
        sa.Column("when_not_to_try", sa.Text(), nullable=True),
        sa.Column("refused", sa.Text(), nullable=True),
        sa.Column("evidence", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "num_nonnulls(title, problem, when_to_try, when_not_to_try) = CASE WHEN refused IS NULL THEN 4 ELSE 0 END",
            name=op.f("distillations_written_check"),
        ),
        sa.ForeignKeyConstraint(
            ["pattern_id"], ["patterns.id"], name=op.f("distillations_pattern_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("pattern_id", name=op.f("distillations_pkey")),
    )
    op.create_table(
        "distilled_from",
        sa.Column("pattern_id", sa.UUID(), nullable=False),
        sa.Column("entry_id", sa.UUID(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["knowledge_staging.id"], name=op.f("distilled_from_entry_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["pattern_id"],
            ["distillations.pattern_id"],
            name=op.f("distilled_from_pattern_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("pattern_id", "entry_id", name=op.f("distilled_from_pkey")),
    )
    op.create_index("ix_distilled_from_entry", "distilled_from", ["entry_id"], unique=False)
    op.execute(
        """
        CREATE FUNCTION forget_distillation() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            DELETE FROM distillations WHERE pattern_id = OLD.pattern_id;
            RETURN NULL;
        END $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER forget_with_entry AFTER DELETE ON distilled_from
        FOR EACH ROW EXECUTE FUNCTION forget_distillation()
        """
    )
    op.execute(
        """
        CREATE TRIGGER forget_when_moved AFTER UPDATE OF pattern_id ON knowledge_staging FOR EACH ROW
        WHEN (OLD.pattern_id IS NOT NULL AND OLD.pattern_id IS DISTINCT FROM NEW.pattern_id)
        EXECUTE FUNCTION forget_distillation()
        """
    )
