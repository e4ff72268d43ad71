"""``broker`` and ``passwd``: a broker in this process, and its users."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.console import schema_view
from jdbcstore.cli.logs import log_to_stderr
from jdbcstore.cli.output import journal_progress, printable
from jdbcstore.cli.settings import CliCommand, Settings, make_default_folder, with_locker
from jdbcstore.config import Configuration
from jdbcstore.config.broker import (
    AUTO,
    AUTO_TLS,
    LOG_FORMATS,
    OPENWIRE,
    OPENWIRE_TLS,
    STOMP,
    STOMP_TLS,
    TLS_SCHEMES,
    WS,
    WSS,
    Address,
    ConnectorConfig,
)
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import LeaseLockerIOExceptionHandlerConfig
from jdbcstore.config.users import ROLES, write_user
from jdbcstore.errors import ConfigurationError, NotMaster

if TYPE_CHECKING:
    from jdbcstore.broker.process.host import Addresses, BrokerHost

_SCHEMES = {
    "stomp": STOMP,
    "openwire": OPENWIRE,
    "auto": AUTO,
    "ws": WS,
    "stomp_tls": STOMP_TLS,
    "openwire_tls": OPENWIRE_TLS,
    "auto_tls": AUTO_TLS,
    "wss": WSS,
}
"""The listener of each option that names an address."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_KILLED = 128


@click.command(cls=CliCommand)
@click.option(
    "--stomp",
    metavar="HOST:PORT",
    help="Listen here for STOMP clients instead of on the configured connectors.",
)
@click.option("--stomp-tls", metavar="HOST:PORT", help="The same with TLS; requires --certificate.")
@click.option("--openwire", metavar="HOST:PORT", help="Listen here for JMS clients of ActiveMQ.")
@click.option("--openwire-tls", metavar="HOST:PORT", help="The same with TLS; requires --certificate.")
@click.option("--auto", metavar="HOST:PORT", help="Listen here for STOMP and JMS clients.")
@click.option("--auto-tls", metavar="HOST:PORT", help="The same with TLS; requires --certificate.")
@click.option("--ws", metavar="HOST:PORT", help="Listen here for STOMP over WebSocket.")
@click.option("--wss", metavar="HOST:PORT", help="The same with TLS; requires --certificate.")
@click.option(
    "--allowed-origins",
    metavar="ORIGINS",
    help="Origins of web pages that may connect to --ws and --wss, such as https://a.example, or * for any.",
)
@click.option("--certificate", metavar="FILE", help="PEM file with the certificate and its key.")
@click.option("--private-key", metavar="FILE", help="PEM file with the key, if it is a separate file.")
@click.option(
    "--advertise",
    metavar="URIS",
    help="Addresses of all brokers on the store, such as tcp://a:61616,tcp://b:61616; sent to "
    "failover: clients.",
)
@click.option("--name", metavar="NAME", help="Name of the broker, shown as the holder of the lock.")
@click.option(
    "--stream",
    metavar="SERVERS",
    help="NATS servers of the journal's stream, such as nats://a,b,c; required for replicatedLevelDB.",
)
@click.option(
    "--users", metavar="FILE", help="Users file, see 'jdbcstore passwd'; by default any client may connect."
)
@click.option(
    "--health", metavar="HOST:PORT", help="HTTP address of /live, /ready, the console and the management API."
)
@click.option(
    "--become-slave", is_flag=True, help="Wait for the lock again after losing it, instead of exiting."
)
@click.option("--log-format", type=click.Choice(LOG_FORMATS), help="Format of the log on stderr.")
@click.pass_obj
def broker(settings: Settings, /, name: str | None, **given: Any) -> None:
    """Serve the store to STOMP and JMS clients while this process is the master.

    Prints "waiting for lock" while it is a slave, and "ready" when clients can connect. SIGTERM or SIGINT
    stops it cleanly; a second signal stops it immediately.
    """
    from jdbcstore.broker.process.host import BrokerHost
    from jdbcstore.broker.turns import TurnLoop

    configuration = _configured(settings, name, given)
    log_to_stderr(configuration.broker.log_format, debug=settings.debug)
    host = BrokerHost(
        configuration,
        on_waiting=lambda error: _print_waiting(settings, error),
        on_ready=lambda addresses: _print_ready(settings, addresses),
        recovering=journal_progress,
        schema=partial(schema_view, settings) if _has_one_database(configuration) else None,
    )
    _allow_files()
    with asyncio.Runner(loop_factory=partial(TurnLoop, configuration.broker.busy_poll)) as runner:
        runner.run(_serve(host))


