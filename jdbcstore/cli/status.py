"""``init``, ``status``, ``purge`` and ``cleanup``: administration of a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from jdbcstore.abc import Store
from jdbcstore.broker.condition import BrokerState
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.lock import holder_text
from jdbcstore.cli.messages import messages_of
from jdbcstore.cli.options import destination_argument
from jdbcstore.cli.output import (
    counted,
    duration,
    local_time,
    note,
    print_table,
    printable,
    progress,
    size,
    write_line,
)
from jdbcstore.cli.readings import condition_line
from jdbcstore.cli.remote import RemoteBroker
from jdbcstore.cli.settings import BrokerCommand, CliCommand, Settings
from jdbcstore.cli.shared import print_claims, print_flow, read_selected, shared_facts
from jdbcstore.cli.stream import add_broker, print_stream, stream_facts
from jdbcstore.cli.subscriptions import add_activity, print_subscriptions, subscription_facts
from jdbcstore.errors import SchemaError, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.util.shared_queues import SharedNumbers

if TYPE_CHECKING:
    from jdbcstore import JdbcStore
    from jdbcstore.lockers.inspection import LockView

T = TypeVar("T")
_LOOK = 1.0
"""Seconds between two looks at a broker while the database is read."""


@click.command(cls=CliCommand)
@click.pass_obj
def init(settings: Settings) -> None:
    """Create the missing tables and indexes."""
    with settings.open_database() as store:
        facts = {"url": store.place, "tables": [name for name, present in store.tables().items() if present]}
    settings.print(facts, f"{facts['url']} has {', '.join(facts['tables'])}")


@click.command(cls=BrokerCommand)
@click.pass_obj
def status(settings: Settings) -> int:
    """Show destinations, durable subscriptions, claims, limits, the master and the tables.

    If the journal is in a NATS stream, this includes its servers and the replication lag. If a broker with
    --health is running, the sizes are the broker's, and consumers are counted. If the database does not
    answer, this shows the state of the broker that --broker or the configuration names, and exits with 4.
    """
    named = settings.named_broker()
    found = _until_outage(named, partial(_read, settings, named))
    if isinstance(found, _Outage):
        outage = {"broker": {"url": found.url, "condition": found.condition}}
        line = condition_line(found.condition)
        settings.print(outage, f"broker   {printable(found.url)}\nstate    {line}")
        return ExitCode.UNAVAILABLE
    facts, shared, broker = found
    facts |= shared_facts(shared)
    if broker is not None and broker.condition() is None:
        note("it does not answer; the following is read from the database")
    elif broker is not None:
        _add_broker(facts, broker)
    settings.print(facts, lambda: _print_status(facts, shared))
    return ExitCode.DONE


def _stream(settings: Settings, store: JdbcStore | None) -> dict[str, Any]:
    journal = settings.configuration().journal
    if journal is None or not journal.use_journal or journal.stream is None:
        return {"stream": None}
    return {"stream": stream_facts(journal, store)}


@dataclass(frozen=True)
class _Outage:
    """The condition of a broker whose database is unreachable."""

    url: str
    condition: dict[str, Any]


def _until_outage(named: RemoteBroker | None, read: Callable[[], T]) -> T | _Outage:
    """Return the result of a read of the database, or the outage that the named broker reports meanwhile.

    Its own connection may wait for a database that does not answer longer than the broker does.
    """
    if named is None:
        return read()
    result: Future[T] = Future()

    def work() -> None:
        try:
            result.set_result(read())
        except BaseException as error:
            result.set_exception(error)

    reading = threading.Thread(target=work, daemon=True)
    while True:
        condition = named.condition()
        if condition is not None and condition["state"] == BrokerState.UNREACHABLE:
            return _Outage(named.url, condition)
        if reading.ident is None:
            reading.start()
        reading.join(_LOOK)
        if not reading.is_alive():
            return result.result()


def _read(
    settings: Settings, named: RemoteBroker | None
) -> tuple[dict[str, Any], SharedNumbers, RemoteBroker | None]:
    shared, broker = SharedNumbers(), named if named is not None and named.condition() else None
    try:
        with settings.open_database(read_only=True) as store:
            facts = _status(store, _lock(settings, store)) | _stream(settings, store)
        shared = read_selected(settings)
        broker = settings.broker_to_read()
    except SchemaError as error:
        master = settings.lock(None)
        if master.holder is None:
            raise
        note(f"this shows what other machines know: {error}")
        facts = _UNREAD | {"url": settings.place, "master": _master(master)} | _stream(settings, None)
    return facts, shared, broker


def _lock(settings: Settings, store: JdbcStore) -> LockView:
    try:
        return settings.lock(store)
    except StoreError as error:
        note(f"the holder of the lock is unknown: {error}")
        return store.lock()


def _status(store: JdbcStore, master: LockView) -> dict[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    destinations = store.destinations()
    lock = store.lock_row()
    durability = store.durability()
    return {
        "url": store.place,
        "server": None if store.server is None else {**asdict(store.server), "text": str(store.server)},
        "survives": None if durability is None else durability.survives,
        "risks": [] if durability is None else [f"{risk.text}: {risk.cause}" for risk in durability.risks],
        "tables": store.tables(),
        "lock": None if lock is None else {"broker_name": lock[2], "time": lock[1]},
        "master": _master(master),
        "last_id": store.last_sequence(),
        "paused": [
            {"queue": str(pause.queue), "user": pause.user, "since": pause.since_ms}
            for pause in store.paused_queues()
        ],
        "destinations": [_destination_facts(store, destination, now_ms) for destination in destinations],
        "subscriptions": add_activity(
            [facts for topic in destinations if topic.is_topic for facts in subscription_facts(store, topic)],
            None,
        ),
        "broker": None,
    }


def _master(lock: LockView) -> dict[str, Any]:
    return {
        "holder": lock.holder if lock.is_leased else None,
        "expires": lock.expires_ms if lock.is_leased else None,
        "epoch": lock.epoch,
    }


_UNREAD: dict[str, Any] = {
    **dict.fromkeys(("server", "survives", "lock", "last_id", "broker")),
    **{name: [] for name in ("risks", "paused", "destinations", "subscriptions")},
    "tables": {},
}
"""The facts of a database that is not on this machine."""


def _add_broker(facts: dict[str, Any], broker: RemoteBroker) -> None:
    """Add facts that only the broker knows: messages in its journal and memory, consumers."""
    whole, known = broker.call("broker"), {view["name"]: view for view in broker.destinations()}
    facts["broker"] = {
        "url": broker.url,
        **{name: whole[name] for name in ("version", "uptime", "connections", "condition")},
    }
    listed = {fact["destination"] for fact in facts["destinations"]}
    more = [name for name, view in known.items() if view["size"] and name not in listed]
    facts["destinations"] += [{**_UNKNOWN, "destination": name} for name in more]
    for fact in facts["destinations"]:
        view = known.get(fact["destination"])
        if view is not None:
            fact |= {"consumers": view["consumers"], "in_flight": view["in_flight"]}
            fact["message_count"] = fact["message_count"] if view["size"] is None else view["size"]
    facts["subscriptions"] = add_activity(facts["subscriptions"], broker)
    if facts["stream"] is not None:
        add_broker(facts["stream"], broker)


_UNKNOWN = dict.fromkeys(
    (
        "destination",
        "message_count",
        "message_bytes",
        "oldest_timestamp",
        "oldest_age",
        "consumers",
        "in_flight",
    )
)
"""A destination without rows in the database."""


def _destination_facts(store: Store, destination: Destination, now_ms: int) -> dict[str, Any]:
    statistics = messages_of(store, destination).statistics()
    oldest_ms = statistics.oldest_timestamp_ms
    return {
        "destination": str(destination),
        "message_count": statistics.message_count,
        "message_bytes": statistics.message_bytes,
        "oldest_timestamp": oldest_ms,
        "oldest_age": None if oldest_ms is None else max(0.0, (now_ms - oldest_ms) / 1000),
        "consumers": None,
        "in_flight": None,
    }


def _print_status(facts: dict[str, Any], shared: SharedNumbers) -> None:
    write_line(f"store    {printable(facts['url'])}")
    _print_server(facts)
    master = facts["master"]
    holder = "none"
    if master["holder"] is not None:
        holder = holder_text(master["holder"], True, master["expires"])
    write_line(f"lock     {_lock_text(facts['lock'], master)}")
    write_line(f"master   {holder}")
    if facts["last_id"] is not None:
        write_line(f"last id  {facts['last_id']}")
    broker = facts["broker"]
    if broker is not None:
        connections = counted(broker["connections"], "connection")
        write_line(f"broker   {printable(broker['url'])}, up {duration(broker['uptime'])}, {connections}")
        write_line(f"state    {condition_line(broker['condition'])}")
    if facts["stream"] is not None:
        print_stream(facts["stream"])
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "destination": lambda fact: fact["destination"],
        "messages": lambda fact: str(fact["message_count"]),
        "bytes": lambda fact: "-" if fact["message_bytes"] is None else size(fact["message_bytes"]),
        "oldest": lambda fact: duration(fact["oldest_age"]),
    }
    if broker is not None:
        for name in ("consumers", "in_flight"):
            columns[name.replace("_", " ")] = partial(_number, name)
    names = tuple(columns)
    rows = [tuple(text(fact) for text in columns.values()) for fact in facts["destinations"]]
    print_table("Destinations", names, rows, right=names[1:])
    if facts["paused"]:
        rows = [(fact["queue"], fact["user"], local_time(fact["since"])) for fact in facts["paused"]]
        print_table("Queues paused by a broker", ("queue", "by", "since"), rows)
    if facts["subscriptions"]:
        print_subscriptions(facts["subscriptions"])
    if facts["flow"]:
        print_flow(facts["flow"])
    print_claims(shared)


def _print_server(facts: dict[str, Any]) -> None:
    if facts["server"] is not None:
        write_line(f"server   {printable(facts['server']['text'])}")
    if facts["survives"] is not None:
        write_line(f"durable  {printable(facts['survives'])}")
    for risk in facts["risks"]:
        write_line(f"warning  {printable(risk)}")
    present = [name for name, exists in facts["tables"].items() if exists]
    missing = [name for name, exists in facts["tables"].items() if not exists]
    if facts["tables"]:
        write_line(f"tables   {', '.join(present)}" + (f"; missing: {', '.join(missing)}" if missing else ""))


def _number(name: str, fact: dict[str, Any]) -> str:
    return "-" if fact[name] is None else str(fact[name])


def _lock_text(lock: dict[str, Any] | None, master: dict[str, Any]) -> str:
    if master["holder"] is not None:
        return "held"
    if lock is None or not lock["broker_name"]:
        return "free"
    return f"free; {printable(lock['broker_name'])} held it until {local_time(lock['time'])}"


@click.command(cls=CliCommand)
@destination_argument
@click.option("--expired", is_flag=True, help="Only expired messages.")
@click.pass_obj
def purge(settings: Settings, destination: Destination, expired: bool) -> None:
    """Remove the messages of a destination. Durable subscriptions of a topic remain.

    If a broker with --health is running, it removes the messages, but keeps unacknowledged messages of a
    queue, and messages for durable subscriptions that have a consumer.
    """
    with settings.store_or_broker(must_exist=True) as place:
        if isinstance(place, RemoteBroker):
            acted = place.act("purge", destination, expired=expired or None)
            removed, left = acted.count, acted.left
        else:
            removed, left = _purge(place, destination, expired), 0
    facts = {"destination": str(destination), "removed": removed, "left": left}
    settings.print(facts, f"removed {counted(removed)} from {printable(str(destination))}")
    if left:
        note(f"{counted(left, 'message')} left: consumers or transactions have them")


def _purge(store: Store, destination: Destination, expired: bool) -> int:
    messages = messages_of(store, destination)
    with progress("purging", None if expired else messages.message_count()) as done:
        return (messages.remove_expired if expired else messages.remove_all_messages)(done)


@click.command(cls=CliCommand)
@click.pass_obj
def cleanup(settings: Settings) -> None:
    """Remove topic messages that every durable subscription has acknowledged.

    If a broker with --health is running, it removes them.
    """
    with settings.store_or_broker(must_exist=True) as place, progress("cleaning up") as done:
        if isinstance(place, RemoteBroker):
            removed = int(place.call("cleanup")["count"])
        else:
            removed = place.cleanup(done)
    text = f"removed {counted(removed)} that every subscription has acknowledged"
    settings.print({"removed": removed}, text)
