"""What manuals print: all that a fragment says is obeyed, or noted; or one line says what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.config import Configuration, load_config
from jdbcstore.config.xml.beans import Element, parse_xml
from jdbcstore.errors import ConfigurationError

URL = "postgresql://localhost/mq"


@dataclass(frozen=True)
class Printed:
    """A fragment, inside ``persistenceAdapter`` or what ``inside`` says, and what becomes of it."""

    xml: str
    options: tuple[tuple[str, Any], ...] = ()
    """Path and value of what is set by it."""
    notes: tuple[tuple[str, str], ...] = ()
    """The setting, and what a note about it says."""
    missing: str = ""
    """Why it does not open as it is; ``--url`` is then given."""
    inside: str = "<broker><persistenceAdapter>{}</persistenceAdapter></broker>"
    name: str = "activemq.xml"


def policy(xml: str, *notes: tuple[str, str], options: tuple[tuple[str, Any], ...] = ()) -> Printed:
    entries = (
        "<destinationPolicy><policyMap><policyEntries>{}</policyEntries></policyMap></destinationPolicy>"
    )
    adapter = "<persistenceAdapter><kahaDB/></persistenceAdapter>"
    return Printed(xml, options, notes, inside=f"<broker>{entries}{adapter}</broker>")


def several(xml: str, *notes: tuple[str, str], options: tuple[tuple[str, Any], ...] = ()) -> Printed:
    inside = "<broker><persistenceAdapter><mKahaDB directory='data'><filteredPersistenceAdapters>{}"
    end = "</filteredPersistenceAdapters></mKahaDB></persistenceAdapter></broker>"
    return Printed(xml, options, notes, inside=inside + end)


def artemis(xml: str, *notes: tuple[str, str], options: tuple[tuple[str, Any], ...] = ()) -> Printed:
    inside = "<configuration><core>{}</core></configuration>"
    return Printed(xml, options, notes, inside=inside, name="broker.xml")


def journaled(element: str) -> Printed:
    options = (("journal.journal_log_files", 5), ("journal.directory", "../activemq-data/journal"))
    return Printed(f'<{element} journalLogFiles="5" dataDirectory="../activemq-data"/>', options)


ARCHIVE = "journal.journal_archive_directory"
COUNTS = "it counts messages"
PRINTED = {
    # JDBC, alone and behind a journal, as the guides of ActiveMQ, Fuse and A-MQ spell it
    "jdbc": Printed('<jdbcPersistenceAdapter dataDirectory="activemq-data"/>'),
    "jdbc of a-mq": Printed('<jdbcpersistenceAdapter cleanupPeriod="0"/>', (("store.cleanup_period", 0.0),)),
    "jdbc locker": Printed(
        '<jdbcPersistenceAdapter lockKeepAlivePeriod="5000"><locker>'
        '<lease-database-locker lockAcquireSleepInterval="10000"/></locker></jdbcPersistenceAdapter>',
        (("locker.lock_acquire_sleep_interval", 10.0), ("locker.lock_keep_alive_period", 5.0)),
    ),
    **{
        f"journaled as {element}": journaled(element)
        for element in (
            *("journaledJDBC", "journalledJDBC", "journalJDBC", "journalizedJDBC", "journaledJdbc"),
            "journalPersistenceAdapterFactory",
        )
    },
    # KahaDB
    "kahaDB": Printed(
        '<kahaDB directory="activemq-data" journalMaxFileLength="32mb"/>',
        (("journal.journal_log_file_size", 32 << 20),),
    ),
    "kahaDB as a-mq places it": Printed(
        '<kahaDB directory="${data}/kahadb"/>', (("journal.directory", "{folder}/data/kahadb/journal"),)
    ),
    "kahaDB of karaf": Printed(
        '<kahaDB directory="${karaf.data}/amq/kahadb"/>',
        (("journal.directory", "{folder}/data/amq/kahadb/journal"),),
    ),
    "kahaDB counts": Printed(
        '<kahaDB maxCheckpointMessageAddSize="4kb"/>', notes=(("maxCheckpointMessageAddSize", COUNTS),)
    ),
    "kahaDB archive": Printed(
        '<kahaDB archiveDataLogs="true" directoryArchive="archive"/>', ((ARCHIVE, "archive"),)
    ),
    "kahaDB no archive": Printed(
        '<kahaDB directoryArchive="archive"/>', notes=(("directoryArchive", "archiveDataLogs is not true"),)
    ),
    # mKahaDB
    "mKahaDB archive": several(
        '<filteredKahaDB queue="A.>"><persistenceAdapter>'
        '<kahaDB archiveDataLogs="true" directoryArchive="old"/></persistenceAdapter></filteredKahaDB>',
        options=((f"stores[0].{ARCHIVE}", "old"),),
    ),
    "mKahaDB archive of each": several(
        '<filteredKahaDB perDestination="true"><persistenceAdapter>'
        '<kahaDB archiveDataLogs="true"/></persistenceAdapter></filteredKahaDB>',
        options=((f"stores[0].{ARCHIVE}", "data/data-archive"),),
    ),
    "mKahaDB index": several(
        '<filteredKahaDB><persistenceAdapter><kahaDB indexDirectory="fast"/></persistenceAdapter>'
        "</filteredKahaDB>",
        ("indexDirectory", "in the directory of the store"),
    ),
    "mKahaDB levelDB inside": several(
        '<filteredKahaDB><persistenceAdapter><levelDB failIfLocked="true"/></persistenceAdapter>'
        "</filteredKahaDB>",
        ("failIfLocked", "the locker of mKahaDB"),
    ),
    "mKahaDB for no name": several(
        '<filteredKahaDB queue=""><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>',
        ("queue", "the name of the queue is empty"),
        options=(("stores[0].queue", None),),
    ),
    # LevelDB and older stores
    "levelDB": Printed(
        '<levelDB directory="db" readThreads="10" failIfLocked="true"/>',
        (("locker.fail_if_locked", True), ("locker.directory", "db")),
        (("readThreads", "its own threads"),),
    ),
    "replicatedLevelDB": Printed(
        '<replicatedLevelDB directory="activemq-data" replicas="3" bind="tcp://0.0.0.0:0"'
        ' zkAddress="zoo1:2181,zoo2:2181" zkPassword="s3cret" zkPath="/activemq" hostname="broker1"/>',
        (
            ("journal.replicated", True),
            ("journal.replicas", 3),
            ("journal.sync", "quorum_mem"),
            ("journal.node", "broker1"),
            ("journal.stream_name", "activemq"),
            ("locker.address", "zoo1:2181,zoo2:2181"),
            ("locker.path", "/activemq"),
            ("locker.password", "s3cret"),
            ("locker.session_timeout", 2.0),
            ("locker.lock_keep_alive_period", 0.4),
        ),
        (("bind", "do not connect to each other"),),
    ),
    "replicatedLevelDB as its manual misspells it": Printed(
        '<replicatedLevelDB zkSessionTmeout="1500ms" sync="local_mem, remote_disk" weight="10"'
        ' securityToken="s3cret" verifyChecksums="true"/>',
        (
            ("journal.replicas", 3),
            ("journal.sync", "quorum_disk"),
            ("journal.weight", 10),
            ("journal.node", None),
            ("journal.stream_name", "default"),
            ("locker.address", "127.0.0.1:2181"),
            ("locker.path", "/default"),
            ("locker.session_timeout", 1.5),
        ),
        (("securityToken", "stream_user"), ("verifyChecksums", "has a checksum")),
    ),
    "amq": Printed(
        '<amqPersistenceAdapter maxCheckpointMessageAddSize="4kb" cleanupInterval="30000"/>',
        notes=(("maxCheckpointMessageAddSize", COUNTS), ("cleanupInterval", "")),
    ),
    "amq by its factory": Printed('<amqPersistenceAdapterFactory syncOnWrite="true"/>'),
    "kaha": Printed(
        '<kahaPersistenceAdapter directory="activemq-data" maxDataFileLength="33554432"/>',
        notes=(("maxDataFileLength", "a store like kahaPersistenceAdapter"),),
        missing="kahaPersistenceAdapter does not keep messages in a database",
    ),
    "memory": Printed(
        "<memoryPersistenceAdapter/>",
        (("broker.persistent", False),),
        missing="in memory, because it has a memoryPersistenceAdapter",
    ),
    # policies
    "policy for no name": policy(
        '<policyEntry queue="" memoryLimit="1mb"/><policyEntry queue=">" memoryLimit="2mb"/>',
        ("queue", 'queue=">" is for every one'),
        options=(("policies[0].memory_limit", 2 << 20),),
    ),
    "policy audit": policy(
        '<policyEntry topic=">" enableAudit="false" maxAuditDepth="10" maxProducersToAudit="20"/>',
        ("enableAudit", "set its option enable_audit"),
        ("maxAuditDepth", "set its option enable_audit"),
    ),
    "dead letters' audit": policy(
        '<policyEntry queue=">"><deadLetterStrategy><individualDeadLetterStrategy queuePrefix="DLQ."'
        ' enableAudit="false" maxAuditDepth="10" maxProducersToAudit="20"/></deadLetterStrategy>'
        "</policyEntry>",
        ("maxAuditDepth", "becomes a dead letter twice"),
        ("maxProducersToAudit", "becomes a dead letter twice"),
    ),
    "dead letters dropped": policy(
        '<policyEntry queue=">"><deadLetterStrategy><discarding/></deadLetterStrategy></policyEntry>'
    ),
    "dead letters kept apart": policy(
        '<policyEntry queue=">"><deadLetterStrategy><sharedDeadLetterStrategy processExpired="false"'
        ' processNonPersistent="true" expiration="60000"/></deadLetterStrategy></policyEntry>',
        options=(("policies[0].dead_letter_strategy.expiration", 60.0),),
    ),
    # Artemis
    "artemis buffer": artemis(
        "<journal-buffer-size>490KiB</journal-buffer-size><journal-file-size>10MiB</journal-file-size>",
        options=(
            ("journal.journal_max_write_batch_size", 490 << 10),
            ("journal.journal_log_file_size", 10 << 20),
        ),
    ),
    "artemis keeps all": artemis(
        "<journal-retention-directory>data/retention</journal-retention-directory>",
        options=((ARCHIVE, "data/retention"),),
    ),
    "artemis keeps a while": artemis(
        '<journal-retention-directory unit="DAYS" period="7" storage-limit="10G">data/retention'
        "</journal-retention-directory>",
        ("journal-retention-directory", "stay in journal-directory"),
        options=(("journal.journal_retention", 7 * 86400.0), ("journal.journal_retention_size", 10 << 30)),
    ),
}
"""By what each shows."""


def load(printed: Printed, folder: Path, **options: Any) -> Configuration:
    path = folder / printed.name
    path.write_text(printed.inside.format(printed.xml))
    return load_config(path, environment={}, **options)


def value(configuration: Configuration, path: str) -> Any:
    found: Any = configuration
    for name in path.replace("]", "").replace("[", ".").split("."):
        found = found[int(name)] if name.isdigit() else getattr(found, name)
    return found


def settings(element: Element) -> set[str]:
    """The names of everything in a fragment that is given a value."""
    found = {name for one in element.all() for name in one.attributes}
    return found | {one.name for one in element.all() if one.text and not one.children}


@pytest.mark.parametrize("name", PRINTED)
def test_nothing_printed_is_ignored_without_a_word(name: str, tmp_path: Path) -> None:
    printed = PRINTED[name]

    loaded = load(printed, tmp_path)
    if printed.missing:
        with pytest.raises(ConfigurationError, match=printed.missing):
            loaded.login()
        loaded = load(printed, tmp_path, url=URL)
    elif not loaded.stores:
        loaded.login()

    for path, wanted in printed.options:
        expected = wanted.replace("{folder}", str(tmp_path)) if isinstance(wanted, str) else wanted
        assert value(loaded, path) == expected, path
    told = [str(note) for note in loaded.notes]
    for setting, text in printed.notes:
        assert any(f", {setting}: " in one and text in one for one in told), (setting, told)
    said = " ".join([*loaded.sources.values(), *told])
    fragment = parse_xml(tmp_path / "fragment", f"<fragment>{printed.xml}</fragment>".encode())
    places = {"directory", "dataDirectory", "archiveDataLogs", "perDestination", "directoryArchive"}
    for setting in settings(fragment) - places - {"unit", "period", "storage-limit"}:
        assert f", {setting}" in said, (setting, said)


@pytest.mark.parametrize("text", ['brokerName="${activemq.hostname}"', 'populateJMSXUserID="${amq.user}"'])
def test_a_placeholder_that_nobody_defines_is_named_with_its_cure(tmp_path: Path, text: str) -> None:
    variable = text.partition("{")[2].partition("}")[0]
    exported = variable.replace(".", "_").upper()
    path = tmp_path / "activemq.xml"
    path.write_text(f"<broker {text}>\n<persistenceAdapter><kahaDB/></persistenceAdapter></broker>")

    with pytest.raises(ConfigurationError) as caught:
        load_config(path, environment={})

    assert str(caught.value).startswith(f"{path}:1, {text.partition('=')[0]}")
    assert f"${{{variable}}} is not defined; export {exported}" in str(caught.value)
    load_config(path, environment={exported: "true"})
