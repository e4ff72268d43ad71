"""Predicate push-down: what each database evaluates as Spark does, and the dialect that limits Spark to it.

Spark compares strings byte by byte, in UTF-8. A database follows its collations, which belong to the server,
the database, the table or the column, and its literals depend on session settings. Both are read when a store
is connected. Spark's own dialects push down conditions that mean something else there. They stay as they are
for other tables of the session: our dialect serves URLs that only our driver accepts, which delegates to the
vendor's."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sqlalchemy import Connection, bindparam, text

from jdbcstore.analytics.addresses import JdbcAddress
from jdbcstore.analytics.java import resource, scratch
from jdbcstore.database.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SAME = "{}"
"""The string as it is; other templates add how it is compared."""

_IN_C = '({} COLLATE "C")'
_WITHOUT_PADDING = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")

_ANSWERED = {
    True: {"destination", "client_id", "subscription_name", "subscribed_destination", "selector"},
    False: {
        *("depth", "bytes", "expired", "in_doubt", "oldest_id"),
        *("last_acked_id", "lag", "acknowledged_ahead"),
    },
}
"""Columns of the queries that the database evaluates; True: strings, False: integers."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A database's comparison of strings and reading of literals; see ``StoreDialect.java``."""

    exact: str
    """Template under which two strings are equal only if every character is; empty: not pushed down."""
    ordered: str
    """Template under which strings are ordered by their bytes; empty: not pushed down."""
    literals: str = "plain"
    """``plain``: only quotes are doubled; ``escaped``: a backslash may mean something; ``hexadecimal``."""
    quote: str = '"'
    ascii: bool = False
    """Whether the database holds ASCII only."""
    globs: bool = False
    """Whether it has SQLite's GLOB, and a LIKE that ignores case."""
    nulls: bool = True
    """Whether ORDER BY supports NULLS FIRST and NULLS LAST."""
    computed: bool = True
    """Whether the driver knows the type of computed columns."""
    texts: frozenset[str] = field(default=frozenset())
    """String columns, in lower case."""
    wholes: frozenset[str] = field(default=frozenset())
    """Integer columns, in lower case."""

    @property
    def settings(self) -> dict[str, str]:
        words = {name: getattr(self, name) for name in ("exact", "ordered", "literals", "quote")}
        flags = {name: getattr(self, name) for name in ("ascii", "globs", "nulls", "computed")}
        return words | {name: "yes" if flag else "no" for name, flag in flags.items()}

    def of_columns(self, types: Collection[tuple[str, str]]) -> Meaning:
        """Return a copy that knows each column, given by its name and the database's type name."""
        texts, wholes = set(_ANSWERED[True]), set(_ANSWERED[False])
        for name, type_ in types:
            if re.search("char|text|clob", type_.lower()) and "bpchar" not in type_:
                texts.add(name.lower())
            elif re.search("int", type_.lower()) and "unsigned" not in type_.lower():
                wholes.add(name.lower())
        both = texts & wholes
        # A comparison of PostgreSQL's CHAR ignores blanks, also in the answers of queries.
        padded = {name.lower() for name, type_ in types if "bpchar" in type_}
        texts -= both | padded | (_ANSWERED[True] if padded else set())
        return replace(self, texts=frozenset(texts), wholes=frozenset(wholes - both))


def _names(tables: Tables) -> list[str]:
    return [str(table.name) for table in tables.all]


def of_sqlite(connection: Connection, tables: Tables) -> Meaning:
    """Describe SQLite: strings are compared byte by byte, unless the table declares NOCASE or RTRIM."""
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
    """Describe PostgreSQL: deterministic collations compare for equality exactly; only C orders by bytes."""
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
    return meaning.of_columns([(row.attname, row.typname) for row in rows])


def of_mysql(connection: Connection, tables: Tables) -> Meaning:
    """Describe MySQL: default collations ignore case and trailing blanks; newer servers have exact ones."""
    result = connection.execute(
        text(
            "SELECT collation_name FROM information_schema.collations WHERE collation_name IN :wanted"
        ).bindparams(bindparam("wanted", expanding=True)),
        {"wanted": _WITHOUT_PADDING},
    )
    names = sorted(result.scalars())
    types = connection.execute(
        text(
            "SELECT column_name, column_type FROM information_schema.columns"
            " WHERE table_schema = DATABASE() AND table_name IN :tables"
        ).bindparams(bindparam("tables", expanding=True)),
        {"tables": _names(tables)},
    ).all()
    exact = f"(CONVERT({{}} USING utf8mb4) COLLATE {names[0]})" if names else ""
    meaning = Meaning(exact, exact, literals="hexadecimal", quote="`", nulls=False)
    return meaning.of_columns([(name, str(type_)) for name, type_ in types])


