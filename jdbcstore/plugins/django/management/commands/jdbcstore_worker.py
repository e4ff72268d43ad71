"""The command ``manage.py jdbcstore_worker``."""

from __future__ import annotations

import logging
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from jdbcstore.errors import StoreError
from jdbcstore.plugins.django.backend import ClaimsBackend
from jdbcstore.plugins.django.interface import task_backends
from jdbcstore.plugins.django.worker import Worker


@contextmanager
def _logged() -> Iterator[None]:
    """Print the worker's log in the block, unless the project's LOGGING has a handler for it."""
    logger = logging.getLogger("jdbcstore.plugins.django")
    if logger.hasHandlers():
        yield
        return
    handler, level = logging.StreamHandler(), logger.level
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level or logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class Command(BaseCommand):  # type: ignore[misc]
    """Runs the tasks of a backend; see :class:`jdbcstore.plugins.django.worker.Worker`."""

    help = (
        "Run tasks, one at a time, until SIGTERM or SIGINT. Start several workers to run tasks in parallel."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("--backend", default="default", help="the alias in TASKS (%(default)s)")
        parser.add_argument(
            "--queue",
            action="append",
            dest="queues",
            help="a queue of the backend; may be repeated (all QUEUES of the backend)",
        )
        parser.add_argument("--batch", action="store_true", help="end when no task is left")

    def handle(
        self, *, backend: str, queues: list[str] | None, batch: bool, verbosity: int, **_: Any
    ) -> None:
        """Run tasks. Wrong options and an unusable database are errors of the command."""
        try:
            worker_backend = task_backends[backend]
        except ImproperlyConfigured as error:
            raise CommandError(f"--backend {backend}: {error}") from error
        if not isinstance(worker_backend, ClaimsBackend):
            raise CommandError(f"--backend {backend}: its BACKEND in TASKS is not jdbcstore's")
        names = queues or sorted(worker_backend.queues)
        if not names:
            raise CommandError(f"TASKS[{backend!r}] has no QUEUES: name each queue with --queue")
        if worker_backend.queues and (unknown := {*names} - worker_backend.queues):
            raise CommandError(f"--queue {min(unknown)}: it is not in QUEUES of TASKS[{backend!r}]")
        try:
            worker = Worker(worker_backend, names, batch=batch)
            worker.stop_on_signals()
            with _logged() if verbosity else nullcontext():
                worker.run()
        except StoreError as error:
            raise CommandError(str(error)) from error
