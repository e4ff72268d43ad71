"""A stream on its servers: checked, appended to, read and purged."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from datetime import datetime
from functools import partial
from http.client import HTTPException
from typing import Any, NamedTuple, TypeVar
from urllib.request import urlopen

from nats.errors import Error as NatsError
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamInfo,
)
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import (
    ConfigurationError,
    JournalFailed,
    LockLost,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from jdbcstore.journal.abc import LogMoved
from jdbcstore.journal.stream.connection import ANSWER, FULL, PATIENCE, PAUSE, NatsConnection
from jdbcstore.journal.stream.pieces import PieceHead, is_foreign

log = logging.getLogger(__name__)

T = TypeVar("T")

_MARGIN = 1024
"""Bytes of a message that headers of the protocol may take."""
_READ_AT_ONCE = 16
"""Messages in one request; each may be as large as the servers take."""
_LEAST_ROOM = 4096
"""Bytes that a message may have at least: less is mostly headers."""
_WRONG_LAST, _STORE_FAILED, _TOO_LONG = 10071, 10077, 10054
_SYNCS_SINCE = (2, 10)
"""The version of nats-server that can sync before it acknowledges."""


class StreamState(NamedTuple):
    """The messages of a stream, by their sequences in it."""

    first: int
    last: int
    """The last message ever written; lower than ``first`` if the stream is empty."""
    size: int
    """Bytes."""
    gaps: int = 0
    """Messages that were deleted between the two."""


class StreamServer:
    """A stream on its servers: checked, and created if it is to be written and does not exist. Thread-safe.

    Only one thread at a time appends. Requests are repeated while the servers elect, or cannot be
    reached, for half a minute.

    :raises ConfigurationError: the stream or its servers contradict the configuration
    :raises StoreUnavailable: they do not answer
    """

    def __init__(self, config: JournalConfig, *, create: bool = True) -> None:
        self._config = config
        self.name = config.stream_name
        """The name of the stream."""
        self.replicas = config.replicas
        """The servers that it is to be on."""
        self._subject = _subject_of(config)
        self.exists = False
        """Whether there was such a stream, or is now; it may be deleted since."""
        self._longest = 0
        """Bytes of a message, if the stream limits them."""
        self.max_bytes = 0
        """Bytes of all messages, if the stream limits them."""
        self._created: datetime | None = None
        """When the stream was created; None until its state was looked at."""
        self.connection = NatsConnection(config)
        """The connection, which others may share."""
        self._place = config.place
        try:
            self.connection.run(self._find(create=create))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    async def _find(self, *, create: bool) -> None:
        """Find or create the stream, and check it."""
        info = await self._info(create=create)
        if info is None:
            return
        self.exists = True
        self._check_fit(info)
        if self._config.sync == "quorum_disk":
            await _check_syncs(self.connection, self._config)

    async def _info(self, *, create: bool) -> StreamInfo | None:
        try:
            return await self.connection.asked(lambda js: js.stream_info(self.name))
        except NotFoundError:
            if not create:
                return None
        wanted = StreamConfig(
            name=self.name,
            subjects=[self._subject],
            description="the log of a journal of jdbcstore: it alone may write here",
            discard=DiscardPolicy.NEW,
            num_replicas=self.replicas,
        )
        return await self.connection.asked(lambda js: js.add_stream(wanted))

    def find(self) -> bool:
        """Look for the stream once more, if it did not exist; return whether it does."""
        if not self.exists:
            self.connection.run(self._find(create=False))
        return self.exists

    def full(self) -> StoreUnavailable:
        """Return the error for a stream that has no room for more than marks."""
        return self.connection.full(f"max_bytes is {self.max_bytes}")

    @property
    def room(self) -> int:
        """The bytes that one message may have."""
        longest = self.connection.max_payload
        return (min(longest, self._longest) if self._longest else longest) - _MARGIN

    def state(self, *, settled: bool = False) -> StreamState:
        """Return the state of the stream; ``settled``: only a leader with a quorum may answer.

        :raises StoreUnavailable: the servers do not answer
        """
        return self.connection.run(self._settled(self._state) if settled else self._state())

    async def _state(self) -> StreamState:
        state = (await self._now()).state
        return StreamState(max(state.first_seq, 1), state.last_seq, state.bytes, gaps_of(state))

    def goes_on(self, after: int) -> bool:
        """Return whether there are messages after a sequence; if not, it was asked for half a minute.

        :raises StoreUnavailable: the servers do not answer
        """
        return self.connection.run(self._surely(lambda: self._with(after + 1))).last > after

    async def _with(self, at: int) -> tuple[StreamState, bool]:
        """Return the state of the stream, and whether it ever had a message."""
        state = await self._state()
        return state, state.last >= at

    async def _now(self) -> StreamInfo:
        """Return the answer of the current leader."""
        info = await self._found(self.connection.asked(lambda js: js.stream_info(self.name)))
        self._check_same(info)
        self._check_fit(info)
        return info

    async def _settled(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of a leader with a quorum, unless it is elected just then.

        Another server may answer reads with an older state: an isolated leader needs ten seconds to notice
        that the others have elected, and a new one may not have applied all decisions. A quorum has to agree
        to a purge, also to this one, which removes nothing. But no answer names the servers that agreed.
        """
        nothing = f"{self._subject}.none"
        await self._found(self.connection.asked(lambda js: js.purge_stream(self.name, subject=nothing)))
        return await read()

    async def _surely(self, read: Callable[[], Awaitable[tuple[T, bool]]]) -> T:
        """Return an answer; asked for again, for half a minute, while it lacks what there seems to have been.

        A server that is behind the others catches up; an isolated one ceases to lead sooner.

        :param read: returns the answer, and whether it is believed at once
        """
        end = time.monotonic() + PATIENCE
        answer, is_sure = await read()
        while not is_sure:
            answer, is_sure = await self._settled(read)
            if time.monotonic() >= end or (await self._now()).cluster is None:
                break
            await asyncio.sleep(PAUSE)
        return answer

    def reach(self) -> None:
        """Check once that the servers answer for the stream.

        :raises StoreUnavailable: they do not
        :raises ConfigurationError: it was changed, and cannot be a journal's any more
        :raises JournalFailed: it was deleted
        """
        self.connection.run(self._reach())

    async def _reach(self) -> None:
        if not self.connection.is_connected:
            raise self.connection.unavailable(self.connection.trouble)
        try:
            info = await self.connection.js.stream_info(self.name)
        except NotFoundError as error:
            raise self._deleted() from error
        except (NatsError, OSError, TimeoutError) as error:
            raise self.connection.unavailable(error) from error
        self._check_same(info)
        self._check_fit(info)

    def _check_fit(self, info: StreamInfo) -> None:
        """Check that the stream can be a journal's, and note its limits: both may change while it is used.

        :raises ConfigurationError: it cannot
        """
        if problem := unfit(info.config, self._config):
            raise ConfigurationError(f"{self._place} {problem}", option="journal.stream_name")
        self._longest = max(info.config.max_msg_size or 0, 0)
        self.max_bytes = max(info.config.max_bytes or 0, 0)

    def _check_same(self, info: StreamInfo) -> None:
        """Check that the stream is still the same.

        :raises JournalFailed: it was deleted, and another one has its name
        """
        created = self._created = self._created or info.created
        if info.created != created:
            raise JournalFailed(
                f"{self._place} was deleted, and another one was made in its place; restore it with its"
                " messages, then open the store again"
            )

    async def _found(self, asked: Awaitable[T]) -> T:
        try:
            return await asked
        except NotFoundError as error:
            raise self._deleted() from error

    def _deleted(self) -> JournalFailed:
        return JournalFailed(
            f"{self._place} was deleted; restore it with its messages, then open the store again"
        )

    def append(self, message: bytes, after: int) -> None:
        """Append a message if the stream ends with the sequence ``after``; it is on a quorum then.

        :raises LockLost: another process has appended; nothing was written, unless it is ``in_doubt``
        :raises StoreUnavailable: the stream is full, or cannot be reached; nothing was written
        :raises JournalFailed: the stream was deleted, ends before, or has an earlier message that it refused;
        nothing was written
        :raises OutcomeUnknown: the answer was lost, and whether it was written cannot be asked
        :raises LogMoved: another program has published a message there; nothing was written
        """
        self.connection.run(self._append(message, after))

    async def _append(self, message: bytes, after: int) -> None:
        end = time.monotonic() + PATIENCE
        in_doubt = False
        while True:
            failure: Exception = self.connection.trouble
            if self.connection.is_connected:
                outcome = await self._publish(message, after)
                if outcome is None:
                    return
                failure = outcome
                ends_elsewhere = getattr(failure, "err_code", None) == _WRONG_LAST
                try:
                    if ends_elsewhere and await self._was_appended(message, after, in_doubt=in_doubt):
                        return
                except JournalFailed as error:
                    failure = error
                if isinstance(failure, JournalFailed) and in_doubt:
                    raise OutcomeUnknown(f"{failure}; whether this was written is not known") from failure
                if isinstance(failure, StoreUnavailable) and not in_doubt:
                    raise failure
                in_doubt = in_doubt or _is_doubtful(failure)
            if time.monotonic() >= end:
                if in_doubt:
                    raise OutcomeUnknown(
                        f"{self._place} does not answer: {failure}; whether this was written is not known:"
                        " look for it before repeating it"
                    ) from failure
                raise self.connection.unavailable(failure) from failure
            await asyncio.sleep(PAUSE)

    async def _publish(self, message: bytes, after: int) -> Exception | None:
        """Try once to append; return why it failed: finally, if that is a :class:`StoreUnavailable`."""
        headers = {"Nats-Expected-Last-Sequence": str(after)}
        failure: Exception | None = None
        try:
            await self.connection.js.publish(
                self._subject, message, timeout=ANSWER, stream=self.name, headers=headers
            )
        except NoStreamResponseError as error:  # no server took it: there is no leader now, or no stream
            failure = APIError(description=str(error))
            try:
                await self.connection.js.stream_info(self.name)
            except NotFoundError:
                failure = self._deleted()
            except (NatsError, OSError, TimeoutError) as second:
                log.debug("the stream's servers do not answer", exc_info=second)
        except APIError as error:
            failure = _refused(self.connection, error)
            if error.err_code == _TOO_LONG:
                with contextlib.suppress(StoreError):
                    await self._now()  # the next message is in pieces
        except (NatsError, OSError, TimeoutError) as error:
            failure = self.connection.denial(self._subject) or error
        return failure

    async def _was_appended(self, message: bytes, after: int, *, in_doubt: bool) -> bool:
        """Return whether a message is there already, its answer lost; false if that is not decided yet, or
        cannot be asked.

        :raises LockLost: another process has appended instead, or since if it is ``in_doubt``
        :raises JournalFailed: the stream was deleted, ends before, or has an earlier message there
        :raises LogMoved: another program has published a message there
        """
        try:
            stored = await self._message(after + 1)
            if stored == message:
                return True
            if stored is not None and is_foreign(stored):
                raise LogMoved  # so an append behind ``after`` is refused, even if it is under way
            state = await self._surely(lambda: self._with(after))
        except JournalFailed:
            raise
        except StoreError as error:
            log.debug("whether a message was appended cannot be asked", exc_info=error)
            return False
        if stored is not None and _writer(stored) == _writer(message):
            raise JournalFailed(
                f"{self._place} has a message that its servers had refused: open the store again, and look"
                " for the write that failed before repeating it"
            )
        if stored is not None or state.first > after + 1:
            raise LockLost(
                f"another process has opened the journal in {self._place}, and appends to it now",
                in_doubt=in_doubt and stored is None,
            )
        if state.last < after:
            raise JournalFailed(
                f"{self._place} ends with message {state.last}, and message {after} was acknowledged: it"
                " was deleted, or its servers have lost acknowledged messages; restore it, then open the"
                " store again"
            )
        return False

    def message(self, at: int) -> bytes | None:
        """Return the message with a sequence; None if there is none.

        :raises StoreUnavailable: the servers do not answer
        """
        return self.connection.run(self._surely(lambda: self._message_or_not(at)))

    async def _message_or_not(self, at: int) -> tuple[bytes | None, bool]:
        """Return a message, and whether it is there, or there are later ones, or it was deleted."""
        message = await self._message(at)
        if message is not None:
            return message, True
        following = await self._next(at)
        return None, at in await self._deleted_ones() if following is None else following > at

    async def _message(self, at: int) -> bytes | None:
        try:
            message = await self.connection.asked(lambda js: js.get_msg(self.name, at))
        except NotFoundError:
            return None
        return message.data or b""

    def messages(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield the messages from one sequence to another that exist, each with its sequence.

        :raises StoreUnavailable: the servers do not answer
        """
        end = time.monotonic() + PATIENCE
        while first <= last:
            reader = None
            try:
                reader = self.connection.ask(partial(_reader, self.name, self._subject, first))
                while first <= last:
                    for at, data in _batch(self.connection, self._has_any, reader, (first, last)):
                        yield at, data
                        first = at + 1
                    end = time.monotonic() + PATIENCE
            except (NatsError, OSError, TimeoutError) as error:
                # The last ones may have been deleted, and a reader ends with its server.
                if not self.connection.run(self._has_any(first, last)):
                    return
                if time.monotonic() >= end:
                    raise self.connection.unavailable(error) from error
            finally:
                if reader is not None:
                    _forget(self.connection, reader)

    async def _has_any(self, first: int, last: int) -> bool:
        """Return whether there is a message from one sequence to another, up to which there were some."""

        async def following() -> tuple[int | None, bool]:
            number = await self._next(first)
            if number is not None:
                return number, True
            return None, (await self._deleted_ones()).issuperset(range(first, last + 1))

        number = await self._surely(following)
        return number is not None and number <= last

    async def _next(self, first: int) -> int | None:
        """Return the sequence of the first message from one on; None if there is none."""
        try:
            message = await self.connection.asked(
                lambda js: js.get_msg(self.name, first, next=True, subject=self._subject)
            )
        except NotFoundError:
            return None
        return int(message.seq)

    async def _deleted_ones(self) -> set[int]:
        """Return the sequences of messages that were deleted, and not purged; also a deposed leader knows."""
        asked = self.connection.asked(lambda js: _described(js, self.name))
        return {*((await self._found(asked))["state"].get("deleted") or ())}

    def purge(self, before: int) -> None:
        """Remove the messages before a sequence.

        :raises StoreUnavailable: the servers do not answer
        :raises JournalFailed: the stream was deleted
        """
        if before <= 1:
            return  # the servers take it for a purge of all messages
        self.connection.run(
            self._found(self.connection.asked(lambda js: js.purge_stream(self.name, seq=before)))
        )


async def _described(js: Any, stream: str) -> dict[str, Any]:
    """Return a stream as its leader describes it, with the sequences of deleted messages."""
    wanted = json.dumps({"deleted_details": True}).encode()
    answer: dict[str, Any] = await js._api_request(f"{js._prefix}.STREAM.INFO.{stream}", wanted, ANSWER)
    return answer


async def _reader(stream: str, subject: str, start: int, js: Any) -> Any:
    """Return what reads a stream from a sequence on."""
    return await js.pull_subscribe(
        subject,
        stream=stream,
        config=ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=start,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=2 * PATIENCE,
        ),
    )


def _batch(
    connection: NatsConnection,
    has_any: Callable[[int, int], Coroutine[Any, Any, bool]],
    reader: Any,
    of: tuple[int, int],
) -> list[tuple[int, bytes]]:
    """Return the next messages of a reader, from one sequence to another, in their order.

    :raises TimeoutError: not all came: messages sent to a lost connection are not sent
        again
    """
    first, last = of
    fetched = connection.run(reader.fetch(min(_READ_AT_ONCE, last + 1 - first), ANSWER))
    batch: list[tuple[int, bytes]] = []
    for message in fetched:
        at = message.metadata.sequence.stream
        if not first <= at <= last:
            continue  # another connection sends some again
        if at > first and connection.run(has_any(first, at - 1)):
            raise TimeoutError(f"message {first} did not come")
        batch.append((at, message.data))
        first = at + 1
    if not batch:  # the server ended the request
        raise TimeoutError("no messages came")
    return batch


def _forget(connection: NatsConnection, reader: Any) -> None:
    """End a reader without waiting: the interpreter may be ending, and the thread of the loop with it."""

    async def end() -> None:
        with contextlib.suppress(NatsError, OSError, TimeoutError):
            await reader.unsubscribe()

    connection.start(end)


async def _check_syncs(connection: NatsConnection, config: JournalConfig) -> None:
    """Check that the servers sync before they acknowledge, where that can be seen.

    :raises ConfigurationError: one does not
    """
    version = connection.version
    if version[:2] < _SYNCS_SINCE:
        raise ConfigurationError(
            f"{config.place} is of nats-server {'.'.join(map(str, version))}, which"
            " acknowledges before it syncs: sync = 'quorum_disk' needs 2.10 or later, with sync_interval:"
            " always in its configuration; or set sync = 'quorum_mem'",
            option="journal.sync",
        )
    for url in config.monitors:
        if not await asyncio.to_thread(_monitored, url):
            raise ConfigurationError(
                f"the nats-server that {url} monitors acknowledges before it syncs: set sync_interval:"
                " always in the jetstream section of its configuration, or sync = 'quorum_mem' here",
                option="journal.sync",
            )


def _refused(connection: NatsConnection, error: APIError) -> Exception:
    """Return the error for a refused message; a :class:`StoreUnavailable` is final: no server has it."""
    why, of_limits = error.description or "", error.err_code == _STORE_FAILED
    if error.err_code == _TOO_LONG:
        return StoreUnavailable(
            f"{connection.place} does not take messages of this size any more: its max_msg_size was lowered;"
            " try again"
        )
    if of_limits and "maximum messages" in why:
        return StoreUnavailable(
            f"{connection.place} takes no more messages ({why}): remove its limit of their number, with nats"
            " stream edit --max-msgs=-1 --max-msgs-per-subject=-1"
        )
    # Otherwise a server failed to store it, and the others may have it.
    is_full = "maximum bytes" in why if of_limits else error.err_code in FULL
    return connection.full(why) if is_full else error


def _is_doubtful(failure: Exception) -> bool:
    """Return whether a message that was sent may be written, or be written yet."""
    if isinstance(failure, APIError):
        return bool(failure.err_code == _STORE_FAILED)
    return not isinstance(failure, StoreUnavailable)


def gaps_of(state: Any) -> int:
    """Return how many messages were deleted between the first and the last one, as servers describe them."""
    return max(int(state.last_seq + 1 - max(state.first_seq, 1) - state.messages), 0)


def _writer(message: bytes) -> int | None:
    """Return who wrote a message; None if it is not a journal's."""
    try:
        return PieceHead.unpack(message).writer
    except ValueError:
        return None


def _subject_of(config: JournalConfig) -> str:
    return f"jdbcstore.journal.{config.stream_name}"


def unfit(config: StreamConfig, journal: JournalConfig) -> str:
    """Return why a stream cannot be that of a journal; empty if it can."""
    subject, replicas = _subject_of(journal), journal.replicas
    if [*(config.subjects or ())] != [subject]:
        return f"is not a journal's: its subjects should be {subject} alone; name another stream_name"
    if (config.num_replicas or 1) < replicas:
        return (
            f"has {config.num_replicas} replicas, and {replicas} are asked for: change it with nats stream"
            " edit --replicas, or set replicas"
        )
    limits = (config.max_msgs or 0, config.max_age or 0, config.max_msgs_per_subject or 0)
    if (
        config.retention != RetentionPolicy.LIMITS
        or config.storage != StorageType.FILE
        or config.discard != DiscardPolicy.NEW
        or any(limit > 0 for limit in limits)
    ):
        return (
            "would lose messages that were acknowledged: it must keep them in files, without a limit of age"
            " or number, and discard new ones when it is full"
        )
    if config.sealed or config.deny_purge or config.mirror or config.sources:
        return "must not be sealed or deny purges, and have neither mirror nor sources"
    if 0 < (config.max_msg_size or 0) < _LEAST_ROOM:
        return (
            f"takes messages of {config.max_msg_size} bytes at most, and {_LEAST_ROOM} are needed: raise"
            " max_msg_size, with nats stream edit --max-msg-size"
        )
    return ""


def _monitored(url: str) -> bool:
    """Return whether the server at a monitoring address syncs before it acknowledges.

    :raises StoreUnavailable: it does not say
    """
    try:
        with urlopen(f"{url}/varz", timeout=ANSWER) as answer:  # noqa: S310 - the configuration checks its scheme
            facts = json.load(answer)
        return bool(facts["jetstream"]["config"].get("sync_always"))
    except (OSError, ValueError, OverflowError, HTTPException, KeyError, TypeError, AttributeError) as error:
        raise StoreUnavailable(
            f"the monitoring of {url} does not answer as a nats-server with JetStream: {error!r}; correct"
            " stream_monitors, or leave it out"
        ) from error
