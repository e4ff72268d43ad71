"""Arguments and options that several commands share: destinations, selectors, stores, subscriptions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from jdbcstore.cli.settings import Settings
from jdbcstore.config import Configuration, DataSourceConfig, load_file
from jdbcstore.errors import InvalidDestination, InvalidSelector
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard
from jdbcstore.message.selector import Selector

F = TypeVar("F", bound=Callable[..., Any])
_URL = re.compile(r"[A-Za-z][\w+.-]*:.+")


class DestinationType(click.ParamType[Destination]):
    """One destination: ``queue://X``, ``topic://X``, or the bare name of a queue.

    With ``takes_messages``, wildcards and temporary destinations are refused.
    """

    name = "destination"

    def __init__(self, *, takes_messages: bool = False) -> None:
        self._takes_messages = takes_messages

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Destination:
        if isinstance(value, Destination):
            return value
        try:
            destination = Destination.named(value)
        except InvalidDestination as error:
            self.fail(str(error), param, ctx)
        reason = self._unfit(destination)
        return destination if reason is None else self.fail(reason, param, ctx)

    def _unfit(self, destination: Destination) -> str | None:
        if destination.is_composite:
            return f"{destination} names several destinations; run the command once for each"
        if not self._takes_messages:
            return None
        if is_wildcard(destination):
            return f"{destination} is a pattern that matches many destinations; name one of them"
        if destination.is_temporary:
            return (
                f"{destination} is temporary: it ends with the connection of the client that created it, and"
                " nobody could consume the message from a store; name a queue or a topic"
            )
        return None


class SelectorType(click.ParamType[Selector]):
    """A JMS selector."""

    name = "selector"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Selector:
        if isinstance(value, Selector):
            return value
        try:
            return Selector(value)
        except InvalidSelector as error:
            self.fail(str(error), param, ctx)


class StoreType(click.ParamType[Configuration]):
    """A store: a URL, or a configuration file that names one."""

    name = "store"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> Configuration:
        if isinstance(value, Configuration):
            return value
        if _URL.fullmatch(value):
            return Configuration(data_source=DataSourceConfig(url=value))
        return load_file(Path(value))


def refuse_store_options(settings: Settings) -> None:
    """Fail if ``--url`` or ``--config`` is given to a command whose arguments name its stores."""
    if settings.url is not None or settings.config is not None:
        raise click.UsageError("this command takes its stores as arguments; omit --url and --config")


def destination_argument(function: F) -> F:
    return click.argument("destination", metavar="DEST", type=DestinationType())(function)


def subscription_options(function: F) -> F:
    """``client_id`` and ``subscription``, which together name a durable subscription."""
    for name, help_text in (
        ("--subscription", "Name of a durable subscription, with --client-id."),
        ("--client-id", "Client id of a durable subscription, with --subscription."),
    ):
        function = click.option(name, metavar="TEXT", help=help_text)(function)
    return function
