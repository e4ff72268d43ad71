"""Pages of rows, limited in number and in bytes; and where they are, a folder or a URL."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PAGE = 1000
_PAGE_BYTES = 8 * 1024 * 1024


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_url(where: str) -> bool:
    """Whether this is a URL, which as a path would be a strange folder below the working directory."""
    return _URL.match(where) is not None


def bounded(rows: Iterable[T], size: Callable[[T], int], most: int = PAGE) -> Iterator[list[T]]:
    """Pages of at most 1,000 rows, or ``most``, and 8 MiB, but of one row at least."""
    page: list[T] = []
    total = 0
    for row in rows:
        if page and (len(page) == most or total + size(row) > _PAGE_BYTES):
            yield page
            page, total = [], 0
        page.append(row)
        total += size(row)
    if page:
        yield page
