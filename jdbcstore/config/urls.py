"""URLs that are made here."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError


def sqlite_url(file: str | Path) -> str:
    """Of the SQLite database in a file."""
    return URL.create("sqlite", database=str(file)).render_as_string()


def sqlite_file(url: str | None) -> Path | None:
    """The file of a URL that could have been made here; None if it is another's."""
    try:
        parsed = make_url(url or "")
    except ArgumentError:
        return None
    return Path(parsed.database) if parsed.drivername == "sqlite" and parsed.database else None
