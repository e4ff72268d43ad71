"""Operations on the messages of a queue: remove, move, copy, change, retry; and on its deliveries."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jdbcstore.broker.engine import Engine
from jdbcstore.broker.entry import Entry
from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.master import CONNECTION, in_flight, queue_of
from jdbcstore.broker.management.messages import MessageChoice, addressed, browse, change, move
from jdbcstore.broker.management.runs import OperationRuns
from jdbcstore.broker.operations import OperationOutcome
from jdbcstore.broker.queues.queue import Queue
from jdbcstore.broker.queues.selection import Act, BatchSize
from jdbcstore.errors import InvalidDestination, InvalidMessage, StoreClosed
from jdbcstore.message.destination import Destination
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import Message

_BATCH = 200


class QueueOperations:
    """Operations on the messages of a queue, and on its deliveries.

    Messages are first hidden from consumers, so a removed or moved message is never delivered, and a message
    with a consumer is never removed. Each operation raises DestinationNotFound if the queue does not exist,
    InvalidDestination if it is a topic, and InvalidSelector for an invalid selector.
    """

    def __init__(self, *, audit: Audit, runs: OperationRuns) -> None:
        self._audit = audit
        self._runs = runs

    async def remove(
        self, actor: Actor, queue: Destination, choice: MessageChoice, *, name: str = "remove"
    ) -> OperationOutcome:
        """Remove the selected messages of a queue that arrived before this call, except unacknowledged ones.

        :raises StoreError: some of them could not be removed, and stay
        """
        return await self._carry_out(actor, name, queue, choice, lambda _, source: source.pending.acknowledge)

    async def move(
        self, actor: Actor, queue: Destination, choice: MessageChoice, to: Destination
    ) -> OperationOutcome:
        """Move the selected messages to another destination in order, each in one transaction.

        :raises InvalidDestination: it is the same as ``to``
        :raises StoreError: some of them could not be moved, and stay
        """

        def act(engine: Engine, source: Queue) -> Act:
            _check_target(queue, to)
            return partial(move, engine, source, to)

        return await self._carry_out(actor, "move", queue, choice, act, to=str(to))

    async def retry(self, actor: Actor, queue: Destination, choice: MessageChoice) -> OperationOutcome:
        """Move each selected message back to its original destination; messages of unknown origin stay.

        The message is as it was sent, without the dead letter's cause and without an expiration. This raises
        the errors of :meth:`move`.
        """
        unknown: list[MessageId | None] = []
        back = partial(self._carry_out, actor, "retry", queue, choice, unknown=unknown)
        outcome = await back(lambda engine, source: partial(move, engine, source, None))
        return replace(outcome, left=outcome.left + len(unknown))

    async def copy(
        self, actor: Actor, queue: Destination, choice: MessageChoice, to: Destination
    ) -> OperationOutcome:
        """Copy the selected messages to another destination, including unacknowledged ones.

        :raises InvalidDestination: it is the same as ``to``
        :raises StoreError: some of them could not be copied
        """
        size, batch = BatchSize(_BATCH), list[Message]()
        with self._audit.on_messages(actor, "copy", queue, choice, to=str(to)) as (engine, line):
            source = queue_of(engine, queue)
            _check_target(queue, to)
            with self._runs.run(actor, "copy", queue, source.size or 0) as run:

                async def send() -> None:
                    began = engine.loop.events.time()
                    await asyncio.gather(*[engine.send(copied, CONNECTION) for copied in batch])
                    size.took(len(batch), engine.loop.events.time() - began)
                    run.advance(len(batch), len(batch))
                    batch.clear()

                async for message in browse(engine, source, choice, choice.limit, last=source.arrived):
                    batch.append(addressed(engine, message, to))
                    if len(batch) >= size.value:
                        await send()
                        if run.is_stopped:
                            break
                await send()
                line["count"] = run.count
        return OperationOutcome(count=run.count, is_stopped=run.is_stopped)

    async def change(
        self,
        actor: Actor,
        queue: Destination,
        choice: MessageChoice,
        *,
        priority: int | None = None,
        expiration_ms: int | None = None,
    ) -> OperationOutcome:
        """Replace the selected messages by new ones with another priority or expiration, last in the queue.

        Each is replaced in one transaction, and gets a new message id.

        :param expiration_ms: epoch milliseconds; 0 is never
        :raises InvalidMessage: nothing to change, or the priority is invalid
        :raises StoreError: some of them could not be replaced, and stay
        """

        def act(engine: Engine, source: Queue) -> Act:
            if priority is None and expiration_ms is None:
                raise InvalidMessage("nothing to change; give a priority or an expiration")
            if priority is not None and not 0 <= priority <= 9:
                raise InvalidMessage(f"{priority} is not a priority; use one from 0 to 9")
            return partial(change, engine, source, priority=priority, expiration_ms=expiration_ms)

        return await self._carry_out(
            actor, "change", queue, choice, act, priority=priority, expiration_ms=expiration_ms
        )

    async def _carry_out(
        self,
        actor: Actor,
        name: str,
        queue: Destination,
        choice: MessageChoice,
        act_of: Callable[[Engine, Queue], Act],
        *,
        unknown: list[MessageId | None] | None = None,
        **details: Any,
    ) -> OperationOutcome:
        """Take the selected messages and process them.

        :param unknown: receives the ids of dead letters that stay because their origin is unknown; without
            it, the origin does not matter
        """
        with self._audit.on_messages(actor, name, queue, choice, **details) as (engine, line):
            source = queue_of(engine, queue)
            act, wanted = act_of(engine, source), choice.wanted()

            def chosen(message: Message) -> bool:
                if not wanted(message):
                    return False
                if unknown is None or message.original_destination is not None:
                    return True
                unknown.append(message.message_id)
                return False

            def checked(entries: Sequence[Entry]) -> Future[None]:
                if engine.is_stopping:
                    raise StoreClosed("the broker is stopping; use the next master")
                return act(entries)

            with self._runs.run(actor, name, queue, source.size or 0) as run:
                count = await source.take(
                    chosen,
                    checked,
                    most=choice.limit,
                    ids=choice.message_ids(),
                    goes_on=run.advance,
                )
                line["count"] = count
                left = sum(
                    entry.destination == queue and wanted(entry.message) for entry in in_flight(engine)
                )
                left = left if choice.limit is None else min(left, choice.limit - count)
                run.leave(left)
        return OperationOutcome(count=count, left=left, is_stopped=run.is_stopped)

    def stop(self, actor: Actor, run: str) -> None:
        """Stop a running operation after its current messages. Finished work is kept.

        :raises MessageNotFound: it is not running
        """
        with self._audit.operation(actor, "stop_operation", run=run):
            self._runs.stop(run)

    async def pause(self, actor: Actor, queue: Destination) -> None:
        """Pause the deliveries of a queue until ``resume``, also after a restart or failover.

        Consumers keep the messages that they have, and sent messages are stored.

        :raises StoreError: it is paused, but the store could not record that, so the pause ends with this
            process
        """
        with self._audit.operation(actor, "pause", destination=str(queue)) as (engine, line):
            queue_of(engine, queue).pause()
            await engine.destinations.pauses.add(queue, actor.user or actor.peer, line["time_ms"])

    async def resume(self, actor: Actor, queue: Destination) -> None:
        """Resume the deliveries of a queue.

        :raises StoreError: it is resumed, but the store could not record that, so the next master pauses it
            again
        """
        with self._audit.operation(actor, "resume", destination=str(queue)) as (engine, _):
            queue_of(engine, queue).resume()
            await engine.destinations.pauses.remove(queue)


def _check_target(queue: Destination, to: Destination) -> None:
    if to == queue:
        raise InvalidDestination(f"the messages are already in {queue}; name another destination")
