"""``docs/changes``: each file is one that towncrier makes a line of the changelog of."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from tests.support import ROOT
from tests.support.docs.pages import Page

CHANGES = ROOT / "docs" / "changes"
TYPES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]["fragment"]


def test_every_change_has_a_type_and_a_text() -> None:
    for path in CHANGES.iterdir():
        if path.name == "README.md":
            continue
        name, kind, end = path.name.rsplit(".", 2)
        assert (kind in TYPES, end) == (True, "md"), path.name
        assert name.isdigit() or name.startswith("+"), path.name
        assert path.read_text(encoding="utf-8").strip(), path.name


def test_links_are_those_of_the_changelog() -> None:
    """A release moves the text into CHANGELOG.md, in the root."""
    pages = (Page(path) for path in CHANGES.glob("*.*.md"))
    links = [(page.name, link) for page in pages for link in page.links() if ":" not in link]
    assert links
    for name, link in links:
        target, _, anchor = link.partition("#")
        assert (ROOT / target).is_file(), (name, link)
        assert not anchor or anchor in Page(ROOT / target).anchors(), (name, link)


def test_towncrier_takes_them() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2030-01-01"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "9.9.9, 2030-01-01" in done.stdout
