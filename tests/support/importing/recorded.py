"""The files of ``tests/fixtures/kahadb``, which a real ActiveMQ has written; ``record.py`` made them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from tests.support import ROOT

VERSIONS = ("5.17.2", "5.19.1", "6.3.1")


def unpack(version: str, folder: Path) -> dict[str, Any]:
    """Unpack the files of a version below a folder; returns what its broker found in them."""
    with tarfile.open(ROOT / "tests" / "fixtures" / "kahadb" / f"{version}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return expected
