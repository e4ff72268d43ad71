"""Folders of jars that ``make maven`` copies from Maven's central repository into ``.build``."""

from __future__ import annotations

from pathlib import Path

from tests.support import ROOT

CONNECTOR_J = ROOT / ".build" / "maven" / "mysql-connector-j.jar"
"""MySQL's own JDBC driver."""


def why_missing(folder: Path) -> str:
    """Return why ``.ci/maven`` has not copied jars into a folder."""
    reason = folder.with_name(f"{folder.name}-missing")
    return reason.read_text().strip() if reason.exists() else "run make maven"


def connector_missing() -> str | None:
    """Return why MySQL's own JDBC driver is not there; None if it is."""
    return None if CONNECTOR_J.exists() else f"no {CONNECTOR_J.name} ({why_missing(CONNECTOR_J.parent)})"
