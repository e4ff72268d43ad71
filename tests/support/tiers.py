"""The markers ``servers``, ``java`` and ``spark``: what a test starts beside Python.

They are set by the folder of a test, by its fixtures and by its backend; a module with programs of its own
sets them itself. Whatever starts such a program says so with :func:`starts`, and the test fails if it is not
marked: so the tests that are left without these markers start none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.backends import Backend

TIERS = ("servers", "java", "spark")

_FOLDERS = {"analytics": {"spark"}, "interop": {"java", "servers"}}
_FIXTURES = {"spark": "spark", "spark_home": "spark", "peer": "java", "java_client": "java", "pair": "java"}

_marked: set[str] | None = None


class UnmarkedError(AssertionError):
    """A test started what its markers do not name."""


def tiers(item: pytest.Item, backends: Iterable[Backend]) -> set[str]:
    """The markers of a collected test that runs on these backends."""
    fixtures = {*getattr(item, "fixturenames", ())}
    found = {tier for fixture, tier in _FIXTURES.items() if fixture in fixtures}
    if "arrow" not in item.path.parts:  # pyarrow alone
        found |= {tier for folder, its in _FOLDERS.items() if folder in item.path.parts for tier in its}
    if any(backend.variant.streamed for backend in backends):
        found.add("servers")
    on_servers = [backend for backend in backends if backend.scheme and backend.capabilities.server]
    if on_servers or ("server_pool" in fixtures and "backend" not in fixtures):
        found.add("servers")
    if any(backend.driver == "jpype" for backend in on_servers):
        found.add("java")
    return found


def runs(item: pytest.Item | None) -> None:
    """Note which test runs now, or that none does."""
    global _marked
    _marked = None if item is None else {mark.name for mark in item.iter_markers()}


def starts(tier: str) -> None:
    """Say that a program of this tier is started now.

    :raises UnmarkedError: by a test that is not marked
    """
    if _marked is not None and tier not in _marked:
        raise UnmarkedError(f"mark this test {tier!r}: it starts a program of that kind")
