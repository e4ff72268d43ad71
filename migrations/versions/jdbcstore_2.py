"""Acknowledgements of XA transactions in doubt, message by message."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import AddColumn, Step, indexes_of
from jdbcstore.database.tables import Tables

revision = "jdbcstore_2"
down_revision = "jdbcstore_1"


def steps(tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    return [
        AddColumn(tables.acknowledged.c.xid),
        *indexes_of(tables.acknowledged, "XIDX"),
    ]


def drops(_tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    """Return no steps: the table goes as a whole, in the step before."""
    return []


def upgrade() -> None:
    op.get_context().opts["migration"].run_steps(steps)


def downgrade() -> None:
    op.get_context().opts["migration"].run_steps(drops)
