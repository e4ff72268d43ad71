"""Scripts for administrators: the schema of each vendor, for the vendor's own client.

``python -m jdbcstore.database.migrations DIRECTORY`` writes them; they are kept in ``sql/``.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from alembic.migration import MigrationContext
from sqlalchemy import BLOB, Dialect, Table
from sqlalchemy.schema import CreateIndex, CreateSequence, CreateTable, DropSequence, DropTable

from jdbcstore.config import StoreConfig
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.registry import BUILT_IN, GENERIC, adapter_class
from jdbcstore.database.migrations.found import FoundColumn, FoundSchema
from jdbcstore.database.migrations.migration import (
    OWN_ENDS,
    Migration,
    Revision,
    end_statements,
    make_known,
    revisions,
)
from jdbcstore.database.migrations.steps import PutRow
from jdbcstore.database.schema import (
    ACKS_KEY,
    CLAIMS_ROW,
    FLOW_ROW,
    HEAD,
    LARGE_ROW,
    ROUTING_ROW,
    acks_key_statements,
    outbox_trigger,
)
from jdbcstore.database.tables import Tables, define_tables

VENDORS = tuple(name for name in BUILT_IN if name not in GENERIC)

OWNER, USER = "jdbcstore_owner", "jdbcstore"

_CONTAINER_IS_NULLABLE = ("activemq_5_0", "activemq_5_4", "activemq_5_7")


def scripts(vendor: str) -> dict[str, str]:
    """Return all scripts of a vendor, by the names of their files."""
    adapter = adapter_class(vendor)()
    renderer = _Renderer(vendor, adapter)
    made = {
        "create.sql": renderer.create(),
        "drop.sql": renderer.drop(),
        "grants.sql": renderer.grants(),
        "history.sql": renderer.history(),
        "large.sql": renderer.large(),
    }
    if adapter.shares_queues:
        made["claims.sql"] = renderer.claims()
        made["flow.sql"] = renderer.flow()
        made["inbox.sql"] = renderer.inbox()
        made["outbox.sql"] = renderer.outbox()
        made["routing.sql"] = renderer.routing()
    # Dropping the key of ACTIVEMQ_ACKS may need its name, which is then unknown.
    nameless = "{name}" in adapter.drop_acks_key and adapter.acks_key_has_priority
    for revision in revisions():
        if not revision.is_ours and not (revision.id == "activemq_5_0" and nameless):
            made[f"upgrade-from-{revision.id}.sql"] = renderer.upgrade(revision)
    if not adapter.acks_key_has_priority:
        made["widen-acks-key.sql"] = renderer.widen()
    return made


class _Renderer:
    def __init__(self, vendor: str, adapter: Adapter) -> None:
        self._vendor = vendor
        self._adapter = adapter
        self._tables: Tables = define_tables(adapter, StoreConfig())
        self._dialect: Dialect = adapter.offline_dialect()
        self._dialect.insert_returning = False
        make_known(self._dialect)

    def create(self) -> str:
        purpose = "All tables, for an empty database. ActiveMQ and jdbcstore work on them."
        statements: list[Any] = []
        for table in self._tables.known:
            indexes = sorted(table.indexes, key=lambda index: str(index.name))
            statements += [CreateTable(table), *map(CreateIndex, indexes)]
        for revision in revisions():
            steps = revision.steps(self._tables, self._adapter)
            statements += [step.insert for step in steps if isinstance(step, PutRow)]
        return self._render(purpose, [*statements, self._tables.version.insert().values(version_num=HEAD)])

    def drop(self) -> str:
        purpose = "Drops all tables, WITH ALL MESSAGES IN THEM."
        tables, adapter = self._tables, self._adapter
        optional = [tables.history, *tables.of_large]
        if adapter.shares_queues:
            optional += [*tables.of_outbox, *tables.routing, *tables.of_flow]
            optional += [tables.claims, tables.claim_sessions]
        statements: list[Any] = []
        if adapter.drops_if_exists:
            statements += [DropTable(table, if_exists=True) for table in optional]
            if adapter.shares_queues and adapter.series:
                statements.append(DropSequence(tables.claim_ids, if_exists=True))
            if adapter.outbox_trigger_end:
                statements.append(adapter.outbox_trigger_end.format(name=tables.outbox.name))
        else:
            names = ", ".join(table.name for table in optional)
            purpose += f"\nBut {names}: drop that before, if a store has created it."
        return self._render(purpose, [*statements, *map(DropTable, reversed(tables.known))])

    def history(self) -> str:
        purpose = "The table of removed messages, for stores with history_retention."
        table = self._tables.history
        statements: list[Any] = [CreateTable(table)]
        if self._adapter.has_users:
            name = self._dialect.identifier_preparer.format_table(table)
            statements.append(f"GRANT SELECT, INSERT, DELETE ON {name} TO {USER}")
        return self._render(purpose, statements)

    def claims(self) -> str:
        tables, quote = self._tables, self._dialect.identifier_preparer.format_table
        made = (tables.claims, tables.claim_sessions)
        grants = [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {quote(table)} TO {USER}" for table in made]
        indexes = [index for table in made for index in table.indexes]
        statements: list[Any] = [*map(CreateTable, made), *map(CreateIndex, [*indexes, tables.claim_index])]
        if self._adapter.series:
            statements.append(CreateSequence(tables.claim_ids))
            name = self._dialect.identifier_preparer.format_sequence(tables.claim_ids)
            grants.append(self._adapter.sequence_grant.format(sequence=name, user=USER))
        statements.append(tables.state.insert().values(name=CLAIMS_ROW, number=0))
        purpose = "What processes that claim messages share, in addition to create.sql."
        return self._render(purpose, [*statements, *(grants if self._adapter.has_users else ())])

    def flow(self) -> str:
        purpose = "Limits, rates and pauses of queues and keys, in addition to claims.sql."
        return self._of_processes(purpose, self._tables.of_flow, FLOW_ROW)

    def large(self) -> str:
        purpose = "Bodies that a broker keeps in pieces, in addition to create.sql."
        return self._of_processes(purpose, self._tables.of_large, LARGE_ROW)

    def inbox(self) -> str:
        purpose = "Messages that consumers have processed, in the database of the application."
        return self._of_processes(purpose, (self._tables.inbox,), None)

    def outbox(self) -> str:
        purpose = (
            "Messages that SQL statements insert for a broker or processes that claim, in addition to\n"
            "inbox.sql. Programs that send need the right to INSERT."
        )
        trigger = outbox_trigger(self._adapter, self._tables)
        return self._of_processes(purpose, (self._tables.outbox,), None, trigger)

    def routing(self) -> str:
        purpose = "Queues, exchanges and bindings of Celery and kombu, in addition to claims.sql."
        return self._of_processes(purpose, self._tables.routing, ROUTING_ROW)

    def _of_processes(
        self, purpose: str, tables: tuple[Table, ...], row: str | None, others: Sequence[str] = ()
    ) -> str:
        """Return a script for tables that processes change, and the row that counts their changes if any."""
        quote = self._dialect.identifier_preparer.format_table
        statements: list[Any] = [*map(CreateTable, tables)]
        statements += [CreateIndex(index) for table in tables for index in table.indexes]
        statements += others
        if row is not None:
            statements.append(self._tables.state.insert().values(name=row, number=0))
        if self._adapter.has_users:
            rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON"
            statements += [f"{rights} {quote(table)} TO {USER}" for table in tables]
        return self._render(purpose, statements)

    def widen(self) -> str:
        acks = self._tables.acks
        return self._render(
            f"Makes room for prioritised durable subscriptions in {acks.name}, where a store's"
            " user may not.\nDo this once, on tables that create.sql or an ActiveMQ made.",
            acks_key_statements(acks, self._adapter, self._dialect, str(acks.primary_key.name)),
        )

    def grants(self) -> str:
        owners = [statement.format(owner=OWNER) for statement in self._adapter.owner_grants]
        if not self._adapter.has_users:
            return self._render("There are no users here: who may write the file may do all.", owners)
        quote = self._dialect.identifier_preparer.format_table
        users = [
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {quote(table)} TO {USER}" for table in self._tables.all
        ]
        users.append(f"GRANT SELECT ON {quote(self._tables.version)} TO {USER}")
        purpose = (
            f"What the user needs as whom stores and brokers run: put yours in for {USER}.\n"
            "The user must be there, and the tables."
        )
        if self._adapter.owner_grants:
            purpose += f"\nBefore, what {OWNER} needs, who creates and migrates the tables."
        return self._render(purpose, owners + users)

    def upgrade(self, revision: Revision) -> str:
        schema = self._generation(revision)
        migration = Migration(self._tables, self._adapter, schema, self._dialect)
        return self._tidy(
            f"From the tables of {revision.id} to {HEAD}. Every row is kept. Stop all brokers and stores\n"
            "first, and make a backup. jdbcstore migrate --sql prints what a certain database needs.",
            migration.sql(),
        )

    def _generation(self, revision: Revision) -> FoundSchema:
        """Return the tables as the ActiveMQs of a revision created them."""
        schema = FoundSchema({})
        Migration(self._tables, self._adapter, schema, self._dialect, revision.id).sql()
        messages, acks = schema.add(self._tables.messages), schema.add(self._tables.acks)
        if revision.id in _CONTAINER_IS_NULLABLE:
            messages.columns["container"] = FoundColumn(messages.columns["container"].type, nullable=True)
        if self._adapter.small_binary_types:
            messages.columns["msg"] = FoundColumn(BLOB(), nullable=True)
        if not self._adapter.acks_key_has_priority:
            # Its name then was the vendor's choice, and ActiveMQ could widen it.
            acks.key_name = f"{self._tables.acks.name}_pkey"
            if "priority" in acks.columns:
                acks.key = ACKS_KEY
        return schema

    def _render(self, purpose: str, statements: Iterable[Any]) -> str:
        output = io.StringIO()
        context = MigrationContext.configure(
            dialect=self._dialect,
            opts={
                "as_sql": True,
                "literal_binds": True,
                **OWN_ENDS,
                "output_buffer": output,
                "transactional_ddl": self._adapter.transactional_ddl,
            },
        )
        end_statements(context, self._adapter)
        with context.begin_transaction():
            for statement in statements:
                context.execute(statement)
        return self._tidy(purpose, output.getvalue())

    def _tidy(self, purpose: str, text: str) -> str:
        lines = [f"-- {line}" for line in purpose.split("\n")]
        lines += ["-- Written by: make sql", "", *(line.rstrip() for line in text.rstrip().split("\n"))]
        return "\n".join(lines) + "\n"
