"""``broker``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from jdbcstore import Configuration
from jdbcstore.cli.logs import log_to_stderr
from jdbcstore.cli.options import Command, Settings
from jdbcstore.cli.output import READING_JOURNAL, printable, progress_if_any, write_json, write_line
from jdbcstore.config.broker import LOG_FORMATS, STOMP, STOMP_TLS, ConnectorConfig
from jdbcstore.config.io_handler import LeaseLockerIOExceptionHandlerConfig
from jdbcstore.errors import ConfigurationError, NotMaster

if TYPE_CHECKING:
    from jdbcstore.broker.process.host import Addresses, BrokerHost

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_KILLED = 128


@click.command(cls=Command)
@click.option("--stomp", metavar="HOST:PORT", help="Where clients connect, in place of the configuration's.")
@click.option("--stomp-tls", metavar="HOST:PORT", help="The same, with TLS and --certificate.")
@click.option("--certificate", metavar="FILE", help="PEM: the certificate for --stomp-tls, and its key.")
@click.option("--private-key", metavar="FILE", help="PEM: the key, where it has a file of its own.")
@click.option("--name", metavar="NAME", help="The broker's name, which the lock shows.")
@click.option("--users", metavar="FILE", help="Who may log in; see 'jdbcstore passwd'. Else everybody.")
@click.option("--health", metavar="HOST:PORT", help="Serve /live and /ready over HTTP.")
@click.option("--become-slave", is_flag=True, help="Having lost the lock, wait for it again.")
@click.option("--log-format", type=click.Choice(LOG_FORMATS), help="Of the lines on stderr.")
@click.pass_obj
def broker(settings: Settings, /, name: str | None, **given: Any) -> None:
    """Serve the store to STOMP clients, once no other broker does.

    Prints "waiting for lock" while another does, and "ready" when clients can connect. SIGTERM and
    SIGINT end it in order, a second one at once.
    """
    from jdbcstore.broker.process.host import BrokerHost

    configuration = _configured(settings, name, given)
    log_to_stderr(configuration.broker.log_format, debug=settings.debug)
    host = BrokerHost(
        configuration,
        on_waiting=lambda error: _print_waiting(settings, error),
        on_ready=lambda addresses: _print_ready(settings, addresses),
        recovering=lambda: progress_if_any(READING_JOURNAL),
    )
    _allow_files()
    asyncio.run(_serve(host))


def _allow_files() -> None:
    """Each connection is a file, of which a process may open few unless it asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _configured(settings: Settings, name: str | None, given: dict[str, Any]) -> Configuration:
    """The configuration, below the options of the command."""
    configuration = settings.configuration()
    changes = {
        "users_file": given["users"],
        "health": given["health"],
        "log_format": given["log_format"],
        "become_slave": given["become_slave"] or None,
        "connectors": tuple(_connectors(given)) or None,
    }
    try:
        own = replace(
            configuration.broker, **{key: value for key, value in changes.items() if value is not None}
        )
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error
    if own.persistent:
        configuration = settings.guarded()
    return replace(
        configuration,
        broker=own,
        broker_name=name or configuration.broker_name,
        io_exception_handler=configuration.io_exception_handler or LeaseLockerIOExceptionHandlerConfig(),
    )


def _connectors(given: dict[str, Any]) -> Iterator[ConnectorConfig]:
    files = {"certificate": given["certificate"], "private_key": given["private_key"]}
    if given["stomp_tls"] is None and any(files.values()):
        raise click.UsageError("--certificate and --private-key are for --stomp-tls")
    try:
        if given["stomp"] is not None:
            yield ConnectorConfig(uri=f"{STOMP}://{given['stomp']}")
        if given["stomp_tls"] is not None:
            yield ConnectorConfig(uri=f"{STOMP_TLS}://{given['stomp_tls']}", **files)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


async def _serve(host: BrokerHost) -> None:
    loop = asyncio.get_running_loop()
    stopping: list[asyncio.Task[None]] = []

    def stop(number: int) -> None:
        if stopping:
            os._exit(_KILLED + number)
        stopping.append(loop.create_task(host.stop()))

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    await host.start()
    await host.ended()


def _print_waiting(settings: Settings, error: NotMaster) -> None:
    if settings.json:
        write_json({"state": "waiting", "holder": error.holder})
    else:
        write_line(f"waiting for lock: {printable(error.holder or 'another broker or store')} holds it")
    sys.stdout.flush()


def _print_ready(settings: Settings, addresses: Addresses) -> None:
    if settings.json:
        write_json({"state": "ready", "master": True, "addresses": [[one, str(at)] for one, at in addresses]})
    else:
        where = " ".join(f"{scheme}={address}" for scheme, address in addresses)
        write_line(f"ready {where} master=yes")
    sys.stdout.flush()
