"""Shared queues, as ``status`` and ``top`` read and print them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from jdbcstore.cli.output import duration, print_table, printable
from jdbcstore.cli.settings import Settings, advising_on_master
from jdbcstore.errors import StoreError
from jdbcstore.util.shared_queues import (
    ClaimNumbers,
    FlowSettings,
    KeyNumbers,
    SharedNumbers,
    WorkerNumbers,
)

if TYPE_CHECKING:
    from jdbcstore.database.session import DatabaseSession
    from jdbcstore.stores.claims import Claims


@contextlib.contextmanager
def looking(settings: Settings) -> Iterator[DatabaseSession]:
    """Yield a read-only session of the selected database."""
    from jdbcstore.database.session import DatabaseSession

    with contextlib.closing(DatabaseSession.configured(settings.configuration(), read_only=True)) as session:
        yield session


def open_claims(settings: Settings, name: str) -> Claims:
    """Open the claims of the selected database, for an operation; workers are listed with this name.

    Inserted messages are left to the processes that run on.
    """
    from jdbcstore.stores.claims import Claims

    settings.database(must_exist=True)
    configuration = settings.configuration()
    with advising_on_master(), configuration.locating_errors():
        url, user, password = configuration.login()
        store = replace(configuration.store, outbox=False)
        return Claims(url, store, user=user, password=password, name=name)


def read_selected(settings: Settings) -> SharedNumbers:
    """Return the numbers of the shared queues of the selected database, with their keys."""
    from jdbcstore.stores.claims.numbers import read_shared

    with looking(settings) as session:
        return read_shared(session, keys=True)


@contextlib.contextmanager
def looking_at_claims(
    settings: Settings,
) -> Iterator[Callable[[], tuple[SharedNumbers, int | None]] | None]:
    """Yield a function that reads the numbers and the last ID; None if no process has ever claimed."""
    from jdbcstore.stores.claims.numbers import read_last_id, read_shared

    configuration = settings.configuration()
    if configuration.stores or configuration.data_source.url == "memory:":
        yield None
        return
    with looking(settings) as session:

        def read() -> tuple[SharedNumbers, int | None]:
            numbers, last_id = read_shared(session, keys=True), None
            with contextlib.suppress(StoreError):  # a reader may have no right to read it
                last_id = read_last_id(session)
            return numbers, last_id

        yield read if session.has_claims else None


def shared_facts(numbers: SharedNumbers) -> dict[str, Any]:
    """Return the state of shared queues with settings, the claims, and the workers that hold them."""
    flow = [
        {
            "queue": queue.queue,
            "claimed": queue.claimed,
            "waiting_keys": queue.waiting_keys,
            **asdict(queue.settings),
        }
        for queue in numbers.queues
        if queue.settings != FlowSettings()
    ]
    return {
        "flow": flow,
        "claims": claim_facts(numbers),
        "workers": [asdict(worker) for worker in numbers.workers],
    }


def claim_facts(numbers: SharedNumbers) -> list[dict[str, Any]]:
    """Return the numbers of queues as JSON values, without their settings."""
    return [
        {name: value for name, value in asdict(queue).items() if name != "settings"}
        for queue in numbers.queues
    ]


def print_flow(facts: list[dict[str, Any]]) -> None:
    """Print the settings of queues from :func:`shared_facts`."""
    columns = ("queue", "paused", "claimed", "claims", "rate/s", "keys", "waiting keys")
    names = ("queue", "paused", "claimed", "claims", "rate", "keys", "waiting_keys")
    rows = [tuple(cell(fact[name]) for name in names) for fact in facts]
    print_table(
        "Shared queues with limits", columns, rows, right=("claimed", "claims", "rate/s", "waiting keys")
    )


def cell(value: object) -> str:
    """Return a setting as the cell of a table, empty without one."""
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


CLAIM_TITLES = ("queue", "free", "claimed", "delayed", "redeliveries", "oldest free", "oldest claimed")
"""The columns of queues and keys; all but the first are numbers."""
WORKER_TITLES = ("worker", "age", "lease", "claims")


def claim_cells(numbers: ClaimNumbers) -> tuple[str, ...]:
    """Return the cells of a queue."""
    return (
        f"{printable(numbers.queue)}{' (paused)' if numbers.settings.paused else ''}",
        _at_least(numbers.free, numbers.has_more),
        str(numbers.claimed),
        str(numbers.delayed),
        str(numbers.redeliveries),
        duration(numbers.oldest_free),
        duration(numbers.oldest_claimed),
    )


def key_cells(key: KeyNumbers) -> tuple[str, ...]:
    """Return the cells of a key, for a row below its queue."""
    name = f"  key {printable(key.key)!r}{' (paused)' if key.settings.paused else ''}"
    numbers = (key.claimed, key.delayed, key.redeliveries)
    return (name, _at_least(key.free, key.has_more), *map(str, numbers), "", "")


def _at_least(count: int, has_more: bool) -> str:
    return f"{count}+" if has_more else str(count)


def worker_cells(numbers: WorkerNumbers) -> tuple[str, ...]:
    """Return the cells of a worker."""
    left = numbers.lease_left
    lease = f"{duration(left)} left" if left >= 0 else f"ended {duration(-left)} ago"
    return (printable(numbers.name), duration(numbers.age), lease, str(numbers.claims))


def print_claims(numbers: SharedNumbers) -> None:
    """Print the queues, their keys, and the workers."""
    rows = [row for queue in numbers.queues for row in (claim_cells(queue), *map(key_cells, queue.keys))]
    if rows:
        print_table("Claims", CLAIM_TITLES, rows, right=CLAIM_TITLES[1:])
    print_workers(numbers.workers)


def print_workers(workers: Sequence[WorkerNumbers]) -> None:
    """Print the workers, if there are any."""
    if workers:
        print_table("Workers", WORKER_TITLES, [*map(worker_cells, workers)], right=WORKER_TITLES[1:])
