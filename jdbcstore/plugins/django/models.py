"""The table of tasks and their results, and the outbox."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.db import connection, models
from django.utils.module_loading import import_string

from jdbcstore.plugins.django.interface import Task, TaskError, TaskResult, TaskResultStatus

OUTBOX = "JDBCSTORE_OUTBOX" if connection.vendor == "mysql" else "jdbcstore_outbox"
"""The outbox of the default database, in the case of its tables."""


class TaskRecord(models.Model):  # type: ignore[misc]
    """An enqueued task and its result. The message in its queue has only the ``id``."""

    id = models.CharField(primary_key=True, max_length=32, editable=False)
    """The id of the task's result."""
    task_path = models.TextField()
    """The place of the task: its module and its name."""
    backend = models.CharField(max_length=100)
    """The alias in ``TASKS``."""
    queue_name = models.CharField(max_length=200)
    """The queue."""
    priority = models.SmallIntegerField()
    """Django's, from -100 to 100."""
    run_after = models.DateTimeField(null=True)
    """The earliest time to run the task."""
    args = models.JSONField()
    """The arguments."""
    kwargs = models.JSONField()
    """The keyword arguments."""
    status = models.CharField(max_length=10)
    """One of ``TaskResultStatus``."""
    enqueued_at = models.DateTimeField()
    """The time of enqueueing."""
    started_at = models.DateTimeField(null=True)
    """The time of the first attempt."""
    last_attempted_at = models.DateTimeField(null=True)
    """The time of the last attempt."""
    finished_at = models.DateTimeField(null=True)
    """The time of success or failure."""
    attempts = models.IntegerField(default=0)
    """The number of started attempts."""
    worker_ids = models.JSONField(default=list)
    """The worker of each attempt."""
    return_value = models.JSONField(null=True)
    """The return value."""
    errors = models.JSONField(default=list)
    """The path and the traceback of each exception."""

    class Meta:
        """The table's name and indexes."""

        app_label = "jdbcstore"
        db_table = "jdbcstore_django_task"
        indexes = (models.Index(fields=["finished_at"], name="jdbcstore_django_finished"),)

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.status in (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED)

    def task(self) -> Any:
        """Return the task as it was enqueued. Another object in its place is Django's SuspiciousOperation.

        :raises ImportError: the task does not exist any more
        """
        function = import_string(self.task_path)
        if not isinstance(function, Task):
            raise SuspiciousOperation(f"{self.task_path} is not a task")
        return function.using(
            priority=self.priority,
            queue_name=self.queue_name,
            run_after=self.run_after,
            backend=self.backend,
        )

    def result(self, task: Any) -> Any:
        """Return the state of the task as a ``TaskResult``."""
        result = TaskResult(
            task=task,
            id=self.id,
            status=TaskResultStatus(self.status),
            enqueued_at=self.enqueued_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            last_attempted_at=self.last_attempted_at,
            args=self.args,
            kwargs=self.kwargs,
            backend=self.backend,
            errors=[TaskError(**error) for error in self.errors],
            worker_ids=list(self.worker_ids),
        )
        object.__setattr__(result, "_return_value", self.return_value)
        return result

    def __str__(self) -> str:
        return f"{self.task_path} {self.id} {self.status}"


class OutboxMessage(models.Model):  # type: ignore[misc]
    """A row of JDBCSTORE_OUTBOX, which Django does not create.

    ``OutboxMessage.objects.create`` sends in the caller's transaction. Its fields are ``id``,
    ``destination``, ``body``, ``body_bytes``, ``body_type``, ``properties``, ``priority``, ``persistent``,
    ``delay``, ``expires``, ``correlation_id``, ``reply_to``, ``jms_type``, ``group_id`` and ``send_id``; see
    docs/guide/outbox.md.
    """

    id = models.BigAutoField(primary_key=True)
    destination = models.CharField(max_length=250)
    body = models.TextField(null=True)
    body_bytes = models.BinaryField(null=True)
    body_type = models.CharField(max_length=250, null=True)
    properties = models.JSONField(null=True)
    priority = models.BigIntegerField(null=True)
    persistent = models.BigIntegerField(null=True)
    delay = models.BigIntegerField(null=True)
    expires = models.BigIntegerField(null=True)
    correlation_id = models.CharField(max_length=250, null=True)
    reply_to = models.CharField(max_length=250, null=True)
    jms_type = models.CharField(max_length=250, null=True)
    group_id = models.CharField(max_length=250, null=True)
    send_id = models.CharField(max_length=250, null=True)

    class Meta:
        """The table's name, with the case of each vendor."""

        app_label = "jdbcstore"
        db_table = OUTBOX
        managed = False

    def __str__(self) -> str:
        return f"{self.destination} {self.id}"
