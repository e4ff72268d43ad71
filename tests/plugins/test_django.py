"""Django's tasks on claims: the cases of a backend, and the documentation's project with a killed worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jdbcstore.testing.polling import wait_until
from tests.support.databases import Database
from tests.support.django import Project, output_of

pytestmark = pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql")


@pytest.fixture
def project(tmp_path: Path, database: Database) -> Project:
    return Project(tmp_path, database.url)


def test_the_cases_of_a_backend(project: Project) -> None:
    output_of(project.start("-m", "tests.support.django"))


ORDER = """
import json
import sys

import django

django.setup()
from django.core.management import call_command
from django.db import transaction

from shop.ordering import order
from tests.support.django.tasks import hangs

call_command("migrate", run_syncdb=True, verbosity=0)
ids = [hangs.enqueue("first").id, order("tea", "Ada")]
try:
    with transaction.atomic():
        order("nothing", "Nobody")
        raise InterruptedError
except InterruptedError:
    pass
ids += [order("coffee", "Bob"), hangs.enqueue("second").id, order("cocoa", "Cleo")]
print(json.dumps(ids))
"""

LOOK = """
import json
import sys

import django

django.setup()
from django.core.management import call_command

from jdbcstore.plugins.django.models import TaskRecord
from jdbcstore.testing.polling import wait_until
from shop.models import Order

def all_finished():
    call_command("jdbcstore_worker", batch=True, verbosity=0)
    return all(one.is_finished for one in TaskRecord.objects.all())

# The lease of the worker that was killed may have to end first.
wait_until(all_finished, 180.0, "the end of all tasks")
states = {one.id: [one.status, one.return_value, one.attempts] for one in TaskRecord.objects.all()}
print(json.dumps([states, [*Order.objects.order_by("id").values_list("what", "brewed")]]))
"""


def test_the_project_of_the_documentation_with_a_killed_worker(project: Project) -> None:
    """One worker is killed in a task, which the next one runs again; that one is asked to stop in a task."""
    first, tea, coffee, second, cocoa = json.loads(output_of(project.start("-c", ORDER)))
    project.environment["LEASE"] = "2"
    with project.manage("jdbcstore_worker") as killed:
        wait_until((project.directory / "first").exists, 180.0, "that the first worker runs a task")
        killed.kill()
    del project.environment["LEASE"]
    with project.manage("jdbcstore_worker") as stopped:
        wait_until((project.directory / "second").exists, 180.0, "that the second worker runs a task")
        stopped.terminate()
        assert "SIGTERM" in output_of(stopped)

    states, orders = json.loads(output_of(project.start("-c", LOOK)))
    assert orders == [["tea", True], ["coffee", True], ["cocoa", True]]
    assert states.pop(first) == ["SUCCESSFUL", 2, 2]
    assert states.pop(second) == ["SUCCESSFUL", 1, 1]
    assert [states.pop(id_)[0] for id_ in (tea, coffee, cocoa)] == ["SUCCESSFUL"] * 3
    letters = [["SUCCESSFUL", f"Thank you, {name}!", 1] for name in ("Ada", "Bob", "Cleo")]
    assert sorted(states.values()) == letters
