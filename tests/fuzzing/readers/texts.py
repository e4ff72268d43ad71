"""What is read as text: selectors, cron entries, URLs, names, and bodies that may be JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from jdbcstore import Destination, Message
from jdbcstore.broker.scheduler.timing import is_scheduled, new_job, next_jobs
from jdbcstore.config.data_source import DataSourceConfig, is_url, mask_url, sqlite_file
from jdbcstore.database.adapters.registry import adapter_for
from jdbcstore.database.adapters.urls import without_secrets
from jdbcstore.errors import InvalidDestination, StoreError
from jdbcstore.message.destination import DestinationKind
from jdbcstore.message.ids import MessageId, ProducerId, XATransactionId
from jdbcstore.message.jobs import CRON, DELAY, PERIOD, REPEAT
from jdbcstore.message.patterns import DestinationPattern
from jdbcstore.message.readable import indented_json, indented_xml, text_of_bytes
from jdbcstore.message.selector import Selector
from tests.support.selector.table import CASES, MESSAGE

_NOW = 1_774_750_000_000
"""Hours before the clocks of Europe are put forward, on 2026-03-29."""
_EMPTY = Message("", destination=Destination.queue("Q"))


def text_of(data: bytes) -> str:
    """Return an input as text that may have anything in it."""
    return data.decode("utf-8", "surrogateescape")


# Selectors


def read_selector(data: bytes) -> None:
    """Select two messages, of which none is selected by a condition and by its negation."""
    text = text_of(data)
    selector = Selector(text)
    prefix = "convert_string_expressions:"
    begin = len(prefix) if text.startswith(prefix) else 0
    opposite = None
    if len(text) < 200 and text[begin:].strip():  # else it may be one too long, or too deep
        opposite = Selector(f"{text[:begin]}NOT ({text[begin:]})")
    for message in (MESSAGE, _EMPTY):
        selects = selector.matches(message)
        assert selects is selector.matches(message)
        assert opposite is None or not (selects and opposite.matches(message)), "it and its negation select"


def selectors() -> Iterator[bytes]:
    """Yield the selectors of the table."""
    yield from (case.text.encode() for case in CASES)


# Schedules


def read_schedule(data: bytes) -> None:
    """Schedule a message by its properties, one on each line; the first is the cron entry."""
    names = (CRON, DELAY, PERIOD, REPEAT)
    lines = text_of(data).split("\n")
    properties = {name: line for name, line in zip(names, lines, strict=False) if line}
    message = _EMPTY.replace(properties=properties)
    if not is_scheduled(message):
        return
    job = new_job(message, "job", _NOW, 1000)
    assert job.at_ms >= _NOW
    row = job.in_row(message, MessageId(ProducerId("ID:a", 1, 1), 1))
    assert job.of(row) == job
    sent = job.to_send(row, None, job.at_ms)
    assert sent.destination == message.destination
    for following in next_jobs(job, row, job.at_ms):
        assert (
            following.at_ms > job.at_ms
            or following.follows_cron
            or (following.at_ms == job.at_ms and not str(row.properties.get(CRON, "")).strip())
        )


def schedules() -> Iterator[bytes]:
    """Yield cron entries of each form, and other schedules."""
    yield from (
        *(
            b"* * * * *",
            b"0 11,12 * * *",
            b"*/5 1-3 1,15 JAN-MAR MON",
            b"0 0 L * *",
            b"0 0 LW * *",
            b"30 2 29 3 *",
        ),
        *(
            b"0 0 29 2 */7",
            b"0 0 * * FRI#2",
            b"0 0 * * 5L",
            b"1 2 3 4 5\n100\n200\n3",
            b"\n5000",
            b"\n\n500\n-1",
        ),
        b"0 0 31 2 *",
    )


# URLs


def read_url(data: bytes) -> None:
    """Read the URL of a database, whose password is shown nowhere."""
    text = text_of(data)
    is_url(text), sqlite_file(text)
    config = DataSourceConfig(url=text)
    shown = [repr(config), str(config.masked().url), mask_url(text if config.password is None else "")]
    assert config.url is not None
    secret = config.password or ""
    again = DataSourceConfig(url=config.url)
    try:
        _, url = adapter_for(config.url)
        shown.append(without_secrets(url))
    except StoreError as error:
        shown.append(str(error))
    if len(secret) > 6 and secret.isalnum() and text.count(secret) == 1 and again.password is None:
        assert not any(secret in one for one in shown), "the password is shown"


def urls() -> Iterator[bytes]:
    """Yield URLs of SQLAlchemy and JDBC, of each vendor."""
    yield from (
        *(b"memory:", b"sqlite:///file.db", b"postgresql://user:hunter2hunter@host:5432/db?sslmode=require"),
        *(b"postgres://u@h/d", b"mysql+pymysql://u:p%40x@[::1]:3306/d?charset=utf8mb4", b"mariadb:///d"),
        *(b"jdbc:postgresql://h:1/d?user=u&password=hunter2hunter&ssl=true", b"jdbc:mysql://u:secret99@h/d"),
        *(
            b"jdbc:mysql://address=(host=db)(password=hunter2hunter)/d",
            b"jdbc:oracle:thin:scott/tiger@h:1521/x",
        ),
        *(
            b"jdbc:sqlserver://h:1433;databaseName=d;user=u;password=hunter2hunter",
            b"jdbc:derby:derbydb;create=true",
        ),
        *(b"jdbc:h2:mem:x", b"jdbc:hsqldb:hsql://h/x", b"jdbc:db2://h:5/d:user=u;password=hunter2hunter;"),
        *(b"oracle+oracledb://u:p@h/?service_name=s", b"mssql+pyodbc://?odbc_connect=PWD%3Dhunter2hunter"),
    )


# Names


def read_names(data: bytes) -> None:
    """Read the names of destinations, messages and transactions, which are the same when read again."""
    text = text_of(data)
    refused = 0
    for kind in (DestinationKind.QUEUE, DestinationKind.TEMPORARY_TOPIC):
        try:
            destination = Destination.parse(text, kind)
            for member in destination.members:
                assert Destination.parse(member.qualified_name) == member
            _check_pattern(destination)
        except InvalidDestination:
            refused += 1
    for parse in (MessageId.parse, ProducerId.parse, XATransactionId.parse):
        try:
            name = parse(text)
        except StoreError:
            refused += 1
        else:
            assert str(type(name).parse(str(name))) == str(name)
    if refused == 5:
        raise InvalidDestination("it names nothing")


def _check_pattern(destination: Destination) -> None:
    pattern, every = DestinationPattern(destination), DestinationPattern(Destination(destination.kind, ">"))
    assert pattern.covers(pattern)
    assert every.covers(pattern)
    assert every.overlaps(pattern)
    assert pattern.overlaps(pattern)
    assert pattern.is_wildcard or pattern.matches(destination)


def names() -> Iterator[bytes]:
    """Yield names of each kind."""
    yield from (
        *(b"queue://A.B", b"topic://A.*.>", b"temp-queue://ID:a:1", b"A,topic://B, queue://C", b"A?x=1&y=2"),
        *(
            b"ID:host-1-2-0:1:1:1:5",
            b"ID:host-1-2-0:1:1",
            b"XID:[86,globalId=01020304,branchId=0902]",
            b"A.>.>",
        ),
    )


# Bodies


def read_body(data: bytes) -> None:
    """Show a body: text as it is, and JSON and XML with indentation, which have the same values."""
    text = text_of_bytes(data)
    assert text is None or text.encode() == data
    for most in (1, 5):
        beginning = text_of_bytes(data, most)
        assert beginning is None or data.startswith(beginning.encode())
        assert text is None or beginning is not None
    if text is not None and (shown := indented_json(text)) is not None:
        assert repr(json.loads(shown)) == repr(json.loads(text))
    if text is not None and (shown := indented_xml(text)) is not None:
        assert "".join(shown.split()) == "".join(text.split())


def bodies() -> Iterator[bytes]:
    """Yield text, JSON, and neither."""
    yield from (
        *(b"text", "é€\U0001f600".encode(), b"\xc3", b'{"a": [1, 2.5, null, true, "x\\"y"], "b": {}}', b"[]"),
        *(b"<a b='1'><c>x</c><d/>\n</a>", b"<a>x<b/></a>"),
        *(b"[[[1]], {}]", b'{"a": 1e999, "b": -0, "c": NaN}', b'["\\ud800"]'),
    )
