"""Acknowledgements in any order, and sequences that are never given twice."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.migrations.steps import DropTheTable, GiveTransactions, MakeTable, PutRow, Step
from jdbcstore.database.schema import SEQUENCE_ROW
from jdbcstore.database.tables import Tables

revision = "jdbcstore_1"
down_revision = "activemq_5_15_11"


def steps(tables: Tables, adapter: Adapter) -> Sequence[Step]:
    return [
        *(GiveTransactions(table, adapter) for table in (tables.messages, tables.acks, tables.lock)),
        MakeTable(tables.acknowledged, tables.acknowledged.c.xid),
        MakeTable(tables.state),
        PutRow(tables.state, "name", SEQUENCE_ROW, number=0),
    ]


def drops(tables: Tables, _adapter: Adapter) -> Sequence[Step]:
    """Drop jdbcstore's tables, which ActiveMQ neither knows nor needs."""
    return [DropTheTable(tables.acknowledged), DropTheTable(tables.state)]


def upgrade() -> None:
    op.get_context().opts["migration"].run_steps(steps)


def downgrade() -> None:
    op.get_context().opts["migration"].run_steps(drops)
