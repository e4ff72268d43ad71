"""Drivers without their databases: what they send to a listener, and what they make of its answer."""

from __future__ import annotations

import pytest

from tests.support.drivers.java import JARS
from tests.support.maven import why_missing
from tests.support.require import unavailable


@pytest.fixture
def jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drivers that ``make maven`` has copied are found."""
    pytest.importorskip("jpype")
    if not [*JARS.glob("*.jar")]:
        unavailable("drivers", f"no JDBC drivers in {JARS.relative_to(JARS.parents[1])}: {why_missing(JARS)}")
    monkeypatch.setenv("JDBCSTORE_JDBC_JARS", str(JARS))
