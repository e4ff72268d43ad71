"""Claims on this test's database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from jdbcstore.stores.claims import ClaimQueue, Claims
from tests.support.databases import Database


class OpenClaims(Protocol):
    def __call__(self, **options: Any) -> Claims: ...


@pytest.fixture(autouse=True)
def _joined_at_one_node(request: pytest.FixtureRequest) -> None:
    """A transaction of the application's joins the claims of its own node only."""
    if "joined" in request.path.stem and "database" in request.fixturenames:
        request.getfixturevalue("database").stay()


@pytest.fixture
def open_claims(database: Database) -> Iterator[OpenClaims]:
    """Opens claims at each call; all are closed at the end, and then no connection may be left."""
    with ExitStack() as opened:

        def open_claims(**options: Any) -> Claims:
            return opened.enter_context(Claims(database.url, **options))

        yield open_claims
    database.expect_closed()


@pytest.fixture
def claims(open_claims: OpenClaims) -> Claims:
    return open_claims()


@pytest.fixture
def queue(claims: Claims) -> ClaimQueue:
    return claims.queue("ORDERS")
