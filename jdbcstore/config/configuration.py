"""The whole configuration, and how it is put together from what the sources give."""

from __future__ import annotations

import logging
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from jdbcstore.config.broker import BrokerConfig
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fields import camel, check, convert, find_field, is_camel, snake, types_of, unknown
from jdbcstore.config.given import Given, Kind, Note, Section
from jdbcstore.config.io_handler import IOExceptionHandlerConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import LockerConfig
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.config.reasons import TOML
from jdbcstore.config.routed import RoutedStoreConfig, check_routed
from jdbcstore.config.statements import property_name
from jdbcstore.config.store import StoreConfig
from jdbcstore.errors import ConfigurationError


class Login(NamedTuple):
    """What connects to a database."""

    url: str
    user: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A store, and the broker's part around it.

    Two are equal when they configure the same, wherever it was given.
    """

    data_source: DataSourceConfig = field(default_factory=DataSourceConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    broker_name: str = "localhost"
    locker: LockerConfig | None = None
    """Who may write; None takes no lock."""
    journal: JournalConfig | None = None
    stores: tuple[RoutedStoreConfig, ...] = ()
    """Several, in place of the one of ``data_source``."""
    policies: tuple[PolicyEntry, ...] = ()
    io_exception_handler: IOExceptionHandlerConfig | None = None
    """What the broker does when the store fails; None is the default handler."""
    broker: BrokerConfig = field(default_factory=BrokerConfig)

    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Where each option was given that has not its default, by its path: ``locker.directory``."""
    notes: tuple[Note, ...] = field(default=(), compare=False, repr=False)
    """What was given and is not done as given."""
    problems: Mapping[str, ConfigurationError] = field(default_factory=dict, compare=False, repr=False)
    """Why the URL or the login cannot be had from the file that was to give it; told when it is needed."""

    def __post_init__(self) -> None:
        check(self)
        check_routed(self.stores)
        if self.stores and (self.journal is not None or self.data_source.url is not None):
            what = "url" if self.journal is None else "journal"
            raise ConfigurationError(f"each of stores has its own {what}; put it there", option="stores")
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "problems", MappingProxyType(dict(self.problems)))

    def replace(self, **options: Any) -> Configuration:
        """A copy with other options of the store."""
        return replace(self, store=self.store.replace(**options))

    def tell(self, log: logging.Logger) -> None:
        """Log the notes."""
        for note in self.notes:
            log.log(logging.INFO if note.kind is Kind.IGNORED else logging.WARNING, "%s", note)

    def login(self) -> Login:
        """Where to connect, the password read now from where it is.

        :raises ConfigurationError: no database is named, or something of this cannot be had
        """
        source = self.data_source
        for problem in self.problems.values():
            raise problem
        if self.stores:
            text = "there are several stores, and this is about one database; name it with --url"
            raise ConfigurationError(text, option="stores")
        if source.url is None:
            raise ConfigurationError("no database is named; give url", option="url")
        return Login(source.url, source.user, source.reveal())

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Errors of options inside the block say where the option was given."""
        try:
            yield
        except ConfigurationError as error:
            if error.place is None and error.option is not None:
                error.place = self.sources.get(error.option)
            raise


def build(values: Section) -> Configuration:
    """A configuration of what the sources gave.

    :raises ConfigurationError: naming the place, for a name that no option has or a value that cannot work
    """
    builder = _Builder()
    parts: dict[str, Section] = {"data_source": {}, "store": {}, "": {}}
    for name, value in values.items():
        parts[_part_of(name, value)][name] = value
    statements = values.get("statements")
    if isinstance(statements, dict):
        _pull_options(statements, parts["store"])
    rest = builder.values(Configuration, parts[""], "")
    data_source: DataSourceConfig = builder.make(DataSourceConfig, parts["data_source"], "")
    if data_source.password is not None and "password" not in builder.sources:
        builder.sources["password"] = builder.sources["url"]
    store = builder.make(StoreConfig, parts["store"], "")
    about: dict[str, Any] = {"sources": builder.sources, "problems": builder.problems}
    try:
        return Configuration(data_source=data_source, store=store, **rest, **about)
    except ConfigurationError as error:
        # Of what only the whole shows, the first value that has a part in it.
        given = (place for path, place in builder.sources.items() if path.startswith(error.option or " "))
        error.place = error.place or next(given, None)
        raise


_FLAT = {"data_source": DataSourceConfig, "store": StoreConfig}
"""Their options stand at the top, and not in sections of their own."""


_ABOUT = ("sources", "notes", "problems")
"""About the options, and none of them."""


def _part_of(name: str, value: object) -> str:
    for part, kind in _FLAT.items():
        if find_field(kind, name):
            return part
    known = find_field(Configuration, name)
    if known is None or known.name in (*_FLAT, *_ABOUT):
        reason = TOML.get(camel(snake(name)))
        if reason is not None:
            raise ConfigurationError(f"{name} has no meaning here: {reason}; remove it", place=_place(value))
        names = [one.name for kind in (*_FLAT.values(), Configuration) for one in fields(kind)]
        raise ConfigurationError(unknown("option", name, {*names} - {*_FLAT, *_ABOUT}), place=_place(value))
    return ""


def _pull_options(statements: Section, store: Section) -> None:
    """Move the properties of ActiveMQ's ``statements`` that are options of the store: names and types."""
    for name in [*statements]:
        option = find_field(StoreConfig, name)
        if option is None:
            continue
        twice = next((one for one in store if snake(one) == option.name), None)
        if twice is not None:
            text = f"{name} stands in statements and above them; give it once"
            raise ConfigurationError(text, place=_place(store[twice]))
        store[name] = statements.pop(name)


