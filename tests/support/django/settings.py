"""The settings of the project in docs/guide/django.md, on the database of a test."""

from __future__ import annotations

import json
import os
from typing import Any

import pymysql
from shop import settings

from jdbcstore.plugins.django.interface import BaseTaskBackend

pymysql.install_as_MySQLdb()

SECRET_KEY, INSTALLED_APPS, USE_TZ = settings.SECRET_KEY, settings.INSTALLED_APPS, settings.USE_TZ
DATABASES = {"default": json.loads(os.environ["DATABASE"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
_DEFAULT = settings.TASKS["default"]
TASKS: dict[str, Any] = {
    "default": {**_DEFAULT, "OPTIONS": {"lease": float(os.environ.get("LEASE", "30"))}},
    "other": {**_DEFAULT, "QUEUES": [], "OPTIONS": {"max_attempts": 2}},
    "dummy": {"BACKEND": f"{BaseTaskBackend.__module__.rpartition('.')[0]}.dummy.DummyBackend"},
}
