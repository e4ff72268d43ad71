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
_OWN = (
    *("config", "decoded", "destination", "maxrowspertrigger", "partitions"),
    *("settleseconds", "startingoffsets"),
)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream; pickled, they are all that its tasks receive."""

    url: str = field(repr=False)
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    store: StoreConfig
    destination: str | None
    """The qualified name of the only destination to read; None reads all."""
    decoded: bool
    starting: str
    """``earliest``, ``latest``, or the ID after which it starts."""
    rows: int
    """Maximum rows of a batch."""
    partitions: int
    """Maximum partitions of a batch; each is one connection while it is read."""
    settle: float
    """Seconds to wait for a missing ID."""


def read_options(given: Mapping[str, str]) -> StreamOptions:
    """The options of a stream; the database may also be named in a file or the environment.

    :param given: by names in lower case, as Spark passes them
    :raises ConfigurationError: an option is unknown or has a bad value
    """
    own = {name: given[name] for name in _OWN if name in given}
    rest: dict[str, Any] = {name: value for name, value in given.items() if name not in _OWN}
    configuration = load_config(own.get("config"), source="option of the stream", text=True, **rest)
    with configuration.locating_errors():
        url, user, password = configuration.login()
        url = _url(url, configuration.store)
    destination = own.get("destination")
    return StreamOptions(
        url,
        user,
        password,
        store=configuration.store,
        destination=None if destination is None else Destination.named(destination).qualified_name,
        decoded=_flag(own.get("decoded", "true")),
        starting=_starting(own.get("startingoffsets", LATEST)),
        rows=int(_number("maxRowsPerTrigger", own.get("maxrowspertrigger", "100000"), 1)),
        partitions=int(_number("partitions", own.get("partitions", "4"), 1)),
        settle=_number("settleSeconds", own.get("settleseconds", "10"), 0),
    )


def _url(text: str, store: StoreConfig) -> str:
    """The URL as tasks need it.

    :raises ConfigurationError: streams do not support this database
    """
    adapter, url = adapter_for(text, store.adapter)
    if vendor_of(adapter.name).is_file:
        url = url.set(database=str(Path(str(url.database)).absolute()))
    return url.render_as_string(hide_password=False)


def _flag(value: str) -> bool:
    if value.lower() not in _FLAGS:
        _refuse("decoded", value, "true or false")
    return _FLAGS[value.lower()]


def _starting(value: str) -> str:
    if value.lower() in (EARLIEST, LATEST):
        return value.lower()
    if not value.isdecimal():
        _refuse("startingOffsets", value, f"{EARLIEST}, {LATEST}, or the ID after which to start")
    return value


def _number(name: str, value: str, at_least: int) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not at_least <= number < float("inf"):
        _refuse(name, value, f"a number from {at_least}")
    return number


def _refuse(name: str, value: str, wanted: str) -> NoReturn:
    raise ConfigurationError(f"the option {name} of the stream is {value!r}; give {wanted}", option=name)
