"""The ways of being wrong: each is one line that names the file, the place in it and the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Invoke

SECRET = "hush-hush"
WRONG_NUMBERS = "inf", "-inf", "nan", "1e300", "9" * 18

# What is wrong; how the line begins behind the file's name; and how the cure reads.
IN_TOML = [
    ("url = ", ": this is not TOML: Invalid value", "correct it"),
    ("pool_sise = 1", ": unknown option 'pool_sise'", "did you mean pool_size?"),
    ('pool_size = "3"', ": pool_size", "must be a whole number"),
    ("pool_size = 0", ": pool_size", "must be at least 1"),
    *((f"cleanup_period = {value}", ": cleanup_period", "at most 1,000,000,000") for value in WRONG_NUMBERS),
    ('max_pending_bytes = "5 parsecs"', ": max_pending_bytes", "such as '20 mb'"),
    ("max_rows = 5", ": max_rows", "has no effect"),
    ("useLock = true", ": useLock", "if there is a section locker; remove it"),
    ('table_prefix = "1"', ": table_prefix", "use a letter or underscore"),
    ('binary_data_type = "BLOB; DROP"', ": binary_data_type", "such as VARCHAR(128)"),
    ("[pool_size]\nx = 1", ", [pool_size]: pool_size", "must be a value, not a section"),
    ('locker = "x"', ": locker", "must be a section"),
    ("[locker]\nstop_on_error = true", ", [locker]: locker needs a type", "database-locker"),
    ('[locker]\ntype = "leese"', ", [locker]: unknown type 'leese'", "use one of"),
    (
        '[locker]\ntype = "lease-database-locker"\nlock_keep_alive_period = 10',
        ", [locker]: lock_keep_alive_period is 10 seconds",
        "renew it several times before it expires",
    ),
    (
        '[locker]\ntype = "shared-file-locker"\nlease_holder_id = "x"',
        ", [locker]: unknown option 'lease_holder_id'",
        "use one of",
    ),
    ("[journal]\njournal_log_files = 0", ", [journal]: journal_log_files", "at least 1"),
    (
        '[[policies]]\nqueue = "A"\n[[policies]]\nqueue = "B"\ntopic = "B"',
        ", [[policies]] no. 2: a policy is for a queue or for a topic",
        "write two",
    ),
    (
        '[[policies]]\npending_queue_policy = "vmCursor"',
        ", [[policies]] no. 1: pending_queue_policy",
        "one of storeCursor, fileQueueCursor, vmQueueCursor",
    ),
    (
        '[[policies]]\nqueue = ","',
        ", [[policies]] no. 1: queue is not a destination",
        "name them",
    ),
    (
        "[[policies]]\nredelivery_policy = { maximum_redeliveries = -2 }",
        ", [[policies]] no. 1, [policies.redelivery_policy]: maximum_redeliveries",
        "at least -1",
    ),
    (
        '[[policies]]\nsubscription_recovery_policy = { type = "lastImage" }',
        ", [[policies]] no. 1, [policies.subscription_recovery_policy]: unknown type 'lastImage'",
        "use one of fixedCountSubscriptionRecoveryPolicy",
    ),
    (f'url = "no url {SECRET}"', ": the database URL cannot be parsed", "sqlite:///file.db"),
    (f'url = "frobnicate://u:{SECRET}@h/d"', ": no adapter for database", "use one of"),
    (f'url = "sqlite:///mq.db"\npassword = "{SECRET}"', ": Invalid SQLite URL", "leave out"),
    ('url = "sqlite:///nowhere/mq.db"', ": the folder nowhere", "make it first"),
    ('adapter = "frobnicate"', ": no adapter", "use one of"),
    ('password_file = "none"', ": cannot read password_file none", "write the password"),
    ('password_env = "NONE"', ": password_env", "NONE, which is not set; export it"),
    ('password = "x"\npassword_env = "X"', ": give only one of", "password and password_env"),
    ('password_keyring = "mq"', ": password_keyring", "needs user too"),
    ("[statements]\ntablePrefix = 5", ", [statements]: table_prefix", "must be a string"),
    ('table_prefix = "A"\n[statements]\ntablePrefix = "B"', ": tablePrefix is given in statements", "once"),
    (
        '[statements]\nadMessageStatement = "x"',
        ", [statements]: statements has no 'adMessageStatement'",
        "did you mean addMessageStatement?",
    ),
    ("[statements]\naddMessageStatement = 5", ", [statements]: addMessageStatement", "leave it out"),
    (
        '[statements]\nremove_message_statement = "DELETE FROM ACTIVEMQ_MSGS WHERE ID = ? OR ID = ?"',
        ", [statements]: remove_message_statement",
        "has 2 times ?",
    ),
    (
        '[statements]\nfindAllDestinationsStatement = "SELEKT 1"',
        ", [statements]: findAllDestinationsStatement: the database refuses it",
        "correct it, or leave it out",
    ),
    (
        '[statements]\nfindAllDestinationsStatement = "SELECT 1, 2"',
        ", [statements]: findAllDestinationsStatement returns 2 columns",
        "must return 1: CONTAINER",
    ),
    (
        "[statements.a]\nb = 1",
        ", [statements], [statements.a]: statements.a must be a value",
        "not a section",
    ),
]

IN_ACTIVEMQ_XML = [
    ("<broker>\n<persistenceAdapter>\n</broker>", ":3: mismatched tag", "correct the XML"),
    ('<!DOCTYPE a [\n<!ENTITY b "c">\n]><broker/>', ":2: entities are not read", "write their text"),
    ("<beans/>", ":1: there is neither a broker nor a jdbcPersistenceAdapter", "name another file"),
    ("<beans>\n<broker/>\n<broker/></beans>", ":3: there are brokers in lines 2, 3", "its own file"),
    (
        "<broker>\n</broker>",
        ":1, kahaDB: the folder activemq-data/localhost/KahaDB of the SQLite file does not exist",
        "make it first",
    ),
    ('<broker\n persistent="false"/>', ":1: this broker keeps its messages in memory", "--url"),
]

# Each in a persistenceAdapter in line 2.
ADAPTERS = [
    ("<kahaPersistenceAdapter/>", ": kahaPersistenceAdapter does not keep messages in a database", "--url"),
    ('<replicatedLevelDB sync="disk"/>', ", sync: sync must be some of local_mem", "quorum_disk"),
    ('<replicatedLevelDB zkSessionTimeout="soon"/>', ", zkSessionTimeout: zkSessionTimeout must be", "2s"),
    ('<jdbcPersistenceAdapter dataSource="#no"/>', ": no bean in this file has the id 'no'", "correct"),
    (
        '<jdbcPersistenceAdapter cleanupPeriod="5 min"/>',
        ", cleanupPeriod: cleanup_period",
        "must be a number",
    ),
    ('<jdbcPersistenceAdapter cleanupPeriod="${p.q}"/>', ", cleanupPeriod: ${p.q}", "export P_Q"),
    ('<jdbcPersistenceAdapter enableAudit="maybe"/>', ", enableAudit: enable_audit", "must be true or false"),
    (
        "<jdbcPersistenceAdapter><locker><lease-database-locker leaseHolderId='${x}'/></locker>"
        "</jdbcPersistenceAdapter>",
        ", leaseHolderId: ${x} is not defined",
        "export X",
    ),
]

STATEMENTS = [
    ('findAllDestinationsStatement="SELECT ?"', ", findAllDestinationsStatement", "has 1 times ?"),
    ('stringIdDataType="VARCHAR(9"', ", stringIdDataType: string_id_data_type", "such as VARCHAR(128)"),
    ('tablePrfix="X_"', ", tablePrfix: statements has no 'tablePrfix'", "did you mean tablePrefix?"),
]

# Each the properties of a DataSource in line 2.
DATA_SOURCES = [
    ({}, ", BasicDataSource: the DataSource x.BasicDataSource does not have a url", "add one"),
    ({"url": "${db.url}"}, ", url: ${db.url} is not defined", "export DB_URL, or define it in a"),
    ({"url": "sqlite:///x.db", "password": "${b}"}, ", password: ${b} is not defined", "export B"),
    ({"url": "sqlite:///x.db", "password": "ENC(a)"}, ", password: the password is encrypted", "JDBCSTORE_"),
    ({"url": "jdbc:h2:x", "maxTotal": "many"}, ", maxTotal: must be a whole number", "not 'many'"),
    ({"url": "jdbc:frobnicate:x"}, ", url: no adapter for database 'jdbc:frobnicate'", "use one of"),
]


def complaint(invoke: Invoke, *options: str) -> str:
    """The one line about a store that does not open."""
    result = invoke("init", *options)
    assert result.code == 3, result.err
    (line,) = result.err.splitlines()
    assert SECRET not in line
    return line.removeprefix("jdbcstore: ")


@pytest.mark.parametrize(("text", "place", "cure"), IN_TOML)
def test_in_toml(invoke: Invoke, tmp_path: Path, text: str, place: str, cure: str) -> None:
    (tmp_path / "jdbcstore.toml").write_text(text)

    line = complaint(invoke)

    assert line.startswith(f"jdbcstore.toml{place}")
    assert cure in line


@pytest.mark.parametrize(("text", "place", "cure"), IN_ACTIVEMQ_XML)
def test_in_activemq_xml(invoke: Invoke, tmp_path: Path, text: str, place: str, cure: str) -> None:
    (tmp_path / "activemq.xml").write_text(text)

    line = complaint(invoke, "--config", "activemq.xml")

    assert line.startswith(f"activemq.xml{place}")
    assert cure in line


@pytest.mark.parametrize(("adapter", "place", "cure"), ADAPTERS)
def test_in_a_persistence_adapter(
    invoke: Invoke, tmp_path: Path, adapter: str, place: str, cure: str
) -> None:
    text = f"<broker>\n<persistenceAdapter>{adapter}</persistenceAdapter></broker>"

    test_in_activemq_xml(invoke, tmp_path, text, f":2{place}", cure)


@pytest.mark.parametrize(("attribute", "place", "cure"), STATEMENTS)
def test_in_statements(invoke: Invoke, tmp_path: Path, attribute: str, place: str, cure: str) -> None:
    statements = f"<statements>\n<statements {attribute}/></statements>"
    adapter = f"<jdbcPersistenceAdapter>{statements}</jdbcPersistenceAdapter>"
    text = f"<broker><persistenceAdapter>{adapter}</persistenceAdapter></broker>"

    test_in_activemq_xml(invoke, tmp_path, text, f":2{place}", cure)


@pytest.mark.parametrize(("properties", "place", "cure"), DATA_SOURCES)
def test_in_a_data_source(
    invoke: Invoke, tmp_path: Path, properties: dict[str, str], place: str, cure: str
) -> None:
    given = "".join(f'<property name="{name}" value="{value}"/>' for name, value in properties.items())
    bean = f'<bean id="ds" class="x.BasicDataSource">{given}</bean>'
    adapter = '<jdbcPersistenceAdapter dataSource="#ds"/>'
    broker = f"<broker><persistenceAdapter>{adapter}</persistenceAdapter></broker>"

    test_in_activemq_xml(invoke, tmp_path, f"<beans>\n{bean}\n{broker}</beans>", f":2{place}", cure)


def test_a_data_source_from_jndi(invoke: Invoke, tmp_path: Path) -> None:
    adapter = '<jdbcPersistenceAdapter dataSource="#ds"/>'
    broker = f"<broker><persistenceAdapter>{adapter}</persistenceAdapter></broker>"
    text = f'<beans>\n<jndi-lookup id="ds" jndi-name="jdbc/mq"/>{broker}</beans>'

    test_in_activemq_xml(invoke, tmp_path, text, ":2, jndi-lookup: the DataSource comes from JNDI", "--url")


@pytest.mark.parametrize(
    ("variable", "value", "place", "cure"),
    [
        ("POOL_SIZE", "many", "JDBCSTORE_POOL_SIZE: pool_size", "must be a whole number, not 'many'"),
        ("ENABLE_AUDIT", "maybe", "JDBCSTORE_ENABLE_AUDIT: enable_audit", "must be true or false"),
        ("URL", "mysql//x", "JDBCSTORE_URL: the database URL cannot be parsed", "write dialect://"),
        ("CONFIG", "none.toml", "cannot read none.toml: No such file", "name another file"),
        ("PASSWORD_FILE", "none", "JDBCSTORE_PASSWORD_FILE: cannot read", "write the password into it"),
    ],
)
def test_in_the_environment(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, place: str, cure: str
) -> None:
    monkeypatch.setenv(f"JDBCSTORE_{variable}", value)

    line = complaint(invoke)

    assert line.startswith(place)
    assert cure in line


def test_on_the_command_line(invoke: Invoke) -> None:
    assert complaint(invoke, "--url", "nothing").startswith("--url: the database URL cannot be parsed")
    assert complaint(invoke, "--config", "none.xml").startswith("cannot read none.xml: No such file")


@pytest.mark.parametrize("command", [("migrate",), ("schema", "check"), ("browse", "Q"), ("send", "Q", "x")])
def test_no_command_falls_back_to_the_default_file(
    invoke: Invoke, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "activemq.xml").write_text(
        "<broker><persistenceAdapter><kahaPersistenceAdapter/></persistenceAdapter></broker>"
    )

    result = invoke(*command, "--config", "activemq.xml")

    assert result.code == 3
    assert "kahaPersistenceAdapter does not keep messages in a database" in result.err
    assert not (tmp_path / "activemq-data").exists()
