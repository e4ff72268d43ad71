"""Questions that come with jdbcstore: a file each, ``sql/analytics/`` in the sources."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def folder() -> Traversable:
    package = files("jdbcstore")
    installed = package / "sql" / "analytics"
    if installed.is_dir() or not isinstance(package, Path):
        return installed
    return package.parent / "sql" / "analytics"


def named() -> dict[str, str]:
    """Each question's name, and its text; the first line is a comment that says what it answers."""
    questions = sorted(folder().iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in questions
        if file.name.endswith(".sql")
    }


def purpose(question: str) -> str:
    """What a question that comes with jdbcstore answers."""
    return question.partition("\n")[0].removeprefix("-- ")
