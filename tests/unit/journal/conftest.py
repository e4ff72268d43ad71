from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: for thousands of files of which none need outlive the test."""
    memory = Path("/dev/shm")  # noqa: S108
    place = tempfile.mkdtemp(prefix="jdbcstore-crash-", dir=memory if memory.is_dir() else tmp_path)
    yield Path(place)
    shutil.rmtree(place)
