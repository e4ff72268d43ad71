"""The commands that errors and reports give for what is not installed: no index has this package."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

from jdbcstore.errors import installation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("extra", metadata("jdbcstore").get_all("Provides-Extra") or ())
def test_a_cure_names_what_is_missing_and_not_this_package(extra: str) -> None:
    found = installation(extra)
    assert re.fullmatch(r"pip install( '[^']+')+", found)
    assert "jdbcstore" not in found


def test_what_is_there_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["click; extra == 'x'", "no-such-thing<3,>=2; extra == 'x'", "other; extra == 'xy'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: needed)
    assert installation("x") == "pip install 'no-such-thing<3,>=2'"


def test_nothing_else_tells_users_to_install_this_package_from_an_index() -> None:
    pages = [*ROOT.glob("jdbcstore/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    assert len(pages) > 300
    wanted = re.compile(r"(pip|pipx|tool)\s+install\s+['\"]?jdbcstore")
    assert [str(page) for page in pages if wanted.search(page.read_text())] == []
