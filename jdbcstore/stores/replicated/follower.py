"""StreamFollower: it keeps the database of a broker that is not the master up to date, from the stream."""

from __future__ import annotations

import logging
import secrets
import threading
from contextlib import suppress
from dataclasses import replace

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, CorruptJournal, StoreError, StoreUnavailable
from jdbcstore.journal.stream.log import StreamContents, contents_of
from jdbcstore.journal.stream.members import FOLLOWER, DamagedCopy, Member, Members
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled.front import JournalFront
from jdbcstore.stores.journaled.records import decode_record
from jdbcstore.stores.replicated.copying import restore
from jdbcstore.stores.replicated.nodes import database_file, life_of, node_of, place_of
from jdbcstore.stores.shared.checkpoint import JournalMark
from jdbcstore.stores.shared.operations import BEGIN
from jdbcstore.util.clock import Clock, SystemClock

log = logging.getLogger(__name__)

ROUND = 0.25
"""Seconds between two looks at the end of the stream."""
_CHECKPOINT = 2.0
"""Seconds between checkpoints. The next master replays later records once more."""
_RETRY = 1.0
"""Seconds until the servers of the stream, or the database, are tried again."""
_REPORT = 1.0
_USELESS = 10.0
"""Seconds between requests for a copy, if the last one did not help: each is work for the master."""
_ALIVE, _LISTENED, _SIGNS = 10.0, 3.5, 2
"""Seconds since the last report of a process that may be alive, for which it is listened to then, and the
reports that show it: one may be late, and of a process that is gone."""


class Behind(StoreUnavailable):
    """The stream has released records that a database does not have: it needs a copy of the master's.

    A copy helps if it reaches the record ``least``: the last one of this database, or the last released
    record of the stream.
    """

    def __init__(self, message: str, *, least: int = 0) -> None:
        self.least = least
        super().__init__(message)


