"""Artemis's broker.xml: every part is obeyed, noted, or keeps the broker from starting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Configuration, load_config
from jdbcstore.broker.security import Principal
from jdbcstore.config import Kind, shown_options, to_toml
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.config.plugins import LoggingConfig
from jdbcstore.config.policy import (
    DiscardingDeadLetterStrategy,
    FixedCountSubscriptionRecoveryPolicy,
    IndividualDeadLetterStrategy,
    PolicyEntry,
    SharedDeadLetterStrategy,
    SlowConsumerRateStrategy,
)
from jdbcstore.config.virtual import CompositeConfig, ForwardConfig
from jdbcstore.config.xml import read_plugin_users
from jdbcstore.config.xml.artemis_codec import Codec, verify
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination


def load(folder: Path, core: str, **options: Any) -> Configuration:
    path = folder / "broker.xml"
    path.write_text(f"<configuration><core>\n{core}\n</core></configuration>")
    return load_config(path, environment={}, **options)


def notes(configuration: Configuration, kind: Kind) -> dict[str, str]:
    """The notes of a kind, by the name of the setting."""
    return {note.place.rpartition(", ")[2]: note.text for note in configuration.notes if note.kind is kind}


def acceptors(*uris: str) -> str:
    return "".join(f'<acceptors><acceptor name="a">{uri}</acceptor></acceptors>' for uri in uris)


@pytest.mark.parametrize(
    ("uri", "ours"),
    [
        ("tcp://0.0.0.0:61616?protocols=CORE,AMQP,STOMP,HORNETQ,MQTT,OPENWIRE", "auto://0.0.0.0:61616"),
        ("tcp://0.0.0.0:61616", "auto://0.0.0.0:61616"),
        ("tcp://[::1]:61613?protocols=STOMP;useEpoll=true", "stomp://[::1]:61613"),
        ("tcp://h:1?tcpSendBufferSize=1;protocols=openwire,amqp", "tcp://h:1"),
    ],
)
def test_acceptors(tmp_path: Path, uri: str, ours: str) -> None:
    found = load(tmp_path, acceptors(uri))

    assert [one.uri for one in found.broker.connectors] == [ours]
    assert not notes(found, Kind.UNKNOWN)
    found.check_obeyed()


def test_parameters_of_an_acceptor(tmp_path: Path) -> None:
    uri = (
        "tcp://h:1?protocols=STOMP;connectionsAllowed=5;maxInactivityDuration=2000;connectionTtl=1;sslEnabled=true;"
        "keyStorePath=broker.ks;keyStorePassword=ENC(22a491639adfdc3a);trustStorePath=/t.ks;needClientAuth=true;"
        "stompMinLargeMessageSize=102400;"
        "misspelt=1"
    )
    found = load(tmp_path, acceptors(uri))

    assert found.broker.connectors == (
        ConnectorConfig(
            uri="stomp+ssl://h:1",
            name="a",
            maximum_connections=5,
            max_inactivity_duration=2.0,
            certificate=str(tmp_path / "broker.ks"),
            certificate_password="s3cret",
            trusted_certificates="/t.ks",
            need_client_auth=True,
            min_large_message_size=102_400,
        ),
    )
    assert notes(found, Kind.IGNORED).keys() >= {"connectionTtl"}
    assert notes(found, Kind.REFUSED).keys() == {"misspelt"}
    shown = [*map(str, shown_options(found)), repr(found), to_toml(found, "broker.xml")]
    assert not any("s3cret" in one for one in shown)


def test_acceptors_that_nobody_here_can_use(tmp_path: Path) -> None:
    off = "tcp://h:3?autoStart=false"
    found = load(tmp_path, acceptors("vm://0", "tcp://h:1?protocols=AMQP,MQTT", "tcp://h:2?crlPath=x", off))

    assert [one.uri for one in found.broker.connectors] == ["auto://h:2"]
    assert notes(found, Kind.UNSUPPORTED) == {
        "a": "clients of AMQP, MQTT cannot connect: jdbcstore speaks STOMP and OPENWIRE"
    }
    assert notes(found, Kind.REFUSED).keys() == {"crlPath"}


SETTINGS = """
<address-settings>
  <address-setting match="#">
    <dead-letter-address>DLQ</dead-letter-address>
    <expiry-address>EXPIRED</expiry-address>
    <max-delivery-attempts>3</max-delivery-attempts>
    <redelivery-delay>500</redelivery-delay>
    <redelivery-delay-multiplier>2.0</redelivery-delay-multiplier>
    <max-redelivery-delay>4000</max-redelivery-delay>
    <redelivery-collision-avoidance-factor>0.25</redelivery-collision-avoidance-factor>
    <max-size-bytes>-1</max-size-bytes>
    <auto-delete-queues>true</auto-delete-queues>
    <misspelt/>
  </address-setting>
  <address-setting match="A.#">
    <expiry-address>DLQ</expiry-address>
    <max-delivery-attempts>-1</max-delivery-attempts>
    <max-size-bytes>10Mb</max-size-bytes>
    <address-full-policy>DROP</address-full-policy>
    <retroactive-message-count>5</retroactive-message-count>
  </address-setting>
  <address-setting match="A.*.C">
    <max-size-bytes>1K</max-size-bytes>
    <address-full-policy>BLOCK</address-full-policy>
    <auto-create-addresses>false</auto-create-addresses>
    <auto-create-dead-letter-resources>true</auto-create-dead-letter-resources>
  </address-setting>