def _has_one_database(configuration: Configuration) -> bool:
    """Return whether the configuration has exactly one schema."""
    return not configuration.stores and configuration.data_source.url not in (None, "memory:")


def _allow_files() -> None:
    """Raise the limit on open files to the hard limit: each connection needs one."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def _configured(settings: Settings, name: str | None, given: dict[str, Any]) -> Configuration:
    """Return the configuration, overridden by the options of the command."""
    configuration = settings.configuration()
    changes = {
        "users_file": given["users"],
        "health": given["health"],
        "advertise": given["advertise"],
        "log_format": given["log_format"],
        "become_slave": given["become_slave"] or None,
        "connectors": tuple(_connectors(given)) or None,
    }
    try:
        own = replace(
            configuration.broker, **{key: value for key, value in changes.items() if value is not None}
        )
        if given["stream"] is not None:
            journal = configuration.journal or JournalConfig()
            configuration = replace(configuration, journal=replace(journal, stream=given["stream"]))
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error
    if own.persistent:
        make_default_folder(configuration)
        configuration = with_locker(configuration)
    return replace(
        configuration,
        broker=own,
        broker_name=name or configuration.broker_name,
        io_exception_handler=configuration.io_exception_handler or LeaseLockerIOExceptionHandlerConfig(),
    )


def _connectors(given: dict[str, Any]) -> Iterator[ConnectorConfig]:
    files = {"certificate": given["certificate"], "private_key": given["private_key"]}
    pages = {"allowed_origins": given["allowed_origins"]}
    schemes = {scheme for option, scheme in _SCHEMES.items() if given[option] is not None}
    if any(files.values()) and not schemes.intersection(TLS_SCHEMES):
        raise click.UsageError(
            "--certificate and --private-key need a TLS listener, such as --stomp-tls or --wss"
        )
    if any(pages.values()) and not schemes.intersection((WS, WSS)):
        raise click.UsageError("--allowed-origins needs --ws or --wss")
    try:
        for option, scheme in _SCHEMES.items():
            if given[option] is not None:
                Address.parse(given[option], f"--{option.replace('_', '-')}")
                more = {**(files if scheme in TLS_SCHEMES else {}), **(pages if scheme in (WS, WSS) else {})}
                yield ConnectorConfig(uri=f"{scheme}://{given[option]}", **more)
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
    # Imported modules and objects of the management are never garbage, so they are frozen. The engine, which
    # ends with its mastership, does not exist yet.
    gc.collect()
    gc.freeze()
    await host.ended()


def _print_waiting(settings: Settings, error: NotMaster) -> None:
    holder = printable(error.holder or "another broker or store")
    settings.print({"state": "waiting", "holder": error.holder}, f"waiting for lock: {holder} holds it")
    sys.stdout.flush()


def _print_ready(settings: Settings, addresses: Addresses) -> None:
    pairs = [[scheme, str(address)] for scheme, address in addresses]
    where = " ".join(f"{scheme}={address}" for scheme, address in pairs)
    facts = {"state": "ready", "master": True, "addresses": pairs}
    settings.print(facts, f"ready {where} master=yes")
    sys.stdout.flush()


@click.command(cls=CliCommand)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.argument("user", metavar="USER")
@click.option(
    "--read", multiple=True, metavar="DEST", help="Destinations that the user may consume, with * and >."
)
@click.option(
    "--write", multiple=True, metavar="DEST", help="Destinations that the user may send to, with * and >."
)
@click.option(
    "--role",
    type=click.Choice(ROLES),
    help="Role in the management: view shows no messages, browse shows them, manage also allows operations.",
)
@click.pass_obj
def passwd(
    settings: Settings,
    file: Path,
    user: str,
    read: tuple[str, ...],
    write: tuple[str, ...],
    role: str | None,
) -> None:
    """Set the password of a user in a broker's users file.

    The file and the user are created if needed. Prompts for the password, or reads the first line of standard
    input. A new user may send to and consume all destinations unless --read or --write is given, and may use
    the management only with --role. A running broker applies changes immediately.
    """
    from jdbcstore.broker.security import hash_password

    is_new = write_user(file, user, hash_password(_password()), [*read] or None, [*write] or None, role)
    facts = {"file": str(file), "user": user, "new": is_new}
    settings.print(facts, f"{'added' if is_new else 'changed'} {printable(user)} in {file}")


def _password() -> str:
    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("the password is empty; enter another one")
    return password
