"""The files in ``tests/fixtures`` of stores of old versions of ActiveMQ; ``record_olds.py`` made them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

Recorded = Callable[[str], tuple[Path, dict[str, Any]]]
"""Returns the files of a version, which nobody changes, and what its broker found in them."""
VERSIONS = {"leveldb": ("5.9.1", "5.16.7"), "amq": ("5.3.2", "5.7.0")}


def unpack(kind: str, version: str, folder: Path) -> dict[str, Any]:
    """Unpack the files of a version below a folder; returns what its broker found in them."""
    with tarfile.open(ROOT / "tests" / "fixtures" / kind / f"{version}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return expected


def recordings(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return what unpacks each version once."""
    known: dict[str, tuple[Path, dict[str, Any]]] = {}

    def recorded(version: str) -> tuple[Path, dict[str, Any]]:
        if version not in known:
            folder = tmp_path_factory.mktemp(version)
            known[version] = folder / kind, unpack(kind, version, folder)
        return known[version]

    return recorded