</address-settings>"""


def of(configuration: Configuration, name: str) -> PolicyEntry:
    destination = Destination.parse(name)
    [found] = [entry for entry in configuration.policies if entry.destination == destination]
    return found


def test_address_settings(tmp_path: Path) -> None:
    found = load(tmp_path, SETTINGS)

    [default] = [entry for entry in found.policies if entry.destination is None]
    assert default.dead_letter_strategy == SharedDeadLetterStrategy(
        dead_letter_queue="DLQ", process_non_persistent=True, process_expired=False
    )
    assert default.expiry_queue == "EXPIRED"
    policy = default.redelivery_policy
    assert policy is not None
    assert (policy.maximum_redeliveries, policy.redelivery_delay, policy.initial_redelivery_delay) == (
        2,
        0.5,
        0.5,
    )
    assert (policy.use_exponential_back_off, policy.back_off_multiplier) == (True, 2.0)
    assert (policy.maximum_redelivery_delay, policy.collision_avoidance_percent) == (4.0, 25)
    assert default.memory_limit == 0
    assert notes(found, Kind.REFUSED).keys() == {"misspelt"}


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_more_specific_settings_have_the_rest_from_others(tmp_path: Path, kind: str) -> None:
    found = load(tmp_path, SETTINGS)

    narrow, narrower = of(found, f"{kind}://A.>"), of(found, f"{kind}://A.*.C")
    assert narrow.expiry_queue is None
    assert isinstance(narrow.dead_letter_strategy, SharedDeadLetterStrategy)
    assert narrow.dead_letter_strategy.process_expired
    assert (narrow.memory_limit, narrow.send_drop_if_no_space) == (10 << 20, True)
    assert narrow.pending_queue_policy == "vmQueueCursor"
    assert narrow.subscription_recovery_policy == FixedCountSubscriptionRecoveryPolicy(maximum_size=5)
    assert narrow.always_retroactive
    assert narrow.redelivery_policy is not None
    assert narrow.redelivery_policy.maximum_redeliveries == -1
    assert narrow.auto_create
    assert (narrower.memory_limit, narrower.send_drop_if_no_space, narrower.auto_create) == (
        1024,
        False,
        False,
    )
    assert isinstance(narrower.dead_letter_strategy, IndividualDeadLetterStrategy)
    assert narrower.dead_letter_strategy.queue_prefix == "DLQ."


def test_without_a_dead_letter_address_dead_letters_are_dropped(tmp_path: Path) -> None:
    [policy] = load(tmp_path, "<name>x</name>").policies

    assert policy.dead_letter_strategy == DiscardingDeadLetterStrategy()
    assert policy.redelivery_policy is not None
    assert policy.redelivery_policy.maximum_redeliveries == 9


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("<default-ring-size>5</default-ring-size>", "that this broker does not keep"),
        ("<default-last-value-queue>true</default-last-value-queue>", "that this broker does not keep"),
        ("<page-limit-bytes>1000</page-limit-bytes>", "any number of messages on disk"),
        ("<config-delete-queues>FORCE</config-delete-queues>", "queues would stay"),
        (
            "<max-size-messages>1</max-size-messages><address-full-policy>FAIL</address-full-policy>",
            "set max-size-bytes",
        ),
    ],
)
def test_settings_that_would_keep_others(tmp_path: Path, setting: str, told: str) -> None:
    whole = f'<address-settings><address-setting match="A">{setting}</address-setting></address-settings>'
    with pytest.raises(ConfigurationError, match=told):
        load(tmp_path, whole).check_obeyed()
    harmless = "<default-ring-size>-1</default-ring-size><config-delete-queues>OFF</config-delete-queues>"
    load(tmp_path, whole.replace(setting, harmless)).check_obeyed()


def test_times_to_live_and_slow_consumers(tmp_path: Path) -> None:
    setting = (
        "<expiry-delay>5000</expiry-delay><min-expiry-delay>-1</min-expiry-delay><no-expiry>false</no-expiry>"
        "<max-expiry-delay>9000</max-expiry-delay><slow-consumer-threshold>30</slow-consumer-threshold>"
        "<slow-consumer-threshold-measurement-unit>MESSAGES_PER_MINUTE</slow-consumer-threshold-measurement-unit>"
    )
    whole = '<address-settings><address-setting match="A">{}</address-setting></address-settings>'
    found = load(tmp_path, whole.format(setting))
    entry = of(found, "queue://A")
    assert (entry.expiry_delay, entry.min_expiry_delay, entry.max_expiry_delay, entry.no_expiry) == (
        *(5.0, None, 9.0),
        False,
    )
    strategy = SlowConsumerRateStrategy(threshold=0.5, check_period=5.0)
    assert entry.slow_consumer_strategy == of(found, "topic://A").slow_consumer_strategy == strategy
    killing = "<slow-consumer-policy>KILL</slow-consumer-policy>"
    found = load(tmp_path, whole.format(setting + killing))
    assert of(found, "queue://A").slow_consumer_strategy == replace(strategy, abort_connection=True)
    assert of(load(tmp_path, whole.format(killing)), "queue://A").slow_consumer_strategy is None
    with pytest.raises(ConfigurationError, match="slow-consumer-policy must be one of KILL, NOTIFY, not 'X'"):
        load(tmp_path, whole.format(setting + killing.replace("KILL", "X")))


ADDRESSES = """
<addresses>
  <address name="ORDERS">
    <anycast><queue name="ORDERS" exclusive="true" max-consumers="1"/></anycast>
  </address>
  <address name="PRICES"><multicast/></address>
  <address name="NEWS"><multicast>
    <queue name="archive"/><queue name="urgent"><filter string="AMQPriority > 5"/></queue>
  </multicast></address>
