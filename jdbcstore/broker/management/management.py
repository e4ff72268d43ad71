"""The management of a running broker: views and operations for administrators.

All code runs on the broker's loop and by the broker's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import isawaitable
from operator import attrgetter
from pathlib import Path
from typing import Any

from jdbcstore.broker.management.audit import Actor, Audit
from jdbcstore.broker.management.baselines import Baselines
from jdbcstore.broker.management.broker import BrokerOperations
from jdbcstore.broker.management.destinations import DestinationOperations
from jdbcstore.broker.management.history import CounterHistory
from jdbcstore.broker.management.holds import HoldOperations
from jdbcstore.broker.management.inside import BrokerInside, LogTail
from jdbcstore.broker.management.master import CurrentMaster, Managed
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.broker.management.performing import Affected, affected
from jdbcstore.broker.management.queues import QueueOperations
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.runs import OperationRuns
from jdbcstore.broker.management.scheduled import ScheduledOperations
from jdbcstore.broker.management.subscriptions import SubscriptionOperations
from jdbcstore.broker.management.watch import BrokerWatch
from jdbcstore.broker.operations import OPERATIONS, Operation
from jdbcstore.broker.security import AllowAll
from jdbcstore.config import Configuration
from jdbcstore.message.destination import Destination
from jdbcstore.util.clock import Clock, SystemClock


class Management:
    """Views and operations of one broker; call the methods on its loop.

    ``views`` has the views, ``watch`` the alarms, and ``inside`` the configuration and the log. ``broker``,
    ``destinations``, ``queues`` and ``subscriptions`` have the operations on these, ``scheduled`` the
    operations on scheduled messages, ``holds`` the operations that consume. Each operation is logged, see
    :mod:`jdbcstore.broker.management.audit`, and raises :class:`~jdbcstore.errors.NotMaster` while the broker
    is not serving.

    :param folders: the folders whose disks are watched
    :param inside: the configuration, the users and the log of the process; by default there are none
    """

    def __init__(
        self,
        process: Managed,
        clock: Clock | None = None,
        *,
        folders: Iterable[Path] = (),
        inside: BrokerInside | None = None,
    ) -> None:
        clock = clock or SystemClock()
        master, baselines = CurrentMaster(process), Baselines()
        audit = Audit(clock, master)
        runs = OperationRuns(clock)
        history = CounterHistory()
        self.views = Views(master=master, baselines=baselines, runs=runs, history=history, clock=clock)
        self.inside = inside or BrokerInside(Configuration(), AllowAll(), LogTail())
        self.watch = BrokerWatch(self.views, history, clock, folders)
        self.broker = BrokerOperations(audit=audit, master=master)
        self.queues = QueueOperations(audit=audit, runs=runs)
        self.destinations = DestinationOperations(
            audit=audit, baselines=baselines, queues=self.queues, runs=runs
        )
        self.subscriptions = SubscriptionOperations(audit=audit, runs=runs)
        self.scheduled = ScheduledOperations(audit=audit, master=master)
        self.holds = HoldOperations(audit=audit, clock=clock)

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The operations on a broker."""
        return {name: operation for name, operation in OPERATIONS.items() if hasattr(self, operation.part)}

    async def affected(self, destination: Destination, choice: MessageChoice | None) -> Affected | None:
        """Count the messages that an operation would affect, see :meth:`Performing.affected`."""
        return await affected(self.views, destination, choice)

    async def perform(self, operation: Operation, actor: Actor, *values: Any, **arguments: Any) -> Any:
        """Run an operation of :data:`jdbcstore.broker.operations.OPERATIONS`, and return its result.

        :param values: the parameters in its path
        :raises StoreError: the errors of its method
        """
        method = attrgetter(operation.call)(self)
        result = method(*([] if operation.only_reads else [actor]), *values, **arguments)
        return await result if isawaitable(result) else result
