"""What a test run must not skip: ``JDBCSTORE_REQUIRE``, names separated by commas."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

PARTS = {
    "galera",
    "haproxy",
    "activemq",
    "artemis",
    "axe",
    "chromium",
    "connector-j",
    "derby",
    "drivers",
    "kombu",
    "msodbcsql",
    "namespaces",
    "node",
    "php",
    "nats",
    "nats-newer",
    "patroni",
    "prometheus",
    "s3",
    "spark",
    "spin",
    "stompjs",
    "zookeeper",
}
"""What a run may require beside databases."""


def required() -> set[str]:
    names = os.environ.get("JDBCSTORE_REQUIRE", "").split(",")
    return {name.strip() for name in names} - {""}


def unavailable(name: str, reason: str) -> NoReturn:
    """Skip this test because ``name`` cannot be had here, or fail it when the run requires it."""
    if name in required():
        pytest.fail(f"JDBCSTORE_REQUIRE names {name}: {reason}", pytrace=False)
    pytest.skip(f"{name}: {reason}")
