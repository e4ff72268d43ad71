"""Packages of npm, fetched once into a folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.require import unavailable

_QUIET = ("--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1")


def installed(part: str, folder: Path, *packages: str) -> Path:
    """The folder, with these packages in its node_modules; without them the test is skipped."""
    if not folder.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            unavailable(part, "there is no npm; on Debian: apt-get install npm")
        new = folder.with_name(f"{folder.name}.new")
        new.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [npm, "install", "--prefix", str(new), *_QUIET, *packages], capture_output=True, text=True
        )
        if done.returncode:
            unavailable(part, f"npm does not find {' '.join(packages)}: {done.stderr.strip()[-300:]}")
        new.rename(folder)
    return folder
