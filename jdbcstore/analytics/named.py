"""The analytics queries that come with jdbcstore: a file each in ``jdbcstore/analytics/sql``."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def folder() -> Traversable:
    return files("jdbcstore") / "analytics" / "sql"


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
