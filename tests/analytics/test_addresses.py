"""Spark reads the tables that the URL names, in the way that it names, or says why it cannot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import pytest
from sqlalchemy import URL, NullPool, create_engine, make_url

import jdbcstore
from jdbcstore import Message, analytics, load_config
from jdbcstore.analytics.addresses import (
    CERTIFICATES,
    JdbcAddress,
    MysqlEndpoint,
    for_connector_j,
    for_mariadb,
    of_libpq,
    of_odbc,
    of_pymysql,
    of_sqlite,
)
from jdbcstore.analytics.pushdown import DRIVER, IDENTITY, PROPERTIES
from jdbcstore.analytics.questions import connecting
from jdbcstore.analytics.vendors import VENDORS, Vendor, find_jar
from jdbcstore.database.adapters.adbc import record_batches
from jdbcstore.errors import ConfigurationError, StoreUnavailable
from jdbcstore.tools import archive
from tests.support.analytics.archives import archived
from tests.support.databases import Database
from tests.support.maven import connector_missing
from tests.support.require import unavailable
from tests.support.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.timeout(900)  # the first one starts Spark's workers, and compiles

Address = Callable[[URL, Any], JdbcAddress]
PLACE = MysqlEndpoint("db", 3307, "mq", "me", "secret")
LIBPQ = {"host": "db", "port": "5432", "dbname": "mq", "user": "me"}


def fill(url: str, name: str, count: int, **options: Any) -> None:
    with jdbcstore.open(url, cleanup_period=0.0, **options) as store:
        store.queue(name).add_messages([Message("x", timestamp_ms=1) for _ in range(count)])


VIEWS = (
    "SELECT destination, count(*) FROM messages GROUP BY 1",
    "SELECT destination, count(*) FROM messages_decoded GROUP BY 1",
    "SELECT destination, count(*) FROM history GROUP BY 1",
    "SELECT destination, depth FROM destinations",
    "SELECT destination, lag FROM subscriptions",
)
"""What every view that names a table says of the messages."""
ONE = VIEWS[1:2]
"""One question for all of them, where they read in the same way."""


def counts(spark: SparkSession, questions: Sequence[str] = VIEWS) -> list[tuple[Any, ...]]:
    return [tuple(row) for question in questions for row in spark.sql(question).collect()]


def check(spark: SparkSession, url: str, *expected: tuple[str, int]) -> None:
    """That all views, live and in partitions, are those of this store."""
    for vendor in VENDORS.values():
        if find_jar(vendor) is None:
            unavailable("spark", f"no JDBC driver {vendor.drivers[0].name}")
    read(spark, url, *expected)


def read(spark: SparkSession, url: str, *expected: tuple[str, int]) -> None:
    with analytics.connect(spark, url) as views:
        assert counts(spark) == [*expected] * 4
        for snapshot in (True, False):
            with views.picture(3, snapshot=snapshot):
                assert counts(spark, ONE) == [*expected], snapshot


def with_address(vendor: Vendor, address: Address) -> Vendor:
    """The vendor, whose preferred driver is told this instead."""
    return replace(vendor, drivers=(replace(vendor.drivers[0], address=address),))


@pytest.fixture
def beside(database: Database) -> Iterator[Callable[[str], str]]:
    """Makes another database, or schema, of any name; returns its URL."""
    made: list[str] = []
    kind = "DATABASE"

    def make(name: str) -> str:
        url = make_url(database.url)
        quote = "`" if url.get_backend_name() in ("mysql", "mariadb") else '"'
        quoted = quote + name.replace(quote, quote * 2).replace("%", "%%") + quote
        with database.engine.connect() as connection:
            connection.exec_driver_sql(f"DROP {kind} IF EXISTS {quoted}")
            connection.exec_driver_sql(f"CREATE {kind} {quoted}")
        made.append(quoted)
        return url.set(database=name).render_as_string(hide_password=False)

    yield make
    with database.engine.connect() as connection:
        for quoted in made:
            force = " WITH (FORCE)" if quoted[0] == '"' else ""
            connection.exec_driver_sql(f"DROP {kind} {quoted}{force}")


@pytest.mark.backends("postgresql")
def test_the_store_of_the_schema_that_the_url_names(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """Another ActiveMQ's tables in the schema public are neither shown nor archived nor removed."""
    fill(database.url, "THEIRS", 3)
    database.execute('CREATE SCHEMA "m""q %x.y"')
    options = '-csearch_path="m""q\\ %x.y"'
    ours = make_url(database.url).update_query_dict({"options": options})
    url = ours.render_as_string(hide_password=False)
    fill(url, "OURS", 100, history_retention=60.0)

    check(spark, url, ("queue://OURS", 100))
    check(spark, database.url, ("queue://THEIRS", 3))

    store = load_config(url=url)
    written = archive.write(spark, store, tmp_path / "archive", archive.Window())
    assert (written.messages, len(archived(tmp_path / "archive"))) == (100, 100)
    assert archive.remove(store, tmp_path / "archive", archive.Window()).messages == 100
    assert database.rows('SELECT count(*) FROM "m""q %x.y".activemq_msgs') == [(0,)]
    assert database.rows("SELECT count(*) FROM public.activemq_msgs") == [(3,)]


