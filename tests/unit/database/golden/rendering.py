"""Every statement as compiled for a vendor, without its driver or a server; every CREATE, which sql/ has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.ddl import DDLElement

from jdbcstore.config import StoreConfig
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.generic import UNTRIED
from jdbcstore.database.adapters.registry import adapter_class
from jdbcstore.database.adapters.sql import Sql
from jdbcstore.database.statements.builder import LaneQueries
from jdbcstore.database.statements.given import GivenStatements
from jdbcstore.database.statements.store import Statements
from jdbcstore.database.tables import define_tables

FOLDER = Path(__file__).parent
GOLDEN = ("oracle", "mssql", "mysql", *UNTRIED)
"""The vendors whose statements are compiled here; only those of MySQL are run as well."""


def statements(adapter: Adapter, *, ours: bool = True) -> dict[str, Sql]:
    """Each by its name; the lanes of a priority with a suffix. ``ours`` as for :class:`Statements`."""
    tables = define_tables(adapter, StoreConfig())
    dialect = adapter.offline_dialect()
    given = GivenStatements(adapter, dialect, {})
    made = Statements(tables, adapter, dialect, given, ours=ours, hinted=bool(adapter.index_hint))
    found: dict[str, Sql] = {}
    for name, value in sorted(vars(made).items()):
        if isinstance(value, Sql):
            found[name] = value
        elif isinstance(value, LaneQueries):
            lanes = zip(("lowest", "other"), value, strict=True)
            found |= {f"{name}.{lane}": sql for lane, sql in lanes if isinstance(sql, Sql)}
    return found


def definitions(adapter: Adapter) -> list[str]:
    """What makes the tables and their indexes."""
    elements: list[DDLElement] = []
    for table in define_tables(adapter, StoreConfig()).known:
        elements.append(CreateTable(table))
        elements += [CreateIndex(index) for index in sorted(table.indexes, key=lambda i: str(i.name))]
    dialect = adapter.offline_dialect()
    return [str(element.compile(dialect=dialect)).strip() for element in elements]


def render(vendor: str) -> str:
    """The golden file of a vendor."""
    return "\n".join(_lines(adapter_class(vendor)()))


def _lines(adapter: Adapter) -> Iterator[str]:
    yield f"-- {adapter.name}: made by python -m tests.unit.database.golden, not to be edited"
    yield f"-- The tables: sql/{adapter.name}/create.sql"
    yield ""
    reading = statements(adapter, ours=False)
    for name, sql in statements(adapter).items():
        yield f"-- {name}({', '.join(sql.names)})"
        yield f"{_trimmed(sql.text)};\n"
        without = reading[name]
        if without.text != sql.text and not name.endswith("acknowledged"):
            yield f"-- {name}({', '.join(without.names)}), of a store opened to read ActiveMQ's tables alone"
            yield f"{_trimmed(without.text)};\n"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.replace("\t", "    ").splitlines())
