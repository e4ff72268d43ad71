"""Ten everyday tasks, done as the pages say, and compared with what the generator of the messages knows.

The seven that one query answers are asked in Spark and in DuckDB.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as Log

import jdbcstore
from jdbcstore import Destination, Message
from jdbcstore.analytics import duck
from jdbcstore.analytics.lake import DeltaTable, Exported, to_lake
from jdbcstore.tools import dead_letters
from tests.support.analytics.archives import place
from tests.support.analytics.shop import DAY, HOUR, MINUTE, Sent, Shop, fill
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.analytics import Analytics

pytestmark = [
    pytest.mark.backends("sqlite", "postgresql", "mariadb"),
    pytest.mark.whole("postgresql", "mariadb"),
    pytest.mark.timeout(600),
]

COUNT = 150
"""Messages of each destination."""
COUNTS = """
SELECT CAST(timestamp AS DATE) AS day, destination, properties['region'].text AS region, count(*)
FROM messages_decoded GROUP BY ALL"""
LATEST = """
SELECT customer, number FROM (
    SELECT properties['customer'].text AS customer, properties['number'].long AS number, row_number() OVER
        (PARTITION BY properties['customer'].text ORDER BY timestamp DESC, id DESC) AS place
    FROM messages_decoded WHERE destination = 'queue://ORDERS'
) AS newest WHERE place = 1"""
JOINED = """
SELECT c.segment, count(*) FROM messages_decoded m
JOIN {customers} c ON c.customer = m.properties['customer'].text GROUP BY c.segment"""
SESSIONS = """
SELECT group_id, count(*) FROM (
    SELECT group_id, coalesce(timestamp > INTERVAL '20' MINUTE + lag(timestamp) OVER
        (PARTITION BY group_id ORDER BY timestamp), true) AS begins
    FROM messages_decoded WHERE group_id IS NOT NULL
) AS marked WHERE begins GROUP BY group_id"""
WAITING = """
SELECT p.subscription_name, count(*) FROM pending p JOIN messages_decoded m ON m.id = p.id
WHERE m.timestamp < current_timestamp - INTERVAL '1' HOUR GROUP BY p.subscription_name"""
AGAIN = """
SELECT destination, number FROM (
    SELECT destination, properties['number'].long AS number, rank() OVER
        (PARTITION BY destination ORDER BY redelivery_counter DESC, id) AS place
    FROM messages_decoded WHERE redelivery_counter > 0
) AS ranked WHERE place <= 3"""
BODIES = {
    "spark": """
SELECT sum(coalesce(try_variant_get(body, '$.amount', 'decimal(10,2)'),
                    try_variant_get(body, '$.amount.value', 'decimal(10,2)'))),
       sum(size(variant_get(body, '$.sides', 'array<string>'))),
       max(variant_get(body, '$.huge', 'decimal(38,0)'))
FROM (SELECT try_parse_json(body_text) AS body FROM messages_decoded WHERE destination = 'queue://EVENTS')""",
    "duckdb": """
SELECT sum(coalesce(TRY_CAST(body ->> '$.amount' AS DECIMAL(10,2)),
                    TRY_CAST(body ->> '$.amount.value' AS DECIMAL(10,2)))),
       sum(json_array_length(body -> '$.sides')), max((body ->> '$.huge')::DECIMAL(38,0))
FROM (SELECT body_text::JSON AS body FROM messages_decoded WHERE destination = 'queue://EVENTS') AS parsed""",
}

Query = Callable[[str], Iterable[Any]]


def questions(shop: Shop, now_ms: int) -> Iterator[tuple[str | Mapping[str, str], Counter[tuple[Any, ...]]]]:
    """Yield the SQL of each task, and its right rows."""
    sent = shop.sent
    yield COUNTS, _counted((each.day, each.destination, each.region) for each in sent)
    newest: dict[str, Sent] = {}
    for each in sorted(shop.of("queue://ORDERS"), key=lambda each: (each.time_ms, each.number)):
        newest[each.customer] = each
    yield LATEST, Counter((customer, each.number) for customer, each in newest.items())
    yield JOINED, _counted((segment(each.customer),) for each in sent)
    yield SESSIONS, Counter(_sessions(sent).items())
    old = {each.number for each in sent if each.time_ms < now_ms - HOUR}
    yield WAITING, Counter((name, len(numbers & old)) for name, numbers in shop.pending.items())
    yield AGAIN, Counter(_most_redelivered(sent))
    events = shop.of("queue://EVENTS")
    amounts = sum((each.amount for each in events), Decimal(0))
    yield BODIES, Counter([(amounts, sum(each.shape for each in events), max(each.huge for each in events))])


def segment(customer: str) -> str:
    return f"s{int(customer[1:]) % 3}"


def _counted(keys: Iterable[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Return a row for each key, with its number."""
    return Counter((*key, number) for key, number in Counter(keys).items())


