"""The options of a journal in a stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import load_config
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


@pytest.mark.parametrize("second", ["b/orders", "b/ord ers", "b/ord.ers"])
def test_two_stores_never_have_one_stream(tmp_path: Path, second: str) -> None:
    """It is named after the folder of a store, whose last part may be that of another."""
    path = tmp_path / "jdbcstore.toml"
    first = "a/" + second.partition("/")[2].replace(" ", "_")
    text = "".join(
        f'[[stores]]\nqueue = "{queue}"\ndirectory = "{folder}"\njournal = {{ %s }}\n'
        for queue, folder in (("A", first), ("B", second))
    )
    path.write_text(text % (('stream = "nats://host"',) * 2))
    with pytest.raises(ConfigurationError, match="give each a stream_name of its own"):
        load_config(path, environment={})
    path.write_text(text % ('stream = "nats://host"', 'stream = "nats://host", stream_name = "other"'))
    assert len(load_config(path, environment={}).stores) == 2
