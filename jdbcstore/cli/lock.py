"""``lock`` and ``wait-master``: the lock on the store, and the master that holds it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.options import Seconds
from jdbcstore.cli.output import local_time, note, printable, write_line
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.errors import AuthenticationFailed, NotMaster, SchemaError, StoreUnavailable

if TYPE_CHECKING:
    from jdbcstore.lockers.inspection import LockView

_POLL_PERIOD = 0.25


@click.command(cls=CliCommand)
@click.option("--release", is_flag=True, help="Release a lease that has expired.")
@click.option("--force", is_flag=True,
              help="With --release, depose the holder of a lease that has not expired.")  # fmt: skip
@click.pass_obj
def lock(settings: Settings, release: bool, force: bool) -> None:
    """Show the holder of the lock, its expiry, the clock skew and the epoch."""
    if force and not release:
        raise click.UsageError("--force is for --release")
    facts = _read(settings)
    if release:
        with settings.open_database(read_only=True, warns=False) as store:
            facts["released"] = store.release_lock(force=force).holder is not None
    settings.print(facts, _released(facts) if release else lambda: _print(facts))


def _read(settings: Settings, *, warns: bool = True) -> dict[str, Any]:
    """Return the facts of the lock. If the database cannot be read, a lock on other servers is known.

    :raises StoreError: the database cannot be read, and no broker holds a lock on other servers
    """
    try:
        with settings.open_database(read_only=True, warns=warns) as store:
            return _facts(store.place, settings.lock(store))
    except (StoreUnavailable, SchemaError) as error:
        view = settings.lock(None)
        if view.holder is None:
            raise
        if warns:
            note(f"the lock is not in the database, which cannot be read: {error}")
        return _facts(settings.place, view)


def _released(facts: dict[str, Any]) -> str:
    holder = printable(str(facts["holder"]))
    if facts["released"]:
        return f"released the lock of {holder}"
    return f"{holder} holds the lock for as long as it runs" if facts["holder"] else "the lock is free"


def _facts(place: str, view: LockView) -> dict[str, Any]:
    return {
        "url": place,
        "holder": view.holder,
        "leased": view.is_leased,
        "expires": view.expires_ms if view.holder else None,
        "database_time": view.now_ms,
        "skew_ms": view.skew_ms,
        "epoch": view.epoch,
    }


def _print(facts: dict[str, Any]) -> None:
    write_line(f"store    {printable(facts['url'])}")
    holder = "none"
    if facts["holder"]:
        holder = holder_text(facts["holder"], facts["leased"], facts["expires"])
    write_line(f"holder   {holder}")
    if facts["database_time"] is not None:
        ahead = "ahead of" if facts["skew_ms"] >= 0 else "behind"
        write_line(f"clock    this machine is {abs(facts['skew_ms']) / 1000:.3f} s {ahead} the database")
    epoch = "none: jdbcstore has never been the master here" if facts["epoch"] is None else facts["epoch"]
    write_line(f"epoch    {epoch}")


def holder_text(holder: str, leased: bool, expires_ms: int | None) -> str:
    """Describe the holder of a lock and its expiry; the lock on a file or a row does not expire."""
    if expires_ms is None:
        return f"{printable(holder)}, for as long as it runs"
    return f"{printable(holder)}, {'until' if leased else 'expired'} {local_time(expires_ms)}"


@click.command(cls=CliCommand)
@click.option("--timeout", type=Seconds(), help="Seconds to wait; forever by default.")
@click.option("--holder", metavar="NAME", help="Wait for this broker instead of any.")
@click.pass_obj
def wait_master(settings: Settings, timeout: float | None, holder: str | None) -> None:
    """Wait until a broker is the master."""
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    noted: set[str] = set()
    while True:
        facts = _describe_lock(settings, noted)
        if facts is not None and facts["leased"] and holder in (None, facts["holder"].partition("#")[0]):
            break
        if time.monotonic() >= deadline:
            outcome = f"{holder} did not become" if holder else "no broker became"
            raise NotMaster(f"{outcome} the master within {timeout:g} s; check the log of the broker")
        time.sleep(_POLL_PERIOD)
    settings.print(facts, f"{printable(facts['holder'])} is the master")


def _describe_lock(settings: Settings, noted: set[str]) -> dict[str, Any] | None:
    """Describe the lock; None while the database or its tables, which a master creates, are missing."""
    try:
        return _read(settings, warns=False)
    except AuthenticationFailed:
        raise  # waiting does not change that
    except (StoreUnavailable, SchemaError) as error:
        if not noted:
            note(f"waiting: {error}")
        noted.add(str(error))
        return None
