"""Questions that come with jdbcstore: a file each, ``sql/analytics/`` in the sources."""

from __future__ import annotations

from pathlib import Path

import jdbcstore


def folder() -> Path:
    package = Path(jdbcstore.__file__).parent
    installed = package / "sql" / "analytics"
    return installed if installed.exists() else package.parent / "sql" / "analytics"


def named() -> dict[str, str]:
    """Each question's name, and its text; the first line is a comment that says what it answers."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder().glob("*.sql"))}


def purpose(question: str) -> str:
    """What a question that comes with jdbcstore answers."""
    return question.partition("\n")[0].removeprefix("-- ")
