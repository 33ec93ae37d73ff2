"""Version 2: an index by age, so that `history` and retention do not read every record."""

from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Create the index."""
    op.create_index("record_age", "record", ["cluster", "preempts", "time"])


def downgrade() -> None:
    """Drop the index. No records are lost."""
    op.drop_index("record_age", "record")
