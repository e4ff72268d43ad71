"""What ActiveMQ's manuals print about JDBC, lockers and cursors, as files: each loads, field by field."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

import jdbcstore
from jdbcstore import Configuration, Message, StoreConfig, load_config
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.config import DataSourceConfig, Kind, load_file, shown_options, to_toml
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import (
    DatabaseLockerConfig,
    DefaultIOExceptionHandlerConfig,
    LeaseDatabaseLockerConfig,
    LeaseLockerIOExceptionHandlerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.config.policy import (
    DiscardingDeadLetterStrategy,
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    IndividualDeadLetterStrategy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    PolicyEntry,
    RedeliveryPolicy,
    SharedDeadLetterStrategy,
    TimedSubscriptionRecoveryPolicy,
)
from jdbcstore.config.routed import RoutedStoreConfig
from tests.support.cli.command_line import CommandLine
from tests.support.databases import Database
from tests.support.require import unavailable

FRAGMENTS = Path(__file__).parent / "fragments"

MYSQL = DataSourceConfig(
    url="jdbc:mysql://localhost:3306/activemq?relaxAutoCommit=true",
    user="activemq",
    password="s3cret",
)
ORACLE = DataSourceConfig(
    url="jdbc:oracle:thin:@localhost:1521:AMQDB",
    user="scott",
    password="s3cret",
)
POSTGRESQL = DataSourceConfig(
    url="jdbc:postgresql://localhost:5432/activemq", user="activemq", password="s3cret"
)
ARTEMIS: dict[str, Any] = {
    "broker": BrokerConfig(virtual_topics=()),
    "policies": (
        PolicyEntry(
            dead_letter_strategy=DiscardingDeadLetterStrategy(),
            redelivery_policy=RedeliveryPolicy(
                maximum_redeliveries=9,
                initial_redelivery_delay=0.0,
                redelivery_delay=0.0,
                back_off_multiplier=1.0,
                collision_avoidance_percent=0,
                counts_returned=True,
            ),
        ),
    ),
}
"""A broker.xml that says nothing of addresses."""
DERBY = DataSourceConfig(url="jdbc:derby:activemq-data/derbydb;create=true")


def configuration(data_source: DataSourceConfig, **more: Any) -> Configuration:
    """With the locker that ActiveMQ takes where none is named."""
    return Configuration(data_source=data_source, **{"locker": DatabaseLockerConfig(), **more})


def policies(*entries: PolicyEntry, **broker: str) -> Configuration:
    return Configuration(data_source=DERBY, policies=entries, broker=BrokerConfig(**broker))  # type: ignore[arg-type]


SLOWLY = RedeliveryPolicy(
    maximum_redeliveries=4,
    initial_redelivery_delay=0.5,
    redelivery_delay=10.0,
    use_exponential_back_off=True,
    back_off_multiplier=2.5,
    maximum_redelivery_delay=60.0,
    use_collision_avoidance=True,
    collision_avoidance_percent=20,
)
ALWAYS = RedeliveryPolicy(maximum_redeliveries=-1)

EXPECTED = {
    "derby": configuration(DataSourceConfig(url="jdbc:derby:derbydb;create=true")),
    "derby-minimal": configuration(DERBY),
    "derby-client": configuration(DataSourceConfig(url="jdbc:derby://db.example.com:1528/mq", user="mq")),
    "oracle": configuration(ORACLE, store=StoreConfig(pool_size=199)),
    "oracle-blob": configuration(
        ORACLE,
        store=StoreConfig(pool_size=199, adapter="oracleBlobJDBCAdapter", create_tables_on_startup=False),
    ),
    "oracle-data-source": configuration(
        DataSourceConfig(url="jdbc:oracle:thin:@ora.example.com:1522:AMQDB", user="scott", password="s3cret"),
        store=StoreConfig(adapter="org.apache.activemq.store.jdbc.adapter.OracleBlobJDBCAdapter"),
    ),
    "mysql": configuration(MYSQL, store=StoreConfig(pool_size=199)),
    "mysql-data-source": configuration(
        DataSourceConfig(url="jdbc:mysql://localhost:3306/activemq", user="activemq", password="s3cret")
    ),
    "postgresql": configuration(POSTGRESQL, store=StoreConfig(pool_size=9)),
    "postgresql-adapter": configuration(
        POSTGRESQL, store=StoreConfig(pool_size=9, adapter="postgresql-jdbc-adapter")
    ),
    "journaled": Configuration(
        data_source=POSTGRESQL,
        store=StoreConfig(pool_size=9),
        journal=JournalConfig(
            directory="activemq-data/journal",
            use_quick_journal=True,
            checkpoint_interval=60.0,
            journal_log_files=5,
            journal_log_file_size=10 << 20,
            journal_archive_directory="/archive",
        ),
    ),
    "journaled-minimal": configuration(
        DataSourceConfig(url="jdbc:derby:../activemq-data/derbydb;create=true"),
        journal=JournalConfig(directory="../activemq-data/journal", journal_log_files=5),
    ),
    "journal-adapter": Configuration(
        data_source=POSTGRESQL,
        store=StoreConfig(pool_size=9),
        journal=JournalConfig(directory="journal", max_checkpoint_message_add_size=2 << 20),
    ),
    "statements": configuration(
        DERBY,
        store=StoreConfig(string_id_data_type="VARCHAR(128)"),
        journal=JournalConfig(directory="activemq-data/journal", use_journal=False),
    ),
    "statements-names": configuration(
        POSTGRESQL,
        store=StoreConfig(
            pool_size=9,
            table_prefix="MQ_",
            message_table_name="MSGS",
            durable_sub_acks_table_name="ACKS",
            lock_table_name="LCK",
            binary_data_type="BYTEA",
            container_name_data_type="VARCHAR(128)",
            msg_id_data_type="VARCHAR(128)",
            sequence_data_type="BIGINT",
            long_data_type="BIGINT",
            string_id_data_type="VARCHAR(128)",
            statements={"findAllDestinationsStatement": "SELECT DISTINCT CONTAINER FROM MQ_MSGS"},
        ),
    ),
    "blob-adapter": configuration(MYSQL, store=StoreConfig(pool_size=199, adapter="blobJDBCAdapter")),
    "database-locker": configuration(
        MYSQL,
        store=StoreConfig(pool_size=199),
        locker=DatabaseLockerConfig(lock_acquire_sleep_interval=5.0, lock_keep_alive_period=10.0),
    ),
    "lease-database-locker": configuration(
        MYSQL,
        store=StoreConfig(pool_size=199),
        broker_name="node-1",
        locker=LeaseDatabaseLockerConfig(
            lock_acquire_sleep_interval=10.0, lock_keep_alive_period=5.0, lease_holder_id="node-1"
        ),
    ),
    "lease-minimal": configuration(
        MYSQL,
        store=StoreConfig(pool_size=199),
        locker=LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=10.0, lock_keep_alive_period=5.0),
    ),
    "lease-time-difference": configuration(
        MYSQL,
        store=StoreConfig(pool_size=199),
        locker=LeaseDatabaseLockerConfig(
            lock_acquire_sleep_interval=5.0,
            lock_keep_alive_period=2.0,
            max_allowable_diff_from_db_time=1.0,
            handle_start_exception=True,
            query_timeout=None,
        ),
    ),
    "lease-kahadb": Configuration(
        data_source=DataSourceConfig(url="sqlite:///target/activemq-data/jdbcstore.db"),
        journal=JournalConfig(directory="target/activemq-data/journal"),
        locker=LeaseDatabaseLockerConfig(
            lock_acquire_sleep_interval=10.0, lock_keep_alive_period=5.0, data_source=MYSQL
        ),
    ),
    "shared-file-locker": configuration(
        MYSQL,
        store=StoreConfig(pool_size=199),
        locker=SharedFileLockerConfig(
            directory="/shared/lock",
            fail_if_locked=True,
            lock_acquire_sleep_interval=5.0,
            lock_keep_alive_period=10.0,
            stop_on_error=True,
        ),
    ),
    "shared-file-locker-kahadb": Configuration(
        data_source=DataSourceConfig(url="sqlite:///target/activemq-data/jdbcstore.db"),
        journal=JournalConfig(directory="target/activemq-data/journal"),
        locker=SharedFileLockerConfig(
            directory="target/activemq-data", lock_acquire_sleep_interval=5.0, lock_keep_alive_period=10.0
        ),
    ),
    "kahadb": Configuration(
        data_source=DataSourceConfig(url="sqlite:////data/index/jdbcstore.db"),
        store=StoreConfig(max_producers_to_audit=5, max_audit_depth=100),
        broker=BrokerConfig(concurrent_store_and_dispatch_queues=True, memory_limit=20 << 20),
        locker=SharedFileLockerConfig(directory="/data/kahadb"),
        journal=JournalConfig(
            directory="/data/kahadb/journal",
            checkpoint_interval=5.0,
            journal_log_file_size=32 << 20,
            journal_max_write_batch_size=4 << 20,
            journal_disk_sync_strategy="periodic",
            journal_disk_sync_interval=2.0,
            journal_archive_directory="/data/kahadb/data-archive",
            preallocation_strategy="zeros",
            preallocation_scope="entire_journal",
            ignore_missing_journalfiles=True,
        ),
    ),
    "leveldb": Configuration(
        data_source=DataSourceConfig(url="sqlite:///LevelDB/jdbcstore.db"),
        locker=SharedFileLockerConfig(directory="LevelDB"),
        journal=JournalConfig(
            directory="LevelDB/journal", journal_disk_sync_strategy="never", journal_log_file_size=100 << 20
        ),
    ),
    "amq": Configuration(
        data_source=DataSourceConfig(url="sqlite:///activemq-data/jdbcstore.db"),
        journal=JournalConfig(
            directory="activemq-data/journal",
            journal_disk_sync_strategy="always",
            journal_log_file_size=32 << 20,
            journal_archive_directory="/archive",
        ),
    ),
    "mkahadb": Configuration(
        broker_name="one",
        store=StoreConfig(pool_size=9),
        locker=SharedFileLockerConfig(directory="/data/mkahadb", lock_acquire_sleep_interval=5.0),
        stores=(
            RoutedStoreConfig(
                queue="ORDERS.>",
                directory="/data/mkahadb/queue_ORDERS-8e2a417d6fe304aa",
                journal=JournalConfig(journal_log_file_size=32 << 20),
            ),
            RoutedStoreConfig(topic="PRICES.>", data_source=POSTGRESQL),
            RoutedStoreConfig(directory="/elsewhere", per_destination=True, journal=JournalConfig()),
        ),
    ),
    "artemis-files": Configuration(
        data_source=DataSourceConfig(url="sqlite:///data/bindings/jdbcstore.db"),
        broker_name="artemis-2",
        locker=SharedFileLockerConfig(directory="data/bindings"),
        journal=JournalConfig(
            directory="data/journal",
            journal_log_files=2,
            journal_log_file_size=10 << 20,
            journal_buffer_timeout=0.000096,
            journal_max_write_batch_size=490 << 10,
            journal_disk_sync_strategy="always",
            journal_retention=7 * 86400.0,
            journal_retention_size=10 << 30,
        ),
        **ARTEMIS,
    ),
    "cursors-topic": policies(
        PolicyEntry(
            topic="org.example.>",
            producer_flow_control=False,
            memory_limit=1 << 20,
            dead_letter_strategy=IndividualDeadLetterStrategy(topic_prefix="Test.DLQ."),
            pending_subscriber_policy="vmCursor",
            pending_durable_subscriber_policy="vmDurableCursor",
        )
    ),
    "cursors-queue": policies(
        PolicyEntry(
            queue="org.example.>",
            dead_letter_strategy=IndividualDeadLetterStrategy(
                queue_prefix="Test.DLQ.", process_expired=False, process_non_persistent=False
            ),
            pending_queue_policy="vmQueueCursor",
        )
    ),
    "cursors-file": policies(
        PolicyEntry(queue=">", pending_queue_policy="fileQueueCursor"),
        PolicyEntry(
            topic=">",
            pending_subscriber_policy="fileCursor",
            pending_durable_subscriber_policy="fileDurableSubscriberCursor",
        ),
    ),
    "cursors-store": policies(
        PolicyEntry(queue=">", pending_queue_policy="storeCursor", cursor_memory_high_water_mark=30),
        PolicyEntry(topic=">", pending_durable_subscriber_policy="storeDurableSubscriberCursor"),
    ),
    "policies": policies(
        PolicyEntry(
            queue="ORDERS.>",
            prioritized_messages=True,
            max_page_size=100,
            queue_prefetch=10,
            expire_messages_period=0.0,
            persist_jms_redelivered=True,
            send_fail_if_no_space_after_timeout=3.0,
            dead_letter_strategy=SharedDeadLetterStrategy(dead_letter_queue="ORDERS.DEAD", expiration=60.0),
        ),
        PolicyEntry(
            topic="PRICES.>",
            always_retroactive=True,
            advisory_for_consumed=True,
            advisory_for_slow_consumers=True,
            dead_letter_strategy=DiscardingDeadLetterStrategy(),
            pending_message_limit=50,
            subscription_recovery_policy=TimedSubscriptionRecoveryPolicy(recover_duration=360.0),
        ),
    ),
    "recovery": policies(
        PolicyEntry(
            topic="COUNT",
            subscription_recovery_policy=FixedCountSubscriptionRecoveryPolicy(maximum_size=5),
        ),
        PolicyEntry(
            topic="SIZE",
            subscription_recovery_policy=FixedSizedSubscriptionRecoveryPolicy(maximum_size=2048),
        ),
        PolicyEntry(topic="LAST", subscription_recovery_policy=LastImageSubscriptionRecoveryPolicy()),
        PolicyEntry(topic="NONE", subscription_recovery_policy=NoSubscriptionRecoveryPolicy()),
        PolicyEntry(topic="QUERY"),
    ),
    "redelivery": policies(
        PolicyEntry(queue="ORDERS.>", queue_prefetch=10, redelivery_policy=SLOWLY),
        PolicyEntry(topic=">", topic_prefetch=5, redelivery_policy=RedeliveryPolicy(maximum_redeliveries=0)),
        PolicyEntry(queue="ORDERS.NEW", queue_prefetch=10, redelivery_policy=RedeliveryPolicy()),
        PolicyEntry(queue="BILLS", redelivery_policy=ALWAYS),
        PolicyEntry(queue="PAID", redelivery_policy=ALWAYS),
        PolicyEntry(redelivery_policy=RedeliveryPolicy(maximum_redeliveries=0)),
        users_file=str(Path(__file__).parent / "fragments" / "redelivery.xml"),
    ),
    "spring": Configuration(
        data_source=DataSourceConfig(
            url="jdbc:postgresql://db.example.com/activemq", user="mq", password="s3cret"
        ),
        store=StoreConfig(pool_size=3, cleanup_period=60.0, enable_audit=True, table_prefix="MQ_"),
        broker_name="one",
    ),
    "options": Configuration(
        data_source=DERBY,
        broker_name="one",
        store=StoreConfig(
            cleanup_period=0.0,
            create_tables_on_startup=False,
            enable_audit=True,
            max_producers_to_audit=10,
            max_audit_depth=20,
            audit_recovery_depth=30,
            network_timeout=10.0,
            query_timeout=10.0,
        ),
        broker=BrokerConfig(connectors=(ConnectorConfig(uri="tcp://0.0.0.0:61616", name="openwire"),)),
    ),
    "io-exception-handler": Configuration(
        data_source=DERBY,
        broker_name="one",
        io_exception_handler=LeaseLockerIOExceptionHandlerConfig(
            resume_check_sleep_period=2.0, system_exit_on_shutdown=True, no_space_message="full"
        ),
    ),
    "io-exception-handler-bean": Configuration(
        data_source=DERBY,
        broker_name="one",
        io_exception_handler=DefaultIOExceptionHandlerConfig(
            ignore_sql_exceptions=False, sql_exception_message="deadlock"
        ),
    ),
    "broker": Configuration(
        data_source=DERBY,
        broker_name="one",
        broker=BrokerConfig(
            memory_limit=20 << 20,
            tmp_data_directory="/data/mq",
            connectors=(
                ConnectorConfig(uri="tcp://0.0.0.0:61616", name="openwire", maximum_connections=1000),
                ConnectorConfig(
                    uri="stomp://0.0.0.0:61613",
                    name="stomp",
                    maximum_connections=5,
                    max_frame_size=1 << 20,
                    connect_attempt_timeout=5.0,
                ),
                ConnectorConfig(uri="stomp://[::1]:61614"),
                ConnectorConfig(uri="tcp://0.0.0.0:61618", name="nio"),
                ConnectorConfig(
                    uri="auto://0.0.0.0:5671",
                    name="auto",
                    max_frame_size=2048,
                    protocol_detection_time_out=2.0,
                ),
                ConnectorConfig(uri="stomp://0.0.0.0:5672", name="half"),
                ConnectorConfig(uri="auto://0.0.0.0:5673", name="both"),
                ConnectorConfig(uri="ws://0.0.0.0:61615", name="ws", maximum_connections=1000),
            ),
        ),
    ),
    "artemis": Configuration(
        data_source=DataSourceConfig(
            url="jdbc:postgresql://localhost:5432/activemq",
            user="activemq",
            password="s3cret",
        ),
        broker_name="artemis-1",
        store=StoreConfig(network_timeout=10.0),
        locker=LeaseDatabaseLockerConfig(
            lock_acquire_sleep_interval=15.0, lock_keep_alive_period=2.0, max_allowable_diff_from_db_time=0.5
        ),
        **ARTEMIS,
    ),
}


def load(name: str, **environment: str) -> Configuration:
    return load_config(FRAGMENTS / f"{name}.xml", environment=environment)


def notes(name: str, *kinds: Kind) -> dict[str, str]:
    """What is told about each attribute or element, with the line."""
    found = {}
    for note in load(name).notes:
        if note.kind in kinds:
            found[note.place.removeprefix(f"{FRAGMENTS}/{name}.xml:")] = note.text
    return found


def test_every_fragment_is_tested() -> None:
    assert {path.stem for path in FRAGMENTS.glob("*.xml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_fragment(name: str) -> None:
    assert load(name) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_toml_made_of_it_loads_as_the_same(name: str, tmp_path: Path) -> None:
    passwords = {"JDBCSTORE_PASSWORD": "s3cret", "LOCKER_PASSWORD": "s3cret", "STORE_2_PASSWORD": "s3cret"}
    converted = tmp_path / "jdbcstore.toml"
    converted.write_text(to_toml(load(name), name))

    assert "s3cret" not in converted.read_text()
    assert with_password(load_file(converted, {}), passwords) == with_password(load(name), passwords)


def with_password(configuration: Configuration, environment: dict[str, str]) -> Configuration:
    """The configuration with its passwords in it, wherever they come from."""

    def revealed(data_source: DataSourceConfig) -> DataSourceConfig:
        return replace(data_source, password=data_source.reveal(environment), password_env=None)

    locker = configuration.locker
    if isinstance(locker, DatabaseLockerConfig | LeaseDatabaseLockerConfig) and locker.data_source:
        locker = replace(locker, data_source=revealed(locker.data_source))
    stores = tuple(
        replace(one, data_source=revealed(one.data_source)) if one.data_source else one
        for one in configuration.stores
    )
    return replace(
        configuration, data_source=revealed(configuration.data_source), locker=locker, stores=stores
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_no_secret_is_shown(name: str) -> None:
    configuration = load(name)

    shown = [repr(configuration), str(configuration.sources), *map(str, configuration.notes)]
    shown += [f"{path} {value}" for path, value in shown_options(configuration)]
    if not (configuration.problems or configuration.stores):
        shown.append(repr(configuration.login()))
    assert "s3cret" not in " ".join(shown)


def test_each_value_has_its_line() -> None:
    sources = load("lease-time-difference").sources
    file = f"{FRAGMENTS}/lease-time-difference.xml"

    assert sources["url"] == f"{file}:9, url"
    assert sources["pool_size"] == f"{file}:12, maxActive"
    assert sources["locker.type"] == f"{file}:20, lease-database-locker"
    assert sources["locker.lock_keep_alive_period"] == f"{file}:18, lockKeepAlivePeriod"
    assert sources["locker.max_allowable_diff_from_db_time"] == f"{file}:20, maxAllowableDiffFromDBTime"


def test_what_is_dangerous_or_unknown_is_told() -> None:
    assert notes("options", Kind.DANGEROUS, Kind.REFUSED).keys() == {
        "3, transactionIsolation",
        "3, useExternalMessageReferences",
        "3, cleanupPerod",
    }
    assert notes("options", Kind.REFUSED)["3, cleanupPerod"].endswith("did you mean cleanupPeriod?")
    assert "READ COMMITTED" in notes("options", Kind.DANGEROUS)["3, transactionIsolation"]


def test_a_recovery_policy_that_is_not_there_is_told() -> None:
    [(place, text)] = notes("recovery", Kind.REFUSED).items()

    assert place == "29, query"
    assert "#query is a Java class, and new subscribers would get no earlier messages" in text


def test_an_unknown_attribute_of_a_handler_is_told() -> None:
    [(place, text)] = notes("io-exception-handler-bean", Kind.REFUSED).items()

    assert place == "5, ignoreAllErors"
    assert text.endswith("did you mean ignoreAllErrors?")


def test_what_a_broker_does_not_take_is_told() -> None:
    assert notes("broker", Kind.IGNORED).keys() == {
        "8, sendFailIfNoSpace",
        "10, storeUsage",
        "11, percentLimit",
        "14, provider",
        "17, trace",
        "17, updateClusterClients",
        "22, uri",
        "25, wireFormat.amqp.maxFrameSize",
        "27, auto.protocols",
    }
    assert "clients of mqtt cannot connect" in notes("broker", Kind.IGNORED)["22, uri"]
    assert notes("broker", Kind.MISSING).keys() == {"20, uri", "24, uri", "29, uri", "31, uri"}
    assert all("no sslContext with a keyStore" in text for text in notes("broker", Kind.MISSING).values())
    assert notes("broker", Kind.REFUSED).keys() == {"21, wrong"}


def test_what_the_broker_does_not_go_by_is_told() -> None:
    assert notes("policies", Kind.UNSUPPORTED).keys() == {"8, strictOrderDispatch", "12, enableAudit"}


def test_a_lease_that_would_expire_is_told() -> None:
    [(place, text)] = notes("lease-minimal", Kind.DANGEROUS).items()

    assert place == "20, no lockKeepAlivePeriod"
    assert "10000 ms renewed every 30000 ms" in text
    assert notes("lease-database-locker", Kind.DANGEROUS) == {}


def test_what_has_no_meaning_is_told() -> None:
    assert notes("options", Kind.IGNORED).keys() == {
        "3, changeAutoCommitAllowed",
        "3, maxRows",
        "3, lockKeepAlivePeriod",
    }
    assert notes("database-locker", Kind.IGNORED).keys() == {
        "8, driverClassName",
        "13, poolPreparedStatements",
        "16, dataDirectory",
        "18, dataDirectory",
    }
    assert notes("journaled", Kind.IGNORED).keys() == {
        "18, dataDirectory",
        "13, dataSourceName",
        "14, initialConnections",
        "20, journalThreadPriority",
    }
    assert notes("policies", Kind.IGNORED).keys() == {
        "1, useJmx",
        "8, optimizedDispatch",
        "8, useCache",
        "8, gcInactiveDestinations",
        "8, inactiveTimoutBeforeGC",
    }
    assert notes("recovery", Kind.IGNORED).keys() == {"1, useJmx", "15, useSharedBuffer"}
    assert notes("redelivery", Kind.IGNORED).keys() == {
        "1, useJmx",
        "19, sendToDlqIfMaxRetriesExceeded",
        "26, preDispatchCheck",
    }


def test_what_a_store_in_files_does_not_take_is_told() -> None:
    assert notes("kahadb", Kind.IGNORED).keys() == {
        *("3, indexCacheSize", "3, enableAckCompaction", "3, maxCheckpointMessageAddSize"),
    }
    [(place, text)] = notes("kahadb", Kind.REFUSED).items()
    assert (place, text.endswith("did you mean journalMaxFileLength?")) == ("3, journalMaxFileLengt", True)
    assert notes("leveldb", Kind.IGNORED).keys() == {"3, verifyChecksums"}
    assert notes("amq", Kind.IGNORED).keys() == {"3, useNio"}
    assert notes("mkahadb", Kind.IGNORED).keys() == {
        *("5, dataSourceName", "5, initialConnections"),
        *("10, journalMaxFileLength", "14, lockKeepAlivePeriod"),
    }
    assert {place.split(", ")[1] for place in notes("artemis-files", Kind.IGNORED)} == {
        *(
            "journal-type",
            "journal-pool-files",
            "paging-directory",
            "journal-retention-directory",
        ),
    }


def test_artemis_s_tables_are_told_to_be_others() -> None:
    assert "another layout" in notes("artemis", Kind.DANGEROUS)["6, database-store"]
    assert {place.split(", ")[1] for place in notes("artemis", Kind.IGNORED)} == {
        "message-table-name",
        "bindings-table-name",
        "large-message-table-name",
        "page-store-table-name",
        "node-manager-store-table-name",
        "jdbc-driver-class-name",
    }


def at(database: Database, name: str, folder: Path) -> Path:
    """The fragment with the address and the login of a test's database in its DataSource."""
    url = make_url(database.url)
    text = (FRAGMENTS / f"{name}.xml").read_text()
    for option, value in {
        "url": f"{database.jdbc_url}?relaxAutoCommit=true".replace("mariadb", "mysql", 1),
        "serverName": url.host,
        "portNumber": url.port,
        "databaseName": url.database,
        "username": url.username,
        "user": url.username,
        "password": url.password,
    }.items():
        text = re.sub(rf'(name="{option}"(?: value="|><value>))[^"<]*', rf"\g<1>{value}", text)
    path = folder / f"{name}.xml"
    text = text.replace("/shared/lock", str(folder)).replace("/archive", str(folder / "archive"))
    path.write_text(
        text.replace('="journal"', f'="{folder}/journal"').replace("activemq-data", f"{folder}/data")
    )
    return path


