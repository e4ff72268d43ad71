"""The app for Django's tasks on claims."""

from __future__ import annotations

import logging
from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from jdbcstore.errors import StoreError

log = logging.getLogger(__name__)


class JdbcstoreConfig(AppConfig):  # type: ignore[misc]
    """The app, with the table of tasks and the worker's command."""

    name = "jdbcstore.plugins.django"
    label = "jdbcstore"
    verbose_name = "jdbcstore"

    def ready(self) -> None:
        """Open claims when a connection opens, before a transaction can block them."""
        connection_created.connect(_open_claims, dispatch_uid="jdbcstore")


def _open_claims(*, connection: Any, **_: Any) -> None:
    """Open the claims on an SQLite file now, because later a transaction may hold its only lock."""
    if connection.vendor != "sqlite" or connection.is_in_memory_db():
        return
    from jdbcstore.plugins.django.backend import ClaimsBackend
    from jdbcstore.plugins.django.interface import task_backends

    for backend in task_backends.all():
        if isinstance(backend, ClaimsBackend) and backend.database == connection.alias:
            try:
                backend.claims()
            except StoreError as error:
                log.warning("cannot enqueue tasks on %s yet: %s", connection.alias, error)
