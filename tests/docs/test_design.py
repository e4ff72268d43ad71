"""``docs/design.md`` and ``docs/threads.csv`` name the ways and threads of the source tree."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys

import pytest

from jdbcstore.util.core import in_use
from tests.support import ROOT

PACKAGE = ROOT / "jdbcstore"
TEXT = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_page_of_packages_has_every_module() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "_ext" / "site_pages.py"))
    text = pages["package_pages"]()["packages.md"]
    rows = re.findall(r"^\| `(\w+)` \| .*\w", text, re.MULTILINE)
    modules = [path.stem for path in PACKAGE.rglob("*.py") if path.stem != "__init__"]

    assert sorted(rows) == sorted(modules)


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
    # SQLite has no writes on the loop, and the benchmark no consumer.
    elsewhere = {"stores/jdbc/writer/driver.py", "broker/queues/dispatcher.py"}
    assert named["A `SEND` with a receipt."] - entered["STOMP SEND with a receipt"] == elsewhere
    assert named["A claim"] <= entered["claim"] | entered["acknowledge a claim"] | {"stores/claims/flow.py"}
    assert named["A checkpoint"] <= entered["checkpoint of one message"]


def test_every_thread_is_in_the_table() -> None:
    listed = (ROOT / "docs" / "threads.csv").read_text(encoding="utf-8")
    named = set(re.findall(r"\bjdbcstore-[\w-]+", listed))
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