</addresses>
<queues><queue name="jms.queue.OLD"><address>jms.queue.OLD</address></queue></queues>"""


def test_addresses(tmp_path: Path) -> None:
    found = load(tmp_path, ADDRESSES)

    assert found.broker.destinations == "queue://ORDERS, topic://PRICES, topic://NEWS, queue://OLD"
    assert found.broker.composite_destinations == (
        CompositeConfig(
            topic="NEWS",
            forward_only=False,
            forward_to=(
                ForwardConfig(queue="archive"),
                ForwardConfig(queue="urgent", selector="JMSPriority > 5"),
            ),
        ),
    )
    assert of(found, "queue://ORDERS").all_consumers_exclusive_by_default
    found.check_obeyed()


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        ('<queue name="A"/><queue name="B"/>', "shared by 2 queues"),
        ('<queue name="A"><filter string="x = 1"/></queue>', "that the filter does not match"),
        ('<queue name="A" ring-size="3"/>', "that this broker does not keep"),
        ('<queue name="A" enabled="false"/>', "would get messages"),
    ],
)
def test_queues_that_would_keep_others(tmp_path: Path, queues: str, told: str) -> None:
    core = f'<addresses><address name="A"><anycast>{queues}</anycast></address></addresses>'
    with pytest.raises(ConfigurationError, match=told):
        load(tmp_path, core).check_obeyed()


def divert(more: str, name: str = "d", target: str = "B") -> str:
    where = f"<address>A</address><forwarding-address>{target}</forwarding-address>"
    return f'<divert name="{name}">{where}{more}</divert>'


def test_diverts(tmp_path: Path) -> None:
    exclusive, selector = "<exclusive>true</exclusive>", '<filter string="x = 1"/>'
    to_b = ForwardConfig(queue="B")
    for given, expected in {
        divert(""): CompositeConfig(queue="A", forward_only=False, forward_to=(to_b,)),
        divert(exclusive): CompositeConfig(queue="A", forward_only=True, forward_to=(to_b,)),
        divert(exclusive + selector): CompositeConfig(
            queue="A",
            forward_only=False,
            send_when_not_matched=True,
            forward_to=(ForwardConfig(queue="B", selector="x = 1"),),
        ),
        divert("<routing-type>MULTICAST</routing-type>"): CompositeConfig(
            queue="A", forward_only=False, forward_to=(ForwardConfig(topic="B"),)
        ),
    }.items():
        found = load(tmp_path, f"<diverts>{given}</diverts>")
        assert found.broker.composite_destinations == (expected,)
        found.check_obeyed()
    with pytest.raises(ConfigurationError, match="cannot tell which comes first"):
        load(tmp_path, f"<diverts>{divert(exclusive)}{divert('', 'e', 'C')}</diverts>").check_obeyed()
    transformer = divert("<transformer-class-name>a.B</transformer-class-name>")
    with pytest.raises(ConfigurationError, match="transformer is Java code"):
        load(tmp_path, f"<diverts>{transformer}</diverts>").check_obeyed()


@pytest.mark.parametrize(
    "core",
    [
        "<bridges><bridge/></bridges>",
        "<federations><federation/></federations>",
        "<broker-connections><amqp-connection/></broker-connections>",
        "<cluster-connections><cluster-connection/></cluster-connections>",
        "<remoting-incoming-interceptors><class-name>a.B</class-name></remoting-incoming-interceptors>",
        "<ha-policy><replication><primary/></replication></ha-policy>",
        "<broker-plugins><broker-plugin class-name='a.Filter'/></broker-plugins>",
        "<wildcard-addresses><delimiter>/</delimiter></wildcard-addresses>",
        "<acceptors><acceptor>tcp://h:1?protocols=STOMP;misspelt=1</acceptor></acceptors>",
        "<addresses><address name='A'><unicast/></address></addresses>",
        "<addresses><address name='A'><anycast><queue misspelt='1'/></anycast></address></addresses>",
        "<address-settings><address-setting match='#'><misspelt/></address-setting></address-settings>",
        "<diverts><divert><address>A</address><forwarding-address>B</forwarding-address><misspelt/></divert>"
        "</diverts>",
    ],
)
def test_parts_that_are_refused(tmp_path: Path, core: str) -> None:
    found = load(tmp_path, core)

    with pytest.raises(ConfigurationError, match=r"^\S+broker\.xml:\d+, "):
        found.check_obeyed()


def test_other_parts(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "<global-max-size>100Mb</global-max-size><populate-validated-user>true</populate-validated-user>"
        "<network-check-list>10.0.0.1, 10.0.0.2</network-check-list>"
        "<network-check-period>2000</network-check-period>"
        "<network-check-ping-command>ping -c 1 -w %d %s</network-check-ping-command>"
        "<network-check-ping6-command>ping6 -c 1 %2$s</network-check-ping6-command>"
        "<ha-policy><shared-store><primary><failover-on-shutdown>true</failover-on-shutdown></primary>"
        "</shared-store></ha-policy><critical-analyzer>true</critical-analyzer>"
        '<broker-plugins><broker-plugin class-name="o.LoggingActiveMQServerPlugin">'
        '<property key="LOG_ALL_EVENTS" value="true"/></broker-plugin></broker-plugins>',
    )

    broker = found.broker
    assert (broker.memory_limit, broker.populate_jmsx_user_id) == (100 << 20, True)
    assert broker.checked_network == (("10.0.0.1", "10.0.0.2"), ())
    assert broker.network_check_period == 2.0
    assert broker.network_check_ping_command == "ping -c 1 -w %d %s"
    assert broker.network_check_ping6_command == "ping6 -c 1 %2$s"
    with pytest.raises(ConfigurationError, match="network_check_ping_command must be a program"):
        load(tmp_path, "<network-check-ping-command>ping %x</network-check-ping-command>")
    assert broker.plugins == (LoggingConfig(log_all=True, log_connection_events=False),)
    assert notes(found, Kind.IGNORED).keys() == {"failover-on-shutdown", "critical-analyzer"}
    found.check_obeyed()
    with pytest.raises(ConfigurationError, match="unknown element of core"):
        load(tmp_path, "<transportConnectors/>").check_obeyed()


# Passwords as Artemis 2.44.0 has masked them.
MASKED = {
    "s3cret": "22a491639adfdc3a",
    "a": "-4413f2d1fa455a12",
    "12345678": "4b6f014aba64fbc622fa49a8d8fa115d",
    "pw1": "-8ffa0ffe3d1475",
    "pw3": "f8ee02cf1b1958c",
}


@pytest.mark.parametrize("password", MASKED)
def test_masked_passwords(password: str) -> None:
    assert Codec().decode(MASKED[password]) == password


def test_a_key_of_ones_own() -> None:
    codec = Codec("org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec;key=a key of ours")

    assert codec.decode("a0828b93f4b483b") == "s3cret"
    with pytest.raises(ConfigurationError, match="cannot be decrypted with this key"):
        codec.decode(MASKED["s3cret"])
    with pytest.raises(ConfigurationError, match="hexadecimal"):
        codec.decode("s3cret!")
    with pytest.raises(ConfigurationError, match=r"a\.Other is Java code"):
        Codec("a.Other;key=x")


DATABASE = """<store><database-store><jdbc-connection-url>sqlite:///x.db</jdbc-connection-url>
<jdbc-user>{}</jdbc-user><jdbc-password>{}</jdbc-password></database-store></store>"""


def test_masked_logins(tmp_path: Path) -> None:
    masked = DATABASE.format(f"ENC({MASKED['a']})", f"ENC({MASKED['s3cret']})")
    login = load(tmp_path, masked).login()
    assert (login.user, login.password) == ("a", "s3cret")

    old = f"<mask-password>true</mask-password>{DATABASE.format('sa', MASKED['s3cret'])}"
    login = load(tmp_path, old).login()
    assert (login.user, login.password) == ("sa", "s3cret")

    other = f"<password-codec>a.Other</password-codec>{masked}"
    with pytest.raises(ConfigurationError, match="Java code"):
        load(tmp_path, other).login()
    assert load(tmp_path, other, user="u", password="p").login().password == "p"


SECURITY = """
<security-settings>
  <security-setting match="#">
    <permission type="send" roles="all"/><permission type="consume" roles="all"/>
    <permission type="createAddress" roles="all"/><permission type="createDurableQueue" roles="all"/>
    <permission type="createNonDurableQueue" roles="all"/>
  </security-setting>
  <security-setting match="SECRET.#"><permission type="send" roles="all"/></security-setting>
