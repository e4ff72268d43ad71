"""The compiled models, one of each for all tests, and the simulation whose traces are replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.simulation.run import Simulation
from tests.support.spin import Model

Compiled = Callable[..., Model]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Compiles a model with its definitions, once."""

    @cache
    def compiled(name: str, **definitions: int) -> Model:
        return Model(name, tmp_path_factory.mktemp(name), **definitions)

    return compiled


@pytest.fixture(scope="module")
def simulation() -> Iterator[Simulation]:
    simulation = Simulation()
    yield simulation
    simulation.close()
