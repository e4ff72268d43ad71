"""The options of a journal in a stream."""

from __future__ import annotations

import pytest

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError


@pytest.mark.parametrize(
    "address",
    ["http://host", "http://host:8222/", "https://[::1]:8222,http://b:1", "http://host:8222/base/path"],
)
def test_monitoring_addresses(address: str) -> None:
    assert JournalConfig(stream="nats://host", stream_monitors=address).monitors


@pytest.mark.parametrize(
    "address", ["http://mq:secret@host:8222", "host:8222", "http://host:secret", "http://host?secret"]
)
def test_what_is_no_monitoring_address_is_refused_and_not_shown(address: str) -> None:
    """It may have a login."""
    with pytest.raises(ConfigurationError, match="give http://host:8222") as error:
        JournalConfig(stream="nats://host", stream_monitors=address)
    assert "secret" not in str(error.value)
