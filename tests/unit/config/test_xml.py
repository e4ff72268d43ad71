"""XML of activemq.xml: safe to read, in all the ways it may be written."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from jdbcstore import Configuration, StoreConfig, load_config
from jdbcstore.config import DataSourceConfig, Kind, to_toml
from jdbcstore.config.locker import DatabaseLockerConfig, LeaseDatabaseLockerConfig, SharedFileLockerConfig
from jdbcstore.config.virtual import (
    DEFAULT_VIRTUAL_TOPICS,
    CompositeConfig,
    ForwardConfig,
    VirtualTopicConfig,
)
from jdbcstore.errors import ConfigurationError

BEANS = '<beans xmlns="http://www.springframework.org/schema/beans">'


def load(folder: Path, text: str, **environment: str) -> Configuration:
    path = folder / "activemq.xml"
    path.write_text(text)
    return load_config(path, environment=environment)


def store(adapter: str) -> str:
    return f"<broker><persistenceAdapter>{adapter}</persistenceAdapter></broker>"


def bean(class_name: str, **properties: str) -> str:
    given = (f'<property name="{name}" value="{escape(value)}"/>' for name, value in properties.items())
    return f'<bean id="ds" class="{class_name}">{"".join(given)}</bean>'


def with_data_source(data_source: str, before: str = "", **adapter: str) -> str:
    given = " ".join(f'{name}="{value}"' for name, value in {"dataSource": "#ds", **adapter}.items())
    return f"{BEANS}{before}{data_source}{store(f'<jdbcPersistenceAdapter {given}/>')}</beans>"


@pytest.mark.parametrize(
    "declarations",
    [
        '<!ENTITY a "b">',
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://127.0.0.1:1/evil.dtd"> %a;',
    ],
)
def test_entities_are_refused(tmp_path: Path, declarations: str) -> None:
    with pytest.raises(ConfigurationError, match=r"activemq\.xml:\d+: entities are not read"):
        load(tmp_path, f"<!DOCTYPE broker [\n{declarations}\n]>\n<broker brokerName='x'/>")


def test_a_dtd_is_not_fetched(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE broker PUBLIC "-//X//Y" "http://127.0.0.1:1/none.dtd">'

    assert load(tmp_path, f"{doctype}{store('<jdbcPersistenceAdapter/>')}").data_source.url


def test_a_deep_or_large_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nested deeper than 100"):
        load(tmp_path, "<a>" * 200 + "</a>" * 200)
    with pytest.raises(ConfigurationError, match="more than 4194304 bytes"):
        load(tmp_path, "<a>" + " " * (5 << 20) + "</a>")


@pytest.mark.parametrize(
    "line", ['<q:broker xmlns:q="http://activemq.apache.org/schema/core">', "<q:broker>"]
)
def test_any_prefix_is_that_of_activemq(tmp_path: Path, line: str) -> None:
    text = (
        f'<b:beans xmlns:b="x" xmlns:q="y">{line}<q:persistenceAdapter>'
        '<q:jdbcPersistenceAdapter enableAudit="true"/></q:persistenceAdapter></q:broker></b:beans>'
    )
    assert load(tmp_path, text).store == StoreConfig(enable_audit=True)


@pytest.mark.parametrize(
    ("class_name", "properties", "expected"),
    [
        ("org.apache.commons.dbcp.BasicDataSource", {"url": "jdbc:h2:mem"}, {"url": "jdbc:h2:mem"}),
        (
            "com.mchange.v2.c3p0.ComboPooledDataSource",
            {"driverClass": "d", "jdbcUrl": "jdbc:db2://h/d", "user": "u", "password": "p"},
            {"url": "jdbc:db2://h/d", "user": "u", "password": "p"},
        ),
        (
            "org.springframework.jdbc.datasource.DriverManagerDataSource",
            {"driverClassName": "d", "url": "jdbc:mysql://h/d", "username": "u"},
            {"url": "jdbc:mysql://h/d", "user": "u"},
        ),
        (
            "com.microsoft.sqlserver.jdbc.SQLServerDataSource",
            {"serverName": "h", "portNumber": "1433", "databaseName": "d", "user": "u"},
            {"url": "jdbc:sqlserver://h:1433;databaseName=d", "user": "u"},
        ),
        ("org.mariadb.jdbc.MariaDbDataSource", {"url": "jdbc:mariadb://h/d"}, {"url": "jdbc:mariadb://h/d"}),
        (
            "oracle.jdbc.pool.OracleDataSource",
            {"URL": "jdbc:oracle:thin:@h:1:d"},
            {"url": "jdbc:oracle:thin:@h:1:d"},
        ),
        (
            "com.ibm.db2.jcc.DB2SimpleDataSource",
            {"serverName": "h", "databaseName": "d"},
            {"url": "jdbc:db2://h:50000/d"},
        ),
        ("org.postgresql.ds.PGSimpleDataSource", {}, {"url": "jdbc:postgresql://localhost:5432/"}),
        (
            "org.apache.commons.dbcp2.BasicDataSource",
            {"url": "jdbc:postgresql://h/d?user=u&password=p"},
            {"url": "jdbc:postgresql://h/d?user=u", "password": "p"},
        ),
    ],
)
def test_data_sources(
    tmp_path: Path, class_name: str, properties: dict[str, str], expected: dict[str, str]
) -> None:
    given = "".join(
        f'<property name="{name}" value="{value.replace("&", "&amp;")}"/>'
        for name, value in properties.items()
    )

    found = load(tmp_path, with_data_source(f'<bean id="ds" class="{class_name}">{given}</bean>'))

    assert found.data_source == DataSourceConfig(**expected)


@pytest.mark.parametrize(("size", "pool_size"), [("10", 9), ("1", 1), ("-1", 5), ("0", 5)])
def test_the_writer_is_one_of_the_pool(tmp_path: Path, size: str, pool_size: int) -> None:
    data_source = bean("x.BasicDataSource", url="jdbc:h2:x", maxTotal=size)

    assert load(tmp_path, with_data_source(data_source)).store.pool_size == pool_size


def test_properties_of_data_sources_that_mean_nothing(tmp_path: Path) -> None:
    data_source = bean("x.BasicDataSource", url="jdbc:h2:x", testOnBorrow="true", frobnicate="1")

    notes = load(tmp_path, with_data_source(data_source)).notes

    kinds = {note.place.split(", ")[1]: note.kind for note in notes}
    assert kinds["testOnBorrow"] is Kind.IGNORED
    assert kinds["frobnicate"] is Kind.UNKNOWN


@pytest.mark.parametrize(
    "inside",
    [
        '<constructor-arg ref="in"/>',
        '<property name="targetDataSource" ref="in"/>',
        '<property name="dataSource"><ref bean="in"/></property>',
    ],
)
def test_a_data_source_in_another(tmp_path: Path, inside: str) -> None:
    wrapper = f'<bean id="ds" class="com.zaxxer.hikari.HikariDataSource">{inside}</bean>'
    inner = bean("com.zaxxer.hikari.HikariConfig", jdbcUrl="jdbc:h2:x", username="u")

    found = load(tmp_path, with_data_source(wrapper, inner.replace('id="ds"', 'id="in"')))

    assert found.data_source == DataSourceConfig(url="jdbc:h2:x", user="u")


def test_placeholders(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "db.properties").write_text("host=${name}.example.com\nname=db\n")
    configurer = bean("x.PropertyPlaceholderConfigurer", location="file:${activemq.base}/conf/db.properties")
    data_source = bean("x.BasicDataSource", url="jdbc:h2:${host}/${db.name}?a=${x:1}")

    found = load(
        conf,
        with_data_source(data_source, configurer, cleanupPeriod="${cleanup.period}"),
        **{"DB_NAME": "mq", "cleanup.period": "5000"},
    )

    assert found.data_source.url == "jdbc:h2:db.example.com/mq?a=1"
    assert found.store.cleanup_period == 5.0


@pytest.mark.parametrize(
    ("folder", "placeholder", "expected"),
    [
        ("conf", "activemq.conf", "conf"),
        ("conf", "activemq.base", ""),
        ("conf", "activemq.data", "data"),
        ("conf", "basedir", ""),
        ("etc", "activemq.base", "etc"),
    ],
)
def test_activemq_s_own_folders(tmp_path: Path, folder: str, placeholder: str, expected: str) -> None:
    (tmp_path / folder).mkdir()

    found = load(tmp_path / folder, store(f'<journaledJDBC dataDirectory="${{{placeholder}}}"/>'))

    assert found.journal is not None
    assert Path(found.journal.directory) == tmp_path / expected / "journal"


@pytest.mark.parametrize(
    ("mode", "url"),
    [("SYSTEM_PROPERTIES_MODE_FALLBACK", "jdbc:h2:file"), ("SYSTEM_PROPERTIES_MODE_OVERRIDE", "jdbc:h2:env")],
)
def test_who_defines_a_placeholder(tmp_path: Path, mode: str, url: str) -> None:
    configurer = (
        '<bean class="x.PropertyPlaceholderConfigurer"><property name="properties"><props>'
        '<prop key="db.url">jdbc:h2:file</prop></props></property>'
        f'<property name="systemPropertiesModeName" value="{mode}"/></bean>'
    )
    text = with_data_source(bean("x.BasicDataSource", url="${db.url}"), configurer)

    assert load(tmp_path, text, DB_URL="jdbc:h2:env").data_source.url == url


def test_a_url_from_elsewhere_needs_no_placeholder(tmp_path: Path) -> None:
    text = with_data_source(bean("x.BasicDataSource", url="${no}", password="${nothing}"))

    assert load(tmp_path, text, JDBCSTORE_URL="sqlite:///x.db").data_source == (
        DataSourceConfig(url="sqlite:///x.db")
    )


@pytest.mark.parametrize(
    ("adapter", "locker"),
    [
        ("<jdbcPersistenceAdapter/>", DatabaseLockerConfig()),
        ('<jdbcPersistenceAdapter useLock="false"/>', None),
        ('<jdbcPersistenceAdapter useDatabaseLock="false"/>', None),
        (
            '<jdbcPersistenceAdapter lockAcquireSleepInterval="1000"/>',
            DatabaseLockerConfig(lock_acquire_sleep_interval=1.0),
        ),
        (
            '<jdbcPersistenceAdapter lockAcquireSleepInterval="1000"><locker>'
            '<database-locker lockAcquireSleepInterval="2000"/></locker></jdbcPersistenceAdapter>',
            DatabaseLockerConfig(lock_acquire_sleep_interval=2.0),
        ),
        (
            "<jdbcPersistenceAdapter><databaseLocker><transact-database-locker/></databaseLocker>"
            "</jdbcPersistenceAdapter>",
            DatabaseLockerConfig(),
        ),
        (
            '<jdbcPersistenceAdapter lockKeepAlivePeriod="1000"><locker><bean class="x.LeaseDatabaseLocker">'
            '<property name="lockAcquireSleepInterval" value="3000"/></bean></locker>'
            "</jdbcPersistenceAdapter>",
            LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=3.0, lock_keep_alive_period=1.0),
        ),
        (
            '<jdbcPersistenceAdapter directory="/d"><locker><shared-file-locker/></locker>'
            "</jdbcPersistenceAdapter>",
            SharedFileLockerConfig(directory="/d"),
        ),
    ],
)
def test_lockers(tmp_path: Path, adapter: str, locker: object) -> None:
    assert load(tmp_path, store(adapter)).locker == locker


def test_a_lock_in_another_database(tmp_path: Path) -> None:
    adapter = '<jdbcPersistenceAdapter lockDataSource="#ds"/>'
    text = f"{BEANS}{bean('x.BasicDataSource', url='jdbc:h2:lock')}{store(adapter)}</beans>"

    assert load(tmp_path, text).locker == DatabaseLockerConfig(
        data_source=DataSourceConfig(url="jdbc:h2:lock")
    )


def test_a_second_persistence_adapter_is_told(tmp_path: Path) -> None:
    text = store("<kahaDB directory='x'/><jdbcPersistenceAdapter/>")

    notes = [note.text for note in load(tmp_path, text).notes if note.kind is Kind.REFUSED]

    assert notes == ["a broker has one persistence adapter, and this one is left out; keep one"]


INTERCEPTORS = """\
<broker {attributes}><destinationInterceptors>
  <virtualDestinationInterceptor><virtualDestinations>
    <virtualTopic name="NEWS.>" prefix="*.Listener." postfix=".Q" selectorAware="true" concurrentSend="true"/>
    <compositeQueue name="IN.*" forwardOnly="false">
      <forwardTo>
        <queue physicalName="A"/>
        <topic physicalName="B"/>
        <filteredDestination selector="odd = 'yes'" queue="C"/>
        <filteredDestination selector="odd = 'no'"><destination><topic physicalName="D"/></destination>
        </filteredDestination>
      </forwardTo>
    </compositeQueue>
    <compositeTopic name="T" sendWhenNotMatched="true"><forwardTo><queue physicalName="A"/></forwardTo>
    </compositeTopic>
    <mirroredQueue/>
  </virtualDestinations></virtualDestinationInterceptor>
