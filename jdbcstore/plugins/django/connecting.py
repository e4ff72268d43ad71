"""The URL of a Django database, for claims in the same database."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured

from jdbcstore import Claims
from jdbcstore.plugins.opened import OpenOnce

_WITHOUT_EFFECT = {
    *("assume_role", "isolation_level", "pool", "server_side_binding"),
    *("charset", "init_command", "sql_mode"),
    *("timeout", "transaction_mode"),
}
"""Options of a Django database that do not matter to other connections."""
_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_SOCKET = {"postgresql": "host", "mysql": "unix_socket"}


def url_of(connection: Any) -> str:
    """Return the URL of a Django connection's database.

    If a URL cannot express the connection, this raises Django's ImproperlyConfigured.
    """
    settings, vendor = connection.settings_dict, connection.vendor
    name = str(settings["NAME"])
    unknown = settings["OPTIONS"].keys() - _WITHOUT_EFFECT
    if unknown:
        raise _refusal(connection, f"has unknown options ({', '.join(sorted(unknown))})")
    if vendor == "sqlite":
        if connection.is_in_memory_db() or name.startswith("file:"):
            raise _refusal(connection, "is in memory or a URI, which no other process can share")
        return f"sqlite:///{os.path.abspath(name)}"
    if vendor not in _DRIVERS:
        raise _refusal(connection, f"is {vendor}, which does not support claims")
    driver = _DRIVERS[vendor]
    if vendor == "mysql" and connection.mysql_is_mariadb:
        driver = "mariadb+pymysql"
    user, password, host, port = (str(settings[key] or "") for key in ("USER", "PASSWORD", "HOST", "PORT"))
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "") + "@" * bool(user)
    query = {_SOCKET[vendor]: host} if host.startswith("/") else {}
    if query and vendor == "postgresql" and port:
        query["port"] = port  # the name of the socket contains the port
    place = f"[{host}]" if ":" in host else host
    address = "" if query else f"{place}:{port}" if port else place
    return f"{driver}://{login}{address}/{name}" + (f"?{urlencode(query)}" if query else "")


def _refusal(connection: Any, why: str) -> ImproperlyConfigured:
    advice = "set OPTIONS['url'] of the backend in TASKS to a URL of the same database"
    if connection.vendor == "sqlite":
        advice = "use a file, or another backend in tests"
    return ImproperlyConfigured(f"the database {connection.alias!r} {why}: {advice}")


def _open(url: str, lease: float) -> Claims:
    # The worker limits the attempts of a task, and records them.
    return Claims(url, lease=lease, max_redeliveries=-1)


open_claims = OpenOnce(_open)
"""The open claims of this process for Django's tasks."""
