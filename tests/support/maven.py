"""Folders of jars that ``make maven`` copies from Maven's central repository into ``.build``."""

from __future__ import annotations

from pathlib import Path


def why_missing(folder: Path) -> str:
    """Return why ``.ci/maven`` has not copied jars into a folder."""
    reason = folder.with_name(f"{folder.name}-missing")
    return reason.read_text().strip() if reason.exists() else "run make maven"
