"""Output of a configuration: its options for display, and as ``jdbcstore.toml``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
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

    document = tomlkit.document()
    _comment(document, f"Converted from {origin} by jdbcstore config convert.")
    writer = _Writer(configuration, origin)
    writer.put_fields(document, configuration.data_source, "", "JDBCSTORE_PASSWORD")
    if "broker_name" in configuration.sources:
        writer.put(document, "broker_name", configuration.broker_name, "broker_name")
    writer.put_fields(document, configuration.store, "", "")
    for name in ("locker", "journal", "io_exception_handler"):
        part = getattr(configuration, name)
        if part is not None:
            document.add(name, writer.table(part, f"{name}."))
    if writer.is_given("broker."):
        document.add("broker", writer.table(configuration.broker, "broker."))
    for name in ("stores", "policies"):
        writer.put_list(document, name, getattr(configuration, name), name)
    _add_notes(document, configuration.notes)
    return tomlkit.dumps(document)


class _Writer:
    """Writes the options that were given; all others have their defaults."""

    def __init__(self, configuration: Configuration, origin: str) -> None:
        self._configuration = configuration
        self._origin = origin
        self._sources = configuration.sources

    def table(self, part: Any, path: str) -> Table:
        import tomlkit

        table = tomlkit.table()
        if hasattr(part, "type"):
            self.put(table, "type", part.type, f"{path}type")
        store = re.match(r"stores\[(\d+)\]", path)
        variable = f"STORE_{int(store[1]) + 1}_PASSWORD" if store else "LOCKER_PASSWORD"
        self.put_fields(table, part, path, variable)
        return table

    def put_fields(self, table: TOMLDocument | Table, part: Any, path: str, password_variable: str) -> None:
        """The options of a dataclass, sections last."""
        values = {one.name: getattr(part, one.name) for one in fields(part)}
        # Without these sections there is no such part: they are written even if all options have defaults.
        absent = {one.name for one in fields(part) if one.default is None}
        for name, value in values.items():
            if name == "password":
                self._put_password(table, part, f"{path}password", password_variable)
            elif name == "url" and value is not None:
                self._put_url(table, value, f"{path}url")
            elif isinstance(value, Mapping):
                self._put_statements(table, name, value)
            elif isinstance(value, tuple):
                self.put_list(table, name, value, f"{path}{name}")
            elif is_dataclass(value) and (name in absent or self.is_given(f"{path}{name}.")):
                table.add(name, self.table(value, f"{path}{name}."))
            elif f"{path}{name}" in self._sources and value is not None:
                self.put(table, name, value, f"{path}{name}")

    def put_list(self, table: TOMLDocument | Table, name: str, parts: tuple[Any, ...], path: str) -> None:
        """An array with a section for each part."""
        import tomlkit

        if parts:
            sections = tomlkit.aot()
            for number, part in enumerate(parts):
                sections.append(self.table(part, f"{path}[{number}]."))
            table.add(name, sections)

    def put(self, table: TOMLDocument | Table, name: str, value: Any, path: str, advice: str = "") -> None:
        import tomlkit

        item = tomlkit.item(value)
        if path in self._sources:
            line = self._sources[path].replace(f"{self._origin}:", "line ", 1)
            item.comment(_plain(f"{line}{advice}"))
        table.add(name, item)

    def _put_url(self, table: TOMLDocument | Table, url: str, path: str) -> None:
        masked = mask_url(url)
        self.put(table, "url", masked, path, "" if masked == url else "; replace *** with the secret")

    def _put_password(
        self, table: TOMLDocument | Table, part: DataSourceConfig, path: str, variable: str
    ) -> None:
        if part.password is not None or path in self._configuration.problems:
            advice = "; export it, or give a password_file or password_keyring instead"
            self.put(table, "password_env", variable, path, advice)

    def _put_statements(self, table: TOMLDocument | Table, name: str, statements: Mapping[str, Any]) -> None:
        import tomlkit

        if statements:
            inner = tomlkit.table()
            for key, value in statements.items():
                self.put(inner, key, list(value) if isinstance(value, tuple) else value, f"{name}.{key}")
            table.add(name, inner)

    def is_given(self, path: str) -> bool:
        return any(given.startswith(path) for given in self._sources)


def _add_notes(document: TOMLDocument, notes: tuple[Note, ...]) -> None:
    import tomlkit

    for kind, heading in _HEADINGS.items():
        of_kind = [note for note in notes if note.kind is kind]
        if of_kind:
            document.add(tomlkit.nl())
            _comment(document, f"{heading}:")
        for note in of_kind:
            _comment(document, f"- {note.place}: {note.text}")


def _comment(document: TOMLDocument, text: str) -> None:
    import tomlkit

    for line in textwrap.wrap(_plain(text), _WIDTH, subsequent_indent="  "):
        document.add(tomlkit.comment(line))


def _plain(text: str) -> str:
    """The text without characters that a comment cannot contain."""
    return "".join(one if one.isprintable() else " " for one in text)
