"""The schema of a database, to be compared; and migrating it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, NullPool, inspect

from jdbcstore import StoreConfig
from jdbcstore.database.engine import Database as Target
from jdbcstore.database.migrations import Report, check, migration_of
from jdbcstore.database.schema import create_tables, inspect_tables
from tests.support.databases import Database

Schema = dict[str, Any]


def migrate(database: Database, to: str = "head", **options: Any) -> list[str]:
    """Migrate; the titles of the steps that were taken."""
    with migration_of(Target(database.url, StoreConfig(**options)), to) as migration:
        taken = [planned.step.title for planned in migration.plan]
        migration.run()
    return taken


def report(database: Database, **options: Any) -> Report:
    return check(Target(database.url, StoreConfig(**options)))


def schema_of(database: Database) -> Schema:
    """Tables with columns, keys and indexes: equal for equal schemas."""
    with database.engine.connect() as connection:
        inspector = inspect(connection)
        keys, indexes = inspector.get_multi_pk_constraint(), inspector.get_multi_indexes()
        return {
            table[1]: {
                "columns": [
                    (column["name"], str(column["type"]), column["nullable"], column["default"])
                    for column in columns
                ],
                "key": keys[table]["constrained_columns"],
                "indexes": sorted(
                    (str(index["name"]), index["column_names"], index["unique"])
                    for index in indexes.get(table, [])
                ),
            }
            for table, columns in inspector.get_multi_columns().items()
        }


def fresh_schema(database: Database, **options: Any) -> Schema:
    """What ``jdbcstore init`` makes in an empty database, which is empty again afterwards.

    Found out once for each vendor.
    """
    key = (type(database), *sorted(options.items()))
    if key not in _fresh:
        _fresh[key] = _make_fresh(database, options)
    return deepcopy(_fresh[key])


_fresh: dict[Any, Schema] = {}


def _make_fresh(database: Database, options: dict[str, Any]) -> Schema:
    target = Target(database.url, StoreConfig(**options))
    engine = target.connect_with(poolclass=NullPool)
    create_tables(
        engine, target.adapter, target.tables, inspect_tables(engine, target.adapter, target.tables.all)
    )
    made = schema_of(database)
    target.tables.messages.metadata.drop_all(engine, tables=target.tables.known)
    return made


def differences(database: Database, **options: Any) -> list[Any]:
    """What Alembic's autogenerate finds between the database and what jdbcstore defines."""
    target = Target(database.url, StoreConfig(**options))
    metadata: MetaData = target.tables.messages.metadata
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, metadata))
