"""Names in acknowledgements that are equal only if every character is."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import CompareExactly, Step
from jdbcstore.database.tables import Tables

revision = "jdbcstore_3"
down_revision = "jdbcstore_2"


def steps(tables: Tables, adapter: Adapter) -> Sequence[Step]:
    return [CompareExactly(tables.acknowledged, adapter)]


def drops(_tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    """Return no steps: the table goes as a whole, in an earlier revision."""
    return []


def upgrade() -> None:
    op.get_context().opts["migration"].run_steps(steps)


def downgrade() -> None:
    op.get_context().opts["migration"].run_steps(drops)
