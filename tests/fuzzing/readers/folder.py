"""The folder, in memory where there is one, that readers of files are given."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder(name: str) -> Path:
    """Return an empty folder of this process for the files of a reader."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of this process is made in it
    path = Path(tempfile.mkdtemp(prefix=f"fuzzing-{name}-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
