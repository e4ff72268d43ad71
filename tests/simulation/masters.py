"""A world of masters: processes elect one of them by a lease, which serves queues, topics, transactions."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any, ClassVar

from jdbcstore import Message, StoreConfig
from jdbcstore.abc import Cursor, MessageReference
from jdbcstore.errors import LockLost, OutcomeUnknown, StoreClosed, StoreError, TransactionNotFound
from jdbcstore.lockers import Fence
from jdbcstore.lockers.database import LeaseDatabaseLocker
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.guarded import JournaledJdbcStore
from jdbcstore.stores.jdbc.store import JdbcStore
from tests.simulation.burying import DEAD, stage
from tests.simulation.scheduler import Process, current
from tests.simulation.world import Member, World
from tests.support.histories.checker import Rules
from tests.support.histories.events import Change, Delivery, Left, Master, Outcome, Subscribe, Write

CONFIG = StoreConfig(
    cleanup_period=0,
    reconnect_timeout=3.0,
    adapter="tests.simulation.database:SimulatedAdapter",
    pool_size=20,
)
QUEUES, TOPIC, SUBSCRIPTIONS = ("Q", "R"), "T", ("s", "u")
SCOPES = (*QUEUES, DEAD, *(f"{TOPIC}/{name}" for name in SUBSCRIPTIONS))
Taken = list[tuple[dict[str, MessageReference], str, MessageReference]]
LEASE, KEEP_ALIVE = 1.2, 0.4
Led = JdbcStore | JournaledJdbcStore
"""The store of a master."""


class Broker(Member):
    """A process that serves while it is the master: the store, and what its consumers have."""

    def __init__(self, world: Masters, number: int) -> None:
        super().__init__(world, number)
        self.epoch = 0
        self.cursors: dict[str, Cursor | None] = {}
        self.held: dict[str, dict[str, MessageReference]] = {}
        """By scope, what was delivered and not acknowledged."""

    def _live(self, process: Process) -> None:
        while True:
            try:
                store = self._open()
            except StoreError as error:
                if self._is_for_good(process, error):
                    return
                current().sleep(0.1)
                continue
            self._serve(process, store)

    def _serve(self, process: Process, store: Led) -> None:
        fence = store.fence
        assert fence is not None
        self.cursors = dict.fromkeys(SCOPES)
        self.held = {scope: {} for scope in SCOPES}
        epoch = self.epoch = process.epoch = self._epoch_of(store, fence)
        self.world.note(Master(current().now, process.name, epoch))
        self.world.trace("master", process.name, epoch=epoch)
        self.store = store
        for _ in range(self.workers):
            self.wake()
        self._hold(process, store, fence)
        if self.store is store:
            self.store = None
        self.world.trace("deposed", process.name, epoch=epoch)
        with contextlib.suppress(StoreError):
            store.close(5)

    def _epoch_of(self, store: Led, fence: Fence) -> int:  # noqa: ARG002
        """Return the number of a master, higher than that of each before."""
        return fence.epoch

    def _is_for_good(self, process: Process, error: StoreError) -> bool:  # noqa: ARG002
        """Whether a store that does not open is not tried again."""
        return False

    def _hold(self, process: Process, store: Led, fence: Fence) -> None:  # noqa: ARG002
        """Wait until it may not be the master any more."""
        fence.wait_lost()

    def _open(self) -> Led:
        return JdbcStore(self.world.server.url, CONFIG, clock=self.clock, locker=self._locker())

    def _locker(self) -> LeaseDatabaseLocker:
        return LeaseDatabaseLocker(
            name=f"broker-{self.number}",
            lock_acquire_sleep_interval=LEASE,
            lock_keep_alive_period=KEEP_ALIVE,
            clock=self.clock,
        )

    def do_send(self, client: str, chance: random.Random) -> None:
        store, epoch = self.store, self.epoch
        queue = chance.choice(QUEUES)
        names = [self.world.new_name(client) for _ in range(chance.choice((1, 1, 1, 3)))]
        messages = [Message(name) for name in names]

        def send() -> None:
            if len(messages) == 1:
                store.queue(queue).add_message(messages[0])
            else:
                store.queue(queue).add_messages(messages)

        self.write(client, send, sends=[(queue, name) for name in names], epoch=epoch)

    def do_publish(self, client: str, _chance: random.Random) -> None:
        store, epoch, name = self.store, self.epoch, self.world.new_name(client)
        self.write(
            client, lambda: store.topic(TOPIC).add_message(Message(name)), sends=[(TOPIC, name)], epoch=epoch
        )

    def _source(self, store: JdbcStore, scope: str) -> Any:
        topic, _, name = scope.partition("/")
        return store.topic(topic).subscription("client", name) if name else store.queue(topic)

    def _serving(self) -> JdbcStore:
        """Return the open store.

        :raises StoreClosed: there is none
        """
        if self.store is None:
            raise StoreClosed
        store: JdbcStore = self.store
        return store

    def do_receive(self, client: str, chance: random.Random) -> None:  # noqa: ARG002
        self.receive(chance.choice(SCOPES), chance.choice((1, 2, 5)))

    def receive(self, scope: str, limit: int) -> bool:
        """Deliver a page; whether there may be more."""
        store, held, cursors, epoch = self._serving(), self.held, self.cursors, self.epoch
        cursor = cursors[scope]
        page = self._source(store, scope).recover(limit, cursor)
        if store is not self.store or cursors is not self.cursors or cursors[scope] is not cursor:
            return True  # another worker has read on meanwhile
        cursors[scope] = page.cursor
        world = self.world
        assert isinstance(world, Masters)
        for message in page:
            name = str(message.body)
            if name in held[scope]:
                continue
            assert message.sequence is not None
            assert message.message_id is not None
            held[scope][name] = MessageReference(message.sequence, message.message_id)
            again = (scope, name) in world.delivered
            world.delivered.add((scope, name))
            world.note(
                Delivery(
                    current().now,
                    f"{self.name}:{epoch}",
                    scope,
                    name,
                    again,
                    message_id=str(message.message_id),
                )
            )
        return not page.at_end

    def do_acknowledge(self, client: str, chance: random.Random) -> None:
        self.acknowledge(client, chance.choice(SCOPES), chance.choice((1, 1, 3)))

    def acknowledge(self, client: str, scope: str, count: int) -> None:
        """Acknowledge the first messages that are held."""
        held, source = self.held[scope], self._source(self._serving(), scope)
        names = [*held][:count]
        if not names:
            return
        references = [held.pop(name) for name in names]
        acks = tuple((scope, name) for name in names)
        try:
            self.write(client, lambda: source.acknowledge(*references), acks=acks, epoch=self.epoch)
        except StoreError:
            held.update(zip(names, references, strict=True))
            raise

    def _fill(self, transaction: Any, client: str, chance: random.Random, taken: Taken) -> dict[str, Any]:
        """Add sends and acknowledgements to a transaction; which they are. ``taken`` is what was held."""
        sends: list[tuple[str, str]] = []
        acks: list[tuple[str, str]] = []
        for queue in QUEUES:
            if chance.random() < 0.6:
                name = self.world.new_name(client)
                transaction.queue(queue).add_message(Message(name))
                sends.append((queue, name))
        if chance.random() < 0.3:
            name = self.world.new_name(client)
            transaction.topic(TOPIC).add_message(Message(name))
            sends.append((TOPIC, name))
        for scope in SCOPES:
            held = self.held[scope]
            if held and chance.random() < 0.5:
                name = next(iter(held))
                reference = held.pop(name)
                taken.append((held, name, reference))
                topic, _, subscription = scope.partition("/")
                if subscription:
                    transaction.topic(topic).acknowledge_subscription("client", subscription, reference)
                else:
                    transaction.queue(topic).acknowledge(reference)
                acks.append((scope, name))
        return {"sends": tuple(sends), "acks": tuple(acks)}

    def do_transaction(self, client: str, chance: random.Random) -> None:
        transaction, epoch = self.store.transaction(), self.epoch
        taken: Taken = []
        try:
            facts = self._fill(transaction, client, chance, taken)
            self.write(client, transaction.commit, epoch=epoch, **facts)
        except StoreError:
            for held, name, reference in taken:
                held[name] = reference
            raise

    def do_bury(self, client: str, chance: random.Random) -> None:
        """Move a message that was rejected to the dead letters, as the broker does."""
        world, store, epoch = self.world, self._serving(), self.epoch
        assert isinstance(world, Masters)
        scope = chance.choice(QUEUES)
        held = self.held[scope]
        # One whose move has an unknown outcome may be a dead letter already.
        name = next((name for name in held if (scope, name) not in world.buried), None)
        if name is None:
            return
        reference = held.pop(name)
        world.buried.add((scope, name))
        transaction = store.transaction()
        try:
            message = store.queue(scope).get_message(reference.sequence)
            stage(transaction, store, self.clock, scope, message)
            transaction.queue(scope).acknowledge(reference)
            moved, gone = [(DEAD, name)], ((scope, name),)
            self.write(client, transaction.commit, sends=moved, acks=gone, epoch=epoch)
        except StoreError:
            held[name] = reference
            raise

    def do_prepare(self, client: str, chance: random.Random) -> None:
        world, store, epoch = self.world, self.store, self.epoch
        assert isinstance(world, Masters)
        xid = XATransactionId(1, world.new_name("x").encode(), b"b")
        transaction = store.xa.start(xid)
        # Messages of a prepared transaction get their place in the order when it is committed.
        taken: Taken = []
        try:
            facts = self._fill(transaction, f"{client}x{len(world.branches)}", chance, taken)
        except StoreError:
            for held, name, reference in taken:
                held[name] = reference
            raise
        world.restored.update(facts["acks"], facts["sends"])
        branch = world.branches[xid] = Branch(world, client, current().now, facts)
        branch.note(transaction.prepare, "prepared", epoch)

    def do_complete(self, client: str, chance: random.Random) -> None:
        world, store, epoch = self.world, self.store, self.epoch
        assert isinstance(world, Masters)
        del client  # the branch has its own
        for prepared in store.xa.recover()[:1]:
            self.complete(
                store, world.branches[prepared.xid], prepared.xid, epoch, commits=chance.random() < 0.7
            )

    def complete(
        self, store: JdbcStore, branch: Branch, xid: XATransactionId, epoch: int, *, commits: bool
    ) -> None:
        """Commit or roll back a prepared transaction."""
        if branch.decision not in (None, commits):
            commits = not commits  # a manager of transactions does not change its mind
        branch.decision = commits
        if commits:
            branch.note(lambda: store.xa.commit(xid), "committed", epoch)
        else:
            branch.note(lambda: store.xa.rollback(xid), "rolled back", epoch)


class Branch:
    """A distributed transaction, and what is known about it."""

    def __init__(self, world: Masters, client: str, begun: float, facts: dict[str, Any]) -> None:
        self.world, self.client, self.begun, self.facts = world, client, begun, facts
        self.decision: bool | None = None
        self.states: dict[str, Outcome] = {}
        self.ended = begun
        self.epoch = 0

    def note(self, run: Callable[[], Any], what: str, epoch: int) -> None:
        """Run a phase, and note its outcome."""
        outcome = Outcome.UNKNOWN
        try:
            result = run()
            outcome = Outcome.FAILED if result is False else Outcome.OK
        except TransactionNotFound:
            # It was completed by an attempt before.
            outcome = Outcome.UNKNOWN
        except OutcomeUnknown:
            raise
        except LockLost as error:
            outcome = Outcome.UNKNOWN if error.in_doubt else Outcome.FAILED
            raise
        except StoreError:
            outcome = Outcome.FAILED
            raise
        finally:
            before = self.states.get(what)
            if before is None or outcome is Outcome.OK or before is Outcome.FAILED:
                self.states[what] = outcome
            self.ended = current().now
            if outcome is Outcome.OK:
                self.epoch = epoch
            self.world.trace(what, self.client, outcome=outcome.value, epoch=epoch)

    def write(self, *, is_prepared: bool) -> Write:
        """Return the transaction as it ended, now that nothing can happen to it any more."""
        states, ok, unknown = self.states, Outcome.OK, Outcome.UNKNOWN
        if states.get("committed") is ok:
            outcome = ok
        elif is_prepared or states.get("rolled back") is ok:
            outcome = Outcome.FAILED
        elif states.get("committed") is unknown:
            outcome = ok if states.get("prepared") is ok else unknown
        else:
            outcome = Outcome.FAILED
            if states.get("prepared") is ok and states.get("rolled back") is not unknown:
                self.world.problem(f"a prepared transaction of {self.client} is gone: {states}")
        return Write(self.begun, self.ended, self.client, outcome, **self.facts)


class Masters(World):
    """Two brokers on one database."""

    operations: ClassVar = {
        "send": 8,
        "publish": 4,
        "receive": 9,
        "acknowledge": 7,
        "transaction": 4,
        "prepare": 2,
        "complete": 2,
        "bury": 4,
    }
    # Dead letters come in the order in which they were rejected.
    rules = Rules(is_drained=True, unordered=frozenset([DEAD]))

    def prepare(self) -> None:
        self.delivered: set[tuple[str, str]] = set()
        self.restored: set[tuple[str, str]] = set()
        """What a rollback puts back, behind those who have read past its place."""
        self.branches: dict[XATransactionId, Branch] = {}
        self.buried: set[tuple[str, str]] = set()
        """What a broker has begun to make a dead letter."""
        self.members = self.new_members()
        for broker in self.members:
            broker.start()
        self.server.on_change = self._note_change
        if self.traced is not None:
            self.last_epoch = 0
            self.server.on_commit = self._trace_epoch
        self.scheduler.wait_until(lambda: self.master is not None, 60)
        for name in SUBSCRIPTIONS:
            while not self._subscribe(name):
                self.scheduler.sleep(0.05)
            self.note(Subscribe(self.scheduler.now, f"{TOPIC}/{name}", TOPIC))

    def new_members(self) -> list[Broker]:
        """Return the processes, which are not started yet."""
        return [Broker(self, number) for number in range(self.members_count)]

    def _note_change(self, process: Process) -> None:
        if process.epoch:
            self.note(Change(self.scheduler.now, "messages", process.name, process.epoch, is_removed=True))
            self.trace("changed", process.name, epoch=process.epoch)

    def _trace_epoch(self, process: Process) -> None:
        for (epoch,) in self.server.rows("SELECT NUMBER FROM JDBCSTORE_STATE WHERE NAME = 'epoch'"):
            if epoch != self.last_epoch:
                self.last_epoch = epoch
                self.trace("epoch", process.name, epoch=epoch)

    def _subscribe(self, name: str) -> bool:
        broker = self.master
        if broker is None:
            return False
        try:
            broker.store.topic(TOPIC).subscribe("client", name)
        except StoreError:
            return False
        return True

    @property
    def master(self) -> Broker | None:
        """The member that believes to be the master; if there are two, the later one."""
        serving = [broker for broker in self.members if broker.store is not None]
        return max(serving, key=lambda broker: broker.epoch, default=None)

    def ask(self, step: Any) -> None:
        # Clients go to whoever serves, in the belief of that one.
        serving = [broker for broker in self.members if broker.store is not None]
        broker = serving[step.who % len(serving)] if serving else self.members[step.who]
        broker.give(step)

    def is_idle(self) -> bool:
        working = any(broker.busy or (broker.store is not None and broker.waiting) for broker in self.members)
        return self.master is not None and not working

    def drain(self) -> None:
        """Let the last master complete, deliver and acknowledge everything."""
        scheduler = self.scheduler
        for _ in range(20):
            scheduler.wait_until(self.is_idle, 60)
            broker = self.master
            if broker is None:
                continue
            try:
                store = broker.store
                for prepared in store.xa.recover():
                    branch = self.branches[prepared.xid]
                    broker.complete(store, branch, prepared.xid, broker.epoch, commits=True)
                for scope in SCOPES:
                    self._consume(broker, scope)
                    first, broker.cursors[scope] = len(self.history), None
                    self._consume(broker, scope)
                    for event in self.history[first:]:
                        if isinstance(event, Delivery) and (scope, event.name) not in self.restored:
                            self.problem(f"a page of {scope} has skipped {event.name}")
            except StoreError:
                scheduler.sleep(0.5)
                continue
            return
        self.problem("nothing could be drained")

    @staticmethod
    def _consume(broker: Broker, scope: str) -> None:
        while broker.receive(scope, 3):
            pass
        while broker.held[scope]:
            broker.acknowledge(f"{broker.name}d", scope, 5)

    def end(self) -> None:
        super().end()
        prepared = {
            bytes(row[0]) if isinstance(row[0], bytes) else row[0]
            for row in self.server.rows("SELECT XID FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL")
        }
        for branch in self.branches.values():
            self.note(branch.write(is_prepared=False))
        if prepared:
            self.problem(f"transactions are left: {prepared}")
        self._note_left()

    def _note_left(self) -> None:
        from jdbcstore.message import openwire

        rows = self.server.rows("SELECT ID, CONTAINER, MSG FROM ACTIVEMQ_MSGS ORDER BY ID")
        for id_, container, blob in rows:
            name = str(openwire.decode(bytes(blob), sequence=id_, container=container).body)
            kind, _, place = container.partition("://")
            if kind == "queue":
                self.note(Left(place, name))
