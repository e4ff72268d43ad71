"""Defects put into the product on purpose, each of which the simulation has to find."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from nats.errors import Error as NatsError

from jdbcstore.abc import Cursor, Page
from jdbcstore.broker.queues import dead_letters
from jdbcstore.database.adapters.sql import UNGUARDED
from jdbcstore.database.connection import Connection
from jdbcstore.database.schema import EPOCH_ROW
from jdbcstore.errors import ClaimLost, LockLost, StoreError, StoreUnavailable
from jdbcstore.journal.layout import Record
from jdbcstore.journal.storage import Segments
from jdbcstore.journal.stream import log as stream_log
from jdbcstore.journal.stream import server
from jdbcstore.journal.stream.connection import ANSWER
from jdbcstore.journal.stream.pieces import head_at
from jdbcstore.lockers import mastership
from jdbcstore.lockers.inspection import last_epoch
from jdbcstore.lockers.mastership import Fence, Mastership
from jdbcstore.message.inserted import InsertedMessage
from jdbcstore.plugins import kombu, sharing
from jdbcstore.stores.claims import flow, joined, keys, settling, taking
from jdbcstore.stores.claims import queue as claim_queue
from jdbcstore.stores.claims.database import ClaimDatabase
from jdbcstore.stores.claims.held import HeldClaims
from jdbcstore.stores.claims.outbox import OutboxMover
from jdbcstore.stores.jdbc.outbox import OutboxTable
from jdbcstore.stores.jdbc.queue import JdbcMessageStore
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.jdbc.writer.committer import Committer, _Attempts
from jdbcstore.stores.journaled import checkpointer
from jdbcstore.stores.journaled.checkpointer import Checkpointer
from jdbcstore.stores.journaled.front import JournalFront
from jdbcstore.stores.journaled.recovery import JournalBinding
from jdbcstore.stores.replicated import copying, follower
from jdbcstore.stores.shared.checkpoint import Changes
from tests.simulation.database import server_at


class Mutation(NamedTuple):
    """A defect: which world finds it, and how it gets there."""

    world: str
    patches: Callable[[], list[tuple[Any, str, Any]]]
    """Object, attribute and what is put in its place."""
    begin: int = 0
    """The seed from which it is looked for: those before are known not to find it."""


def _skip_fence() -> list[tuple[Any, str, Any]]:
    guards = Connection._guards

    def unguarded(self: Connection, block: Any, epoch: Any, *, long: bool) -> Any:  # noqa: ARG001
        return guards(self, block, None, long=long) if block is not None else UNGUARDED

    return [(Connection, "_guards", unguarded), (Fence, "check", lambda _: None)]


def _follow_anything() -> list[tuple[Any, str, Any]]:
    start = Connection.start_write

    def unguarded(self: Connection, batch: Any, block: Any = None, ahead: Any = None) -> Any:
        return start(self, batch, block, ahead and ahead._replace(guard=None))

    return [(Connection, "start_write", unguarded)]


def _confirm_anything() -> list[tuple[Any, str, Any]]:
    return [(Committer, "confirm", lambda _self, begun, _error: begun)]


def _reuse_epoch() -> list[tuple[Any, str, Any]]:
    def end(self: Mastership, connection: Connection, _last: int) -> bool:
        number = last_epoch(self._session, connection)
        return connection.change(self._sql.begin_epoch, epoch_row=EPOCH_ROW, old=number, new=1) == 1

    return [(Mastership, "_end_epoch", end), (mastership, "last_epoch", lambda *_: 0)]


def _skip_in_pages() -> list[tuple[Any, str, Any]]:
    recover = JdbcMessageStore.recover

    def skipping(self: JdbcMessageStore, limit: int = 500, after: Cursor | None = None) -> Page:
        page = recover(self, limit, after)
        if page.at_end or len(page) < 2:
            return page
        cursor = Cursor(tuple(position + 1 for position in page.cursor.positions))
        return Page(page.messages, cursor, page.at_end, page.corrupt)

    return [(JdbcMessageStore, "recover", skipping)]


def _claim_without_lease() -> list[tuple[Any, str, Any]]:
    return [(settling, "_check", lambda _ids, _mine: [*_mine])]


def _acknowledge_apart() -> list[tuple[Any, str, Any]]:
    def apart(self: Any, queue: str, *claims: Any) -> None:
        self._claims.queue(queue).acknowledge(*claims)

    return [(joined.JoinedTransaction, "acknowledge", apart)]


def _join_what_is_lost() -> list[tuple[Any, str, Any]]:
    return [(joined.JoinedTransaction, "_hold", lambda *_: None)]


def _newest_of_two_leases() -> list[tuple[Any, str, Any]]:
    ids_of = settling.ids_of

    def of(claims: Any, lease: Any) -> Any:
        newest = claims[-1].session if claims else 0
        if older := sorted({claim.sequence for claim in claims if claim.session != newest}):
            raise ClaimLost(tuple(older))
        return ids_of(claims, lease)

    return [(module, "ids_of", of) for module in (settling, claim_queue, joined)]


def _look_before_the_lock() -> list[tuple[Any, str, Any]]:
    take = taking.Taking.take_limited
    rooms: dict[int, Any] = {}

    def looked(self: Any, connection: Connection, **values: Any) -> Any:
        found = connection.fetch(self._flow._sql.find, container=self._container)
        if found:
            rooms[id(connection)] = self._flow._room(connection, flow._Stored(*found[0]), values["limit"])
        return take(self, connection, **values)

    def unlocked(self: Any, connection: Connection, limit: int, after: int) -> Any:  # noqa: ARG001
        return flow.Seen(rooms.pop(id(connection), flow.Room(limit)), has_more=True)

    return [(taking.Taking, "take_limited", looked), (flow.QueueFlow, "lock", unlocked)]


def _forget_held_keys() -> list[tuple[Any, str, Any]]:
    return [(keys.KeyedTaking, "held", lambda *_: Counter[str]())]


def _forget_tokens() -> list[tuple[Any, str, Any]]:
    draw = flow.QueueFlow.draw

    def drawn(self: Any, connection: Connection, room: Any, taken: int, turn: Any) -> None:
        draw(self, connection, room, min(taken, 1), turn)

    return [(flow.QueueFlow, "draw", drawn)]


def _lose_count() -> list[tuple[Any, str, Any]]:
    back = claim_queue.ClaimQueue._return

    def uncounted(self: Any, claims: Any, delay: float, failures: int, dead: Any = ()) -> None:  # noqa: ARG001
        back(self, claims, delay, 0, dead)

    return [(claim_queue.ClaimQueue, "_return", uncounted)]


def _bury_apart() -> list[tuple[Any, str, Any]]:
    stage = dead_letters.DeadLetters._stage

    def apart(self: Any, _written: Any, source: Any, *arguments: Any) -> Any:
        with source.store.transaction() as own:
            return stage(self, own, source, *arguments)

    return [(dead_letters.DeadLetters, "_stage", apart)]


def _believe_in_commit() -> list[tuple[Any, str, Any]]:
    return [(_Attempts, "_was_committed", lambda *_: True)]


def _repeat_commit() -> list[tuple[Any, str, Any]]:
    return [(_Attempts, "_was_committed", lambda *_: False)]


def _leave_lost() -> list[tuple[Any, str, Any]]:
    return [(Committer, "_end_lost", lambda self, _: self._lost.clear())]


def _acknowledge_unsynced() -> list[tuple[Any, str, Any]]:
    write = Segments.write

    def unsynced(self: Any, batch: Any) -> None:
        syncs, self._syncs_always = self._syncs_always, False
        try:
            write(self, batch)
        finally:
            self._syncs_always = syncs

    return [(Segments, "write", unsynced)]


def _mark_ahead() -> list[tuple[Any, str, Any]]:
    apply = Checkpointer.apply

    def ahead(self: Checkpointer, changes: Changes) -> None:
        if changes.adds or changes.removes:
            mark = self.mark
            apply(self, Changes(replace(changes.mark, written=mark.written)))
        apply(self, changes)

    return [(Checkpointer, "apply", ahead)]


def _forget_destination() -> list[tuple[Any, str, Any]]:
    changes_of = checkpointer.changes_of

    def forgetful(*arguments: Any) -> list[Changes]:
        return [
            replace(changes, adds=[add for add in changes.adds if add[1].container != "queue://R"])
            for changes in changes_of(*arguments)
        ]

    return [(checkpointer, "changes_of", forgetful)]


def _open_beside() -> list[tuple[Any, str, Any]]:
    return [(JdbcStore, "begin_journal", lambda _: None)]


def _forget_unreleased() -> list[tuple[Any, str, Any]]:
    def release(_: Any, queue: Any, claims: Any) -> None:
        with contextlib.suppress(StoreError):
            sharing.settle(queue.release, [*claims])

    return [(sharing.SharedClaims, "release", release), (ClaimDatabase, "return_unknown", lambda _: None)]


def _return_again() -> list[tuple[Any, str, Any]]:
    blind = [(HeldClaims, name, lambda *_: None) for name in ("begin", "check")]
    return [*blind, *((one, "OutcomeUnknown", LockLost) for one in (kombu, sharing))]


def _close_and_keep() -> list[tuple[Any, str, Any]]:
    return [(kombu.Deliveries, "release", lambda self: self._claims.clear())]


def _believe_in_refusal() -> list[tuple[Any, str, Any]]:
    publish = server.StreamServer._publish

    async def hasty(self: Any, message: bytes, after: int) -> Any:
        failure = await publish(self, message, after)
        return self.connection.unavailable(failure) if isinstance(failure, TimeoutError) else failure

    return [(server.StreamServer, "_publish", hasty)]


def _refuse_in_doubt() -> list[tuple[Any, str, Any]]:
    return [(server, "OutcomeUnknown", StoreUnavailable)]


def _append_anywhere() -> list[tuple[Any, str, Any]]:
    async def anywhere(self: Any, message: bytes, _after: int) -> Any:
        try:
            await self.connection.js.publish(self._subject, message, timeout=ANSWER, stream=self.name)
        except (NatsError, TimeoutError) as error:
            return error

    return [(server.StreamServer, "_publish", anywhere)]


def _release_ahead() -> list[tuple[Any, str, Any]]:
    release = stream_log.StreamLog.release

    def ahead(self: Any, _up_to: int) -> None:
        release(self, self.last_number)

    return [(stream_log.StreamLog, "release", ahead)]


def _take_half() -> list[tuple[Any, str, Any]]:
    found = stream_log._found

    def whole(one: Any, state: Any, **options: Any) -> Any:
        ending = head_at(state.last, one.message(state.last))
        return replace(found(one, state, **options), ending=ending, torn=None)

    return [(stream_log, "_found", whole)]


def _believe_old_leader() -> list[tuple[Any, str, Any]]:
    async def believing(_: Any, read: Callable[[], Awaitable[Any]]) -> Any:
        return await read()

    return [(server.StreamServer, "_settled", believing), *_doubt_nothing()]


def _doubt_nothing() -> list[tuple[Any, str, Any]]:
    async def believing(self: Any, read: Callable[[], Awaitable[tuple[Any, bool]]]) -> Any:
        return (await self._settled(read))[0]

    return [
        (server.StreamServer, "_surely", believing),
        (stream_log.StreamContents, "is_current", lambda _: True),
    ]


def _skip_a_record() -> list[tuple[Any, str, Any]]:
    records = stream_log.StreamContents.records

    def skipping(self: Any, after: int, **options: Any) -> Iterator[Record]:
        is_followed = "ignore_missing" not in options
        yield from (one for one in records(self, after, **options) if one.number % 5 or not is_followed)

    return [(stream_log.StreamContents, "records", skipping)]


def _serve_early() -> list[tuple[Any, str, Any]]:
    look, run = follower.Following._round, JournalFront.recover

    def early(self: Any, *, settled: bool) -> bool:
        return self._follower.stopping.is_set() or look(self, settled=settled)

    def believing(self: Any, progress: Any) -> None:
        if not isinstance(self.writer.log, stream_log.StreamContents):
            self.binding.after = self.writer.log.last_number
        run(self, progress)

    return [(follower.Following, "_round", early), (JournalFront, "recover", believing)]


def _apply_twice() -> list[tuple[Any, str, Any]]:
    def bind(self: JournalBinding, found: Any) -> None:
        self.after = max(self.check(found) - 1, 0)

    return [(JournalBinding, "bind", bind)]


def _copy_without_mark() -> list[tuple[Any, str, Any]]:
    restore = copying.restore

    def unmarked(copy: Path, file: Path, kept: Path) -> None:
        restore(copy, file, kept)
        here = server_at(f"sqlite:///{file}")
        assert here is not None
        here.fill("DELETE FROM JDBCSTORE_STATE WHERE NAME LIKE ?", [("journal%",)])

    return [(follower, "restore", unmarked)]


def _follow_old_leader() -> list[tuple[Any, str, Any]]:
    return [
        (follower, "contents_of", lambda one, **_: stream_log.contents_of(one)),
        (stream_log.StreamContents, "is_current", lambda _: True),
    ]


def _move_rows(*, together: bool) -> list[tuple[Any, str, Any]]:
    def write(self: OutboxMover, connection: Connection, ready: Any, *_: Any) -> None:
        for sql, values in self._table.removals([each.row for each in ready]):
            connection.execute(sql, **values)
        if not together:
            connection._writing.commit(connection.cursor)
            connection.begin()
        self._database.adder.add_rows(connection, [each.encoded for each in ready])

    return [(OutboxMover, "_write", write)]


def _skip_late_rows() -> list[tuple[Any, str, Any]]:
    read, seen = OutboxTable.read, WeakKeyDictionary[OutboxTable, int]()

    def skipping(self: OutboxTable, *arguments: Any) -> list[InsertedMessage]:
        rows = [row for row in read(self, *arguments) if row.row_id > seen.get(self, 0)]
        if rows:
            seen[self] = rows[-1].row_id
        return rows

    return [(OutboxTable, "read", skipping)]


MUTATIONS: dict[str, Mutation] = {
    "skip the fence": Mutation("masters", _skip_fence),
    "reuse an epoch": Mutation("masters", _reuse_epoch),
    "a batch written although the one before it was not": Mutation("ahead", _follow_anything),
    "a batch judged without the one before it": Mutation("ahead", _confirm_anything),
    "a page that skips": Mutation("masters", _skip_in_pages),
    "a commit in doubt taken for done": Mutation("masters", _believe_in_commit),
    "a commit in doubt taken for not done": Mutation("masters", _repeat_commit),
    "a lost session that is not ended": Mutation("masters", _leave_lost),
    "a dead letter in a transaction of its own": Mutation("masters", _bury_apart, 130),
    "acknowledge before the sync": Mutation("journal", _acknowledge_unsynced),
    "a mark ahead of a commit": Mutation("journal", _mark_ahead),
    "a checkpoint that forgets a destination": Mutation("journal", _forget_destination),
    "a journal opened beside a checkpoint": Mutation("journal", _open_beside),
    "a claim without its lease": Mutation("claims", _claim_without_lease),
    "a joined acknowledgement apart": Mutation("flow", _acknowledge_apart),
    "a joined claim that is lost": Mutation("flow", _join_what_is_lost, 90),
    "the newest of two leases taken for the one that runs": Mutation("flow", _newest_of_two_leases, 150),
    "a limit looked at before the lock": Mutation("flow", _look_before_the_lock),
    "a key whose claims are not counted": Mutation("flow", _forget_held_keys),
    "a token for several claims": Mutation("flow", _forget_tokens),
    "a row removed before its message is added": Mutation("outbox", partial(_move_rows, together=False)),
    "a row moved that another process has removed": Mutation("outbox", partial(_move_rows, together=True)),
    "a row passed over that is committed late": Mutation("outbox", _skip_late_rows),
    "a return that is not tried again": Mutation("kombu", _forget_unreleased),
    "a return in doubt that is made again": Mutation("kombu", _return_again, 6350),
    "a channel that keeps what it was delivered": Mutation("kombu", _close_and_keep),
    "a redelivery count lost": Mutation("claims", _lose_count),
    "a lost answer taken for a refusal": Mutation("streamed", _believe_in_refusal),
    "an append in doubt taken for refused": Mutation("streamed", _refuse_in_doubt),
    "an append without the expected sequence": Mutation("streamed", _append_anywhere),
    "a release ahead of the mark": Mutation("streamed", _release_ahead),
    "half a unit taken for whole": Mutation("streamed", _take_half),
    "an old leader believed": Mutation("streamed", _believe_old_leader, 150),
    "a follower that skips a record": Mutation("replicated", _skip_a_record),
    "a master that serves before the end": Mutation("replicated", _serve_early),
    "a record applied twice": Mutation("replicated", _apply_twice),
    "a copy without its mark": Mutation("replicated", _copy_without_mark),
    "an old leader followed": Mutation("replicated", _follow_old_leader, 80),
    "a leader believed that was elected after the purge": Mutation("replicated", _doubt_nothing),
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[Mutation]:
    """Have a defect in the product for a while."""
    mutation = MUTATIONS[name]
    patches = mutation.patches()
    before = [(target, attribute, vars(target)[attribute]) for target, attribute, _ in patches]
    for target, attribute, value in patches:
        setattr(target, attribute, value)
    try:
        yield mutation
    finally:
        for target, attribute, value in before:
            setattr(target, attribute, value)
