"""Folders that go when the process does."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path


def scratch(name: str) -> Path:
    """A new folder for this process and the Java that it starts."""
    folder = tempfile.mkdtemp(prefix=f"jdbcstore-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
