"""``docs/design.md`` and ``docs/concurrency.md`` name the packages, ways and threads of the source tree."""

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
CONCURRENCY = (ROOT / "docs" / "concurrency.md").read_text(encoding="utf-8")
FOUNDATION = {"__init__", "__main__"}
"""Modules that need no row."""


def section(title: str, text: str = TEXT) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


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


def test_the_picture_has_every_package() -> None:
    drawn = (ROOT / "docs" / "pictures" / "packages.svg").read_text(encoding="utf-8")
    words = {*re.findall(r"\w+", " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", drawn)))}
    packages = (path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py"))
    missing = [str(path) for path in packages if path.name not in {*words, ""} and len(path.parts) <= 2]

    assert missing == []


def ways() -> dict[str, list[str]]:
    """Return the modules that each table of ways names, by the bold words before the table."""
    parts = re.split(r"^\*\*(.+?)\*\*", section("The way of a message"), flags=re.MULTILINE)
    return {
        name: re.findall(r"`([\w/]+\.py)`", "\n".join(re.findall(r"^\|.*$", text, re.MULTILINE)))
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_the_ways_name_modules_that_exist() -> None:
    assert [name for name, modules in ways().items() if not modules] == []
    assert [one for modules in ways().values() for one in modules if not (PACKAGE / one).exists()] == []


@pytest.mark.skipif(in_use() != "compiled", reason="the way is that with the compiled core")
def test_the_ways_are_taken() -> None:
    """Compare with the modules that the benchmark sees, on SQLite."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.staircase"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    parts = re.split(r"^(\S.*?): \d+ files.*$", done.stdout, flags=re.MULTILINE)
    entered = {name: {*text.split()} for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    named = {name: {*modules} for name, modules in ways().items()}

    assert named["An added message"] == entered["add_message"]
    elsewhere = {"stores/jdbc/writer/driver.py"}  # SQLite has none
    assert named["A `SEND` with a receipt."] - entered["STOMP SEND with a receipt"] == elsewhere
    assert named["A claim"] <= entered["claim"] | entered["acknowledge a claim"] | {"stores/claims/flow.py"}
    assert named["A checkpoint"] <= entered["checkpoint of one message"]


def test_every_thread_is_in_the_table() -> None:
    named = set(re.findall(r"`(jdbcstore-[\w-]+)`", section("Threads", CONCURRENCY)))
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
