"""Output of a configuration: its options for display, and as ``jdbcstore.toml``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jdbcstore.config.configuration import Configuration
from jdbcstore.config.data_source import DataSourceConfig, mask_url
from jdbcstore.config.given import Kind, Note

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import AoT, Table

_WIDTH = 100
_HEADINGS = {
    Kind.MISSING: "Missing, and needed",
    Kind.UNKNOWN: "Unknown to jdbcstore, and left out",
    Kind.REFUSED: "Not obeyed, so that jdbcstore broker does not start with the XML",
    Kind.DANGEROUS: "Not obeyed",
    Kind.UNSUPPORTED: "Converted, but not supported",
    Kind.IGNORED: "Ignored",
}


def shown_options(configuration: Configuration) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each option, without secrets; of policies and stores, of set ones."""
    yield from _inside("", configuration.data_source)
    yield "broker_name", configuration.broker_name
    yield from _inside("", configuration.store)
    for part in ("locker", "journal", "io_exception_handler", "broker"):
        value = getattr(configuration, part)
        yield from [(part, None)] if value is None else _inside(f"{part}.", value)
    for part in ("stores", "policies"):
        for number, item in enumerate(getattr(configuration, part)):
            for path, value in _inside(f"{part}[{number}].", item):
                if path in configuration.sources:
                    yield path, value


def _inside(prefix: str, part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, DataSourceConfig):
        part = part.masked()
    if hasattr(part, "type"):
        yield f"{prefix}type", part.type
    for field in fields(part):
        value, path = getattr(part, field.name), prefix + field.name
        if field.metadata.get("secret") and value is not None:
            value = "***"
        if is_dataclass(value):
            yield from _inside(f"{path}.", value)
        elif isinstance(value, Mapping):
            yield from ((f"{path}.{name}", text) for name, text in value.items())
        elif isinstance(value, tuple):
            for number, element in enumerate(value):
                yield from _inside(f"{path}[{number}].", element)
        else:
            yield path, value


def to_toml(configuration: Configuration, origin: str) -> str:
    """Render a TOML file that loads as the same configuration, with places and notes as comments.

    A password is not written: the environment variable that is named instead must hold it.
    """
    import tomlkit

    return tomlkit.dumps(_Writer(tomlkit, configuration, origin).document)


class _Writer:
    """Writes the options that were given; all others have their defaults."""

    def __init__(self, toml: ModuleType, configuration: Configuration, origin: str) -> None:
        self._toml = toml  # only a command that converts needs it
        self._configuration = configuration
        self._origin = origin
        self._sources = configuration.sources
        self.document: TOMLDocument = toml.document()
        self._comment(f"Converted from {origin} by jdbcstore config convert.")
        # In TOML, keys outside of sections come first.
        self._put_fields(self.document, configuration.data_source, "")
        self._put_fields(self.document, configuration, "", "broker_name")
        self._put_fields(self.document, configuration.store, "")
        sections = ("locker", "journal", "io_exception_handler", "broker", "stores", "policies")
        self._put_fields(self.document, configuration, "", *sections)
        self._add_notes(configuration.notes)

    def _table(self, part: Any, path: str) -> Table:
        table: Table = self._toml.table()
        if hasattr(part, "type"):
            self._put(table, "type", part.type, f"{path}type")
        self._put_fields(table, part, path)
        return table

    def _put_fields(self, table: TOMLDocument | Table, part: Any, path: str, *names: str) -> None:
        """Write the options of a dataclass: those of these names, or all."""
        # Without these sections there is no such part: they are written even if all options have defaults.
        absent = {field.name for field in fields(part) if field.default is None}
        secret = {field.name for field in fields(part) if field.metadata.get("secret")}
        for name in names or (field.name for field in fields(part)):
            value, inner = getattr(part, name), f"{path}{name}"
            if name == "password":
                if value is not None or inner in self._configuration.problems:
                    advice = "; export it, or give a password_file or password_keyring instead"
                    self._put(table, "password_env", _password_variable(path), inner, advice)
            elif value is not None and (name == "url" or name in secret):
                masked = "***" if name in secret else mask_url(value)
                advice = "" if masked == value else "; replace *** with the secret"
                self._put(table, name, masked, inner, advice)
            elif isinstance(value, Mapping | tuple):
                if value and (isinstance(value, Mapping) or self._is_given(f"{inner}[")):
                    table.add(name, self._several(value, inner))
                elif inner in self._sources:
                    self._put(table, name, [], inner)
            elif is_dataclass(value) and (name in absent or self._is_given(f"{inner}.")):
                table.add(name, self._table(value, f"{inner}."))
            elif inner in self._sources and value is not None:
                self._put(table, name, value, inner)

    def _several(self, values: Mapping[str, Any] | tuple[Any, ...], path: str) -> Table | AoT:
        """Render a section of statements, or an array of sections."""
        if isinstance(values, tuple):
            array: AoT = self._toml.aot()
            for number, part in enumerate(values):
                array.append(self._table(part, f"{path}[{number}]."))
            return array
        table: Table = self._toml.table()
        for key, value in values.items():
            self._put(table, key, list(value) if isinstance(value, tuple) else value, f"{path}.{key}")
        return table

    def _put(self, table: TOMLDocument | Table, name: str, value: Any, path: str, advice: str = "") -> None:
        item = self._toml.item(value)
        if path in self._sources:
            line = self._sources[path].replace(f"{self._origin}:", "line ", 1)
            item.comment(_plain(f"{line}{advice}"))
        table.add(name, item)

    def _is_given(self, path: str) -> bool:
        return any(given.startswith(path) for given in self._sources)

    def _add_notes(self, notes: tuple[Note, ...]) -> None:
        for kind, heading in _HEADINGS.items():
            of_kind = [note for note in notes if note.kind is kind]
            if of_kind:
                self.document.add(self._toml.nl())
                self._comment(f"{heading}:")
            for note in of_kind:
                self._comment(f"- {note.place}: {note.text}")

    def _comment(self, text: str) -> None:
        for line in textwrap.wrap(_plain(text), _WIDTH, subsequent_indent="  "):
            self.document.add(self._toml.comment(line))


def _password_variable(path: str) -> str:
    if not path:
        return "JDBCSTORE_PASSWORD"
    store = re.match(r"stores\[(\d+)\]", path)
    return f"STORE_{int(store[1]) + 1}_PASSWORD" if store else "LOCKER_PASSWORD"


def _plain(text: str) -> str:
    """Replace characters that a comment cannot contain."""
    return "".join(char if char.isprintable() else " " for char in text)
