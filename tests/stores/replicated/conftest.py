from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Configuration
from tests.support.replicated import Waiting, node
from tests.support.streams import NatsServer

_numbers = count(1)

Follow = Callable[..., Waiting]


@pytest.fixture
def configured(nats: NatsServer, tmp_path: Path) -> Callable[..., Configuration]:
    """Returns the configuration of a broker, by its name; all follow the same stream."""
    stream = f"replicated-{next(_numbers)}"

    def configured(name: str, **options: Any) -> Configuration:
        return node(nats.url, stream, tmp_path, name, **options)

    return configured


@pytest.fixture
def follow(configured: Callable[..., Configuration]) -> Iterator[Follow]:
    """Starts a broker, which is closed at the end."""
    with ExitStack() as opened:

        def follow(name: str, **options: Any) -> Waiting:
            found = Waiting(configured(name, **options))
            opened.callback(found.close)
            return found

        yield follow
