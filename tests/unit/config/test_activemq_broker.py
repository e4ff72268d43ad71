"""The broker of an activemq.xml is obeyed, or does not start where other messages would be kept."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Configuration, load_config
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.config import Kind, to_toml
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.locker import CustomLockerConfig, SharedFileLockerConfig
from jdbcstore.config.plugins import (
    DiscardingDeadLettersConfig,
    ForcePersistencyModeConfig,
    LoggingConfig,
    StatisticsConfig,
    TimeStampingConfig,
)
from jdbcstore.config.policy import AbortSlowAckConsumerStrategy, QueryBasedSubscriptionRecoveryPolicy
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination

URL = "sqlite:///elsewhere.db"


ENTRY = "<destinationPolicy><policyMap><policyEntries>{}</policyEntries></policyMap></destinationPolicy>"


def load(folder: Path, text: str, **options: Any) -> Configuration:
    path = folder / "activemq.xml"
    path.write_text(text)
    return load_config(path, environment={}, **options)


def notes(configuration: Configuration, kind: Kind) -> dict[str, str]:
    """The notes of a kind, by the name of the setting."""
    return {note.place.rpartition(", ")[2]: note.text for note in configuration.notes if note.kind is kind}


def test_without_a_persistence_adapter_it_is_kahadb(tmp_path: Path) -> None:
    found = load(tmp_path, '<broker dataDirectory="mq" brokerName="a b"/>')

    assert found.data_source.url == "sqlite:///mq/a_b/KahaDB/jdbcstore.db"
    assert found.journal is not None
    assert found.journal.directory == "mq/a_b/KahaDB/journal"
    assert found.locker == SharedFileLockerConfig(directory="mq/a_b/KahaDB")
    assert load(tmp_path, "<broker/>").login().url.startswith("sqlite:///activemq-data/localhost/KahaDB/")


def test_another_url_replaces_the_default_store(tmp_path: Path) -> None:
    found = load(tmp_path, "<broker/>", url=URL)

    assert (found.data_source.url, found.journal, found.locker) == (URL, None, None)
    named = load(tmp_path, "<broker><persistenceAdapter><kahaDB/></persistenceAdapter></broker>", url=URL)
    assert named.journal is not None


@pytest.mark.parametrize(
    "broker",
    [
        "<broker><persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter></broker>",
        '<broker persistent="false"/>',
        '<broker persistent="false"><persistenceAdapter><kahaDB/></persistenceAdapter></broker>',
    ],
)
def test_messages_in_memory(tmp_path: Path, broker: str) -> None:
    found = load(tmp_path, broker)

    assert found.broker.persistent is False
    with pytest.raises(ConfigurationError, match="keeps its messages in memory"):
        found.login()


REFUSED = {
    "networkConnectors": "<networkConnectors><networkConnector uri='static:(tcp://b:1)'/></networkConnectors>",
    "camelContext": "<camelContext><route><from uri='activemq:A'/></route></camelContext>",
    "jmsBridgeConnectors": "<jmsBridgeConnectors><jmsQueueConnector/></jmsBridgeConnectors>",
    "mirroredQueue": "<destinationInterceptors><mirroredQueue/></destinationInterceptors>",
    "deadLetterStrategy": "<destinationPolicy><policyMap><policyEntries><policyEntry queue='>'>"
    "<deadLetterStrategy><bean class='a.B'/></deadLetterStrategy></policyEntry></policyEntries></policyMap>"
    "</destinationPolicy>",
    "a.Locker": "<persistenceAdapter><kahaDB><locker><bean class='a.Locker'/></locker></kahaDB>"
    "</persistenceAdapter>",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_what_is_kept_is_refused(tmp_path: Path, name: str) -> None:
    found = load(tmp_path, f"<broker>{REFUSED[name]}</broker>")

    told = notes(found, Kind.REFUSED)
    assert told.keys() == {name}
    with pytest.raises(ConfigurationError) as refused:
        asyncio.run(BrokerHost(found).start())
    assert told[name] in str(refused.value)
    assert f"{tmp_path}/activemq.xml:1, {name}" in str(refused.value)


@pytest.mark.parametrize("name", ["useMirroredQueues", "deleteAllMessagesOnStartup", "masterConnectorURI"])
def test_an_attribute_is_refused_where_it_asks_for_something(tmp_path: Path, name: str) -> None:
    assert notes(load(tmp_path, f'<broker {name}="true"/>'), Kind.REFUSED).keys() == {name}
    assert not load(tmp_path, f'<broker {name}="false"/>').notes


def test_an_empty_element_asks_for_nothing(tmp_path: Path) -> None:
    found = load(tmp_path, "<broker><plugins/><networkConnectors/><transportConnectors/><services/></broker>")

    assert (found.notes, found.broker.connectors) == ((), ())


PLUGINS = """
<broker maxUncommittedCount="5" maxInflatedDataSize="1000"><plugins>
  <timeStampingBrokerPlugin zeroExpirationOverride="1000" ttlCeiling="2000" processNetworkMessages="true"/>
  <bean class="org.apache.activemq.plugin.ForcePersistencyModeBrokerPlugin" xmlns="x">
    <property name="persistenceFlag" value="true"/></bean>
  <discardingDLQBrokerPlugin dropAll="false" dropOnly="A.* B"/>
  <statisticsBrokerPlugin/>
  <loggingBrokerPlugin logAll="true" logSessionEvents="false"/>
  <traceBrokerPathPlugin/>
  <destinationPathSeparatorPlugin/>
