"""Pages of rows, limited in number and in bytes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PAGE = 1000
_PAGE_BYTES = 8 * 1024 * 1024


def bounded(rows: Iterable[T], size: Callable[[T], int], most: int | None = None) -> Iterator[list[T]]:
    """Yield pages of at most 1,000 rows, or ``most``, and 8 MiB, but of one row at least."""
    most = PAGE if most is None else most
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