def _sessions(sent: Iterable[Sent]) -> Counter[str]:
    times = defaultdict(list)
    for each in sent:
        if each.group is not None:
            times[each.group].append(each.time_ms)
    return Counter(
        {
            group: 1 + sum(later - earlier > 20 * MINUTE for earlier, later in pairwise(sorted(of_group)))
            for group, of_group in times.items()
        }
    )


def _most_redelivered(sent: Iterable[Sent]) -> Iterator[tuple[str, int]]:
    again = defaultdict(list)
    for each in sent:
        if each.redeliveries:
            again[each.destination].append((-each.redeliveries, each.number))
    for destination, of_destination in again.items():
        yield from ((destination, number) for _, number in sorted(of_destination)[:3])


def test_ten_tasks(
    database: Database, connect: Callable[[], Analytics], spark: SparkSession, tmp_path: Path
) -> None:
    now_ms = time.time_ns() // 1_000_000
    shop = fill(database.url, now_ms, COUNT)
    customers = tmp_path / "customers.parquet"
    names = sorted({each.customer for each in shop.sent})
    pq.write_table(pa.table({"customer": names, "segment": [*map(segment, names)]}), customers)
    connect()
    with duck.connect(database.url) as views:

        def ask_duckdb(query: str) -> list[tuple[Any, ...]]:
            reader = views.query(query)
            assert reader is not None
            return [tuple(row.values()) for row in reader.read_all().to_pylist()]

        engines: dict[str, tuple[Query, str]] = {
            "spark": (lambda query: map(tuple, spark.sql(query).collect()), f"parquet.`{customers}`"),
            "duckdb": (ask_duckdb, f"'{customers}'"),
        }
        for task, right in questions(shop, now_ms):
            for engine, (ask, file) in engines.items():
                sql = task if isinstance(task, str) else task[engine]
                assert Counter(ask(sql.format(customers=file))) == right, (engine, sql)
    _in_a_lake(database, shop, tmp_path)
    _archived_and_live(database, spark, shop, tmp_path)
    _dead_letters_again(database, spark, shop)


def _in_a_lake(database: Database, shop: Shop, tmp_path: Path) -> None:
    """All columns, by day and destination; then only what is new."""
    table = DeltaTable(tmp_path / "lake")
    assert to_lake(database.url, table).messages == len(shop.sent)
    right = Counter((each.day_in_utc, each.destination.partition("://")[2]) for each in shop.sent)
    rows = Log(tmp_path / "lake").to_pyarrow_table(columns=["date", "destination_name"])
    assert Counter(map(tuple, map(dict.values, rows.to_pylist()))) == right
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        new = store.queue("NEW")
        new.add_message(Message("ale"))
        assert to_lake(database.url, table) == Exported(1, 1)
        new.acknowledge(*new.recover())
    assert to_lake(database.url, table) == Exported(0, 0)


def _archived_and_live(database: Database, spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """Messages that were archived, removed or not, beside those that were not: each once."""
    from jdbcstore.tools import archive

    folder, store = str(tmp_path / "archive"), place(database)
    window = archive.Window.of(older_than=DAY / 1000)
    archive.write(spark, store, folder, window)
    events = [Destination.queue("EVENTS")]
    archive.remove(store, folder, archive.Window.of(older_than=DAY / 1000, destinations=events))
    old, live = archive.read(spark, folder), spark.table("messages_decoded")
    new = live.join(old, ["id", "msgid_prod", "msgid_seq"], "left_anti")
    both = old.select(live.columns).union(new.select(live.columns))
    found = both.selectExpr("properties['number'].long AS number", "body_text").collect()
    assert Counter(map(tuple, found)) == Counter((each.number, each.body) for each in shop.sent)
    assert 0 < old.count() < len(shop.sent)
    assert live.count() < len(shop.sent)


def _dead_letters_again(database: Database, spark: SparkSession, shop: Shop) -> None:
    """Those that a query chooses; none if it chooses none."""
    chosen = "SELECT message_id FROM messages_decoded WHERE destination = 'queue://ActiveMQ.DLQ'"
    chosen += " AND properties['dlqDeliveryFailureCause'].text LIKE '%{}'"
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for cause, wanted in (("nothing", set[int]()), ("timeout", _of_cause(shop, "timeout"))):
            ids = [row.message_id for row in spark.sql(chosen.format(cause)).collect()]
            assert dead_letters.retry(store, ids) == len(wanted)
        orders, left = (
            [int(str(each.properties["number"])) for each in store.queue(name).recover(limit=10 * COUNT)]
            for name in ("ORDERS", "ActiveMQ.DLQ")
        )
    own = [each.number for each in shop.of("queue://ORDERS")]
    assert sorted(orders) == sorted([*own, *_of_cause(shop, "timeout")])
    assert sorted(left) == sorted(_of_cause(shop, "no such table"))


def _of_cause(shop: Shop, cause: str) -> set[int]:
    return {number for number, why in shop.dead.items() if why == cause}