</plugins>
<destinations><queue physicalName="A"/><topic physicalName="B"/></destinations></broker>"""


def test_plugins_in_their_order(tmp_path: Path) -> None:
    found = load(tmp_path, PLUGINS)

    assert found.broker.plugins == (
        TimeStampingConfig(zero_expiration_override=1.0, ttl_ceiling=2.0),
        ForcePersistencyModeConfig(persistence_flag=True),
        DiscardingDeadLettersConfig(drop_all=False, drop_only="A.* B"),
        StatisticsConfig(),
        LoggingConfig(log_all=True),
    )
    assert found.broker.made_destinations == (Destination.queue("A"), Destination.topic("B"))
    assert (found.broker.max_uncommitted_count, found.broker.max_inflated_data_size) == (5, 1000)
    ignored = {"processNetworkMessages", "logSessionEvents", "traceBrokerPathPlugin"}
    assert notes(found, Kind.IGNORED).keys() == ignored
    assert notes(found, Kind.REFUSED).keys() == {"destinationPathSeparatorPlugin"}
    (converted := tmp_path / "jdbcstore.toml").write_text(to_toml(found, "activemq.xml"))
    assert load_config(converted, environment={}).broker == found.broker


@pytest.mark.parametrize("broker", ['drop_only = "("', 'type = "other"'])
def test_plugins_that_cannot_be(tmp_path: Path, broker: str) -> None:
    path = tmp_path / "jdbcstore.toml"
    path.write_text(f"[[broker.plugins]]\n{'' if 'type' in broker else TYPE}{broker}\n")

    with pytest.raises(ConfigurationError, match=r"drop_only has|unknown type 'other'"):
        load_config(path, environment={})


TYPE = 'type = "discardingDLQBrokerPlugin"\n'


def test_destinations_have_no_wildcards() -> None:
    with pytest.raises(ConfigurationError, match="which has wildcards; write each name"):
        BrokerConfig(destinations="queue://A.*")
    with pytest.raises(ConfigurationError, match="destinations has 'queue://'"):
        BrokerConfig(destinations="queue://")


SLOW = """<broker><destinationPolicy><policyMap><policyEntries><policyEntry queue=">">
<slowConsumerStrategy>
<abortSlowAckConsumerStrategy maxTimeSinceLastAck="1000" ignoreNetworkConsumers="false"/>
</slowConsumerStrategy><messageEvictionStrategy>{}</messageEvictionStrategy>
</policyEntry></policyEntries></policyMap></destinationPolicy></broker>"""


def test_strategies_for_slow_consumers(tmp_path: Path) -> None:
    found = load(tmp_path, SLOW.format("<oldestMessageEvictionStrategy/>"))
    assert found.policies[0].slow_consumer_strategy == AbortSlowAckConsumerStrategy(
        max_time_since_last_ack=1.0
    )
    found.check_obeyed()
    with pytest.raises(ConfigurationError, match="the oldest message would be dropped first; remove it"):
        load(tmp_path, SLOW.format("<uniquePropertyMessageEvictionStrategy/>")).check_obeyed()


def test_key_stores_of_an_ssl_context(tmp_path: Path) -> None:
    broker = """<broker><sslContext><sslContext keyStore="file:${activemq.conf}/broker.ks" {}
    keyStorePassword="s3cret" trustStore="trust.ks" keyStoreType="pkcs12"/></sslContext><transportConnectors>
    <transportConnector uri="ssl://0.0.0.0:61617?needClientAuth=true"/><transportConnector uri="tcp://h:1"/>
    </transportConnectors></broker>"""
    found = load(tmp_path, broker.replace("{}", ""))

    assert found.broker.connectors == (
        ConnectorConfig(
            uri="ssl://0.0.0.0:61617",
            need_client_auth=True,
            certificate=str(tmp_path / "broker.ks"),
            certificate_password="s3cret",
            trusted_certificates=str(tmp_path / "trust.ks"),
        ),
        ConnectorConfig(uri="tcp://h:1"),
    )
    assert notes(found, Kind.IGNORED).keys() == {"keyStoreType"}
    with pytest.raises(ConfigurationError, match="revoked certificates"):
        load(tmp_path, broker.replace("{}", 'crlPath="x"')).check_obeyed()


RECOVERY = """<beans><bean id="q" class="{}"/><broker><destinationPolicy><policyMap><policyEntries>
<policyEntry topic="T"><subscriptionRecoveryPolicy><queryBasedSubscriptionRecoveryPolicy query="#q"/>
</subscriptionRecoveryPolicy><pendingMessageLimitStrategy><prefetchRatePendingMessageLimitStrategy/>
</pendingMessageLimitStrategy></policyEntry></policyEntries></policyMap></destinationPolicy></broker></beans>"""


def test_a_query_for_new_subscribers(tmp_path: Path) -> None:
    found = load(tmp_path, RECOVERY.format("mq.queries:Yesterday"))

    [policy] = found.policies
    assert policy.subscription_recovery_policy == QueryBasedSubscriptionRecoveryPolicy(
        query="mq.queries:Yesterday"
    )
    assert policy.pending_message_limit_multiplier == 0.5
    found.check_obeyed()
    with pytest.raises(ConfigurationError, match=r"a\.B is a Java class, and new subscribers would get no"):
        load(tmp_path, RECOVERY.format("a.B")).check_obeyed()


def test_all_that_is_refused_is_told_of(tmp_path: Path) -> None:
    found = load(tmp_path, '<broker useMirroredQueues="true" deleteAllMessagesOnStartup="true"/>')

    with pytest.raises(ConfigurationError, match=r"a compositeQueue .*\(1 more: jdbcstore config show\)"):
        found.check_obeyed()


def test_what_has_no_effect_does_not_stop_it(tmp_path: Path) -> None:
    text = '<broker useJmx="true" dedicatedTaskRunner="true" useShutdownHook="false"/>'
    found = load(tmp_path, text)

    found.check_obeyed()
    assert notes(found, Kind.IGNORED).keys() == {"useJmx", "dedicatedTaskRunner", "useShutdownHook"}


@pytest.mark.parametrize(
    ("broker", "told"),
    [
        ('<broker advisorySupprt="true"/>', "did you mean advisorySupport?"),
        ("<broker><security-settings/></broker>", "unknown attribute 'security-settings' of broker"),
        *(
            (f"<broker>{nested}</broker>", "unknown attribute 'wrong' of")
            for nested in (
                "<persistenceAdapter><jdbcPersistenceAdapter wrong='1'/></persistenceAdapter>",
                "<persistenceAdapter><kahaDB><locker><shared-file-locker wrong='1'/></locker></kahaDB>"
                "</persistenceAdapter>",
                "<persistenceAdapter><memoryPersistenceAdapter wrong='1'/></persistenceAdapter>",
                ENTRY.format("<policyEntry queue='A' wrong='1'/>"),
                ENTRY.format(
                    "<policyEntry queue='A'><deadLetterStrategy><sharedDeadLetterStrategy wrong='1'/>"
                    "</deadLetterStrategy></policyEntry>"
                ),
                "<plugins><timeStampingBrokerPlugin wrong='1'/></plugins>",
                "<plugins><redeliveryPlugin wrong='1'/></plugins>",
                "<transportConnectors><transportConnector uri='tcp://h:1' wrong='1'/></transportConnectors>",
                "<sslContext><sslContext wrong='1'/></sslContext>",
                "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
                "<virtualTopic wrong='1'/></virtualDestinations></virtualDestinationInterceptor>"
                "</destinationInterceptors>",
            )
        ),
        (
            "<broker><transportConnectors>"
            "<transportConnector uri='tcp://h:1' messageAuthorizationPolicy='#p'/>"
            "</transportConnectors></broker>",
            "clients would get messages that it withholds; remove it",
        ),
        (
            "<broker>" + ENTRY.format("<policyEntry queue=''/>") + "</broker>",
            "the name of the queue is empty",
        ),
    ],
)
def test_what_is_unknown_of_a_broker_may_decide_anything(tmp_path: Path, broker: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        load(tmp_path, broker).check_obeyed()


def test_what_is_unknown_elsewhere_decides_nothing(tmp_path: Path) -> None:
    source = (
        "<bean id='ds' class='org.apache.commons.dbcp2.BasicDataSource'><property name='url' value='{}'/>"
    )
    found = load(
        tmp_path,
        "<beans><broker><persistenceAdapter><jdbcPersistenceAdapter dataSource='#ds'/></persistenceAdapter>"
        "<systemUsage><systemUsage wrong='1'/></systemUsage></broker>"
        f"{source.format('jdbc:sqlite:x.db')}<property name='wrong' value='1'/></bean></beans>",
    )

    assert [note.place.rpartition(", ")[2] for note in found.notes if note.kind is Kind.UNKNOWN] == [
        "wrong"
    ] * 2
    found.check_obeyed()


def test_a_locker_in_python(tmp_path: Path) -> None:
    bean = """<bean class="mq.lockers:Zookeeper"><property name="lockKeepAlivePeriod" value="2000"/>
    <property name="connectString" value="zk:2181"/></bean>"""
    adapter = f"<kahaDB><locker>{bean}</locker></kahaDB>"
    found = load(tmp_path, f"<broker><persistenceAdapter>{adapter}</persistenceAdapter></broker>")

    assert found.locker == CustomLockerConfig(
        locker_class="mq.lockers:Zookeeper", lock_keep_alive_period=2.0, options={"connect_string": "zk:2181"}
    )
    found.check_obeyed()


@pytest.mark.parametrize(
    ("given", "taken", "value"),
    [
        ("advisdoryForFastProducers", "advisory_for_fast_producers", True),
        ("prioritisedMessages", "prioritized_messages", True),
        ("memorylimit", "memory_limit", 1),
    ],
)
def test_names_as_only_manuals_spell_them(tmp_path: Path, given: str, taken: str, value: object) -> None:
    entry = f'<policyEntry queue=">" {given}="{str(value).lower() if value is True else 1}"/>'
    found = load(
        tmp_path,
        f"<broker><destinationPolicy><policyMap><policyEntries>{entry}</policyEntries></policyMap>"
        "</destinationPolicy></broker>",
    )

    assert getattr(found.policies[0], taken) == value
    assert "as ActiveMQ's classes spell it" in notes(found, Kind.IGNORED)[given]


def test_statements_of_older_versions(tmp_path: Path) -> None:
    statements = (
        'deleteOldMessagesStatement="DELETE FROM M WHERE EXPIRATION &lt; ? OR ID &lt; ? OR ID = ?"'
        ' updateLastAckOfDurableSubStatement="UPDATE A SET LAST_ACKED_ID=? WHERE CONTAINER=? AND CLIENT_ID=?'
        ' AND SUB_NAME=?"'
    )
    adapter = f"<jdbcPersistenceAdapter><statements><statements {statements}/></statements>"
    found = load(
        tmp_path,
        f"<broker><persistenceAdapter>{adapter}</jdbcPersistenceAdapter></persistenceAdapter></broker>",
    )

    assert found.store.statements.keys() == {"deleteOldMessagesStatement", "updateDurableLastAckStatement"}
    [note] = [note for note in found.notes if note.text.startswith("deleteOldMessagesStatement is not run")]
    assert note.kind is Kind.IGNORED
