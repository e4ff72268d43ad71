"""The folder, in memory where there is one, that readers of files are given."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path


def memory() -> Path | None:
    """Return the folder of files in memory, where there is one and no other is chosen."""
    path = Path("/dev/shm")  # noqa: S108 - a folder of this process is made in it
    return path if path.is_dir() and "TMPDIR" not in os.environ else None


@cache
def folder(name: str) -> Path:
    """Return an empty folder of this process for the files of a reader."""
    path = Path(tempfile.mkdtemp(prefix=f"fuzzing-{name}-", dir=memory()))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
