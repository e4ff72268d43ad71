"""``lock`` and ``wait-master``."""

from __future__ import annotations

import time
from typing import Any

import click

from jdbcstore import JdbcStore
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import local_time, note, printable, write_json, write_line
from jdbcstore.errors import AuthenticationFailed, NotMaster, SchemaError, StoreUnavailable

_PERIOD = 0.25


@click.command(cls=Command)
@click.option("--release", is_flag=True, help="Free a lease that has expired.")
@click.option(
    "--force", is_flag=True, help="With --release, also one that is running: its holder is deposed."
)
@click.pass_obj
def lock(settings: Settings, release: bool, force: bool) -> None:
    """Show who holds the lock, until when, the difference of the clocks, and the epoch."""
    if force and not release:
        raise click.UsageError("--force is for --release")
    with settings.open_database(read_only=True) as store:
        was = _facts(store)
        if release:
            was["released"] = store.release_lock(force=force).holder is not None
    if settings.json:
        write_json(was)
    elif release:
        write_line(_released(was))
    else:
        _print(was)


def _released(was: dict[str, Any]) -> str:
    holder = printable(str(was["holder"]))
    if was["released"]:
        return f"released the lock of {holder}"
    return f"{holder} has the lock until it ends" if was["holder"] else "nobody has the lock"


def _facts(store: JdbcStore) -> dict[str, Any]:
    view = store.lock()
    return {
        "url": store.place,
        "holder": view.holder,
        "leased": view.is_leased,
        "expires": view.expires_ms if view.holder else None,
        "database_time": view.now_ms,
        "skew_ms": view.skew_ms,
        "epoch": view.epoch,
    }


def _print(facts: dict[str, Any]) -> None:
    write_line(f"store    {printable(facts['url'])}")
    holder = "nobody"
    if facts["holder"]:
        holder = holder_text(facts["holder"], facts["leased"], facts["expires"])
    write_line(f"holder   {holder}")
    if facts["database_time"] is not None:
        ahead = "ahead of" if facts["skew_ms"] >= 0 else "behind"
        write_line(f"clock    ours is {abs(facts['skew_ms']) / 1000:.3f} s {ahead} the database's")
    write_line(
        f"epoch    {'none: no jdbcstore was master here' if facts['epoch'] is None else facts['epoch']}"
    )


def holder_text(holder: str, leased: bool, expires_ms: int | None) -> str:
    """Who holds a lock, and until when; a file has no end."""
    if expires_ms is None:
        return f"{printable(holder)}, for as long as it runs"
    return f"{printable(holder)}, {'until' if leased else 'not since'} {local_time(expires_ms)}"


@click.command("wait-master", cls=Command)
@click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait; for ever if not given.")
@click.option("--holder", metavar="NAME", help="Wait for this broker, and not for any.")
@click.pass_obj
def wait_master(settings: Settings, timeout: float | None, holder: str | None) -> None:
    """Wait until somebody holds the lock: until there is a master."""
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    told: set[str] = set()
    while True:
        facts = _found(settings, told)
        if facts is not None and facts["leased"] and holder in (None, facts["holder"].partition("#")[0]):
            break
        if time.monotonic() >= deadline:
            raise NotMaster(f"{holder or 'nobody'} has become the master in {timeout:g} s; look at its log")
        time.sleep(_PERIOD)
    if settings.json:
        write_json(facts)
    else:
        write_line(f"{printable(facts['holder'])} is the master")


def _found(settings: Settings, told: set[str]) -> dict[str, Any] | None:
    """What the lock is; None while the database or its tables are not there: a master makes them."""
    try:
        with settings.open_database(read_only=True) as store:
            return _facts(store)
    except AuthenticationFailed:
        raise  # which waiting does not cure
    except (StoreUnavailable, SchemaError) as error:
        if not told:
            note(f"waiting, for now: {error}")
        told.add(str(error))
        return None