</destinationInterceptors></broker>"""
VIRTUAL_TOPIC = VirtualTopicConfig(name="NEWS.>", prefix="*.Listener.", postfix=".Q", selector_aware=True)


def test_virtual_destinations(tmp_path: Path) -> None:
    loaded = load(tmp_path, INTERCEPTORS.format(attributes=""))

    broker = loaded.broker
    assert broker.virtual_topics == (VIRTUAL_TOPIC,)
    assert broker.composite_destinations == (
        CompositeConfig(
            queue="IN.*",
            forward_only=False,
            forward_to=(
                ForwardConfig(queue="A"),
                ForwardConfig(topic="B"),
                ForwardConfig(queue="C", selector="odd = 'yes'"),
                ForwardConfig(topic="D", selector="odd = 'no'"),
            ),
        ),
        CompositeConfig(topic="T", send_when_not_matched=True, forward_to=(ForwardConfig(queue="A"),)),
    )
    notes = [note.text for note in loaded.notes if note.kind in (Kind.IGNORED, Kind.UNKNOWN)]
    assert notes == ["the copies of a message are written in one transaction"]
    with pytest.raises(ConfigurationError, match="mirroredQueue is not supported"):
        loaded.check_obeyed()
    (converted := tmp_path / "jdbcstore.toml").write_text(to_toml(loaded, "activemq.xml"))
    assert load_config(converted, environment={}).broker == broker


@pytest.mark.parametrize(
    ("broker", "topics"),
    [
        ("<broker/>", DEFAULT_VIRTUAL_TOPICS),
        ('<broker useVirtualTopics="false"/>', ()),
        (INTERCEPTORS.format(attributes='useVirtualTopics="false"'), (VIRTUAL_TOPIC,)),
        (
            "<broker><destinationInterceptors><virtualDestinationInterceptor/></destinationInterceptors></broker>",
            (),
        ),
    ],
)
def test_who_has_virtual_topics(tmp_path: Path, broker: str, topics: tuple[VirtualTopicConfig, ...]) -> None:
    loaded = load(tmp_path, broker)
    assert loaded.broker.virtual_topics == topics
    (converted := tmp_path / "jdbcstore.toml").write_text(to_toml(loaded, "activemq.xml"))
    assert load_config(converted, environment={}).broker.virtual_topics == topics


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ('queue = "A.>"', "queue must be one destination"),
        ('selector = "a ="\nqueue = "A"', "selector is not valid"),
        ('selector = "a"', "give either queue or topic"),
    ],
)
def test_composites_that_cannot_work(tmp_path: Path, forward: str, expected: str) -> None:
    path = tmp_path / "jdbcstore.toml"
    composite = "broker.composite_destinations"
    path.write_text(f'[[{composite}]]\nqueue = "IN"\n[[{composite}.forward_to]]\n{forward}\n')
    with pytest.raises(ConfigurationError, match=expected):
        load_config(path, environment={})


def test_options_of_activemq_5_18_and_later(tmp_path: Path) -> None:
    policies = """
