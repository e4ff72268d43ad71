"""The management of shared queues without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Protocol

from jdbcstore.broker.management.audit import Actor, audited
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.performing import Affected
from jdbcstore.broker.operations import OPERATIONS, NotARequest, Operation, OperationOutcome
from jdbcstore.errors import ConfigurationError
from jdbcstore.message.destination import Destination
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.shared_queues import HeldMessage, SharedNumbers

_DETAILS = {"queue": "destination", "sequence": "message"}
"""The names of values in the audit log, if they differ from the names in the path."""


class SharedQueues(Protocol):
    """The shared queues, with a method for each operation; all methods may block."""

    @property
    def may_change(self) -> bool:
        """Whether operations are available."""

    def numbers(self, keyed: str | None = None) -> SharedNumbers:
        """Return the numbers of all queues and workers; with ``queue``, also of the keys of this queue."""

    def held(self, queue: Destination, limit: int) -> Sequence[HeldMessage]:
        """Return the first claimed or delayed messages of a queue."""


class ClaimManagement:
    """The operations on shared queues, each in the audit log; see :class:`Performing`."""

    def __init__(self, claims: SharedQueues, clock: Clock | None = None) -> None:
        self.claims = claims
        self._clock = clock or SystemClock()

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The operations on shared queues."""
        return {
            name: operation
            for name, operation in OPERATIONS.items()
            if operation.part == "claims" and (operation.only_reads or self.claims.may_change)
        }

    async def perform(self, operation: Operation, actor: Actor, *values: Any, **arguments: Any) -> Any:
        """Run an operation in a thread.

        :raises NotARequest: a limit is invalid
        :raises StoreError: the operation failed
        """
        method = attrgetter(operation.call)(self)
        if operation.only_reads:
            return await asyncio.to_thread(method, *values, **arguments)
        names = (_DETAILS.get(name, name) for name in operation.path_names)
        details = {**dict(zip(names, values, strict=True)), **arguments}
        with audited(self._clock, actor, operation.name.replace("_", "-"), **details) as line:
            try:
                count = await asyncio.to_thread(method, *values, **arguments)
            except ConfigurationError as error:
                raise NotARequest(str(error)) from error
            if count is None:
                return None
            line["count"] = count
        return OperationOutcome(count=count)

    async def affected(self, destination: Destination, _: MessageChoice | None) -> Affected | None:
        """Count the unclaimed messages of a queue."""
        numbers = await asyncio.to_thread(self.claims.numbers)
        queue = next(
            (
                numbers_of_queue
                for numbers_of_queue in numbers.queues
                if numbers_of_queue.queue == destination.name
            ),
            None,
        )
        return None if queue is None else Affected(queue.free + queue.delayed)
