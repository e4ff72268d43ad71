"""A configuration as people and files see it: each option by its path, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from jdbcstore.config.configuration import Configuration
from jdbcstore.config.data_source import DataSourceConfig

Options = Iterator[tuple[str, Any]]


def shown_options(configuration: Configuration) -> Options:
    """Each option's path and value. Of a policy, or of several stores, only what it was given."""
    yield from _inside("", configuration.data_source)
    yield "broker_name", configuration.broker_name
    yield from _inside("", configuration.store)
    for part in ("locker", "journal", "io_exception_handler", "broker"):
        value = getattr(configuration, part)
        yield from [(part, None)] if value is None else _inside(f"{part}.", value)
    for part in ("stores", "policies"):
        for number, one in enumerate(getattr(configuration, part)):
            for path, value in _inside(f"{part}[{number}].", one):
                if path in configuration.sources:
                    yield path, value


def _inside(prefix: str, part: Any) -> Options:
    if isinstance(part, DataSourceConfig):
        part = part.shown()
    if hasattr(part, "type"):
        yield f"{prefix}type", part.type
    for one in fields(part):
        value, path = getattr(part, one.name), prefix + one.name
        if is_dataclass(value):
            yield from _inside(f"{path}.", value)
        elif isinstance(value, Mapping):
            yield from ((f"{path}.{name}", text) for name, text in value.items())
        elif isinstance(value, tuple):
            for number, element in enumerate(value):
                yield from _inside(f"{path}[{number}].", element)
        else:
            yield path, value
