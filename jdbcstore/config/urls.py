"""URLs of databases, read and made."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from jdbcstore.errors import ConfigurationError

_SQLITE_PATH = re.compile(r"[\w./-]+\.(?:db|db3|sqlite|sqlite3)")
"""What else is no URL may be a password in the wrong place, and is not shown."""
_FORM = (
    "write dialect://user:password@host:port/database, with @ : / in the password percent-encoded, or"
    " sqlite:///file.db"
)


def parse_url(text: str) -> URL:
    """A SQLAlchemy URL; ``postgres://``, which hosting services print, is ``postgresql://``.

    :raises ConfigurationError: the text is none
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password, and SQLAlchemy's own error quotes all of it.
        raise ConfigurationError(
            f"the database URL cannot be parsed; {_advice(text)}", option="url"
        ) from None
    dialect, plus, driver = url.drivername.partition("+")
    return url.set(drivername=f"postgresql{plus}{driver}") if dialect == "postgres" else url


def _advice(text: str) -> str:
    if text in ("memory", "memory:"):
        return (
            "memory: is no database, but a store that ends with its process: jdbcstore.open('memory:') and"
            " jdbcstore broker have one; name a database, for example sqlite:///file.db"
        )
    if _SQLITE_PATH.fullmatch(text):
        return f"for the SQLite file {text}, write sqlite:///{text}"
    return _FORM


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
