"""The places that ``docs/patterns.md`` and the map of ``CONTRIBUTING.md`` name are there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support import ROOT

PLACE = re.compile(r"`([\w/]+\.py)`((?:,?\s+(?:and\s+)?`\w+`)*)")
PATTERNS = [
    paragraph
    for paragraph in (ROOT / "docs" / "patterns.md").read_text().split("\n\n")
    if paragraph.startswith("**")
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern[2:40])
def test_its_places_exist(pattern: str) -> None:
    places = PLACE.findall(pattern)
    assert places, "a pattern names a file to copy from"
    for module, names in places:
        tree = ast.parse((ROOT / "jdbcstore" / module).read_text())
        defined = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }
        assert {*re.findall(r"\w+", names.replace("and ", ""))} <= defined, module


def test_the_map_of_contributing_has_every_package_and_names_tests_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(
        r"^\| (`.+?) \| .+ \| (.+) \|$", text.partition("\n## Where things are\n")[2], re.MULTILINE
    )
    named = {name for first, _ in rows for name in re.findall(r"`([\w/.]+?)/?`", first)}
    packages = {path.parent.name for path in (ROOT / "jdbcstore").glob("*/__init__.py")}

    assert packages <= named
    for name in named:
        assert (ROOT / "jdbcstore" / name).exists(), name
    for _, tests in rows:
        paths = re.findall(r"`(tests/[^`]+)`", tests)
        assert paths
        assert [path for path in paths if not list(ROOT.glob(path))] == []
