"""Options that every command takes, on either side of its name, and how they choose the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from jdbcstore import JdbcStore, StoreConfig
from jdbcstore.config import load_config
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, InvalidDestination

DEFAULT_FILE = Path("activemq-data", "jdbcstore.db")
URL_VARIABLE = "JDBCSTORE_URL"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """The common options, wherever on the command line they stood."""

    url: str | None = None
    config: Path | None = None
    json: bool = False
    debug: bool = False

    def open(self, *, read_only: bool = False) -> JdbcStore:
        """The store that the options, the environment or the configuration file name.

        Read-only, it is used as it was found: nothing is created in it.
        """
        url, config = self.url or os.environ.get(URL_VARIABLE), StoreConfig()
        if self.config is not None:
            configured, config = load_config(self.config)
            url = url or configured
        if not url:
            url = f"sqlite:///{DEFAULT_FILE}"
            if not read_only:
                make_folder(DEFAULT_FILE.parent)
        # A command is over before a first cleanup in the background would be due.
        return JdbcStore(url, config.replace(cleanup_period=0.0), read_only=read_only)


def make_folder(folder: Path) -> None:
    """Make a folder for databases, below the working directory."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot make the folder {folder} for the database: {error.strerror}; choose one with --url"
        ) from error


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = context.ensure_object(Settings)
    if value:
        setattr(settings, str(parameter.name), value)


def common_options() -> list[click.Option]:
    """Fresh ones, for one command."""
    options: Iterable[tuple[tuple[str, ...], dict[str, Any]]] = (
        (("--url",), {"metavar": "URL", "help": "A SQLAlchemy or JDBC URL; see 'jdbcstore --help'."}),
        (
            ("--config",),
            {
                "metavar": "FILE",
                "type": click.Path(path_type=Path),
                "help": "TOML: url, and the store's options.",
            },
        ),
        (("--json",), {"is_flag": True, "help": "Print JSON, for machines."}),
        (("--debug",), {"is_flag": True, "help": "Print the traceback of an error, and the store's log."}),
    )
    return [click.Option([*names], expose_value=False, callback=_keep, **more) for names, more in options]


class Command(click.Command):
    """A command that also takes the common options."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.extend(common_options())


class DestinationType(click.ParamType[Destination]):
    """``queue://X``, ``topic://X``, or the bare name of a queue."""

    name = "destination"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Destination:
        if isinstance(value, Destination):
            return value
        try:
            return Destination.parse(value)
        except InvalidDestination as error:
            self.fail(str(error), param, ctx)


def destination_argument(function: F) -> F:
    return click.argument("destination", metavar="DEST", type=DestinationType())(function)


def subscription_options(function: F) -> F:
    """``client_id`` and ``subscription``; a durable subscription has both."""
    for name, help_text in (
        ("--subscription", "Name of a durable subscription, with --client-id."),
        ("--client-id", "Client id of a durable subscription, with --subscription."),
    ):
        function = click.option(name, metavar="TEXT", help=help_text)(function)
    return function
