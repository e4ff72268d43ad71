"""A backend for Django's tasks, whose queues are shared with claims.

A task is a row of the table of tasks and a message in its queue. Both are written in the caller's
transaction, so the task exists if and only if that commits.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils import timezone

from jdbcstore import Claims, Message
from jdbcstore.plugins.django.connecting import open_claims, url_of
from jdbcstore.plugins.django.interface import (
    BaseTaskBackend,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
)

if TYPE_CHECKING:
    from jdbcstore.plugins.django.models import TaskRecord

_DAY = 86_400.0
_DEFAULTS: Mapping[str, Any] = {
    "database": DEFAULT_DB_ALIAS,
    "url": None,
    "lease": 30.0,
    "max_attempts": 7,
    "keep_results": 7 * _DAY,
}


class ClaimsBackend(BaseTaskBackend):  # type: ignore[misc]
    """Tasks in the project's own database, for ``BACKEND`` in ``TASKS``. Thread-safe.

    Its ``OPTIONS``: ``database``, the alias in ``DATABASES``; ``url``, a URL of the same database, if
    Django's settings cannot be expressed as one; ``lease``, the seconds after which another worker runs the
    task of a killed worker; ``max_attempts``, after which such a task has failed; ``keep_results``, the
    seconds for which results are kept, or None. It supports all features of a backend: ``supports_defer``,
    ``supports_async_task``, ``supports_get_result`` and ``supports_priority`` are true. Invalid options raise
    Django's error.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := self.options.keys() - _DEFAULTS.keys():
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}] has unknown options: {', '.join(sorted(unknown))}; valid options are "
                f"{', '.join(_DEFAULTS)}"
            )
        options = {**_DEFAULTS, **self.options}
        self.database: str = options["database"]
        """The alias of the database."""
        self.max_attempts: int = options["max_attempts"]
        """Attempts after which a task whose workers were killed has failed."""
        self.keep_results: float | None = options["keep_results"]
        """Seconds for which the results of finished tasks are kept."""
        self._url: str | None = options["url"]
        self._lease: float = options["lease"]
        if self.max_attempts < 1:
            raise ImproperlyConfigured(f"TASKS[{alias!r}]: max_attempts must be 1 or more")

    def claims(self) -> Claims:
        """Return the claims on the database, one for all threads of this process.

        :raises ConfigurationError: the database does not support claims
        :raises StoreUnavailable: the database does not answer
        :raises NotMaster: a broker or store with a locker uses the same database
        """
        return open_claims.get(self._url or url_of(connections[self.database]), self._lease)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Add a task in the open transaction, or else in its own; return its result, which is ready.

        Waiting workers are woken after the commit. This raises the errors of Django's database and of
        :meth:`claims`.
        """
        from jdbcstore.plugins.django.models import TaskRecord

        self.validate_task(task)
        record = TaskRecord(
            id=uuid.uuid4().hex,
            task_path=task.module_path,
            backend=self.alias,
            queue_name=task.queue_name,
            priority=task.priority,
            run_after=task.run_after,
            args=normalize_json(args),
            kwargs=normalize_json(kwargs),
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
        )
        result = record.result(task)
        message = Message(record.id, priority=level(task.priority), properties={"task": record.task_path})
        claims = self.claims()
        queue = claims.queue(task.queue_name)
        with transaction.atomic(using=self.database):
            record.save(force_insert=True, using=self.database)
            joined = claims.join(connections[self.database].connection)
            joined.add(queue.destination, message, delay=_seconds_until(task.run_after))
            transaction.on_commit(queue.wake, using=self.database)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task of any process.

        If the result does not exist, or is no longer kept, this raises Django's error.

        :raises ImportError: the task's function does not exist any more
        """
        record = self.record(str(result_id))
        if record is None or record.backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return record.result(record.task())

    def record(self, result_id: str) -> TaskRecord | None:
        """Return the row of a task, or None if there is none."""
        from jdbcstore.plugins.django.models import TaskRecord

        record: TaskRecord | None = TaskRecord.objects.using(self.database).filter(pk=result_id).first()
        return record

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """Yield problems of the project's settings, for ``manage.py check``."""
        yield from super().check(**kwargs)
        if not apps.is_installed("jdbcstore.plugins.django"):
            yield checks.Error(
                f"TASKS[{self.alias!r}] needs the table of its app",
                hint="Add 'jdbcstore.plugins.django' to INSTALLED_APPS, and run manage.py migrate.",
                id="jdbcstore.E001",
            )
        if self.database not in connections:
            yield checks.Error(
                f"TASKS[{self.alias!r}] names the database {self.database!r}, which is not in DATABASES",
                id="jdbcstore.E002",
            )


def level(priority: int) -> int:
    """Convert Django's priority, -100 to 100, to the priority of a message, 0 to 9; 0 becomes 4."""
    return (priority + 100) // 25 if priority <= 0 else 5 + (priority - 1) // 20


def _seconds_until(run_after: datetime | None) -> float:
    if run_after is None:
        return 0.0
    return max(0.0, (run_after - datetime.now(run_after.tzinfo)).total_seconds())