DRIVER = "jdbcstore.StoreDriver"
_DIALECT = "jdbcstore.StoreDialect"
_ROWS = "jdbcstore.CopiedRows"
CATALOG = "jdbcstore.StoreCatalog"
HEADERS = "jdbcstore.Headers"
PROPERTIES = "jdbcstoreproperties"
"""Connection property with the properties of the vendor's driver; see ``StoreDriver.java``."""
IDENTITY, IDENTIFYING = "jdbcstoreIdentity", "jdbcstoreIdentifying"
"""Connection properties with the database's identity, and with the query for it."""
_registered: dict[str, set[str]] = {}
"""URL prefixes that have a dialect, by Spark application."""


def register_dialect(spark: SparkSession, driver: str, url: str, meaning: Meaning) -> str:
    """Register a dialect that pushes down only what means the same in the database at this JDBC URL.

    Returns the URL that Spark must use for it, with the driver :data:`DRIVER`.
    """
    facts = [url.split(":")[1], meaning.settings, sorted(meaning.texts), sorted(meaning.wholes)]
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    prefix = f"jdbc:jdbcstore:{name}:"
    application = spark.sparkContext.applicationId
    java: Any = spark._jvm
    loader = load_classes(spark)
    if prefix not in _registered[application]:
        _register(spark, java, loader, prefix, url, meaning)
        _registered[application].add(prefix)
    return f"{prefix}{driver}:{url.removeprefix('jdbc:')}"


def properties_for(address: JdbcAddress, identity: str, question: str) -> dict[str, str]:
    """Return the properties of connections by :data:`DRIVER` that answer the question with this identity."""
    # As one: some of Spark's readers write names in small letters, which the vendors' drivers do not know.
    login = {name: value for name, value in address.properties.items() if name in ("user", "password")}
    others = {name: value for name, value in address.properties.items() if name not in login}
    return {**login, PROPERTIES: urlencode({**others, IDENTITY: identity, IDENTIFYING: question})}


def load_classes(spark: SparkSession) -> Any:
    """Return the application's class loader with our classes, which are compiled once."""
    java: Any = spark._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    application = spark.sparkContext.applicationId
    if application not in _registered:
        _load(spark, java, loader)
        _registered[application] = set()
    return loader


def _load(spark: SparkSession, java: Any, loader: Any) -> None:
    jar = scratch("dialect") / "dialect.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        known = loader
        for source in (_ROWS, DRIVER, _DIALECT, CATALOG, HEADERS):
            compiler = java.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(known)
            compiler.cook(resource(f"{source.partition('.')[2]}.java"))
            known = compiler.getClassLoader()
            classes = compiler.getBytecodes()
            for name in classes:
                archive.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
    spark.sparkContext._jsc.sc().addJar(str(jar))  # for the tasks
    loader.addURL(java.java.io.File(str(jar)).toURI().toURL())  # for the planner


def _register(spark: SparkSession, java: Any, loader: Any, prefix: str, url: str, meaning: Meaning) -> None:
    dialects = java.org.apache.spark.sql.jdbc.JdbcDialects
    before = dialects.get(prefix)
    if before.getClass().getName() == _DIALECT:
        dialects.unregisterDialect(before)  # an earlier application's
    types = dialects.get(url)
    known = types.getClass().getSimpleName() != "NoopDialect$"
    settings, texts, wholes = java.java.util.HashMap(), java.java.util.ArrayList(), java.java.util.ArrayList()
    for name, value in meaning.settings.items():
        settings.put(name, value)
    for columns, names in ((texts, meaning.texts), (wholes, meaning.wholes)):
        for name in sorted(names):
            columns.add(name)
    arguments = spark.sparkContext._gateway.new_array(java.Object, 5)  # type: ignore[union-attr]
    for place, argument in enumerate((prefix, types if known else None, settings, texts, wholes)):
        arguments[place] = argument
    made = loader.loadClass(_DIALECT).getConstructors()[0]
    dialects.registerDialect(made.newInstance(arguments))
