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
    from tomlkit.items import Table

_WIDTH = 100
_HEADINGS = {
    Kind.MISSING: "Missing, and needed",
    Kind.UNKNOWN: "Unknown to jdbcstore, and left out",
    Kind.DANGEROUS: "Not obeyed",
    Kind.UNSUPPORTED: "Converted, but not supported",
    Kind.IGNORED: "Ignored",
}


def shown_options(configuration: Configuration) -> Iterator[tuple[str, Any]]:
    """The path and value of each option, without secrets; of policies and several stores, those given."""
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


def _inside(prefix: str, part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, DataSourceConfig):
        part = part.masked()
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


def to_toml(configuration: Configuration, origin: str) -> str:
    """The content of a TOML file that loads as the same configuration, with places and notes as comments.

    A password is not written: the environment variable that is named instead must hold it.
    """
    import tomlkit

    writer = _Writer(tomlkit, configuration, origin)
    writer.write()
    return tomlkit.dumps(writer.document)


class _Writer:
    """Writes the options that were given; all others have their defaults."""

    def __init__(self, toml: ModuleType, configuration: Configuration, origin: str) -> None:
        self._toml = toml  # only a command that converts needs it
        self._configuration = configuration
        self._origin = origin
        self._sources = configuration.sources
        self.document: TOMLDocument = toml.document()

    def write(self) -> None:
        configuration = self._configuration
        self._comment(f"Converted from {self._origin} by jdbcstore config convert.")
        self._put_fields(self.document, configuration.data_source, "", "JDBCSTORE_PASSWORD")
        if "broker_name" in self._sources:
            self._put(self.document, "broker_name", configuration.broker_name, "broker_name")
        self._put_fields(self.document, configuration.store, "", "")
        for name in ("locker", "journal", "io_exception_handler"):
            part = getattr(configuration, name)
            if part is not None:
                self.document.add(name, self._table(part, f"{name}."))
        if self._is_given("broker."):
            self.document.add("broker", self._table(configuration.broker, "broker."))
        for name in ("stores", "policies"):
            self._put_list(self.document, name, getattr(configuration, name), name)
        self._add_notes(configuration.notes)

    def _table(self, part: Any, path: str) -> Table:
        table: Table = self._toml.table()
        if hasattr(part, "type"):
            self._put(table, "type", part.type, f"{path}type")
        store = re.match(r"stores\[(\d+)\]", path)
        variable = f"STORE_{int(store[1]) + 1}_PASSWORD" if store else "LOCKER_PASSWORD"
        self._put_fields(table, part, path, variable)
        return table

    def _put_fields(self, table: TOMLDocument | Table, part: Any, path: str, variable: str) -> None:
        """The options of a dataclass; ``variable`` is to hold its password."""
        # Without these sections there is no such part: they are written even if all options have defaults.
        absent = {one.name for one in fields(part) if one.default is None}
        for name in (one.name for one in fields(part)):
            value, inner = getattr(part, name), f"{path}{name}"
            if name == "password":
                if value is not None or inner in self._configuration.problems:
                    advice = "; export it, or give a password_file or password_keyring instead"
                    self._put(table, "password_env", variable, inner, advice)
            elif name == "url" and value is not None:
                masked = mask_url(value)
                self._put(
                    table, name, masked, inner, "" if masked == value else "; replace *** with the secret"
                )
            elif isinstance(value, Mapping):
                self._put_statements(table, name, value)
            elif isinstance(value, tuple):
                self._put_list(table, name, value, inner)
            elif is_dataclass(value) and (name in absent or self._is_given(f"{inner}.")):
                table.add(name, self._table(value, f"{inner}."))
            elif inner in self._sources and value is not None:
                self._put(table, name, value, inner)

    def _put_list(self, table: TOMLDocument | Table, name: str, parts: tuple[Any, ...], path: str) -> None:
        """An array with a section for each part."""
        if parts:
            sections = self._toml.aot()
            for number, part in enumerate(parts):
                sections.append(self._table(part, f"{path}[{number}]."))
            table.add(name, sections)

    def _put_statements(self, table: TOMLDocument | Table, name: str, statements: Mapping[str, Any]) -> None:
        if statements:
            inner = self._toml.table()
            for key, value in statements.items():
                self._put(inner, key, list(value) if isinstance(value, tuple) else value, f"{name}.{key}")
            table.add(name, inner)

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


def _plain(text: str) -> str:
    """The text without characters that a comment cannot contain."""
    return "".join(one if one.isprintable() else " " for one in text)
