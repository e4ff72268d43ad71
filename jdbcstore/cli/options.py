"""Options that every command takes, on either side of its name, and how they choose the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from jdbcstore import Configuration, JdbcStore, Store, load_config
from jdbcstore.abc import Progress
from jdbcstore.cli.output import READING_JOURNAL, note, progress_if_any
from jdbcstore.config import Kind
from jdbcstore.config.locker import LeaseDatabaseLockerConfig, SharedFileLockerConfig
from jdbcstore.database.engine import Database
from jdbcstore.errors import (
    IN_JOURNAL,
    ConfigurationError,
    InvalidDestination,
    InvalidSelector,
    NotMaster,
)
from jdbcstore.message.destination import Destination
from jdbcstore.message.patterns import is_wildcard
from jdbcstore.message.selector import Selector
from jdbcstore.stores.opening import Opening

DEFAULT_FILE = Path("activemq-data", "jdbcstore.db")
DEFAULT_URL = f"sqlite:///{DEFAULT_FILE}"
URL_VARIABLE = "JDBCSTORE_URL"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """The common options, wherever on the command line they stood."""

    url: str | None = None
    config: Path | None = None
    json: bool = False
    debug: bool = False

    def configuration(self) -> Configuration:
        """What the options, the environment and the configuration file say, in this order.

        Where none names a database, it is the default SQLite file.
        """
        configuration = load_config(self.config, source="--url", url=self.url)
        if configuration.data_source.url is not None or configuration.stores or configuration.problems:
            return configuration
        return replace(configuration, data_source=replace(configuration.data_source, url=DEFAULT_URL))

    def guarded(self) -> Configuration:
        """The same, with the locker of a broker where none is named."""
        return guarded(self.configuration())

    def open(
        self,
        *,
        read_only: bool = False,
        audited: bool = True,
        must_exist: bool = False,
    ) -> Store:
        """The store that they name.

        It is opened only while no broker serves it. Read-only, that is no matter, and it is used as it was
        found: nothing is created in it. Not audited, it takes messages that it has had before, whatever is
        configured.
        With ``must_exist``, a database that opening would create is a :class:`SchemaError`: there is nothing
        in it to work on, and its name was mistyped.
        """
        if must_exist:
            self._check_exists()
        configuration = self.configuration() if read_only else self.guarded()
        if not audited:
            configuration = configuration.replace(enable_audit=False)
        with changing_nothing(), progress_if_any(READING_JOURNAL) as done:
            store = self._opening(configuration, read_only=read_only, progress=done).open()
        self._tell(configuration, store, read_only=read_only)
        return store

    def _check_exists(self) -> None:
        configuration = self.configuration()
        if not configuration.stores and configuration.data_source.url not in (None, "memory:"):
            self._database(configuration, must_exist=True)

    def open_database(self, *, read_only: bool = False) -> JdbcStore:
        """The database that they name, and not the journal in front of it."""
        configuration = self.configuration()
        store = self._opening(configuration, read_only=read_only).open_database()
        self._tell(configuration, store, read_only=read_only)
        return store

    def _opening(
        self, configuration: Configuration, *, read_only: bool, progress: Progress | None = None
    ) -> Opening:
        if configuration.data_source.url == DEFAULT_URL and not read_only:
            make_folder(DEFAULT_FILE.parent)
        # A command is over before a first cleanup in the background would be due. And it has one attempt:
        # it does not wait until a broker ends.
        configuration = configuration.replace(cleanup_period=0.0)
        return Opening(configuration, read_only=read_only, lock_timeout=0.0, progress=progress)

    def _tell(self, configuration: Configuration, store: Store, *, read_only: bool) -> None:
        if not read_only:
            _warn(configuration)
        mark = store.journal_mark() if read_only and isinstance(store, JdbcStore) else None
        if mark is not None and mark.journal:
            note(IN_JOURNAL)
        for journal in (configuration.journal, *(one.journal for one in configuration.stores)):
            if journal is not None and (Path(journal.directory) / "refused").is_dir():
                _tell_refused(Path(journal.directory))

    def database(self, *, must_exist: bool = False) -> Database:
        """The database that they name, without a store on it."""
        configuration = self.configuration()
        if configuration.data_source.url == DEFAULT_URL and not must_exist:
            make_folder(DEFAULT_FILE.parent)
        return self._database(configuration, must_exist=must_exist)

    def _database(self, configuration: Configuration, *, must_exist: bool = False) -> Database:
        with configuration.placing():
            url, user, password = configuration.login()
            return Database(url, configuration.store, user=user, password=password, must_exist=must_exist)


def guarded(configuration: Configuration) -> Configuration:
    """A configuration with the locker of a broker where it names none: no second one can serve then.

    For an SQLite file that is a locked file beside it, which whoever starts after a crash gets at once, for a
    server a lease, which clients of every machine see. Only the machine of a journal can take it over.
    """
    if configuration.locker is not None or configuration.data_source.url == "memory:":
        return configuration
    directory = None
    if configuration.data_source.url is not None:
        with configuration.placing():
            directory = Database(configuration.login()[0], configuration.store).lock_directory
    journal = configuration.journal
    if directory is None and journal is not None and journal.use_journal:
        directory = f"{Path(journal.directory).resolve()}-lock"
    if directory is None:
        return replace(configuration, locker=LeaseDatabaseLockerConfig())
    return replace(configuration, locker=SharedFileLockerConfig(directory=directory))


@contextlib.contextmanager
def changing_nothing() -> Iterator[None]:
    """Opening a store to change it; where another serves it, the error says what to do."""
    try:
        yield
    except NotMaster as error:
        raise NotMaster(
            f"{error}, and nothing was changed: stop it first, or have it do this as its client",
            holder=error.holder,
        ) from error


def _tell_refused(journal: Path) -> None:
    from jdbcstore.stores.journaled.refused import Refused

    if count := len(Refused(journal).every()):
        some = (
            "1 message that the database refused stands"
            if count == 1
            else (f"{count} messages that the database refused stand")
        )
        note(f"{some} aside: see jdbcstore journal refused")


def _warn(configuration: Configuration) -> None:
    """One line about what is configured and not done."""
    notes = [one for one in configuration.notes if one.kind is not Kind.IGNORED]
    if notes:
        more = f", and {len(notes) - 1} more" if len(notes) > 1 else ""
        note(f"{notes[0]}{more}; see jdbcstore config show")


def make_folder(folder: Path) -> None:
    """Make a folder for databases, below the working directory."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot make the folder {folder} for the database: {error.strerror}; choose one with --url"
        ) from error


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = context.ensure_object(Settings)
    if isinstance(value, str) and not value.strip():
        raise click.BadParameter("it is empty; name a store, or leave the option out", context, parameter)
    if value:
        setattr(settings, str(parameter.name), value)


