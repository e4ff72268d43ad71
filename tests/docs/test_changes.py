"""``docs/changes``: one file for each change since the last release page. ``docs/releases``: these pages."""

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


def test_every_release_has_notes_that_the_changelog_links() -> None:
    links = Page(ROOT / "CHANGELOG.md").links()
    releases = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "releases").glob("*.md")]
    assert releases
    assert [release for release in releases if release not in links] == []


def test_links_are_those_of_the_root() -> None:
    """Links start at the root, where ``towncrier build --draft`` prints them."""
    pages = (Page(path) for path in CHANGES.glob("*.*.md"))
    for name, link in ((page.name, link) for page in pages for link in page.links() if ":" not in link):
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
