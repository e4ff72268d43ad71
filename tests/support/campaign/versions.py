"""The version of the product before this one, unpacked beside it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support import ROOT

UNPACKED = ROOT / ".build" / "campaign"
_AGE = 24 * 3600
"""Without a tag, the version before is the last commit that is so many seconds older."""


def previous_version() -> Path | None:
    """Return the folder of the last tag, or of a commit of a day before; None without a history."""
    if shutil.which("git") is None:
        return None
    commit = _git("describe", "--tags", "--abbrev=0") or _day_before()
    commit = commit and _git("rev-parse", "--short=12", f"{commit}^{{commit}}")
    if not commit:
        return None
    folder = UNPACKED / commit
    if not folder.exists():
        unpacked = folder.with_suffix(".new")
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "jdbcstore", "migrations"],
            capture_output=True,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", str(unpacked)], input=archive.stdout, check=True)
        unpacked.rename(folder)
    return folder


def _day_before() -> str:
    now = _git("show", "-s", "--format=%ct", "HEAD")
    return _git("rev-list", "-1", f"--before={int(now) - _AGE}", "HEAD") if now else ""


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
