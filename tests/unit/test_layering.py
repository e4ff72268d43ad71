"""Imports go one way, SQL has one home, and only an adapter asks which vendor it talks to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "jdbcstore"

# A part is a module or a package of jdbcstore. It may import the rows above its own, and its own
# row without a cycle.
ROWS = (
    {"errors"},
    {
        "backoff",
        "body",
        "clock",
        "config",
        "destination",
        "futures",
        "headers",
        "ids",
        "message",
        "naming",
        "patterns",
        "values",
    },
    {"abc", "apart", "names", "openwire", "selector"},
    {"adapters"},
    {"tables"},
    {"schema", "schema_given", "statements", "xa_statements"},
    {"connection", "database"},
    {"ddl", "session"},
    {"lockers"},
    {
        "acknowledgement",
        "audit",
        "audited",
        "checkpoint",
        "checkpointed",
        "cleanup",
        "committer",
        "encoding",
        "journal",
        "message_store",
        "paging",
        "read_only",
        "referring",
        "sequence",
        "statistics",
        "timer",
        "topic_store",
        "units",
        "writer",
    },
    {"filtered", "io_exceptions", "journaled", "memory", "store", "transaction", "xa"},
    {"journaled_database", "several"},
    {"opening"},
    {"__init__"},
    {"analytics", "broker", "replay", "transfer"},
    {"archive", "doctor", "journal_history", "plugins"},
    {"cli", "demo"},
    {"__main__"},
)
CONTRACT = ROWS[0] | ROWS[1] | ROWS[2]

# Parts that may see less than the rows above them.
ONLY = {
    "memory": CONTRACT | {"adapters", "audit", "checkpoint", "encoding", "paging", "timer", "units"},
    "filtered": CONTRACT | {"memory"},
    "journal": CONTRACT,
    "journaled": CONTRACT
    | {"audit", "checkpoint", "encoding", "journal", "memory", "paging", "timer", "units"},
    "broker": CONTRACT | {"__init__", "io_exceptions"},
    "plugins": CONTRACT | {"__init__", "broker"},
    "analytics": CONTRACT | {"__init__", "adapters", "database", "session", "statements", "tables", "xa"},
    "archive": CONTRACT | {"__init__", "adapters", "analytics", "connection", "replay", "transfer"},
    "cli": CONTRACT
    | {
        "__init__",
        "analytics",
        "archive",
        "broker",
        "cli",
        "database",
        "ddl",
        "demo",
        "doctor",
        "journal",
        "journal_history",
        "journaled",
        "opening",
        "replay",
        "transfer",
    },
    "journal_history": CONTRACT | {"journal", "journaled", "replay", "units"},
    "replay": CONTRACT,
    "doctor": CONTRACT | {"adapters", "analytics", "database"},
    "demo": CONTRACT | {"__init__", "broker", "demo"},
}

# Packages that are not the standard library's: who may import each.
OUTSIDE = {
    "sqlalchemy": {
        "adapters",
        "analytics",
        "config",
        "database",
        "ddl",
        "schema",
        "schema_given",
        "session",
        "statements",
        "store",
        "tables",
        "xa_statements",
    }
    | ROWS[8]
    | ROWS[9],
    "psycopg": {"adapters"},
    "pymysql": {"adapters"},
    "pyodbc": {"adapters"},
    "oracledb": {"adapters"},
    "jpype": {"adapters"},
    "alembic": {"ddl"},
    "crc32c": {"journal"},
    "defusedxml": {"config"},
    "javaproperties": {"config"},
    "keyring": {"config"},
    "tomlkit": {"config"},
    "pyspark": {"analytics", "archive", "cli"},
    "py4j": {"analytics"},
    "pyarrow": {"analytics", "archive"},
    "numpy": {"analytics"},
    "jinja2": {"analytics"},
    "plotly": {"analytics"},
    "prompt_toolkit": {"cli"},
    "lark": {"selector"},
    "aiohttp": {"broker"},
    "argon2": {"broker"},
    "coilmq": {"plugins"},
    "stomp": {"demo"},
    "click": {"cli", "demo"},
    "rich": {"cli", "demo"},
}

# The demo judges the store from outside, and so not by the statements of the store; analytics reads
# through Spark.
SQL_HOMES = {"adapters", "analytics", "demo", "schema", "statements"}
SQL = re.compile(
    r"\bSELECT\s.+\sFROM\s|\bINSERT\s+INTO\s|\bUPDATE\s+\S+\s+SET\s|\bDELETE\s+FROM\s"
    r"|\b(CREATE|ALTER|DROP|LOCK|TRUNCATE)\s+(UNIQUE\s+)?(TABLE|INDEX|VIEW|SEQUENCE)\b"
    r"|^\s*(PRAGMA|COPY|SET\s+TRANSACTION|SELECT)\s"
    r"|^\s*(select\s.+\sfrom\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s+\S+\s*($|where\s))",
    re.DOTALL,
)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(module: Path) -> str:
    """``adapters`` for ``adapters/mysql.py``, ``store`` for ``store.py``."""
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def row_of(part: str) -> int:
    for number, row in enumerate(ROWS):
        if part in row:
            return number
    raise AssertionError(f"{part} is in no row: give it a place in ROWS")


def imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every name imported anywhere in a module of ``package``, split at its dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = (*base, *(node.module or "").split(".")) if node.module else base
            for alias in node.names:
                yield (*origin, alias.name)


def parts_imported(tree: ast.AST, package: tuple[str, ...] = ("jdbcstore",)) -> set[str]:
    """The parts of jdbcstore that a module imports."""
    parts = set()
    for name in imported(tree, package):
        if name[0] == "jdbcstore":
            second = name[1] if len(name) > 1 else "__init__"
            is_part = (PACKAGE / second).is_dir() or (PACKAGE / f"{second}.py").exists()
            parts.add(second if is_part else "__init__")
    return parts


def package_of(module: Path) -> tuple[str, ...]:
    return ("jdbcstore", *module.relative_to(PACKAGE).parts[:-1])


def test_every_row_names_parts_that_exist() -> None:
    parts = {part_of(module) for module in modules()}
    named = set().union(*ROWS, *ONLY.values(), *OUTSIDE.values(), ONLY, SQL_HOMES)

    assert named - parts == set()


def graph(*, for_types: bool) -> dict[str, set[str]]:
    """What each part imports; ``for_types`` counts what only a type checker imports."""
    parts: dict[str, set[str]] = {}
    for module in modules():
        tree = ast.parse(module.read_text())
        if not for_types:
            tree = WithoutTypeChecking().visit(tree)
        part = part_of(module)
        parts.setdefault(part, set()).update(parts_imported(tree, package_of(module)) - {part})
    return parts


class WithoutTypeChecking(ast.NodeTransformer):
    """Drops ``if TYPE_CHECKING:`` blocks."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return None if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" else node