@pytest.mark.backends("postgresql")
def test_tables_of_several_schemas_are_not_one_store(spark: SparkSession, database: Database) -> None:
    """A user's own schema comes first in the path, and has the records of another store."""
    fill(database.url, "OURS", 3)
    database.execute("CREATE SCHEMA other")
    database.execute("CREATE TABLE other.jdbcstore_history AS SELECT 1 AS id")
    both = make_url(database.url).update_query_dict({"options": "-csearch_path=other,public"})
    with pytest.raises(ConfigurationError, match="several schemas, other, public"):
        analytics.connect(spark, both.render_as_string(hide_password=False))


@pytest.mark.backends("postgresql")
def test_a_table_that_is_found_behind_an_empty_schema(spark: SparkSession, database: Database) -> None:
    """As with "$user", public: the tables need not be in the first schema of the path."""
    fill(database.url, "OURS", 3)
    database.execute("CREATE SCHEMA empty")
    path = make_url(database.url).update_query_dict({"options": "-csearch_path=empty,public"})
    with analytics.connect(spark, path.render_as_string(hide_password=False)):
        assert counts(spark) == [("queue://OURS", 3)] * 4


@pytest.mark.whole  # below is a name with all of them
@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("name", ["{}a?b", "{}a+b", "{}a%2Bb", '{}a"`b', "{}a b#c"])
def test_databases_of_odd_names(
    spark: SparkSession, database: Database, beside: Callable[[str], str], name: str
) -> None:
    """A part of the name, and what it decodes to, are names of other databases."""
    fill(beside(f"{database.name}a"), "OTHER", 1)
    url = beside(name.format(database.name))
    fill(url, "OURS", 2)
    with analytics.connect(spark, url):
        assert counts(spark, ONE) == [("queue://OURS", 2)]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_all_views_of_a_database_of_an_odd_name(
    spark: SparkSession, database: Database, beside: Callable[[str], str]
) -> None:
    fill(beside(f"{database.name}a"), "OTHER", 1)
    url = beside(f'{database.name}a?b+c%2Bd"`e f#g')
    fill(url, "OURS", 2)
    check(spark, url, ("queue://OURS", 2))


@pytest.mark.whole
@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("name", ["a?b.db", "a%3Fb.db", "a+b c.db", "a#b.db", "ü'\".db"])
def test_files_of_odd_names(spark: SparkSession, tmp_path: Path, name: str) -> None:
    fill(f"sqlite:///{tmp_path / 'a'}", "OTHER", 1)
    url = URL.create("sqlite", database=str(tmp_path / name)).render_as_string()
    fill(url, "OURS", 2)
    with analytics.connect(spark, url):
        assert counts(spark, ONE) == [("queue://OURS", 2)]


@pytest.mark.backends("sqlite")
def test_all_views_of_a_file_of_an_odd_name(spark: SparkSession, tmp_path: Path) -> None:
    fill(f"sqlite:///{tmp_path / 'a'}", "OTHER", 1)
    url = URL.create("sqlite", database=str(tmp_path / "a?b%3Fc+d e#f'\"ü.db")).render_as_string()
    fill(url, "OURS", 2)
    check(spark, url, ("queue://OURS", 2))


