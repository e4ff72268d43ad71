from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.backends import Backend
from tests.support.faults.driver import DriverLine
from tests.support.faults.line import Line
from tests.support.faults.proxy import ProxyLine


@pytest.fixture
def line(backend: Backend, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """What breaks between a store opened with ``line.url`` and this test's database."""
    server = backend.capabilities.server
    line = ProxyLine(url) if server else DriverLine(url, monkeypatch.setattr)
    yield line
    line.close()
