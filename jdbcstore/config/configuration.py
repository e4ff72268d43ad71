"""The configuration of a store and its broker, built from the values of its sources."""

from __future__ import annotations

import logging
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from jdbcstore.config.broker import BrokerConfig
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fates import FATES, element_of
from jdbcstore.config.fields import camel, check, convert, find_field, is_camel, snake, types_of, unknown
from jdbcstore.config.given import Given, Kind, Note, Section
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import IOExceptionHandlerConfig, LockerConfig
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.config.routed import RoutedStoreConfig, check_routed
from jdbcstore.config.statements import plain, property_name
from jdbcstore.config.store import NAMES_AND_TYPES, StoreConfig
from jdbcstore.errors import ConfigurationError


class Login(NamedTuple):
    """The URL of a database, and the user and password to log in with."""

    url: str
    user: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration of a store and of the broker around it.

    Two configurations are equal if their options are, wherever these were given.

    :raises ConfigurationError: options that contradict each other
    """

    data_source: DataSourceConfig = field(default_factory=DataSourceConfig)
    """The database."""
    store: StoreConfig = field(default_factory=StoreConfig)
    """The options of the store."""
    broker_name: str = "localhost"
    """The name of the broker, also as the holder of a lease. ActiveMQ's ``brokerName``."""
    locker: LockerConfig | None = None
    """The locker that elects the master; None takes no lock."""
    journal: JournalConfig | None = None
    """The journal in front of the database; None writes to the database directly."""
    stores: tuple[RoutedStoreConfig, ...] = ()
    """Several stores, instead of the one of ``data_source``."""
    policies: tuple[PolicyEntry, ...] = ()
    """The destination policies."""
    io_exception_handler: IOExceptionHandlerConfig | None = None
    """Handler of failures of the store in the broker; None is the default handler."""
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    """The options of the broker."""

    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The place where each option was given, by its path such as ``locker.directory``; without defaults."""
    notes: tuple[Note, ...] = field(default=(), compare=False, repr=False)
    """Settings that are not supported, or not as given."""
    problems: Mapping[str, ConfigurationError] = field(default_factory=dict, compare=False, repr=False)
    """Errors in the URL or the login, by option; raised by :meth:`login`."""

    def __post_init__(self) -> None:
        check(self)
        check_routed(self.stores)
        if self.stores and (self.journal is not None or self.data_source.url is not None):
            what = "url" if self.journal is None else "journal"
            raise ConfigurationError(f"each of stores has its own {what}; put it there", option="stores")
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "problems", MappingProxyType(dict(self.problems)))

    def replace(self, **options: Any) -> Configuration:
        """Return a copy with other options of the store."""
        return replace(self, store=self.store.replace(**options))

    def log_notes(self, log: logging.Logger) -> None:
        """Log the notes: ignored settings at level info, all others as warnings."""
        for note in self.notes:
            log.log(logging.INFO if note.kind is Kind.IGNORED else logging.WARNING, "%s", note)

    def check_obeyed(self) -> None:
        """Raise if a broker with this configuration would keep other messages than its file says.

        :raises ConfigurationError: the first unsupported setting that decides which messages are kept,
            or who may read them
        """
        refused = [note for note in self.notes if note.kind is Kind.REFUSED]
        if refused:
            more = f" ({len(refused) - 1} more: jdbcstore config show)" if len(refused) > 1 else ""
            raise ConfigurationError(f"{refused[0].text}{more}", place=refused[0].place)

    def login(self) -> Login:
        """Return the database to connect to, with the password read from its source now.

        :raises ConfigurationError: no database is named, there are several stores, or a part is missing
        """
        source = self.data_source
        for problem in self.problems.values():
            raise problem
        if self.stores:
            text = "there are several stores, and this needs one database; name it with --url"
            raise ConfigurationError(text, option="stores")
        if source.url is None:
            raise ConfigurationError("no database is named; give url", option="url")
        return Login(source.url, source.user, source.reveal())

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Add the place where an option was given to errors about it."""
        try:
            yield
        except ConfigurationError as error:
            if error.place is None and error.option is not None:
                error.place = self.sources.get(error.option)
            raise


_FLAT = {"data_source": DataSourceConfig, "store": StoreConfig}
"""Parts whose options are at the top level, not in a section."""
_ABOUT = ("sources", "notes", "problems")
"""Fields that are not options."""


def build(values: Section) -> Configuration:
    """Build a configuration from merged values.

    :raises ConfigurationError: an unknown name or a wrong value, with its place
    """
    builder = _Builder()
    parts: dict[str, Section] = {"data_source": {}, "store": {}, "": {}}
    for name, value in values.items():
        parts[_part_of(name, value)][name] = value
    statements = values.get("statements")
    if isinstance(statements, dict):
        _move_options(statements, parts["store"])
    rest = builder.values(Configuration, parts[""], "")
    data_source: DataSourceConfig = builder.make(DataSourceConfig, parts["data_source"], "")
    if data_source.password is not None and "password" not in builder.sources:
        builder.sources["password"] = builder.sources["url"]
    store = builder.make(StoreConfig, parts["store"], "")
    about: dict[str, Any] = {"sources": builder.sources, "problems": builder.problems}
    about["notes"] = tuple(builder.notes)
    try:
        return Configuration(data_source=data_source, store=store, **rest, **about)
    except ConfigurationError as error:
        # An error about several options is located at the first of them that was given.
        given = (place for path, place in builder.sources.items() if path.startswith(error.option or " "))
        error.place = error.place or next(given, None)
        raise


