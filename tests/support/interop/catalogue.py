"""What the database's own catalogue says about ActiveMQ's three tables."""

from __future__ import annotations

from typing import Any

from tests.support.databases import Database

Rows = list[tuple[Any, ...]]

_POSTGRESQL = {
    "columns": """
        SELECT table_name, ordinal_position, column_name, data_type, character_maximum_length,
               is_nullable, column_default, collation_name
        FROM information_schema.columns WHERE table_name LIKE 'activemq%' ORDER BY 1, 2
    """,
    "constraints": """
        SELECT conrelid::regclass::text, contype::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE conrelid::regclass::text LIKE 'activemq%' ORDER BY 1, 2, 3
    """,
    "indexes": """
        SELECT tablename, indexname, indexdef
        FROM pg_indexes WHERE tablename LIKE 'activemq%' ORDER BY 1, 2
    """,
    "tables": """
        SELECT relname, relkind::text, relpersistence::text, reltablespace
        FROM pg_class WHERE relname IN ('activemq_msgs', 'activemq_acks', 'activemq_lock') ORDER BY 1
    """,
}

_MARIADB = {
    "columns": """
        SELECT table_name, ordinal_position, column_name, column_type, is_nullable, column_default,
               character_set_name, collation_name, extra
        FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name LIKE 'ACTIVEMQ%' ORDER BY 1, 2
    """,
    "constraints": """
        SELECT table_name, constraint_type, constraint_name
        FROM information_schema.table_constraints
        WHERE table_schema = DATABASE() AND table_name LIKE 'ACTIVEMQ%' ORDER BY 1, 2, 3
    """,
    "indexes": """
        SELECT table_name, index_name, seq_in_index, column_name, non_unique, sub_part, index_type
        FROM information_schema.statistics
        WHERE table_schema = DATABASE() AND table_name LIKE 'ACTIVEMQ%' ORDER BY 1, 2, 3
    """,
    "tables": """
        SELECT table_name, engine, table_collation, row_format
        FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name LIKE 'ACTIVEMQ%' ORDER BY 1
    """,
}


def catalogue(database: Database) -> dict[str, Rows]:
    """Tables, columns, keys and indexes: equal for two databases with the same schema."""
    queries = _POSTGRESQL if database.jdbc_scheme == "postgresql" else _MARIADB
    return {name: database.rows(query) for name, query in queries.items()}