def works(path: Path) -> None:
    """A store opens on the file, and what is sent is there to be received by the next one."""
    with jdbcstore.open(load_config(path, environment={})) as store:
        store.queue("Q").add_message(Message("x"))
    with jdbcstore.open(load_config(path, environment={})) as store:
        [message] = store.queue("Q").recover()
        assert message.body == "x"
        store.queue("Q").acknowledge(message)
        assert store.queue("Q").message_count() == 0


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize(
    "name", ["postgresql", "postgresql-adapter", "statements-names", "journaled", "journal-adapter"]
)
def test_a_store_on_postgresql(name: str, database: Database, tmp_path: Path) -> None:
    works(at(database, name, tmp_path))


@pytest.mark.backends("mariadb", "mysql")
@pytest.mark.parametrize(
    "name",
    [
        "mysql",
        "mysql-data-source",
        "database-locker",
        "lease-database-locker",
        "lease-minimal",
        "lease-time-difference",
        "shared-file-locker",
    ],
)
def test_a_store_through_mysql_s_url(name: str, database: Database, tmp_path: Path) -> None:
    works(at(database, name, tmp_path))


@pytest.mark.slow
@pytest.mark.java
def test_a_store_on_the_embedded_derby(tmp_path: Path) -> None:
    (tmp_path / "derby.xml").write_text((FRAGMENTS / "derby.xml").read_text())
    command_line = CommandLine(tmp_path)
    started = command_line.run("--config", "derby.xml", "init")
    if started.code == ExitCode.CONFIGURATION:
        unavailable("derby", started.err.strip())

    done = command_line.run_all(
        ["--config", "derby.xml", "send", "Q", "x"], ["--config", "derby.xml", "--json", "consume", "Q"]
    )

    assert json.loads(done.out.splitlines()[-1])["body"] == "x"