def common_options() -> list[click.Option]:
    """Fresh ones, for one command."""
    options: Iterable[tuple[tuple[str, ...], dict[str, Any]]] = (
        (("--url",), {"metavar": "URL", "help": "A SQLAlchemy or JDBC URL; see 'jdbcstore --help'."}),
        (
            ("--config",),
            {
                "metavar": "FILE",
                "type": click.Path(path_type=Path),
                "help": "A configuration file; see 'jdbcstore --help'.",
            },
        ),
        (("--json",), {"is_flag": True, "help": "Print JSON, for machines."}),
        (("--debug",), {"is_flag": True, "help": "Print the traceback of an error, and the store's log."}),
    )
    return [click.Option([*names], expose_value=False, callback=_keep, **more) for names, more in options]


class Command(click.Command):
    """A command that also takes the common options."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.extend(common_options())


class DestinationType(click.ParamType[Destination]):
    """``queue://X``, ``topic://X``, or the bare name of a queue: one destination.

    With ``takes_messages``, one that messages can be stored in and found again.
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
            return (
                f"{destination} is a pattern of many destinations; name the one that is to have the message"
            )
        if destination.is_temporary:
            return (
                f"{destination} is temporary: it ends with the connection of the client that made it, and"
                " nobody could take the message from a store; name a queue or a topic"
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


def destination_argument(function: F) -> F:
    return click.argument("destination", metavar="DEST", type=DestinationType())(function)


def subscription_options(function: F) -> F:
    """``client_id`` and ``subscription``; a durable subscription has both."""
    for name, help_text in (
        ("--subscription", "Name of a durable subscription, with --client-id."),
        ("--client-id", "Client id of a durable subscription, with --subscription."),
    ):
        function = click.option(name, metavar="TEXT", help=help_text)(function)
    return function
