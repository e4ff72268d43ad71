"""The shape of the package: imports go down, none in a circle; SQL has one home; adapters alone know vendors.

Each module is parsed once. Imports that only a type checker sees count as any other.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "jdbcstore"

# From the ground up. A module may import from its own floor and from those below it. Within a package there
# is an order, too, which test_no_packages_in_a_circle finds.
FLOORS = (
    ("errors",),
    ("util",),
    ("message",),
    ("config",),
    ("abc",),
    ("database",),
    ("lockers", "journal"),
    ("stores",),
    ("analytics",),
    ("__init__",),
    ("tools",),
    ("broker",),
    ("plugins",),
    ("cli",),
    ("__main__",),
    ("testing",),
)
CONTRACT = {"errors", "util", "message", "config", "abc"}

# Places that may see less than all that is below them.
MAY_SEE = {
    "journal": CONTRACT,
    "stores.memory": CONTRACT | {"stores.shared"},
    "stores.filtered": CONTRACT | {"stores.shared", "stores.memory"},
    "stores.journaled": CONTRACT | {"stores.shared", "stores.memory", "journal"},
    "broker": CONTRACT | {"__init__", "stores.io_exceptions", "stores.tracing"},
    "stores.tracing": CONTRACT,
    "stores.io_exceptions": CONTRACT,
    "plugins": CONTRACT | {"__init__", "broker", "stores.claims"},
    "cli.demo": CONTRACT | {"__init__", "broker"},
    "testing": CONTRACT | {"__init__", "stores.filtered"},
}

# Packages that are not the standard library's: which places import each.
OUTSIDE = {
    "sqlalchemy": {"analytics", "config", "database", "lockers", "stores.jdbc", "testing"},
    "psycopg": {"database.adapters"},
    "adbc_driver_postgresql": {"database.adapters"},
    "pymysql": {"database.adapters"},
    "pyodbc": {"database.adapters"},
    "oracledb": {"database.adapters"},
    "jpype": {"database.adapters"},
    "alembic": {"database.migrations"},
    "crc32c": {"journal", "tools.importing"},
    "cramjam": {"tools.importing"},
    "nats": {"journal.stream"},
    "javaproperties": {"config"},
    "keyring": {"config"},
    "tomlkit": {"config"},
    "pyspark": {"analytics", "tools.archive", "tools.journal_views", "cli"},
    "py4j": {"analytics"},
    "pyarrow": {"analytics", "tools.archive", "tools.journal_views", "cli"},
    "duckdb": {"analytics"},
    "deltalake": {"analytics"},
    "pyiceberg": {"analytics"},
    "numpy": {"analytics"},
    "jinja2": {"analytics", "broker.console"},
    "plotly": {"analytics"},
    "prompt_toolkit": {"cli"},
    "textual": {"cli"},
    "lark": {"message.selector"},
    "aiohttp": {"broker"},
    "websockets": {"broker.stomp"},
    "argon2": {"broker"},
    "prometheus_client": {"broker.management"},
    "cronsim": {"broker"},
    "opentelemetry": {"stores.tracing", "broker.tracing"},
    "coilmq": {"plugins"},
    "kombu": {"plugins"},
    "django": {"plugins.django"},
    "django_tasks": {"plugins.django"},
    "amqp": {"plugins"},
    "stomp": {"cli.demo"},
    "click": {"cli"},
    "rich": {"cli"},
    "pytest": {"testing"},
    "hypothesis": {"testing"},
}

# The demo and the contract suite judge the store from outside, and so not by the statements of the store;
# analytics reads through Spark.
SQL_HOMES = {
    "analytics",
    "cli.demo",
    "database.adapters",
    "database.schema",
    "database.statements",
    "testing",
}
SQL = re.compile(
    r"\bSELECT\s.+\sFROM\s|\bINSERT\s+INTO\s|\bUPDATE\s+\S+\s+SET\s|\bDELETE\s+FROM\s"
    r"|\b(CREATE|ALTER|DROP|LOCK|TRUNCATE)\s+(UNIQUE\s+)?(TABLE|INDEX|VIEW|SEQUENCE)\b"
    r"|^\s*(PRAGMA|COPY|SET\s+TRANSACTION|SELECT)\s"
    r"|^\s*(select\s.+\sfrom\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s+\S+\s*($|where\s))",
    re.DOTALL,
)


def name_of(path: Path) -> str:
    """``stores.jdbc.queue`` for its file, ``broker`` for the ``__init__`` of that package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@cache