@pytest.mark.backends("sqlite")
def test_a_file_named_by_its_uri(spark: SparkSession, tmp_path: Path) -> None:
    fill(f"sqlite:///{tmp_path / 'mq.db'}", "OURS", 2)
    check(spark, f"sqlite:///file:{tmp_path / 'mq.db'}?uri=true&mode=rw", ("queue://OURS", 2))
    check(spark, f"sqlite:///file:{tmp_path / 'mq.db'}?uri=true&immutable=1", ("queue://OURS", 2))


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("where", ["environment", "service"])
def test_what_the_environment_names(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The Python driver obeys libpq's variables and files, which JDBC does not know."""
    fill(database.url, "OURS", 3)
    url = make_url(database.url)
    assert url.password is not None
    if where == "environment":
        for name, value in (("HOST", url.host), ("PORT", url.port), ("USER", url.username)):
            monkeypatch.setenv(f"PG{name}", str(value))
        monkeypatch.setenv("PGPASSWORD", url.password)
        given = f"postgresql:///{url.database}"
    else:
        text = f"[mq]\nhost={url.host}\nport={url.port}\nuser={url.username}\ndbname={url.database}\n"
        (tmp_path / "services").write_text(f"{text}password={url.password}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        given = "postgresql://?service=mq"
    check(spark, given, ("queue://OURS", 3))


@pytest.mark.backends("postgresql", "mariadb", "mysql", "sqlite")
def test_another_database_through_jdbc_is_noticed(
    spark: SparkSession,
    database: Database,
    tmp_path: Path,
    beside: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When a store is connected, and by each connection of its tasks later."""
    name = make_url(database.url).get_backend_name()
    other = f"sqlite:///{tmp_path / 'other.db'}" if name == "sqlite" else beside(f"{database.name}other")
    fill(database.url, "OURS", 1)
    fill(other, "OTHER", 1)
    vendor, addresses = VENDORS[name], []

    def wrong(url: URL, connection: Any) -> JdbcAddress:
        address = vendor.drivers[0].address(url, connection)
        addresses.append(address)
        mine, theirs = make_url(database.url).database, make_url(other).database
        return replace(address, url=address.url.replace(str(mine), str(theirs)))

    if name in ("mariadb", "mysql"):
        # Every name of a table has that of its database.
        monkeypatch.setitem(VENDORS, name, replace(vendor, schema=lambda *_: f"{database.name}other"))
    with analytics.connect(spark, other if name in ("mariadb", "mysql") else database.url) as views:
        reading = views._reading  # type: ignore[attr-defined]
    monkeypatch.setitem(VENDORS, name, with_address(vendor, wrong))
    if name not in ("mariadb", "mysql"):
        with pytest.raises(ConfigurationError, match="reaches another database than the Python driver"):
            analytics.connect(spark, database.url)
    properties = dict(parse_qsl(reading.properties[PROPERTIES])) | {IDENTITY: "another"}
    strange = {**reading.properties, PROPERTIES: urlencode(properties)}
    with (
        pytest.raises(ConfigurationError, match="reaches another database than the Python driver"),
        connecting(),
    ):
        replace(reading, properties=strange).partitions("ACTIVEMQ_LOCK", ["1 = 1"])
    reader = spark.read.format("jdbc").options(**strange, url=reading.url, driver=DRIVER)
    with (
        pytest.raises(ConfigurationError, match="reaches another database than the Python driver"),
        connecting(),
    ):
        reader.option("dbtable", "ACTIVEMQ_LOCK").load()


@pytest.fixture
def certificate(server: Server) -> Path:
    """That of the private server, which speaks TLS with it."""
    folder = server.directory
    made, key = folder / "server.pem", folder / "server.key"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-days", "2")
    files = ("-keyout", str(key), "-out", str(made))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files], check=True)
    owner = folder.stat()
    for file in (made, key):
        file.chmod(0o600)
        if owner.st_uid:
            os.chown(file, owner.st_uid, owner.st_gid)
    return made


@pytest.mark.backends("mysql")
def test_mysql_is_read_with_its_own_driver_if_the_session_has_it(
    spark: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else with MariaDB's, which Debian has."""
    if missing := connector_missing():
        unavailable("connector-j", missing)
    fill(database.url, "OURS", 3)
    used = []
    own, other = VENDORS["mysql"].drivers
    for drivers in ((own, other), (replace(own, name="org.example.Missing"), other)):
        monkeypatch.setitem(VENDORS, "mysql", replace(VENDORS["mysql"], drivers=drivers))
        with analytics.connect(spark, database.url) as views:
            used.append(views._reading.url.split(":")[3])  # type: ignore[attr-defined]
            assert counts(spark) == [("queue://OURS", 3)] * 4
    assert used == ["com.mysql.cj.jdbc.Driver", "org.mariadb.jdbc.Driver"]


@pytest.mark.whole("mysql")  # the same driver
@pytest.mark.backends("mariadb", "mysql")
def test_tls_of_mysql_and_mariadb(
    spark: SparkSession,
    server: Server,
    database: Database,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """What ?ssl_ca= protects in Python is protected in Spark: encrypted, with that certificate only."""
    if find_jar(VENDORS["mariadb"]) is None:
        unavailable("spark", "no JDBC driver org.mariadb.jdbc.Driver")
    key = certificate.with_suffix(".key")
    options = f"JDBCSTORE_TEST_{server.name.upper()}_OPTIONS"
    monkeypatch.setenv(options, f"--ssl-cert={certificate} --ssl-key={key}")
    server.restart()
    url = make_url(database.url).update_query_dict({"ssl_ca": str(certificate)})
    fill(url.render_as_string(hide_password=False), "OURS", 4)
    database.execute(f"ALTER USER {database.username}@'%' REQUIRE SSL")
    wrong = url.update_query_dict({"ssl_ca": str(other_certificate(tmp_path))})
    none = url.difference_update_query(["ssl_ca"]).update_query_dict({"ssl_check_hostname": "false"})

    vendor = VENDORS[server.name]
    for driver in vendor.drivers:
        if driver.name.startswith("com.mysql.") and connector_missing():
            continue  # as the test above says
        alone = replace(vendor, drivers=(driver,))
        monkeypatch.setitem(VENDORS, server.name, alone)
        read(spark, url.render_as_string(hide_password=False), ("queue://OURS", 4))
        for given in (url.update_query_dict({"ssl_check_hostname": "false"}), none):
            with analytics.connect(spark, given.render_as_string(hide_password=False)):
                assert counts(spark, ONE) == [("queue://OURS", 4)]

        def strange(_: URL, raw: Any, address: Address = driver.address) -> JdbcAddress:
            return address(wrong, raw)

        monkeypatch.setitem(VENDORS, server.name, with_address(alone, strange))
        with pytest.raises(StoreUnavailable, match=r"trust|certification path"):
            analytics.connect(spark, url.render_as_string(hide_password=False))


def other_certificate(folder: Path) -> Path:
    made = folder / "other.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    files = ("-keyout", str(folder / "other.key"), "-out", str(made))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files], check=True)
    return made


@pytest.mark.backends("postgresql")
def test_tls_of_postgresql(
    spark: SparkSession,
    server: Server,
    database: Database,
    certificate: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a CA, require means that the certificate is verified, as for libpq."""
    settings = {"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": certificate.with_suffix(".key")}
    for name, value in settings.items():
        server.execute_as_administrator(f"ALTER SYSTEM SET {name} = '{value}'")
    server.restart()
    url = make_url(database.url)
    for mode in ("require", "verify-full"):
        query = {"sslmode": mode, "sslrootcert": str(certificate)}
        checked = url.update_query_dict(query).render_as_string(hide_password=False)
        fill(checked, mode, 1)
        with analytics.connect(spark, checked) as views:
            reading = views._reading  # type: ignore[attr-defined]
            used = "(SELECT ssl::text AS ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) q"
            jdbc = spark.read.format("jdbc").options(**reading.properties, url=reading.url, driver=DRIVER)
            assert jdbc.option("dbtable", used).load().first()[0] == "true"  # type: ignore[index]
    other = {**LIBPQ, "host": "127.0.0.1", "port": str(server.port), "dbname": database.name}
    other |= {
        "user": str(database.username),
        "sslmode": "require",
        "sslrootcert": str(other_certificate(tmp_path)),
    }
    address = of_libpq(other, database.password)
    monkeypatch.setitem(VENDORS, "postgresql", with_address(VENDORS["postgresql"], lambda *_: address))
    with pytest.raises(StoreUnavailable, match="trust"):
        analytics.connect(spark, checked)


@pytest.mark.parametrize(
    ("made", "url", "properties"),
    [
        (of_libpq(LIBPQ, "secret"), "jdbc:postgresql://db:5432/mq?", {"user": "me", "password": "secret"}),
        (of_libpq({**LIBPQ, "host": "::1"}), "jdbc:postgresql://[::1]:5432/mq?", {"sslmode": "prefer"}),
        (of_libpq({**LIBPQ, "host": "", "hostaddr": "10.0.0.1"}), "jdbc:postgresql://10.0.0.1:5432/mq?", {}),
        (
            of_libpq({**LIBPQ, "sslmode": "require", "sslrootcert": "/ca.pem", "options": "-c role=x"}),
            "jdbc:postgresql://db:5432/mq?",
            {"sslmode": "verify-ca", "sslrootcert": "/ca.pem", "options": "-c role=x"},
        ),
        (
            of_libpq({**LIBPQ, "target_session_attrs": "read-write", "keepalives_idle": "3"}),
            "jdbc:postgresql://db:5432/mq?",
            {"targetServerType": "primary"},
        ),
        (
            of_pymysql(PLACE, {"charset": "utf8mb4"}, for_mariadb),
            "jdbc:mysql://db:3307/mq?permitMysqlScheme&",
            {},
        ),
        (
            of_pymysql(replace(PLACE, database="a?b"), {}, for_mariadb),
            "jdbc:mysql://db:3307/?permit",
            {"user": "me"},
        ),
        (
            of_pymysql(PLACE, {"ssl_ca": "/ca.pem", "ssl_check_hostname": "no"}, for_mariadb),
            "jdbc:mysql://db:3307/mq?permitMysqlScheme&",
            {"useSsl": "true", "serverSslCert": "/ca.pem", "disableSslHostnameVerification": "true"},
        ),
        (of_pymysql(PLACE, {}, for_connector_j), "jdbc:mysql://db:3307/mq?", {"password": "secret"}),
        (
            of_pymysql(PLACE, {"ssl_ca": "/ca.pem"}, for_connector_j),
            "jdbc:mysql://db:3307/mq?",
            {"sslMode": "VERIFY_IDENTITY", CERTIFICATES: "/ca.pem"},
        ),
        (
            of_pymysql(PLACE, {"ssl_ca": "/ca.pem", "ssl_check_hostname": "no"}, for_connector_j),
            "jdbc:mysql://db:3307/mq?",
            {"sslMode": "VERIFY_CA", CERTIFICATES: "/ca.pem"},
        ),
        (
            of_pymysql(PLACE, {"ssl_check_hostname": "no"}, for_connector_j),
            "jdbc:mysql://db:3307/mq?",
            {"sslMode": "REQUIRED"},
        ),
        (
            of_odbc(make_url("mariadb+pyodbc://me:secret@db/mq?port=3308&driver=x"), for_mariadb),
            "jdbc:mysql://db:3308/mq?",
            {"user": "me", "password": "secret"},
        ),
        (of_sqlite("/var/mq.db", {"timeout": "5"}), "jdbc:sqlite:file:/var/mq.db?", {}),
    ],
)
def test_what_is_translated(made: JdbcAddress, url: str, properties: dict[str, str]) -> None:
    """Never to the scheme that reads wrong data, and without the login in the URL."""
    assert made.url.startswith(url)
    assert made.properties.items() >= properties.items()
    assert not {"secret", "me"} & {*made.url.replace("=", "/").split("/")}
    assert "secret" not in repr(made)


OPTIONS_OF_LIBPQ = {
    "sslcert": "c",
    "sslkey": "k",
    "sslpassword": "p",
    "sslcrl": "c",
    "sslcrldir": "d",
    "ssl_min_protocol_version": "TLSv1.3",
    "require_auth": "scram-sha-256",
    "requirepeer": "postgres",
    "channel_binding": "require",
    "sslcertmode": "require",
    "sslrootcert": "system",
    "replication": "database",
}
OPTIONS_OF_PYMYSQL = (
    *("unix_socket", "read_default_file", "read_default_group", "init_command", "sql_mode", "bind_address"),
    *("ssl_capath", "ssl_cert", "ssl_key", "ssl_cipher", "ssl", "ssl_disabled", "ssl_verify_cert"),
    *("ssl_verify_identity", "ssl_key_password", "server_public_key", "client_flag", "named_pipe"),
)


@pytest.mark.parametrize(("name", "value"), OPTIONS_OF_LIBPQ.items())
def test_what_jdbc_cannot_be_told_of_libpq_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Spark cannot read with .*{name}.*DuckDB") as error:
        of_libpq({**LIBPQ, name: value})
    assert error.value.option == "url"


@pytest.mark.parametrize("name", OPTIONS_OF_PYMYSQL)
def test_what_jdbc_cannot_be_told_of_pymysql_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"Spark cannot read with .*{name}.*DuckDB"):
        of_pymysql(PLACE, {name: "s3cret"}, for_mariadb)


@pytest.mark.parametrize("query", ["?SSLCA=x", "?odbc_connect=x", "?dsn=x", "?ForceTLS=1"])
def test_what_jdbc_cannot_be_told_of_odbc_is_refused(query: str) -> None:
    with pytest.raises(ConfigurationError, match="Spark cannot read with"):
        of_odbc(make_url(f"mariadb+pyodbc://me@db/mq{query}"), for_mariadb)
    with pytest.raises(ConfigurationError, match="Spark cannot read with ODBC's dsn"):
        of_odbc(make_url("mariadb+pyodbc://me@mydsn"), for_mariadb)


@pytest.mark.backends("postgresql")
def test_several_hosts(spark: SparkSession, database: Database) -> None:
    """The one that was reached."""
    fill(database.url, "OURS", 3)
    url = make_url(database.url)
    hosts = (f"{url.host}:1", f"{url.host}:{url.port}")
    several = url._replace(host=None, port=None).update_query_dict({"host": hosts})
    check(spark, several.render_as_string(hide_password=False), ("queue://OURS", 3))


def test_a_socket_is_not_called_several_hosts() -> None:
    with pytest.raises(
        ConfigurationError, match=r"the socket /run/postgresql: .*write the host and the port"
    ):
        of_libpq({**LIBPQ, "host": "/run/postgresql"})
    with pytest.raises(ConfigurationError, match="the option vfs"):
        of_sqlite("/mq.db", {"vfs": "unix-none"})


@pytest.mark.backends("postgresql")
def test_adbc_reads_where_psycopg_does(
    server: Server, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a host each libpq has a default socket of its own, where another server may listen."""
    pytest.importorskip("adbc_driver_postgresql")
    folder = Path("/var/run/postgresql")
    if not os.access(folder, os.W_OK):
        pytest.skip(f"no socket can be made in {folder}")
    fill(database.url, "OURS", 3)
    command = server._command
    option = f"unix_socket_directories={folder}"
    monkeypatch.setattr(server, "_command", lambda data: [*command(data), "-c", option])
    server.restart()
    url = make_url(database.url)
    monkeypatch.setenv("PGPORT", str(server.port))
    socket = url._replace(host=None, port=None)
    with create_engine(socket, poolclass=NullPool).connect() as connection:
        raw = connection.connection.dbapi_connection
        with record_batches(raw, (), "SELECT count(*) AS n FROM activemq_msgs", (), 1 << 20) as batches:
            assert batches is not None
            assert [batch.to_pydict() for batch in batches] == [{"n": [3]}]


@pytest.mark.backends("postgresql")
def test_a_property_of_a_jdbc_url_is_not_lost(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    """The Python driver ignores currentSchema, and TLS: the tables of another store would be read."""
    fill(database.url, "THEIRS", 3)
    login = f"user={database.username}&password={database.password}"
    check(spark, f"{database.jdbc_url}?{login}&tcpKeepAlive=true&ssl=false", ("queue://THEIRS", 3))
    for wrong in ("currentSchema=mq", "sslmode=require", "ssl=true", "options=-c%20search_path=mq"):
        url = f"{database.jdbc_url}?{login}&{wrong}"
        name = wrong.partition("=")[0]
        with pytest.raises(ConfigurationError, match=f"the property {name} of a JDBC URL") as refused:
            analytics.connect(spark, url)
        assert str(database.password) not in str(refused.value)
        with pytest.raises(ConfigurationError, match=f"the property {name} of a JDBC URL"):
            archive.write(spark, load_config(url=url), tmp_path / "archive", archive.Window())
