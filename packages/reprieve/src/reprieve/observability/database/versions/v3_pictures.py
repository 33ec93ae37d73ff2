"""Version 3: snapshots of the cluster at decisions."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "picture",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "time", name="picture_key"),
    )


def downgrade() -> None:
    """Drop the table. Snapshots are lost, records are not."""
    op.drop_table("picture")