def trees() -> Mapping[str, ast.Module]:
    """Every module of the package, by its name within it."""
    return {name_of(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def within(name: str, place: str) -> bool:
    return name == place or name.startswith(f"{place}.")


def within_any(name: str, places: set[str]) -> bool:
    return any(within(name, place) for place in places)


def floor_of(name: str) -> int:
    found = [(len(place), floor) for floor, row in enumerate(FLOORS) for place in row if within(name, place)]
    assert found, f"{name} stands on no floor: give it or its package a place in FLOORS"
    return max(found)[1]


def outside_imported(tree: ast.AST) -> set[str]:
    """The first part of the name of everything that is imported."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def imported(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules of the package that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "write imports from the top: from jdbcstore.x import y"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "jdbcstore":
                inner = parts[1:]
                while inner and ".".join(inner) not in known:
                    inner.pop()
                yield ".".join(inner) or "__init__"


@cache
def graph() -> Mapping[str, set[str]]:
    """What each module imports of the package."""
    known = set(trees())
    return {name: {*imported(tree, known)} - {name} for name, tree in trees().items()}


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other, in turn; empty where none do."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_imports_go_down() -> None:
    wrong = [
        f"{name} imports {other}, which is above it: hand it in, or move what both need below both"
        for name, others in graph().items()
        for other in others
        if floor_of(other) > floor_of(name)
    ]
    assert wrong == []


def test_no_imports_in_a_circle() -> None:
    found = circle(graph())

    assert not found, (
        f"a circle: {' imports '.join(found)}; hand one the other, or name what it needs in a Protocol"
    )


def test_no_packages_in_a_circle() -> None:
    """Within each package, what is in its folders and beside them has an order, too."""
    packages = {""} | {name.rpartition(".")[0] for name in graph()}
    found = {package or "jdbcstore": circle(between(package)) for package in sorted(packages)}

    assert {package: names for package, names in found.items() if names} == {}


def between(package: str) -> Mapping[str, set[str]]:
    """Return what the modules and packages of a package import of each other."""
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, others in graph().items():
        ours = member(name, package)
        if ours is not None:
            arrows[ours] |= {
                theirs for other in others if (theirs := member(other, package)) not in (None, ours)
            }
    return arrows


def member(name: str, package: str) -> str | None:
    """Return the module or package of a package that a module is, or is in."""
    if not package:
        return name.partition(".")[0]
    inner = name.removeprefix(f"{package}.")
    return None if inner == name else inner.partition(".")[0]


def test_places_see_what_they_may() -> None:
    wrong = [
        f"{name} imports {other}: {place} may see {', '.join(sorted(seen))}"
        for place, seen in MAY_SEE.items()
        for name, others in graph().items()
        if within(name, place)
        for other in others
        if not within_any(other, seen | {place})
    ]
    assert wrong == []


def test_the_top_can_be_taken_in_at_a_glance() -> None:
    top = {name.split(".")[0] for name in trees()} - {"__init__"}

    assert len(top) <= 16, f"{len(top)} modules and packages: {', '.join(sorted(top))}"


def test_every_place_exists() -> None:
    named = {place for row in FLOORS for place in row}.union(
        MAY_SEE, *MAY_SEE.values(), *OUTSIDE.values(), SQL_HOMES
    )

    assert [place for place in sorted(named) if not any(within(name, place) for name in trees())] == []


def test_outside_packages_are_imported_where_they_belong() -> None:
    wrong = [
        f"{name} imports {package}: {', '.join(sorted(OUTSIDE[package]))} may"
        for name, tree in trees().items()
        for package in outside_imported(tree) & {*OUTSIDE}
        if not within_any(name, OUTSIDE[package])
    ]
    assert wrong == []


def test_only_adapters_ask_for_the_vendor() -> None:
    wrong = [
        f"{name}:{line} reads dialect.name; make it a fact of the adapter"
        for name, tree in trees().items()
        if not within(name, "database.adapters")
        for line in asks_for_the_vendor(tree)
    ]
    assert wrong == []


def test_sql_is_written_in_its_homes_only() -> None:
    wrong = [
        f"{name}:{line} holds SQL; move it to statements or an adapter"
        for name, tree in trees().items()
        if not within_any(name, SQL_HOMES)
        for line in sql_literals(tree)
    ]
    assert wrong == []


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


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("from jdbcstore.errors import StoreError", {"errors"}),
        ("from jdbcstore import errors", {"errors"}),
        ("from jdbcstore import open", {"__init__"}),
        ("import jdbcstore.errors", {"errors"}),
        ("import jdbcstore", {"__init__"}),
        ("from jdbcstore.stores.jdbc import queue", {"stores.jdbc.queue"}),
        ("from jdbcstore.stores.jdbc.queue import JdbcQueue", {"stores.jdbc.queue"}),
        ("def f():\n    from jdbcstore import errors", {"errors"}),
        ("if TYPE_CHECKING:\n    from jdbcstore import errors", {"errors"}),
        ("import os", set()),
    ],
)
def test_the_check_sees_imports(source: str, modules: set[str]) -> None:
    assert {*imported(ast.parse(source), set(trees()))} == modules


def test_the_check_sees_circles() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


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
