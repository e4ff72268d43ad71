"""``console``: web pages about a database, read-only or with operations on shared queues."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from jdbcstore.cli.logs import log_to_stderr
from jdbcstore.cli.settings import CliCommand, Settings
from jdbcstore.cli.shared import looking, open_claims
from jdbcstore.errors import ConfigurationError, needing

if TYPE_CHECKING:
    from jdbcstore.broker.console.lookups import SchemaView
    from jdbcstore.config.broker import Address

DEFAULT = "127.0.0.1:8162"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@click.command(cls=CliCommand)
@click.option("--listen", metavar="HOST:PORT", default=DEFAULT, show_default=True, help="HTTP address.")
@click.option("--manage", is_flag=True, help="Offer operations on shared queues.")
@click.option(
    "--users", metavar="FILE", help="Users file; without it, only requests from this machine are accepted."
)
@click.pass_obj
def console(settings: Settings, listen: str, manage: bool, users: str | None) -> None:
    """Serve read-only web pages about the database.

    With --manage, users with the role "manage" can pause and purge shared queues and release workers. A
    broker may use the database at the same time, because the console takes no lock. SIGTERM or SIGINT stops
    it.
    """
    from jdbcstore.config.broker import Address

    with needing("the console needs aiohttp and jinja2", "broker"):
        from jdbcstore.broker.console.database import DatabaseSource
        from jdbcstore.broker.console.pages import Console
        from jdbcstore.broker.management.claims import ClaimManagement
        from jdbcstore.broker.management.guard import Guard
        from jdbcstore.broker.management.http import Api
        from jdbcstore.broker.management.metrics import served
        from jdbcstore.broker.management.shared_metrics import shared_page
        from jdbcstore.broker.management.views import BrokerIdentity
        from jdbcstore.broker.security import make_security
    from jdbcstore.stores.claims.managing import SharedManagement

    try:
        address = Address.parse(listen, "listen")
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error
    if manage:
        # The log includes the audit log.
        log_to_stderr(settings.configuration().broker.log_format, debug=settings.debug)
    with (
        settings.open_database(read_only=True) as store,
        looking(settings) as session,
        closing(make_security(users, settings.configuration().broker.roles_of_groups)) as security,
    ):
        broker = settings.configuration().broker
        identity = BrokerIdentity(
            name=store.place,
            address=str(address),
            database=store.place,
            environment=broker.environment or "",
            color=broker.environment_color,
        )
        source, guard = DatabaseSource(store, identity), Guard(security, address.host)
        opened = partial(open_claims, settings, "jdbcstore console") if manage else None
        queues = SharedManagement(session, opened)
        shared = ClaimManagement(queues)
        pages = Console(source, guard, shared=shared, schema=lambda: schema_view(settings))
        page = partial(shared_page, source.checkup, partial(asyncio.to_thread, queues.measured))
        metrics = served(page, guard)
        parts = {"/console": pages.application(), "/metrics": metrics}
        parts["/api"] = Api(shared, guard).application()
        asyncio.run(_serve(settings, parts, address))


def schema_view(settings: Settings) -> SchemaView:
    """Return the schema of the selected database and the plan of a migration, read in a thread."""
    from jdbcstore.broker.console.lookups import SchemaView
    from jdbcstore.database.migrations import check

    report = check(settings.database(must_exist=True))
    return SchemaView(report.revision, report.found, report.missing, report.wrong)


async def _serve(settings: Settings, parts: dict[str, Any], address: Address) -> None:
    from jdbcstore.broker.condition import BrokerCondition, BrokerState
    from jdbcstore.broker.process.health import HealthServer

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    server = HealthServer(address, lambda: BrokerCondition(state=BrokerState.SERVING), parts)
    at = await server.start()
    url = f"http://{at}/console"
    settings.print({"state": "ready", "url": url}, f"ready console={url}")
    sys.stdout.flush()
    try:
        await stopping.wait()
    finally:
        await server.stop()
