"""What a database may be asked in Spark's stead, because it means the same by it.

Spark compares texts byte by byte, in UTF-8. A database does as its collations say, which belong to the
server, the database, the table or the column, and whose literals depend on settings. So they are read when
a store is connected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, bindparam, text

from jdbcstore.database.tables import Tables

SAME = "{}"
"""A text as it is; other templates say how it is compared."""

_IN_C = '({} COLLATE "C")'
_WITHOUT_PADDING = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")

_ANSWERED = {
    True: {"destination", "client_id", "subscription_name", "subscribed_destination", "selector"},
    False: {
        *("depth", "bytes", "expired", "in_doubt", "oldest_id"),
        *("last_acked_id", "lag", "acknowledged_ahead"),
    },
}
"""Columns of the queries that the database answers; True: of texts, False: of whole numbers."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """How one database compares, and in which form it takes a literal; see ``StoreDialect.java``."""

    exact: str
    """A text such that two are equal only if every character is; empty: it is not compared there."""
    ordered: str
    """A text such that two are in the order of their bytes; empty: it is not ordered there."""
    literals: str = "plain"
    """``plain``: only quotes are doubled; ``escaped``: a backslash may mean something; ``hexadecimal``."""
    quote: str = '"'
    ascii: bool = False
    """Whether the database has no other characters."""
    globs: bool = False
    """Whether it has SQLite's GLOB, and a LIKE that takes a for A."""
    nulls: bool = True
    """Whether an order says where its nulls come."""
    computed: bool = True
    """Whether the driver knows the type of what is computed."""
    texts: frozenset[str] = field(default=frozenset())
    """Columns of texts, in lower case."""
    wholes: frozenset[str] = field(default=frozenset())
    """Columns of whole numbers."""

    @property
    def settings(self) -> dict[str, str]:
        words = {name: getattr(self, name) for name in ("exact", "ordered", "literals", "quote")}
        flags = {name: getattr(self, name) for name in ("ascii", "globs", "nulls", "computed")}
        return words | {name: "yes" if flag else "no" for name, flag in flags.items()}

    def of_columns(self, types: Iterable[tuple[str, str]]) -> Meaning:
        """With what each column is, by its name and the database's word for its type."""
        texts, wholes = set(_ANSWERED[True]), set(_ANSWERED[False])
        for name, type_ in types:
            if re.search("char|text|clob", type_.lower()) and "bpchar" not in type_:
                texts.add(name.lower())
            elif re.search("int", type_.lower()) and "unsigned" not in type_.lower():
                wholes.add(name.lower())
        both = texts & wholes
        return replace(self, texts=frozenset(texts - both), wholes=frozenset(wholes - both))


def _names(tables: Tables) -> list[str]:
    return [str(table.name) for table in tables.all]


def of_sqlite(connection: Connection, tables: Tables) -> Meaning:
    """Texts are compared byte by byte, unless their table says NOCASE or RTRIM."""
    wanted = [name.lower() for name in _names(tables)]
    rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'table'")).all()
    made = " ".join(sql for name, sql in rows if name.lower() in wanted)
    [encoding] = connection.execute(text("PRAGMA encoding")).scalars()
    types = [
        (row.name, row.type)
        for name in _names(tables)
        for row in connection.execute(text("SELECT name, type FROM pragma_table_info(:name)"), {"name": name})
    ]
    exact = "" if "collate" in made.lower() else SAME
    ordered = exact if encoding == "UTF-8" else ""
    return Meaning(exact, ordered, globs=True, computed=False).of_columns(types)


def of_postgresql(connection: Connection, tables: Tables) -> Meaning:
    """Equal is equal in a collation that is deterministic; the order of bytes is that of C."""
    rows = connection.execute(
        text(
            "SELECT a.attname, t.typname, coalesce(nullif(l.collname, 'default'), d.datcollate) AS collation,"
            " coalesce(l.collisdeterministic, true) AS exact, to_jsonb(d) ->> 'datlocprovider' AS provider"
            " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid"
            " LEFT JOIN pg_collation l ON l.oid = a.attcollation"
            " JOIN pg_database d ON d.datname = current_database()"
            " WHERE a.attnum > 0 AND pg_table_is_visible(c.oid) AND c.relname IN :tables"
        ).bindparams(bindparam("tables", expanding=True)),
        {"tables": _names(tables)},
    ).all()
    [encoding] = connection.execute(text("SHOW server_encoding")).scalars()
    texts = [row for row in rows if row.typname in ("varchar", "text")]
    in_bytes = all(row.provider in (None, "c") and row.collation in ("C", "POSIX") for row in texts)
    exact = SAME if all(row.exact for row in texts) else _IN_C
    ordered = SAME if in_bytes else _IN_C
    known = encoding == "UTF8"
    meaning = Meaning(exact, ordered if known else "", literals="escaped", ascii=not known)
    return meaning.of_columns((row.attname, row.typname) for row in rows)


def of_mysql(connection: Connection, tables: Tables) -> Meaning:
    """The usual collations know neither case nor trailing blanks; those that do are of newer servers."""
    found = connection.execute(
        text(
            "SELECT collation_name FROM information_schema.collations WHERE collation_name IN :wanted"
        ).bindparams(bindparam("wanted", expanding=True)),
        {"wanted": _WITHOUT_PADDING},
    )
    names = sorted(found.scalars())
    types = connection.execute(
        text(
            "SELECT column_name, column_type FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND table_name IN :tables"
        ).bindparams(bindparam("tables", expanding=True)),
        {"tables": _names(tables)},
    ).all()
    exact = f"(CONVERT({{}} USING utf8mb4) COLLATE {names[0]})" if names else ""
    meaning = Meaning(exact, exact, literals="hexadecimal", quote="`", nulls=False)
    return meaning.of_columns((name, str(type_)) for name, type_ in types)