class StreamFollower:
    """A thread that applies the records of a stream to a database, in rounds, as an opening does.

    It replays and makes checkpoints by the code of the recovery: the mark of a checkpoint is in the
    transaction that has its changes, so it may be killed anywhere. A database that is new takes the identity
    of the stream; a database that lacks released records gets a copy of the master's.
    """

    def __init__(self, configuration: Configuration, clock: Clock | None, progress: Progress | None) -> None:
        if configuration.journal is None:
            raise ConfigurationError("there is no journal to follow", option="journal")
        alone = replace(configuration, locker=None)
        self._configuration = alone.replace(cleanup_period=0.0, enable_audit=False)
        self.config: JournalConfig = configuration.journal
        """The options of the journal."""
        self.clock = clock or SystemClock()
        """The clock of its rounds."""
        self._progress = progress
        self.stopping = threading.Event()
        """Set when it is to stop."""
        self._finishing = False
        self.decided = threading.Event()
        """Set once the first round has ended, or has failed."""
        self.trouble: StoreError | None = None
        """The last failure that may pass."""
        self.failure: StoreError | None = None
        """Why nothing is followed any more."""
        self.member = Member(
            node_of(configuration),
            FOLLOWER,
            weight=self.config.weight,
            place=place_of(configuration),
            life=life_of(configuration),
        )
        """The description of itself that the others get."""
        self.has_connected = False
        """Whether the servers of the stream have answered once."""
        self._is_alone = False
        """Whether no other process has its name."""
        self._is_placed = False
        """Whether it is known what its database has; never before it is alone."""
        self._reported = float("-inf")
        self._thread = threading.Thread(target=self._run, name="jdbcstore-follower", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def finish(self) -> None:
        """Follow to the end of the stream once more, and write all to the database: this is the master now.

        :raises Behind: the stream has released records that the database lacks
        :raises StoreError: the stream or the database cannot be read or written
        """
        self._finishing = True
        self.stop()
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Stop following and close the database."""
        self.stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                self._attempt()
                self.stopping.wait(_RETRY if self.member.trouble else ROUND)
            if self._finishing and self.failure is None and not self.member.is_complete:
                self.failure = Behind(self.member.trouble or "the database is not complete")
        except StoreError as error:
            self.failure = error
        except BaseException as error:
            log.exception("following the stream stopped on an unexpected error")
            self.failure = StoreError(f"following the stream stopped on an unexpected error: {error!r}")
        finally:
            self.decided.set()

    def _attempt(self) -> None:
        """Follow until that fails or is stopped; what passes by itself is tried again."""
        try:
            server = StreamServer(self.config, create=False)
        except (ConfigurationError, StoreUnavailable) as error:
            # The settings of a stream that it has followed may be changed back.
            may_pass = isinstance(error, StoreUnavailable) or self.decided.is_set()
            if not may_pass or (self._finishing and isinstance(error, ConfigurationError)):
                raise
            self._note(error)
            return
        self.has_connected = True
        try:
            if not self._is_alone:
                self._check_alone(Members(server))
            try:
                with JdbcStore.configured(self._configuration, journaled=True, clock=self.clock) as store:
                    Following(self, server, store).run()
            except Behind as error:
                self._note(error)
                if self._finishing:
                    raise
                self._refill(server, error.least)
        except (ConfigurationError, CorruptJournal, StoreUnavailable) as error:
            ends = not (self.decided.is_set() or isinstance(error, StoreUnavailable))
            if self._is_placed:
                self._tell(server, error, ends=ends)
            if ends or self._finishing:
                raise
            self._note(error)
        finally:
            if self.stopping.is_set() and not self._finishing and self._is_alone:
                with suppress(StoreError):
                    Members(server).report(replace(self.member, life=""))
            server.close()

    def _check_alone(self, members: Members) -> None:
        """Check that no other process has this one's name; before the database is opened, which it may share.

        A broker that has reported lately is awaited, unless it was closed: it reports each second.

        :raises ConfigurationError: there is one
        """
        mine = self.member
        silent = {member.node: member.silent for member in members.every()}
        member = members.find(mine.node) if silent.get(mine.node, _LISTENED) < _ALIVE else None
        heard, last = 0, self.clock.monotonic() + _LISTENED
        while member is not None and member[1].life not in ("", mine.life) and self.clock.monotonic() < last:
            if heard >= _SIGNS:
                raise ConfigurationError(
                    f"{self.config.place} is followed under the name {mine.node} with {member[1].place}, and"
                    f" should be with {mine.place}: give each broker a name of its own, with node in the"
                    " section journal, or JDBCSTORE_JOURNAL_NODE; or stop one, if they are the same",
                    option="journal.node",
                )
            if self.stopping.wait(ROUND):
                return
            before, member = member, members.find(mine.node)
            heard += member is not None and member[0] != before[0]
        self._is_alone = True

    def place(self, applied: int) -> None:
        """Note the last record that the database has."""
        self.member = replace(self.member, applied=applied)
        self._is_placed = True

    def _tell(self, server: StreamServer, error: StoreError, *, ends: bool) -> None:
        """Tell the others what this database has, and why it does not follow, also if this broker ends."""
        self.member = replace(self.member, is_complete=False)
        life = "" if ends else self.member.life
        with suppress(StoreError):
            Members(server).report(replace(self.member, trouble=str(error), life=life))

    def _note(self, error: StoreError) -> None:
        if str(error) != self.member.trouble:
            log.warning("the stream is not followed now: %s", error)
        self.member = replace(self.member, trouble=str(error), is_complete=False)
        self.trouble = error
        self.decided.set()

    def _refill(self, server: StreamServer, least: int) -> None:
        """Ask the master for a copy of its database, and put it in place of this one's content.

        The copy has to reach the record ``least``. A shorter one, such as that of a master whose checkpoints
        fail, is not taken: this database may be the only one with some records.
        """
        file = database_file(self._configuration)
        members = Members(server)
        name = f"{self.member.node}-{secrets.token_hex(8)}"
        taken = file.with_name(f"{file.name}-copy")
        kept = file.with_name(f"{file.name}-before-copy")
        self.member = replace(self.member, wants=name, fetched=0)
        useless = False
        try:
            while not self.stopping.is_set():
                self.report(members, now=True)
                copy = members.offered(name)
                if copy is None:
                    self.stopping.wait(_RETRY)
                    continue
                if useless := copy.applied < least:
                    self._note(
                        StoreUnavailable(
                            f"the copy of the master's database ends with record {copy.applied}, and record"
                            f" {least} is needed: this database keeps its content, and asks again"
                        )
                    )
                    return
                members.fetch(copy, taken, lambda percentage: self._fetched(members, percentage))
                restore(taken, file, kept)
                log.warning(
                    "the database is a copy of the master's now, up to record %d; its old content is in %s",
                    copy.applied,
                    kept,
                )
                self.member = replace(self.member, applied=copy.applied, trouble="")
                return
        except DamagedCopy as error:
            log.warning("%s", error)
        finally:
            self.member = replace(self.member, wants="", fetched=0)
            taken.unlink(missing_ok=True)
            with suppress(StoreError):
                members.drop(name)
            if useless:
                self.report(members, now=True)
                self.stopping.wait(_USELESS)

    def _fetched(self, members: Members, percentage: int) -> None:
        self.member = replace(self.member, fetched=percentage)
        if percentage % 10 == 0:
            log.info("fetching a copy of the master's database: %d %%", percentage)
        self.report(members)

    def report(self, members: Members, *, now: bool = False) -> None:
        """Publish this member's status, at most once per ``_REPORT``."""
        time = self.clock.monotonic()
        if now or time >= self._reported + _REPORT:
            self._reported = time
            with suppress(StoreUnavailable):
                members.report(self.member)

    @property
    def progress(self) -> Progress | None:
        """The listener for the number of records of the first round."""
        return None if self.decided.is_set() else self._progress


class Following:
    """The rounds of a follower with one connection to the servers and one opening of the database."""

    def __init__(self, follower: StreamFollower, server: StreamServer, store: JdbcStore) -> None:
        self._follower = follower
        self._server = server
        self._store = store
        self._members = Members(server)
        self._front = JournalFront(store, follower.config, follower.clock)
        self._overlay, self._binding = self._front.overlay, self._front.binding
        self._before: StreamContents | None = None
        """The contents of the stream at the last round; None before the first one."""
        self._written = follower.clock.monotonic()

    def run(self) -> None:
        """Follow until the follower is stopped; then make a last round, and write all to the database.

        :raises Behind: the database needs a copy
        :raises ConfigurationError: the stream is of another store
        :raises CorruptJournal: it ends before the database's offset, or is damaged
        :raises StoreUnavailable: the servers or the database do not answer
        """
        self._store.begin_journal()
        mark = self._store.journal_mark()
        self._follower.place(0 if mark is None else mark.applied)
        try:
            self._follow()
        except (Behind, CorruptJournal):
            if self._before is not None:
                self._front.checkpoint()  # these records may exist nowhere else
            raise

    def _follow(self) -> None:
        is_last = False
        while True:
            is_first = self._before is None
            try:
                is_complete = self._round(settled=is_first or is_last)
            except CorruptJournal as error:
                # The records may have been released during the read.
                contents = contents_of(self._server, settled=True)
                self._check(contents, max(self._overlay.last_number, self._binding.after))
                if is_first or is_last:
                    raise
                # Or a server has answered that is behind the others: the next attempt finds out.
                raise self._again(error) from error
            self._note(is_complete=is_complete)
            if is_last:
                return
            is_last = self._follower.stopping.wait(ROUND)

    def _round(self, *, settled: bool) -> bool:
        """Apply the records of the stream; return whether none are left. ``settled``: ask a leader with a
        quorum."""
        self._server.find()
        contents = contents_of(self._server, settled=settled)
        before = self._before
        if before is None:
            if not self._begins(contents):
                return not contents.last_number
            self._before = contents
            self._front.writer.log = contents
            self._front.recover(self._follower.progress)
        else:
            self._check(contents, self._overlay.last_number, before.last)
            if contents.ending != before.ending and not before.is_still_there(contents):
                raise self._other(self._overlay.last_number, before.last)
            self._before = contents
            self._front.writer.log = contents
            self._front.follow()
        clock = self._follower.clock
        if self._follower.stopping.is_set() or clock.monotonic() >= self._written + _CHECKPOINT:
            self._front.checkpoint()
            self._written = clock.monotonic()
        return self._overlay.last_number >= contents.last_number

    def _begins(self, contents: StreamContents) -> bool:
        """Bind the database to the stream; return whether there is something to follow.

        Without a stream, or a database of this stream and a first record, there is not. A database that is
        empty, and has applied nothing, is of any stream.
        """
        binding = self._binding
        binding.read_mark()
        mark = binding.mark
        if not contents.journal:
            if contents.is_current():
                self._check_new(mark)
            return False
        is_bound = mark.store and contents.store in (0, mark.store)
        if not is_bound and not mark.applied and self._is_empty():
            if not contents.last_number:
                return False  # a master ended before its first record
            self._check(contents, 0)
            first = decode_record(next(contents.records(0)))[1].operation
            if first is None or first.kind != BEGIN or not first.facts["is_empty"]:
                raise Behind(
                    f"{self._store.place} is new, and the stream does not begin with an empty one",
                    least=contents.first_number - 1,
                )
            binding.adopt(contents)
        elif contents.store not in (0, mark.store):
            raise binding.foreign(contents)
        try:
            binding.bind(contents)
        except CorruptJournal:
            self._check(contents, mark.applied)
            raise
        self._check(contents, binding.after)
        if mark.writer and contents.writer_of(binding.after) not in (None, mark.writer):
            raise self._other(binding.after, contents.last)
        self._note(is_complete=False)  # from now on the master keeps unapplied records
        return True

    def _check_new(self, mark: JournalMark) -> None:
        """Check, where there is no stream, that neither this database nor another one has followed it.

        :raises ConfigurationError: this one has
        :raises StoreUnavailable: this one is empty, and another one has
        """
        place = self._follower.config.place
        if mark.journal:
            raise ConfigurationError(
                f"{place} does not exist, and {self._store.place} has applied it up to record"
                f" {mark.applied}: restore the stream, or go on with the database that has the most records,"
                " by jdbcstore journal adopt on its machine",
                option="journal.stream_name",
            )
        if not self._is_empty():
            return
        for member in self._members.every():
            if member.applied and member.node != self._follower.member.node:
                raise StoreUnavailable(
                    f"{place} does not exist, and the broker {member.node} has applied it up to record"
                    f" {member.applied}, while {self._store.place} is empty: restore the stream, or run"
                    f" jdbcstore journal adopt on the machine of {member.node}. To start over, empty that"
                    " database, too, and start its broker"
                )

    def _is_empty(self) -> bool:
        return not self._store.last_sequence() and not self._store.destinations()

    def _check(self, contents: StreamContents, after: int, last: int = 0) -> None:
        """Check that the stream has all records after a number, and ends behind it.

        :param last: the stream's sequence of a message that it has had
        """
        if contents.first_number > after + 1:
            raise Behind(
                f"{self._store.place} has records up to {after}, and the stream begins with record"
                f" {contents.first_number}: it needs a copy of the master's database",
                least=max(after, contents.first_number - 1),
            )
        if (contents.last_number < after or contents.last < last) and not contents.is_current():
            raise self._again(f"a server was behind, with record {contents.last_number} as the last one")
        if contents.last_number < after:
            raise CorruptJournal(
                f"the stream ends with record {contents.last_number}, and {self._store.place} has applied it"
                f" up to record {after}: its servers have lost their end, or it is an older copy",
                segment=contents.last,
                in_stream=True,
            )

    def _again(self, why: object) -> StoreUnavailable:
        return StoreUnavailable(f"{self._server.connection.place} is read again: {why}")

    def _other(self, number: int, at: int) -> CorruptJournal:
        """Return the error for a record that the stream has lost, and has another one in its place."""
        return CorruptJournal(
            f"record {number} of the stream differs from the record that {self._store.place} applied: its"
            " servers have lost their end, and another broker has written since. Move this database away, and"
            " this broker gets a copy of the master's; jdbcstore audit shows their differences",
            segment=at,
            in_stream=True,
        )

    def _note(self, *, is_complete: bool) -> None:
        follower = self._follower
        follower.member = replace(
            follower.member,
            applied=max(self._front.checkpointer.mark.applied, self._binding.after),
            seen=self._overlay.last_number,
            is_complete=is_complete,
            trouble="",
        )
        is_news = is_complete and not follower.decided.is_set()
        if is_complete:
            follower.decided.set()
        follower.report(self._members, now=is_news or self._before is None)
