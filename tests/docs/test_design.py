"""The tables of ``docs/design.md`` are those of the tree: packages, the way of a message, threads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore.util.core import in_use
from tests.support import ROOT

PACKAGE = ROOT / "jdbcstore"
TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
FOUNDATION = {"__init__", "__main__"}
"""Modules that need no row."""


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(title: str) -> list[list[str]]:
    """The names in the first cell of each row of a section's table."""
    rows = re.findall(r"^\| (`.*?`) \| .* \|$", section(title), re.MULTILINE)
    return [re.findall(r"`([^`]+)`", row) for row in rows]


def described() -> set[Path]:
    """What the table of packages has: a name without a folder is beside the first one of its row."""
    paths = set()
    for first, *others in first_cells("Packages"):
        folder = Path(first).parent
        paths |= {Path(first.rstrip("/")), *(folder / name.rstrip("/") for name in others)}
    return paths


def test_the_table_of_packages_names_what_exists() -> None:
    gone = [str(path) for path in described() if not _exists(path)]
    assert gone == []


def _exists(path: Path) -> bool:
    return (PACKAGE / path).is_dir() or (PACKAGE / path).with_suffix(".py").exists()


def test_every_package_and_every_module_between_them_has_a_row() -> None:
    """A row describes a package and its modules; without one, as broker/, there is a row for each of them."""
    rows = described()
    missing = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("")
        homes = [module, *module.parents]
        if module.name not in FOUNDATION and not any(home in rows for home in homes[:-1]):
            missing.append(str(module))
    assert missing == []


@pytest.mark.skipif(in_use() != "compiled", reason="the way is that with the compiled core")
def test_the_way_of_one_message_is_the_way_it_takes() -> None:
    """The files of add_message, which the benchmark prints; what is compiled it does not see."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.staircase"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    files = {line.strip() for line in done.stdout.partition("SEND")[0].splitlines()[1:]}
    cells = re.findall(r"^\| .+ \| (`.+) \|$", section("The way of one message"), re.MULTILINE)
    table = {path for cell in cells for path in re.findall(r"`([\w/]+\.py)`", cell)}
    assert table == files


def test_every_thread_is_in_the_table() -> None:
    named = set(re.findall(r"`(jdbcstore-[\w-]+)`", section("Threads")))
    started = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(
                ("Thread", "ThreadPoolExecutor")
            ):
                name = next((k.value for k in call.keywords if k.arg in ("name", "thread_name_prefix")), None)
                if isinstance(name, ast.Constant):
                    started.add(str(name.value))
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert started <= named
    # Of some threads only the end of the name is written where they start.
    assert [name for name in named if f'{name.removeprefix("jdbcstore-")}"' not in text] == []
