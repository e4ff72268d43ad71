"""Options common to all commands, and the store that they select."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from jdbcstore.cli.output import counted, journal_progress, note, print_json, write_json, write_line
from jdbcstore.errors import IN_JOURNAL, NotAuthorized, NotMaster, StoreUnavailable

if TYPE_CHECKING:
    from jdbcstore import Configuration, JdbcStore, Store
    from jdbcstore.abc import Progress
    from jdbcstore.cli.remote import RemoteBroker
    from jdbcstore.database.engine import Database
    from jdbcstore.lockers.inspection import LockView
    from jdbcstore.stores.opening import Opening

DEFAULT_FOLDER = "activemq-data"
DEFAULT_FILE = f"{DEFAULT_FOLDER}/jdbcstore.db"
DEFAULT_URL = f"sqlite:///{DEFAULT_FILE}"
URL_VARIABLE = "JDBCSTORE_URL"


class Settings:
    """Values of the common options, given before or after the command.

    Methods import their modules on demand: ``--version`` and ``--help`` run without a store.
    """

    url: str | None = None
    config: str | None = None
    broker_url: str | None = None
    json: bool = False
    debug: bool = False

    def print(self, facts: object, text: str | Callable[[], None]) -> None:
        """Print a result: with ``--json`` the facts, else the text or the output of a function."""
        if self.json:
            write_json(facts)
        elif isinstance(text, str):
            write_line(text)
        else:
            text()

    def print_each(self, facts: Iterable[object], text: Callable[[], None]) -> None:
        """Print as :meth:`print` does, with a line of JSON for each of the facts."""
        if self.json:
            print_json(facts)
        else:
            text()

    def configuration(self) -> Configuration:
        """Merge the options, the environment and the configuration file, in this order of precedence.

        The default is an SQLite file if none of them names a database.
        """
        from dataclasses import replace

        from jdbcstore.config import load_config

        configuration = load_config(self.config, source="--url", url=self.url)
        if configuration.data_source.url is not None or configuration.stores or configuration.problems:
            return configuration
        return replace(configuration, data_source=replace(configuration.data_source, url=DEFAULT_URL))

    def open(self, *, read_only: bool = False, audited: bool = True, must_exist: bool = False) -> Store:
        """Open the selected store.

        Opening fails while a broker is the master, but not with ``read_only``, which creates nothing. Without
        ``audited``, duplicates are accepted even if the configuration rejects them. With ``must_exist``, a
        missing database is a :class:`SchemaError`, because its name was probably mistyped.
        """
        if must_exist:
            configuration = self.configuration()
            if not configuration.stores and configuration.data_source.url not in (None, "memory:"):
                _database(configuration, must_exist=True)
        configuration = self.configuration() if read_only else with_locker(self.configuration())
        if not audited:
            configuration = configuration.replace(enable_audit=False)
        with advising_on_master(), journal_progress() as done:
            if not read_only:
                _refuse_beside_master(configuration)
            store = _opening(configuration, read_only=read_only, progress=done).open()
        _warn(configuration, store, read_only=read_only)
        return store

    def open_database(self, *, read_only: bool = False, warns: bool = True) -> JdbcStore:
        """Open the selected database without the journal in front of it."""
        configuration = self.configuration()
        store = _opening(configuration, read_only=read_only).open_database()
        if warns:
            _warn(configuration, store, read_only=read_only)
        return store

    @property
    def place(self) -> str:
        """The URL of the selected database, without secrets."""
        return _database(self.configuration()).place

    def lock(self, store: JdbcStore | None) -> LockView:
        """Return the lock of the selected database, which may be on other servers.

        Without the database, only a lock on other servers is known.

        :raises StoreUnavailable: these servers do not answer
        """
        from dataclasses import replace

        from jdbcstore.lockers.inspection import LockView
        from jdbcstore.lockers.registry import holder_outside

        view = LockView() if store is None else store.lock()
        holder = None if view.is_leased else holder_outside(self.configuration())
        return view if holder is None else replace(view, holder=holder, expires_ms=None)

    @contextlib.contextmanager
    def store_or_broker(self, **options: Any) -> Iterator[Store | RemoteBroker]:
        """Yield the selected store, or the management of the broker that is its master.

        :param options: the options of :meth:`open`
        :raises NotMaster: another process is the master, and has no management API
        """
        try:
            store = self.open(**options)
        except NotMaster:
            broker = self.broker()
            if broker is None:
                raise
            note(f"asking the broker at {broker.url}, which is the master")
            yield broker
        else:
            with store:
                yield store

    def broker_to_read(self) -> RemoteBroker | None:
        """Return :meth:`broker` for reads that the database can answer too: None if it rejects the login."""
        try:
            broker = self.broker()
        except NotAuthorized:
            note("the master needs JDBCSTORE_BROKER_LOGIN; the following is read from the database")
            return None
        if broker is not None:
            note(f"asking the broker at {broker.url}, which is the master")
        return broker

    def broker(self) -> RemoteBroker | None:
        """Return the management of the master, or of the broker that --broker names.

        None if there is no master or it has no management API. If the database does not answer, this is the
        broker of the configuration's option ``health``.

        :raises NotAuthorized: it needs a login
        :raises StoreError: the database cannot be read
        """
        if self.broker_url is not None:
            return self.named_broker()
        try:
            return self._announced_broker()
        except StoreUnavailable:
            broker = self.named_broker()
            if broker is None:
                raise
            return broker

    def named_broker(self) -> RemoteBroker | None:
        """Return the broker that --broker or the configuration's option ``health`` names.

        None if neither does, or the configured one does not answer. The database is not asked.

        :raises NotAuthorized: the configured one needs a login
        """
        from jdbcstore.cli.remote import RemoteBroker

        if self.broker_url is not None:
            return RemoteBroker(self.broker_url.rstrip("/"))
        health = self.configuration().broker.health
        broker = None if health is None else RemoteBroker(f"http://{health}")
        return broker if broker is not None and broker.condition() else None

    def _announced_broker(self) -> RemoteBroker | None:
        from jdbcstore.cli.remote import MANAGEMENT, NAME, RemoteBroker

        configuration = self.configuration()
        if configuration.stores or configuration.data_source.url in (None, "memory:"):
            return None
        with _opening(configuration, read_only=True).open_database() as store:
            announced = {address.kind: address.url for address in store.announced()}
        if MANAGEMENT not in announced:
            return None
        broker = RemoteBroker(announced[MANAGEMENT])
        return broker if broker.is_master(announced.get(NAME, "")) else None

    def database(self, *, must_exist: bool = False) -> Database:
        """Return connection settings of the selected database."""
        configuration = self.configuration()
        if not must_exist:
            make_default_folder(configuration)
        return _database(configuration, must_exist=must_exist)


def _opening(configuration: Configuration, *, read_only: bool, progress: Progress | None = None) -> Opening:
    from jdbcstore.stores.opening import Opening

    if not read_only:
        make_default_folder(configuration)
    # A command ends before the first periodic cleanup is due. It tries to acquire the lock once, without
    # waiting for a broker to stop.
    configuration = configuration.replace(cleanup_period=0.0)
    return Opening(configuration, read_only=read_only, lock_timeout=0.0, progress=progress)


def _refuse_beside_master(configuration: Configuration) -> None:
    """Check that no broker of a replicated journal is running, before this process follows its stream.

    :raises NotMaster: a broker is running
    """
    from jdbcstore.lockers.registry import holder_outside

    if configuration.journal is None or not configuration.journal.replicated:
        return
    holder = holder_outside(configuration)
    if holder is not None:
        raise NotMaster(f"{holder} holds the lock", holder=holder)


def _database(configuration: Configuration, *, must_exist: bool = False) -> Database:
    from jdbcstore.database.engine import Database

    return Database.configured(configuration, must_exist=must_exist)


def with_locker(configuration: Configuration) -> Configuration:
    """Add the broker's default locker if none is configured, so that there is at most one master.

    SQLite: a lock on a file beside the database, which is free when its holder dies. A database server: a
    lease, visible from every machine. A store with a journal: a lock on a file beside the journal, because
    only the same machine can take over.
    """
    from dataclasses import replace
    from pathlib import Path

    from jdbcstore.config.locker import LeaseDatabaseLockerConfig, SharedFileLockerConfig
    from jdbcstore.stores.replicated.nodes import locker_of

    if configuration.locker is not None or configuration.data_source.url == "memory:":
        return configuration
    directory = None
    if configuration.data_source.url is not None:
        directory = _database(configuration).lock_directory
    journal = configuration.journal
    if journal is not None and journal.replicated:
        return replace(configuration, locker=locker_of(configuration))
    if directory is None and journal is not None and journal.use_journal and journal.stream is None:
        directory = f"{Path(journal.directory).resolve()}-lock"
    if directory is None:
        return replace(configuration, locker=LeaseDatabaseLockerConfig())
    return replace(configuration, locker=SharedFileLockerConfig(directory=directory))


@contextlib.contextmanager
def advising_on_master() -> Iterator[None]:
    """Add advice to the error if another process is the master of the store."""
    try:
        yield
    except NotMaster as error:
        raise NotMaster(
            f"{error}, and nothing was changed: stop that process first, or connect to it as a client",
            holder=error.holder,
        ) from error


def _warn(configuration: Configuration, store: Store, *, read_only: bool) -> None:
    """Warn about limitations of the opened store."""
    from pathlib import Path

    from jdbcstore import JdbcStore
    from jdbcstore.config import Kind

    notes = [note for note in configuration.notes if note.kind is not Kind.IGNORED]
    if notes and not read_only:
        more = f", and {len(notes) - 1} more" if len(notes) > 1 else ""
        note(f"{notes[0]}{more}; see jdbcstore config show")
    mark = store.journal_mark() if read_only and isinstance(store, JdbcStore) else None
    if mark is not None and mark.journal:
        note(IN_JOURNAL)
    for journal in (configuration.journal, *(store.journal for store in configuration.stores)):
        if journal is None or journal.stream is not None:
            continue  # the log of the opened store has them
        if (Path(journal.directory) / "refused").is_dir():
            from jdbcstore.stores.journaled.refused import Refused

            if count := len(Refused(Path(journal.directory)).every()):
                note(f"the database rejected {counted(count)}; list them with jdbcstore journal refused")


def make_default_folder(configuration: Configuration) -> None:
    """Create the folder of the default SQLite file if that is the selected database."""
    if configuration.data_source.url == DEFAULT_URL:
        from pathlib import Path

        from jdbcstore.stores.opening import make_folder

        make_folder(Path(DEFAULT_FOLDER))


def common_options() -> list[click.Option]:
    """Return new instances of the common options, for one command."""
    options: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--url", {"metavar": "URL", "help": "SQLAlchemy or JDBC URL; see 'jdbcstore --help'."}),
        ("--config", {"metavar": "FILE", "help": "Configuration file; see 'jdbcstore --help'."}),
        ("--json", {"is_flag": True, "help": "Print JSON."}),
        ("--debug", {"is_flag": True, "help": "Print tracebacks and the store's log."}),
    )
    return [click.Option([name], expose_value=False, callback=_keep, **more) for name, more in options]


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = context.ensure_object(Settings)
    if isinstance(value, str) and not value.strip():
        raise click.BadParameter("it is empty; name a store, or omit the option", context, parameter)
    if value:
        setattr(settings, str(parameter.name), value)


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _keep_broker(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None and not _is_http(value):
        raise click.BadParameter(f"{value!r} is not a URL; use http://HOST:PORT", context, parameter)
    context.ensure_object(Settings).broker_url = value


class CliCommand(click.Command):
    """A command that also accepts the common options."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.extend(common_options())


class BrokerCommand(CliCommand):
    """A command that also accepts the URL of a broker."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        help_ = "Management of the broker, http://HOST:PORT; it is found through the database by default."
        option = click.Option(
            ["--broker"], metavar="URL", help=help_, expose_value=False, callback=_keep_broker
        )
        self.params.insert(len(self.params) - len(common_options()), option)
