"""``docs/changes``: each file is one that towncrier makes a line of the changelog of."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from tests.support import ROOT

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


def test_towncrier_takes_them() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2030-01-01"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "9.9.9, 2030-01-01" in done.stdout
