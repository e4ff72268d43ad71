"""``flow``: pauses, limits and fair shares of shared queues."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.options import TARGET, Parsed
from jdbcstore.cli.output import counted, print_table, printable
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.cli.shared import cell, open_claims

if TYPE_CHECKING:
    from jdbcstore.message.destination import Destination
    from jdbcstore.stores.claims import FlowSettings, QueueFlow

_NAME = "jdbcstore flow"
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def _per_second(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)/(s|min|h|d)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a rate; write 10/s, 100/min, 5000/h or 1/d")
    return float(match[1]) / _UNITS[match[2]]


_queue = click.argument("queue", metavar="QUEUE", type=TARGET)
_burst = click.option(
    "--burst",
    metavar="NUMBER",
    type=int,
    help="Burst: the most claims in a moment; by default the claims of one second.",
)


def _rate(what: str) -> Callable[[Any], Any]:
    said = f"The most claims of {what} per time, such as 10/s, 100/min, 5000/h."
    return click.option("--rate", metavar="RATE", type=Parsed("rate", _per_second), help=said)


@click.group()
def flow() -> None:
    """Pause shared queues, or limit their claims and rates.

    Processes apply a change within two seconds, or at the next claim if the queue had a setting before.
    Brokers ignore these settings.
    """


@flow.command("list", cls=CliCommand)
@click.pass_obj
def list_(settings: Settings) -> None:
    """List the queues that are paused or limited."""
    with open_claims(settings, _NAME) as claims:
        facts = [
            {"queue": name, **asdict(settings_of_queue)}
            for name, settings_of_queue in sorted(claims.flow().items())
        ]
    columns = ("queue", "paused", "claims", "rate/s", "burst", "keys", "claims/key", "rate/key", "burst/key")
    rows = [tuple(map(cell, row.values())) for row in facts]
    settings.print_each(facts, lambda: print_table("Queues", columns, rows, right=columns[2:]))


_key = click.option(
    "--key", metavar="KEY", help="Only messages of this key; for a queue with keys (flow share)."
)


@flow.command(cls=CliCommand)
@_queue
@_key
@click.pass_obj
def pause(settings: Settings, queue: Destination, key: str | None) -> None:
    """Pause QUEUE. Messages that are already claimed stay claimed."""
    if key is None:
        _change(settings, queue, lambda flow: flow.pause())
    else:
        _change_key(settings, queue, key, lambda flow: flow.pause_key(key), paused=True)


@flow.command(cls=CliCommand)
@_queue
@_key
@click.pass_obj
def resume(settings: Settings, queue: Destination, key: str | None) -> None:
    """Resume QUEUE, within its limits."""
    if key is None:
        _change(settings, queue, lambda flow: flow.resume())
    else:
        _change_key(settings, queue, key, lambda flow: flow.resume_key(key), paused=False)


@flow.command(cls=CliCommand)
@_queue
@click.option("--claims", metavar="NUMBER", type=int,
              help="The most claims of all processes at the same time.")  # fmt: skip
@_rate("all processes")
@_burst
@click.pass_obj
def limit(
    settings: Settings, queue: Destination, claims: int | None, rate: float | None, burst: int | None
) -> None:
    """Set all limits of QUEUE. Limits that you omit are removed."""
    _change(settings, queue, lambda flow: flow.limit(claims=claims, rate=rate, burst=burst))


@flow.command(cls=CliCommand)
@_queue
@click.option("--in-order", is_flag=True,
              help="Claim the next message of a key only after the previous one is settled.")  # fmt: skip
@click.option("--claims", metavar="NUMBER", type=int, help="Most claims of a key at the same time.")
@_rate("a key")
@_burst
@click.pass_obj
def share(settings: Settings, /, queue: Destination, **options: Any) -> None:
    """Share QUEUE fairly between the keys of its messages."""
    _change(settings, queue, lambda flow: flow.share(**options))


@flow.command(cls=CliCommand)
@_queue
@click.pass_obj
def unshare(settings: Settings, queue: Destination) -> None:
    """Ignore the keys of the messages of QUEUE."""
    _change(settings, queue, lambda flow: flow.unshare())


@flow.command(cls=CliCommand)
@_queue
@click.argument("key", metavar="KEY")
@click.option("--weight", metavar="NUMBER", type=int, default=1, show_default=True,
              help="The number of claims in each round of keys.")  # fmt: skip
@click.option("--claims", metavar="NUMBER", type=int, help="Most claims at the same time.")
@_rate("the key")
@_burst
@click.option("--paused", is_flag=True, help="Pause this key.")
@click.pass_obj
def key(settings: Settings, /, queue: Destination, key: str, **options: Any) -> None:
    """Configure KEY of QUEUE. Options that you omit return to their defaults."""
    _change_key(settings, queue, key, lambda flow: flow.set_key(key, **options), **options)


@flow.command(cls=CliCommand)
@_queue
@click.pass_obj
def purge(settings: Settings, queue: Destination) -> None:
    """Remove the unclaimed messages of QUEUE. Processes may continue to claim."""
    with open_claims(settings, _NAME) as claims:
        removed = claims.queue(queue).purge()
    settings.print({"queue": queue.name, "removed": removed}, f"{queue.name}: removed {counted(removed)}")


@flow.command(cls=CliCommand)
@click.argument("worker", metavar="WORKER")
@click.pass_obj
def release(settings: Settings, worker: str) -> None:
    """End the lease of WORKER, a name from "status".

    Other processes can then claim its messages immediately. Use this for a process that hangs: if it
    continues, its claims are lost, and it begins a new lease.
    """
    with open_claims(settings, _NAME) as claims:
        ended = claims.database.lease.end_those_of(worker)
    settings.print({"worker": worker, "ended": ended}, f"ended the lease of {printable(worker)}")


def _change(settings: Settings, queue: Destination, change: Callable[[QueueFlow], None]) -> None:
    with open_claims(settings, _NAME) as claims:
        flow = claims.queue(queue).flow
        change(flow)
        now = flow.settings()
    settings.print({"queue": queue.name, **asdict(now)}, f"{queue.name}: {_in_words(now)}")


def _change_key(
    settings: Settings, queue: Destination, key: str, change: Callable[[QueueFlow], None], **facts: Any
) -> None:
    with open_claims(settings, _NAME) as claims:
        change(claims.queue(queue).flow)
    settings.print({"queue": queue.name, "key": key, **facts}, f"{queue.name}: set {printable(key)}")


def _in_words(now: FlowSettings) -> str:
    parts = ["paused"] if now.paused else []
    if now.claims is not None:
        parts.append(f"at most {now.claims} claims at the same time")
    if now.rate is not None:
        parts.append(f"at most {now.rate:g} claims per second, in bursts of {now.burst}")
    if now.keys is not None:
        parts.append("shared by keys" if now.keys == "shared" else "shared by keys, each in order")
    if now.claims_per_key is not None:
        parts.append(f"at most {now.claims_per_key} claims of a key")
    if now.rate_per_key is not None:
        parts.append(
            f"at most {now.rate_per_key:g} claims of a key per second, in bursts of {now.burst_per_key}"
        )
    return ", ".join(parts) or "without limits"