def _part_of(name: str, value: object) -> str:
    for part, kind in _FLAT.items():
        if find_field(kind, name):
            return part
    known = find_field(Configuration, name)
    if known is None or known.name in (*_FLAT, *_ABOUT):
        fate = FATES.get(("jdbcstore.toml", camel(snake(name))))
        if fate is not None:
            raise ConfigurationError(f"{name} has no effect: {fate.reason}; remove it", place=_place(value))
        names = [field.name for kind in (*_FLAT.values(), Configuration) for field in fields(kind)]
        raise ConfigurationError(unknown("option", name, {*names} - {*_FLAT, *_ABOUT}), place=_place(value))
    return ""


def _move_options(statements: Section, store: Section) -> None:
    """Move the options of the store out of ``statements``, where ActiveMQ has table names and types."""
    known = {plain(option): option for option in NAMES_AND_TYPES}
    for name in [*statements]:
        spelt = known.get(plain(name), name)
        option = find_field(StoreConfig, spelt)
        if option is None:
            continue
        twice = next((name for name in store if snake(name) == option.name), None)
        if twice is not None:
            text = f"{name} is given in statements and at the top level; give it once"
            raise ConfigurationError(text, place=_place(store[twice]))
        store[spelt] = statements.pop(name)


class _Builder:
    """Makes dataclasses from sections, and records the place of each value."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.problems: dict[str, ConfigurationError] = {}
        self.notes: list[Note] = []

    def make(self, kind: type, section: Section, path: str) -> Any:
        values = self.values(kind, section, path)
        try:
            return kind(**values)
        except ConfigurationError as error:
            error.place = error.place or self.sources.get(path + (error.option or "")) or _place(section)
            raise

    def values(self, kind: type, section: Section, path: str) -> dict[str, Any]:
        """Convert a section to the arguments of a dataclass."""
        values = {}
        for name, value in section.items():
            known = find_field(kind, name)
            fate = FATES.get((element_of(kind), camel(snake(name))))
            if known is None and fate is not None and isinstance(value, Given):
                if str(value.value).lower() not in fate.harmless:
                    self.notes.append(Note(fate.kind, value.place, f"{name}: {fate.reason}"))
                continue
            if known is None:
                known_names = [field.name for field in fields(kind)]
                raise ConfigurationError(unknown("option", name, known_names), place=_place(value))
            values[known.name] = self._value(kind, known, name, value, path + known.name)
        return values

    def _value(self, kind: type, option: Field[Any], name: str, value: Any, path: str) -> Any:
        wanted = types_of(kind)[option.name]
        sections = [kind for kind in wanted if is_dataclass(kind)]
        if isinstance(value, Given):
            if tuple in wanted and value.value == []:
                self.sources[path] = value.place
                return ()
            if sections or Mapping in wanted or tuple in wanted:
                raise ConfigurationError(f"{name} must be a section, not a value", place=value.place)
            return self._scalar(kind, option, name, value, path)
        if isinstance(value, list) and tuple in wanted:
            element = typing.get_args(typing.get_type_hints(kind)[option.name])[0]
            kinds = [*(typing.get_args(element) or (element,))]
            return tuple(
                self.make(*self._choose(kinds, item, name, f"{path}[{i}]"), f"{path}[{i}].")
                for i, item in enumerate(value)
            )
        if isinstance(value, dict) and Mapping in wanted:
            return {key: self._statement(item, f"{path}.{property_name(key)}") for key, item in value.items()}
        if isinstance(value, dict) and sections:
            return self.make(*self._choose(sections, value, name, path), f"{path}.")
        raise ConfigurationError(f"{name} must be a value, not a section", place=_place(value))

    def _choose(self, kinds: list[type], section: Section, name: str, path: str) -> tuple[type, Section]:
        """Return the dataclass that a section's ``type`` names, and the rest of the section."""
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

    def _scalar(self, kind: type, option: Field[Any], name: str, given: Given, path: str) -> Any:
        self.sources[path] = given.place
        if given.problem is not None:
            problem = ConfigurationError(given.problem, option=option.name, place=given.place)
            if kind is not DataSourceConfig:
                raise problem
            self.problems[path] = problem
            return None
        units = given.activemq_units or is_camel(name)
        try:
            return convert(kind, option, given.value, activemq_units=units, text=given.text)
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


def _place(value: Any) -> str | None:
    """Return the place of a value, or of the first value in a section."""
    if isinstance(value, Given):
        return value.place
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(_place, inner)), None)
