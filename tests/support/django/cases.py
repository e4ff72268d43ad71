"""What a backend of Django's tasks must do, and its worker: pytest's, in a process with Django's settings.

``python -m tests.support.django`` runs them; ``TASKS`` and ``DATABASES`` are those of the settings here.
"""

from __future__ import annotations

import logging
import unittest
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import django
import pytest
from django.core.exceptions import ImproperlyConfigured, SuspiciousOperation
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone
from shop.models import Order

from jdbcstore import Message
from jdbcstore.plugins.django.backend import ClaimsBackend
from jdbcstore.plugins.django.connecting import open_claims, url_of
from jdbcstore.plugins.django.interface import (
    Task,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from jdbcstore.plugins.django.models import OutboxMessage, TaskRecord
from jdbcstore.stores.jdbc.outbox import OutboxTable
from jdbcstore.testing import RawTables
from jdbcstore.testing.polling import wait_until
from tests.support import bad_messages
from tests.support.django import tasks

READY, FAILED, SUCCESSFUL = (getattr(TaskResultStatus, name) for name in ("READY", "FAILED", "SUCCESSFUL"))
logging.getLogger("django.tasks").addHandler(logging.NullHandler())
logging.getLogger("django_tasks").addHandler(logging.NullHandler())


def setUpModule() -> None:
    call_command("migrate", run_syncdb=True, verbosity=0)


def tearDownModule() -> None:
    connection.close()
    open_claims.close()


def work(*options: str) -> None:
    call_command("jdbcstore_worker", "--batch", *options)


class Case(unittest.TestCase):
    def setUp(self) -> None:
        tasks.ran.clear()
        self.backend: ClaimsBackend = task_backends["default"]

    def tearDown(self) -> None:
        TaskRecord.objects.all().delete()
        for name in ("default", "letters"):
            self.queue(name).purge()

    def queue(self, name: str = "default") -> Any:
        return self.backend.claims().queue(name)

    def set_row(self, result: Any, **values: Any) -> None:
        TaskRecord.objects.filter(pk=result.id).update(**values)


class Inserting(Case):
    def test_a_committed_row_becomes_a_message(self) -> None:
        session = self.backend.claims().database.session
        session.prepare_outbox()
        with transaction.atomic():
            OutboxMessage.objects.create(destination="letters", body="lost")
            transaction.set_rollback(True)
        OutboxMessage.objects.create(destination="letters", body="tea", properties={"cups": 2}, jms_type="t")
        [row] = OutboxTable(session).read(session.fetch, 10)
        message = row.message()
        assert (message.body, dict(message.properties), message.jms_type) == ("tea", {"cups": 2}, "t")
        assert (message.correlation_id, row.created_ms is None) == (None, False)

    def test_the_migrations_have_all_models(self) -> None:
        call_command("makemigrations", "jdbcstore", check=True, dry_run=True, verbosity=0)


class Enqueuing(Case):
    def test_a_result_is_ready_and_found_again(self) -> None:
        for task in (tasks.note, tasks.note_in_loop):
            before = timezone.now()
            result = task.enqueue("tea")
            assert (result.status, result.task) == (READY, task)
            assert (result.args, result.kwargs, result.attempts) == (["tea"], {}, 0)
            assert before <= result.enqueued_at <= timezone.now()
            assert result.started_at is None
            assert not result.is_finished
            assert task.get_result(result.id) == result
            with pytest.raises(ValueError, match="not finished"):
                _ = result.return_value
        assert self.queue().count() == (2, 2)

    def test_attributes_of_a_task_are_found_again(self) -> None:
        later = timezone.now() + timedelta(days=400)
        task = tasks.note.using(priority=-7, queue_name="letters", run_after=later)
        assert task.get_result(task.enqueue("tea", milk=None).id).task == task

    def test_a_rollback_leaves_nothing(self) -> None:
        results = []
        with transaction.atomic():
            results.append(tasks.note.enqueue("lost"))
            assert tasks.note.get_result(results[0].id) == results[0]
            transaction.set_rollback(True)
        with transaction.atomic():
            kept = tasks.note.enqueue("kept")
            with transaction.atomic():
                results.append(tasks.note.enqueue("lost with its savepoint"))
                transaction.set_rollback(True)
        for result in results:
            with pytest.raises(TaskResultDoesNotExist):
                tasks.note.get_result(result.id)
        work()
        kept.refresh()
        assert (kept.status, tasks.ran) == (SUCCESSFUL, ["kept"])

    @unittest.skipIf(connection.vendor == "sqlite", "its transactions lock each other out")
    def test_nobody_runs_it_before_the_commit(self) -> None:
        with transaction.atomic():
            result = tasks.note.enqueue("tea")
            assert self.queue().claim() == []
        work()
        assert tasks.note.get_result(result.id).status == SUCCESSFUL

    def test_arguments_that_are_not_json(self) -> None:
        with pytest.raises(TypeError, match="Unsupported type"):
            tasks.note.enqueue(datetime.now())
        assert (self.queue().count(), TaskRecord.objects.count()) == ((0, 0), 0)

    def test_the_backend_validates_again(self) -> None:
        task = tasks.note.using(queue_name="letters")
        ours = "jdbcstore.plugins.django.backend.ClaimsBackend"
        with override_settings(TASKS={"default": {"BACKEND": ours, "QUEUES": ["elsewhere"]}}):
            with pytest.raises(Exception, match="Queue 'letters' is not valid"):
                task.enqueue("tea")
            with pytest.raises(ImproperlyConfigured, match=r"'odd'.*unknown options: lase"):
                ClaimsBackend("odd", {"OPTIONS": {"lase": 1}})
        with pytest.raises(Exception, match="aware datetime"):
            task.using(run_after=datetime.now())

    def test_results_that_are_not_there(self) -> None:
        other = tasks.note_in_loop.enqueue("tea")
        with pytest.raises(TaskResultDoesNotExist):
            tasks.note.get_result("123")
        with pytest.raises(Exception, match="Task does not match"):
            tasks.note.get_result(other.id)
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["other"].get_result(other.id)

    def test_results_whose_task_is_not_there(self) -> None:
        result = tasks.note.enqueue("tea")
        self.set_row(result, task_path="subprocess.run")
        with pytest.raises(SuspiciousOperation, match=r"subprocess\.run is not a task"):
            self.backend.get_result(result.id)
        self.set_row(result, task_path="tests.support.django.tasks.gone")
        with pytest.raises(ImportError):
            self.backend.get_result(result.id)

    def test_checks(self) -> None:
        assert list(self.backend.check()) == []
        elsewhere = ClaimsBackend("odd", {"OPTIONS": {"database": "elsewhere"}})
        with override_settings(INSTALLED_APPS=[]):
            assert [one.id for one in elsewhere.check()] == ["jdbcstore.E001", "jdbcstore.E002"]


class InCoroutines(Case, unittest.IsolatedAsyncioTestCase):
    async def test_the_same_in_coroutines(self) -> None:
        result = await tasks.note_in_loop.aenqueue("tea")
        assert await tasks.note_in_loop.aget_result(result.id) == result
        await result.arefresh()
        assert result.status == READY
        with pytest.raises(TaskResultDoesNotExist):
            await tasks.note.aget_result("123")
        with pytest.raises(TypeError, match="Unsupported type"):
            await tasks.note.aenqueue(datetime.now())


class Running(Case):
    def test_tasks_and_coroutines_succeed(self) -> None:
        results = [tasks.note.enqueue("tea", milk=True), tasks.note_in_loop.enqueue("coffee")]
        work()
        for result in results:
            result.refresh()
            assert (result.status, result.return_value) == (SUCCESSFUL, result.args[0])
            assert result.enqueued_at <= result.started_at <= result.finished_at
            assert result.last_attempted_at == result.started_at
            assert (result.attempts, result.errors) == (1, [])
        assert (tasks.ran, self.queue().count()) == (["tea", "coffee"], (0, 0))

    def test_signals_and_context(self) -> None:
        seen: list[tuple[str, Any, str]] = []

        def see(name: str, sender: Any, task_result: Any, **_: Any) -> None:
            seen.append((name, sender, task_result.status))

        signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
        receivers = {name: partial(see, name) for name in signals}
        for name, one in signals.items():
            one.connect(receivers[name])
        result = tasks.attempt.enqueue(add=10)
        work()
        for name, one in signals.items():
            one.disconnect(receivers[name])
        result.refresh()
        assert result.return_value == [result.id, 11, "RUNNING"]
        states = {"enqueued": "READY", "started": "RUNNING", "finished": "SUCCESSFUL"}
        assert seen == [(name, ClaimsBackend, state) for name, state in states.items()]

    def test_failures(self) -> None:
        kinds = {
            "exit": (SystemExit, "SystemExit: it has had enough\n"),
            "interrupt": (KeyboardInterrupt, "KeyboardInterrupt: nobody pressed a key\n"),
            "nested": (ValueError, "ValueError: \\0 and \\ud800\n"),
            "value": (TypeError, "Unsupported type: <class 'object'>\n"),
            "other": (LookupError, "LookupError: other\n"),
        }
        kinds["database"] = (django.db.OperationalError, "OperationalError: of the task's own\n")
        results = {kind: tasks.fails.enqueue(kind) for kind in kinds}
        with self.assertLogs(Task.__module__.rpartition(".")[0], "ERROR") as logs:
            work()
        assert len(logs.records) == len(kinds)
        for kind, (exception, end) in kinds.items():
            result = results[kind]
            result.refresh()
            [error] = result.errors
            assert (kind, result.status, error.exception_class) == (kind, FAILED, exception)
            assert error.traceback.endswith(end) or kind == "nested", error.traceback
            with pytest.raises(ValueError, match="Task failed"):
                _ = result.return_value

    def test_a_value_that_not_every_database_can_store(self) -> None:
        result = tasks.returns_a_nul.enqueue()
        work()
        result.refresh()
        if connection.vendor == "postgresql":
            assert [one.exception_class for one in result.errors] == [django.db.DataError]
        else:
            assert result.return_value == "\x00"

    def test_higher_priorities_and_earlier_tasks_are_first(self) -> None:
        for name, priority in (("c", -60), ("b", 0), ("a", 100), ("d", -100), ("b2", 0)):
            tasks.note.using(priority=priority).enqueue(name)
        work()
        assert tasks.ran == ["a", "b", "b2", "c", "d"]

    def test_a_task_is_not_run_before_its_time(self) -> None:
        tasks.note.using(run_after=timezone.now() - timedelta(days=1)).enqueue("early")
        late = tasks.note.using(run_after=timezone.now() + timedelta(hours=2)).enqueue("late")
        work()
        assert (tasks.ran, self.queue().count()) == (["early"], (1, 0))
        with connection.cursor() as cursor:
            cursor.execute("UPDATE JDBCSTORE_CLAIMS SET DUE = 1")

        def has_run() -> bool:
            work()
            return tasks.ran == ["early", "late"]

        wait_until(has_run, 30.0, "that the late task has run")
        late.refresh()
        assert late.status == SUCCESSFUL

    def test_queues(self) -> None:
        tasks.note.using(queue_name="letters").enqueue("letter")
        tasks.note.enqueue("tea")
        work("--queue", "letters")
        assert tasks.ran == ["letter"]
        work()
        assert tasks.ran == ["letter", "tea"]
        for options, message in (
            (("--queue", "odd"), "odd: it is not in QUEUES"),
            (("--backend", "odd"), "'odd'"),
            (("--backend", "dummy"), "is not jdbcstore's"),
            (("--backend", "other"), "has no QUEUES"),
        ):
            with pytest.raises(CommandError, match=message):
                work(*options)

    def test_messages_without_a_task(self) -> None:
        finished, gone = tasks.note.enqueue("finished"), tasks.note.enqueue("gone")
        unknown = tasks.note.enqueue("unknown")
        self.set_row(finished, status=SUCCESSFUL)
        self.set_row(unknown, task_path="tests.support.django.tasks.gone")
        TaskRecord.objects.filter(pk=gone.id).delete()
        self.queue().add(Message("of another program"))
        with self.assertLogs("jdbcstore", "ERROR"):
            work()
        assert (tasks.ran, self.queue().count()) == ([], (0, 0))
        letters = self.backend.claims().queue("ActiveMQ.DLQ")
        bodies = [claim.message.body for claim in letters.claim(9)]
        letters.purge()
        assert bodies == [gone.id, "of another program"]
        record = TaskRecord.objects.get(pk=unknown.id)
        assert (record.status, record.errors[0]["exception_class_path"]) == (FAILED, "builtins.ImportError")

    def test_bad_messages(self) -> None:
        database, kept = RawTables(url_of(connection)), 0
        for case in bad_messages.CASES:
            with self.subTest(case):
                bad_messages.add(self.backend.claims(), database, "default", case)
                tasks.note.enqueue(case)
                with self.assertLogs("jdbcstore", "ERROR"):
                    work()
                kept += case in bad_messages.KEPT
                assert (tasks.ran.pop(), self.queue().count()) == (case, (kept, 0))
        [(letters,)] = database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
        database.execute("DELETE FROM ACTIVEMQ_MSGS")
        assert letters == len(bad_messages.CASES)

    def test_workers_that_end_too_often(self) -> None:
        result = tasks.note.using(backend="other").enqueue("tea")
        queue = task_backends["other"].claims().queue("default")
        queue.reject(*queue.claim())
        queue.reject(*queue.claim(wait=30.0))

        def has_ended() -> bool:
            work("--backend", "other", "--queue", "default")
            result.refresh()
            return bool(result.is_finished)

        with self.assertLogs("jdbcstore.plugins.django", "ERROR"):
            wait_until(has_ended, 30.0, "the end of the task")
        assert "2 workers died while running this task" in result.errors[0].traceback
        assert (result.attempts, tasks.ran) == (0, [])

    def test_old_results_are_removed(self) -> None:
        results = [tasks.note.enqueue(name) for name in ("old", "kept")]
        work()
        for result, hours in zip(results, (170, 160), strict=True):
            self.set_row(result, finished_at=timezone.now() - timedelta(hours=hours))
        tasks.note.using(run_after=timezone.now() + timedelta(hours=2)).enqueue("not finished")
        work()
        with pytest.raises(TaskResultDoesNotExist):
            results[0].refresh()
        assert TaskRecord.objects.count() == 2

    def test_a_worker_whose_claim_was_lost_records_nothing(self) -> None:
        result = tasks.is_begun_elsewhere.enqueue()
        with self.assertLogs("jdbcstore.plugins.django.worker", "WARNING") as logs:
            work()
        result.refresh()
        assert result.status == TaskResultStatus.RUNNING
        assert "another worker has started it again" in logs.output[0]

    def test_a_transaction_that_a_task_leaves_open(self) -> None:
        result = tasks.leaves_a_transaction_open.enqueue()
        work()
        result.refresh()
        assert (result.status, Order.objects.count()) == (SUCCESSFUL, 0)
