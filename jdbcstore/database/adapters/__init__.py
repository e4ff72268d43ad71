"""The vendors, and how a URL finds its adapter."""

from __future__ import annotations

from sqlalchemy import URL

from jdbcstore.config.urls import parse_url
from jdbcstore.database.adapters.activemq import adapter_of_activemq
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.registry import (
    adapter_class,
    adapter_names,
    adapter_of_scheme,
    adapter_of_subprotocol,
)
from jdbcstore.database.adapters.urls import is_jdbc, subprotocol, without_secrets
from jdbcstore.errors import ConfigurationError

__all__ = [
    "adapter_class",
    "adapter_for",
    "adapter_names",
    "adapter_of_activemq",
    "without_secrets",
]


def adapter_for(text: str, override: str | None = None) -> tuple[Adapter, URL]:
    """The adapter of a SQLAlchemy or JDBC URL, and the URL with its driver filled in.

    ``override`` names an adapter to use in place of the one that the URL names; see
    :func:`~jdbcstore.database.adapters.registry.adapter_class`.

    :raises UnknownDatabase: no adapter serves the scheme, or there is none of that name
    :raises MissingDriver: the driver is not installed
    :raises ConfigurationError: the text is no URL
    """
    chosen = None if override is None else _chosen(override)
    if is_jdbc(text):
        kind = chosen or adapter_of_subprotocol(subprotocol(text))
        url = kind.url_from_jdbc(text)
    else:
        url = parse_url(text)
        kind = chosen or adapter_of_scheme(url.get_backend_name())
        url = kind.with_driver(url)
    adapter = kind()
    adapter.check_driver(url)
    return adapter, adapter.normalise(url)


def _chosen(override: str) -> type[Adapter]:
    try:
        return adapter_class(override)
    except ConfigurationError as error:
        error.option = "adapter"
        raise
