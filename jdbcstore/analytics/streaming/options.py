"""The options of a stream, as given with ``option(...)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from jdbcstore.analytics.vendors import vendor_of
from jdbcstore.config import StoreConfig, load_config
from jdbcstore.database.adapters.registry import adapter_for
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination

EARLIEST, LATEST = "earliest", "latest"
_FLAGS = {"true": True, "false": False}
OF_STREAMS = frozenset({"maxrowspertrigger", "settleseconds", "startingoffsets"})
"""Options that only a stream has."""
_COMMON = frozenset({"config", "decoded", "destination", "partitions"})


@dataclass(frozen=True, slots=True)
class StreamLogin:
    """A database as tasks reach it."""

    url: str = field(repr=False)
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    store: StoreConfig


@dataclass(frozen=True, slots=True)
class StreamOptions(StreamLogin):
    """The options of a stream; pickled, they are all that its tasks receive."""

    destination: str | None
    """The qualified name of the only destination to read; None reads all."""
    starting: str
    """``earliest``, ``latest``, or the ID after which it starts."""
    rows: int
    """Maximum rows of a batch."""
    partitions: int
    """Maximum partitions of a batch; each is one connection while it is read."""
    settle: float
    """Seconds to wait for a missing ID."""


def read_options(given: Mapping[str, str]) -> StreamOptions:
    """Read the options of a stream; the database may also be named in a file or the environment.

    :param given: by names in lower case, as Spark passes them
    :raises ConfigurationError: an option is unknown or has a bad value
    """
    own, login = read_login(given, OF_STREAMS)
    return StreamOptions(
        login.url,
        login.user,
        login.password,
        login.store,
        destination=read_destination(own),
        starting=_starting(own.get("startingoffsets", LATEST)),
        rows=int(_number("maxRowsPerTrigger", own.get("maxrowspertrigger", "100000"), 1)),
        partitions=read_partitions(own, 4),
        settle=_number("settleSeconds", own.get("settleseconds", "10"), 0),
    )


def read_login(given: Mapping[str, str], names: frozenset[str]) -> tuple[dict[str, str], StreamLogin]:
    """Read the options that have these names or are common to views and streams, and the database.

    :raises ConfigurationError: another option is not one of the store's, or no database is named
    """
    own = {name: value for name, value in given.items() if name in names | _COMMON}
    rest: dict[str, Any] = {name: value for name, value in given.items() if name not in own}
    configuration = load_config(own.get("config"), source="option of the source", text=True, **rest)
    with configuration.locating_errors():
        url, user, password = configuration.login()
        url = task_url(url, configuration.store)
    return own, StreamLogin(url, user, password, configuration.store)


def read_destination(own: Mapping[str, str]) -> str | None:
    """Read the qualified name of the only destination to read; None for all."""
    destination = own.get("destination")
    return None if destination is None else Destination.named(destination).qualified_name


def read_partitions(own: Mapping[str, str], default: int) -> int:
    """Read the most tasks that read at the same time."""
    return int(_number("partitions", own.get("partitions", str(default)), 1))


def task_url(text: str, store: StoreConfig) -> str:
    """Return the URL as tasks need it.

    :raises ConfigurationError: analytics does not support this database
    """
    adapter, url = adapter_for(text, store.adapter)
    if vendor_of(adapter.name).is_file:
        url = url.set(database=str(Path(str(url.database)).absolute()))
    return url.render_as_string(hide_password=False)


def read_flag(name: str, value: str) -> bool:
    """Parse the value of an option that is true or false."""
    if value.lower() not in _FLAGS:
        refuse(name, value, "true or false")
    return _FLAGS[value.lower()]


def _starting(value: str) -> str:
    if value.lower() in (EARLIEST, LATEST):
        return value.lower()
    if not value.isdecimal():
        refuse("startingOffsets", value, f"{EARLIEST}, {LATEST}, or the ID after which to start")
    return value


def _number(name: str, value: str, at_least: int) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not at_least <= number < float("inf"):
        refuse(name, value, f"a number from {at_least}")
    return number


def refuse(name: str, value: str, wanted: str) -> NoReturn:
    """Reject an option's value.

    :raises ConfigurationError: always; it states the accepted values
    """
    raise ConfigurationError(f"the option {name} is {value!r}; give {wanted}", option=name)
