"""The part ``[broker]`` of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import Configuration, load_config
from jdbcstore.config import load_file, shown_options, to_toml
from jdbcstore.config.broker import Address, BrokerConfig, ConnectorConfig
from jdbcstore.errors import ConfigurationError

FULL = """
url = "sqlite:///mq.db"

[broker]
users_file = "users.toml"
health = "127.0.0.1:8161"
memory_limit = "20 mb"
become_slave = true

[[broker.connectors]]
uri = "stomp://0.0.0.0:61613"
maximumConnections = 5
connectAttemptTimeout = 2000

[[broker.connectors]]
uri = "stomp+ssl://[::]:61612"
certificate = "tls/broker.pem"
private_key = "/etc/broker.key"
"""


def load(folder: Path, text: str, **environment: str) -> Configuration:
    path = folder / "jdbcstore.toml"
    path.write_text(text)
    return load_config(path, environment=environment)


def test_everything(tmp_path: Path) -> None:
    assert load(tmp_path, FULL).broker == BrokerConfig(
        users_file=f"{tmp_path}/users.toml",
        health="127.0.0.1:8161",
        memory_limit=20 << 20,
        become_slave=True,
        connectors=(
            ConnectorConfig(uri="stomp://0.0.0.0:61613", maximum_connections=5, connect_attempt_timeout=2.0),
            ConnectorConfig(
                uri="stomp+ssl://[::]:61612",
                certificate=f"{tmp_path}/tls/broker.pem",
                private_key="/etc/broker.key",
            ),
        ),
    )


def test_it_is_written_as_it_was_read(tmp_path: Path) -> None:
    first = load(tmp_path, FULL)
    copy = tmp_path / "copy.toml"
    copy.write_text(to_toml(first, "jdbcstore.toml"))

    assert load_file(copy, {}).broker == first.broker


def test_the_environment(tmp_path: Path) -> None:
    broker = load(
        tmp_path, FULL, JDBCSTORE_BROKER_HEALTH="[::1]:1", JDBCSTORE_BROKER_BECOME_SLAVE="no"
    ).broker

    assert (broker.health, broker.become_slave, len(broker.connectors)) == ("[::1]:1", False, 2)


def test_every_option_is_shown_with_its_source(tmp_path: Path) -> None:
    configuration = load(tmp_path, FULL)

    shown = dict(shown_options(configuration))

    assert shown["broker.users_file"] == f"{tmp_path}/users.toml"
    assert shown["broker.persistent"] is True
    assert shown["broker.connectors[0].maximum_connections"] == 5
    assert shown["broker.connectors[1].uri"] == "stomp+ssl://[::]:61612"
    assert configuration.sources["broker.connectors[1].uri"].endswith("[[broker.connectors]] no. 2")


def test_without_a_connector_there_is_one_on_this_machine() -> None:
    [connector] = BrokerConfig().serving

    assert connector.address == Address("127.0.0.1", 61613)
    assert connector.address.is_loopback
    assert not connector.is_tls


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("localhost:0", Address("localhost", 0), True),
        ("127.0.0.2:5", Address("127.0.0.2", 5), True),
        ("[::1]:5", Address("::1", 5), True),
        ("0.0.0.0:5", Address("0.0.0.0", 5), False),  # noqa: S104
        ("mq.example.com:5", Address("mq.example.com", 5), False),
    ],
)
def test_addresses(text: str, address: Address, loopback: bool) -> None:
    found = Address.parse(text, "health")

    assert found == address
    assert found.is_loopback is loopback
    assert str(found) == text


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ('advertise = "tcp://a:1, b:1"', r"\[broker\].*advertise has 'b:1'; write tcp://HOST:PORT"),
        ('advertise = "stomp://a:1"', "advertise has 'stomp://a:1'"),
        ('health = "8161"', r"\[broker\].*health must be HOST:PORT"),
        ('health = "a:99999"', "health must be HOST:PORT"),
        ('health = "me@a:9"', "health must be HOST:PORT"),
        ('[[broker.connectors]]\nuri = "mqtt://h:1"', r"no\. 1: uri must be one of stomp://HOST:PORT"),
        ('[[broker.connectors]]\nuri = "stomp://h:1?a=b"', "uri must be HOST:PORT"),
        ('[[broker.connectors]]\nuri = "stomp+ssl://h:1"', "needs a certificate"),
        ("[[broker.connectors]]\nneed_client_auth = true", "needs trusted_certificates"),
        ("[[broker.connectors]]\nport = 1", "unknown option 'port'"),
        ("busy_poll = 250", "busy_poll must be at most 0.01, in seconds, not 250"),
        ("busy_poll = -1", "busy_poll must be at least 0, not -1"),
        ('log_format = "xml"', "log_format must be one of text, json"),
        ('memory_limit = "1 kb"', "memory_limit must be at least 1048576"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, section: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load(tmp_path, f"[broker]\n{section}")


def test_a_broker_without_a_database(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text('<broker persistent="false"/>')

    assert load_config(path, environment={}).broker == BrokerConfig(persistent=False)


def test_clients_are_sent_the_addresses_of_their_kind() -> None:
    broker = BrokerConfig(advertise="tcp://a:61616, ssl://a:61617,tcp://[::1]:61616?keepAlive=true,")
    assert broker.advertised(is_tls=False) == "tcp://a:61616,tcp://[::1]:61616?keepAlive=true"
    assert broker.advertised(is_tls=True) == "ssl://a:61617"
    assert BrokerConfig().advertised(is_tls=False) == ""


@pytest.mark.parametrize(("milliseconds", "seconds"), [("-1", 0.0), ("90000", 90.0)])
def test_durable_subscriptions_and_repetitions_of_an_activemq(
    tmp_path: Path, milliseconds: str, seconds: float
) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(
        f'''<broker persistent="false" rejectDurableConsumers="true" maxSchedulerRepeatAllowed="7"
            offlineDurableSubscriberTimeout="{milliseconds}"
            offlineDurableSubscriberTaskSchedule="{milliseconds}"/>'''
    )
    configuration = load_config(path, environment={})
    assert configuration.broker == BrokerConfig(
        persistent=False,
        reject_durable_consumers=True,
        max_scheduler_repeat_allowed=7,
        offline_durable_subscriber_timeout=seconds,
        offline_durable_subscriber_task_schedule=seconds,
    )
    [no_database] = configuration.notes
    assert "because persistent is false" in no_database.text
