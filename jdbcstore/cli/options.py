"""Arguments and options that several commands share: destinations, selectors, stores, subscriptions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import reduce
from math import isnan
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import click

from jdbcstore.cli.settings import Settings
from jdbcstore.config import Configuration, DataSourceConfig, load_file
from jdbcstore.config.data_source import is_url
from jdbcstore.config.fields import LONGEST
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard
from jdbcstore.message.selector import Selector

T = TypeVar("T")
_URL = re.compile(r"[A-Za-z][\w+.-]*:.+")


class Parsed(click.ParamType[T], Generic[T]):
    """A parameter type with a parsing function; errors of the function become usage errors."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return cast(T, value)
        try:
            return self._parse(value)
        except ConfigurationError:
            raise  # with an exit code of its own
        except (ValueError, StoreError) as error:
            self.fail(str(error), param, ctx)


class Seconds(click.FloatRange):
    """A duration."""

    def __init__(self, at_least: float = 0.0, *, min_open: bool = False) -> None:
        super().__init__(at_least, LONGEST, min_open=min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if isnan(seconds):
            self.fail(f"{value!r} is not a number", param, ctx)
        return seconds


def _destination(text: str) -> Destination:
    destination = Destination.named(text)
    if destination.is_composite:
        raise ValueError(f"{destination} names several destinations; run the command once for each")
    return destination


def _target(text: str) -> Destination:
    destination = _destination(text)
    if is_wildcard(destination):
        raise ValueError(f"{destination} is a pattern that matches many destinations; name one of them")
    if destination.is_temporary:
        raise ValueError(
            f"{destination} is temporary: it ends with the connection of the client that created it, "
            "so the message could not be consumed from a store; name a queue or a topic"
        )
    return destination


def store_named(text: str) -> Configuration:
    """Return the configuration of a URL or a file."""
    if _URL.fullmatch(text):
        return Configuration(data_source=DataSourceConfig(url=text))
    return load_file(Path(text))


def _folder(text: str) -> Path | str:
    if is_url(text):
        return text
    if Path(text).is_file():
        raise ValueError(f"{text} is a file, not a folder")
    return Path(text)


def _milliseconds(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write 2026-11-21 or 2026-11-21T14:30+01:00") from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _selector(text: str) -> Selector:
    if not text.strip():
        raise ValueError("it is empty, and would match every message; omit the option for that")
    return Selector(text)


DESTINATION = Parsed("destination", _destination)
"""``queue://X``, ``topic://X``, or the bare name of a queue; may contain wildcards."""
TARGET = Parsed("destination", _target)
"""A destination to send to: no wildcards, not temporary."""
SELECTOR = Parsed("selector", _selector)
"""A JMS selector."""
FOLDER = Parsed("folder", _folder)
"""A folder: a local path, or the URL of a folder on a file system that Spark knows, as a string."""
STORE = Parsed("store", store_named)
"""A store: a URL, or a configuration file that names one."""
COUNT = click.IntRange(1, 1_000_000_000)
"""A number of messages."""
TIME = Parsed("time", _milliseconds)
"""Epoch milliseconds of a date, or a date and time, in UTC unless it has an offset."""


def refuse_store_options(settings: Settings) -> None:
    """Fail if ``--url`` or ``--config`` is given to a command that takes its stores as arguments."""
    if settings.url is not None or settings.config is not None:
        raise click.UsageError("this command takes its stores as arguments; omit --url and --config")


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def all_of(*decorators: Decorator) -> Decorator:
    """Combine arguments and options, in this order, into one decorator."""
    return lambda function: reduce(lambda decorated, next_: next_(decorated), reversed(decorators), function)


destination_argument = click.argument("destination", metavar="DEST", type=DESTINATION)
subscription_options = all_of(
    click.option("--client-id", metavar="TEXT",
                 help="Client id of a durable subscription, with --subscription."),
    click.option("--subscription", metavar="TEXT",
                 help="Name of a durable subscription, with --client-id."),
)  # fmt: skip
"""``client_id`` and ``subscription``, which together name a durable subscription."""
every_option = click.option("--all", "every", is_flag=True, help="All messages.")
"""For commands that change messages: an empty list of IDs, which a script may pass, must not mean all."""


def check_chosen(*chosen: object, every: bool) -> None:
    """Make sure that a command that changes messages selects some, or has ``--all``."""
    if not any(chosen) and not every:
        raise click.UsageError("no message is selected; give an option that selects some, or --all")
