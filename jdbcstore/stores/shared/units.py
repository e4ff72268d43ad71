"""What callers hand to the writer: pieces of work that succeed or fail alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from jdbcstore.abc import MessageReference, Outcome
from jdbcstore.database.adapters.sql import Key, Row, Sql
from jdbcstore.errors import LockLost, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.message import openwire
from jdbcstore.message.message import MessageId

if TYPE_CHECKING:
    from jdbcstore.database.connection import Connection
    from jdbcstore.stores.jdbc.acknowledgements import AcknowledgementTracker

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
LOST = (LockLost, StoreClosed, StoreUnavailable)
"""What befalls a write, whatever is in it."""
Name = tuple[str, int]
"""What its producer calls a message: the columns of its id."""
_ROW_OVERHEAD = 512
"""Roughly what a waiting message takes beside its blob."""


class Completion(Protocol[T_contra]):
    """The two ends a unit may come to; a Future is one."""

    def set_result(self, result: T_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Waiter(Generic[T]):
    """A Future for exactly one waiting thread, at a fraction of the cost."""

    __slots__ = ("_exception", "_lock", "_result")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._result: T | None = None
        self._exception: BaseException | None = None

    def set_result(self, result: T, /) -> None:
        self._result = result
        self._lock.release()

    def set_exception(self, exception: BaseException, /) -> None:
        self._exception = exception
        self._lock.release()

    def result(self) -> T:
        """Wait for the end, then return or raise it."""
        self._lock.acquire()
        if self._exception is not None:
            raise self._exception
        return self._result  # type: ignore[return-value]


class EncodedMessage(NamedTuple):
    """A row of ACTIVEMQ_MSGS without its ID; ``slot`` is where the blob holds the broker sequence."""

    message_id: MessageId
    producer: str
    producer_sequence: int
    container: str
    expiration_ms: int
    priority: int
    blob: bytes
    slot: int

    def row(self, sequence: int, xid: str | None = None) -> Row:
        """The row under this ID, which becomes the broker sequence inside the blob as well."""
        return (
            sequence,
            self.container,
            self.producer,
            self.producer_sequence,
            self.expiration_ms,
            self.blob_for(sequence),
            self.priority,
            xid,
        )

    def blob_for(self, sequence: int) -> bytes:
        """The blob with this broker sequence."""
        return openwire.set_broker_sequence(self.blob, self.slot, sequence)


class Write(NamedTuple):
    """One run of a statement."""

    sql: Sql
    row: Row


@dataclass(slots=True)
class Acknowledgement:
    """Messages that one durable subscription has consumed, each with its priority."""

    tracker: AcknowledgementTracker
    messages: list[tuple[int, int]]


def everything(references: list[MessageReference]) -> list[MessageReference]:
    return references


def only(references: list[MessageReference]) -> MessageReference:
    return references[0]


def nothing(_references: list[MessageReference]) -> None:
    return None


@dataclass(slots=True)
class Unit:
    """Writes that commit together or not at all; ``result`` makes their result of the references."""

    result: Callable[[list[Any]], Any] = everything
    completion: Completion[Any] = field(init=False)
    """Set by the writer."""
    adds: list[EncodedMessage] = field(default_factory=list)
    updates: list[Write] = field(default_factory=list)
    removes: list[Key] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    committed: list[Callable[[], None]] = field(default_factory=list)
    """Called once it is committed, before the writer begins anything else."""

    apart: bool = False
    """It is messages alone, and each may fail alone: then its error is in the place of its reference."""
    size: int = 0
    """Roughly the bytes it holds while it waits."""
    taken: bool = False
    """The writer has begun with it, or given it up."""
    withdrawn: bool = False
    """It was cancelled before that."""

    def measure(self) -> int:
        """Find out the size; the unit is complete."""
        size = _ROW_OVERHEAD
        for add in self.adds:
            size += len(add.blob) + _ROW_OVERHEAD
        for _, row in self.updates:
            size += sum(len(value) for value in row if isinstance(value, bytes))
        self.size = size
        return size


def write_apart(
    messages: Sequence[EncodedMessage],
    refusal: StoreError,
    write: Callable[[list[Unit]], list[list[MessageReference]]],
) -> list[Outcome]:
    """The outcomes of messages that were refused together: written by halves, in their order."""
    if len(messages) == 1 or isinstance(refusal, LOST):
        return [refusal] * len(messages)
    middle = len(messages) // 2
    outcomes: list[Outcome] = []
    for half in (messages[:middle], messages[middle:]):
        try:
            [references] = write([Unit(adds=[*half])])
            outcomes += references
        except StoreError as error:
            outcomes += write_apart(half, error, write)
    return outcomes


@dataclass(slots=True)
class Call:
    """A function of the writer's own connection, run alone in a transaction of its own.

    ``count`` runs before, outside the transaction, and says how many sequences it takes; the function
    gets the first. Both may run again when the connection is lost, so they must be idempotent.
    """

    completion: Completion[Any]
    count: Callable[[Connection], int]
    function: Callable[[Connection, int], Any]
    behind: int = 0
    """From here on, no sequence up to this one is given."""
    rows: int = 0
    """Roughly the messages that it adds and removes."""
    size: int = _ROW_OVERHEAD
    adding: Unit | None = None
    """What it adds, for the audit, which leaves duplicates out of it before ``count`` runs."""
    removed: Callable[[], Iterable[Name]] = tuple
    """Messages that it removed and that may come again, for the audit."""

    def measure(self) -> int:
        return self.size


def is_withdrawn(unit: Unit | Call) -> bool:
    """Whether it was cancelled, which it cannot be any more; under the writer's lock."""
    if isinstance(unit, Call):
        return False
    unit.taken = not unit.withdrawn
    return unit.withdrawn