class _Builder:
    """Makes dataclasses of sections, and keeps where each value came from."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.problems: dict[str, ConfigurationError] = {}

    def make(self, kind: type, section: Section, path: str) -> Any:
        values = self.values(kind, section, path)
        try:
            return kind(**values)
        except ConfigurationError as error:
            error.place = error.place or self.sources.get(path + (error.option or "")) or _place(section)
            raise

    def values(self, kind: type, section: Section, path: str) -> dict[str, Any]:
        """The arguments of a dataclass."""
        values = {}
        for name, value in section.items():
            known = find_field(kind, name)
            if known is None:
                known_names = [one.name for one in fields(kind)]
                raise ConfigurationError(unknown("option", name, known_names), place=_place(value))
            values[known.name] = self._value(kind, known.name, name, value, path + known.name)
        return values

    def _value(self, kind: type, option: str, name: str, value: Any, path: str) -> Any:
        wanted = types_of(kind)[option]
        sections = [one for one in wanted if is_dataclass(one)]
        if isinstance(value, Given):
            if tuple in wanted and value.value == []:
                return ()
            if sections or Mapping in wanted or tuple in wanted:
                raise ConfigurationError(f"{name} must be a section, not a value", place=value.place)
            return self._scalar(kind, option, name, value, path)
        if isinstance(value, list) and tuple in wanted:
            element = _element_of(kind, option)
            return tuple(self.make(element, one, f"{path}[{i}].") for i, one in enumerate(value))
        if isinstance(value, dict) and Mapping in wanted:
            return {key: self._statement(one, f"{path}.{property_name(key)}") for key, one in value.items()}
        if isinstance(value, dict) and sections:
            return self.make(*self._choose(sections, value, name, path), f"{path}.")
        raise ConfigurationError(f"{name} must be a value, not a section", place=_place(value))

    def _choose(self, kinds: list[type], section: Section, name: str, path: str) -> tuple[type, Section]:
        """The dataclass that a section's ``type`` names, and the rest of the section."""
        by_type = {kind.type: kind for kind in kinds if hasattr(kind, "type")}
        if not by_type:
            return kinds[0], section
        rest = dict(section)
        given = rest.pop("type", None)
        if not isinstance(given, Given):
            text = f"{name} needs a type: one of {', '.join(sorted(by_type))}"
            raise ConfigurationError(text, place=_place(section))
        if given.value not in by_type:
            raise ConfigurationError(unknown("type", str(given.value), by_type), place=given.place)
        self.sources[f"{path}.type"] = given.place
        return by_type[given.value], rest

    def _scalar(self, kind: type, option: str, name: str, given: Given, path: str) -> Any:
        self.sources[path] = given.place
        if given.problem is not None:
            problem = ConfigurationError(given.problem, option=option, place=given.place)
            if kind is not DataSourceConfig:
                raise problem
            self.problems[path] = problem
            return None
        one = find_field(kind, option)
        assert one is not None  # noqa: S101
        try:
            return convert(kind, one, given.value, theirs=given.theirs or is_camel(name), text=given.text)
        except ConfigurationError as error:
            error.place = given.place
            raise

    def _statement(self, given: Any, path: str) -> Any:
        if not isinstance(given, Given):
            raise ConfigurationError(f"{path} must be a value, not a section", place=_place(given))
        if given.problem is not None:
            raise ConfigurationError(given.problem, place=given.place)
        self.sources[path] = given.place
        return given.value


def _element_of(kind: type, option: str) -> type:
    element: type = typing.get_args(typing.get_type_hints(kind)[option])[0]
    return element


def _place(value: Any) -> str | None:
    """Where something was given: its own place, or that of the first value in it."""
    if isinstance(value, Given):
        return value.place
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(_place, inner)), None)
