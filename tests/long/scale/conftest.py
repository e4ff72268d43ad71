from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.backends import BACKENDS, Backend
from tests.support.databases import SqliteDatabase
from tests.support.pool import ServerPool
from tests.support.scale.million import MILLION, Million

# What does not change with the number shows with fewer, too. MariaDB takes six times as long as the others.
_SIZES = {
    "sqlite": (MILLION // 5, MILLION // 5),
    "postgresql": (MILLION // 5, MILLION // 5),
    "mariadb": (MILLION // 5, 64_000),
    "mysql": (MILLION // 5, 64_000),
}
_EACH = os.environ.get("JDBCSTORE_SCALE")
"""So many of each instead, on every one."""
_WHOLE = {"mysql"}
"""What is only run with ``--whole``, where a queue on PostgreSQL has a million."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(backend, id=backend.id, marks=[pytest.mark.whole] if backend.id in _WHOLE else [])
        for backend in BACKENDS
        if backend.id in _SIZES
    ],
)
def million(
    request: pytest.FixtureRequest, server_pool: ServerPool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Million]:
    """A database that all tests of one module share."""
    backend: Backend = request.param
    if backend.capabilities.server:
        address = server_pool.address(backend, lambda: request.getfixturevalue("docker_services"))
        database = backend.database(address)
    else:
        database = SqliteDatabase(tmp_path_factory.mktemp("scale"))
    sizes = (int(_EACH), int(_EACH)) if _EACH else _SIZES[backend.id]
    if request.config.getoption("--whole") and not _EACH and backend.id == "postgresql":
        sizes = (MILLION, sizes[1])
    with Million(database, *sizes).filled() as million:
        yield million
    database.close()