def asks_for_the_vendor(tree: ast.AST) -> list[int]:
    """Lines that read ``dialect.name``."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "name"
        and (
            (isinstance(node.value, ast.Attribute) and node.value.attr == "dialect")
            or (isinstance(node.value, ast.Name) and node.value.id == "dialect")
        )
    ]


def sql_literals(tree: ast.AST) -> list[int]:
    """Lines with a string that reads like SQL; strings that are statements are docstrings."""
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            text = node.value
        else:
            continue
        if SQL.search(text):
            lines.append(node.lineno)
    return lines


def test_imports_go_one_way() -> None:
    wrong = [
        f"{part} imports {other}"
        for part, others in graph(for_types=True).items()
        for other in others
        if row_of(other) > row_of(part) or other not in ONLY.get(part, {other})
    ]
    assert wrong == []


def test_no_import_cycle() -> None:
    TopologicalSorter(graph(for_types=False)).prepare()


def test_outside_packages_are_imported_where_they_belong() -> None:
    wrong = [
        f"{module.name} imports {name[0]}"
        for module in modules()
        for name in imported(ast.parse(module.read_text()), package_of(module))
        if part_of(module) not in OUTSIDE.get(name[0], {part_of(module)})
    ]
    assert wrong == []


def test_only_adapters_ask_for_the_vendor() -> None:
    wrong = [
        f"{module.name}:{line} reads dialect.name; make it a fact of the adapter"
        for module in modules()
        if part_of(module) != "adapters"
        for line in asks_for_the_vendor(ast.parse(module.read_text()))
    ]
    assert wrong == []


def test_sql_is_written_in_its_homes_only() -> None:
    wrong = [
        f"{module.name}:{line} holds SQL; move it to statements or an adapter"
        for module in modules()
        if part_of(module) not in SQL_HOMES
        for line in sql_literals(ast.parse(module.read_text()))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("from jdbcstore.errors import StoreError", {"errors"}),
        ("from jdbcstore import errors", {"errors"}),
        ("from jdbcstore import open", {"__init__"}),
        ("import jdbcstore.errors", {"errors"}),
        ("import jdbcstore", {"__init__"}),
        ("from . import errors", {"errors"}),
        ("from .errors import StoreError", {"errors"}),
        ("def f():\n    from jdbcstore import errors", {"errors"}),
        ("import os", set()),
    ],
)
def test_the_check_sees_imports(source: str, parts: set[str]) -> None:
    assert parts_imported(ast.parse(source)) == parts


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM activemq_msgs WHERE x = 1",
        "select id from activemq_msgs",
        "SELECT 1",
        "DELETE FROM t",
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "CREATE UNIQUE INDEX i ON t (a)",
        "PRAGMA journal_mode",
        "delete from t where a = 1",
        "COPY t FROM STDIN",
    ],
)
def test_the_check_sees_sql(text: str) -> None:
    assert sql_literals(ast.parse(f"x = {text!r}")) == [1]
    assert sql_literals(ast.parse(f"x = f'{text} {{table}}'")) != []


@pytest.mark.parametrize(
    "text",
    [
        "select a destination",
        "Delete from the queue",
        "delete from the queue what is expired",
        "update the message",
        "COMMIT",
    ],
)
def test_the_check_lets_english_pass(text: str) -> None:
    assert sql_literals(ast.parse(f"x = {text!r}")) == []


@pytest.mark.parametrize("source", ["engine.dialect.name", "if dialect.name == 'x': pass"])
def test_the_check_sees_the_question_for_the_vendor(source: str) -> None:
    assert asks_for_the_vendor(ast.parse(source)) == [1]