</security-settings>"""
PROPERTIES = "org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required"
GUEST = "org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule sufficient"


def write_users(folder: Path, modules: str, domain: str = "activemq") -> None:
    (folder / "login.config").write_text(f"{domain} {{ {modules} }};")
    (folder / "artemis-users.properties").write_text(
        f"a = plain\nb = ENC({HASH})\nc = ENC({MASKED['pw1']})\n"
    )
    (folder / "artemis-roles.properties").write_text("all = a,b\n")


HASH = "1024:00:4bb3d35d6ba24f6ba8a39b4c4b40f1a5"  # not that of any password


def test_users(tmp_path: Path) -> None:
    load(tmp_path, SECURITY)
    write_users(tmp_path, f'{PROPERTIES} debug=false; {GUEST} org.apache.activemq.jaas.guest.role="all";')
    (tmp_path / "bootstrap.xml").write_text('<broker><jaas-security domain="activemq"/></broker>')

    found = read_plugin_users(tmp_path / "broker.xml", {})

    users = found.users
    assert (users["a"].password, users["a"].is_hash) == ("plain", False)
    assert (users["b"].password, users["b"].is_hash) == (HASH, True)
    assert (users["c"].password, users["c"].is_hash) == ("pw1", False)
    assert not verify(HASH, "x")
    assert found.anonymous is not None
    user = Principal("a", settings=users["a"].settings)
    orders, secret = Destination.queue("ORDERS"), Destination.queue("SECRET.A")
    assert (user.may_write(orders), user.may_read(orders), user.may_create(orders)) == (True, True, True)
    assert (user.may_write(secret), user.may_read(secret), user.may_create(secret)) == (True, False, False)
    assert not user.may_read(Destination.queue(">"))
    assert user.may_read(Destination.queue("ORDERS.>"))
    assert user.may_read(Destination.topic("ORDERS"))
    nobody = Principal("c", settings=users["c"].settings)
    assert not nobody.may_write(orders)


@pytest.mark.parametrize(
    ("modules", "domain", "told"),
    [
        ("org.x.LDAPLoginModule required;", "activemq", "not LDAPLoginModule; write them in"),
        (f"{PROPERTIES};", "other", "there is no domain activemq, which Artemis names"),
    ],
)
def test_users_that_are_not_supported(tmp_path: Path, modules: str, domain: str, told: str) -> None:
    load(tmp_path, SECURITY)
    write_users(tmp_path, modules, domain)

    with pytest.raises(ConfigurationError, match=told):
        read_plugin_users(tmp_path / "broker.xml", {})


def test_without_security_everybody_may_come(tmp_path: Path) -> None:
    assert load(tmp_path, SECURITY).broker.users_file == str(tmp_path / "broker.xml")
    assert load(tmp_path, f"<security-enabled>false</security-enabled>{SECURITY}").broker.users_file is None
