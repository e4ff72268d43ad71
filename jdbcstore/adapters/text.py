"""Statements of one row, written out for many."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1024)
def multi_row(text: str, count: int) -> str:
    """An INSERT of one row as an INSERT of so many."""
    head, values = text.rsplit("VALUES ", 1)
    return f"{head}VALUES {', '.join([values] * count)}"


@lru_cache(maxsize=1024)
def in_list(text: str, count: int) -> str:
    """A statement about one key, ``... = ?`` at its end, as one about so many."""
    head, mark = text.rsplit(" = ", 1)
    return f"{head} IN ({', '.join([mark] * count)})"
