"""kombu's own tests on our transport; not collected unless it is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import common
import kombu
import pytest

import jdbcstore.plugins.kombu  # noqa: F401


@pytest.fixture
def connection() -> Iterator[Any]:
    with kombu.Connection(f"jdbcstore+{os.environ['KOMBU_TEST_URL']}") as connection:
        yield connection


@pytest.fixture
def invalid_connection() -> Iterator[Any]:
    url = f"jdbcstore+{os.environ['KOMBU_TEST_UNREACHABLE']}"
    with kombu.Connection(url, transport_options={"max_retries": 1}) as connection:
        yield connection


class TestBasicFunctionality(common.BasicFunctionality): ...  # type: ignore[misc]


class TestExchangeTypes(common.BaseExchangeTypes): ...  # type: ignore[misc]


class TestTimeToLive(common.BaseTimeToLive): ...  # type: ignore[misc]


class TestPriority(common.BasePriority): ...  # type: ignore[misc]


class TestMessage(common.BaseMessage): ...  # type: ignore[misc]
