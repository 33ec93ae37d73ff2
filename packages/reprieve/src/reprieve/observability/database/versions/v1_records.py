"""Version 1: records, and the names under which they are found."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "record",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("preempts", sa.Boolean, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id", name="record_key"),
    )
    op.create_table(
        "involved",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("record", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "kind", "namespace", "name", "record", name="involved_key"),
        sa.ForeignKeyConstraint(["cluster", "record"], ["record.cluster", "record.id"], ondelete="CASCADE"),
    )
    op.create_index("involved_record", "involved", ["cluster", "record"])


def downgrade() -> None:
    """Drop the tables and with them all records."""
    op.drop_table("involved")
    op.drop_table("record")