<policyEntry queue="A" advisoryForDispatched="true" allowTempDestinationStealing="false"/>
<policyEntry queue="B" advancedMessageStatisticsEnabled="true" advancedNetworkStatisticsEnabled="true"/>
<policyEntry queue="C" allowTempDestinationStealing="true">
<messageInterceptorStrategy>
<headerMessageInterceptorStrategy forceDeliveryMode="true"/>
</messageInterceptorStrategy>
</policyEntry>"""
    path = tmp_path / "activemq.xml"
    loaded = load(
        tmp_path,
        "<broker><persistenceAdapter><jdbcPersistenceAdapter><adapter><h2-jdbc-adapter/></adapter>"
        "</jdbcPersistenceAdapter></persistenceAdapter><destinationPolicy><policyMap><policyEntries>"
        f"{policies}</policyEntries></policyMap></destinationPolicy></broker>",
    )
    assert [policy.advisory_for_dispatched for policy in loaded.policies] == [True, False, False]
    assert loaded.store.adapter == "h2-jdbc-adapter"
    assert [(note.place.removeprefix(f"{path}:"), note.kind) for note in loaded.notes] == [
        ("3, advancedMessageStatisticsEnabled", Kind.IGNORED),
        ("3, advancedNetworkStatisticsEnabled", Kind.IGNORED),
        ("4, allowTempDestinationStealing", Kind.UNSUPPORTED),
        ("5, messageInterceptorStrategy", Kind.REFUSED),
    ]


def test_connectors_that_activemq_starts_on_demand(tmp_path: Path) -> None:
    connectors = "".join(
        f'<transportConnector uri="tcp://127.0.0.1:{port}" {options}/>'
        for port, options in (
            (1, ""),
            (2, 'autoStart="false"'),
            (3, 'autoStart="true" allowLinkStealing="true"'),
        )
    )
    loaded = load(
        tmp_path,
        f"<broker><transportConnectors>{connectors}</transportConnectors>"
        "<persistenceAdapter><jdbcPersistenceAdapter/></persistenceAdapter></broker>",
    )
    assert [one.uri for one in loaded.broker.connectors] == ["tcp://127.0.0.1:1", "tcp://127.0.0.1:3"]
    assert [note.kind for note in loaded.notes] == [Kind.UNSUPPORTED, Kind.UNSUPPORTED]
    assert [note.place.rpartition(", ")[2] for note in loaded.notes] == ["autoStart", "allowLinkStealing"]


def test_other_encodings(tmp_path: Path) -> None:
    text = (
        "<broker brokerName='é'><persistenceAdapter><jdbcPersistenceAdapter/></persistenceAdapter></broker>"
    )
    path = tmp_path / "activemq.xml"
    for encoding in ("utf-16", "iso-8859-1", "utf-8"):
        path.write_bytes(f"<?xml version='1.0' encoding='{encoding}'?>{text}".encode(encoding))
        assert load_config(path, environment={}).broker_name == "é"

    path.write_bytes(f"<?xml version='1.0' encoding='Shift_JIS'?>{text}".encode())
    with pytest.raises(ConfigurationError, match="save the file as UTF-8"):
        load_config(path, environment={})


def test_imports_are_told(tmp_path: Path) -> None:
    text = f'{BEANS}<import resource="jetty.xml"/>{store("<jdbcPersistenceAdapter/>")}</beans>'

    assert any("imported files are not read" in note.text for note in load(tmp_path, text).notes)
