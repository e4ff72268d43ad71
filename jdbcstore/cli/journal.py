"""``journal``: checking, dumping, repairing and replaying a journal, and its rejected messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import jdbcstore
from jdbcstore.abc import Store
from jdbcstore.cli.exit_codes import ExitCode
from jdbcstore.cli.journal_readings import (
    CheckedFile,
    damage_facts,
    damage_sentence,
    file_facts,
    print_checked,
    record_facts,
    record_line,
)
from jdbcstore.cli.output import (
    counted,
    journal_progress,
    local_time,
    note,
    print_json,
    print_table,
    printable,
    progress,
    size,
    write_json,
    write_line,
)
from jdbcstore.cli.settings import CliCommand, Settings, advising_on_master, with_locker
from jdbcstore.config import Configuration
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal, CorruptMessage, JournalPending, StoreError
from jdbcstore.journal.inspection import (
    BackingState,
    Damage,
    SegmentFile,
    journal_of,
    records,
    records_of,
    segments,
)
from jdbcstore.journal.inspection import repair as repair_journal
from jdbcstore.journal.layout import Record
from jdbcstore.journal.logs import beside, contents, stream_contents
from jdbcstore.message.facts import facts_of
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.journaled.recovery import check_opens, known_of
from jdbcstore.stores.journaled.refused import FOLDER, Refused, RefusedMessage
from jdbcstore.stores.opening import MEMORY, Opening, with_journals

if TYPE_CHECKING:
    from jdbcstore.journal.stream.members import Member

_folder = click.argument(
    "folder", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path, file_okay=False)
)
_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True, type=int)


@click.group()
def journal() -> None:
    """Check, dump, repair and replay the files of a journal.

    FOLDER is the directory of the journal; the default is the configured one.
    """


@dataclass(frozen=True, slots=True)
class JournalFolder:
    """The directory of a journal, with its backing store if the configuration names it."""

    directory: Path
    configuration: Configuration | None
    known: BackingState | None = None
    """State of the journal as recorded in the backing store."""

    @classmethod
    def find(cls, settings: Settings, folder: Path | None, *, ask_database: bool = False) -> JournalFolder:
        """Return the folder of the argument, or else the configured folder.

        :raises click.UsageError: there is none
        """
        configuration = settings.configuration()
        if folder is None:
            if configuration.journal is None:
                raise click.UsageError("no journal is configured; name the FOLDER of one")
            if configuration.journal.stream is not None:
                raise click.UsageError(
                    f"the journal is in {configuration.journal.place}, and only its servers can repair it; "
                    "if they lost it, run jdbcstore journal adopt to continue with the database alone"
                )
            folder = Path(configuration.journal.directory)
        place = cls(folder, _backing_store(configuration, folder))
        if ask_database and folder.is_dir():
            place = place.asked()
        if not folder.is_dir() or not (segments(folder) or place.known):
            raise click.UsageError(f"there is no journal in {folder}")
        return place

    def asked(self) -> JournalFolder:
        """Return a copy with the current state of the database; note it if the database is not reachable."""
        journal = journal_of(segments(self.directory)) or 0
        try:
            with self._database() as store:
                known = None if store is None else known_of(store, journal)
        except StoreError as error:
            note(f"the backing store of the journal could not be read: {error}")
            return replace(self, configuration=None, known=None)
        return replace(self, known=known)

    def refusal(self) -> StoreError | None:
        """Return the reason why a journal with undamaged files would not open; None if it would open."""
        configured = self.configuration.journal if self.configuration else None
        config = replace(configured or JournalConfig(), directory=str(self.directory))
        try:
            with self._database() as store:
                check_opens(config, store)
        except (CorruptJournal, JournalPending, ConfigurationError) as error:
            return error
        return None

    def _database(self) -> AbstractContextManager[JdbcStore | None]:
        if self.configuration is None:
            return nullcontext()
        return Opening(self.configuration.replace(cleanup_period=0.0), read_only=True).open_database()

    def contents(self, files: list[SegmentFile]) -> Iterator[tuple[Record | Damage, Path]]:
        """Yield the contents of the retained files, then of the files that the journal still needs."""
        paths = {file.number: file.path for file in files if not file.kept}
        for file in files:
            if file.kept:
                for record in records_of(file):
                    yield record, file.path
        for record in records(self.directory, self.known):
            yield record, paths.get(record.segment, self.directory)


def _backing_store(configuration: Configuration, folder: Path) -> Configuration | None:
    for store in with_journals(configuration):
        directory = Path(store.journal.directory).resolve() if store.journal else None
        if directory == folder.resolve():
            return _with_database(store)
    return None


def _with_database(configuration: Configuration) -> Configuration | None:
    """Return a configuration that reads the database; None for a database in memory or none at all."""
    return None if configuration.data_source.url in (None, MEMORY) else replace(configuration, locker=None)


@journal.command(cls=CliCommand)
@_folder
@click.pass_obj
def check(settings: Settings, folder: Path | None) -> int:
    """Read every file and report damage. Exits with 1 if a file is damaged or the journal would not open.

    If the configuration names the backing store, its state is read too, because only the database knows where
    the files should begin and end. Changes nothing. While a broker is writing, the end may look torn.
    """
    if folder is None and (configuration := _in_a_stream(settings)) is not None:
        return _check_stream(settings, configuration)
    place = JournalFolder.find(settings, folder, ask_database=True)
    checked, lost = _check(place)
    if any(not damage.torn for damage in lost):
        # Check again: a writer may have moved on between reading the files and the database.
        place = place.asked()
        checked, lost = _check(place)
    damage = [damage for damage in lost if not damage.torn]
    refusal = None if damage else place.refusal() and place.refusal()
    refused_count = len(Refused(place.directory).every())
    if settings.json:
        print_json(map(file_facts, checked))
        write_json(
            {
                "directory": str(place.directory),
                "records": sum(file.records for file in checked if not file.file.kept),
                "sound": not damage and refusal is None,
                "torn": next((damage_facts(damage) for damage in lost if damage.torn), None),
                "damage": [damage_facts(part) for part in damage],
                "refusal": None if refusal is None else str(refusal),
                **({"refused_messages": refused_count} if refused_count else {}),
            }
        )
    else:
        print_checked(place.directory, checked, lost, refusal)
        if refused_count:
            count = counted(refused_count, "message")
            write_line(f"the database rejected {count}; list them with jdbcstore journal refused")
    return ExitCode.DONE if refusal is None and not damage else ExitCode.FAILED


def _in_a_stream(settings: Settings) -> Configuration | None:
    """Return the configuration if its journal is in a stream."""
    configuration = settings.configuration()
    journal = configuration.journal
    return None if journal is None or journal.stream is None else configuration


def _check_stream(settings: Settings, configuration: Configuration) -> int:
    """Read a journal in a stream like opening the store does, and report its state."""
    journal = configuration.journal or JournalConfig()
    refusal: StoreError | None = None
    place = JournalFolder(Path(journal.directory), _with_database(configuration))
    facts: dict[str, Any] = {"stream": journal.place, "records": 0, "first_record": None, "last_record": None}
    counted_facts, refusal = _records_in_stream(journal)
    facts |= counted_facts
    if refusal is None and place.configuration is not None:
        refusal = place.refusal() and place.refusal()  # again, because a writer may have continued meanwhile
    facts |= {"sound": refusal is None, "refusal": None if refusal is None else str(refusal)}
    with beside(journal, FOLDER) as kept:
        if aside := len(Refused(kept).every()):
            facts["refused_messages"] = aside
    count = counted(facts["records"], "record")
    verdict = "all sound" if refusal is None else f"sound, but the journal does not open: {refusal}"
    said = printable(f"{journal.place}: {count}, {verdict}")
    if aside:
        said += (
            f"\nthe database rejected {counted(aside, 'message')}; list them with jdbcstore journal refused"
        )
    settings.print(facts, said)
    return ExitCode.DONE if refusal is None else ExitCode.FAILED


def _records_in_stream(journal: JournalConfig) -> tuple[dict[str, int], CorruptJournal | None]:
    """Return the number of records in a stream, the first and the last, and the reason why others are
    missing."""
    first_number = 0
    while True:
        facts, refusal, begins = _read_stream(journal, ignore_missing=False)
        if refusal is None or begins == first_number:
            break
        first_number = begins  # again, because a writer may have released these records meanwhile
    if refusal is not None:
        facts, _, _ = _read_stream(journal, ignore_missing=True)
    return facts, refusal


def _read_stream(
    journal: JournalConfig, *, ignore_missing: bool
) -> tuple[dict[str, int], CorruptJournal | None, int]:
    """Return the readable part of a stream, the reason if that is not all, and its first record."""
    facts, begins = {"records": 0}, 0
    try:
        with stream_contents(journal, ignore_missing=ignore_missing) as stream:
            if not stream.journal:
                raise click.UsageError(f"there is no journal in {journal.place}")
            begins = stream.first_number
            for record in stream.records(begins - 1, ignore_missing=ignore_missing):
                facts = {
                    "records": facts["records"] + 1,
                    "first_record": facts.get("first_record", record.number),
                    "last_record": record.number,
                }
    except CorruptJournal as error:
        return facts, error, begins
    return facts, None, begins


def _dump_stream(settings: Settings, configuration: Configuration) -> int:
    with contents(configuration.journal or JournalConfig()) as stream:
        for record in stream.records(stream.first_number - 1):
            facts = record_facts(record)
            settings.print(facts, printable(record_line(facts)))
    return ExitCode.DONE


def _check(place: JournalFolder) -> tuple[list[CheckedFile], list[Damage]]:
    """Return every file, and all damage, including damage that belongs to no existing file."""
    files = {file.path: CheckedFile(file) for file in segments(place.directory)}
    lost: list[Damage] = []
    with progress(f"checking {place.directory}", len(files)) as done:
        for record, path in place.contents([file.file for file in files.values()]):
            if path in files:
                if not files[path].records and not files[path].damages:
                    done(1)
                files[path].add(record)
            if isinstance(record, Damage):
                lost.append(record)
    return [*files.values()], lost


@journal.command(cls=CliCommand)
@_folder
@click.option("--kept", is_flag=True, help="Include retained files, which the journal no longer needs.")
@click.pass_obj
def dump(settings: Settings, folder: Path | None, kept: bool) -> int:
    """Print the records of a journal.

    Shows kinds, destinations, ids and sizes. Changes nothing.
    """
    if folder is None and (configuration := _in_a_stream(settings)) is not None:
        return _dump_stream(settings, configuration)
    place = JournalFolder.find(settings, folder)
    files = [file for file in segments(place.directory) if kept or not file.kept]
    code = ExitCode.DONE
    for record, _ in place.contents(files):
        if isinstance(record, Damage):
            note(damage_sentence(record))
            code = code if record.torn else ExitCode.FAILED
            continue
        try:
            facts = record_facts(record)
        except CorruptJournal as error:
            note(str(error))
            code = ExitCode.FAILED
            continue
        settings.print(facts, printable(record_line(facts)))
    return code


@journal.command(cls=CliCommand)
@_folder
@click.option("--cut", is_flag=True, help="Discard everything after the first damage.")
@click.pass_obj
def repair(settings: Settings, folder: Path | None, cut: bool) -> int:
    """Repair a damaged journal.

    Afterwards it opens with all records that can still be read. Stop the broker first. Damaged parts are
    removed. Records behind them are kept unless their position is uncertain; then they are discarded and
    reported. If the configuration names the backing store, the journal begins and ends where the database
    requires it. Every changed file is copied first. An interrupted repair can be run again. Exits with 1 if
    the journal still does not open.
    """
    place = JournalFolder.find(settings, folder, ask_database=True)
    directory = place.directory
    before = _numbers(directory)
    done = repair_journal(directory, cut=cut, known=place.known)
    refusal = place.refusal()
    discarded = sorted(before - _numbers(directory)) if done.damages else []
    copies = None if done.copies is None else str(done.copies)
    facts: dict[str, Any] = {
        "directory": str(directory),
        "records": done.records,
        "damage": [damage_facts(damage) for damage in done.damages],
        "cut_off": None,
        "copies": copies,
        "refusal": None if refusal is None else str(refusal),
    }
    lines = [damage_sentence(damage) for damage in done.damages]
    if discarded:
        first, last = discarded[0], discarded[-1]
        facts["cut_off"] = {"records": len(discarded), "first": first, "last": last}
        count = counted(len(discarded), "record")
        lines.append(f"discarded, though readable: {count}, {first} to {last}")
    if copies is not None:
        lines.append(f"the original files were copied to {copies}")
    verdict = "nothing to repair" if not done.damages else "repaired"
    lines.append(f"{directory}: {verdict}; {counted(done.records, 'record')}")
    if place.configuration is None:
        note(
            "no database was compared with this journal. If the journal now ends before the last "
            "record in the database, it does not open until you run journal repair with a --config "
            "that names both"
        )
    if refusal is not None:
        lines.append(f"the journal still does not open, which cannot be repaired: {refusal}")
    settings.print(facts, "\n".join(map(printable, lines)))
    return ExitCode.DONE if refusal is None else ExitCode.FAILED


def _numbers(directory: Path) -> set[int]:
    return {record.number for record in records(directory) if isinstance(record, Record)}


@journal.command(cls=CliCommand)
@click.pass_obj
def members(settings: Settings) -> None:
    """Show the brokers that follow the stream, and their lag.

    These brokers have databases of their own.
    """
    configuration = _in_a_stream(settings)
    if configuration is None or configuration.journal is None:
        raise click.UsageError("no journal in a stream is configured; name the configuration with --config")
    if not configuration.journal.replicated:
        raise click.UsageError(
            f"the brokers of {configuration.journal.place} share one database, because replicated is "
            "not set; no broker follows the stream"
        )
    from jdbcstore.journal.stream.members import group

    members = group(configuration.journal)
    facts = [
        {"node": member.node, "role": member.role, "applied": member.applied, "lag": members.lag(member)}
        | {"complete": member.is_complete, "weight": member.weight, "silent": round(member.silent, 1)}
        | {"fetched": member.fetched if member.wants else None, "trouble": member.trouble or None}
        for member in members.members
    ]

    def show() -> None:
        rows: list[tuple[str, ...]] = [
            (
                member.node,
                member.role,
                str(member.applied),
                str(members.lag(member)),
                str(member.weight),
                _state_of(member),
            )
            for member in members.members
        ]
        columns = ("node", "role", "in its database", "behind", "weight", "state")
        print_table("", columns, rows, right={"in its database", "behind", "weight"})

    settings.print_each(facts, show)


@journal.command(cls=CliCommand)
@click.option(
    "--force", is_flag=True, help="Proceed even if another broker has more records, which are then lost."
)
@click.pass_obj
def adopt(settings: Settings, force: bool) -> None:
    """Continue with the database alone after losing the stream.

    Use this if the journal's stream, or a part of it, was lost. The rest of the stream is applied to the
    database; then the stream begins behind its last record. Stop the broker whose database has the most
    records, and run this command with its configuration; the command checks that. Databases of other brokers
    get copies if records are missing there.
    """
    from jdbcstore.stores.replicated.adopting import adopt as adopt_stream

    with advising_on_master():
        done = adopt_stream(with_locker(settings.configuration()), force=force)
    others = {other.node: other.applied for other in done.others}
    facts = {"stream": done.place, "applied": done.applied, "replayed": done.replayed, "others": others}
    lines = [
        f"{done.place} continues behind record {done.applied}; {counted(done.replayed, 'record')} "
        "of it were applied first",
        *(f"the broker {name} has records up to {applied}" for name, applied in others.items()),
    ]
    settings.print(facts, "\n".join(map(printable, lines)))


def _state_of(member: Member) -> str:
    if not member.is_alive:
        return f"silent for {member.silent:.0f} s"
    if member.wants:
        return f"fetching a copy: {member.fetched} %"
    return member.trouble or ("has everything" if member.is_complete else "catches up")


@journal.command(cls=CliCommand)
@click.pass_obj
def replay(settings: Settings) -> None:
    """Write the configured journal to its database.

    The database is the whole store afterwards. Starting and stopping a broker does the same, but this command
    serves no client.
    """
    configuration = settings.configuration()
    if configuration.journal is None and not any(store.journal for store in configuration.stores):
        raise click.UsageError("no journal is configured; name the configuration file with --config")
    count = 0
    with journal_progress() as done:

        def advance(more: int) -> None:
            nonlocal count
            count += more
            done(more)

        jdbcstore.open(configuration.replace(cleanup_period=0.0), lock_timeout=0.0, progress=advance).close()
    settings.print(
        {"records": count}, f"wrote {counted(count, 'record')} to the database, which is now the whole store"
    )


@journal.command(cls=CliCommand)
@_folder
@click.pass_obj
def refused(settings: Settings, folder: Path | None) -> None:
    """List messages that the database rejected.

    They are kept in the journal's folder, and do not delay other messages. Use --json for their contents.
    """
    configured = None if folder is not None else _in_a_stream(settings)
    if configured is not None and configured.journal is not None:
        directory = configured.journal.place
        with beside(configured.journal, FOLDER) as kept:
            rejected = Refused(kept).every()
    else:
        directory = str(JournalFolder.find(settings, folder).directory)
        rejected = Refused(Path(directory)).every()
    if settings.json:
        print_json(map(_refused_facts, rejected))
        return
    columns = ("id", "destination", "message id", "size", "refused")
    rows: list[tuple[str, ...]] = [
        (
            str(message.sequence),
            message.destination,
            message.message_id,
            size(message.size),
            local_time(message.refused_ms),
        )
        for message in rejected
    ]
    if rows:
        print_table("", columns, rows, right=("id", "size"))
    for message in rejected:
        write_line(
            printable(f"{message.sequence}: {'update; ' if message.is_update else ''}{message.reason}")
        )
    write_line(printable(f"{directory}: {counted(len(rejected), 'message')} rejected by the database"))


def _refused_facts(message: RefusedMessage) -> dict[str, Any]:
    facts = {
        "id": message.sequence,
        "destination": message.destination,
        "message_id": message.message_id,
        "bytes": message.size,
        "is_update": message.is_update,
        "refused": message.refused_ms,
        "reason": message.reason,
    }
    try:
        return {**facts, "message": facts_of(message.message)}
    except CorruptMessage as error:
        return {**facts, "message": None, "problem": error.reason}


@journal.command(cls=CliCommand)
@_ids
@click.pass_obj
def retry(settings: Settings, ids: tuple[int, ...]) -> None:
    """Store rejected messages again.

    They come after all other messages of their destinations. First fix the cause, such as a column that is
    too short, and stop the broker.
    """
    with settings.open() as store:
        for sequence in ids:
            reference = _owner(store, sequence).retry_refused(sequence)
            stored = None if reference is None else reference.sequence
            outcome = f"stored with the ID {stored}"
            if stored is None:
                outcome = "rejected again; jdbcstore journal refused shows the reason"
            settings.print({"id": sequence, "stored": stored}, f"{sequence}: {outcome}")


@journal.command(cls=CliCommand)
@_ids
@click.pass_obj
def drop(settings: Settings, ids: tuple[int, ...]) -> None:
    """Remove rejected messages permanently."""
    with settings.open() as store:
        for sequence in ids:
            _owner(store, sequence).drop_refused(sequence)
            settings.print({"id": sequence}, f"{sequence}: removed")


def _owner(store: Store, sequence: int) -> JournaledStore:
    """Return the store that has a rejected message with this ID; each of several stores has its own IDs."""
    routes = getattr(store, "routes", None)
    owners = [
        candidate
        for candidate in ((store,) if routes is None else routes.stores)
        if isinstance(candidate, JournaledStore)
        and any(sequence == each.sequence for each in candidate.refused())
    ]
    if len(owners) != 1:
        problem = "no rejected message" if not owners else "a rejected message in each of several stores"
        raise click.UsageError(f"there is {problem} with the ID {sequence}")
    return owners[0]
